//! Handle of a task: operations for any thread.

use std::marker::PhantomData;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::time::Duration;

use crate::completion::{self, completion, Completer, Completion, Executor, Rejected};
use crate::failure::Failure;
use crate::group::{Group, TimerEntry};
use crate::sync::{Arc, Ordering};
use crate::task::cell::extra::Life;
use crate::task::cell::layout::{self, Attached, Header};
use crate::task::cell::reference::TaskRef;
use crate::task::lane::inbox::bits;
use crate::task::lane::node::Flow;
use crate::task::lane::room::Reserve;
use crate::task::lane::submit::{self, Once, Repeated, SubmitError, SubmitErrorKind, TaskJob};
use crate::task::turn::current;
use crate::task::turn::lifecycle::Phase;
use crate::task::turn::phases;
use crate::task::{AnyTask, Context};

/// A task: a state of type `S` and jobs on it, one at a time.
///
/// Clones share the task. When the last handle is dropped and no subscription of the task is left,
/// the task runs its queued jobs and closes in order. A task whose state holds a handle of its own
/// is always referenced: close it explicitly.
///
/// Memory: 128 bytes plus the state, rounded up to 64; more when it subscribes or has a name.
///
/// Order: jobs from one producer run in the order submitted, and each sees the state as the
/// previous one left it.
///
/// ```
/// use turnwheel_runtime::Group;
/// let group = Group::builder("doc").workers(1).build()?;
/// let counter = group.spawn(0_u64)?;
/// counter.submit(|count, _| *count += 1)?;
/// assert_eq!(counter.call(|count, _| *count).wait()?, 1);
/// # group.shutdown();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "ActorTask")]
#[doc(alias = "ActorControl")]
pub struct Task<S> {
    pub(super) inner: TaskRef,
    /// Invariant: jobs write the state, so a handle of a subtype must not become one of a
    /// supertype.
    state: PhantomData<fn(S) -> S>,
}

clone_fields!(impl<S> Task<S>, inner, state);

debug_fields!(impl<S> Task<S>, self => name: self.name(), phase: self.phase());

impl<S> PartialEq for Task<S> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.header(), other.header())
    }
}

impl<S> Eq for Task<S> {}

/// By identity, as `Eq`.
impl<S> std::hash::Hash for Task<S> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.header()).hash(state);
    }
}

