//! What every store promises of slots: a write is admitted only under the epoch of its slot, in the same
//! transaction, whichever writer it comes from.

use std::time::Duration;

use turnwheel_actors::entity::Record;
use turnwheel_engine::store::{
    slot_of, slot_of_schedule, Append, Batch, Change, Filter, Hold, Mail, Members, PlanRow,
    Removal, RowWrite, ScheduleWrite, Slots, StateScan, StoreWriter, Swap, Verdict, WorldKind,
    WorldRow, WorldsWrite, NO_EPOCH,
};
use turnwheel_engine::Time;

use super::place::*;

fn world(number: u64, slots: Slots) -> WorldRow {
    WorldRow {
        epoch: number,
        name: format!("world {number}"),
        kind: WorldKind::Executor,
        since: Time(number),
        slots,
        meta: "{}".to_owned(),
        claims: vec![],
    }
}

/// Deals the slots to these worlds, from a version.
fn deal(writer: &mut dyn StoreWriter, from: u64, rows: &[(u64, Slots)]) -> Swap {
    let put = rows.iter().map(|(number, slots)| world(*number, *slots)).collect();
    writer.write_worlds(&WorldsWrite { from, put, gone: vec![] }).expect("it is written")
}

fn all_to(writer: &mut dyn StoreWriter, from: u64, new: u64, old: u64) {
    let rows = [(new, Slots::all()), (old, Slots::default())];
    assert_eq!(deal(writer, from, &rows), Swap::Done);
}

fn two_writers(place: &Place) -> [Box<dyn StoreWriter>; 2] {
    [0, 1].map(|_| place.store.open().expect("a writer beside others"))
}

fn under(epoch: u64, append: Append) -> Append {
    Append { epoch, ..append }
}

fn row_under(epoch: u64, row: PlanRow) -> RowWrite {
    RowWrite { row, epoch, is_refresh: false }
}

fn state(number: u8, epoch: u64, expected: u64) -> Change {
    let (entity, key) = ("kind".to_owned(), format!("key {number}"));
    let change = Change::State { entity, key, bytes: Some(vec![1]), due: None, expected, epoch: 0 };
    Change::Under { hold: Hold::of(plan(number), epoch), change: Box::new(change) }
}

pub(crate) fn a_write_under_an_old_epoch_writes_nothing_and_names_the_owner(place: &Place) {
    let mut first = place.store.open().expect("a writer");
    let mut second = place.store.open().expect("a second writer");
    let mut reader = place.store.reader().expect("a reader");
    assert_eq!(deal(&mut *first, 0, &[(1, Slots::all())]), Swap::Done);
    let verdicts = append(&mut *first, &[under(1, entry(1, 0, "a")), under(1, entry(2, 0, "x"))]);
    assert_eq!(verdicts, [Verdict::Written(1), Verdict::Written(2)]);
    let rows = [row_under(1, row(1, 1)), row_under(1, stopped(2, 2, 7))];
    let written = Batch { changes: &[], appends: &[], rows: &rows, projected: 2 };
    first.commit(&written).expect("it is written");

    all_to(&mut *second, 1, 2, 1);
    let names = |text: &str| vec![text.to_owned()];
    let late = Append {
        key: Some("key".to_owned()),
        take: names("lock"),
        follow: vec![plan(2)],
        ..under(1, entry(1, 1, "late"))
    };
    let rows = [row_under(1, row(1, 3)), row_under(1, row(3, 3))];
    let changes = [state(1, 1, 0)];
    let batch = Batch { appends: &[late], changes: &changes, rows: &rows, projected: 2 };
    let moved = Verdict::Moved { owner: 2, epoch: 2 };
    assert_eq!(first.commit(&batch).expect("it is answered"), [moved.clone(), moved.clone()]);
    let removal = |epoch| [Removal { plan: plan(2), head: 2, epoch }];
    assert_eq!(first.remove(&removal(1)).expect("it is answered"), 0);
    assert_eq!(reader.by_key("key").expect("it answers"), None);
    assert_eq!(reader.locks().expect("it answers"), []);
    assert_eq!(reader.followers().expect("it answers"), []);
    assert_eq!(reader.state("kind", "key 1").expect("it answers").version, 0);
    assert_eq!(reader.journal(0, 10).expect("it reads").len(), 2);
    let listed = reader.list(&Filter::default()).expect("it lists");
    let heads: Vec<_> = listed.iter().map(|row| (row.id, row.head)).collect();
    assert_eq!(heads, [(plan(2), 2), (plan(1), 1)], "rows are those of the owner");

    let next = [under(2, entry(1, 1, "of the owner"))];
    assert_eq!(append(&mut *second, &next), [Verdict::Written(3)]);
    let batch = Batch { appends: &[], changes: &[state(1, 2, 0)], rows: &[], projected: 0 };
    assert_eq!(second.commit(&batch).expect("it is written"), [Verdict::Changed(1)]);
    assert_eq!(second.remove(&removal(2)).expect("it is answered"), 1);
}

