//! Coalesced polls: steps of one action that poll are asked about together.
//!
//! A step whose poll is due is called as any other; its call waits, without a thread, until the batch that
//! it is in has been asked for. So what is durable, and what a crash comes to, is as with
//! [`Polling`](super::Polling).

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::Serialize;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Context, Failure, Group, Mailbox, SpawnError, Task, Timer};

use super::erased::{finish, guarded, prepare, Call, Returned};
use super::poll::{default_pause, FAILURES_MAX};
use super::{panic_message, Action, Cause, Next, Poll, Polled, StepContext};
use crate::error::ActionError;
use crate::limits::{POLLS_TOGETHER, POLLS_WAITING_MAX, POLL_INTERVAL};
use crate::run::on_pool;

/// The run phase of an action that starts external work and polls that of several steps together:
/// `type Phases = PollsTogether`.
///
/// It is [`Polling`](super::Polling) except for the poll: one function for many steps, called on
/// the blocking pool, never twice at once in a world. Each step gets its own result as if it had
/// been polled alone, with its own pauses, failures in a row, attempts and progress.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use turnwheel_engine::{
///     Action, ActionError, Asked, MemoryStore, Poll, PollAll, Polled, PollsTogether, StepContext,
///     World,
/// };
///
/// #[derive(Default, Serialize, Deserialize)]
/// struct Printed { polled: Polled<u32>, pages: u64 }
///
/// struct Print;
/// impl Action for Print {
///     const NAME: &'static str = "print";
///     type Input = u32;
///     type Output = Printed;
///     type Phases = PollsTogether;
/// }
/// impl PollAll for Print {
///     type Task = u32;
///     fn polled(output: &mut Printed) -> &mut Polled<u32> {
///         &mut output.polled
///     }
///     fn start(&self, step: &mut StepContext<Self>) -> Result<u32, ActionError> {
///         Ok(step.input)
///     }
///     fn poll_all(&self, batch: &mut [Asked<Self>]) -> Result<(), ActionError> {
///         // One request for all of them.
///         for asked in batch {
///             asked.step.output.pages = u64::from(asked.task);
///             asked.answer(Ok(Poll::Done));
///         }
///         Ok(())
///     }
/// }
///
/// let world = World::builder().action(Print).build(MemoryStore::new())?;
/// let plans = [world.trigger::<Print>(3).wait()?, world.trigger::<Print>(4).wait()?];
/// assert_eq!(plans[1].finished().wait()?.output::<Print>()?.pages, 4);
/// world.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait PollAll: Action {
    /// Description of the external work, for instance the id of a job.
    type Task: Serialize + DeserializeOwned + Clone + Send;

    /// Returns the field of the output that holds it.
    fn polled(output: &mut Self::Output) -> &mut Polled<Self::Task>;

    /// Starts it, on the blocking pool. Give the service [`StepContext::idempotency_key`]: after a crash in
    /// between it is called again.
    ///
    /// # Errors
    ///
    /// The step fails.
    fn start(&self, step: &mut StepContext<Self>) -> Result<Self::Task, ActionError>;

    /// Polls all of them, and [answers](Asked::answer) for each. A step without an answer has
    /// failed in this poll.
    ///
    /// # Errors
    ///
    /// Counts as a failed poll of each step without an answer.
    fn poll_all(&self, batch: &mut [Asked<Self>]) -> Result<(), ActionError>;

    /// Maximum number of steps in one poll.
    fn batch_max(&self) -> usize {
        POLLS_TOGETHER
    }

    /// The time from the begin of one batch to that of the next one, at least; and how long the first
    /// poll of a batch that is not full waits for others.
    fn batch_interval(&self) -> Duration {
        POLL_INTERVAL
    }

    /// Ends what was started: as [`Polling::cancel`](super::Polling::cancel).
    ///
    /// # Errors
    ///
    /// The step has failed instead, and the plan is paused.
    fn cancel(
        &self,
        task: &mut Self::Task,
        step: &mut StepContext<Self>,
    ) -> Result<(), ActionError> {
        let _ = (task, step);
        Ok(())
    }

    /// The pause of a step after so many polls: as [`Polling::pause`](super::Polling::pause).
    fn pause(&self, polls: u32) -> Duration {
        default_pause(polls)
    }

    /// Polls of a step that may fail in a row before it does: 3 by default.
    fn failures_max(&self) -> u32 {
        FAILURES_MAX
    }
}

/// A step that is asked about, in a batch.
pub struct Asked<A: PollAll> {
    /// The external work; changes are kept if the answer is no error.
    pub task: A::Task,
    /// The step, with its input and output.
    pub step: StepContext<A>,
    answer: Option<Result<Poll, ActionError>>,
}

