//! One turn of a task: rounds of jobs within a budget, then the subscriptions that are ready.
//!
//! A round that the end of a turn cuts short is completed by the next turn before anything else.
//! Only this file and `phases.rs` call user code. After `Left::Gone` the task must not be touched.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::{self, NonNull};

use super::current;
use super::leave::Left;
use super::phases;
use crate::failure::{contain, Failure};
use crate::group::Budget;
use crate::limits::CLOCK_STRIDE_JOBS_MAX;
use crate::subscription::Subscriptions;
use crate::sync::Ordering;
use crate::task::cell::layout::{Header, Owner, TaskPtr};
use crate::task::lane::inbox::bits;
use crate::task::lane::node::{self, Flow, Node, Use};
use crate::task::Phase;

/// Next step for a task after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Its budget is used up, or it yielded: behind all queued tasks with it.
    Requeue,
    /// Nothing is to be done; the task may be gone.
    Leave,
}

/// Result of a turn, for its worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) after: After,
    /// Jobs run or discarded.
    pub(crate) jobs: u32,
    /// Bytes of mailbox memory given back.
    pub(crate) bytes: i64,
    /// The clock as last read.
    pub(crate) now_ns: u64,
    /// Jobs that failed.
    pub(crate) failures: u32,
}

/// How far a round has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// To its end: the turn may leave the task.
    Complete,
    /// It stopped among the jobs, with its ready subscriptions still to visit.
    AmongJobs,
    /// It stopped among the subscriptions, or has visited those that the round before owed.
    AmongVisits,
}

/// State of the turn under way; lives on the worker's stack.
#[derive(Debug)]
pub(crate) struct Turn {
    header: NonNull<Header>,
    /// The user's state.
    pub(crate) state: *mut (),
    /// A node of the fast lane whose job runs; freed where its panic is caught.
    pub(in crate::task) running: *mut Node,
    /// The clock as last read; constant within a job.
    pub(crate) now_ns: u64,
    end_ns: u64,
    /// Jobs until the next look at the clock.
    pub(in crate::task) stride_left: u32,
    stride: u32,
    jobs_left: u32,
    pub(in crate::task) jobs: u32,
    /// Consumed submissions not yet published.
    pub(crate) consumed: u64,
    /// Bytes of mailbox memory given back.
    pub(crate) bytes: i64,
    /// The job asked for a yield, or a signal must be handled before the next job.
    pub(super) is_interrupted: bool,
    is_yielding: bool,
    /// Whether the simulation is notified of each job.
    is_simulated: bool,
    pub(crate) failures: u32,
}

/// Runs one turn.
///
/// # Safety
///
/// This thread alone took the task from a run queue.
#[inline(always)]
pub(crate) unsafe fn run_turn(task: TaskPtr, budget: Budget, now_ns: u64) -> Report {
    // SAFETY: forwarded to the caller.
    let own = unsafe { task.header() }.extra().and_then(|extra| extra.budget);
    run(task, Turn::new(task, own.unwrap_or(budget), now_ns))
}

/// Runs one turn in a simulation, which is notified of each job and has chosen the budget.
///
/// # Safety
///
/// As for `run_turn`.
pub(crate) unsafe fn run_simulated_turn(task: TaskPtr, budget: Budget, now_ns: u64) -> Report {
    let mut turn = Turn::new(task, budget, now_ns);
    turn.is_simulated = true;
    run(task, turn)
}

#[inline(always)]
fn run(task: TaskPtr, mut turn: Turn) -> Report {
    let entered = current::enter(task.0);
    let after = loop {
        match catch_unwind(AssertUnwindSafe(|| turn.rounds())) {
            Ok(after) => break after,
            Err(panic) => {
                turn.free_running();
                let failure = Failure::from_panic(panic);
                contain("the failure of a job", || phases::job_failed(&mut turn, failure));
            }
        }
    };
    drop(entered);
    let Turn { jobs, bytes, now_ns, failures, .. } = turn;
    Report { after, jobs, bytes, now_ns, failures }
}

/// Unwinds with an injected panic and cleans up on the way, as code would that panics itself.
#[cold]
fn unwind_with(clean_up: impl FnOnce()) -> ! {
    struct OnUnwind<F: FnOnce()>(Option<F>);
    impl<F: FnOnce()> Drop for OnUnwind<F> {
        fn drop(&mut self) {
            if let Some(clean_up) = self.0.take() {
                clean_up();
            }
        }
    }
    let _clean_up = OnUnwind(Some(clean_up));
    // Not `panic!`: nothing is wrong, so the panic hook has nothing to print.
    resume_unwind(Box::new("a panic injected by the simulation"))
}

