//! Places for messages that leave at once, and the receivers that share them: one that hangs does
//! not hold up messages of others.
//!
//! There are two kinds. A *claim* is the place of a message in a batch, from the decision on until
//! a channel has answered. A *call* is a thread that sends it. Of each kind one receiver has at
//! most two thirds, and half of what that leaves is kept for receivers that have none. A message
//! without a claim waits in the row of its user; one that has a claim and no call waits here.

use std::collections::{HashMap, VecDeque};

use turnwheel_engine::internal::may_begin;

use crate::limits::POSTPONED_MS;

/// Who gets a message: the name of a channel, and what the channel says of the message.
pub(crate) type Receiver = (String, String);

/// The places of a desk. `T` is a message that waits for a call.
#[derive(Debug)]
pub(crate) struct Places<T> {
    claims: Kind,
    calls: Kind,
    /// Receivers with a claim.
    receivers: HashMap<Receiver, Share<T>>,
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
    /// Messages that were put off since there was a claim for one.
    postponed: u32,
}

impl Kind {
    fn new(size: usize) -> Self {
        Self { size: u32::try_from(size.max(1)).unwrap_or(u32::MAX), taken: 0 }
    }

    /// Places that one receiver has, at most.
    fn of_one(&self) -> u32 {
        (self.size - self.size / 3).max(1)
    }

    fn has_place(&self, own: u32) -> bool {
        may_begin(self.size, self.size - self.taken, self.of_one(), own)
    }
}

impl<T> Share<T> {
    fn new(turn: u64) -> Self {
        Self { claims: 0, calls: 0, waiting: VecDeque::new(), turn, postponed: 0 }
    }
}

impl<T> Places<T> {
    pub(crate) fn new(claims: usize, calls: usize) -> Self {
        let (claims, calls) = (Kind::new(claims), Kind::new(calls));
        Self { claims, calls, receivers: HashMap::new(), last_turn: 0 }
    }

    /// Takes a claim.
    ///
    /// # Errors
    ///
    /// There is none for this receiver: milliseconds after which to ask again. Messages that are
    /// put off together come back one part after the other.
    pub(crate) fn claim(&mut self, receiver: &Receiver) -> Result<(), u64> {
        let own = self.receivers.get(receiver).map_or(0, |share| share.claims);
        if !self.claims.has_place(own) {
            let of_one = self.claims.of_one();
            let Some(share) = self.receivers.get_mut(receiver) else { return Err(POSTPONED_MS) };
            let parts = 1 + u64::from(share.postponed / of_one);
            share.postponed = share.postponed.saturating_add(1);
            return Err(parts * POSTPONED_MS);
        }
        self.last_turn += 1;
        let new = || Share::new(self.last_turn);
        let share = self.receivers.entry(receiver.clone()).or_insert_with(new);
        (share.claims, share.postponed) = (share.claims + 1, 0);
        self.claims.taken += 1;
        Ok(())
    }

    /// Gives a claim back.
    pub(crate) fn release(&mut self, receiver: &Receiver) {
        let Some(share) = self.receivers.get_mut(receiver) else { return };
        share.claims -= 1;
        self.claims.taken -= 1;
        if share.claims == 0 {
            debug_assert!(share.calls == 0 && share.waiting.is_empty(), "each has a claim");
            self.receivers.remove(receiver);
        }
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
    use super::*;

    fn receiver(name: &str) -> Receiver {
        ("http".to_owned(), name.to_owned())
    }

    /// Claims and puts as many messages of a receiver as it may, and returns how many.
    fn fill(places: &mut Places<String>, name: &str, most: usize) -> usize {
        let of = receiver(name);
        let taken = (0..most).take_while(|_| places.claim(&of).is_ok()).count();
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
    fn places_of_a_receiver_that_is_alone_come_back() {
        let mut places = Places::new(1, 1);
        for _ in 0..3 {
            assert_eq!(fill(&mut places, "one", 9), 1);
            assert_eq!(calls(&mut places), ["one"]);
            places.called(&receiver("one"));
            places.release(&receiver("one"));
        }
        assert!(places.receivers.is_empty(), "nothing is kept of it");
        assert_eq!((places.claims.taken, places.calls.taken), (0, 0));
    }

    #[test]
    fn messages_that_are_put_off_together_come_back_in_parts() {
        let mut places = Places::<String>::new(3, 3);
        let of = receiver("one");
        assert_eq!((places.claim(&of), places.claim(&of)), (Ok(()), Ok(())));
        let later: Vec<u64> = (0..4).filter_map(|_| places.claim(&of).err()).collect();
        assert_eq!(later, [1, 1, 2, 2].map(|parts| parts * POSTPONED_MS));
        places.release(&of);
        assert_eq!(places.claim(&of), Ok(()));
        assert_eq!(places.claim(&of), Err(POSTPONED_MS), "it begins anew");
    }
}
