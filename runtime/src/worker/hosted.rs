//! Workers on the threads of an executor: each is a future, and a poll of it runs turns.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::{mem, ptr};

use super::assist;
use super::run::Pace;
use super::search::Search;
use super::{Local, Remote};
use crate::completion::{allow_blocking, refuse_blocking};
use crate::failure::contain;
use crate::group::{start_worker, GroupShared};
use crate::handoff::hidden;
use crate::limits::{ASSIST_TURNS_MAX, HOSTED_POLL_NS, HOSTED_TURNS_MAX, HOSTED_YIELD_TURNS};
use crate::sync::{keeps, Arc, Mutex, Ordering, Step, Thread, Worker};
use crate::task::TaskPtr;

/// Where a worker runs.
#[derive(Debug)]
pub(crate) enum Host {
    /// It is on its way to a thread; during a poll, until the end of that.
    Moving,
    Thread(Thread),
    Ended,
    Future {
        /// Taken by the thread that wakes the worker.
        waker: Option<Waker>,
        /// Taken during a poll, and by a thread that waits for an answer.
        seat: Option<Box<Seat>>,
        /// A poll came while a waiting thread had the seat.
        is_missed: bool,
    },
}

/// Worker of a group as a future for an executor.
///
/// [`GroupBuilder::build_hosted`](crate::GroupBuilder::build_hosted) makes it. It ends when the
/// group has been shut down. A worker that is dropped earlier goes on on a thread of its own.
#[derive(Debug)]
#[must_use = "an executor polls it; a dropped worker goes on on a thread of its own"]
pub struct HostedWorker {
    group: Arc<GroupShared>,
    index: usize,
}

/// State of a hosted worker, which a poll takes out of its [`Host`] and puts back.
#[derive(Debug)]
pub(crate) struct Seat {
    local: Local,
    search: Search,
    pace: Pace,
    mode: Mode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Running,
    /// Counted as searching.
    Searching,
    /// On the list of parked workers, or taken off it and counted as searching.
    Parked,
}

/// Next step after a poll.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Again,
    Wait,
    End,
}

impl HostedWorker {
    pub(crate) fn new(group: &Arc<GroupShared>, index: usize, queue: Worker<TaskPtr>) -> Self {
        let local = Local::new(Arc::clone(group), index, queue);
        let search = Search::new(group.workers.len());
        let seat = Seat { local, search, pace: Pace::default(), mode: Mode::Running };
        let seat = Some(seat.into());
        *group.workers[index].host.lock() = Host::Future { waker: None, seat, is_missed: false };
        Self { group: Arc::clone(group), index }
    }
}

impl Future for HostedWorker {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let host = &self.group.workers[self.index].host;
        let Some(seat) = take_seat(host, Some(cx.waker().clone())) else { return Poll::Ready(()) };
        // Else it is polled again when the thread that waits for an answer has put the seat back.
        let Some(mut seat) = seat else { return Poll::Pending };
        let next = seat.poll();
        if next == Next::End {
            drop(seat);
            let _before = mem::replace(&mut *host.lock(), Host::Ended);
            return Poll::Ready(());
        }
        put_back(host, seat, next == Next::Again);
        assist::settle(&self.group);
        Poll::Pending
    }
}

impl Drop for HostedWorker {
    fn drop(&mut self) {
        to_thread(&self.group, self.index);
    }
}

/// Takes the seat of a worker that is a future, for a poll with its waker or for a waiting thread.
/// Nothing if the worker is no future; no seat if another thread has it.
fn take_seat(host: &Mutex<Host>, polled: Option<Waker>) -> Option<Option<Box<Seat>>> {
    let mut locked = host.lock();
    let Host::Future { waker, seat, is_missed } = &mut *locked else { return None };
    let seat = seat.take();
    *is_missed |= keeps(Step::MissedPoll) && seat.is_none() && polled.is_some();
    let before = polled.and_then(|polled| waker.replace(polled));
    drop(locked);
    contain("dropping a waker", || drop(before));
    Some(seat)
}

/// Puts the seat back, and wakes the worker if it `is_due` or a poll was missed. Starts a thread
/// for a worker that was moved meanwhile.
fn put_back(host: &Mutex<Host>, taken: Box<Seat>, is_due: bool) {
    let mut locked = host.lock();
    let Host::Future { waker, seat, is_missed } = &mut *locked else {
        drop(locked);
        return taken.go_to_thread();
    };
    *seat = Some(taken);
    let due = if mem::take(is_missed) || is_due { waker.take() } else { None };
    drop(locked);
    if let Some(waker) = due {
        contain("the waker of a worker", || waker.wake());
    }
}

/// Moves a hosted worker to a thread of its own; during a poll, at its end.
pub(crate) fn to_thread(group: &GroupShared, index: usize) {
    let mut host = group.workers[index].host.lock();
    if !matches!(*host, Host::Future { .. }) {
        return;
    }
    let before = mem::replace(&mut *host, Host::Moving);
    // The executor's waker is in it.
    drop(host);
    if let Host::Future { seat: Some(seat), .. } = before {
        seat.go_to_thread();
    }
}