impl Turn {
    fn new(task: TaskPtr, budget: Budget, now_ns: u64) -> Self {
        // SAFETY: the task is scheduled and this thread took it.
        let header = unsafe { task.header() };
        // SAFETY: the vtable fits the cell, and the pointer was made from the entire cell.
        let state = unsafe { task.0.as_ptr().byte_add(header.vtable.state_offset) }.cast();
        let stride = header.class().stride().min(budget.jobs).max(1);
        Self {
            header: task.0,
            state,
            running: ptr::null_mut(),
            now_ns,
            end_ns: now_ns.saturating_add(budget.time_ns),
            stride_left: stride,
            stride,
            jobs_left: budget.jobs - stride,
            jobs: 0,
            consumed: 0,
            bytes: 0,
            is_interrupted: false,
            is_yielding: false,
            is_simulated: false,
            failures: 0,
        }
    }

    /// A stand-in for discarding a job outside of a turn: only its account is used.
    pub(crate) fn for_discard(header: NonNull<Header>) -> Self {
        let turn = Self::new(TaskPtr(header), Budget { jobs: 1, time_ns: 0 }, 0);
        Self { state: ptr::null_mut(), ..turn }
    }

    /// The task's header.
    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the task lives as long as its turn.
        unsafe { self.header.as_ref() }
    }

    /// The task's header, apart from the borrow of the turn: it stays in a register across jobs.
    ///
    /// # Safety
    ///
    /// The borrow ends before the turn leaves the task.
    #[inline(always)]
    pub(super) unsafe fn header_apart<'a>(&self) -> &'a Header {
        // SAFETY: the task lives as long as its turn.
        unsafe { self.header.as_ref() }
    }

    pub(crate) fn header_ptr(&self) -> NonNull<Header> {
        self.header
    }

    #[inline(always)]
    pub(crate) fn owner(&self) -> &Owner {
        // SAFETY: a turn is the runner of its task.
        unsafe { self.header().owner() }
    }

    /// Calls `look` with the task's subscriptions, if it has made any. `look` runs no user code.
    #[inline(always)]
    pub(in crate::task) fn subscriptions<R>(
        &self,
        look: impl FnOnce(&mut Subscriptions) -> R,
    ) -> Option<R> {
        let extra = self.header().extra()?;
        // SAFETY: a turn is the runner of its task, and the borrow ends with this call.
        Some(look(unsafe { extra.subscriptions_owner() }))
    }

    /// Ends the turn after this job; the task goes behind all others.
    pub(crate) fn yield_now(&mut self) {
        self.is_yielding = true;
        self.is_interrupted = true;
    }

    /// A timer's job is about to run: its deadline has passed, though the clock as last read by
    /// this turn may not show it, since another worker may have fired the timer.
    pub(crate) fn reach(&mut self, deadline_ns: u64) {
        self.now_ns = self.now_ns.max(deadline_ns);
    }

    /// Makes the turn look at its signals after this job.
    pub(crate) fn interrupt(&mut self) {
        self.is_interrupted = true;
    }

    /// Rounds until the task is left or used up.
    fn rounds(&mut self) -> After {
        loop {
            let signals = self.header().inbox.signals();
            if signals & bits::WAKE != 0 {
                if let Left::Gone = phases::take_signals(self) {
                    return After::Leave;
                }
            }
            self.is_interrupted = false;
            let round = self.round();
            self.publish();
            self.give_room();
            let left = if round == Round::Complete { self.leave() } else { Left::Stays };
            match left {
                Left::Gone => return After::Leave,
                Left::Stays if !self.is_used_up() => {}
                Left::Stays | Left::Requeue => {
                    if round == Round::AmongJobs {
                        // The next turn begins with the ready jobs that this round has not run.
                        self.owe_ready_jobs();
                    }
                    return After::Requeue;
                }
            }
        }
    }

    /// One round: the jobs present, then the ready subscriptions; or the visits that the round
    /// before owes, after which the signals are looked at again.
    #[inline(always)]
    fn round(&mut self) -> Round {
        if self.owes_ready_jobs() {
            self.owed_jobs();
            return Round::AmongVisits;
        }
        if !(self.fast_jobs() && self.urgent_jobs() && self.submitted_jobs()) {
            return Round::AmongJobs;
        }
        if self.header().extra().is_none() || self.ready_jobs() {
            Round::Complete
        } else {
            Round::AmongVisits
        }
    }

    fn is_used_up(&mut self) -> bool {
        self.is_yielding || (self.stride_left == 0 && !self.next_stride())
    }

    /// Reads the clock every few jobs and says whether the budget allows more.
    #[cold]
    fn next_stride(&mut self) -> bool {
        let now_ns = self.header().group.now_ns();
        let took = now_ns.saturating_sub(self.now_ns);
        self.now_ns = now_ns;
        self.stride = self.header().class().adapt_stride(self.stride, took);
        if self.jobs_left == 0 || now_ns >= self.end_ns {
            return false;
        }
        self.stride_left = self.stride.min(self.jobs_left).min(CLOCK_STRIDE_JOBS_MAX);
        self.jobs_left -= self.stride_left;
        true
    }

    /// Whether the next job may begin.
    #[inline(always)]
    pub(in crate::task) fn may_go_on(&mut self) -> bool {
        !self.is_interrupted && (self.stride_left > 0 || self.next_stride())
    }

    /// Runs the fast lane dry. False when interrupted or used up.
    #[inline(always)]
    pub(in crate::task) fn fast_jobs(&mut self) -> bool {
        // SAFETY: used within this function alone, which does not leave the task.
        let header = unsafe { self.header_apart() };
        // SAFETY: a turn is the runner of its task.
        self.fast_jobs_of(unsafe { header.owner() })
    }

    #[inline(always)]
    pub(super) fn fast_jobs_of(&mut self, owner: &Owner) -> bool {
        loop {
            if owner.fast.get().is_null() {
                return !self.is_interrupted;
            }
            if !self.may_go_on() {
                return false;
            }
            self.fast_job();
        }
    }

    fn fast_job(&mut self) {
        // Only a job that leaves something in the fast lane moves the insertion point, so it is put
        // back where that lane is emptied.
        let Some(node) = current::take_fast(self.owner()) else { return };
        self.run_node(node);
    }

    /// Runs the job of a node that is in no lane, and frees the node unless the job stays current.
    #[inline(always)]
    pub(in crate::task) fn run_node(&mut self, node: *mut Node) {
        self.running = node;
        let flow = self.call(node);
        self.running = ptr::null_mut();
        match flow {
            // SAFETY: the payload is consumed and the node is in no lane.
            Flow::Done => unsafe { node::free(node) },
            Flow::Again => self.keep_current(node),
        }
    }

    /// Puts a job that answered `Again` back to the front and ends the turn.
    pub(in crate::task) fn keep_current(&mut self, node: *mut Node) {
        let owner = self.owner();
        // SAFETY: the node is ours.
        unsafe { (*node).next.store(owner.fast.get(), Ordering::Relaxed) };
        owner.fast.set(node);
        owner.fast_len.set(owner.fast_len.get() + 1);
        self.yield_now();
    }

    /// Calls a node's job.
    #[inline(always)]
    pub(in crate::task) fn call(&mut self, node: *mut Node) -> Flow {
        self.stride_left = self.stride_left.saturating_sub(1);
        self.jobs += 1;
        // SAFETY: the node is the turn's.
        unsafe { (*node).queued }.check(&self.header().life);
        // SAFETY: the node holds a job of this task that has not run.
        let call = unsafe { (*node).call };
        // SAFETY: the payload is only reached through this pointer.
        let payload = unsafe { &raw mut (*node).payload };
        if self.is_simulated && self.is_to_panic() {
            unwind_with(|| {
                // SAFETY: as below; the job is dropped as if it had panicked itself.
                let _ = unsafe { call(payload, self, Use::Discard) };
            });
        }
        // SAFETY: the function belongs to the payload, and the turn is this task's.
        unsafe { call(payload, self, Use::Run) }
    }

    /// Announces the job of a subscription.
    #[inline(always)]
    pub(crate) fn announce(&self) {
        if self.is_simulated && self.is_to_panic() {
            unwind_with(|| {});
        }
    }

    /// Notifies the simulation of a job; the simulation may make it panic.
    #[cold]
    fn is_to_panic(&self) -> bool {
        let simulation = self.header().group.simulation.as_ref();
        simulation.is_some_and(|simulation| simulation.begins(self.header()))
    }

    /// Whether a signal (stop, kill, urgent job) goes before the next job.
    #[inline(always)]
    pub(in crate::task) fn is_signalled(&self) -> bool {
        self.header().inbox.signals() & bits::SYSTEM != 0
    }

    /// Publishes how many submissions were consumed.
    #[inline(always)]
    pub(crate) fn publish(&mut self) {
        if self.consumed > 0 {
            self.header().inbox.publish_done_owner(self.consumed);
            self.consumed = 0;
        }
    }

    #[inline(always)]
    fn give_room(&self) {
        if self.owner().room_wanted.get() {
            phases::give_room(self);
        }
    }

    /// Frees the node of a fast-lane job that panicked.
    fn free_running(&mut self) {
        let node = std::mem::replace(&mut self.running, ptr::null_mut());
        if !node.is_null() {
            // SAFETY: the panic consumed the payload, and the node is in no lane.
            unsafe { node::free(node) };
        }
        self.failures += 1;
    }

    /// The phase now.
    pub(crate) fn phase(&self) -> Phase {
        self.header().phase()
    }
}
