//! Places for messages that leave at once, and the receivers that share them: one that hangs does
//! not hold up messages of others.
//!
//! There are two kinds. A *claim* is the place of a message in a batch, from the decision on until
//! a channel has answered. A *call* is a thread that sends it. Of each kind one receiver has at
//! most two thirds, and half of what that leaves is kept for receivers that have none. A message
//! without a claim waits in the row of its user; one that has a claim and no call waits here.
//!
//! Messages that are put off return one after the other, at most as many within a second as one
//! receiver has claims: those of each receiver that has a claim, and those of all others together.

use std::collections::{HashMap, VecDeque};

use turnwheel_engine::internal::may_begin;

use crate::limits::POSTPONED_MS;

/// The name of a channel, and the receiver that the channel names for a message.
pub(crate) type Receiver = (String, String);

const NS_OF_MS: u64 = 1_000_000;

/// The places of a desk. `T` is a message that waits for a call.
#[derive(Debug)]
pub(crate) struct Places<T> {
    claims: Kind,
    calls: Kind,
    /// Receivers that have a claim, or messages that were put off while they had one.
    receivers: HashMap<Receiver, Share<T>>,
    /// Messages that were put off, of receivers without a claim.
    put_off: PutOff,
    last_turn: u64,
}

/// Places of one kind.
#[derive(Debug)]
struct Kind {
    size: u32,
    taken: u32,
}

#[derive(Debug)]
struct Share<T> {
    claims: u32,
    calls: u32,
    waiting: VecDeque<T>,
    /// When it got its last call, or gave back its only one.
    turn: u64,
    /// Messages that were put off while it had a claim.
    put_off: PutOff,
}

/// Messages that were put off and return one after the other.
#[derive(Debug, Default)]
struct PutOff {
    /// When the last one returns.
    last_ns: u64,
}

impl PutOff {
    /// Puts off one more, and returns for how many milliseconds: at most `most` return within a
    /// second.
    fn add(&mut self, now_ns: u64, most: u32) -> u64 {
        let pause_ns = POSTPONED_MS * NS_OF_MS;
        let next_ns = self.last_ns.saturating_add(pause_ns.div_ceil(most.into()));
        self.last_ns = next_ns.max(now_ns.saturating_add(pause_ns));
        (self.last_ns - now_ns).div_ceil(NS_OF_MS)
    }
}

impl Kind {
    fn new(size: usize) -> Self {
        Self { size: u32::try_from(size.max(1)).unwrap_or(u32::MAX), taken: 0 }
    }

    /// Places that one receiver has, at most.
    fn of_one(&self) -> u32 {
        (self.size - self.size.div_ceil(3)).max(1)
    }

    fn has_place(&self, own: u32) -> bool {
        may_begin(self.size, self.size - self.taken, self.of_one(), own)
    }
}

impl<T> Share<T> {
    fn new(turn: u64) -> Self {
        Self { claims: 0, calls: 0, waiting: VecDeque::new(), turn, put_off: PutOff::default() }
    }

    /// Whether it has a claim, or messages that were put off have not returned.
    fn is_needed(&self, now_ns: u64) -> bool {
        self.claims > 0 || self.put_off.last_ns > now_ns
    }
}

impl<T> Places<T> {
    pub(crate) fn new(claims: usize, calls: usize) -> Self {
        let (claims, calls) = (Kind::new(claims), Kind::new(calls));
        let (receivers, put_off) = (HashMap::new(), PutOff::default());
        Self { claims, calls, receivers, put_off, last_turn: 0 }
    }

