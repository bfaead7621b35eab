//! Order of the keys that share a queue: each that wants a place gets one, and none takes all.
//!
//! [`may_begin`] is the rule. While at most [`kept`] keys have places, a further one finds a place
//! at once, however many calls those want: a key with a place takes another one only if more than
//! `kept` places are free, so only first places of keys can use these up. Beyond that many keys,
//! the next place that comes back goes to a key that has none. Calls without such a key are
//! together as one that has no limit, and for which no place is kept.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::fair::{Fair, Number};
use crate::id::PlanId;

/// A key that shares a queue; nothing for calls without one.
pub(super) type Share = Option<String>;

/// A waiter whose turn it is.
#[derive(Debug)]
pub(super) struct Next<T> {
    pub(super) share: (Share, u32),
    pub(super) priority: i32,
    pub(super) plan: PlanId,
    pub(super) number: Number,
    pub(super) waiter: T,
}

/// The keys that share a queue, and their waiters. Cost: of a waiter logarithmic in their count, of
/// a place linear in the count of keys that wait.
#[derive(Debug)]
pub(super) struct Sharing<T> {
    size: u32,
    running: u32,
    /// Keys that have a place or wait for one.
    sharers: HashMap<Share, Sharer<T>>,
    waiting: usize,
    last_turn: u64,
}

#[derive(Debug)]
struct Sharer<T> {
    /// How many places it may have at once; the last call says so.
    limit: u32,
    running: u32,
    /// When it got its last place, gave back its only one, or began to wait.
    turn: u64,
    waiting: Fair<T>,
}

/// Places that are kept for keys without one: half of what the limit of one key leaves to others.
fn kept(size: u32, limit: u32) -> u32 {
    size.saturating_sub(limit).div_ceil(2)
}

/// Whether a key that has `own` places of a queue gets a further one while `free` are free.
pub(crate) fn may_begin(size: u32, free: u32, limit: u32, own: u32) -> bool {
    match own {
        0 => free > 0,
        own => own < limit && free > kept(size, limit),
    }
}

impl<T> Sharing<T> {
    pub(super) fn new(size: u32) -> Self {
        Self { size, running: 0, sharers: HashMap::new(), waiting: 0, last_turn: 0 }
    }

