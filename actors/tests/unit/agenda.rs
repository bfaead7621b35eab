//! Units of the reminders that a process has loaded.

use super::*;

fn row(number: usize, due_ms: u64, version: u64) -> ReminderRow {
    let mut row = ReminderRow::new(ReminderId::new("e", &number.to_string(), "n"));
    (row.due_ms, row.planned_ms, row.version) = (due_ms, due_ms, version);
    row
}

fn looked(rows: impl IntoIterator<Item = ReminderRow>, until_ms: u64) -> Agenda {
    let mut agenda = Agenda::default();
    assert!(agenda.begin_look(until_ms) && !agenda.begin_look(until_ms));
    rows.into_iter().for_each(|row| agenda.load(row));
    agenda.end_look(Some(Seen { until_ms, is_all: true }));
    agenda
}

#[test]
fn too_many_are_left_to_the_store_the_farthest_first() {
    let mut agenda = looked([], 1_000_000);
    for number in 0..LOADED_MAX + 10 {
        agenda.put(row(number, 1_000 + number as u64, 1));
    }
    assert_eq!(agenda.len(), LOADED_MAX);
    assert_eq!(agenda.next_ms(), Some(1_000));
    assert!(!agenda.wants_look(0), "there are enough");
    let last_ms = 1_000 + LOADED_MAX as u64;
    assert!(agenda.wants_look(last_ms), "what was left out is due");
    for _ in 0..=LOADED_MAX / 2 {
        let work = agenda.take_due(u64::MAX, 1).pop().expect("one is due");
        agenda.done(&work.row.id, 1, Done::Gone);
    }
    assert!(agenda.wants_look(0), "there is room");
    assert!(agenda.begin_look(1_000_000) && !agenda.wants_look(last_ms));
}

#[test]
fn only_a_newer_version_counts() {
    let mut agenda = looked([row(1, 10, 5)], 100);
    agenda.put(row(1, 20, 4));
    assert_eq!(agenda.next_ms(), Some(10));
    agenda.put(row(1, 20, 6));
    assert_eq!(agenda.next_ms(), Some(20));
    agenda.remove(&row(1, 0, 0).id, 6);
    agenda.put(row(1, 20, 6));
    assert_eq!((agenda.len(), agenda.next_ms()), (0, None), "removed is removed");
    agenda.put(row(1, 30, 7));
    assert_eq!(agenda.next_ms(), Some(30));
}

#[test]
fn a_look_that_began_before_a_change_brings_nothing_back() {
    let mut agenda = looked([row(1, 10, 1), row(2, 10, 2), row(3, 10, 3)], 100);
    assert!(agenda.begin_look(200));
    let due = agenda.take_due(10, 3);
    assert_eq!((due.len(), agenda.under_way.len(), agenda.next_ms()), (3, 3, None));
    agenda.done(&due[0].row.id, 1, Done::Row(row(1, 1_000, 4)));
    agenda.done(&due[1].row.id, 2, Done::Gone);
    // The third is still being delivered.
    due.into_iter().for_each(|work| agenda.load(work.row));
    agenda.end_look(Some(Seen { until_ms: 200, is_all: true }));
    assert_eq!(agenda.next_ms(), None, "none is told twice");
    // A look that began after the changes counts.
    assert!(agenda.begin_look(2_000));
    agenda.load(row(1, 1_000, 4));
    agenda.end_look(None);
    assert_eq!(agenda.next_ms(), Some(1_000));
}

#[test]
fn what_was_told_and_not_written_is_kept_and_only_written_again() {
    let mut agenda = looked([row(1, 10, 1)], 100);
    let work = agenda.take_due(10, 9).pop().expect("it is due");
    let record = Record::End;
    agenda.done(&work.row.id, 1, Done::Again { record: Some(record.clone()), again_ms: 50 });
    assert!(agenda.take_due(49, 9).is_empty());
    let work = agenda.take_due(50, 9).pop().expect("it is due");
    assert_eq!(work.record, Some(record));
    // Registered anew meanwhile: the new one is delivered, at its time.
    agenda.put(row(1, 60, 2));
    assert!(agenda.take_due(60, 9).is_empty(), "one at a time");
    agenda.done(&work.row.id, 1, Done::Row(row(1, 60, 2)));
    let work = agenda.take_due(60, 9).pop().expect("it is due");
    assert_eq!((work.row.version, work.record), (2, None));
}
