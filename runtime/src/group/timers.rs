//! The timers of a group: one wheel for each worker and one for all other threads.
//!
//! Any worker services any wheel, so a blocked worker delays no timer. `earliest` is never
//! later than the earliest deadline of all wheels once the arming call has returned.

use std::sync::Weak;
use std::task::Wake;

use crossbeam_utils::CachePadded;

use super::earliest::Earliest;
use super::shared::GroupShared;
use crate::completion::Completer;
use crate::failure::contain;
use crate::limits::{TIMERS_FIRED_MAX, TIMERS_PENDING_MAX};
use crate::subscription::{fire, Source, TimerState};
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use crate::task::{bits, TaskRef};
use crate::time::wheel::{Key, Wheel};

/// Wheels of one group, at most; workers share them beyond.
const WHEELS_MAX: usize = 32;

/// The action of a due timer.
pub(crate) enum TimerEntry {
    /// A subscription becomes ready.
    Source(Arc<Source>),
    /// A completion is done.
    Complete(Completer<()>),
    /// A closing task is stopped.
    Stop(TaskRef),
    /// Something else is called. Must not block.
    Call(Box<dyn FnOnce() + Send>),
}

/// Place of a pending timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerKey {
    wheel: u32,
    key: Key,
}

impl TimerKey {
    /// A key that finds nothing.
    const NONE: Self = Self { wheel: 0, key: Key { index: 0, sequence: 0 } };
}

/// Key of a subscription's timer: stored by the arming thread, read by the cancelling one.
#[derive(Debug, Default)]
pub(crate) struct KeyCell {
    place: AtomicU64,
    sequence: AtomicU64,
}

impl KeyCell {
    fn set(&self, TimerKey { wheel, key }: TimerKey) {
        self.place.store((u64::from(wheel) << 32) | u64::from(key.index), Ordering::Relaxed);
        // Release: pairs with the load in `get`.
        self.sequence.store(key.sequence, Ordering::Release);
    }

    /// The last key; while the first is being stored, a key that matches no timer.
    pub(crate) fn get(&self) -> TimerKey {
        let sequence = self.sequence.load(Ordering::Acquire);
        let place = self.place.load(Ordering::Relaxed);
        TimerKey { wheel: (place >> 32) as u32, key: Key { index: place as u32, sequence } }
    }
}

/// Cancels a timer when it is dropped: what nothing waits for any more would else hold its place in
/// the wheel until its deadline. As a waker it does so when the waiter gives up.
#[derive(Debug)]
pub(super) struct CancelsTimer {
    pub(super) group: Weak<GroupShared>,
    pub(super) key: TimerKey,
}

impl Wake for CancelsTimer {
    fn wake(self: Arc<Self>) {}
}

impl Drop for CancelsTimer {
    fn drop(&mut self) {
        if let Some(group) = self.group.upgrade() {
            group.timers.cancel(self.key);
        }
    }
}

/// The group holds as many timers as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{TIMERS_PENDING_MAX} timers are pending in one wheel, which is the limit")]
#[non_exhaustive]
pub struct TimersFull;

/// All wheels of a group.
#[derive(Debug)]
pub(crate) struct Timers {
    wheels: Box<[CachePadded<Mutex<Wheel<TimerEntry>>>]>,
    earliest: Earliest,
    /// Whether the group has ended. Set before the wheels are emptied, looked at under their locks.
    is_closed: AtomicBool,
}

impl Timers {
    pub(crate) fn new(workers: usize, now_ns: u64) -> Self {
        let wheels = (workers + 1).min(WHEELS_MAX);
        let wheel = || CachePadded::new(Mutex::new(Wheel::with_limit(now_ns, TIMERS_PENDING_MAX)));
        Self {
            wheels: (0..wheels).map(|_| wheel()).collect(),
            earliest: Earliest::new(wheels),
            is_closed: AtomicBool::new(false),
        }
    }

    fn wheel_of(&self, worker: Option<usize>) -> usize {
        worker.map_or(0, |index| 1 + index % (self.wheels.len() - 1).max(1)) % self.wheels.len()
    }

