//! Which plans wait for the end of which: written with an entry, or not at all.

use turnwheel_engine::store::{Append, Verdict};

use crate::place::*;

fn follows(number: u8, prev: u64, follow: &[u8], unfollow: &[u8]) -> Append {
    let plans = |numbers: &[u8]| numbers.iter().map(|number| plan(*number)).collect();
    Append { follow: plans(follow), unfollow: plans(unfollow), ..entry(number, prev, "") }
}

pub(crate) fn who_waits_for_a_plan_is_kept_until_it_waits_no_more(place: &Place) {
    let (mut writer, mut reader) = place.ends();
    append(&mut *writer, &[follows(3, 0, &[2, 1], &[]), follows(4, 0, &[1], &[])]);
    let all = [(plan(1), plan(3)), (plan(1), plan(4)), (plan(2), plan(3))];
    assert_eq!(reader.followers().expect("it answers"), all);
    append(&mut *writer, &[follows(3, 1, &[1], &[]), follows(4, 2, &[], &[2])]);
    assert_eq!(reader.followers().expect("it answers"), all, "nothing new, and nothing to take");
    drop(writer);
    let mut writer = place.store.writer().expect("another writer");
    append(&mut *writer, &[follows(3, 3, &[], &[1])]);
    assert_eq!(reader.followers().expect("it answers"), [all[1], all[2]]);
    append(&mut *writer, &[follows(3, 5, &[], &[2]), follows(4, 4, &[], &[1])]);
    assert_eq!(reader.followers().expect("it answers"), []);
}

pub(crate) fn a_refused_entry_follows_nobody(place: &Place) {
    let (mut writer, mut reader) = place.ends();
    append(&mut *writer, &[keyed(1, "key")]);
    let refused = Append { key: Some("key".to_owned()), ..follows(2, 0, &[1], &[]) };
    assert_eq!(append(&mut *writer, &[refused]), [Verdict::KeyTaken(plan(1))]);
    assert_eq!(reader.followers().expect("it answers"), []);
}
