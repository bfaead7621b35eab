//! What every store promises of rows: lists, wakes, what is behind.

use turnwheel_engine::store::{Batch, Filter, PlanRow};
use turnwheel_engine::{PlanResult, PlanState, Time};

use super::place::*;

// D-250
pub(crate) fn rows_are_written_whole_and_keep_their_snapshot(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    append(&mut *writer, &[entry(1, 0, "a"), entry(1, 1, "b")]);
    let first = PlanRow {
        label: "«Bücher» 'x' \0 %".into(),
        started_at: Some(Time(5)),
        wakes_at: Some(Time(6)),
        is_busy: true,
        caller: Some((plan(9), turnwheel_engine::StepId(3))),
        waits_for: "a permit".to_owned(),
        snapshot: Some((1, b"snap".to_vec())),
        ..row(1, 1)
    };
    write_rows(&mut *writer, std::slice::from_ref(&first), 1);
    let listed = reader.list(&Filter::default()).expect("it lists");
    assert_eq!(listed, [PlanRow { snapshot: None, ..first.clone() }]);
    let second = PlanRow {
        head: 2,
        state: PlanState::Stopped,
        result: PlanResult::Success,
        ended_at: Some(Time(9)),
        wakes_at: None,
        is_busy: false,
        waits_for: String::new(),
        snapshot: None,
        ..first
    };
    write_rows(&mut *writer, std::slice::from_ref(&second), 2);
    assert_eq!(reader.list(&Filter::default()).expect("it lists"), [second]);
    let loaded = reader.load(plan(1), None).expect("it loads").expect("there is one");
    assert_eq!(
        loaded.snapshot.as_deref(),
        Some(&b"snap"[..]),
        "no new snapshot: the old one stays"
    );
    assert_eq!(texts(&loaded.entries), ["b"]);
}

// D-239, D-240, D-241, D-242
pub(crate) fn lists_are_filtered_and_paged_newest_first(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    let states = [PlanState::Running, PlanState::Paused, PlanState::Stopped];
    let rows: Vec<PlanRow> = (1..=30)
        .map(|number| PlanRow { state: states[usize::from(number) % 3], ..row(number, 1) })
        .collect();
    write_rows(&mut *writer, &rows, 0);
    let mut list = |filter: Filter| -> Vec<u8> {
        let rows = reader.list(&filter).expect("it lists");
        rows.iter().map(|row| row.id.to_bytes()[15]).collect()
    };
    assert_eq!(list(Filter::default()), (1..=30).rev().collect::<Vec<u8>>());
    let first = list(Filter { limit: 4, ..Filter::default() });
    assert_eq!(first, [30, 29, 28, 27]);
    let next = Filter { limit: 4, before: Some(plan(27)), ..Filter::default() };
    assert_eq!(list(next), [26, 25, 24, 23]);
    let last = Filter { before: Some(plan(3)), ..Filter::default() };
    assert_eq!(list(last), [2, 1]);
    assert_eq!(list(Filter { before: Some(plan(1)), ..Filter::default() }), [] as [u8; 0]);
    let paused = Filter { states: vec![PlanState::Paused], limit: 3, ..Filter::default() };
    assert_eq!(list(paused), [28, 25, 22]);
    let two = vec![PlanState::Paused, PlanState::Stopped];
    assert_eq!(list(Filter { states: two, limit: 4, ..Filter::default() }), [29, 28, 26, 25]);
    let none = Filter { states: vec![PlanState::Scheduled], ..Filter::default() };
    assert_eq!(list(none), [] as [u8; 0]);
    let label = Some("label 0".to_owned());
    assert_eq!(list(Filter { label, limit: 2, ..Filter::default() }), [30, 28]);
    let both = Filter {
        label: Some("label 1".to_owned()),
        states: vec![PlanState::Running],
        before: Some(plan(20)),
        ..Filter::default()
    };
    assert_eq!(list(both), [15, 9, 3]);
    assert_eq!(list(Filter { limit: 0, ..Filter::default() }), [] as [u8; 0]);
    assert_eq!(list(Filter { limit: usize::MAX, ..Filter::default() }).len(), 30);
    let quoted = Filter { label: Some("' OR 1 --".to_owned()), ..Filter::default() };
    assert_eq!(list(quoted), [] as [u8; 0]);
}

