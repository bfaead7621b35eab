//! The run-next slot: one task, filled and taken by the owner, or by a thief as a last resort.
//!
//! The owner uses the slot for every message of a hot pair, a thief rarely. So the owner uses plain
//! loads and stores inside an announced section, and the thief pays for both sides: it claims the
//! slot, makes every processor pass a barrier (`membarrier(2)`), and waits until the owner is
//! outside of its section. The pattern is the asymmetric lock of Dice, Huang and Yang («Asymmetric
//! Dekker synchronization», Sun Labs 2001). Where the system has no such barrier, the owner
//! exchanges instead.

use std::ptr::{self, NonNull};

use crossbeam_utils::CachePadded;

use super::barrier;
use crate::sync::{compiler_fence, spin_hint, AtomicBool, AtomicPtr, Ordering};

/// Spins of a thief for an owner inside its section; an owner that lasts longer was preempted, and
/// the thief gives up.
const OWNER_SPINS_MAX: u32 = if cfg!(turnwheel_loom) { 2 } else { 1_000 };

#[derive(Debug)]
pub(crate) struct Slot<T> {
    task: CachePadded<AtomicPtr<T>>,
    /// The owner is between reading and writing `task`. Written by the owner.
    is_busy: AtomicBool,
    /// A thief is at work. Written by thieves.
    is_claimed: AtomicBool,
    /// Whether the thief's barrier exists; fixed.
    is_asymmetric: bool,
}

impl<T> Slot<T> {
    pub(crate) fn new() -> Self {
        Self {
            task: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
            is_busy: AtomicBool::new(false),
            is_claimed: AtomicBool::new(false),
            is_asymmetric: barrier::is_available(),
        }
    }

    /// Returns whether there is a task; may be outdated.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.task.load(Ordering::Relaxed).is_null()
    }

    /// Puts a task, or nothing, into the slot; returns the former content.
    #[inline(always)]
    pub(crate) fn replace_owner(&self, task: *mut T) -> Option<NonNull<T>> {
        if self.is_asymmetric {
            // Pairs with the barrier in `steal`: either the thief sees us busy, or we see its
            // claim.
            self.is_busy.store(true, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            // Acquire: pairs with the end of `steal`; after it we see the slot as the thief left
            // it.
            if !self.is_claimed.load(Ordering::Acquire) {
                let before = self.task.load(Ordering::Relaxed);
                // Release: pairs with the exchange of a thief; it publishes the task's contents.
                self.task.store(task, Ordering::Release);
                // Release: pairs with the thief's look at `is_busy`.
                self.is_busy.store(false, Ordering::Release);
                return NonNull::new(before);
            }
            self.is_busy.store(false, Ordering::Release);
        }
        // AcqRel: owner and thief race for the entry here.
        NonNull::new(self.task.swap(task, Ordering::AcqRel))
    }

    /// Takes the task, if there is one; only the owner may.
    #[inline(always)]
    pub(crate) fn take_owner(&self) -> Option<NonNull<T>> {
        if self.is_empty() {
            return None;
        }
        self.replace_owner(ptr::null_mut())
    }

    /// Takes the task from another thread. Costs a system call.
    #[cold]
    pub(crate) fn steal(&self) -> Option<NonNull<T>> {
        if self.is_empty() || self.is_claimed.swap(true, Ordering::SeqCst) {
            return None;
        }
        if self.is_asymmetric {
            barrier::all_threads();
        }
        let mut spins = 0;
        // Acquire: pairs with the end of the owner's section.
        while self.is_busy.load(Ordering::Acquire) && spins < OWNER_SPINS_MAX {
            spins += 1;
            spin_hint();
        }
        let stolen = if spins < OWNER_SPINS_MAX {
            // From now on the owner sees the claim, and exchanges too.
            NonNull::new(self.task.swap(ptr::null_mut(), Ordering::AcqRel))
        } else {
            None
        };
        // Release: pairs with the owner's look at `is_claimed`.
        self.is_claimed.store(false, Ordering::Release);
        stolen
    }
}