impl<A: PollAll> fmt::Debug for Asked<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("step", &self.step).finish_non_exhaustive()
    }
}

impl<A: PollAll> Asked<A> {
    /// Says how it is with this one.
    pub fn answer(&mut self, answer: Result<Poll, ActionError>) {
        self.answer = Some(answer);
    }
}

type Ended<A> = (StepContext<A>, Result<Next, ActionError>);

/// The polls of one action in one world.
struct Batch<A: PollAll> {
    action: Arc<A>,
    /// With the times at which they came, in nanoseconds.
    waiting: VecDeque<(u64, Asked<A>, Completer<Asked<A>>)>,
    began_ns: Option<u64>,
    is_asking: bool,
    timer: Option<Timer>,
}

/// The batches of a world, by action.
#[derive(Default)]
pub(crate) struct Batches(Mutex<HashMap<&'static str, Box<dyn Any + Send + Sync>>>);

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.lock().keys()).finish()
    }
}

impl Batches {
    fn of<A: PollAll>(
        &self,
        action: &Arc<A>,
        group: &Group,
    ) -> Result<Task<Batch<A>>, ActionError> {
        let mut batches = self.0.lock();
        if let Some(known) =
            batches.get(A::NAME).and_then(|any| any.downcast_ref::<Task<Batch<A>>>())
        {
            return Ok(known.clone());
        }
        let action = Arc::clone(action);
        let batch = Batch {
            action,
            waiting: VecDeque::new(),
            began_ns: None,
            is_asking: false,
            timer: None,
        };
        let mailbox = Mailbox::bounded(POLLS_WAITING_MAX);
        let task =
            group.task(batch).name(&format!("polls of {}", A::NAME)).mailbox(mailbox).spawn();
        let task =
            task.map_err(|error: SpawnError<_>| ActionError::new("not_polled", error.to_string()))?;
        batches.insert(A::NAME, Box::new(task.clone()));
        Ok(task)
    }
}

impl<A: PollAll> Batch<A> {
    fn take(&mut self, asked: Asked<A>, done: Completer<Asked<A>>, cx: &mut Context<'_, Self>) {
        self.waiting.push_back((cx.now_ns(), asked, done));
        self.arm(cx);
    }

    fn max(&self) -> usize {
        guarded::<A, _>("batch_max", POLLS_TOGETHER, || self.action.batch_max()).max(1)
    }

    /// Arms the timer for the next batch.
    fn arm(&mut self, cx: &mut Context<'_, Self>) {
        let Some((came_ns, ..)) = self.waiting.front() else { return };
        let is_full = self.waiting.len() >= self.max();
        if self.is_asking || (self.timer.is_some() && self.waiting.len() != self.max()) {
            return;
        }
        let interval =
            guarded::<A, _>("batch_interval", POLL_INTERVAL, || self.action.batch_interval());
        let interval = interval.as_nanos();
        let interval = u64::try_from(interval).unwrap_or(u64::MAX);
        let earliest = self.began_ns.map_or(0, |began| began.saturating_add(interval));
        let at = if is_full { earliest } else { earliest.max(came_ns.saturating_add(interval)) };
        if let Some(timer) = self.timer.take() {
            timer.cancel();
        }
        let delay = Duration::from_nanos(at.saturating_sub(cx.now_ns()));
        match cx.after(delay, |batch: &mut Self, cx| batch.ask(cx)) {
            Ok(timer) => self.timer = Some(timer),
            Err(error) => {
                tracing::warn!(%error, action = A::NAME, "a batch of polls does not wait for others");
                self.ask(cx);
            }
        }
    }

    /// Asks for those that came first.
    fn ask(&mut self, cx: &mut Context<'_, Self>) {
        self.timer = None;
        let count = self.waiting.len().min(self.max());
        if count == 0 || self.is_asking {
            return;
        }
        let (mut batch, mut waiting) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (_, asked, done) in self.waiting.drain(..count) {
            batch.push(asked);
            waiting.push(done);
        }
        (self.is_asking, self.began_ns) = (true, Some(cx.now_ns()));
        let action = Arc::clone(&self.action);
        let code = move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| action.poll_all(&mut batch)));
            let outcome = outcome.unwrap_or_else(|panic| Err(panicked(panic)));
            let error = outcome.err().unwrap_or_else(|| {
                ActionError::new(
                    "not_answered",
                    "the poll of the batch did not answer for this step",
                )
            });
            for (mut asked, done) in batch.into_iter().zip(waiting) {
                asked.answer.get_or_insert_with(|| Err(error.clone()));
                let _nobody_waits = done.complete(asked);
            }
        };
        let asked = on_pool(cx.group(), code);
        cx.await_interleaved(asked, |batch: &mut Self, cx, _ended: Result<(), Failure>| {
            batch.is_asking = false;
            batch.arm(cx);
        });
    }
}

