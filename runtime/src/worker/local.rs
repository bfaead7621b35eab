//! State of one worker: its queue, its run-next slot, its share of the memory count.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use crossbeam_deque::Steal;
use crossbeam_utils::CachePadded;

use super::hosted::Host;
use super::Stats;
use crate::failure::contain;
use crate::group::{Class, GroupShared, Memory};
use crate::handoff::slot::Slot;
use crate::limits::{MAILBOX_BYTES_FLUSH, SAMPLE_TURNS, SLOT_STREAK_MAX};
use crate::sync::{
    Arc, AtomicI64, AtomicPtr, AtomicU64, Mutex, Ordering, PoolMutex, Stealer, Worker,
};
use crate::task::{Header, TaskPtr};

/// The part of a worker that siblings see.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) stealer: Stealer<TaskPtr>,
    /// The task made ready last by the task now running; runs next.
    pub(crate) slot: Slot<Header>,
    pub(crate) stats: CachePadded<Stats>,
    /// Task whose turn runs or has just run; null without work. For the watchdog and listings.
    pub(crate) running: AtomicPtr<Header>,
    /// Since when the watchdog has seen it in one turn.
    pub(crate) held: Held,
    /// Where the worker runs.
    pub(crate) host: Mutex<Host>,
    /// A task that a thread of the executor has made ready outside of a turn; see `assist.rs`.
    pub(super) offered: CachePadded<AtomicPtr<Header>>,
    /// Whether it is the own worker of a thread. No model sees it: threads give it up as they end.
    pub(super) has_thread: PoolMutex<bool>,
    /// Mailbox bytes that this thread has counted outside of turns.
    bytes: AtomicI64,
    /// The clock as last read for a hosted worker; 0 while it is parked.
    pub(super) recent_ns: AtomicU64,
}

impl Remote {
    pub(crate) fn new(stealer: Stealer<TaskPtr>) -> Self {
        Self {
            stealer,
            slot: Slot::new(),
            stats: CachePadded::default(),
            running: AtomicPtr::new(ptr::null_mut()),
            held: Held::default(),
            host: Mutex::new(Host::Moving),
            offered: CachePadded::default(),
            has_thread: PoolMutex::new(false),
            bytes: AtomicI64::new(0),
            recent_ns: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    pub(super) fn is_of(&self, group: &GroupShared) -> bool {
        group.workers.iter().any(|one| ptr::eq(&**one, self))
    }

    /// The clock was read for this worker, which is not parked.
    pub(crate) fn clock_read(&self, now_ns: u64) {
        // Not if it parks meanwhile. Relaxed: a time, it orders nothing.
        let read = |before| (before > 0).then_some(now_ns);
        let _ = self.recent_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, read);
    }

    /// Counts mailbox bytes of the thread whose own worker this is.
    pub(crate) fn count_bytes(&self, memory: &Memory, bytes: i64) {
        let total = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if total.abs() > MAILBOX_BYTES_FLUSH {
            memory.add(self.bytes.swap(0, Ordering::Relaxed));
        }
    }

    #[inline(always)]
    pub(crate) fn has_offer(&self) -> bool {
        !self.offered.load(Ordering::Relaxed).is_null()
    }

    fn take_offer(&self) -> Option<TaskPtr> {
        let offered = self.has_offer().then_some(&self.offered)?;
        NonNull::new(offered.swap(ptr::null_mut(), Ordering::Acquire)).map(TaskPtr)
    }

    /// Tasks waiting here, about.
    pub(crate) fn waiting(&self) -> u64 {
        let slot = u64::from(!self.slot.is_empty());
        self.stealer.len() as u64 + slot
    }

    /// Lets the worker run if it is parked, or not park the next time.
    pub(crate) fn unpark(&self) {
        let waker = match &mut *self.host.lock() {
            Host::Thread(thread) => return thread.unpark(),
            Host::Future { waker, .. } => waker.take(),
            Host::Moving | Host::Ended => None,
        };
        // Outside of the lock: it is code of the executor's.
        if let Some(waker) = waker {
            contain("the waker of a worker", || waker.wake());
        }
    }
}

/// Last observation of a worker by the watchdog, which alone writes it.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Turns begun at that time: while no other has begun, the same turn lasts.
    turns: AtomicU64,
    since_ns: AtomicU64,
}

