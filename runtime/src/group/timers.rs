//! The timers of a group: one wheel for each worker and one for everybody else.
//!
//! Any worker services any wheel, so a blocked worker delays nobody's timer. `earliest` is never
//! later than the earliest deadline of all wheels once the arming call has returned.

use super::earliest::Earliest;
use crate::completion::Completer;
use crate::failure::contain;
use crate::limits::{TIMERS_FIRED_MAX, TIMERS_PENDING_MAX};
use crate::subscription::{fire, Source, TimerState};
use crate::sync::{Arc, AtomicBool, Mutex, Ordering};
use crate::task::{bits, TaskRef};
use crate::time::wheel::{Key, Wheel};

/// Wheels of one group, at most: the shard has five bits in a packed key.
const SHARDS_MAX: usize = 32;
/// Bits for the place of an entry in its wheel.
const INDEX_BITS: u32 = 27;

const _: () = assert!(TIMERS_PENDING_MAX <= 1 << INDEX_BITS);
const _: () = assert!(SHARDS_MAX == 1 << (32 - INDEX_BITS));

/// What a due timer does.
#[derive(Debug)]
pub(crate) enum TimerEntry {
    /// A subscription becomes ready.
    Source(Arc<Source>),
    /// A completion is done.
    Complete(Completer<()>),
    /// A completion fails as timed out.
    Expire(Box<dyn Expire>, std::time::Duration),
    /// A closing task is stopped.
    Stop(TaskRef),
}

/// Something that can time out.
pub(crate) trait Expire: Send + std::fmt::Debug {
    /// The time is over.
    fn expire(&self, limit: std::time::Duration);
}

impl<T: Send> Expire for Completer<T> {
    fn expire(&self, limit: std::time::Duration) {
        // It was in time after all.
        let _ = self.fail(crate::Failure::TimedOut(limit));
    }
}

/// Where a pending timer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerKey {
    shard: u8,
    key: Key,
}

impl TimerKey {
    /// A stale key.
    const NONE: Self = Self { shard: 0, key: Key { index: 0, generation: 0 } };

    fn pack(self) -> u64 {
        let place = self.key.index | (u32::from(self.shard) << INDEX_BITS);
        (u64::from(self.key.generation) << 32) | u64::from(place)
    }

    /// From `Source::timer_key`.
    pub(crate) fn unpack(packed: u64) -> Self {
        let place = packed as u32;
        let key = Key { index: place & ((1 << INDEX_BITS) - 1), generation: (packed >> 32) as u32 };
        Self { shard: (place >> INDEX_BITS) as u8, key }
    }
}

/// The group holds as many timers as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimersFull;

impl std::fmt::Display for TimersFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{TIMERS_PENDING_MAX} timers are pending in one wheel, which is the limit")
    }
}

impl std::error::Error for TimersFull {}

#[derive(Debug)]
struct Shard {
    wheel: Mutex<Wheel<TimerEntry>>,
}

/// All wheels of a group.
#[derive(Debug)]
pub(crate) struct Timers {
    shards: Box<[crossbeam_utils::CachePadded<Shard>]>,
    earliest: Earliest,
    /// Whether the group has ended. Set before the wheels are emptied, looked at under their locks.
    is_closed: AtomicBool,
}

impl Timers {
    pub(crate) fn new(workers: usize, now_ns: u64) -> Self {
        let shard = || {
            crossbeam_utils::CachePadded::new(Shard {
                wheel: Mutex::new(Wheel::with_limit(now_ns, TIMERS_PENDING_MAX)),
            })
        };
        Self {
            shards: (0..(workers + 1).min(SHARDS_MAX)).map(|_| shard()).collect(),
            earliest: Earliest::new((workers + 1).min(SHARDS_MAX)),
            is_closed: AtomicBool::new(false),
        }
    }

    fn shard_of(&self, worker: Option<usize>) -> usize {
        worker.map_or(0, |index| 1 + index % (self.shards.len() - 1).max(1)) % self.shards.len()
    }

    /// Arms a timer. Returns its key and whether it is now the earliest of the group. After the end
    /// of the group nobody would fire it: the entry is dropped at once, which tells its waiter.
    pub(crate) fn arm(
        &self,
        worker: Option<usize>,
        deadline_ns: u64,
        entry: TimerEntry,
    ) -> Result<(TimerKey, bool), TimersFull> {
        let index = self.shard_of(worker);
        let shard = &self.shards[index];
        let source = match &entry {
            TimerEntry::Source(source) => Arc::as_ptr(source),
            _ => std::ptr::null(),
        };
        let mut wheel = shard.wheel.lock();
        if self.is_closed.load(Ordering::Acquire) {
            drop(wheel);
            contain("dropping what a timer held", || drop(entry));
            return Ok((TimerKey::NONE, false));
        }
        let key = match wheel.arm(deadline_ns, entry) {
            Ok(key) => TimerKey { shard: index as u8, key },
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

    /// Tells a source its key; a source whose job runs is armed again unless it was cancelled.
    fn name(source: &Source, key: TimerKey) -> bool {
        // Release: pairs with the load of whoever cancels.
        source.timer_key.store(key.pack(), Ordering::Release);
        source.timer.step(TimerState::Running, TimerState::Armed)
            || source.timer.get() == TimerState::Armed
    }

    /// Takes a pending timer out of its wheel; a stale key finds nothing.
    pub(crate) fn cancel(&self, key: TimerKey) {
        let Some(shard) = self.shards.get(usize::from(key.shard)) else {
            return;
        };
        let entry = shard.wheel.lock().cancel(key.key);
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

    /// Fires what is due, up to a limit for each wheel. Returns how many. Calls `wake_keeper` if
    /// whoever parks until the earliest deadline may have read one that is too late.
    pub(crate) fn service(&self, now_ns: u64, wake_keeper: impl FnOnce()) -> usize {
        if !self.is_due(now_ns) {
            return 0;
        }
        let seen = self.earliest_ns();
        let mut due = Vec::new();
        for (index, shard) in self.shards.iter().enumerate() {
            if self.earliest.is_due(index, now_ns) {
                let mut wheel = shard.wheel.lock();
                wheel.expire(now_ns, TIMERS_FIRED_MAX, &mut |_, _, entry| due.push(entry));
                self.earliest.served_locked(index, wheel.next_deadline().unwrap_or(u64::MAX));
            }
        }
        if self.earliest.raise(seen) {
            wake_keeper();
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
            TimerEntry::Expire(completer, limit) => completer.expire(limit),
            TimerEntry::Stop(task) => {
                crate::task::close_admission(&task);
                task.signal(bits::STOP);
            }
        }
    }

    /// Drops all pending timers, when the group has ended, and those that come later.
    pub(crate) fn clear(&self) {
        self.is_closed.store(true, Ordering::Release);
        for (index, shard) in self.shards.iter().enumerate() {
            let fresh = Wheel::with_limit(0, TIMERS_PENDING_MAX);
            let mut wheel = shard.wheel.lock();
            let old = std::mem::replace(&mut *wheel, fresh);
            self.earliest.cleared_locked(index);
            drop(wheel);
            contain("dropping what a timer held", || drop(old));
        }
    }

    /// Pending timers, cancelled ones excluded.
    pub(crate) fn pending(&self) -> usize {
        self.shards.iter().map(|shard| shard.wheel.lock().len()).sum()
    }
}
