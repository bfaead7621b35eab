//! Which world should own which slot: a pure function of rows that all worlds read, so that all of them
//! come to the same answer without a leader.
//!
//! * Slots without a live owner are dealt at once.
//! * A slot with a live owner moves only from a world with too many to one with too few. Numbers that
//!   differ by one stay as they are.
//! * Only so many slots are in motion at a time: their owners finish first what they are doing.
//! * The weight of each pair of slot and world decides which slot goes where (rendezvous hashing).

use std::collections::{BTreeMap, BTreeSet};

/// A slot in the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotPlan {
    /// The world that owns it; 0 if none does.
    pub owner: u64,
    /// The world that is to own it; 0 or the owner if it stays.
    pub wanted: u64,
}

/// A slot gets a wanted owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The slot.
    pub slot: usize,
    /// The world that is to own it.
    pub to: u64,
}

/// Returns the moves that bring the worlds nearer to equal numbers of slots; none if they are equal
/// enough. `live` are the worlds that run plans. At most `motion_max` slots with a live owner are in
/// motion, with those that are already.
pub fn balance(slots: &[SlotPlan], live: &BTreeSet<u64>, motion_max: usize) -> Vec<Move> {
    // Where each slot will be if nothing more is decided.
    let target = |plan: &SlotPlan| {
        let worlds = [plan.wanted, plan.owner];
        worlds.into_iter().find(|world| live.contains(world))
    };
    let targets: Vec<Option<u64>> = slots.iter().map(target).collect();
    let mut shares = Shares::new(&targets, live);
    let mut moves = Vec::new();
    let ownerless = (0..slots.len()).filter(|slot| targets[*slot].is_none());
    for slot in ownerless {
        if let Some(to) = shares.receiver(slot) {
            shares.give(slot, None, to, &mut moves);
        }
    }
    let is_in_motion = |slot: &usize| {
        live.contains(&slots[*slot].owner) && targets[*slot] != Some(slots[*slot].owner)
    };
    let in_motion = (0..slots.len()).filter(is_in_motion).count();
    let limit = moves.len() + motion_max.saturating_sub(in_motion);
    let rich = live.iter().copied().filter(|world| shares.has_too_many(*world));
    for from in rich.collect::<Vec<u64>>() {
        let stays = |slot: &usize| slots[*slot].owner == from && targets[*slot] == Some(from);
        let mut own: Vec<usize> = (0..slots.len()).filter(stays).collect();
        own.sort_by_cached_key(|slot| std::cmp::Reverse(shares.pull(*slot)));
        for slot in own {
            if moves.len() == limit || !shares.has_too_many(from) {
                break;
            }
            let Some(to) = shares.receiver(slot) else { break };
            shares.give(slot, Some(from), to, &mut moves);
        }
    }
    moves
}

/// Number of slots of each world, and the number that it should have.
struct Shares(BTreeMap<u64, (usize, usize)>);

impl Shares {
    fn new(targets: &[Option<u64>], live: &BTreeSet<u64>) -> Self {
        let mut counts: BTreeMap<u64, usize> = live.iter().map(|world| (*world, 0)).collect();
        for world in targets.iter().flatten() {
            *counts.entry(*world).or_default() += 1;
        }
        // The rest of the division goes to those that have most, so that nothing moves for it.
        let mut order: Vec<(u64, usize)> = counts.into_iter().collect();
        order.sort_by_key(|(world, count)| (std::cmp::Reverse(*count), *world));
        let worlds = order.len().max(1);
        let (floor, rest) = (targets.len() / worlds, targets.len() % worlds);
        let share = |(place, (world, count)): (usize, (u64, usize))| {
            (world, (count, floor + usize::from(place < rest)))
        };
        Self(order.into_iter().enumerate().map(share).collect())
    }

    fn has_too_many(&self, world: u64) -> bool {
        self.0.get(&world).is_some_and(|(count, quota)| count > quota)
    }

    /// The world with too few slots that suits a slot best.
    fn receiver(&self, slot: usize) -> Option<u64> {
        self.pull(slot).map(|(_, world)| world)
    }

    /// The same, with its weight.
    fn pull(&self, slot: usize) -> Option<(u64, u64)> {
        let poor = self.0.iter().filter(|(_, (count, quota))| count < quota);
        poor.map(|(world, _)| (weight(slot, *world), *world)).max()
    }

    fn give(&mut self, slot: usize, from: Option<u64>, to: u64, moves: &mut Vec<Move>) {
        if let Some((count, _)) = from.and_then(|from| self.0.get_mut(&from)) {
            *count -= 1;
        }
        if let Some((count, _)) = self.0.get_mut(&to) {
            *count += 1;
        }
        moves.push(Move { slot, to });
    }
}

