//! Context of a job: timers, subscriptions, futures, further jobs.

use std::future::Future;
use std::marker::PhantomData;
use std::time::{Duration, SystemTime};

use super::continuation::{call, call_mut};
use super::task::{request_fail, Task};
use crate::completion::Completion;
use crate::failure::Failure;
use crate::group::{Group, TimersFull};
use crate::subscription::{
    self, Condition, ConditionMode, Job, Kind, Late, Recurring, Rhythm, Source, Step, Timer,
    TimerError,
};
use crate::sync::Arc;
use crate::task::cell::layout::{self, Attached};
use crate::task::lane::node::Flow;
use crate::task::lane::submit::{self, Once, Repeated, SubmitError};
use crate::task::turn::phases;
use crate::task::turn::run::Turn;
use crate::task::{AnyTask, Phase, Subscription};
use crate::time::clock::as_ns;

/// The running task as its own job sees it. Lives for one job and cannot leave it.
///
/// # What does not compile
///
/// The state is reachable by the job's own borrow only, so no closure for another thread and no
/// future can touch it. Both take data along and give data back.
///
/// ```compile_fail,E0521
/// # use turnwheel_runtime::Context;
/// # type Words = Vec<String>;
/// fn work_off_the_task_cannot_touch_the_state(words: &mut Words, cx: &mut Context<'_, Words>) {
///     cx.run_blocking(move || words.len(), None, |_, _, _| ());
/// }
/// ```
///
/// ```compile_fail,E0521
/// # use turnwheel_runtime::Context;
/// # type Words = Vec<String>;
/// fn a_future_cannot_touch_the_state(words: &mut Words, cx: &mut Context<'_, Words>) {
///     cx.await_interleaved(async move { words.len() }, |_, _, _| ());
/// }
/// ```
///
/// Operations that need a context are its methods, so they cannot be called outside of a job. A
/// context cannot be kept for later or be given to another thread.
///
/// ```compile_fail,E0599
/// # use std::time::Duration;
/// # use turnwheel_runtime::Task;
/// fn no_timer_outside_of_a_job(task: &Task<u32>) {
///     task.after(Duration::from_secs(1), |count: &mut u32, _| *count += 1);
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use std::time::Duration;
/// # use turnwheel_runtime::Task;
/// fn a_context_is_not_for_later(task: &Task<u32>) {
///     let job = |_: &mut u32, cx: &mut turnwheel_runtime::Context<'_, u32>| {
///         std::thread::spawn(move || cx.after(Duration::from_secs(1), |count, _| *count += 1));
///     };
///     task.submit(job).expect("room");
/// }
/// ```
///
/// These work:
///
/// ```
/// # use std::time::Duration;
/// # use turnwheel_runtime::Context;
/// # type Words = Vec<String>;
/// fn all_may_have_data_of_their_own(words: &mut Words, cx: &mut Context<'_, Words>) {
///     let (count, taken) = (words.len(), std::mem::take(words));
///     cx.run_blocking(move || taken, None, |words, _, back| *words = back.unwrap_or_default());
///     cx.await_interleaved(async move { count + 1 }, |_, _, _| ());
///     let timer = cx.after(Duration::from_secs(1), |words, _| words.clear());
///     timer.expect("room for a timer");
/// }
/// ```
pub struct Context<'a, S> {
    pub(in crate::task) turn: &'a mut Turn,
    state: PhantomData<fn(&mut S)>,
}

debug_fields!(impl<S> Context<'_, S>, self =>
    task: self.turn.header().name(), phase: self.turn.phase());

impl<'a, S> Context<'a, S> {
    #[inline(always)]
    pub(crate) fn new(turn: &'a mut Turn) -> Self {
        Self { turn, state: PhantomData }
    }

