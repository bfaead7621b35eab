//! One behaviour suite for all stores: what a store promises does not depend on which one it is.

use turnwheel_engine::store::{
    Append, Batch, Filter, PlanRow, ScheduleRow, ScheduleWrite, Seq, StoreWriter, Swap, Verdict,
};
use turnwheel_engine::{
    MemoryStore, PlanId, PlanResult, PlanState, SqliteStore, Store, StoreError, Time,
};

/// A store, and what has to live as long as it does.
struct Place {
    store: Box<dyn Store>,
    _folder: Option<tempfile::TempDir>,
}

impl Place {
    fn memory() -> Self {
        Self { store: Box::new(MemoryStore::new()), _folder: None }
    }

    fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SqliteStore::new(folder.path().join("plans.db"));
        Self { store: Box::new(store), _folder: Some(folder) }
    }
}

macro_rules! suite {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[test] fn $name() { super::$name(&super::Place::memory()); })*
        }
        mod sqlite {
            $(#[test] fn $name() { super::$name(&super::Place::sqlite()); })*
        }
    };
}

suite![
    entries_of_a_plan_are_a_chain,
    a_snapshot_stands_for_the_entries_before_it,
    a_missing_entry_is_named,
    a_key_is_taken_once_and_a_refusal_writes_nothing_of_its_plan,
    verdicts_come_in_the_order_of_the_appends,
    rows_are_written_whole_and_keep_their_snapshot,
    lists_are_filtered_and_paged_newest_first,
    what_is_behind_is_told_with_its_head,
    busy_plans_are_listed_by_pages,
    wakes_come_earliest_first_up_to_a_time,
    times_beyond_all_numbers_are_kept_as_late,
    a_second_writer_ends_the_first,
    a_fenced_commit_writes_nothing,
    the_journal_can_be_read_as_a_whole,
    large_entries_and_rows_come_back_as_they_were,
    readers_see_what_is_committed_and_no_less,
    schedules_are_changed_from_the_version_that_was_read,
    schedules_of_a_fenced_writer_stay_as_they_are,
    removed_plans_leave_nothing_and_only_stopped_ones_go,
    plans_that_are_long_over_are_found,
];

fn plan(number: u8) -> PlanId {
    let mut bytes = [0; 16];
    bytes[15] = number;
    PlanId::from_bytes(bytes)
}

fn entry(number: u8, prev: Seq, text: &str) -> Append {
    Append {
        plan: plan(number),
        prev,
        epoch: 1,
        records: text.as_bytes().to_vec(),
        key: None,
        take: vec![],
        release: vec![],
    }
}

fn keyed(number: u8, key: &str) -> Append {
    Append { key: Some(key.to_owned()), ..entry(number, 0, key) }
}

fn row(number: u8, head: Seq) -> PlanRow {
    PlanRow {
        id: plan(number),
        head,
        state: PlanState::Running,
        result: PlanResult::Pending,
        label: format!("label {}", number % 2),
        created_at: Time(u64::from(number)),
        started_at: None,
        ended_at: None,
        wakes_at: None,
        is_busy: false,
        caller: None,
        waits_for: String::new(),
        snapshot: None,
    }
}

fn append(writer: &mut dyn StoreWriter, appends: &[Append]) -> Vec<Verdict> {
    writer.commit(&Batch { changes: &[], appends, rows: &[], projected: 0 }).expect("it is written")
}

fn write_rows(writer: &mut dyn StoreWriter, rows: &[PlanRow], projected: Seq) {
    writer
        .commit(&Batch { changes: &[], appends: &[], rows, projected })
        .expect("they are written");
}

fn texts(entries: &[Vec<u8>]) -> Vec<&str> {
    entries.iter().map(|entry| std::str::from_utf8(entry).expect("a text")).collect()
}

