//! Workers on the threads of an executor: each is a future, and a poll of it runs turns.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::{mem, ptr};

use super::run::Pace;
use super::search::Search;
use super::Local;
use crate::completion::{allow_blocking, refuse_blocking};
use crate::group::{start_worker, GroupShared};
use crate::limits::{HOSTED_POLL_NS, HOSTED_TURNS_MAX, HOSTED_YIELD_TURNS};
use crate::sync::{Arc, Mutex, Ordering, Thread, Worker};
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
        /// Taken during a poll.
        seat: Option<Box<Seat>>,
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
        *group.workers[index].host.lock() = Host::Future { waker: None, seat: Some(seat.into()) };
        Self { group: Arc::clone(group), index }
    }
}

impl Future for HostedWorker {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let host = &self.group.workers[self.index].host;
        let polled = Host::Future { waker: Some(cx.waker().clone()), seat: None };
        let Some(Host::Future { seat: Some(mut seat), .. }) = replace(host, polled) else {
            return Poll::Ready(());
        };
        let next = seat.poll();
        if next == Next::End {
            drop(seat);
            let _before = mem::replace(&mut *host.lock(), Host::Ended);
            return Poll::Ready(());
        }
        if next == Next::Again {
            cx.waker().wake_by_ref();
        }
        if let Host::Future { seat: place, .. } = &mut *host.lock() {
            *place = Some(seat);
            return Poll::Pending;
        }
        seat.go_to_thread();
        Poll::Pending
    }
}

impl Drop for HostedWorker {
    fn drop(&mut self) {
        to_thread(&self.group, self.index);
    }
}

/// Replaces the host of a worker that is a future, and returns the former one. The caller drops
/// it without the lock, since the executor's waker is in it.
fn replace(host: &Mutex<Host>, next: Host) -> Option<Host> {
    let mut host = host.lock();
    matches!(*host, Host::Future { .. }).then(|| mem::replace(&mut *host, next))
}

/// Moves a hosted worker to a thread of its own; during a poll, at its end.
pub(crate) fn to_thread(group: &GroupShared, index: usize) {
    let before = replace(&group.workers[index].host, Host::Moving);
    if let Some(Host::Future { seat: Some(seat), .. }) = before {
        seat.go_to_thread();
    }
}

impl Seat {
    fn go_to_thread(self) {
        let group = Arc::clone(&self.local.group);
        let index = self.local.index;
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
        let Self { local, search, pace, mode } = self;
        refuse_blocking();
        let next = local.enter(|local| {
            local.call_hook(false);
            let next = run(local, search, pace, mode);
            local.shared().running.store(ptr::null_mut(), Ordering::Release);
            if next == Next::End {
                local.flush_bytes();
                local.call_hook(true);
            }
            next
        });
        allow_blocking();
        next
    }
}

fn run(local: &Local, search: &mut Search, pace: &mut Pace, mode: &mut Mode) -> Next {
    let group = &*local.group;
    let (machine_ns, now_ns) = group.clock.machine_and_now_ns();
    local.now_ns.set(now_ns);
    if *mode == Mode::Parked {
        local.shared().stats.unparked_owner(now_ns);
        local.shared().stats.wakes.add_owner(1);
        group.sleep.leave(local.index, true);
        *mode = Mode::Searching;
    }
    let mut turns = 0;
    while !group.is_stopping() {
        let found = pace.next(local).or_else(|| search.look(local, machine_ns, now_ns));
        let Some(task) = found else {
            return idle(local, search, mode, turns);
        };
        if *mode == Mode::Searching {
            *mode = Mode::Running;
            search.stop_searching(local);
        }
        pace.run(local, task);
        turns += 1;
        if turns >= HOSTED_TURNS_MAX || local.now_ns.get() >= now_ns + HOSTED_POLL_NS {
            if !local.queue().is_empty() || !group.injector.is_empty() {
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
    search.forget();
    local.shared().stats.parks.add_owner(1);
    // The last look, after it is booked as parked.
    let has_work = !(group.injector.is_empty() && group.system.is_empty());
    let now_ns = group.now_ns();
    if has_work || group.is_stopping() || group.timers.is_due(now_ns) {
        group.sleep.leave(local.index, true);
        *mode = Mode::Searching;
        return Next::Again;
    }
    local.shared().stats.parks_owner(now_ns);
    Next::Wait
}
