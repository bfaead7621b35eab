//! The urgent lane: rare jobs that overtake submitted ones. A queue behind a lock is enough.
//!
//! A push is followed by the signal `URGENT`, which the runner checks between two submitted jobs.
//! A push checks the closed bit of the state word under the lock, and the runner looks for urgent
//! jobs under the lock after that bit was set. So no job enters a lane that was last found empty.

use super::inbox::bits;
use super::mail::Queued;
use super::node::{self, charge, Job};
use super::submit::{Once, SubmitError, SubmitErrorKind, TaskJob};
use crate::limits::URGENT_JOBS_MAX;
use crate::task::cell::layout::Header;
use crate::task::handle::task::Task;
use crate::task::turn::run::Turn;
use crate::task::Context;

impl<S: Send + 'static> Task<S> {
    /// As [`Task::submit`], but ahead of all submitted jobs: the job runs after the current job and
    /// the fast-lane jobs that this one leaves. Urgent jobs keep their order among themselves.
    ///
    /// For rare control jobs that must not wait behind a flood; costs a lock.
    ///
    /// # Errors
    ///
    /// As [`Task::submit`]; `Full` at [`URGENT_JOBS_MAX`](crate::limits::URGENT_JOBS_MAX), whatever
    /// the mailbox holds.
    pub fn submit_urgent<F>(&self, job: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce(&mut S, &mut Context<'_, S>) + Send + 'static,
    {
        self.submit_job_urgent(job)
    }

    /// As [`Task::submit_urgent`] for any [`TaskJob`].
    ///
    /// # Errors
    ///
    /// As [`Task::submit_urgent`].
    pub fn submit_job_urgent<J: TaskJob<S>>(&self, job: J) -> Result<(), SubmitError<J>> {
        submit(self.header(), Once::<S, J>::new(job))
            .map_err(|(kind, job)| SubmitError { kind, job: job.0 })
    }
}

impl<S> Task<S> {
    /// Runs the task's [`Lifecycle::interrupted`](crate::task::Lifecycle::interrupted) hook after
    /// the current job, even while the task waits. Several interrupts before the hook run it once.
    /// Without effect on a task that is over, and while a job does not return.
    ///
    /// Cost: one or two atomic read-modify-writes.
    pub fn interrupt(&self) {
        self.header().signal(bits::INTERRUPT);
    }
}

/// Puts a job into the urgent lane.
fn submit<J: Job>(header: &Header, job: J) -> Result<(), (SubmitErrorKind, J)> {
    if header.group.memory.is_exceeded() {
        return Err((SubmitErrorKind::GroupMemory, job));
    }
    let mut urgent = header.extra_or_make().urgent.lock();
    if header.inbox.is_closed() {
        return Err((SubmitErrorKind::Closed, job));
    }
    if urgent.len() >= URGENT_JOBS_MAX {
        return Err((SubmitErrorKind::Full, job));
    }
    crate::group::count_queued(header, charge::<J>());
    urgent.push_back(Queued(node::make(header, job)));
    drop(urgent);
    header.signal(bits::URGENT);
    Ok(())
}

/// Closes a lane that is not there yet; the closed bit of the state word is set already.
pub(in crate::task) fn close(header: &Header) {
    // RMW: either the look at the lane that follows sees it, or its maker sees the closed bit.
    let _ = header.extra_settled();
}

/// Whether an urgent job waits; the runner then knows of it, also if its signal is still under way.
pub(in crate::task) fn is_waiting_owner(turn: &Turn) -> bool {
    let extra = turn.header().extra();
    let is_waiting = extra.is_some_and(|extra| !extra.urgent.lock().is_empty());
    turn.owner().has_urgent.set(turn.owner().has_urgent.get() || is_waiting);
    is_waiting
}

/// Drops the lane's jobs, unrun.
pub(in crate::task) fn discard(turn: &mut Turn) {
    while let Some(queued) = pop(turn.header()) {
        // SAFETY: the node was in the lane, its job unrun.
        unsafe { node::discard(queued.0, turn) };
    }
}

fn pop(header: &Header) -> Option<Queued> {
    header.extra()?.urgent.lock().pop_front()
}

impl Turn {
    /// Runs the urgent lane dry. False when interrupted or used up.
    #[inline(always)]
    pub(in crate::task) fn urgent_jobs(&mut self) -> bool {
        !self.owner().has_urgent.get() || !self.owner().open.get() || self.urgent_jobs_now()
    }

    #[cold]
    fn urgent_jobs_now(&mut self) -> bool {
        if self.is_signalled() {
            return false;
        }
        // Cleared before the look at the lane: a later job sets its signal again.
        self.owner().has_urgent.set(false);
        loop {
            let Some(queued) = pop(self.header()) else { return true };
            self.owner().has_urgent.set(true);
            self.run_node(queued.0);
            let may_go_on = self.fast_jobs() && self.may_go_on();
            if !may_go_on || !self.owner().open.get() || self.is_signalled() {
                return false;
            }
            self.owner().has_urgent.set(false);
        }
    }
}