// D-244, D-247, D-250
fn entries_of_a_plan_are_a_chain(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    assert_eq!(writer.last(), 0);
    let verdicts = append(&mut *writer, &[entry(1, 0, "a"), entry(2, 0, "x")]);
    assert_eq!(verdicts, [Verdict::Written(1), Verdict::Written(2)]);
    append(&mut *writer, &[entry(1, 1, "b")]);
    append(&mut *writer, &[entry(2, 2, "y"), entry(1, 3, "c")]);
    assert_eq!(writer.last(), 5);
    let loaded = reader.load(plan(1), Some(5)).expect("it loads").expect("there is one");
    assert_eq!(texts(&loaded.entries), ["a", "b", "c"]);
    assert_eq!((loaded.head, loaded.snapshot), (5, None));
    let loaded = reader.load(plan(1), Some(3)).expect("it loads").expect("there is one");
    assert_eq!(texts(&loaded.entries), ["a", "b"], "as of its second entry");
    assert!(reader.load(plan(1), None).expect("it answers").is_none(), "no row says its head");
    write_rows(&mut *writer, &[row(1, 5)], 0);
    let loaded = reader.load(plan(1), None).expect("it loads").expect("its row says its head");
    assert_eq!(loaded.entries.len(), 3);
    assert!(reader.load(plan(9), None).expect("it answers").is_none(), "nobody knows it");
}

fn a_snapshot_stands_for_the_entries_before_it(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    append(&mut *writer, &[entry(1, 0, "a"), entry(1, 1, "b"), entry(1, 2, "c")]);
    let snapshot = Some((2, b"a+b".to_vec()));
    write_rows(&mut *writer, &[PlanRow { snapshot, ..row(1, 3) }], 3);
    let loaded = reader.load(plan(1), None).expect("it loads").expect("there is one");
    assert_eq!(loaded.snapshot.as_deref(), Some(&b"a+b"[..]));
    assert_eq!(texts(&loaded.entries), ["c"]);
    let snapshot = Some((3, b"a+b+c".to_vec()));
    write_rows(&mut *writer, &[PlanRow { snapshot, ..row(1, 3) }], 3);
    let loaded = reader.load(plan(1), None).expect("it loads").expect("there is one");
    assert_eq!(loaded.snapshot.as_deref(), Some(&b"a+b+c"[..]));
    assert!(loaded.entries.is_empty());
    append(&mut *writer, &[entry(1, 3, "d")]);
    let loaded = reader.load(plan(1), Some(4)).expect("it loads").expect("there is one");
    assert_eq!(texts(&loaded.entries), ["d"], "a head that the row does not know yet");
}

