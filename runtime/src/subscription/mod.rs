//! Sources of jobs for a task: timers, conditions, completions, futures.
//!
//! A ready subscription takes its task if that is idle or held, goes into the ready queue, and
//! schedules the task. Else it pushes itself onto the task's ready stack and signals the task.
//! Nothing is ever scanned. The job belongs to the task and is only touched in the task's turns.

mod condition;
mod mark;
mod slab;
mod timer;
mod waker;
pub(crate) mod word;

pub(crate) use condition::run_step;
pub use condition::{Condition, ConditionMode};
pub(crate) use slab::{Job, Kind, Slot, Step, Subscriptions};
pub(crate) use timer::{abandon, fire, run_recurring, Recurring, Rhythm};
pub use timer::{Cancelled, Late, Timer, TimerError};
pub(crate) use waker::waker;
pub(crate) use word::TimerState;

use std::collections::VecDeque;
use std::ptr::{self, NonNull};

use crate::group::{self, KeyCell};
use crate::sync::{Arc, AtomicBool, AtomicPtr, AtomicU32, Ordering};
use crate::task::turn::current;
use crate::task::{bits, Header, WeakRef};
use mark::Mark;
use word::TimerWord;

/// The part of a subscription that any thread may touch.
#[derive(Debug)]
pub(crate) struct Source {
    /// The task: its memory, not its life, so that a waker may outlast both.
    task: WeakRef,
    /// Whether it is queued or gone. Any thread.
    pub(crate) mark: Mark,
    next: AtomicPtr<Source>,
    /// Whether a count of it is kept for the next waker; see `waker.rs`. The task's turns only.
    pub(crate) has_spare: AtomicBool,
    /// Place in the task's slab.
    pub(crate) index: u32,
    /// Whether the user cancelled it.
    pub(crate) is_cancelled: AtomicBool,
    /// Signals not yet run (conditions).
    pub(crate) count: AtomicU32,
    /// State of its timer (timers only).
    pub(crate) timer: TimerWord,
    /// Key in the wheel (timers).
    pub(crate) timer_key: KeyCell,
}

impl Source {
    pub(crate) fn new(header: &Header, index: u32) -> Arc<Self> {
        Arc::new(Self {
            task: WeakRef::of(header),
            mark: Mark::new(),
            next: AtomicPtr::new(ptr::null_mut()),
            has_spare: AtomicBool::new(false),
            index,
            is_cancelled: AtomicBool::new(false),
            count: AtomicU32::new(0),
            timer: TimerWord::new(),
            timer_key: KeyCell::default(),
        })
    }

    /// Reuses the source of an ended subscription for another one of the same task.
    pub(crate) fn renew(&mut self, index: u32) {
        debug_assert!(!self.mark.is_attached(), "the one before is over");
        debug_assert!(!self.has_spare.load(Ordering::Relaxed), "nobody else counts on it");
        self.mark = Mark::new();
        self.next = AtomicPtr::new(ptr::null_mut());
        self.index = index;
        self.is_cancelled = AtomicBool::new(false);
        self.count = AtomicU32::new(0);
        self.timer = TimerWord::new();
        self.timer_key = KeyCell::default();
    }

    /// Makes the subscription ready, once, and brings its task back. Does nothing after the
    /// subscription was removed.
    pub(crate) fn ready(self: &Arc<Self>) {
        if self.mark.take() {
            Arc::clone(self).marked();
        }
    }

    /// As `ready` for a future, which may be polled once too often without harm. So the thread that
    /// takes an idle or held task needs no mark: it has exclusive access to the task.
    #[inline]
    fn woken(self: Arc<Self>) {
        // With the mark set, or the subscription gone, taking the task could leave it unwoken.
        let header = NonNull::from(self.task.header());
        // SAFETY: our count of the source holds the task's memory.
        if self.mark.is_clear() && unsafe { header.as_ref() }.inbox.take() {
            return self.bring_back(header, |own, source| {
                debug_assert!(own.woken.is_none(), "a task is not left with something to do");
                own.woken = Some(source);
            });
        }
        if self.mark.take() {
            self.marked();
        }
    }

