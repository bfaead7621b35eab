//! The deadlines of all calls of a system, under one timer.
//!
//! A timer for each call would cost as much as the call, and stay in the wheel long after its
//! answer. Here a call adds one entry to a list. Calls mostly have the same limit and are answered
//! in order, so the list is a queue by deadline, and adding an entry removes answered ones at its
//! front; a map holds entries out of order. Answered calls behind a long one are swept out
//! together, so a list never holds more than twice the waiting calls. The timer is armed for the
//! earliest deadline and stays armed when that call is answered: if answers come in time it fires
//! once for each deadline span, finds nothing, and is not armed again while no call waits.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::internal::PerWorker;
use turnwheel_runtime::oneshot::SharedOneshot;
use turnwheel_runtime::{Completion, Failure, Group};

use crate::call::Call;

/// Lists of a system besides those of its workers, and handles of a directory: threads share one
/// only if there are more of them. A power of two.
pub(crate) const SHARDS: usize = 8;

/// In place of the time when a call was forwarded: its deadline is not kept any more.
pub(super) const ABANDONED: u64 = u64::MAX;

/// Entries of a list before it is swept for the first time.
const SWEEP_MIN: usize = 64;

const _: () = assert!(SHARDS.is_power_of_two());

/// A waiting call, after its deadline.
type Entry = (u64, SharedOneshot<Call>);

/// Waiting calls by deadline and number.
type Early = BTreeMap<(u64, u64), SharedOneshot<Call>>;

/// The calls of some threads. On a cache line of its own.
#[repr(align(64))]
struct Shard(Mutex<List>);

/// Calls by their deadlines.
struct List {
    /// In order.
    queue: VecDeque<Entry>,
    /// Calls that were due before the last of the queue when they came.
    early: Early,
    /// Number of the next early call.
    next: u64,
    /// Number of entries that triggers the next sweep.
    sweep_at: usize,
}

/// Settled calls taken out of a list; the caller drops them, outside of the list. Two for each
/// added call, so that a queue shrinks after a long call.
// No array: an array lies in memory, and is read back in other sizes than it was written in. That
// stalls, and took a twentieth of a call.
struct Settled {
    first: Option<SharedOneshot<Call>>,
    second: Option<SharedOneshot<Call>>,
    /// The list is to be swept.
    is_crowded: bool,
}

/// A duration in nanoseconds; `u64::MAX` if that is too long.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The end of a limit; `u64::MAX` if that is beyond all time.
pub(crate) fn deadline_after(now_ns: u64, limit: Duration) -> u64 {
    now_ns.saturating_add(nanos(limit))
}

/// The deadlines of a system.
pub(crate) struct Deadlines {
    group: Group,
    /// The calls that are made on workers.
    own: PerWorker<List>,
    /// The calls of other threads.
    shards: [Shard; SHARDS],
    /// For when the timer is armed; `u64::MAX` if it is not. Written under the lock of `timer`.
    armed_ns: AtomicU64,
    timer: Mutex<Option<Completion<()>>>,
    waker: Waker,
}

/// Wakes the deadlines when their timer fires; weak, since they own the timer.
struct TimerWaker(Weak<Deadlines>);

impl Wake for TimerWaker {
    fn wake(self: Arc<Self>) {
        if let Some(deadlines) = self.0.upgrade() {
            deadlines.timer_fired();
        }
    }
}

