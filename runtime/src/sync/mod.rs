//! The only module that names atomics, locks, cells and thread parking.
//!
//! Everything concurrent in this crate imports from here, so that `cfg(turnwheel_loom)` can put the
//! model checker's types under the same code.

#[cfg(not(turnwheel_loom))]
mod std;
#[cfg(not(turnwheel_loom))]
pub(crate) use self::std::*;

#[cfg(turnwheel_loom)]
#[macro_use]
#[path = "../../loom/sync.rs"]
mod model;
#[cfg(turnwheel_loom)]
pub(crate) use self::model::*;

/// A lock of the memory pools, which serve one model after the other: no model sees it.
pub(crate) use parking_lot::Mutex as PoolMutex;

/// A setting of the process: no model sees it.
pub(crate) use ::std::sync::OnceLock;

/// A cell whose exclusive access the caller guarantees, at the address of its value. The models
/// check that guarantee with their own bookkeeping.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct PlainCell<T: ?Sized>(::std::cell::UnsafeCell<T>);

impl<T> PlainCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(::std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// A step of a protocol that a model can leave out, to show that the model finds the mistake. The
/// shipped code takes every step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(turnwheel_loom), expect(unreachable_pub, reason = "the models name it"))]
pub enum Step {
    /// The exchange to idle releases the runner's writes.
    IdleRelease,
    /// A waker that takes an idle task sees the runner's writes.
    IdleTaken,
    /// The exchange to held releases the runner's writes.
    HoldRelease,
    /// A signal tags the state word, so that a runner cannot go idle past it.
    SignalTag,
    /// A task that is to end looks whether a producer is under way.
    DrainedEnd,
    /// A task that ends is marked so before its ready stack is emptied.
    DeadFirst,
    /// The cold part is published with its contents.
    ExtraRelease,
    /// Closing looks for the cold part by a read-modify-write.
    ExtraSettled,
    /// Only turns of the task use the kept count of a waker.
    SpareInTurn,
    /// The last count of a chunk sees all use of its nodes.
    ChunkRelease,
    /// A worker that parks looks at the queues after it is booked.
    LastLook,
    /// A fence orders that booking before that look.
    ParkFence,
    /// A fence orders the end of a search before the look of the last searcher.
    SearchFence,
    /// The last task that ends takes the lock of the waiters.
    EndedLock,
    /// The watchdog looks at the workers once more before it sleeps.
    WatchdogLook,
    /// The driver of a chain ends its poll by an exchange.
    DriverExchange,
    /// A poll of a hosted worker that finds no seat is made up for.
    MissedPoll,
}
