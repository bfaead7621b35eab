//! A value that one thread uses constantly and other threads rarely.
//!
//! Same pattern as `slot.rs`: the owner announces its section with plain stores; a visitor pays for
//! both sides with a barrier on all threads. Visitors exclude one another by a lock. The owner
//! takes that lock too while a visitor is active, or where the system has no such barrier.

use super::barrier;
use crate::sync::{compiler_fence, spin_hint, AtomicBool, Mutex, MutexGuard, Ordering, UnsafeCell};

/// Spins of a visitor for an owner inside its section, before it sleeps between its looks: an owner
/// that lasts longer was preempted.
const OWNER_SPINS_MAX: u32 = 1_000;
/// Sleep of a visitor between two looks.
const OWNER_LOOK: std::time::Duration = std::time::Duration::from_micros(50);

/// On cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Section<T> {
    value: UnsafeCell<T>,
    /// The owner is inside. Written by the owner.
    is_busy: AtomicBool,
    /// A visitor holds the lock. Written by visitors.
    is_claimed: AtomicBool,
    lock: Mutex<()>,
    /// Whether the visitors' barrier exists; fixed.
    is_asymmetric: bool,
}

// SAFETY: one thread at a time reaches the value: the owner inside its section, or the holder of
// the lock while the claim keeps the owner out of its section.
unsafe impl<T: Send> Send for Section<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Section<T> {}

/// The owner inside its section; left when it is dropped, also by a panic.
struct Inside<'a> {
    is_busy: &'a AtomicBool,
    /// Of an owner that came while a visitor was at work; dropped after the mark.
    _lock: Option<MutexGuard<'a, ()>>,
}

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: pairs with the visitor's look.
        self.is_busy.store(false, Ordering::Release);
    }
}

impl<T> Section<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: UnsafeCell::new(value),
            is_busy: AtomicBool::new(false),
            is_claimed: AtomicBool::new(false),
            lock: Mutex::new(()),
            is_asymmetric: barrier::is_available(),
        }
    }

    /// Uses the value as its owner.
    ///
    /// # Panics
    ///
    /// In a section of the same owner.
    ///
    /// # Safety
    ///
    /// The caller is the only thread that calls this while it runs, and calls of former owners
    /// happened before.
    #[inline(always)]
    pub(crate) unsafe fn enter_owner<R>(&self, run: impl FnOnce(&mut T) -> R) -> R {
        let _inside = self.come_in_owner();
        // SAFETY: the section is announced, no visitor is active, and new visitors wait for us;
        // under the lock, visitors are excluded, and only the owner calls this.
        self.value.with_mut(|value| run(unsafe { &mut *value }))
    }

    /// Keeps visitors out: by the announcement, or by the lock.
    #[inline(always)]
    fn come_in_owner(&self) -> Inside<'_> {
        assert!(!self.is_busy.load(Ordering::Relaxed), "a section within itself");
        if self.is_asymmetric {
            // Pairs with the barrier in `visit`: either the visitor sees us busy, or we see its
            // claim.
            self.is_busy.store(true, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            let inside = Inside { is_busy: &self.is_busy, _lock: None };
            // Acquire: pairs with the end of `visit`.
            if !self.is_claimed.load(Ordering::Acquire) {
                return inside;
            }
            drop(inside);
        }
        self.come_in_locked()
    }

    #[cold]
    #[inline(never)]
    fn come_in_locked(&self) -> Inside<'_> {
        visited::check(self);
        let lock = self.lock.lock();
        // Marked here too, so that a section within this one panics. Visitors wait for the lock.
        self.is_busy.store(true, Ordering::Relaxed);
        Inside { is_busy: &self.is_busy, _lock: Some(lock) }
    }

    /// Whether the owner is inside, as itself may ask.
    pub(crate) fn is_inside_owner(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Uses the value from any thread. Costs a system call; waits for the owner and other visitors.
    ///
    /// # Panics
    ///
    /// In a visit of the same thread. In a section of the same thread it would wait for ever.
    #[cold]
    pub(crate) fn visit<R>(&self, run: impl FnOnce(&mut T) -> R) -> R {
        /// Takes the claim back, also after a panic.
        struct Leave<'a>(&'a AtomicBool);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                // Release: pairs with the owner's look.
                self.0.store(false, Ordering::Release);
            }
        }
        visited::check(self);
        let _locked = self.lock.lock();
        let _visited = visited::begin(self);
        if !self.is_asymmetric {
            // SAFETY: the owner takes the lock too.
            return self.value.with_mut(|value| run(unsafe { &mut *value }));
        }
        self.is_claimed.store(true, Ordering::SeqCst);
        let _leave = Leave(&self.is_claimed);
        barrier::all_threads();
        let mut spins = 0_u32;
        // Acquire: pairs with the end of the owner's section. The loop ends with that section,
        // which never waits; later sections see the claim and wait for the lock.
        while self.is_busy.load(Ordering::Acquire) {
            wait_a_little(spins);
            spins = spins.saturating_add(1);
        }
        // SAFETY: the owner is outside of its section, and other visitors have no lock.
        self.value.with_mut(|value| run(unsafe { &mut *value }))
    }
}

/// The sections that this thread visits, one within the other: with their locks, which it must not
/// ask for again.
mod visited {
    use std::cell::RefCell;
    use std::mem::{take, ManuallyDrop};

    thread_local! {
        /// Never destroyed, so that it is there also as the thread ends; the last visit empties it.
        static VISITED: RefCell<ManuallyDrop<Vec<*const ()>>> =
            const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    }

    /// Until it is dropped.
    pub(super) struct Visited;

    impl Drop for Visited {
        fn drop(&mut self) {
            VISITED.with(|visited| {
                let mut visited = visited.borrow_mut();
                visited.pop();
                if visited.is_empty() {
                    drop(take(&mut **visited));
                }
            });
        }
    }

    pub(super) fn begin<T>(section: *const T) -> Visited {
        VISITED.with(|visited| visited.borrow_mut().push(section.cast()));
        Visited
    }

    pub(super) fn check<T>(section: *const T) {
        let is_within = VISITED.with(|visited| visited.borrow().contains(&section.cast()));
        assert!(!is_within, "a section within a visit to it");
    }
}

/// Between two looks of a visitor.
fn wait_a_little(spins: u32) {
    if spins < OWNER_SPINS_MAX {
        spin_hint();
    } else {
        crate::sync::park(Some(OWNER_LOOK));
    }
}

#[cfg(test)]
#[path = "../../tests/unit/section.rs"]
mod tests;