fn panicked(panic: Box<dyn Any + Send>) -> ActionError {
    ActionError::new("panic", panic_message(panic))
}

/// One call of the run phase.
pub(super) async fn run<A: PollAll>(action: Arc<A>, call: Call) -> Returned {
    let (step, before) = match prepare::<A>(call) {
        Ok(prepared) => prepared,
        Err(error) => return Returned::not_called(error),
    };
    let refused =
        || ActionError::new("not_polled", "the world is going down, or has no thread for it");
    // Released while the call waits: a world ends with its last reference.
    let driver = match step.facts.world.upgrade() {
        Some(world) => {
            let group = world.group().clone();
            world.batches().of(&action, &group).map(|batch| Driver { action, batch, group })
        }
        None => Err(refused()),
    };
    let driver = match driver {
        Ok(driver) => driver,
        Err(error) => return Returned::failed(error),
    };
    match driver.run(step).await {
        Some((step, result)) => finish(&before, step, result),
        None => Returned::failed(refused()),
    }
}

/// Makes one call of a step; `None` if it could not be made.
struct Driver<A: PollAll> {
    action: Arc<A>,
    batch: Task<Batch<A>>,
    group: Group,
}

impl<A: PollAll> Driver<A> {
    async fn run(&self, mut step: StepContext<A>) -> Option<Ended<A>> {
        if matches!(step.cause(), Cause::Cancel { .. } | Cause::Skip) {
            return self.alone(step, |action, step| end(action, step)).await;
        }
        let Some(task) = A::polled(&mut step.output).task.clone() else {
            return self.start(step).await;
        };
        A::polled(&mut step.output).polls += 1;
        let is_event = step.cause() == Cause::Event;
        let (done, answered) = completion();
        let asked = Asked { task, step, answer: None };
        let submitted = self.batch.submit(move |batch, cx| batch.take(asked, done, cx));
        submitted.map_err(|error| tracing::warn!(kind = %error.kind, "a poll is refused")).ok()?;
        let Asked { task, mut step, answer } = answered.await.ok()?;
        let polled = A::polled(&mut step.output);
        match answer? {
            Ok(poll) => {
                (polled.task, polled.failed_in_a_row) = (Some(task), 0);
                let next = match poll {
                    Poll::Done => Ok(Next::Done),
                    Poll::Pending(progress) => {
                        progress.into_iter().for_each(|progress| step.set_progress(progress));
                        wait(&*self.action, &mut step)
                    }
                };
                Some((step, next))
            }
            Err(error) => {
                polled.failed += 1;
                polled.failed_in_a_row += 1;
                let failures = polled.failed_in_a_row;
                tracing::warn!(%error, failures, action = A::NAME, "a poll failed");
                if !is_event {
                    // A new attempt: the former work does not count.
                    *A::polled(&mut step.output) = Polled::default();
                    return self.start(step).await;
                }
                let is_borne = failures < self.action.failures_max();
                let next = if is_borne { wait(&*self.action, &mut step) } else { Err(error) };
                Some((step, next))
            }
        }
    }

    async fn start(&self, step: StepContext<A>) -> Option<Ended<A>> {
        let start = |action: &A, step: &mut StepContext<A>| {
            let task = action.start(step)?;
            A::polled(&mut step.output).task = Some(task);
            wait(action, step)
        };
        self.alone(step, start).await
    }

    /// Calls code that may block, for this step only.
    async fn alone(
        &self,
        mut step: StepContext<A>,
        job: impl FnOnce(&A, &mut StepContext<A>) -> Result<Next, ActionError> + Send + 'static,
    ) -> Option<Ended<A>> {
        let action = Arc::clone(&self.action);
        let code = move || {
            let result = catch_unwind(AssertUnwindSafe(|| job(&action, &mut step)));
            let result = result.unwrap_or_else(|panic| Err(panicked(panic)));
            (step, result)
        };
        on_pool(self.group.clone(), code).await.ok()
    }
}

fn end<A: PollAll>(action: &A, step: &mut StepContext<A>) -> Result<Next, ActionError> {
    if let Some(mut task) = A::polled(&mut step.output).task.clone() {
        action.cancel(&mut task, step)?;
        A::polled(&mut step.output).task = Some(task);
    }
    Ok(Next::Done)
}

fn wait<A: PollAll>(action: &A, step: &mut StepContext<A>) -> Result<Next, ActionError> {
    let polls = A::polled(&mut step.output).polls;
    step.only_event_after(action.pause(polls), &"poll")?;
    Ok(Next::suspend(format!("poll {}", polls + 1)))
}