    /// Puts the subscription, whose mark the caller has set, into the ready queue of an idle or
    /// held task, else onto its stack.
    fn marked(self: Arc<Self>) {
        let header = NonNull::from(self.task.header());
        // SAFETY: our count of the source holds the task's memory.
        if !unsafe { header.as_ref() }.inbox.take() {
            return self.stack();
        }
        self.bring_back(header, |own, source| own.ready.push_back(source));
    }

    /// Schedules the task that the caller has taken, after `put` has stored this subscription.
    #[inline(always)]
    fn bring_back(
        self: Arc<Self>,
        header: NonNull<Header>,
        put: impl FnOnce(&mut Subscriptions, Arc<Self>),
    ) {
        // SAFETY: our count of the source holds the task's memory, and from here on the task waits
        // for us to schedule it.
        let header = unsafe { header.as_ref() };
        // SAFETY: used within this function alone.
        let local = unsafe { group::worker_of(header) };
        // The scheduler uses the header after another worker may have run the task to its end.
        let kept = (local.is_none() || header.system).then(|| Arc::clone(&self));
        // SAFETY: this thread took the task, so no other thread runs it; the borrow ends here.
        put(unsafe { header.extra_or_make().subscriptions_owner() }, self);
        group::schedule_on(local, header);
        drop(kept);
    }

    /// Puts the subscription on its task's ready stack and signals the task.
    fn stack(self: Arc<Self>) {
        // Our own count is kept for as long as the header is used.
        let header = self.task.header();
        let ready = &header.extra_or_make().ready;
        ready.push(Arc::clone(&self));
        if !header.signal(bits::READY) {
            // The task is over and has emptied its stack, maybe before our push. An entry left
            // there would keep the memory that contains the stack.
            ready.clear();
        }
    }

    /// Queues the subscription from a turn of its own task.
    pub(crate) fn queue_owner(self: &Arc<Self>, ready: &mut VecDeque<Arc<Self>>) {
        if self.mark.take() {
            ready.push_back(Arc::clone(self));
        }
    }

    /// Removes the subscription if the caller runs in its task's turn and its job does not run.
    pub(crate) fn remove_in_turn(self: &Arc<Self>) -> bool {
        let header = self.task.header();
        if !self.mark.is_attached() || !current::is_current(header) {
            return false;
        }
        let Some(extra) = header.extra() else { return false };
        // SAFETY: we are in the task's turn, user code runs without any borrow of them, and this
        // one ends here.
        let own = unsafe { extra.subscriptions_owner() };
        if own.get(self).is_none_or(|slot| slot.job.is_none()) {
            return false;
        }
        let removed = own.remove(self);
        drop(removed);
        true
    }
}

/// Subscriptions that became ready, newest first. Many producers, the runner takes all at once.
#[derive(Debug)]
pub(crate) struct ReadyStack(AtomicPtr<Source>);

default_value!(ReadyStack => Self(AtomicPtr::new(ptr::null_mut())));

impl ReadyStack {
    fn push(&self, source: Arc<Source>) {
        let node = Arc::into_raw(source).cast_mut();
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: the stack owns one count of `node` from here on.
            unsafe { (*node).next.store(head, Ordering::Relaxed) };
            // Release: pairs with the exchange in `take`. The consumer takes the entire list at
            // once, so reuse of an address does no harm.
            match self.0.compare_exchange_weak(head, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Appends everything to the queue, oldest first.
    #[inline(always)]
    pub(crate) fn take(&self, queue: &mut VecDeque<Arc<Source>>) {
        if !self.0.load(Ordering::Relaxed).is_null() {
            self.take_some(queue);
        }
    }

    #[inline(never)]
    fn take_some(&self, queue: &mut VecDeque<Arc<Source>>) {
        // Acquire: pairs with the exchange in `push`.
        let mut head = self.0.swap(ptr::null_mut(), Ordering::Acquire);
        let from = queue.len();
        while !head.is_null() {
            // SAFETY: the stack owned this count and hands it to us.
            let source = unsafe { Arc::from_raw(head) };
            head = source.next.load(Ordering::Relaxed);
            queue.push_back(source);
        }
        if queue.len() - from > 1 {
            queue.make_contiguous()[from..].reverse();
        }
    }

    /// Drops subscriptions that became ready too late. Any thread.
    #[cold]
    pub(crate) fn clear(&self) {
        self.take(&mut VecDeque::new());
    }
}

impl Drop for ReadyStack {
    fn drop(&mut self) {
        self.clear();
    }
}