pub(crate) fn what_is_behind_is_told_with_its_head(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    assert_eq!(reader.behind().expect("it answers"), []);
    append(&mut *writer, &[entry(2, 0, "a"), entry(1, 0, "a"), entry(2, 1, "b")]);
    assert_eq!(reader.behind().expect("it answers"), [(plan(1), 2), (plan(2), 3)]);
    write_rows(&mut *writer, &[row(1, 2)], 0);
    assert_eq!(reader.behind().expect("it answers").len(), 2, "the mark says it, not the rows");
    write_rows(&mut *writer, &[row(2, 3)], 3);
    assert_eq!(reader.behind().expect("it answers"), []);
    append(&mut *writer, &[entry(1, 2, "b")]);
    assert_eq!(reader.behind().expect("it answers"), [(plan(1), 4)]);
    write_rows(&mut *writer, &[row(2, 3)], 1);
    assert_eq!(reader.behind().expect("it answers"), [(plan(1), 4)], "the mark never goes back");
    writer
        .commit(&Batch { changes: &[], appends: &[], rows: &[], projected: 4 })
        .expect("it is written");
    assert_eq!(reader.behind().expect("it answers").len(), 1, "no rows, no mark");
}

pub(crate) fn busy_plans_are_listed_by_pages(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    let rows: Vec<PlanRow> =
        (1..=9).map(|number| PlanRow { is_busy: number % 2 == 1, ..row(number, 1) }).collect();
    write_rows(&mut *writer, &rows, 0);
    let first = reader.busy(None, 2).expect("it answers");
    assert_eq!(first, [plan(1), plan(3)]);
    assert_eq!(reader.busy(Some(plan(3)), 2).expect("it answers"), [plan(5), plan(7)]);
    assert_eq!(reader.busy(Some(plan(7)), 2).expect("it answers"), [plan(9)]);
    assert_eq!(reader.busy(Some(plan(9)), 2).expect("it answers"), []);
    write_rows(&mut *writer, &[PlanRow { is_busy: false, ..row(3, 1) }], 0);
    assert_eq!(reader.busy(None, 2).expect("it answers"), [plan(1), plan(5)]);
}

// D-251
pub(crate) fn wakes_come_earliest_first_up_to_a_time(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    let wake = |number: u8, at: u64| PlanRow { wakes_at: Some(Time(at)), ..row(number, 1) };
    write_rows(&mut *writer, &[wake(1, 30), wake(2, 10), wake(3, 20), row(4, 1), wake(5, 10)], 0);
    let due = reader.wakes(Time(20), 10).expect("it answers");
    assert_eq!(due, [(Time(10), plan(2)), (Time(10), plan(5)), (Time(20), plan(3))]);
    assert_eq!(reader.wakes(Time(9), 10).expect("it answers"), []);
    assert_eq!(reader.wakes(Time(u64::MAX), 2).expect("it answers").len(), 2);
    assert_eq!(reader.wakes(Time(u64::MAX), usize::MAX).expect("it answers").len(), 4);
    write_rows(&mut *writer, &[row(2, 1)], 0);
    assert_eq!(reader.wakes(Time(10), 10).expect("it answers"), [(Time(10), plan(5))]);
}

pub(crate) fn times_beyond_all_numbers_are_kept_as_late(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    let never = PlanRow { wakes_at: Some(Time(u64::MAX)), ..row(1, 1) };
    write_rows(&mut *writer, &[never], 0);
    let wakes = reader.wakes(Time(u64::MAX), 10).expect("it answers");
    assert!(matches!(wakes[..], [(Time(at), id)] if at >= i64::MAX as u64 && id == plan(1)));
    assert_eq!(reader.wakes(Time(1 << 60), 10).expect("it answers"), []);
}

// D-245
pub(crate) fn plans_that_are_long_over_are_found(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    let called = |by: u8| Some((plan(by), turnwheel_engine::StepId(1)));
    let rows = [
        stopped(1, 1, 10),
        PlanRow { result: PlanResult::Error, ..stopped(2, 2, 20) },
        stopped(3, 3, 30),
        row(4, 4),
        PlanRow { caller: called(4), ..stopped(5, 5, 10) },
        PlanRow { caller: called(1), ..stopped(6, 6, 10) },
        PlanRow { caller: called(99), ..stopped(7, 7, 10) },
    ];
    write_rows(&mut *writer, &rows, 7);
    let mut list = |filter: Filter| -> Vec<u8> {
        let rows = reader.list(&filter).expect("it lists");
        rows.iter().map(|row| row.id.to_bytes()[15]).collect()
    };
    let before = |time: u64| Filter {
        ended_before: Some(Time(time)),
        is_unneeded: true,
        ..Filter::default()
    };
    let all = Filter { ended_before: Some(Time(30)), ..Filter::default() };
    assert_eq!(list(all), [7, 6, 5, 2, 1], "5 is needed and was stopped all the same");
    assert_eq!(list(before(30)), [7, 6, 2, 1], "5 was called by one that is live");
    assert_eq!(list(before(10)), [] as [u8; 0]);
    assert_eq!(list(before(u64::MAX)), [7, 6, 3, 2, 1]);
    let failed = vec![PlanResult::Error, PlanResult::Cancelled];
    assert_eq!(list(Filter { results: failed, ..before(100) }), [2]);
    assert_eq!(list(Filter { results: vec![PlanResult::Pending], ..Filter::default() }), [4]);
}
