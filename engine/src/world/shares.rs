//! Distribution of slots when a world joins or leaves. Pure: the journal's writer calls it.

use std::collections::BTreeSet;

use super::drain::is_draining;
use crate::store::balance::{balance, SlotPlan};
use crate::store::{free, Slots, WorldKind, WorldRow, Worlds, WorldsWrite, SLOTS};

/// New plans of a world are of so many of its slots, the lowest ones. So nearly all slots have no plan
/// under way, and one that joins can be given some at once; and when a world goes, its plans are spread.
const HOMES: usize = 8;

/// Slots that one heartbeat moves, at most.
const MOTION_MAX: usize = 128;

/// The slots of a world's new plans.
pub(super) fn homes(slots: &Slots) -> Vec<usize> {
    slots.iter().take(HOMES).collect()
}

/// A world joins, when some others are known to be dead. It gets what nobody owns, and its share of the
/// slots of others that have no plan under way. `row.slots` is set here, and
/// `row.epoch` unless it had a number before.
pub(super) fn join(worlds: &Worlds, mut row: WorldRow, dead: &[u64], live: &Slots) -> WorldsWrite {
    if row.epoch == 0 {
        row.epoch = worlds.version + 1;
    }
    let is_dead = |row: &WorldRow| dead.contains(&row.epoch);
    let left: Vec<WorldRow> = worlds.rows.iter().filter(|row| !is_dead(row)).cloned().collect();
    let mut put = Vec::new();
    if row.kind == WorldKind::Executor {
        row.slots = free(&left);
        let runs = |row: &&WorldRow| row.kind == WorldKind::Executor && !is_draining(row);
        let share = SLOTS / (1 + left.iter().filter(runs).count());
        for other in left.iter().filter(runs) {
            let homes = homes(&other.slots);
            let is_idle = |slot: &usize| !live.has(*slot) && !homes.contains(slot);
            let mut other = other.clone();
            let spare = other.slots.len().saturating_sub(share);
            let wanted = share.saturating_sub(row.slots.len()).min(spare);
            let given: Vec<usize> = other.slots.iter().rev().filter(is_idle).take(wanted).collect();
            if given.is_empty() {
                continue;
            }
            for slot in given {
                other.slots.remove(slot);
                row.slots.add(slot);
            }
            put.push(other);
        }
        put.push(row);
        WorldsWrite { from: worlds.version, put, gone: dead.to_vec() }
    } else {
        // A reader takes no plans from other worlds, but dead ones are removed.
        let mut write = leave(worlds, dead).unwrap_or_default();
        write.from = worlds.version;
        write.put.push(row);
        write
    }
}

/// Worlds go: the others that run plans get what they had, in turns. `None` if none of them is there.
pub(super) fn leave(worlds: &Worlds, gone: &[u64]) -> Option<WorldsWrite> {
    let is_gone = |row: &WorldRow| gone.contains(&row.epoch);
    if !worlds.rows.iter().any(is_gone) {
        return None;
    }
    let left = worlds.rows.iter().filter(|row| !is_gone(row) && row.kind == WorldKind::Executor);
    let mut heirs: Vec<WorldRow> = left.cloned().collect();
    if heirs.iter().any(|row| !is_draining(row)) {
        heirs.retain(|row| !is_draining(row));
    }
    // With what nobody had before: its owner went when there was no heir.
    let rest: Vec<WorldRow> = worlds.rows.iter().filter(|row| !is_gone(row)).cloned().collect();
    let free = free(&rest);
    let count = heirs.len();
    if count > 0 {
        free.iter().enumerate().for_each(|(turn, slot)| heirs[turn % count].slots.add(slot));
    }
    Some(WorldsWrite { from: worlds.version, put: heirs, gone: gone.to_vec() })
}