impl Held {
    /// This turn is seen for the first time.
    pub(crate) fn see_owner(&self, turns: u64, since_ns: u64) {
        self.since_ns.store(since_ns, Ordering::Relaxed);
        // Release: a reader of this number reads the time above.
        self.turns.store(turns, Ordering::Release);
    }

    /// Since when this turn has been seen; nothing if it has not.
    pub(crate) fn since_ns(&self, turns: u64) -> Option<u64> {
        let is_it = self.turns.load(Ordering::Acquire) == turns;
        is_it.then(|| self.since_ns.load(Ordering::Relaxed))
    }
}

/// The part of a worker that only its own thread touches.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) group: Arc<GroupShared>,
    pub(crate) index: usize,
    /// The part of it that siblings see, as `group` has it under `index`.
    remote: Arc<Remote>,
    queue: Worker<TaskPtr>,
    slot_streak: Cell<u32>,
    /// Mailbox bytes counted and not yet added to the group's account.
    bytes: Cell<i64>,
    pub(crate) now_ns: Cell<u64>,
    /// Whether its start hook was called.
    is_started: Cell<bool>,
    random: Cell<u64>,
    /// Class of the last look-up.
    class: Cell<Option<(&'static str, NonNull<Class>)>>,
}

// SAFETY: the class lives as long as the group and is never moved. Everything else is `Send`.
unsafe impl Send for Local {}

thread_local! {
    static CURRENT: Cell<*const Local> = const { Cell::new(ptr::null()) };
}

/// Looks at the worker of this thread, if it is one.
#[inline(always)]
pub(crate) fn with_current<R>(look: impl FnOnce(Option<&Local>) -> R) -> R {
    // SAFETY: the closure cannot keep the borrow, and this call ends after it.
    look(unsafe { current() })
}

/// The worker of this thread, if any, for code where a closure costs too much: its captures go
/// through memory, and each submission of a job took twice the time.
///
/// # Safety
///
/// The borrow ends before the function that asks for it returns.
#[inline(always)]
pub(crate) unsafe fn current<'a>() -> Option<&'a Local> {
    let local = CURRENT.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: `Local::enter` has put it there and takes it away before its borrow of the worker
    // ends; it has not returned, since it is below the caller on the thread's stack.
    unsafe { local.as_ref() }
}

/// Repeats an attempt that lost a race.
#[inline(always)]
pub(super) fn taken(attempt: impl FnMut() -> Steal<TaskPtr>) -> Option<TaskPtr> {
    std::iter::repeat_with(attempt).find(|steal| !steal.is_retry()).and_then(Steal::success)
}

impl Local {
    pub(crate) fn new(group: Arc<GroupShared>, index: usize, queue: Worker<TaskPtr>) -> Self {
        let seed = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(index as u64 + 1);
        let remote = Arc::clone(&group.workers[index]);
        Self {
            group,
            index,
            remote,
            queue,
            slot_streak: Cell::new(0),
            bytes: Cell::new(0),
            now_ns: Cell::new(0),
            is_started: Cell::new(false),
            random: Cell::new(seed),
            class: Cell::new(None),
        }
    }

    /// Runs a closure with this as the worker of the thread, also if it panics.
    pub(crate) fn enter<R>(&self, run: impl FnOnce(&Self) -> R) -> R {
        struct Leave(*const Local);
        impl Drop for Leave {
            fn drop(&mut self) {
                CURRENT.set(self.0);
            }
        }
        let _leave = Leave(CURRENT.replace(ptr::from_ref(self)));
        run(self)
    }

    /// Calls the hook for the end of the worker, or the one for its start: that one once.
    pub(crate) fn call_hook(&self, is_end: bool) {
        let config = &self.group.config;
        let (hook, which) = match is_end {
            true => (&config.on_stop, "the stop hook of a worker"),
            false if self.is_started.replace(true) => return,
            false => (&config.on_start, "the start hook of a worker"),
        };
        let Some(hook) = hook else { return };
        contain(which, || hook(self.index));
    }

    /// Whether it is one of this group's.
    #[inline(always)]
    pub(crate) fn is_of(&self, group: &GroupShared) -> bool {
        ptr::eq(&*self.group, group)
    }

    #[inline(always)]
    pub(crate) fn shared(&self) -> &Remote {
        &self.remote
    }

