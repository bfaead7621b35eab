//! One member of a pool, and the list of them.

use std::sync::Arc;

use turnwheel_runtime::Phase;

use crate::actor::{Actor, Address};
use crate::call::Load;

/// An actor of a pool.
pub(super) struct Member<A: Actor> {
    /// Its number in the pool; reused after its end.
    pub(super) place: usize,
    pub(super) address: Address<A>,
    pub(super) load: Arc<Load>,
}

clone_fields!(impl<A: Actor> Member<A>, place, address, load);

impl<A: Actor> Member<A> {
    /// Its queued and unfinished messages, also those sent to it directly.
    pub(super) fn work(&self) -> u64 {
        self.load.in_flight().max(self.address.queue_len())
    }

    /// Counts a message, if the member has nothing to do.
    pub(super) fn claim(&self) -> bool {
        self.address.queue_len() == 0 && self.load.claim()
    }

    /// Whether it has had nothing to do for this long.
    pub(super) fn is_idle_for(&self, idle_ns: u64, now_ns: u64) -> bool {
        self.idle_since_ns().is_some_and(|since| now_ns.saturating_sub(since) >= idle_ns)
    }

    /// Since when it has nothing to do; `None` if it has.
    pub(super) fn idle_since_ns(&self) -> Option<u64> {
        self.load.idle_since_ns().filter(|_| self.address.queue_len() == 0)
    }

    pub(super) fn info(&self) -> MemberInfo {
        MemberInfo {
            place: self.place,
            name: self.address.name(),
            in_flight: self.load.in_flight(),
            queued: self.address.queue_len(),
            phase: self.address.phase(),
        }
    }
}

/// The members, by place. Replaced by a new list on each change, so that no message is sent under a
/// lock.
pub(super) type Members<A> = Arc<Vec<Member<A>>>;

/// A member of a [`Pool`](crate::Pool) as a listing shows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemberInfo {
    /// Its place: keys are spread over the places.
    pub place: usize,
    /// The name of its actor.
    pub name: String,
    /// Messages from the pool, queued or with a handler that has not ended; zero in a pool that
    /// does not count (fixed size, round robin).
    pub in_flight: u64,
    /// Messages in its mailbox, about.
    pub queued: u64,
    /// Phase of its life.
    pub phase: Phase,
}

debug_fields!(impl<A: Actor> Member<A>, self => place: self.place, load: self.load);