impl Deadlines {
    pub(crate) fn new(group: &Group) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            group: group.clone(),
            own: PerWorker::new(group, List::default),
            shards: std::array::from_fn(|_| Shard(Mutex::new(List::default()))),
            armed_ns: AtomicU64::new(u64::MAX),
            timer: Mutex::new(None),
            waker: Waker::from(Arc::new(TimerWaker(me.clone()))),
        })
    }

    /// Expires the call at its deadline unless it is settled by then. One entry; on a worker of the
    /// group without a lock.
    #[inline]
    pub(crate) fn add(&self, deadline_ns: u64, call: SharedOneshot<Call>) {
        let mut call = Some(call);
        let settled = match self.own.own(|list| list.add(deadline_ns, call.take())) {
            Some(settled) => settled,
            None => self.add_shared(deadline_ns, call),
        };
        if settled.is_crowded {
            self.sweep();
        }
        drop(settled.first);
        drop(settled.second);
        // Ordered by the list's section or lock: `timer_fired` clears this before it looks at the
        // list.
        if deadline_ns < self.armed_ns.load(Ordering::Acquire) {
            self.arm(deadline_ns);
        }
    }

    #[inline(never)]
    fn add_shared(&self, deadline_ns: u64, call: Option<SharedOneshot<Call>>) -> Settled {
        self.shard().lock().add(deadline_ns, call)
    }

    /// The list of this thread, which is no worker.
    fn shard(&self) -> &Mutex<List> {
        &self.shards[thread_shard()].0
    }

    /// Removes settled calls from the list of this thread.
    #[cold]
    fn sweep(&self) {
        let swept = self.own.own(List::sweep).unwrap_or_else(|| self.shard().lock().sweep());
        drop(swept);
    }

    /// Visits all lists. Drops nothing meanwhile: a destructor may call again.
    fn each(&self, mut look: impl FnMut(&mut List)) {
        self.own.visit_each(&mut look);
        for shard in &self.shards {
            look(&mut shard.0.lock());
        }
    }

    /// Arms the timer unless it is armed for an earlier time.
    #[cold]
    fn arm(&self, deadline_ns: u64) {
        let fired = {
            let mut timer = self.timer.lock();
            if deadline_ns >= self.armed_ns.load(Ordering::Relaxed) {
                return;
            }
            let left = deadline_ns.saturating_sub(self.group.now_ns());
            let mut sleep = self.group.sleep(Duration::from_nanos(left));
            match Pin::new(&mut sleep).poll(&mut Context::from_waker(&self.waker)) {
                Poll::Pending => {
                    self.armed_ns.store(deadline_ns, Ordering::Release);
                    // Replacing the former timer cancels it.
                    *timer = Some(sleep);
                    return;
                }
                Poll::Ready(fired) => fired,
            }
        };
        match fired {
            Ok(()) => self.timer_fired(),
            Err(Failure::Abandoned) => self.abandon(),
            Err(failure) => tracing::warn!(%failure, "calls wait without their deadlines"),
        }
    }

    /// The timer has fired.
    fn timer_fired(&self) {
        {
            let _timer = self.timer.lock();
            self.armed_ns.store(u64::MAX, Ordering::Release);
        }
        self.take_due(self.group.now_ns()).iter().for_each(|call| call.expire());
        let mut next_ns = u64::MAX;
        self.each(|list| next_ns = next_ns.min(list.earliest_ns()));
        if next_ns != u64::MAX {
            self.arm(next_ns);
        }
    }

    /// Ends all calls: the group has ended, so nothing keeps their deadlines.
    fn abandon(&self) {
        for call in self.take_due(u64::MAX) {
            call.metadata().forwarded_ns.store(ABANDONED, Ordering::Relaxed);
            call.expire();
        }
    }

    /// Takes the due calls out of the lists, where a woken caller may call again.
    fn take_due(&self, now_ns: u64) -> Vec<SharedOneshot<Call>> {
        let mut due = Vec::new();
        self.each(|list| list.take_due(now_ns, &mut due));
        due
    }
}

default_value! {
    List => Self { queue: VecDeque::new(), early: BTreeMap::new(), next: 0, sweep_at: SWEEP_MIN }
}

impl List {
    fn len(&self) -> usize {
        self.queue.len() + self.early.len()
    }

    /// Adds an entry; returns the settled ones in front of it.
    #[inline(always)]
    fn add(&mut self, deadline_ns: u64, call: Option<SharedOneshot<Call>>) -> Settled {
        let first = self.pop_settled();
        let second = if first.is_some() { self.pop_settled() } else { None };
        if let Some(call) = call {
            if self.queue.back().is_none_or(|(last_ns, _)| *last_ns <= deadline_ns) {
                self.queue.push_back((deadline_ns, call));
            } else {
                self.add_early(deadline_ns, call);
            }
        }
        Settled { first, second, is_crowded: self.len() >= self.sweep_at }
    }

    /// Removes the first call of the queue if it is settled.
    #[inline(always)]
    fn pop_settled(&mut self) -> Option<SharedOneshot<Call>> {
        let is_settled = self.queue.front().is_some_and(|(_, first)| first.is_settled());
        if is_settled {
            return self.queue.pop_front().map(|(_, first)| first);
        }
        None
    }

    #[inline(never)]
    fn add_early(&mut self, deadline_ns: u64, call: SharedOneshot<Call>) {
        self.next += 1;
        self.early.insert((deadline_ns, self.next), call);
    }

    fn earliest_ns(&self) -> u64 {
        let queued_ns = self.queue.front().map_or(u64::MAX, |(at_ns, _)| *at_ns);
        let early_ns = self.early.first_key_value().map_or(u64::MAX, |((at_ns, _), _)| *at_ns);
        queued_ns.min(early_ns)
    }

    /// Removes settled entries.
    #[cold]
    fn sweep(&mut self) -> (VecDeque<Entry>, Early) {
        let (queue, early) = (mem::take(&mut self.queue), mem::take(&mut self.early));
        let (settled, queue) = queue.into_iter().partition(|(_, call)| call.is_settled());
        let (settled_early, early) = early.into_iter().partition(|(_, call)| call.is_settled());
        (self.queue, self.early) = (queue, early);
        self.sweep_at = (2 * self.len()).max(SWEEP_MIN);
        (settled, settled_early)
    }

    /// Removes due entries, and settled ones before the next pending one.
    fn take_due(&mut self, now_ns: u64, due: &mut Vec<SharedOneshot<Call>>) {
        let is_out = |at_ns: u64, call: &SharedOneshot<Call>| at_ns <= now_ns || call.is_settled();
        while self.queue.front().is_some_and(|(at_ns, call)| is_out(*at_ns, call)) {
            due.extend(self.queue.pop_front().map(|(_, call)| call));
        }
        while self.early.first_key_value().is_some_and(|((at_ns, _), call)| is_out(*at_ns, call)) {
            due.extend(self.early.pop_first().map(|(_, call)| call));
        }
    }
}

/// The number of this thread, below `SHARDS`.
pub(crate) fn thread_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    MINE.try_with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        mine.get()
    })
    .unwrap_or(0)
}