/// Runs turns of a worker for a thread that waits, until `is_done`.
pub(super) fn assist(worker: &Remote, is_done: &dyn Fn() -> bool) {
    let Some(Some(mut seat)) = take_seat(&worker.host, None) else { return };
    let is_due = seat.enter(|local, _, pace, mode| {
        let is_due = begin(local, mode);
        for _ in 0..ASSIST_TURNS_MAX {
            let Some(task) = pace.next(local) else { break };
            pace.run(local, task);
            if is_done() {
                break;
            }
        }
        is_due
    });
    put_back(&worker.host, seat, is_due);
}

impl Seat {
    fn go_to_thread(self) {
        let group = Arc::clone(&self.local.group);
        let index = self.local.index;
        self.local.shared().recent_ns.store(0, Ordering::Relaxed);
        let is_listed = self.mode == Mode::Parked && group.sleep.leave(index, false);
        if self.mode != Mode::Running && !is_listed {
            group.sleep.end_search();
        }
        if let Err(error) = start_worker(self.local) {
            let group = &group.config.name;
            tracing::error!(%error, group, worker = index, "no thread for a worker");
        }
    }

    /// Runs turns until there are no more, or enough for one poll.
    fn poll(&mut self) -> Next {
        self.enter(|local, search, pace, mode| {
            let next = run(local, search, pace, mode);
            if next == Next::End {
                local.flush_bytes();
                local.call_hook(true);
            }
            next
        })
    }

    /// Makes this thread the worker for the time of a closure.
    fn enter<R>(&mut self, run: impl FnOnce(&Local, &mut Search, &mut Pace, &mut Mode) -> R) -> R {
        let Self { local, search, pace, mode } = self;
        refuse_blocking();
        let turns = |local: &Local| {
            local.call_hook(false);
            let result = run(local, search, pace, mode);
            local.shared().running.store(ptr::null_mut(), Ordering::Release);
            result
        };
        let result = hidden(|| local.enter(turns));
        allow_blocking();
        result
    }
}

/// A parked worker searches. Returns whether no other thread has woken it.
fn begin(local: &Local, mode: &mut Mode) -> bool {
    if *mode != Mode::Parked {
        return false;
    }
    let group = &*local.group;
    let now_ns = group.now_ns();
    local.now_ns.set(now_ns);
    local.shared().recent_ns.store(now_ns, Ordering::Relaxed);
    local.shared().stats.unparked_owner(now_ns);
    local.shared().stats.wakes.add_owner(1);
    *mode = Mode::Searching;
    let was_listed = group.sleep.leave(local.index, true);
    if was_listed {
        group.watchdog.awake();
    }
    was_listed
}

fn run(local: &Local, search: &mut Search, pace: &mut Pace, mode: &mut Mode) -> Next {
    let group = &*local.group;
    begin(local, mode);
    let (machine_ns, now_ns) = group.clock.machine_and_now_ns();
    local.now_ns.set(now_ns);
    local.shared().clock_read(now_ns);
    let mut turns = 0;
    while !group.is_stopping() {
        let found = pace.next(local).or_else(|| search.look(local, machine_ns, now_ns));
        let Some(task) = found else { return idle(local, search, mode, turns) };
        if *mode == Mode::Searching {
            *mode = Mode::Running;
            search.stop_searching(local);
        }
        pace.run(local, task);
        turns += 1;
        if turns >= HOSTED_TURNS_MAX || local.now_ns.get() >= now_ns + HOSTED_POLL_NS {
            if !local.queue().is_empty() || group.has_shared_work() {
                group.wake_one();
            }
            return Next::Again;
        }
    }
    if *mode == Mode::Searching {
        group.sleep.end_search();
    }
    Next::End
}

/// The worker has found nothing.
fn idle(local: &Local, search: &mut Search, mode: &mut Mode, turns: u32) -> Next {
    let group = &*local.group;
    if turns >= HOSTED_YIELD_TURNS {
        if *mode != Mode::Searching {
            group.sleep.start_search(false);
            *mode = Mode::Searching;
        }
        return Next::Again;
    }
    local.flush_bytes();
    group.sleep.enter(local.index, *mode == Mode::Searching);
    *mode = Mode::Parked;
    local.shared().recent_ns.store(0, Ordering::Relaxed);
    search.forget();
    local.shared().stats.parks.add_owner(1);
    // The last look, after it is booked as parked.
    let has_work = keeps(Step::LastLook) && group.has_shared_work();
    let now_ns = group.now_ns();
    if has_work || group.is_stopping() || group.timers.is_due(now_ns) {
        group.sleep.leave(local.index, true);
        *mode = Mode::Searching;
        return Next::Again;
    }
    local.shared().stats.parks_owner(now_ns);
    Next::Wait
}
