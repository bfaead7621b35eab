//! Large values, which stores keep apart.

use turnwheel_engine::store::aside::Parts;
use turnwheel_engine::store::{Append, PlanRow, Verdict};
use turnwheel_engine::StoreError;

use super::place::*;

const LARGE: &[u8] = &[7; 100_000];

/// An entry with two large values, one of them twice.
fn parts() -> Parts<'static> {
    let values = vec![([1; 32], LARGE), ([2; 32], &LARGE[1..]), ([1; 32], LARGE)];
    Parts { body: b"body", values }
}

fn large(number: u8, prev: u64, records: Vec<u8>) -> Append {
    Append { records, ..entry(number, prev, "") }
}

pub(crate) fn large_values_come_back_with_what_they_are_part_of(place: &Place) {
    let (mut writer, mut reader) = place.ends();
    let whole = parts().whole();
    assert_eq!(turnwheel_engine::store::aside::parts(&whole), Some(parts()));
    append(&mut *writer, &[large(1, 0, whole.clone()), entry(2, 0, "small")]);
    let other = Parts { body: b"other", values: vec![([2; 32], &LARGE[1..])] }.whole();
    append(&mut *writer, &[large(1, 1, other.clone())]);

    let loaded = reader.load(plan(1), Some(3)).expect("it is read").expect("it is there");
    assert_eq!(bytes_of(loaded.entries), [whole.clone(), other.clone()]);
    let history = reader.history(plan(1), 3).expect("it is done");
    assert_eq!(history, [(1, whole.clone()), (3, other.clone())]);
    let journal = reader.journal(0, 10).expect("it is done");
    let journal: Vec<_> = journal.into_iter().map(|written| written.records).collect();
    assert_eq!(journal, [whole.clone(), b"small".to_vec(), other.clone()]);

    // A snapshot has the values of the entries before it, and may have others.
    let values = vec![([2; 32], &LARGE[1..]), ([3; 32], &LARGE[2..])];
    let snapshot = Parts { body: b"all", values }.whole();
    write_rows(&mut *writer, &[PlanRow { snapshot: Some((3, snapshot.clone())), ..row(1, 3) }], 3);
    let loaded = reader.load(plan(1), None).expect("it is read").expect("it is there");
    assert_eq!((loaded.snapshot, loaded.entries.len()), (Some(snapshot), 0));
    assert_eq!(reader.history(plan(1), 3).expect("it is done"), history);
}

pub(crate) fn large_values_go_with_their_plan_and_with_no_other(place: &Place) {
    let (mut writer, mut reader) = place.ends();
    let (whole, rest) = (parts().whole(), parts().rest());
    append(&mut *writer, &[large(1, 0, whole.clone()), large(2, 0, whole.clone())]);
    // What is kept in the place of the whole names the values of its plan.
    append(&mut *writer, &[large(1, 1, rest.clone()), large(3, 0, rest.clone())]);
    assert_eq!(
        reader.load(plan(1), Some(3)).expect("it is read").expect("it is there").entries[1].1,
        whole
    );
    let missing = reader.load(plan(3), Some(4)).expect_err("it is not whole");
    assert!(matches!(&missing, StoreError::Corrupt(what) if what.contains("value")), "{missing}");

    write_rows(&mut *writer, &[stopped(1, 3, 5)], 4);
    assert_eq!(writer.remove(&[gone(1, 3)]).expect("it is done"), 1);
    assert_eq!(
        bytes_of(reader.load(plan(2), Some(2)).expect("it is read").expect("it is there").entries),
        [whole]
    );
    append(&mut *writer, &[large(1, 0, rest)]);
    let missing = reader.load(plan(1), Some(5)).expect_err("it is not whole");
    assert!(matches!(&missing, StoreError::Corrupt(what) if what.contains("value")), "{missing}");
}

pub(crate) fn a_refused_entry_leaves_no_large_values(place: &Place) {
    let (mut writer, mut reader) = place.ends();
    append(&mut *writer, &[keyed(1, "key")]);
    let refused = Append { records: parts().whole(), ..keyed(2, "key") };
    assert_eq!(append(&mut *writer, &[refused]), [Verdict::KeyTaken(plan(1))]);
    append(&mut *writer, &[large(2, 0, parts().rest())]);
    let missing = reader.load(plan(2), Some(2)).expect_err("it is not whole");
    assert!(matches!(&missing, StoreError::Corrupt(what) if what.contains("value")), "{missing}");
}

pub(crate) fn bytes_that_only_look_as_if_they_had_large_values_come_back_as_they_were(
    place: &Place,
) {
    let (mut writer, mut reader) = place.ends();
    let whole = parts().whole();
    let damaged = [&whole[..1], &whole[..50], &whole[..whole.len() - 250_000], &[0xc1; 100]];
    for (number, bytes) in (1_u8..).zip(damaged) {
        append(&mut *writer, &[large(number, 0, bytes.to_vec())]);
        let loaded = reader
            .load(plan(number), Some(number.into()))
            .expect("it is read")
            .expect("it is there");
        assert_eq!(bytes_of(loaded.entries), [bytes.to_vec()]);
    }
}

/// Entries without their places.
fn bytes_of(entries: Vec<(u64, Vec<u8>)>) -> Vec<Vec<u8>> {
    entries.into_iter().map(|(_, bytes)| bytes).collect()
}
