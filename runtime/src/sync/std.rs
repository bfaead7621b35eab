//! The real primitives: std atomics, `parking_lot` locks, std threads.

pub(crate) use ::std::sync::atomic::{
    compiler_fence, fence, AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicU8,
    AtomicUsize, Ordering,
};
pub(crate) use ::std::sync::Arc;
pub(crate) use ::std::thread::{
    current as current_thread, Builder as ThreadBuilder, JoinHandle, Thread,
};
pub(crate) use crossbeam_deque::{Injector, Stealer, Worker};
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

pub(crate) use super::PlainCell as UnsafeCell;
use super::Step;

/// Parks the calling thread until it is unparked, at most for `limit`.
#[expect(clippy::disallowed_methods, reason = "this module is where parking is wrapped")]
pub(crate) fn park(limit: Option<::std::time::Duration>) {
    match limit {
        None => ::std::thread::park(),
        Some(limit) => ::std::thread::park_timeout(limit),
    }
}

/// Tells the processor that this is a spin loop.
#[inline(always)]
pub(crate) fn spin_hint() {
    ::std::hint::spin_loop();
}

#[expect(clippy::disallowed_methods, reason = "a blocking wait is measured in real time")]
/// When a blocking wait of this length that starts now is over.
pub(crate) fn deadline(limit: ::std::time::Duration) -> ::std::time::Instant {
    let now = ::std::time::Instant::now();
    // A wait of a thousand years and one without end are the same to a caller.
    now.checked_add(limit).unwrap_or(now + ::std::time::Duration::from_secs(1 << 30))
}

#[expect(clippy::disallowed_methods, reason = "a blocking wait is measured in real time")]
/// Time until then; `None` if it has passed.
pub(crate) fn until(deadline: ::std::time::Instant) -> Option<::std::time::Duration> {
    let now = ::std::time::Instant::now();
    deadline.checked_duration_since(now).filter(|left| !left.is_zero())
}

/// Whether a step of a protocol is taken: always, but in a model.
#[inline(always)]
pub(crate) const fn keeps(_: Step) -> bool {
    true
}

/// The order of a step of a protocol.
#[inline(always)]
pub(crate) const fn order(_: Step, order: Ordering) -> Ordering {
    order
}