    pub(super) fn running(&self) -> u32 {
        self.running
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(super) fn has_place(&self) -> bool {
        self.running < self.size
    }

    /// Whether a call with this key gets a place now, before no waiter that could have it.
    pub(super) fn is_free_for(&self, (share, limit): &(Share, u32)) -> bool {
        let sharer = self.sharers.get(share);
        let own = sharer.map_or(0, |sharer| sharer.running);
        sharer.is_none_or(|sharer| sharer.waiting.len() == 0)
            && may_begin(self.size, self.free(), *limit, own)
            && self.first().is_none()
    }

    /// Adds a waiter.
    pub(super) fn put(&mut self, next: Next<T>) {
        let Next { share: (share, limit), priority, plan, number, waiter } = next;
        let sharer = self.sharer(share, limit);
        sharer.waiting.put(priority, plan, number, waiter);
        self.waiting += 1;
    }

    /// Takes the waiter whose turn it is, if it may have a place.
    pub(super) fn take(&mut self) -> Option<Next<T>> {
        let share = self.first()?.clone();
        let sharer = self.sharers.get_mut(&share).expect("the first one is known");
        let (priority, plan, number, waiter) = sharer.waiting.take().expect("it has a waiter");
        let limit = sharer.limit;
        self.waiting -= 1;
        self.forget(&share);
        Some(Next { share: (share, limit), priority, plan, number, waiter })
    }

    /// Takes one out of turn, if it is here.
    pub(super) fn remove(
        &mut self,
        share: &Share,
        priority: i32,
        plan: PlanId,
        number: Number,
    ) -> Option<T> {
        let waiter = self.sharers.get_mut(share)?.waiting.remove(priority, plan, number)?;
        self.waiting -= 1;
        self.forget(share);
        Some(waiter)
    }

    /// A call with this key has a place from now on.
    pub(super) fn began(&mut self, (share, limit): (Share, u32)) {
        self.running += 1;
        debug_assert!(self.running <= self.size, "no more run than there are places");
        self.last_turn += 1;
        let turn = self.last_turn;
        let sharer = self.sharer(share, limit);
        sharer.running += 1;
        sharer.turn = turn;
    }

    /// A place of this key came back.
    pub(super) fn ended(&mut self, share: &Share) {
        self.running -= 1;
        let sharer = self.sharers.get_mut(share).expect("a key with a place is known");
        sharer.running -= 1;
        if sharer.running == 0 {
            // Behind those that have waited for their first place meanwhile.
            self.last_turn += 1;
            sharer.turn = self.last_turn;
        }
        self.forget(share);
    }

    fn free(&self) -> u32 {
        self.size - self.running
    }

    /// The key whose turn it is: those without a place first, then by the priority of their first
    /// plan, then those with the fewest places, and of equal ones the one whose last turn was
    /// before.
    fn first(&self) -> Option<&Share> {
        let free = self.free();
        let is_able = |sharer: &Sharer<T>| {
            may_begin(self.size, free, sharer.limit, sharer.running) && sharer.waiting.len() > 0
        };
        let order = |sharer: &Sharer<T>| {
            let priority = Reverse(sharer.waiting.priority());
            (sharer.running > 0, priority, sharer.running, sharer.turn)
        };
        if self.waiting == 0 || free == 0 {
            return None;
        }
        let able = self.sharers.iter().filter(|(_, sharer)| is_able(sharer));
        able.min_by_key(|(_, sharer)| order(sharer)).map(|(share, _)| share)
    }

    fn sharer(&mut self, share: Share, limit: u32) -> &mut Sharer<T> {
        let last_turn = &mut self.last_turn;
        let sharer = self.sharers.entry(share).or_insert_with(|| {
            *last_turn += 1;
            Sharer { limit, running: 0, turn: *last_turn, waiting: Fair::default() }
        });
        sharer.limit = limit;
        sharer
    }

    fn forget(&mut self, share: &Share) {
        let sharer = self.sharers.get(share);
        if sharer.is_some_and(|sharer| sharer.running == 0 && sharer.waiting.len() == 0) {
            self.sharers.remove(share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_of_a_further_place_is_this_table() {
        for (size, free, limit, own, expected) in [
            // Of 64 places one key gets 48; 8 are kept for keys without any.
            (64, 64, 48, 0, true),
            (64, 17, 48, 47, true),
            (64, 16, 48, 48, false),
            (64, 9, 48, 7, true),
            (64, 8, 48, 8, false),
            (64, 8, 48, 1, false),
            (64, 1, 48, 0, true),
            (64, 0, 48, 0, false),
            // Small queues keep one.
            (4, 2, 3, 2, true),
            (4, 1, 3, 1, false),
            (2, 1, 1, 1, false),
            (2, 1, 1, 0, true),
            (1, 1, 1, 0, true),
            // A limit of all places keeps none, and so do calls without a key.
            (64, 1, 64, 63, true),
            (64, 1, u32::MAX, 63, true),
            (64, 0, u32::MAX, 64, false),
        ] {
            let found = may_begin(size, free, limit, own);
            assert_eq!(found, expected, "size {size}, free {free}, limit {limit}, own {own}");
        }
    }

    fn next(share: &str, number: Number) -> Next<Number> {
        let (plan, limit) = (PlanId::from_bytes([1; 16]), 0);
        Next { share: (Some(share.to_owned()), limit), priority: 0, plan, number, waiter: number }
    }

    /// A queue in which each of these keys wants more places than there are, one key after the
    /// other.
    fn greedy(size: u32, limit: u32, keys: u32) -> Sharing<Number> {
        let mut queue = Sharing::new(size);
        let mut number = 0;
        for key in 0..keys {
            for _ in 0..=size {
                number += 1;
                let mut next = next(&key.to_string(), number);
                next.share.1 = limit;
                queue.put(next);
            }
            give_out(&mut queue);
        }
        queue
    }

    fn give_out(queue: &mut Sharing<Number>) -> Vec<String> {
        let taken = std::iter::from_fn(|| {
            let next = queue.take()?;
            queue.began(next.share.clone());
            Some(next.share.0.unwrap_or_default())
        });
        taken.collect()
    }

    /// The key with the most places ends one of its calls.
    fn end_one(queue: &mut Sharing<Number>) {
        let most = queue.sharers.iter().max_by_key(|(_, sharer)| sharer.running);
        let most = most.map(|(share, _)| share.clone()).expect("somebody runs");
        queue.ended(&most);
    }

    #[test]
    fn further_key_gets_a_place_however_many_greedy_ones_there_are() {
        for size in 2..=24 {
            for limit in 1..size {
                for keys in 1..size {
                    let mut queue = greedy(size, limit, keys);
                    let told = format!("{keys} keys, {limit} of {size} places each");
                    queue.put(next("further", u64::MAX));
                    let mut given = give_out(&mut queue);
                    // Without a free place the next one is its own, and so on for those before it.
                    let (mut ends, mut limit_of_ends) = (0, keys.saturating_sub(kept(size, limit)));
                    while !given.iter().any(|key| key == "further") {
                        assert!(limit_of_ends > 0, "it waits: {told}");
                        limit_of_ends -= 1;
                        ends += 1;
                        end_one(&mut queue);
                        given = give_out(&mut queue);
                    }
                    assert!(keys > kept(size, limit) || ends == 0, "it has waited: {told}");
                }
            }
        }
    }

    #[test]
    fn places_come_to_be_shared_equally_by_keys_that_want_them() {
        let mut queue = greedy(64, 48, 2);
        let running = |queue: &Sharing<Number>, key: &str| {
            queue.sharers.get(&Some(key.to_owned())).map_or(0, |sharer| sharer.running)
        };
        assert_eq!((running(&queue, "0"), running(&queue, "1")), (48, 8));
        for _ in 0..30 {
            end_one(&mut queue);
            give_out(&mut queue);
        }
        assert_eq!((running(&queue, "0"), running(&queue, "1")), (28, 28));
    }

    #[test]
    fn waiters_that_leave_and_places_that_come_back_leave_nothing() {
        let mut queue = Sharing::new(1);
        queue.began((Some("a".to_owned()), 1));
        queue.put(next("b", 1));
        let (b, plan) = (Some("b".to_owned()), PlanId::from_bytes([1; 16]));
        assert_eq!(queue.waiting(), 1);
        assert_eq!(queue.remove(&b, 0, plan, 2), None);
        assert_eq!(queue.remove(&b, 0, plan, 1), Some(1));
        queue.ended(&Some("a".to_owned()));
        assert!(queue.sharers.is_empty() && queue.waiting() == 0 && queue.running() == 0);
    }

    #[test]
    fn higher_priority_is_before_an_even_share_but_not_before_a_first_place() {
        let mut queue = Sharing::new(8);
        for key in ["a", "a", "b"] {
            queue.began((Some(key.to_owned()), 6));
        }
        let mut urgent = next("a", 1);
        urgent.priority = 9;
        for mut next in [urgent, next("b", 2), next("c", 3)] {
            next.share.1 = 6;
            queue.put(next);
        }
        assert_eq!(give_out(&mut queue), ["c", "a", "b"]);
    }
}
