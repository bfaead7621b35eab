//! Which plans wait for the end of which: written with an entry, or not at all.

use turnwheel_engine::store::{Append, Filter, PlanRow, Verdict};
use turnwheel_engine::PlanState;

use super::place::*;

fn follows(number: u8, prev: u64, follow: &[u8], unfollow: &[u8]) -> Append {
    let plans = |numbers: &[u8]| numbers.iter().map(|number| plan(*number)).collect();
    Append { follow: plans(follow), unfollow: plans(unfollow), ..entry(number, prev, "") }
}

fn stopped(number: u8, head: u64) -> PlanRow {
    PlanRow { state: PlanState::Stopped, ..row(number, head) }
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

pub(crate) fn a_plan_that_another_one_waits_for_is_needed(place: &Place) {
    let (mut writer, mut reader) = place.ends();
    append(&mut *writer, &[entry(1, 0, "a"), entry(2, 0, "b"), follows(3, 0, &[1], &[])]);
    write_rows(&mut *writer, &[stopped(1, 1), stopped(2, 2)], 2);
    let mut unneeded = || {
        let rows = reader.list(&Filter { is_unneeded: true, ..Filter::default() });
        rows.expect("it lists").into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(unneeded(), [plan(2)]);
    append(&mut *writer, &[follows(3, 3, &[], &[1])]);
    assert_eq!(unneeded(), [plan(2), plan(1)]);
}
