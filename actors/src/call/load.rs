//! Load of a pool's member: messages given to it through the pool and not yet finished.

use std::sync::atomic::{AtomicU64, Ordering};

use turnwheel_runtime::Group;

/// Messages of one member in flight: queued, or with a handler that has not ended. Shared with the
/// slots of their answers, which end the count.
#[derive(Debug)]
pub(crate) struct Load {
    group: Group,
    in_flight: AtomicU64,
    /// When a message was last done with, on the group's clock.
    done_ns: AtomicU64,
}

impl Load {
    pub(crate) fn new(group: &Group, in_flight: u64) -> Self {
        let done_ns = AtomicU64::new(group.recent_ns());
        Self { group: group.clone(), in_flight: AtomicU64::new(in_flight), done_ns }
    }

    /// Counts a message if the count is zero: of two senders only one gets the idle member.
    pub(crate) fn claim(&self) -> bool {
        self.in_flight.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Counts one more message.
    pub(crate) fn enter(&self) {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
    }

    /// A message is done with, or was not taken.
    pub(crate) fn leave(&self) {
        // Before the count, so that a reader that sees zero in flight also sees the time.
        self.done_ns.store(self.group.recent_ns(), Ordering::Relaxed);
        let before = self.in_flight.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "a message ends once");
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Since when nothing is in flight; `None` if something is.
    pub(crate) fn idle_since_ns(&self) -> Option<u64> {
        (self.in_flight() == 0).then(|| self.done_ns.load(Ordering::Relaxed))
    }
}
