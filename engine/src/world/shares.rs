//! Distribution of slots when a world joins or leaves. Pure: the journal's writer calls it.

use crate::store::{free, Slots, WorldKind, WorldRow, Worlds, WorldsWrite, SCHEDULES_SLOT, SLOTS};

/// New plans of a world are of so many of its slots, the lowest ones. So nearly all slots have no plan
/// under way, and one that joins can be given some at once; and when a world goes, its plans are spread.
const HOMES: usize = 8;

/// The slots of a world's new plans.
pub(super) fn homes(slots: &Slots) -> Vec<usize> {
    slots.iter().take(HOMES).collect()
}

/// A world joins, when some others are known to be dead. It gets what nobody owns, and its share of the
/// slots of others that have no plan under way. `row.epoch` and `row.slots` are set here.
pub(super) fn join(worlds: &Worlds, mut row: WorldRow, dead: &[u64], live: &Slots) -> WorldsWrite {
    row.epoch = worlds.version + 1;
    let is_dead = |row: &WorldRow| dead.contains(&row.epoch);
    let left: Vec<WorldRow> = worlds.rows.iter().filter(|row| !is_dead(row)).cloned().collect();
    let mut put = Vec::new();
    if row.kind == WorldKind::Executor {
        row.slots = free(&left);
        let runs = |row: &&WorldRow| row.kind == WorldKind::Executor;
        let share = SLOTS / (1 + left.iter().filter(runs).count());
        for other in left.iter().filter(runs) {
            let homes = homes(&other.slots);
            let is_idle =
                |slot: &usize| !live.has(*slot) && !homes.contains(slot) && *slot != SCHEDULES_SLOT;
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
    // With what nobody had before: its owner went when there was no heir.
    let rest: Vec<WorldRow> = worlds.rows.iter().filter(|row| !is_gone(row)).cloned().collect();
    let free = free(&rest);
    let count = heirs.len();
    if count > 0 {
        free.iter().enumerate().for_each(|(turn, slot)| heirs[turn % count].slots.add(slot));
    }
    Some(WorldsWrite { from: worlds.version, put: heirs, gone: gone.to_vec() })
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