/// The weight of a slot at a world: the same in all versions, as neighbouring ones run side by side.
fn weight(slot: usize, world: u64) -> u64 {
    // The finisher of SplitMix64: each bit of both numbers changes half of the result.
    let mut mixed = world.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (slot as u64).rotate_left(32);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::SLOTS;

    const MOTION: usize = 16;

    fn nodes(range: std::ops::RangeInclusive<u64>) -> BTreeSet<u64> {
        range.collect()
    }

    /// Carries out what is decided, until nothing is. Returns the number of slots that had a live owner
    /// and changed it.
    fn settle(slots: &mut [SlotPlan], live: &BTreeSet<u64>) -> usize {
        let mut moved = 0;
        for round in 0.. {
            assert!(round <= 2 * SLOTS / MOTION, "it comes to an end");
            let moves = balance(slots, live, MOTION);
            for Move { slot, to } in &moves {
                slots[*slot].wanted = *to;
            }
            let in_motion = |plan: &SlotPlan| {
                live.contains(&plan.owner)
                    && live.contains(&plan.wanted)
                    && plan.owner != plan.wanted
            };
            let now = slots.iter().filter(|plan| in_motion(plan)).count();
            assert!(now <= MOTION, "{now} are in motion");
            moved += now;
            for plan in slots.iter_mut().filter(|plan| live.contains(&plan.wanted)) {
                plan.owner = plan.wanted;
            }
            if moves.is_empty() {
                break;
            }
        }
        let counts = live.iter().map(|node| slots.iter().filter(|it| it.owner == *node).count());
        let counts: Vec<usize> = counts.collect();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert_eq!(counts.iter().sum::<usize>(), SLOTS, "each has an owner");
        assert!(most - least <= 1, "{least} to {most}");
        moved
    }

    #[test]
    fn cold_starts_joins_and_leaves_of_1_to_200_nodes_end_in_equal_shares() {
        let mut grown = vec![SlotPlan::default(); SLOTS];
        for count in 1..=200 {
            let live = nodes(1..=count);
            let mut cold = vec![SlotPlan::default(); SLOTS];
            assert_eq!(settle(&mut cold, &live), 0, "nobody has to give");
            // One joins: it gets its share, and nothing else moves.
            let moved = settle(&mut grown, &live);
            assert!(moved <= SLOTS / usize::try_from(count).unwrap(), "{count}: {moved} moved");
        }
        for count in (1..200).rev() {
            // The newest leaves: only what it had moves.
            let before = grown.clone();
            assert_eq!(settle(&mut grown, &nodes(1..=count)), 0);
            let changed = before.iter().zip(&grown).filter(|(was, is)| was.owner != is.owner);
            assert!(changed.clone().all(|(was, _)| was.owner == count + 1));
        }
    }

    #[test]
    fn any_state_comes_to_equal_shares_and_stays_there() {
        let mut seed = 7_u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            (seed >> 33) % below
        };
        for _ in 0..300 {
            let known = 1 + draw(40);
            let live: BTreeSet<u64> = (1..=known).filter(|_| draw(3) > 0).collect();
            let mut any = || SlotPlan { owner: draw(known + 1), wanted: draw(3) * draw(known + 1) };
            let mut slots: Vec<SlotPlan> = (0..SLOTS).map(|_| any()).collect();
            // As many as may be in motion were, before the limit was made smaller.
            for plan in slots.iter_mut().skip(MOTION) {
                plan.wanted = 0;
            }
            if live.is_empty() {
                assert_eq!(balance(&slots, &live, MOTION), []);
                continue;
            }
            settle(&mut slots, &live);
            let settled = slots.clone();
            assert_eq!(settle(&mut slots, &live), 0);
            assert_eq!(slots, settled);
        }
    }

    #[test]
    fn a_node_that_comes_back_gets_nearly_the_slots_that_it_had() {
        let mut slots = vec![SlotPlan::default(); SLOTS];
        settle(&mut slots, &nodes(1..=10));
        let had: BTreeSet<usize> = (0..SLOTS).filter(|slot| slots[*slot].owner == 4).collect();
        let others = nodes(1..=10).into_iter().filter(|node| *node != 4).collect();
        settle(&mut slots, &others);
        let moves = balance(&slots, &nodes(1..=10), SLOTS);
        let again = moves.iter().filter(|it| it.to == 4 && had.contains(&it.slot)).count();
        assert!(again * 2 > had.len(), "{again} of {}", had.len());
    }

    #[test]
    fn weights_never_change() {
        let known = [16_294_208_416_658_607_535, 5_158_462_920_815_071_767];
        assert_eq!([weight(0, 1), weight(1_023, 200)], known);
    }
}
