//! The promises of every store: one behaviour suite for all of them. A program of tests calls
//! `promises!` for each of its stores.

#[path = "figures.rs"]
mod figures;
#[path = "followers.rs"]
mod followers;
#[path = "place.rs"]
pub(crate) mod place;
#[path = "rows.rs"]
mod rows;
#[path = "schedules.rs"]
mod schedules;
#[path = "search.rs"]
mod search;
#[path = "slots.rs"]
mod slots;
#[path = "together.rs"]
mod together;
#[path = "values.rs"]
mod values;

pub(crate) use figures::*;
pub(crate) use followers::*;
use place::*;
pub(crate) use rows::*;
pub(crate) use schedules::*;
pub(crate) use search::*;
pub(crate) use slots::*;
pub(crate) use together::*;
use turnwheel_engine::store::{Append, Batch, Filter, Newest, PlanRow, RowWrite, Seq, Verdict};
use turnwheel_engine::StoreError;
pub(crate) use values::*;

/// Tests of all promises in a module, each with a place of its own.
macro_rules! promises {
    ($module:ident, $place:expr) => {
        promises!($module, $place, [
            entries_of_a_plan_are_a_chain,
            a_snapshot_stands_for_the_entries_before_it,
            a_missing_entry_is_named,
            a_key_is_taken_once_and_a_refusal_writes_nothing_of_its_plan,
            verdicts_come_in_the_order_of_the_appends,
            who_waits_for_a_plan_is_kept_until_it_waits_no_more,
            a_plan_that_another_one_waits_for_is_needed,
            a_refused_entry_follows_nobody,
            rows_are_written_whole_and_keep_their_snapshot,
            lists_are_filtered_and_paged_newest_first,
            what_is_behind_is_told_with_its_head,
            busy_plans_are_listed_by_pages,
            wakes_come_earliest_first_up_to_a_time,
            times_beyond_all_numbers_are_kept_as_late,
            a_second_writer_ends_the_first,
            a_fenced_commit_writes_nothing,
            the_journal_can_be_read_as_a_whole,
            newest_entry_and_last_place_are_told,
            place_of_a_removed_entry_is_not_given_again_while_a_row_is_behind,
            large_entries_and_rows_come_back_as_they_were,
            readers_see_what_is_committed_and_no_less,
            schedules_are_changed_from_the_version_that_was_read,
            schedules_of_a_fenced_writer_stay_as_they_are,
            removed_plans_leave_nothing_and_only_stopped_ones_go,
            the_row_of_a_removed_plan_is_not_written_again,
            plans_that_are_long_over_are_found,
            plans_are_found_by_all_that_is_known_of_them,
            pages_go_on_in_both_directions,
            labels_are_found_as_they_are_now,
            plans_are_counted_by_state_result_and_reason,
            plans_that_fit_a_filter_are_counted,
            searches_that_stop_early_find_all_in_the_end,
            ended_plans_are_counted_by_the_minute,
            a_write_under_an_old_epoch_writes_nothing_and_names_the_owner,
            a_state_that_is_gone_leaves_no_version_and_no_due_time,
            states_of_one_commit_are_answered_as_one_by_one,
            keys_of_one_commit_are_taken_by_the_first_that_is_admitted,
            of_two_writers_at_once_one_makes_each_state_and_has_each_key,
            an_owner_that_gets_a_slot_back_has_a_new_epoch,
            a_slot_moves_alone_and_a_freed_one_refuses_its_last_owner,
            writers_beside_each_other_make_one_journal,
            a_plan_of_another_process_is_read_up_to_its_newest_entry,
            the_table_of_worlds_is_changed_from_the_version_that_was_read,
            a_world_is_declared_dead_when_its_lease_is_over,
            rows_for_worlds_are_given_once_and_in_their_order,
            an_entry_of_a_later_owner_is_no_answer,
            what_is_behind_and_what_wakes_is_told_for_some_slots,
            large_values_come_back_with_what_they_are_part_of,
            large_values_go_with_their_plan_and_with_no_other,
            a_refused_entry_leaves_no_large_values,
            bytes_that_only_look_as_if_they_had_large_values_come_back_as_they_were,
        ]);
    };
    ($module:ident, $place:expr, [$($name:ident),* $(,)?]) => {
        mod $module {
            $(#[test] fn $name() { crate::suite::$name(&$place); })*
        }
    };
}

// D-244, D-247, D-250
pub(crate) fn entries_of_a_plan_are_a_chain(place: &Place) {
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

pub(crate) fn a_snapshot_stands_for_the_entries_before_it(place: &Place) {
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

pub(crate) fn a_missing_entry_is_named(place: &Place) {
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

pub(crate) fn a_key_is_taken_once_and_a_refusal_writes_nothing_of_its_plan(place: &Place) {
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

pub(crate) fn verdicts_come_in_the_order_of_the_appends(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let batch: Vec<Append> = (0..100).map(|number| entry(number, 0, "one of many")).collect();
    let expected: Vec<Verdict> = (1..=100).map(Verdict::Written).collect();
    assert_eq!(append(&mut *writer, &batch), expected);
    assert_eq!(append(&mut *writer, &[]), []);
    assert_eq!(append(&mut *writer, &[entry(0, 1, "next")]), [Verdict::Written(101)]);
}

pub(crate) fn a_second_writer_ends_the_first(place: &Place) {
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

pub(crate) fn a_fenced_commit_writes_nothing(place: &Place) {
    let mut first = place.store.writer().expect("a writer");
    let _second = place.store.writer().expect("a second writer");
    let appends = [keyed(1, "key")];
    let rows = current(&[row(1, 1)]);
    let error = first.commit(&Batch { changes: &[], appends: &appends, rows: &rows, projected: 1 });
    assert!(matches!(error, Err(StoreError::Fenced { .. })), "{error:?}");
    let mut reader = place.store.reader().expect("a reader");
    assert_eq!(reader.behind().expect("it answers"), []);
    assert_eq!(reader.by_key("key").expect("it answers"), None);
    assert_eq!(reader.list(&Filter::default()).expect("it lists"), []);
    assert_eq!(reader.journal(0, 10).expect("it reads"), []);
}

// D-260
pub(crate) fn the_journal_can_be_read_as_a_whole(place: &Place) {
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
    let places = [0, 1, 3, Seq::MAX].map(|after| reader.place_after(after).expect("it reads"));
    assert_eq!(places, [Some(1), Some(2), None, None]);
}

pub(crate) fn newest_entry_and_last_place_are_told(place: &Place) {
    let (mut writer, mut reader) = place.ends();
    let told = |seq| Newest { seq, under_way: Vec::new() };
    assert_eq!(reader.last_place().expect("it reads"), 0);
    assert_eq!(reader.newest().expect("it reads"), told(0));
    append(&mut *writer, &[entry(1, 0, "a"), entry(2, 0, "x")]);
    assert_eq!(reader.last_place().expect("it reads"), 2);
    assert_eq!(reader.newest().expect("it reads"), told(2), "the write was answered");
    assert_eq!(reader.journal(0, 10).expect("it reads").len(), 2);
    // The newest entry goes, and its place is not given out again.
    write_rows(&mut *writer, &[stopped(2, 2, 5)], 2);
    assert_eq!(writer.remove(&[gone(2, 2)]).expect("it is answered"), 1);
    assert_eq!(reader.last_place().expect("it reads"), 2);
    append(&mut *writer, &[entry(1, 1, "b")]);
    assert_eq!(reader.last_place().expect("it reads"), 3);
    assert_eq!(reader.newest().expect("it reads"), told(3));
}

pub(crate) fn place_of_a_removed_entry_is_not_given_again_while_a_row_is_behind(place: &Place) {
    let (mut writer, mut reader) = place.ends();
    append(&mut *writer, &[entry(1, 0, "a"), entry(2, 0, "x")]);
    write_rows(&mut *writer, &[stopped(2, 2, 5)], 0);
    assert_eq!(writer.remove(&[gone(2, 2)]).expect("it is answered"), 1);
    assert_eq!(reader.last_place().expect("it reads"), 2);
    drop(writer);
    let mut writer = place.store.writer().expect("another writer");
    assert_eq!(append(&mut *writer, &[entry(1, 1, "b")]), [Verdict::Written(3)]);
}

pub(crate) fn large_entries_and_rows_come_back_as_they_were(place: &Place) {
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
    assert_eq!(texts(&loaded.entries), [""], "an empty entry is an entry");
}

pub(crate) fn readers_see_what_is_committed_and_no_less(place: &Place) {
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

pub(crate) fn the_row_of_a_removed_plan_is_not_written_again(place: &Place) {
    let (mut writer, mut reader) = place.ends();
    append(&mut *writer, &[entry(1, 0, "a"), entry(2, 0, "b")]);
    let late = [stopped(1, 1, 5), stopped(2, 2, 5)];
    write_rows(&mut *writer, &late, 2);
    assert_eq!(writer.remove(&[gone(1, 1)]).expect("it is answered"), 1);
    // Its actor had read the plan before, and brings the row up to date now.
    let rows: Vec<RowWrite> =
        current(&late).into_iter().map(|write| RowWrite { is_refresh: true, ..write }).collect();
    let batch = Batch { changes: &[], appends: &[], rows: &rows, projected: 2 };
    writer.commit(&batch).expect("they are written");
    let listed = reader.list(&Filter::default()).expect("it lists");
    assert_eq!(listed.iter().map(|row| row.id).collect::<Vec<_>>(), [plan(2)]);
    assert!(reader.load(plan(1), None).expect("it reads").is_none());
}

// D-245
pub(crate) fn removed_plans_leave_nothing_and_only_stopped_ones_go(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    append(&mut *writer, &[keyed(1, "one"), keyed(2, "two"), keyed(3, "three")]);
    append(&mut *writer, &[entry(1, 1, "b"), entry(2, 2, "b")]);
    let snapshot = Some((4, b"snap".to_vec()));
    let rows = [PlanRow { snapshot, ..stopped(1, 4, 10) }, stopped(2, 5, 10), row(3, 3)];
    write_rows(&mut *writer, &rows, 5);
    assert_eq!(
        reader.history(plan(1), 4).expect("it is there"),
        [(1, b"one".to_vec()), (4, b"b".to_vec())]
    );
    // Plan 2 has a newer entry than is thought, plan 3 is live, nobody knows plan 9.
    let wrong = [gone(2, 2), gone(3, 3), gone(9, 1)];
    assert_eq!(writer.remove(&wrong).expect("it answers"), 0);
    assert_eq!(reader.list(&Filter::default()).expect("it lists").len(), 3);
    assert_eq!(writer.remove(&[gone(1, 4), gone(3, 3)]).expect("it answers"), 1);
    assert!(reader.load(plan(1), None).expect("it answers").is_none());
    assert_eq!(reader.by_key("one").expect("it answers"), None, "its key is free");
    assert_eq!(reader.by_key("two").expect("it answers"), Some(plan(2)));
    let left: Vec<Seq> =
        reader.journal(0, 10).expect("it reads").iter().map(|entry| entry.seq).collect();
    assert_eq!(left, [2, 3, 5]);
    assert!(matches!(reader.history(plan(1), 4), Err(StoreError::Corrupt(_))));
    assert_eq!(append(&mut *writer, &[keyed(4, "one")]), [Verdict::Written(6)], "places go on");
    let mut second = place.store.writer().expect("a second writer");
    let error = writer.remove(&[gone(2, 5)]).expect_err("its epoch is over");
    assert!(matches!(error, StoreError::Fenced { .. }), "{error:?}");
    assert_eq!(second.remove(&[gone(2, 5)]).expect("it answers"), 1);
    assert_eq!(second.last(), 6);
}