    /// Takes a claim. Cost: linear in the receivers, if this is a further one.
    ///
    /// # Errors
    ///
    /// There is none for this receiver: milliseconds after which to ask again.
    pub(crate) fn claim(&mut self, receiver: &Receiver, now_ns: u64) -> Result<(), u64> {
        let share = self.receivers.get_mut(receiver);
        let own = share.as_ref().map_or(0, |share| share.claims);
        if !self.claims.has_place(own) {
            let share = share.filter(|share| share.claims > 0);
            let put_off = share.map_or(&mut self.put_off, |share| &mut share.put_off);
            return Err(put_off.add(now_ns, self.claims.of_one()));
        }
        self.last_turn += 1;
        if share.is_none() {
            self.receivers.retain(|_, share| share.is_needed(now_ns));
        }
        let new = || Share::new(self.last_turn);
        self.receivers.entry(receiver.clone()).or_insert_with(new).claims += 1;
        self.claims.taken += 1;
        Ok(())
    }

    /// Gives a claim back.
    pub(crate) fn release(&mut self, receiver: &Receiver) {
        let Some(share) = self.receivers.get_mut(receiver) else { return };
        share.claims -= 1;
        self.claims.taken -= 1;
        let is_idle = share.calls == 0 && share.waiting.is_empty();
        debug_assert!(share.claims > 0 || is_idle, "each has a claim");
    }

    /// Has a message with a claim wait for a call.
    pub(crate) fn put(&mut self, receiver: &Receiver, message: T) {
        let share = self.receivers.get_mut(receiver);
        share.expect("it has a claim").waiting.push_back(message);
    }

    /// Takes the next call: of the receivers that may have one, that with the fewest, and of those
    /// the one whose last turn was before. Cost: linear in the receivers.
    pub(crate) fn next(&mut self) -> Option<T> {
        if self.calls.taken == self.calls.size {
            return None;
        }
        let is_able =
            |share: &Share<T>| !share.waiting.is_empty() && self.calls.has_place(share.calls);
        let able = self.receivers.iter().filter(|(_, share)| is_able(share));
        let (receiver, _) = able.min_by_key(|(_, share)| (share.calls, share.turn))?;
        let receiver = receiver.clone();
        let share = self.receivers.get_mut(&receiver)?;
        let message = share.waiting.pop_front()?;
        self.last_turn += 1;
        (share.calls, share.turn) = (share.calls + 1, self.last_turn);
        self.calls.taken += 1;
        Some(message)
    }