    /// Queues a task that this worker has made ready: into the slot; the slot's former task goes to
    /// the tail of the queue.
    #[inline(always)]
    pub(crate) fn push(&self, task: TaskPtr) {
        let shared = self.shared();
        if shared.stats.turns.get() % u64::from(SAMPLE_TURNS) == 0 {
            self.group.stamp(task);
        }
        // SAFETY: the task is scheduled, by us.
        unsafe { task.header() }.prefetch_for_turn();
        if let Some(before) = shared.slot.replace_owner(task.0.as_ptr()) {
            self.queue.push(TaskPtr(before));
        }
        self.group.notify(self.group.sleep.wake_for_local_push());
    }

    /// The class of this name; for the last name without a look into the group's list.
    pub(crate) fn class(&self, name: &'static str) -> NonNull<Class> {
        if let Some((last, class)) = self.class.get() {
            if ptr::eq(last, name) {
                return class;
            }
        }
        let class = self.group.class(name);
        self.class.set(Some((name, class)));
        class
    }

    /// Queues stolen tasks.
    pub(crate) fn queue(&self) -> &Worker<TaskPtr> {
        &self.queue
    }

    /// The next task of this worker's own.
    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<TaskPtr> {
        let streak = self.slot_streak.get();
        if streak < SLOT_STREAK_MAX {
            if let Some(task) = self.shared().slot.take_owner() {
                self.slot_streak.set(streak + 1);
                return Some(TaskPtr(task));
            }
        }
        self.slot_streak.set(0);
        self.queue.pop().or_else(|| self.shared().slot.take_owner().map(TaskPtr))
    }

    /// A few tasks of the injector, if there are any; or one that was offered to a hosted worker,
    /// first to this one.
    pub(crate) fn pop_injected(&self) -> Option<TaskPtr> {
        if self.group.config.is_hosted {
            let mut all = std::iter::once(&self.remote).chain(&self.group.workers);
            if let Some(task) = all.find_map(|one| one.take_offer()) {
                return Some(task);
            }
        }
        let injector = &self.group.injector;
        if injector.is_empty() {
            return None;
        }
        taken(|| injector.steal_batch_and_pop(&self.queue))
    }

    /// Puts a few tasks of the injector behind the worker's own.
    #[inline(always)]
    pub(crate) fn fetch_injected(&self) {
        let injector = &self.group.injector;
        if !injector.is_empty() {
            while injector.steal_batch(&self.queue).is_retry() {}
            self.hand_on_batch();
        }
    }

    /// As `pop_injected` for a worker that does not search: it wakes no other worker for the batch.
    #[inline(always)]
    pub(crate) fn take_injected(&self) -> Option<TaskPtr> {
        let task = self.pop_injected()?;
        self.hand_on_batch();
        Some(task)
    }

    /// Wakes a sibling for the rest of a batch, which must not wait behind a long turn.
    fn hand_on_batch(&self) {
        if !self.queue.is_empty() {
            self.group.notify(self.group.sleep.wake_for_batch());
        }
    }

    /// A task of the system class.
    #[inline(always)]
    pub(crate) fn pop_system(&self) -> Option<TaskPtr> {
        if self.group.system.is_empty() {
            return None;
        }
        self.steal_system()
    }

    #[cold]
    fn steal_system(&self) -> Option<TaskPtr> {
        taken(|| self.group.system.steal())
    }

    /// Counts mailbox bytes queued or given back.
    #[inline(always)]
    pub(crate) fn count_bytes(&self, bytes: i64) {
        let total = self.bytes.get() + bytes;
        // From minus to plus the limit, as one comparison.
        if total.wrapping_add(MAILBOX_BYTES_FLUSH) as u64 <= 2 * MAILBOX_BYTES_FLUSH as u64 {
            self.bytes.set(total);
        } else {
            self.bytes.set(0);
            self.group.memory.add(total);
        }
    }

    /// Adds this worker's counts to the group's account.
    pub(crate) fn flush_bytes(&self) {
        let outside = self.remote.bytes.swap(0, Ordering::Relaxed);
        self.group.memory.add(self.bytes.replace(0) + outside);
    }

    /// A pseudo-random number below `bound`; xorshift64* (Vigna, 2016).
    pub(crate) fn random_below(&self, bound: usize) -> usize {
        let mut word = self.random.get();
        word ^= word >> 12;
        word ^= word << 25;
        word ^= word >> 27;
        self.random.set(word);
        ((word.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % bound.max(1)
    }
}