    /// Arms a timer. Returns its key and whether it is now the earliest of the group. After the end
    /// of the group it would never fire: the entry is dropped at once, which notifies its waiter.
    pub(crate) fn arm(
        &self,
        worker: Option<usize>,
        deadline_ns: u64,
        entry: TimerEntry,
    ) -> Result<(TimerKey, bool), TimersFull> {
        let index = self.wheel_of(worker);
        let source = match &entry {
            TimerEntry::Source(source) => Arc::as_ptr(source),
            _ => std::ptr::null(),
        };
        let mut wheel = self.wheels[index].lock();
        if self.is_closed.load(Ordering::Acquire) {
            drop(wheel);
            contain("dropping what a timer held", || drop(entry));
            return Ok((TimerKey::NONE, false));
        }
        let key = match wheel.arm(deadline_ns, entry) {
            Ok(key) => TimerKey { wheel: index as u32, key },
            Err(refused) => {
                // Dropped outside of the lock: it may hold a user's waker.
                drop(wheel);
                drop(refused);
                return Err(TimersFull);
            }
        };
        // SAFETY: the wheel holds a count of the source, and the lock keeps the entry in the wheel.
        if let Some(source) = unsafe { source.as_ref() } {
            if !Self::name(source, key) {
                let cancelled = wheel.cancel(key.key);
                drop(wheel);
                drop(cancelled);
                return Ok((key, false));
            }
        }
        let is_earliest = self.earliest.lower_locked(index, deadline_ns);
        drop(wheel);
        Ok((key, is_earliest))
    }

    /// Gives a source its key; a source whose job runs is armed again unless it was cancelled.
    fn name(source: &Source, key: TimerKey) -> bool {
        source.timer_key.set(key);
        source.timer.step(TimerState::Running, TimerState::Armed)
            || source.timer.get() == TimerState::Armed
    }

    /// Takes a pending timer out of its wheel; a stale key finds nothing.
    pub(crate) fn cancel(&self, key: TimerKey) {
        let entry = self.wheels[key.wheel as usize].lock().cancel(key.key);
        contain("dropping what a timer held", || drop(entry));
    }

    /// The earliest deadline, or somewhat earlier; `u64::MAX` if there is none.
    #[inline(always)]
    pub(crate) fn earliest_ns(&self) -> u64 {
        self.earliest.get()
    }

    /// Whether a timer may be due.
    #[inline(always)]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        self.earliest_ns() <= now_ns
    }

    /// Fires due timers, up to a limit for each wheel. Returns how many. Calls `wake_timekeeper` if
    /// the timekeeper may have read a deadline that is too late.
    pub(crate) fn service(&self, now_ns: u64, wake_timekeeper: impl FnOnce()) -> usize {
        if !self.is_due(now_ns) {
            return 0;
        }
        let seen = self.earliest_ns();
        let mut due = Vec::new();
        for (index, wheel) in self.wheels.iter().enumerate() {
            if self.earliest.is_due(index, now_ns) {
                let mut wheel = wheel.lock();
                wheel.expire(now_ns, TIMERS_FIRED_MAX, &mut |_, entry| due.push(entry));
                self.earliest.served_locked(index, wheel.next_deadline().unwrap_or(u64::MAX));
            }
        }
        if self.earliest.raise(seen) {
            wake_timekeeper();
        }
        let count = due.len();
        for entry in due {
            // An entry may hold the last reference to a value or a waker of the user's.
            contain("dropping what a timer held", || Self::fire(entry));
        }
        count
    }

    fn fire(entry: TimerEntry) {
        match entry {
            TimerEntry::Source(source) => fire(&source),
            TimerEntry::Complete(completer) => {
                // The sleeper may have given up.
                let _ = completer.complete(());
            }
            TimerEntry::Call(call) => call(),
            TimerEntry::Stop(task) => {
                crate::task::close_admission(&task);
                task.signal(bits::STOP);
            }
        }
    }

    /// Drops all pending timers after the end of the group, and timers armed later.
    pub(crate) fn clear(&self) {
        self.is_closed.store(true, Ordering::Release);
        for (index, wheel) in self.wheels.iter().enumerate() {
            let fresh = Wheel::with_limit(0, TIMERS_PENDING_MAX);
            let mut wheel = wheel.lock();
            let old = std::mem::replace(&mut *wheel, fresh);
            self.earliest.served_locked(index, u64::MAX);
            drop(wheel);
            contain("dropping what a timer held", || drop(old));
        }
    }

    /// Pending timers, cancelled ones excluded.
    pub(crate) fn pending(&self) -> usize {
        self.wheels.iter().map(|wheel| wheel.lock().pending()).sum()
    }
}
