//! Things that make jobs for a task when they are ready: timers, conditions, completions, futures.
//!
//! A subscription pushes itself onto its task's ready stack and signals the task; nothing is ever
//! scanned. Its job lives with the task and is only touched in the task's turns.

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

use crate::sync::{Arc, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Mutex, Ordering};
use crate::task::{bits, current, Header};
use word::TimerWord;

/// The part of a subscription that any thread may touch.
#[derive(Debug)]
pub(crate) struct Source {
    /// The task, until the subscription is removed. The lock is held while the task is signalled,
    /// so that the task cannot end meanwhile.
    target: Mutex<Option<Target>>,
    /// Whether it is on the ready stack or in the ready queue.
    is_queued: AtomicBool,
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

#[derive(Debug)]
struct Target(NonNull<Header>);
// SAFETY: it is only dereferenced under the lock that the task takes before it ends.
unsafe impl Send for Target {}

impl Source {
    pub(crate) fn new(header: NonNull<Header>, index: u32) -> Arc<Self> {
        Arc::new(Self {
            target: Mutex::new(Some(Target(header))),
            is_queued: AtomicBool::new(false),
            next: AtomicPtr::new(ptr::null_mut()),
            index,
            is_cancelled: AtomicBool::new(false),
            count: AtomicU32::new(0),
            timer: TimerWord::new(),
            timer_key: AtomicU64::new(u64::MAX),
        })
    }

    /// Puts the subscription on its task's ready stack, once, and signals the task. Does nothing
    /// after the subscription was removed.
    pub(crate) fn ready(self: &Arc<Self>) {
        let target = self.target.lock();
        let Some(Target(header)) = &*target else {
            return;
        };
        // AcqRel: pairs with the clearing in `take_queued_owner`; what made the subscription ready
        // is seen by the turn that clears the mark.
        if self.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        // SAFETY: the target is removed, under this lock, before the task ends.
        let header = unsafe { header.as_ref() };
        header.extra_or_make().ready.push(Arc::clone(self));
        header.signal(bits::READY);
    }

    /// Clears the mark before the subscription's job runs; a later `ready` queues it again.
    pub(crate) fn take_queued_owner(&self) {
        self.is_queued.swap(false, Ordering::AcqRel);
    }

    /// Queues the subscription again from its own turn.
    pub(crate) fn requeue_owner(self: &Arc<Self>, ready: &mut VecDeque<Arc<Self>>) {
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            ready.push_back(Arc::clone(self));
        }
    }

    /// Removes the subscription if the caller runs in its task's turn and its job does not run.
    pub(crate) fn remove_in_turn(self: &Arc<Self>) -> bool {
        let header = match &*self.target.lock() {
            // SAFETY: the target is removed, under this lock, before the task ends.
            Some(Target(header)) if current::is_current(unsafe { header.as_ref() }) => *header,
            _ => return false,
        };
        // SAFETY: we are in the task's turn, so it is alive.
        let Some(extra) = (unsafe { header.as_ref() }).extra() else { return false };
        // SAFETY: user code runs without any borrow of them, and this one ends here.
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
        *self.target.lock() = None;
    }

    /// Whether the task still has it.
    pub(crate) fn is_attached(&self) -> bool {
        self.target.lock().is_some()
    }
}

impl Wake for Source {
    fn wake(self: Arc<Self>) {
        self.ready();
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
        queue.make_contiguous()[from..].reverse();
    }
}

impl Drop for ReadyStack {
    fn drop(&mut self) {
        let mut rest = VecDeque::new();
        self.take(&mut rest);
    }
}
