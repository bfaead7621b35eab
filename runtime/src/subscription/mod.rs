//! Things that make jobs for a task when they are ready: timers, conditions, completions, futures.
//!
//! A subscription pushes itself onto its task's ready stack and signals the task, or goes straight to
//! the ready queue of a task that is held; nothing is ever scanned. Its job lives with the task and is only touched in the task's turns.

mod condition;
mod slab;
mod timer;
pub(crate) mod word;

pub(crate) use condition::run_step;
pub use condition::{Condition, ConditionMode};
pub(crate) use slab::{Job, Kind, Slot, Step, Subscriptions};
pub(crate) use timer::{abandon, fire, run_recurring, Recurring, Rhythm};
pub use timer::{Cancelled, Late, Timer};
pub(crate) use word::TimerState;

use std::collections::VecDeque;
use std::ptr::{self, NonNull};
use std::task::Wake;

use crate::group;
use crate::sync::{Arc, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, Ordering};
use crate::task::{bits, current, Header, WeakRef};
use word::TimerWord;

/// It is on the ready stack or in the ready queue.
const QUEUED: u8 = 1;
/// It was removed from its task: nothing makes it ready any more.
const DETACHED: u8 = 2;

/// The part of a subscription that any thread may touch.
#[derive(Debug)]
pub(crate) struct Source {
    /// The task: its memory, not its life, so that a waker may outlast both.
    task: WeakRef,
    /// `QUEUED` and `DETACHED`. Any thread.
    mark: AtomicU8,
    next: AtomicPtr<Source>,
    /// Place in the task's slab.
    pub(crate) index: u32,
    /// Whether the user cancelled it.
    pub(crate) is_cancelled: AtomicBool,
    /// Signals not yet run (conditions).
    pub(crate) count: AtomicU32,
    /// Where a timer is in its life (timers).
    pub(crate) timer: TimerWord,
    /// Key in the wheel, packed (timers).
    pub(crate) timer_key: AtomicU64,
}

impl Source {
    pub(crate) fn new(header: &Header, index: u32) -> Arc<Self> {
        Arc::new(Self {
            task: WeakRef::of(header),
            mark: AtomicU8::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
            index,
            is_cancelled: AtomicBool::new(false),
            count: AtomicU32::new(0),
            timer: TimerWord::new(),
            timer_key: AtomicU64::new(u64::MAX),
        })
    }

    /// Makes the subscription ready, once, and brings its task back. Does nothing after the
    /// subscription was removed.
    pub(crate) fn ready(self: &Arc<Self>) {
        if self.take_mark() {
            Arc::clone(self).marked();
        }
    }

    /// Whether this call is the one that makes it ready.
    #[inline]
    fn take_mark(&self) -> bool {
        // AcqRel: pairs with the clearing in `take_queued_owner`; what made the subscription ready
        // is seen by the turn that clears the mark.
        self.mark.fetch_or(QUEUED, Ordering::AcqRel) == 0
    }

    /// Puts the subscription, whose mark the caller has taken, into its task's ready queue if the
    /// task is held, else on its ready stack.
    fn marked(self: Arc<Self>) {
        let header = NonNull::from(self.task.header());
        // SAFETY: our count of the source holds the task's memory.
        if !unsafe { header.as_ref() }.inbox.take_hold(0) {
            return self.stack();
        }
        // SAFETY: as above, and from here on the task waits for us to schedule it.
        let header = unsafe { header.as_ref() };
        let local = group::worker_of(header);
        // Who schedules it elsewhere uses the header after somebody may have run it to its end.
        let kept = (local.is_none() || header.system).then(|| Arc::clone(&self));
        // SAFETY: the hold was ours to end, so nobody runs the task; the borrow ends here.
        unsafe { header.extra_or_make().subscriptions_owner() }.ready.push_back(self);
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
            // The task is over and has emptied its stack, maybe before we came. What lies there
            // holds the memory that holds the stack, so it must not stay.
            ready.clear();
        }
    }

    /// Clears the mark before the subscription's job runs; a later `ready` queues it again.
    pub(crate) fn take_queued_owner(&self) {
        self.mark.fetch_and(!QUEUED, Ordering::AcqRel);
    }

    /// Queues the subscription from a turn of its own task.
    pub(crate) fn queue_owner(self: &Arc<Self>, ready: &mut VecDeque<Arc<Self>>) {
        if self.mark.fetch_or(QUEUED, Ordering::AcqRel) == 0 {
            ready.push_back(Arc::clone(self));
        }
    }

    /// Removes the subscription if the caller runs in its task's turn and its job does not run.
    pub(crate) fn remove_in_turn(self: &Arc<Self>) -> bool {
        let header = self.task.header();
        if !self.is_attached() || !current::is_current(header) {
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

    /// Cuts the subscription from its task.
    pub(crate) fn detach_owner(&self) {
        self.mark.fetch_or(DETACHED, Ordering::AcqRel);
    }

    /// Whether the task still has it.
    pub(crate) fn is_attached(&self) -> bool {
        self.mark.load(Ordering::Acquire) & DETACHED == 0
    }
}

impl Wake for Source {
    fn wake(self: Arc<Self>) {
        if self.take_mark() {
            self.marked();
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready();
    }
}

/// Subscriptions that became ready, newest first. Many producers, the runner takes all at once.
#[derive(Debug)]
pub(crate) struct ReadyStack(AtomicPtr<Source>);

impl Default for ReadyStack {
    fn default() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }
}

impl ReadyStack {
    fn push(&self, source: Arc<Source>) {
        let node = Arc::into_raw(source).cast_mut();
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: the stack owns one count of `node` from here on.
            unsafe { (*node).next.store(head, Ordering::Relaxed) };
            // Release: pairs with the exchange in `take`. The whole list is taken at once, so an
            // address that comes back does no harm.
            match self.0.compare_exchange_weak(head, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Appends everything to the queue, oldest first.
    pub(crate) fn take(&self, queue: &mut VecDeque<Arc<Source>>) {
        if self.0.load(Ordering::Relaxed).is_null() {
            return;
        }
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

    /// Drops what became ready too late. Any thread.
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