/// Slots of these worlds that are not busy go to those that have too few, and so do those that
/// nobody has. The lapsed get none. `None` if there is nothing to do.
pub(super) fn even(
    worlds: &Worlds,
    own: &BTreeSet<u64>,
    busy: &Slots,
    lapsed: &[u64],
) -> Option<WorldsWrite> {
    let runs = |row: &&WorldRow| row.kind == WorldKind::Executor && !lapsed.contains(&row.epoch);
    let stays = |row: &&WorldRow| runs(row) && !is_draining(row);
    let live = |fits: &dyn Fn(&&WorldRow) -> bool| -> BTreeSet<u64> {
        worlds.rows.iter().filter(fits).map(|row| row.epoch).collect()
    };
    // Those that drain have slots only if nobody else can have them.
    let live = Some(live(&stays)).filter(|live| !live.is_empty()).unwrap_or_else(|| live(&runs));
    let plan = |slot| {
        let owner = worlds.owner(slot);
        // The node that declares a lapsed world dead deals its slots.
        let is_lapsed = lapsed.contains(&owner);
        (!is_lapsed).then_some((slot, SlotPlan { owner, wanted: 0 }))
    };
    let (slots, plans): (Vec<usize>, Vec<SlotPlan>) = (0..SLOTS).filter_map(plan).unzip();
    let may_go = |slot: usize| {
        let owner = worlds.owner(slot);
        let is_free = worlds.find(owner).is_none();
        is_free || (own.contains(&owner) && !busy.has(slot))
    };
    let moves = balance(&plans, &live, SLOTS).into_iter();
    let moves = moves.map(|step| (slots[step.slot], step.to)).filter(|(slot, _)| may_go(*slot));
    let mut rows = worlds.rows.clone();
    let mut changed = BTreeSet::new();
    for (slot, to) in moves.take(MOTION_MAX) {
        for row in &mut rows {
            if row.epoch == to {
                row.slots.add(slot);
            } else if row.slots.has(slot) {
                row.slots.remove(slot);
            } else {
                continue;
            }
            changed.insert(row.epoch);
        }
    }
    let put: Vec<WorldRow> = rows.into_iter().filter(|row| changed.contains(&row.epoch)).collect();
    (!put.is_empty()).then_some(WorldsWrite { from: worlds.version, put, gone: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Swap;
    use crate::time::Time;

    fn row(kind: WorldKind) -> WorldRow {
        let (name, meta) = (String::new(), String::new());
        WorldRow {
            epoch: 0,
            name,
            kind,
            since: Time(0),
            slots: Slots::default(),
            meta,
            claims: Vec::new(),
        }
    }

    fn sizes(worlds: &Worlds) -> Vec<usize> {
        worlds.rows.iter().map(|row| row.slots.len()).collect()
    }

    #[test]
    fn slots_are_shared_and_none_is_lost() {
        let mut worlds = Worlds::default();
        let nothing = Slots::default();
        for sizes_then in [vec![1_024], vec![512, 512], vec![341, 342, 341]] {
            let write = join(&worlds, row(WorldKind::Executor), &[], &nothing);
            assert_eq!(worlds.swap(&write), Swap::Done);
            assert_eq!(sizes(&worlds), sizes_then);
        }
        let write = join(&worlds, row(WorldKind::Client), &[], &nothing);
        assert_eq!(worlds.swap(&write), Swap::Done);
        let write = leave(&worlds, &[1]).expect("it is there");
        assert_eq!(worlds.swap(&write), Swap::Done);
        assert_eq!(sizes(&worlds), [513, 511, 0]);
        assert!(leave(&worlds, &[1]).is_none(), "a world goes once");
        let write = leave(&worlds, &[2, 3]).expect("they are there");
        assert_eq!(worlds.swap(&write), Swap::Done);
        assert_eq!(worlds.free().len(), SLOTS, "nobody is there to have them");
        let write = join(&worlds, row(WorldKind::Executor), &[], &nothing);
        assert_eq!(worlds.swap(&write), Swap::Done);
        assert_eq!(worlds.free().len(), 0);
    }

    #[test]
    fn a_world_gives_its_own_idle_slots_until_shares_are_equal() {
        let mut worlds = Worlds::default();
        let everything = Slots::all();
        for _ in 0..2 {
            // The second gets none, as plans are under way in all of them.
            worlds.swap(&join(&worlds, row(WorldKind::Executor), &[], &everything));
        }
        assert_eq!(sizes(&worlds), [1_024, 0]);
        let (first, second) = (BTreeSet::from([1]), BTreeSet::from([2]));
        let (idle, mut busy) = (Slots::default(), Slots::default());
        (0..SLOTS).filter(|slot| slot % 4 != 1).for_each(|slot| busy.add(slot));
        assert!(even(&worlds, &second, &idle, &[]).is_none(), "they are not its own");
        assert!(even(&worlds, &first, &idle, &[2]).is_none(), "the other one may be dead");
        let write = even(&worlds, &first, &busy, &[]).expect("some are idle");
        worlds.swap(&write);
        let given = worlds.find(2).expect("it is there").slots;
        assert_eq!(given.len(), MOTION_MAX, "so many at a time");
        assert!(given.iter().all(|slot| slot % 4 == 1));
        while let Some(write) = even(&worlds, &first, &idle, &[]) {
            worlds.swap(&write);
        }
        assert_eq!(sizes(&worlds), [512, 512]);
        // A world that has left without an heir is followed by the first that sees it.
        worlds.swap(&WorldsWrite { from: worlds.version, put: vec![], gone: vec![1] });
        while let Some(write) = even(&worlds, &second, &busy, &[]) {
            worlds.swap(&write);
        }
        assert_eq!(sizes(&worlds), [1_024]);
    }

    #[test]
    fn what_has_plans_under_way_stays_where_it_is() {
        let mut worlds = Worlds::default();
        let write = join(&worlds, row(WorldKind::Executor), &[], &Slots::default());
        worlds.swap(&write);
        let mut live = Slots::all();
        live.remove(700);
        live.remove(3);
        let write = join(&worlds, row(WorldKind::Executor), &[], &live);
        worlds.swap(&write);
        assert_eq!(sizes(&worlds), [1_023, 1]);
        assert_eq!(worlds.owner(700), 2);
        assert_eq!(worlds.owner(3), 1, "new plans of the first are made there");
    }
}
