//! A future of a task, woken with and without its mark.

use std::ptr;

use super::Task;
use crate::mark::Mark;
use crate::sync::{AtomicU32, Ordering, UnsafeCell};
use crate::task::lane::inbox::bits;

/// A task with one future: its mark, its places, and what its polls have seen of three events.
#[derive(Debug)]
pub struct Future {
    task: Task,
    mark: Mark,
    /// How often it lies on the ready stack.
    stacked: AtomicU32,
    woken: UnsafeCell<bool>,
    ready: UnsafeCell<u32>,
    events: [AtomicU32; 3],
    seen: AtomicU32,
    woken_clears: bool,
}

// SAFETY: the model checks the exclusivity that the real task claims.
unsafe impl Send for Future {}
// SAFETY: as above.
unsafe impl Sync for Future {}

impl Future {
    /// Its task is running. `woken_clears`: broken, what has no mark clears it all the same.
    pub fn new(woken_clears: bool) -> Self {
        Self {
            task: Task::new(true),
            mark: Mark::new(),
            stacked: AtomicU32::new(0),
            woken: UnsafeCell::new(false),
            ready: UnsafeCell::new(0),
            events: std::array::from_fn(|_| AtomicU32::new(0)),
            seen: AtomicU32::new(0),
            woken_clears,
        }
    }

    /// An event and its wake-up, as `Source::woken`; a turn if the task must run.
    pub fn event(&self, event: usize) {
        self.events[event].store(1, Ordering::Relaxed);
        if self.mark.is_clear() && self.task.inbox.take_hold(0) {
            // SAFETY: whoever ends the hold has the task for itself; the model checks that.
            self.woken.with_mut(|woken| unsafe { *woken = true });
            return self.run();
        }
        if !self.mark.take() {
            return;
        }
        if self.task.inbox.take_hold(0) {
            // SAFETY: as above.
            self.ready.with_mut(|ready| unsafe { *ready += 1 });
            return self.run();
        }
        let stacked = self.stacked.fetch_add(1, Ordering::AcqRel);
        assert_eq!(stacked, 0, "it lies on the stack once");
        if self.task.signal(bits::READY) {
            self.run();
        }
    }

    /// Turns until the task is held.
    pub fn run(&self) {
        loop {
            self.task.inbox.take_signals_owner();
            let stacked = self.stacked.swap(0, Ordering::AcqRel);
            // SAFETY: the runner has it for itself; the model checks that.
            let woken = self.woken.with_mut(|woken| unsafe { ptr::replace(woken, false) });
            // SAFETY: as above.
            let ready = self.ready.with_mut(|ready| unsafe { ptr::replace(ready, 0) });
            if woken {
                if self.woken_clears {
                    self.mark.clear_owner();
                }
                self.poll();
            }
            for _ in 0..stacked + ready {
                self.mark.clear_owner();
                self.poll();
            }
            if self.task.inbox.try_hold_owner() {
                return;
            }
        }
    }

    fn poll(&self) {
        let seen = self.events.iter().map(|event| event.load(Ordering::Relaxed)).sum();
        self.seen.store(seen, Ordering::Relaxed);
    }

    /// How many events the last poll has seen.
    pub fn seen(&self) -> u32 {
        self.seen.load(Ordering::Relaxed)
    }
}