fn a_missing_entry_is_named(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    append(&mut *writer, &[entry(1, 7, "its past is gone")]);
    let error = reader.load(plan(1), Some(1)).expect_err("a hole");
    assert!(matches!(error, StoreError::Corrupt(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&plan(1).to_string()) && text.contains("entry 7"), "{text}");
    append(&mut *writer, &[entry(2, 0, "another plan")]);
    let loaded = reader.load(plan(2), Some(2)).expect("it loads").expect("it is not hit");
    assert_eq!(texts(&loaded.entries), ["another plan"]);
}

fn a_key_is_taken_once_and_a_refusal_writes_nothing_of_its_plan(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    assert_eq!(append(&mut *writer, &[keyed(1, "order 7")]), [Verdict::Written(1)]);
    assert_eq!(append(&mut *writer, &[keyed(2, "order 7")]), [Verdict::KeyTaken(plan(1))]);
    assert_eq!(reader.by_key("order 7").expect("it answers"), Some(plan(1)));
    assert_eq!(reader.by_key("order 8").expect("it answers"), None);
    let plans: Vec<_> =
        reader.behind().expect("it answers").into_iter().map(|(id, _)| id).collect();
    assert_eq!(plans, [plan(1)], "nothing of the second plan is there");
    // In one batch, too; what comes with the refused one is written.
    let batch = [keyed(3, "k"), keyed(4, "k"), entry(1, 1, "more")];
    let expected = [Verdict::Written(2), Verdict::KeyTaken(plan(3)), Verdict::Written(3)];
    assert_eq!(append(&mut *writer, &batch), expected);
    assert_eq!(append(&mut *writer, &[keyed(5, "")]), [Verdict::Written(4)], "an empty key is one");
    assert_eq!(reader.by_key("").expect("it answers"), Some(plan(5)));
}

fn verdicts_come_in_the_order_of_the_appends(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let batch: Vec<Append> = (0..100).map(|number| entry(number, 0, "one of many")).collect();
    let expected: Vec<Verdict> = (1..=100).map(Verdict::Written).collect();
    assert_eq!(append(&mut *writer, &batch), expected);
    assert_eq!(append(&mut *writer, &[]), []);
    assert_eq!(append(&mut *writer, &[entry(0, 1, "next")]), [Verdict::Written(101)]);
}

// D-250
fn rows_are_written_whole_and_keep_their_snapshot(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    append(&mut *writer, &[entry(1, 0, "a"), entry(1, 1, "b")]);
    let first = PlanRow {
        label: "«Bücher» 'x' \0 %".to_owned(),
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
fn lists_are_filtered_and_paged_newest_first(place: &Place) {
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

fn what_is_behind_is_told_with_its_head(place: &Place) {
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

fn busy_plans_are_listed_by_pages(place: &Place) {
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
fn wakes_come_earliest_first_up_to_a_time(place: &Place) {
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

fn times_beyond_all_numbers_are_kept_as_late(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    let never = PlanRow { wakes_at: Some(Time(u64::MAX)), ..row(1, 1) };
    write_rows(&mut *writer, &[never], 0);
    let wakes = reader.wakes(Time(u64::MAX), 10).expect("it answers");
    assert!(matches!(wakes[..], [(Time(at), id)] if at >= i64::MAX as u64 && id == plan(1)));
    assert_eq!(reader.wakes(Time(1 << 60), 10).expect("it answers"), []);
}

fn a_second_writer_ends_the_first(place: &Place) {
    let mut first = place.store.writer().expect("a writer");
    append(&mut *first, &[entry(1, 0, "a")]);
    let mut second = place.store.writer().expect("a second writer");
    assert_eq!(second.epoch(), first.epoch() + 1);
    assert_eq!(second.last(), 1);
    let batch = Batch { changes: &[], appends: &[entry(1, 1, "b")], rows: &[], projected: 0 };
    let error = first.commit(&batch).expect_err("its epoch is over");
    let (epoch, newest) = (first.epoch(), second.epoch());
    assert!(
        matches!(error, StoreError::Fenced { epoch: e, newest: n } if e == epoch && n == newest),
        "{error:?}"
    );
    assert_eq!(append(&mut *second, &[entry(1, 1, "c")]), [Verdict::Written(2)]);
    assert!(first.commit(&batch).is_err(), "for good");
}

fn a_fenced_commit_writes_nothing(place: &Place) {
    let mut first = place.store.writer().expect("a writer");
    let _second = place.store.writer().expect("a second writer");
    let appends = [keyed(1, "key")];
    let rows = [row(1, 1)];
    let error = first.commit(&Batch { changes: &[], appends: &appends, rows: &rows, projected: 1 });
    assert!(matches!(error, Err(StoreError::Fenced { .. })), "{error:?}");
    let mut reader = place.store.reader().expect("a reader");
    assert_eq!(reader.behind().expect("it answers"), []);
    assert_eq!(reader.by_key("key").expect("it answers"), None);
    assert_eq!(reader.list(&Filter::default()).expect("it lists"), []);
    assert_eq!(reader.journal(0, 10).expect("it reads"), []);
}

// D-260
fn the_journal_can_be_read_as_a_whole(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    append(&mut *writer, &[entry(1, 0, "a"), entry(2, 0, "x"), entry(1, 1, "b")]);
    let page = reader.journal(0, 2).expect("it reads");
    let seen: Vec<_> = page.iter().map(|entry| (entry.seq, entry.plan, entry.prev)).collect();
    assert_eq!(seen, [(1, plan(1), 0), (2, plan(2), 0)]);
    let page = reader.journal(2, 2).expect("it reads");
    assert_eq!((page.len(), page[0].prev, &*page[0].records), (1, 1, &b"b"[..]));
    assert_eq!(reader.journal(3, 2).expect("it reads"), []);
    assert_eq!(reader.journal(Seq::MAX, 2).expect("it reads"), []);
}

fn large_entries_and_rows_come_back_as_they_were(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    let large: Vec<u8> = (0..4 * 1_024 * 1_024_u32).map(|byte| (byte % 251) as u8).collect();
    let long = "k".repeat(10_000);
    let append_large =
        Append { records: large.clone(), key: Some(long.clone()), ..entry(1, 0, "") };
    append(&mut *writer, &[append_large, entry(2, 0, "")]);
    write_rows(&mut *writer, &[PlanRow { snapshot: Some((1, large.clone())), ..row(1, 1) }], 1);
    let loaded = reader.load(plan(1), None).expect("it loads").expect("there is one");
    assert_eq!(loaded.snapshot, Some(large.clone()));
    assert_eq!(reader.journal(0, 1).expect("it reads")[0].records, large);
    assert_eq!(reader.by_key(&long).expect("it answers"), Some(plan(1)));
    let loaded = reader.load(plan(2), Some(2)).expect("it loads").expect("there is one");
    assert_eq!(loaded.entries, [b""], "an empty entry is an entry");
}

fn readers_see_what_is_committed_and_no_less(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut readers: Vec<_> = (0..4).map(|_| place.store.reader().expect("a reader")).collect();
    for number in 1..=20 {
        let verdicts = append(&mut *writer, &[entry(number, 0, "a")]);
        assert_eq!(verdicts, [Verdict::Written(Seq::from(number))]);
        write_rows(&mut *writer, &[row(number, Seq::from(number))], 0);
        for reader in &mut readers {
            assert_eq!(
                reader.list(&Filter::default()).expect("it lists").len(),
                usize::from(number)
            );
            let loaded = reader.load(plan(number), None).expect("it loads");
            assert_eq!(loaded.expect("there is one").entries.len(), 1);
        }
    }
}

fn stopped(number: u8, head: Seq, ended: u64) -> PlanRow {
    let (state, result) = (PlanState::Stopped, PlanResult::Success);
    PlanRow { state, result, ended_at: Some(Time(ended)), ..row(number, head) }
}

// D-245
fn removed_plans_leave_nothing_and_only_stopped_ones_go(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    append(&mut *writer, &[keyed(1, "one"), keyed(2, "two"), keyed(3, "three")]);
    append(&mut *writer, &[entry(1, 1, "b"), entry(2, 2, "b")]);
    let snapshot = Some((4, b"snap".to_vec()));
    let rows = [PlanRow { snapshot, ..stopped(1, 4, 10) }, stopped(2, 5, 10), row(3, 3)];
    write_rows(&mut *writer, &rows, 5);
    assert_eq!(reader.history(plan(1), 4).expect("it is there"), [b"one".to_vec(), b"b".to_vec()]);
    // Plan 2 has a newer entry than is thought, plan 3 is live, nobody knows plan 9.
    let wrong = [(plan(2), 2), (plan(3), 3), (plan(9), 1)];
    assert_eq!(writer.remove(&wrong).expect("it answers"), 0);
    assert_eq!(reader.list(&Filter::default()).expect("it lists").len(), 3);
    assert_eq!(writer.remove(&[(plan(1), 4), (plan(3), 3)]).expect("it answers"), 1);
    assert!(reader.load(plan(1), None).expect("it answers").is_none());
    assert_eq!(reader.by_key("one").expect("it answers"), None, "its key is free");
    assert_eq!(reader.by_key("two").expect("it answers"), Some(plan(2)));
    let left: Vec<Seq> =
        reader.journal(0, 10).expect("it reads").iter().map(|entry| entry.seq).collect();
    assert_eq!(left, [2, 3, 5]);
    assert!(matches!(reader.history(plan(1), 4), Err(StoreError::Corrupt(_))));
    assert_eq!(append(&mut *writer, &[keyed(4, "one")]), [Verdict::Written(6)], "places go on");
    let mut second = place.store.writer().expect("a second writer");
    let error = writer.remove(&[(plan(2), 5)]).expect_err("its epoch is over");
    assert!(matches!(error, StoreError::Fenced { .. }), "{error:?}");
    assert_eq!(second.remove(&[(plan(2), 5)]).expect("it answers"), 1);
    assert_eq!(second.last(), 6);
}

// D-245
fn plans_that_are_long_over_are_found(place: &Place) {
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
    let before = |time: u64| Filter { ended_before: Some(Time(time)), ..Filter::default() };
    assert_eq!(list(before(30)), [7, 6, 2, 1], "5 was called by one that is live");
    assert_eq!(list(before(10)), [] as [u8; 0]);
    assert_eq!(list(before(u64::MAX)), [7, 6, 3, 2, 1]);
    let failed = vec![PlanResult::Error, PlanResult::Cancelled];
    assert_eq!(list(Filter { results: failed, ..before(100) }), [2]);
    assert_eq!(list(Filter { results: vec![PlanResult::Pending], ..Filter::default() }), [4]);
}

fn put_of(name: &str, from: u64, data: &str) -> ScheduleWrite {
    ScheduleWrite { name: name.to_owned(), from, data: Some(data.as_bytes().to_vec()) }
}

fn schedules_are_changed_from_the_version_that_was_read(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    let swaps = writer.write_schedules(&[put_of("b", 0, "1"), put_of("a", 0, "1")]);
    assert_eq!(swaps.expect("they are written"), [Swap::Done, Swap::Done]);
    let stale = [put_of("a", 0, "x"), put_of("b", 1, "2"), put_of("c", 7, "x")];
    let swaps = writer.write_schedules(&stale).expect("one is written");
    let refused = |version| Swap::Changed { version };
    assert_eq!(swaps, [refused(1), Swap::Done, refused(0)]);
    let row = |name: &str, version, data: &str| ScheduleRow {
        name: name.to_owned(),
        version,
        data: data.as_bytes().to_vec(),
    };
    assert_eq!(reader.schedule("b").expect("it is read"), Some(row("b", 2, "2")));
    assert_eq!(reader.schedule("c").expect("it is read"), None);
    let all = reader.schedules("", 10).expect("they are read");
    assert_eq!(all, [row("a", 1, "1"), row("b", 2, "2")]);
    assert_eq!(reader.schedules("a", 10).expect("they are read"), all[1..]);
    assert_eq!(reader.schedules("", 1).expect("they are read"), all[..1]);
    let remove = |from| ScheduleWrite { name: "a".to_owned(), from, data: None };
    assert_eq!(writer.write_schedules(&[remove(9)]).expect("it is read"), [refused(1)]);
    assert_eq!(writer.write_schedules(&[remove(1)]).expect("it is removed"), [Swap::Done]);
    assert_eq!(writer.write_schedules(&[remove(0)]).expect("nothing is there"), [Swap::Done]);
    assert_eq!(reader.schedules("", 10).expect("they are read"), all[1..]);
}

fn schedules_of_a_fenced_writer_stay_as_they_are(place: &Place) {
    let mut first = place.store.writer().expect("a writer");
    first.write_schedules(&[put_of("a", 0, "1")]).expect("it is written");
    let mut second = place.store.writer().expect("a writer");
    let fenced = first.write_schedules(&[put_of("a", 1, "2")]);
    assert!(matches!(fenced, Err(StoreError::Fenced { .. })), "{fenced:?}");
    let swaps = second.write_schedules(&[put_of("a", 1, "2")]).expect("it is written");
    assert_eq!(swaps, [Swap::Done]);
}