    /// Gives a call back.
    pub(crate) fn called(&mut self, receiver: &Receiver) {
        self.calls.taken -= 1;
        self.last_turn += 1;
        let share = self.receivers.get_mut(receiver).expect("it has a claim");
        share.calls -= 1;
        if share.calls == 0 {
            share.turn = self.last_turn;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::limits::{CALLS_MAX, DESKS_MAX};

    fn receiver(name: &str) -> Receiver {
        ("http".to_owned(), name.to_owned())
    }

    /// Claims and puts as many messages of a receiver as it may, and returns how many.
    fn fill(places: &mut Places<String>, name: &str, most: usize) -> usize {
        let of = receiver(name);
        let taken = (0..most).take_while(|_| places.claim(&of, 0).is_ok()).count();
        (0..taken).for_each(|_| places.put(&of, name.to_owned()));
        taken
    }

    fn calls(places: &mut Places<String>) -> Vec<String> {
        std::iter::from_fn(|| places.next()).collect()
    }

    #[test]
    fn receiver_that_hangs_leaves_claims_and_calls_to_others() {
        let mut places = Places::new(48, 12);
        assert_eq!(fill(&mut places, "hangs", 100), 32, "two thirds");
        assert_eq!(calls(&mut places).len(), 8, "two thirds");
        assert_eq!(fill(&mut places, "good", 100), 8, "half of the rest is kept");
        assert_eq!(calls(&mut places), ["good", "good"]);
        for other in ["a", "b"] {
            assert_eq!(fill(&mut places, other, 1), 1);
            assert_eq!(calls(&mut places), [other], "a first one has a place at once");
        }
        places.called(&receiver("good"));
        places.release(&receiver("good"));
        assert_eq!(fill(&mut places, "c", 1), 1);
        assert_eq!(calls(&mut places), ["c"], "before a second one of another receiver");
    }

    #[test]
    fn receiver_that_hangs_leaves_calls_to_others_whatever_the_number_of_desks() {
        for desks in 1..=DESKS_MAX {
            let size = CALLS_MAX / desks;
            let mut places = Places::new(9 * size, size);
            fill(&mut places, "hangs", 9 * size);
            let count = calls(&mut places).len();
            assert_eq!(count, size * 2 / 3, "two thirds of {size}");
            assert_eq!(fill(&mut places, "good", 1), 1);
            assert_eq!(calls(&mut places), ["good"], "{desks} desks");
        }
    }

    #[test]
    fn places_of_a_receiver_that_is_alone_come_back() {
        let mut places = Places::new(1, 1);
        for _ in 0..3 {
            assert_eq!(fill(&mut places, "one", 9), 1);
            assert_eq!(calls(&mut places), ["one"]);
            places.called(&receiver("one"));
            places.release(&receiver("one"));
        }
        assert_eq!((places.claims.taken, places.calls.taken), (0, 0));
        let later_ns = 4 * POSTPONED_MS * NS_OF_MS;
        assert_eq!(places.claim(&receiver("other"), later_ns), Ok(()));
        assert_eq!(places.receivers.len(), 1, "nothing is kept of it");
    }

    #[test]
    fn messages_that_are_put_off_together_come_back_in_parts() {
        let mut places = Places::<String>::new(3, 3);
        let of = receiver("one");
        assert_eq!((places.claim(&of, 0), places.claim(&of, 0)), (Ok(()), Ok(())));
        let later: Vec<u64> = (0..4).filter_map(|_| places.claim(&of, 0).err()).collect();
        assert_eq!(later, [1_000, 1_500, 2_000, 2_500], "two claims, so two within a second");
        places.release(&of);
        assert_eq!(places.claim(&of, 0), Ok(()));
        assert_eq!(places.claim(&of, 0), Err(3_000), "behind those that were put off before");
        (0..2).for_each(|_| places.release(&of));
        assert_eq!([&receiver("other"), &of].map(|of| places.claim(of, 0)), [Ok(()), Ok(())]);
        assert_eq!(places.claim(&of, 0), Err(3_500), "also when it had no claim meanwhile");
    }

    #[test]
    fn messages_of_receivers_without_a_claim_come_back_in_parts_and_others_do_not_wait_for_them() {
        let mut places = Places::<String>::new(3, 3);
        let [hangs, good] = ["hangs", "good"].map(receiver);
        for of in [&hangs, &hangs, &good] {
            assert_eq!(places.claim(of, 0), Ok(()));
        }
        let without = ["a", "b", "a", "c"].map(|name| places.claim(&receiver(name), 0));
        assert_eq!(without, [1_000, 1_500, 2_000, 2_500].map(Err));
        assert_eq!([&hangs, &good].map(|of| places.claim(of, 0)), [Err(1_000), Err(1_000)]);
    }

    /// A hundred messages are put off again and again while their receiver hangs for an hour.
    #[test]
    fn messages_that_are_put_off_again_come_back_as_soon_as_before() {
        let (mut places, of) = (Places::<String>::new(15, 3), receiver("hangs"));
        let claims = fill(&mut places, "hangs", 100);
        assert_eq!(claims, 10);
        let mut returns: BTreeMap<u64, usize> = BTreeMap::from([(0, 100)]);
        while let Some((now_ms, count)) = returns.pop_first().filter(|(at, _)| *at < 3_600_000) {
            for _ in 0..count {
                let later = places.claim(&of, now_ms * NS_OF_MS).expect_err("it hangs");
                assert!((1_000..=11_000).contains(&later), "{later} ms at {now_ms} ms");
                *returns.entry(now_ms + later).or_default() += 1;
            }
            let within: usize = returns.range(..=now_ms + 1_000).map(|(_, count)| count).sum();
            assert!(within <= claims, "{within} within a second of {now_ms} ms");
        }
    }
}
