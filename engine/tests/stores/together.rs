//! Many changes of one commit are answered as the same changes are one by one: beside the store that is tried a
//! store in memory makes each in a commit of its own.

use std::sync::Barrier;
use std::thread;

use turnwheel_engine::store::{
    slot_of, Append, Batch, Change, Hold, Slots, StateScan, StoreWriter, Swap, Verdict, WorldKind,
    WorldRow, WorldsWrite,
};
use turnwheel_engine::{MemoryStore, Store, Time};

use super::place::*;

const ENTITY: &str = "kind";

/// A generator of numbers by a seed (xorshift, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Gives the slot of plan 1 to nobody else than world 7; the others have no owner.
fn deal(writer: &mut dyn StoreWriter) {
    let mut slots = Slots::default();
    slots.add(slot_of(plan(1)));
    let row = WorldRow {
        epoch: 7,
        name: "seven".to_owned(),
        kind: WorldKind::Executor,
        since: Time(1),
        slots,
        meta: "{}".to_owned(),
        claims: vec![],
    };
    let write = WorldsWrite { from: 0, put: vec![row], gone: vec![] };
    assert_eq!(writer.write_worlds(&write).expect("it is written"), Swap::Done);
}

fn commit(writer: &mut dyn StoreWriter, changes: &[Change]) -> Vec<Verdict> {
    let batch = Batch { appends: &[], changes, rows: &[], projected: 0 };
    writer.commit(&batch).expect("it is written")
}

/// A change of one of some states: mostly from the version that it has.
fn change(random: &mut Random, key: u64, version: u64) -> Change {
    let (entity, name) = (ENTITY.to_owned(), format!("key {key}"));
    if random.below(12) == 0 {
        return Change::StateGone { entity, key: name };
    }
    let expected = if random.below(5) == 0 { random.below(4) } else { version };
    let bytes = (random.below(7) > 0).then(|| random.below(1 << 40).to_le_bytes().to_vec());
    let due = (random.below(2) == 0).then(|| Time(random.below(100)));
    let epoch = random.below(8).max(5);
    let change = Change::State { entity, key: name, bytes, due, expected, epoch };
    match random.below(6) {
        0 => Change::Under { hold: Hold::of(plan(1), 1), change: Box::new(change) },
        1 => Change::Under { hold: Hold::of(plan(1), 0), change: Box::new(change) },
        2 => Change::Under { hold: Hold::of(plan(2), 0), change: Box::new(change) },
        _ => change,
    }
}

pub(crate) fn states_of_one_commit_are_answered_as_one_by_one(place: &Place) {
    let (beside, (mut writer, mut reader)) = (MemoryStore::new(), place.ends());
    let (mut one, mut known) =
        (beside.writer().expect("a writer"), beside.reader().expect("it is"));
    deal(&mut *writer);
    deal(&mut *one);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..40 {
        // A few are made one by one, many together, and those of which two are of one state in their order.
        let (count, keys) = ([3, 40, 40, 12][round % 4], if round % 4 == 2 { 25 } else { 60 });
        let mut left: Vec<u64> = (0..keys).collect();
        let mut gone = Vec::new();
        let mut changes = Vec::new();
        for _ in 0..count {
            let at = random.below(left.len() as u64) as usize;
            let key = if round % 4 == 2 { left[at] } else { left.swap_remove(at) };
            let name = format!("key {key}");
            let version = known.state(ENTITY, &name).expect("it answers").version;
            let change = change(&mut random, key, version);
            // A state that goes is in no other change of its commit.
            let is_gone = matches!(change, Change::StateGone { .. });
            if gone.contains(&key) || (is_gone && round % 4 == 2) {
                continue;
            }
            gone.extend(is_gone.then_some(key));
            changes.push(change);
        }
        let alone: Vec<Verdict> =
            changes.iter().flat_map(|it| commit(&mut *one, std::slice::from_ref(it))).collect();
        assert_eq!(commit(&mut *writer, &changes), alone, "round {round}: {changes:?}");
        for key in 0..60 {
            let name = format!("key {key}");
            let [here, there] = [&mut reader, &mut known].map(|it| it.state(ENTITY, &name));
            assert_eq!(here.expect("it answers"), there.expect("it answers"), "{round}: {name}");
        }
        let [here, there] = [&mut reader, &mut known]
            .map(|it| it.states_of(ENTITY, &StateScan::Due(Time(99)), 99).expect("it answers"));
        assert_eq!(here, there, "round {round}");
    }
}

