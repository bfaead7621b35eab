//! The model checker's primitives under the same names.

// Where the real code has a compiler fence, another thread's barrier makes it a real one.
pub(crate) use loom::sync::atomic::{
    fence, fence as compiler_fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8,
    AtomicUsize, Ordering,
};
pub(crate) use loom::sync::Arc;

/// A model spin must let the other threads run.
pub(crate) fn spin_hint() {
    loom::thread::yield_now();
}

pub(crate) use loom::cell::UnsafeCell;

/// A mutex without poisoning, as `parking_lot` has it.
#[derive(Debug)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

/// Guard of [`Mutex`].
pub(crate) type MutexGuard<'a, T> = loom::sync::MutexGuard<'a, T>;

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("a model never panics while it holds a lock")
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}
