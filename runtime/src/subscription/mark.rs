//! The mark of a subscription: set while it is queued, so that it is queued only once.

use crate::sync::{AtomicU8, Ordering};

/// On the ready stack, in the ready queue, or waiting for a phase.
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

    /// Sets the mark. True if this call set it: the caller then queues the subscription.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        // AcqRel: pairs with the clearing; the turn that clears the mark sees the writes that made
        // the subscription ready.
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