    /// The same context for a shorter time, for layers that wrap it.
    pub fn reborrow(&mut self) -> Context<'_, S> {
        Context::new(self.turn)
    }

    /// A handle of this task.
    pub fn task(&self) -> Task<S> {
        // SAFETY: we are in the task's turn, so it is alive.
        Task::new(unsafe { crate::task::TaskRef::new_ref(self.turn.header_ptr()) })
    }

    /// A handle of this task without its type.
    pub fn any_task(&self) -> AnyTask {
        self.task().erased()
    }

    /// As [`Task::tag`].
    #[inline(always)]
    pub fn tag(&self) -> u64 {
        self.turn.header().tag
    }

    /// The group it runs in.
    pub fn group(&self) -> Group {
        Group::from_shared(Arc::clone(&self.turn.header().group))
    }

    /// The name given when it was spawned, or the name of its class.
    pub fn name(&self) -> &str {
        self.turn.header().name()
    }

    /// The class under which metrics are kept.
    pub fn class(&self) -> &str {
        self.turn.header().class().name()
    }

    /// Phase of the task's life.
    pub fn phase(&self) -> Phase {
        self.turn.phase()
    }

    /// Whether the task is on its way out.
    pub fn is_closing(&self) -> bool {
        self.turn.phase() > Phase::Started || self.turn.header().inbox.is_closed()
    }

    /// Number of futures and continuations that would keep the task from closing now: those of
    /// [`Context::await_holding`], of exclusive ones, and of [`Context::on_completion_holding`].
    pub fn holding(&self) -> u32 {
        phases::holding(self.turn)
    }

    /// Nanoseconds on the group's monotonic clock, as last read: constant within a job, at most a
    /// few jobs old. Timers are armed from a fresh reading.
    pub fn now_ns(&self) -> u64 {
        self.turn.now_ns
    }

    /// Ends the turn after this job; the task goes behind all queued tasks.
    pub fn yield_now(&mut self) {
        self.turn.yield_now();
    }

    /// Closes this task in order; see [`Task::close`].
    pub fn close(&mut self) {
        phases::close_admission(self.turn.header());
        self.turn.header().signal(crate::task::bits::CLOSE);
    }

    /// Skips the queued jobs and closes in order; takes effect after this job.
    pub fn stop(&mut self) {
        phases::close_admission(self.turn.header());
        self.turn.header().signal(crate::task::bits::STOP);
        self.turn.interrupt();
    }

    /// Drops all subscriptions of this task: timers, conditions, continuations and futures.
    ///
    /// For a state that begins anew after a failure, in
    /// [`Lifecycle::on_failure`](crate::task::Lifecycle::on_failure).
    pub fn cancel_subscriptions(&mut self) {
        phases::cancel_subscriptions(self.turn);
    }

    /// Fails this task; takes effect after this job. See [`Task::fail`].
    pub fn fail(&mut self, failure: Failure) {
        request_fail(self.turn.header(), failure);
        self.turn.interrupt();
    }
}

impl<S: Attached> Context<'_, S> {
    /// As [`Task::attachment`].
    #[inline(always)]
    pub fn attachment(&self) -> &S::Attachment {
        // SAFETY: the turn keeps its task while the context is borrowed.
        unsafe { layout::attachment::<S>(self.turn.header_ptr()) }
    }
}