pub(crate) fn keys_of_one_commit_are_taken_by_the_first_that_is_admitted(place: &Place) {
    let (mut writer, mut reader) = place.ends();
    deal(&mut *writer);
    let of = |number: u8, key: &str, epoch: u64| Append { epoch, ..keyed(number, key) };
    assert_eq!(append(&mut *writer, &[of(9, "old", 0)]), [Verdict::Written(1)]);
    let owner = Verdict::Moved { owner: 7, epoch: 1 };
    let taken = |number: u8| Verdict::KeyTaken(plan(number));
    let verdicts = append(
        &mut *writer,
        &[of(1, "new", 0), of(2, "new", 0), of(3, "new", 0), of(4, "old", 0), entry(5, 0, "none")],
    );
    let written = Verdict::Written;
    assert_eq!(verdicts, [owner, written(2), taken(2), taken(9), written(3)]);
    // The same entry again, as after a lost answer.
    assert_eq!(append(&mut *writer, &[of(2, "new", 0), of(6, "six", 0)]), [taken(2), written(4)]);
    let mut holder = |key: &str| reader.by_key(key).expect("it answers");
    assert_eq!(
        (holder("new"), holder("old"), holder("six")),
        (Some(plan(2)), Some(plan(9)), Some(plan(6)),)
    );
    assert_eq!(reader.journal(0, 10).expect("it reads").len(), 4, "who was refused wrote nothing");
}

pub(crate) fn of_two_writers_at_once_one_makes_each_state_and_has_each_key(place: &Place) {
    let writers = [0, 1].map(|_| place.store.open().expect("a writer beside others"));
    let start = Barrier::new(2);
    let tell = |number: u8, mut writer: Box<dyn StoreWriter>| {
        let mut all = Vec::new();
        for round in 0..30 {
            let mut keys: Vec<u64> = (0..20).collect();
            // They come from both ends.
            if number == 1 {
                keys.reverse();
            }
            let state = |key: &u64| Change::State {
                entity: ENTITY.to_owned(),
                key: format!("{round} {key}"),
                bytes: Some(vec![number]),
                due: None,
                expected: 0,
                epoch: 0,
            };
            let changes: Vec<Change> = keys.iter().map(state).collect();
            let key = |key: &u64| keyed(number * 100 + *key as u8, &format!("{round} {key}"));
            let appends: Vec<Append> = keys.iter().map(key).collect();
            start.wait();
            let batch = Batch { appends: &appends, changes: &changes, rows: &[], projected: 0 };
            let mut verdicts = writer.commit(&batch).expect("it is written");
            let mut changed = verdicts.split_off(appends.len());
            if number == 1 {
                verdicts.reverse();
                changed.reverse();
            }
            all.extend(verdicts.into_iter().zip(changed));
        }
        all
    };
    let [first, second] = thread::scope(|scope| {
        let [first, second] = writers;
        let second = scope.spawn(|| tell(1, second));
        [tell(0, first), second.join().expect("no panic")]
    });
    for ((key, state), (other_key, other_state)) in first.iter().zip(&second) {
        let won = |verdict: &Verdict| *verdict == Verdict::Changed(1);
        assert!(won(state) != won(other_state), "{state:?}, {other_state:?}");
        let lost = if won(state) { other_state } else { state };
        assert_eq!(*lost, Verdict::Conflict { found: 1 });
        let is_written = |verdict: &Verdict| matches!(verdict, Verdict::Written(_));
        assert!(is_written(key) != is_written(other_key), "{key:?}, {other_key:?}");
        let refused = if is_written(key) { other_key } else { key };
        assert!(matches!(refused, Verdict::KeyTaken(_)), "{refused:?}");
    }
}
