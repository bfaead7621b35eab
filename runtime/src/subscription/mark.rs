//! The mark of a subscription: whether it is queued, so that it lies in one place at a time.

use crate::sync::{AtomicU8, Ordering};

/// It is on the ready stack, in the ready queue, or waits for a phase.
const QUEUED: u8 = 1;
/// It was removed from its task: nothing makes it ready any more.
const DETACHED: u8 = 2;

/// The mark. The thread that sets it queues the subscription; the turn that visits it clears it.
#[derive(Debug)]
pub(crate) struct Mark(AtomicU8);

impl Mark {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// Whether it seems to be queued nowhere, and attached.
    #[inline]
    pub(crate) fn is_clear(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }

    /// Whether this call is the one that has to queue it.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        // AcqRel: pairs with the clearing; what made the subscription ready is seen by the turn
        // that clears the mark.
        self.0.fetch_or(QUEUED, Ordering::AcqRel) == 0
    }

    /// Clears it before the subscription's job runs; a later wake-up queues it again.
    #[inline]
    pub(crate) fn clear_owner(&self) {
        self.0.fetch_and(!QUEUED, Ordering::AcqRel);
    }

    /// Cuts the subscription from its task.
    pub(crate) fn detach_owner(&self) {
        self.0.fetch_or(DETACHED, Ordering::AcqRel);
    }

    /// Whether the task still has it.
    #[inline]
    pub(crate) fn is_attached(&self) -> bool {
        self.0.load(Ordering::Acquire) & DETACHED == 0
    }
}