impl<S: Send + 'static> Context<'_, S> {
    /// Puts a job into the fast lane: ahead of everything queued earlier, behind the jobs that this
    /// job has put there before. Runs in every phase but after the end.
    ///
    /// # Errors
    ///
    /// `Full` at `FAST_JOBS_MAX`, `Closed` while the task ends; the job comes back.
    #[inline]
    pub fn run<F>(&mut self, job: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce(&mut S, &mut Context<'_, S>) + Send + 'static,
    {
        submit::insert(self.turn.header(), Once::<S, F>::new(job))
            .map_err(|(kind, job)| SubmitError { kind, job: job.0 })
    }

    /// Puts a job at the tail of this task's submitted lane, and lets other tasks run first.
    ///
    /// # Errors
    ///
    /// As [`Task::submit`].
    #[inline]
    pub fn submit<F>(&mut self, job: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce(&mut S, &mut Context<'_, S>) + Send + 'static,
    {
        self.submit_job(job)
    }

    /// As [`Context::submit`] for any [`TaskJob`](crate::task::TaskJob).
    ///
    /// # Errors
    ///
    /// As [`Task::submit`].
    #[inline]
    pub fn submit_job<J: crate::task::TaskJob<S>>(&mut self, job: J) -> Result<(), SubmitError<J>> {
        self.turn.yield_now();
        submit::submit(self.turn.header(), Once::<S, J>::new(job))
            .map_err(|(kind, job)| SubmitError { kind, job: job.0 })
    }

    /// As [`Context::run`] for a job that may answer [`Flow::Again`].
    ///
    /// # Errors
    ///
    /// As [`Context::run`].
    pub fn run_again<F>(&mut self, job: F) -> Result<(), SubmitError<F>>
    where
        F: FnMut(&mut S, &mut Context<'_, S>) -> Flow + Send + 'static,
    {
        submit::insert(self.turn.header(), Repeated::<S, F>::new(job))
            .map_err(|(kind, job)| SubmitError { kind, job: job.0 })
    }

    /// Runs a job once after a delay, never early. It runs in phase Started only.
    ///
    /// # Errors
    ///
    /// [`TimersFull`] when the group holds as many timers as it may.
    pub fn after<F>(&mut self, delay: Duration, job: F) -> Result<Timer, TimersFull>
    where
        F: FnOnce(&mut S, &mut Context<'_, S>) + Send + 'static,
    {
        let deadline_ns = self.turn.header().group.deadline_after(delay);
        self.once_at(deadline_ns, job)
    }

    /// Runs a job once at a time of the wall clock, as the wall clock is now, or as soon as
    /// possible if that time is past.
    ///
    /// # Errors
    ///
    /// As [`Context::after`].
    pub fn at<F>(&mut self, time: SystemTime, job: F) -> Result<Timer, TimersFull>
    where
        F: FnOnce(&mut S, &mut Context<'_, S>) + Send + 'static,
    {
        let deadline_ns = self.turn.header().group.clock.deadline_at(time);
        self.once_at(deadline_ns, job)
    }

    fn once_at<F>(&mut self, deadline_ns: u64, job: F) -> Result<Timer, TimersFull>
    where
        F: FnOnce(&mut S, &mut Context<'_, S>) + Send + 'static,
    {
        let mut job = Some(job);
        let source = self.add(
            Kind::Timer,
            Box::new(move |turn, source| {
                if let (true, Some(job)) = (source.timer.begin(), job.take()) {
                    turn.reach(deadline_ns);
                    call(turn, job);
                }
                Step::Done
            }),
        );
        self.arm(source, deadline_ns)
    }

    /// Runs a job again and again, `period` after the end of the run before (fixed delay).
    ///
    /// # Errors
    ///
    /// As [`Context::after`]; [`TimerError::ZeroPeriod`].
    pub fn every_after<F>(&mut self, period: Duration, job: F) -> Result<Timer, TimerError>
    where
        F: FnMut(&mut S, &mut Context<'_, S>) + Send + 'static,
    {
        self.recurring(period, Rhythm::FixedDelay, job)
    }

    /// Runs a job again and again at a fixed rate; `late` is the rule for missed firings.
    ///
    /// # Errors
    ///
    /// As [`Context::after`]; [`TimerError::ZeroPeriod`].
    pub fn every<F>(&mut self, period: Duration, late: Late, job: F) -> Result<Timer, TimerError>
    where
        F: FnMut(&mut S, &mut Context<'_, S>) + Send + 'static,
    {
        self.recurring(period, Rhythm::FixedRate(late), job)
    }

    fn recurring<F: FnMut(&mut S, &mut Context<'_, S>) + Send + 'static>(
        &mut self,
        period: Duration,
        rhythm: Rhythm,
        mut job: F,
    ) -> Result<Timer, TimerError> {
        if period.is_zero() {
            return Err(TimerError::ZeroPeriod);
        }
        let deadline_ns = self.turn.header().group.deadline_after(period);
        let mut recurring = Recurring { period_ns: as_ns(period), deadline_ns, rhythm };
        let source = self.add(
            Kind::Timer,
            Box::new(move |turn, source| {
                let mut run = |turn: &mut Turn| call_mut(turn, &mut job);
                subscription::run_recurring(source, &mut recurring, turn, &mut run)
            }),
        );
        Ok(self.arm(source, deadline_ns)?)
    }

    fn arm(&mut self, source: Arc<Source>, deadline_ns: u64) -> Result<Timer, TimersFull> {
        let group = Arc::clone(&self.turn.header().group);
        if source.mark.is_attached() {
            if let Err(full) = group.arm_timer(deadline_ns, &source) {
                self.remove(&source);
                return Err(full);
            }
        } else {
            // Registered too late in the task's life: it never fires.
            source.timer.end(subscription::TimerState::Done);
        }
        Ok(Timer::new(source, group))
    }

    /// Registers a job that runs when the condition is signalled, in phase Started.
    pub fn condition<F>(&mut self, mode: ConditionMode, mut job: F) -> Condition
    where
        F: FnMut(&mut S, &mut Context<'_, S>) + Send + 'static,
    {
        let source = self.add(
            Kind::Condition,
            Box::new(move |turn, source| {
                let mut run = |turn: &mut Turn| call_mut(turn, &mut job);
                subscription::run_step(source, mode, turn, &mut run)
            }),
        );
        Condition::new(source)
    }

    /// Runs a job on this task when the completion is done; never inline, also if it is done
    /// already.
    ///
    /// Registered in Starting or Closing it holds that phase; registered in Started it is dropped
    /// unrun when the task closes; while closing is requested it is dropped at once.
    pub fn on_completion<T, F>(&mut self, completion: Completion<T>, job: F) -> Subscription
    where
        T: Send + 'static,
        F: FnOnce(&mut S, &mut Context<'_, S>, Result<T, Failure>) + Send + 'static,
    {
        self.await_future(Kind::Plain, completion, job)
    }

    /// As [`Context::on_completion`], but the task does not go on to Closing before it is done.
    pub fn on_completion_holding<T, F>(&mut self, completion: Completion<T>, job: F) -> Subscription
    where
        T: Send + 'static,
        F: FnOnce(&mut S, &mut Context<'_, S>, Result<T, Failure>) + Send + 'static,
    {
        self.await_future(Kind::Holding, completion, job)
    }

    /// Runs a job when all completions are done: with the values in order, or with the failure.
    pub fn on_all<T, F>(&mut self, completions: Vec<Completion<T>>, job: F) -> Subscription
    where
        T: Send + 'static,
        F: FnOnce(&mut S, &mut Context<'_, S>, Result<Vec<T>, Failure>) + Send + 'static,
    {
        self.on_completion(crate::completion::all(completions), job)
    }

    /// Runs a future on this task; other jobs run at its await points. Its output goes to `then`.
    ///
    /// The future has no borrow of the state; it reaches it through [`Task::run`] and
    /// [`Task::call`] of a handle. Follows the phases like [`Context::on_completion`].
    pub fn await_interleaved<Fut, F>(&mut self, future: Fut, then: F) -> Subscription
    where
        Fut: Future + Send + 'static,
        F: FnOnce(&mut S, &mut Context<'_, S>, Fut::Output) + Send + 'static,
    {
        self.await_future(Kind::Plain, future, then)
    }

    /// As [`Context::await_interleaved`], but the task does not go on to Closing before it is done.
    pub fn await_holding<Fut, F>(&mut self, future: Fut, then: F) -> Subscription
    where
        Fut: Future + Send + 'static,
        F: FnOnce(&mut S, &mut Context<'_, S>, Fut::Output) + Send + 'static,
    {
        self.await_future(Kind::Holding, future, then)
    }

    /// Runs a future on this task; no other job of the task runs until it ends. Its output goes to
    /// `then`. Stop, fail and kill end it early. A second one waits for the first.
    pub fn await_exclusive<Fut, F>(&mut self, future: Fut, then: F) -> Subscription
    where
        Fut: Future + Send + 'static,
        F: FnOnce(&mut S, &mut Context<'_, S>, Fut::Output) + Send + 'static,
    {
        let source = self.begin_future(Kind::Holding, future, then);
        self.run_alone(Arc::clone(&source));
        Subscription::new(source)
    }

    /// As [`Context::await_exclusive`] without a handle: two atomic operations less.
    pub fn run_exclusive<Fut, F>(&mut self, future: Fut, then: F)
    where
        Fut: Future + Send + 'static,
        F: FnOnce(&mut S, &mut Context<'_, S>, Fut::Output) + Send + 'static,
    {
        let source = self.begin_future(Kind::Holding, future, then);
        self.run_alone(source);
    }

    /// Queues a future, and takes nothing else while it is there.
    fn run_alone(&mut self, source: Arc<Source>) {
        if source.mark.is_attached() {
            let extra = self.turn.header().extra_or_make();
            // SAFETY: we are in the task's turn and the borrow ends here.
            let own = unsafe { extra.subscriptions_owner() };
            own.exclusive.push_back(source.index);
            self.turn.owner().open.set(false);
            self.turn.interrupt();
        }
        self.queue(source);
    }

    /// Runs a blocking closure on the group's blocking pool; its result comes back as a job.
    ///
    /// With a `limit` the result is [`Failure::TimedOut`] after that time; the closure itself
    /// cannot be interrupted and ends in its own time.
    pub fn run_blocking<T: Send + 'static>(
        &mut self,
        block: impl FnOnce() -> T + Send + 'static,
        limit: Option<Duration>,
        then: impl FnOnce(&mut S, &mut Context<'_, S>, Result<T, Failure>) + Send + 'static,
    ) -> Subscription {
        let done = self.group().run_blocking(block, limit);
        self.on_completion(done, then)
    }

    pub(in crate::task) fn add(&mut self, kind: Kind, job: Job) -> Arc<Source> {
        let header = self.turn.header();
        let phase = header.phase();
        // SAFETY: we are in the task's turn and the borrow ends here.
        let own = unsafe { header.extra_or_make().subscriptions_owner() };
        let (source, refused) = own.add(header, kind, phase, job);
        drop(refused);
        source
    }

    fn remove(&mut self, source: &Arc<Source>) {
        let extra = self.turn.header().extra_or_make();
        // SAFETY: we are in the task's turn and the borrow ends here.
        let removed = unsafe { extra.subscriptions_owner() }.remove(source);
        drop(removed);
    }
}