pub(crate) fn a_state_that_is_gone_leaves_no_version_and_no_due_time(place: &Place) {
    let (mut writer, mut reader) = place.ends();
    let of = |key: &str| ("kind".to_owned(), key.to_owned());
    let save = |key: &str, expected: u64| {
        let ((entity, key), bytes, due) = (of(key), Some(vec![1]), Some(Time(5)));
        Change::State { entity, key, bytes, due, expected, epoch: 0 }
    };
    let gone = |key: &str| {
        let (entity, key) = of(key);
        Change::StateGone { entity, key }
    };
    let mut commit = |changes: &[Change]| {
        let batch = Batch { appends: &[], changes, rows: &[], projected: 0 };
        writer.commit(&batch).expect("it is written")
    };
    assert_eq!(commit(&[save("a", 0), save("b", 0)]), [Verdict::Changed(1), Verdict::Changed(1)]);
    let verdicts = commit(&[gone("a"), gone("x"), save("b", 1), save("b", 1)]);
    let conflict = Verdict::Conflict { found: 2 };
    let changed = Verdict::Changed;
    assert_eq!(verdicts, [changed(0), changed(0), changed(2), conflict]);
    assert_eq!(reader.state("kind", "a").expect("it answers"), Record::default());
    let due = reader.states_of("kind", &StateScan::Due(Time(9)), 9).expect("it answers");
    assert_eq!(due.iter().map(|row| row.key.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(commit(&[save("a", 0)]), [changed(1)], "it is as if it had never been");
}

pub(crate) fn an_owner_that_gets_a_slot_back_has_a_new_epoch(place: &Place) {
    let [mut first, mut second] = two_writers(place);
    deal(&mut *first, 0, &[(1, Slots::all())]);
    all_to(&mut *second, 1, 2, 1);
    all_to(&mut *first, 2, 1, 2);
    let moved = [Verdict::Moved { owner: 1, epoch: 3 }];
    let sent_before = [under(1, entry(1, 0, "sent long ago"))];
    assert_eq!(append(&mut *first, &sent_before), moved);
    assert_eq!(append(&mut *second, &sent_before), moved);
    assert_eq!(append(&mut *second, &[under(NO_EPOCH, entry(1, 0, "no owner"))]), moved);
    assert_eq!(append(&mut *first, &[under(3, entry(1, 0, "now"))]), [Verdict::Written(1)]);
    // Slots that stay where they are keep their epochs.
    deal(&mut *first, 3, &[(1, Slots::all())]);
    assert_eq!(append(&mut *first, &[under(3, entry(1, 1, "then"))]), [Verdict::Written(2)]);
}

pub(crate) fn a_slot_moves_alone_and_a_freed_one_refuses_its_last_owner(place: &Place) {
    let [mut first, mut second] = two_writers(place);
    deal(&mut *first, 0, &[(1, Slots::all())]);
    let mut rest = Slots::all();
    rest.remove(slot_of(plan(2)));
    let mut moved = Slots::default();
    moved.add(slot_of(plan(2)));
    deal(&mut *second, 1, &[(1, rest), (2, moved)]);
    let batch =
        [under(1, entry(1, 0, "a")), under(1, entry(2, 0, "b")), under(2, entry(2, 0, "c"))];
    let moved = Verdict::Moved { owner: 2, epoch: 2 };
    assert_eq!(append(&mut *first, &batch), [Verdict::Written(1), moved, Verdict::Written(2)]);
    let write = WorldsWrite { from: 2, put: vec![], gone: vec![2] };
    assert_eq!(first.write_worlds(&write).expect("it is written"), Swap::Done);
    let freed = Verdict::Moved { owner: 0, epoch: 3 };
    assert_eq!(append(&mut *second, &[under(2, entry(2, 2, "d"))]), [freed]);
    let mut reader = place.store.reader().expect("a reader");
    let worlds = reader.worlds().expect("they are read");
    assert_eq!((worlds.rows.len(), worlds.free().len()), (1, 1));
    let owner = worlds.owners()[slot_of(plan(2))];
    assert_eq!((owner.world, owner.epoch), (0, 3));
}

pub(crate) fn writers_beside_each_other_make_one_journal(place: &Place) {
    let mut first = place.store.open().expect("a writer");
    append(&mut *first, &[entry(1, 0, "before")]);
    let mut second = place.store.open().expect("a second writer");
    assert_eq!(append(&mut *second, &[entry(2, 0, "b")]), [Verdict::Written(2)]);
    assert_eq!(append(&mut *first, &[entry(3, 0, "c")]), [Verdict::Written(3)]);
    assert_eq!(append(&mut *second, &[entry(4, 0, "d")]), [Verdict::Written(4)]);
    let mut reader = place.store.reader().expect("a reader");
    let mut behind = || {
        let behind = reader.behind().expect("it answers");
        behind.into_iter().map(|(plan, _)| plan).collect::<Vec<_>>()
    };
    // The first writer has all of its own in rows, and knows nothing of those of the second.
    write_rows(&mut *first, &[row(1, 1), row(3, 3)], 3);
    assert!(behind().contains(&plan(2)) && behind().contains(&plan(4)), "{:?}", behind());
    write_rows(&mut *second, &[row(1, 1), row(2, 2), row(4, 4)], 4);
    assert!(!behind().contains(&plan(2)), "{:?}", behind());
    drop((first, second));
    let mut third = place.store.writer().expect("a writer for itself");
    assert_eq!(append(&mut *third, &[entry(5, 0, "e")]), [Verdict::Written(5)]);
    let all = reader.behind().expect("it answers");
    assert!(all.contains(&(plan(5), 5)) && !all.contains(&(plan(2), 2)), "{all:?}");
}

pub(crate) fn a_plan_of_another_process_is_read_up_to_its_newest_entry(place: &Place) {
    // A store of one process at a time knows the newest entries of all.
    if place.store.members().expect("it is open").is_none() {
        return;
    }
    let [mut first, _second] = two_writers(place);
    append(&mut *first, &[entry(1, 0, "a"), entry(2, 0, "x")]);
    let mut reader = place.store.reader().expect("a reader");
    let mut head = |number| {
        let loaded = reader.load(plan(number), None).expect("it loads");
        loaded.map(|loaded| (loaded.head, loaded.entries.len()))
    };
    assert_eq!(head(1), Some((1, 1)), "it has no row");
    write_rows(&mut *first, &[row(1, 1)], 0);
    append(&mut *first, &[entry(1, 1, "b")]);
    assert_eq!((head(1), head(2), head(9)), (Some((3, 2)), Some((2, 1)), None));
}

pub(crate) fn the_table_of_worlds_is_changed_from_the_version_that_was_read(place: &Place) {
    let [mut first, mut second] = two_writers(place);
    assert_eq!(deal(&mut *first, 0, &[(1, Slots::all())]), Swap::Done);
    assert_eq!(deal(&mut *second, 0, &[(2, Slots::all())]), Swap::Changed { version: 1 });
    let schedule = |from, epoch| {
        [ScheduleWrite { name: "daily".to_owned(), from, data: Some(vec![1]), epoch }]
    };
    assert_eq!(first.write_schedules(&schedule(0, 1)).expect("it is written"), [Swap::Done]);
    let slot = slot_of_schedule("daily");
    let other = (0..).map(|number| format!("other {number}"));
    let other = other.into_iter().find(|name| slot_of_schedule(name) != slot).expect("some");
    let (mut left, mut given) = (Slots::all(), Slots::default());
    left.remove(slot);
    given.add(slot);
    assert_eq!(deal(&mut *second, 1, &[(1, left), (2, given)]), Swap::Done);
    // One of the former owner is refused, and another one of the same commit is written.
    let own = ScheduleWrite { name: other, from: 0, data: Some(vec![2]), epoch: 1 };
    let both = [schedule(1, 1).to_vec(), vec![own]].concat();
    let swaps = first.write_schedules(&both).expect("one is written");
    assert_eq!(swaps, [Swap::Moved { epoch: 2 }, Swap::Done]);
    assert_eq!(second.write_schedules(&schedule(1, 2)).expect("it is written"), [Swap::Done]);
}

pub(crate) fn a_world_is_declared_dead_when_its_lease_is_over(place: &Place) {
    // A store of one process at a time has no leases.
    let Some(mut members) = place.store.members().expect("it is open") else { return };
    let mut writer = place.store.open().expect("a writer");
    deal(&mut *writer, 0, &[(1, Slots::all()), (2, Slots::default())]);
    let hour = Duration::from_secs(3_600);
    let mut beat = |worlds: &[u64], lease| {
        let beat = members.beat(worlds, lease).expect("it answers");
        (beat.version, beat.lapsed())
    };
    assert_eq!(beat(&[1], hour), (1, vec![]), "the second has come a moment ago");
    let mut dead = |from, world| {
        let write = WorldsWrite { from, put: vec![], gone: vec![world] };
        writer.declare_dead(&write).expect("it is answered")
    };
    assert_eq!(dead(1, 1), Swap::Changed { version: 1 }, "its lease is not over");
    assert_eq!(beat(&[2], Duration::ZERO), (1, vec![2]));
    assert_eq!(dead(0, 2), Swap::Changed { version: 1 }, "the table is another one");
    assert_eq!(dead(1, 2), Swap::Done);
    assert_eq!(beat(&[1, 2], Duration::ZERO), (2, vec![1]), "the second is not there");
    assert_eq!(beat(&[1], hour), (2, vec![]), "it is renewed as long as nobody was faster");
    assert_eq!(dead(2, 1), Swap::Changed { version: 2 });
}

pub(crate) fn rows_for_worlds_are_given_once_and_in_their_order(place: &Place) {
    // A store of one process at a time carries none.
    let Some(mut members) = place.store.members().expect("it is open") else { return };
    let mut writer = place.store.open().expect("a writer");
    deal(&mut *writer, 0, &[(1, Slots::all()), (2, Slots::default())]);
    let aged = |to, byte: u8, age| Mail { to, bytes: vec![byte; 3], age };
    let mail = |to, byte| aged(to, byte, Duration::ZERO);
    fn taken(from: &mut dyn Members, worlds: &[u64], rows: usize, bytes: usize) -> Vec<(u64, u8)> {
        let mail = from.mail(worlds, rows, bytes).expect("it answers");
        mail.into_iter().map(|mail| (mail.to, mail.bytes[0])).collect()
    }
    let posted = members.post(&[mail(1, 1), mail(2, 2), mail(9, 3), mail(1, 4)]);
    assert!(posted.expect("it answers"), "it carries rows");
    assert_eq!(taken(&mut *members, &[9], 9, 99), [], "nobody is there");
    assert_eq!(taken(&mut *members, &[1], 1, 99), [(1, 1)]);
    assert!(members.post(&[mail(1, 5), mail(1, 7), mail(1, 8)]).expect("it answers"));
    assert_eq!(taken(&mut *members, &[1], 9, 4), [(1, 4), (1, 5)], "more than so many bytes");
    assert_eq!(taken(&mut *members, &[1], 9, 1), [(1, 7)], "one that is larger comes alone");
    assert_eq!(taken(&mut *members, &[1], 9, 99), [(1, 8)]);
    assert_eq!(taken(&mut *members, &[1], 9, 99), []);
    let mut other = place.store.members().expect("it is open").expect("it has leases");
    assert_eq!(taken(&mut *other, &[1, 2], 9, 99), [(2, 2)]);
    // The time that they have waited before counts.
    let hour = Duration::from_secs(3_600);
    assert!(members.post(&[aged(2, 9, hour), mail(2, 10)]).expect("it answers"));
    let mail_of = other.mail(&[2], 9, 99).expect("it answers");
    let ages: Vec<bool> = mail_of.iter().map(|mail| mail.age >= hour).collect();
    assert_eq!(ages, [true, false], "{mail_of:?}");
    // They go with their world.
    assert!(members.post(&[mail(2, 6)]).expect("it answers"));
    let gone = WorldsWrite { from: 1, put: vec![], gone: vec![2] };
    assert_eq!(writer.write_worlds(&gone).expect("it is written"), Swap::Done);
    let left = members.beat(&[], Duration::from_secs(9)).expect("it answers");
    assert_eq!(left.left.len(), 1, "{left:?}");
    deal(&mut *writer, 2, &[(2, Slots::default())]);
    assert_eq!(taken(&mut *other, &[2], 9, 99), []);
}

pub(crate) fn an_entry_of_a_later_owner_is_no_answer(place: &Place) {
    if place.store.members().expect("it is open").is_none() {
        return;
    }
    let [mut first, mut second] = two_writers(place);
    deal(&mut *first, 0, &[(1, Slots::all())]);
    let sent = [under(1, entry(1, 0, "sent")), under(1, entry(2, 0, "made"))];
    append(&mut *first, &sent[1..]);
    all_to(&mut *second, 1, 2, 1);
    append(&mut *second, &[under(2, entry(1, 0, "of the owner"))]);
    let found = first.written(&[&sent[0], &sent[1]], 0).expect("it answers");
    assert_eq!(found, [None, Some(1)]);
    assert_eq!(first.written(&[&sent[1]], 1).expect("it answers"), [None], "it was known");
}

pub(crate) fn what_is_behind_and_what_wakes_is_told_for_some_slots(place: &Place) {
    let (mut writer, mut reader) = place.ends();
    append(&mut *writer, &[entry(1, 0, "a"), entry(2, 0, "b"), entry(1, 1, "c")]);
    let mut some = Slots::default();
    some.add(slot_of(plan(1)));
    assert_eq!(reader.behind_in(&some).expect("it answers"), [(plan(1), 3)]);
    let wakes = |number, at| PlanRow { wakes_at: Some(Time(at)), ..row(number, 3) };
    write_rows(&mut *writer, &[wakes(1, 30), wakes(2, 10)], 3);
    assert_eq!(reader.behind_in(&some).expect("it answers"), []);
    let later = reader.wakes_in(&some, Time(40), 9).expect("it answers");
    assert_eq!(later, [(Time(30), plan(1))]);
    assert_eq!(reader.wakes_in(&some, Time(20), 9).expect("it answers"), []);
    assert_eq!(reader.wakes_in(&some, Time(40), 0).expect("it answers"), []);
}