impl<S> Task<S> {
    pub(crate) fn new(inner: TaskRef) -> Self {
        Self { inner, state: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        &self.inner
    }

    /// The name given when it was spawned, or the name of its class.
    pub fn name(&self) -> String {
        self.inner.name().to_owned()
    }

    /// The class under which metrics are kept.
    pub fn class(&self) -> String {
        self.inner.class().name().to_owned()
    }

    /// A number that no other task of the group has while this one lives.
    pub fn id(&self) -> u64 {
        self.inner.group.registry.id_of(&self.inner)
    }

    /// The number given with [`TaskBuilder::tag`](crate::TaskBuilder::tag); 0 without one.
    #[inline]
    pub fn tag(&self) -> u64 {
        self.inner.tag
    }

    /// The group it runs in.
    pub fn group(&self) -> Group {
        Group::from_shared(Arc::clone(&self.inner.group))
    }

    /// Phase of the task's life.
    pub fn phase(&self) -> Phase {
        self.inner.phase()
    }

    /// Submitted jobs not yet run, about.
    pub fn queue_len(&self) -> u64 {
        let mail = self.inner.extra().and_then(|extra| extra.mail.as_ref());
        mail.map_or_else(|| self.inner.inbox.queued(), |mail| mail.lock().len() as u64)
    }

    /// Jobs displaced by the overflow policy `DropOldest` since the task was spawned.
    pub fn dropped_jobs(&self) -> u64 {
        let mail = self.inner.extra().and_then(|extra| extra.mail.as_ref());
        mail.map_or(0, |mail| mail.lock().dropped())
    }

    /// Whether the calling code runs in a turn of this task.
    pub fn is_current(&self) -> bool {
        current::is_current(&self.inner)
    }

    /// Completes when the task has reached phase Started, or fails with why it never did.
    pub fn started(&self) -> Completion<()> {
        let outcome = |header: &Header, life: &Life| match header.phase() {
            Phase::New | Phase::Starting => None,
            _ if life.is_unstarted => Some(Err(life.failure.clone().unwrap_or(Failure::Closed))),
            _ => Some(Ok(())),
        };
        self.await_life(outcome, |life| &mut life.started)
    }

    /// Completes when the task is over and its state is dropped, or fails with why it failed.
    pub fn closed(&self) -> Completion<()> {
        let outcome = |header: &Header, life: &Life| {
            let is_settled = header.is_settled.load(Ordering::Acquire);
            is_settled.then(|| life.failure.clone().map_or(Ok(()), Err))
        };
        self.await_life(outcome, |life| &mut life.closed)
    }

    fn await_life(
        &self,
        outcome: impl Fn(&Header, &Life) -> Option<Result<(), Failure>>,
        waiters: impl Fn(&mut Life) -> &mut Vec<Completer<()>>,
    ) -> Completion<()> {
        let extra = self.inner.extra_or_make();
        let mut life = extra.life.lock();
        if let Some(outcome) = outcome(&self.inner, &life) {
            return outcome.map_or_else(Completion::failed, Completion::done);
        }
        if life.is_given_up {
            return Completion::failed(life.failure.clone().unwrap_or(Failure::Killed));
        }
        let (completer, waiting) = completion();
        let waiters = waiters(&mut life);
        let mut gone = Vec::new();
        if waiters.len() == waiters.capacity() {
            // Waiters that gave up are removed, so that a long life does not pile them up.
            (gone, *waiters) = waiters.drain(..).partition(Completer::is_cancelled);
            waiters.reserve(waiters.len().max(1));
        }
        waiters.push(completer);
        drop(life);
        drop(gone);
        waiting
    }

    /// Closes the task in order: earlier submissions run, later ones are answered `Closed`. The
    /// answer is [`Task::closed`]. Idempotent.
    pub fn close(&self) -> Completion<()> {
        phases::close_admission(&self.inner);
        self.inner.signal(bits::CLOSE);
        self.closed()
    }

    /// As [`Task::close`]; after `deadline` the task is stopped. Of several calls the earliest
    /// deadline counts.
    pub fn close_within(&self, deadline: Duration) -> Completion<()> {
        let closed = self.close();
        let group = &self.inner.group;
        let deadline_ns = group.deadline_after(deadline);
        let extra = self.inner.extra_or_make();
        let mut later = None;
        let mut life = extra.life.lock();
        let is_earliest = life.deadline.is_none_or(|(armed_ns, _)| deadline_ns < armed_ns);
        if is_earliest && !self.inner.is_settled.load(Ordering::Acquire) {
            let entry = TimerEntry::Stop(self.inner.clone());
            // A full wheel leaves the deadline as it was; the future still says when.
            if let Ok(key) = group.arm(deadline_ns, entry) {
                later = life.deadline.replace((deadline_ns, key));
            }
        }
        drop(life);
        if let Some((_, key)) = later {
            group.timers.cancel(key);
        }
        closed
    }

    /// Skips the queued jobs (they are answered `Closed`) and closes in order, hooks included,
    /// without waiting for held subscriptions. Overtakes the submitted lane.
    pub fn stop(&self) -> Completion<()> {
        phases::close_admission(&self.inner);
        self.inner.signal(bits::STOP);
        self.closed()
    }

    /// Fails the task with this failure: queued jobs are answered `Closed`, the `failed` hook
    /// cleans up, the futures fail. Overtakes the submitted lane.
    pub fn fail(&self, failure: Failure) -> Completion<()> {
        request_fail(&self.inner, failure);
        self.closed()
    }

    /// As [`Task::fail`] with [`Failure::Killed`].
    pub fn kill(&self) -> Completion<()> {
        phases::close_admission(&self.inner);
        self.inner.signal(bits::KILL);
        self.closed()
    }

    /// The task as seen from listings, without its type.
    pub fn erased(&self) -> AnyTask {
        AnyTask(Task::new(self.inner.clone()))
    }
}

/// Asks a task to fail.
pub(crate) fn request_fail(header: &Header, failure: Failure) {
    {
        let mut life = header.extra_or_make().life.lock();
        if !header.phase().is_over() && !life.is_fail_requested {
            life.failure = Some(failure);
            life.is_fail_requested = true;
        }
    }
    phases::close_admission(header);
    header.signal(bits::FAIL);
}

impl<S: Attached> Task<S> {
    /// The value beside the state.
    #[inline(always)]
    pub fn attachment(&self) -> &S::Attachment {
        // SAFETY: our reference keeps it.
        unsafe { layout::attachment::<S>(self.inner.0) }
    }
}

impl<S: Send + 'static> Task<S> {
    /// Puts a job at the tail of the submitted lane.
    ///
    /// Cost: two atomic read-modify-writes and, for a closure of up to six words, no heap
    /// allocation in the steady state. Never blocks.
    ///
    /// # Errors
    ///
    /// `Full`, `GroupMemory` or `Closed`; the job comes back.
    #[inline]
    pub fn submit<F>(&self, job: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce(&mut S, &mut Context<'_, S>) + Send + 'static,
    {
        self.submit_job(job)
    }

    /// As [`Task::submit`] for any [`TaskJob`].
    ///
    /// # Errors
    ///
    /// As [`Task::submit`].
    #[inline]
    pub fn submit_job<J: TaskJob<S>>(&self, job: J) -> Result<(), SubmitError<J>> {
        match const { submit::is_large::<J>() } {
            true => submit::boxed(job, |job| self.submit_small(job)),
            false => self.submit_small(job),
        }
    }

    #[inline(always)]
    fn submit_small<J: TaskJob<S>>(&self, job: J) -> Result<(), SubmitError<J>> {
        submit::submit(&self.inner, Once::<S, J>::new(job))
            .map_err(|(kind, job)| SubmitError { kind, job: job.0 })
    }

    /// From a turn of the same task: puts the job into the fast lane, ahead of everything queued
    /// earlier and behind the earlier jobs of the current job. From anywhere else: [`submit`].
    ///
    /// # Errors
    ///
    /// As [`submit`]; in the fast lane `Full` at `FAST_JOBS_MAX`, and `Closed` while the task ends.
    ///
    /// [`submit`]: Task::submit
    #[inline]
    pub fn run<F>(&self, job: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce(&mut S, &mut Context<'_, S>) + Send + 'static,
    {
        self.run_job(job)
    }

    /// As [`Task::run`] for any [`TaskJob`].
    ///
    /// # Errors
    ///
    /// As [`Task::run`].
    #[inline]
    pub fn run_job<J: TaskJob<S>>(&self, job: J) -> Result<(), SubmitError<J>> {
        match const { submit::is_large::<J>() } {
            true => submit::boxed(job, |job| self.run_small(job)),
            false => self.run_small(job),
        }
    }

    #[inline(always)]
    fn run_small<J: TaskJob<S>>(&self, job: J) -> Result<(), SubmitError<J>> {
        submit::run(&self.inner, Once::<S, J>::new(job))
            .map_err(|(kind, job)| SubmitError { kind, job: job.0 })
    }

    /// Submits a job that may answer [`Flow::Again`]: then it stays the current job, ahead of all
    /// others of this task, and the task goes to the back of the run queue.
    ///
    /// # Errors
    ///
    /// As [`Task::submit`].
    pub fn submit_again<F>(&self, job: F) -> Result<(), SubmitError<F>>
    where
        F: FnMut(&mut S, &mut Context<'_, S>) -> Flow + Send + 'static,
    {
        submit::submit(&self.inner, Repeated::<S, F>::new(job))
            .map_err(|(kind, job)| SubmitError { kind, job: job.0 })
    }

    /// As [`Task::submit`]; in a mailbox with the policy `CoalesceByKey` the job replaces a queued
    /// one of the same key.
    ///
    /// # Errors
    ///
    /// As [`Task::submit`].
    pub fn submit_keyed<F>(&self, key: u64, job: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce(&mut S, &mut Context<'_, S>) + Send + 'static,
    {
        submit::post(&self.inner, Some(key), Once::<S, F>::new(job))
            .map_err(|(kind, job)| SubmitError { kind, job: job.0 })
    }

    /// Runs a closure in the task and completes with its return value; with [`Failure::Panicked`]
    /// if it panics, [`Failure::Closed`] if the task closes before. From a turn of the same task it
    /// is refused, since waiting for it would never end: use [`Task::run`] there.
    ///
    /// Cost: as [`Task::submit`] and four more atomic operations; the memory of the answer is
    /// reused.
    pub fn call<R: Send + 'static, F>(&self, job: F) -> Completion<R>
    where
        F: FnOnce(&mut S, &mut Context<'_, S>) -> R + Send + 'static,
    {
        if self.is_current() {
            return Completion::failed(Failure::Refused(
                "a task cannot call itself: use `run` and go on in its job",
            ));
        }
        let (reply, answer) = completion::call();
        let submitted = self.submit(move |state, cx| {
            match catch_unwind(AssertUnwindSafe(|| job(state, cx))) {
                Ok(value) => reply.send(Ok(value)),
                Err(panic) => {
                    // The panic goes on to the policy hook.
                    reply.send(Err(Failure::from_panic_ref(panic.as_ref())));
                    resume_unwind(panic);
                }
            }
        });
        match submitted {
            Ok(()) => answer,
            Err(SubmitError { kind, job }) => {
                drop(job);
                Completion::failed(Failure::from(SubmitError { kind, job: () }))
            }
        }
    }

    /// Waits for a place in the mailbox without blocking: a future of a permit.
    pub fn reserve(&self) -> Reserve<S> {
        Reserve::new(self.clone())
    }

    /// As [`Task::submit`], but waits up to `limit` for a place. Only off the workers.
    ///
    /// # Errors
    ///
    /// `TimedOut`, `Closed`, `GroupMemory`; `OnWorker` at once on a worker thread if there is no
    /// place. The job comes back.
    pub fn submit_wait<F>(&self, job: F, limit: Duration) -> Result<(), SubmitError<F>>
    where
        F: FnOnce(&mut S, &mut Context<'_, S>) + Send + 'static,
    {
        self.submit_job_wait(job, limit)
    }

    /// As [`Task::submit_wait`] for any [`TaskJob`].
    ///
    /// # Errors
    ///
    /// As [`Task::submit_wait`].
    pub fn submit_job_wait<J: TaskJob<S>>(
        &self,
        job: J,
        limit: Duration,
    ) -> Result<(), SubmitError<J>> {
        let error = match self.submit_job(job) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind != SubmitErrorKind::Full => return Err(error),
            Err(error) => error,
        };
        let job = error.job;
        if crate::completion::blocking_refused() {
            return Err(SubmitError { kind: SubmitErrorKind::OnWorker, job });
        }
        match crate::completion::block_on_timeout(self.reserve(), limit) {
            Ok(Ok(permit)) => permit.submit_job(job),
            Ok(Err(_)) => Err(SubmitError { kind: SubmitErrorKind::Closed, job }),
            Err(_) => Err(SubmitError { kind: SubmitErrorKind::TimedOut, job }),
        }
    }
}

impl<S: Send + 'static> Executor for Task<S> {
    fn execute(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), Rejected> {
        self.run(move |_, _| job()).map_err(|_| Rejected)
    }
}
