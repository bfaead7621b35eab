//! Polling: a step that starts something outside and asks for it again and again.

use std::future::Future;
use std::pin::pin;
use std::task::{self, Waker};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Action, Cause, Next, StepContext};
use crate::error::ActionError;

/// The pauses between polls: each is used [`POLLS_AT_EACH`] times, the last one for the rest.
const PAUSES: [Duration; 6] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
];

/// Polls before the pause grows.
const POLLS_AT_EACH: u32 = 5;

/// Polls that may fail in a row, by default, before the step does.
pub(super) const FAILURES_MAX: u32 = 3;

/// The pause after so many polls, if the action does not say.
pub(super) fn default_pause(polls: u32) -> Duration {
    let at = (polls / POLLS_AT_EACH) as usize;
    PAUSES[at.min(PAUSES.len() - 1)]
}

/// State of a polling action in its output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Polled<T> {
    /// The external work as it was last seen; `None` before.
    pub task: Option<T>,
    /// Polls so far.
    pub polls: u32,
    /// Failed polls.
    pub failed: u32,
    /// Failed polls since the last successful one.
    pub failed_in_a_row: u32,
}

impl<T> Default for Polled<T> {
    fn default() -> Self {
        Self { task: None, polls: 0, failed: 0, failed_in_a_row: 0 }
    }
}

/// Whether what is polled is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Poll {
    /// The work is done.
    Done,
    /// The work is not done; its progress from 0 to 1, if known.
    Pending(Option<f64>),
}

/// The run phase of an action that starts something outside and polls it: `type Phases = Polls`.
///
/// No thread is held between polls, and the pauses are durable. After a crash, or when a failed step
/// is tried again, what was started is polled, and started anew only if that fails. So an interrupted
/// poll starts nothing twice as long as the outside still knows it.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use turnwheel_engine::{
///     Action, ActionError, MemoryStore, Poll, Polled, Polling, Polls, StepContext, World,
/// };
///
/// #[derive(Default, Serialize, Deserialize)]
/// struct Backup { polled: Polled<String>, bytes: u64 }
///
/// struct BackUp;
/// impl Action for BackUp {
///     const NAME: &'static str = "back-up";
///     type Input = String;
///     type Output = Backup;
///     type Phases = Polls;
/// }
/// impl Polling for BackUp {
///     type Task = String;
///     fn polled(output: &mut Backup) -> &mut Polled<String> {
///         &mut output.polled
///     }
///     fn start(&self, step: &mut StepContext<Self>) -> Result<String, ActionError> {
///         Ok(format!("job for {}", step.input))
///     }
///     fn poll(&self, _: &mut String, step: &mut StepContext<Self>) -> Result<Poll, ActionError> {
///         step.output.bytes = 42;
///         Ok(Poll::Done)
///     }
/// }
///
/// let world = World::builder().action(BackUp).build(MemoryStore::new())?;
/// let plan = world.trigger::<BackUp>("disk".to_owned()).wait()?;
/// assert_eq!(plan.finished().wait()?.output::<BackUp>()?.bytes, 42);
/// world.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Polling: Action {
    /// Description of the external work, for instance the id of a job.
    type Task: Serialize + DeserializeOwned + Clone + Send;

    /// Returns the field of the output that holds it.
    fn polled(output: &mut Self::Output) -> &mut Polled<Self::Task>;

    /// Starts it. Give the service [`StepContext::idempotency_key`]: after a crash in between it is
    /// called again.
    ///
    /// # Errors
    ///
    /// The step fails.
    fn start(&self, step: &mut StepContext<Self>) -> Result<Self::Task, ActionError>;

    /// Asks how it is, and may change what is known of it.
    ///
    /// # Errors
    ///
    /// Counted; the step fails when [`failures_max`](Polling::failures_max) polls in a row have.
    fn poll(
        &self,
        task: &mut Self::Task,
        step: &mut StepContext<Self>,
    ) -> Result<Poll, ActionError>;

    /// Ends the external work when the step is cancelled or skipped; see [`StepContext::cause`]. By
    /// default the work is not ended: it continues without being polled.
    ///
    /// It is called only if the action [is cancellable](Action::is_cancellable), or [cleans up when
    /// it is skipped](Action::cleans_up_when_skipped), and has started external work.
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

    /// The pause after so many polls: by default from half a second to 16, growing after each five.
    fn pause(&self, polls: u32) -> Duration {
        default_pause(polls)
    }

    /// Polls that may fail in a row before the step does: 3 by default.
    fn failures_max(&self) -> u32 {
        FAILURES_MAX
    }
}

/// As [`Polling`], by `async fn`s that wait without holding a thread: `type Phases = PollsAsync`.
///
/// ```
/// use turnwheel_engine::{action, ActionError, MemoryStore, Poll, World};
///
/// struct BackUp;
///
/// #[action(name = "back-up")]
/// impl BackUp {
///     async fn start(&self, disk: &str) -> Result<String, ActionError> {
///         Ok(format!("job for {disk}"))
///     }
///     async fn poll(&self, job: &mut String) -> Result<Poll, ActionError> {
///         job.push_str(": done");
///         Ok(Poll::Done)
///     }
/// }
///
/// let world = World::builder().action(BackUp).build(MemoryStore::new())?;
/// let polled = world.trigger::<BackUp>("disk".to_owned()).outcome::<BackUp>().wait()?;
/// assert_eq!(polled.task.as_deref(), Some("job for disk: done"));
/// world.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait PollingAsync: Action {
    /// As [`Polling::Task`].
    type Task: Serialize + DeserializeOwned + Clone + Send;

    /// As [`Polling::polled`].
    fn polled(output: &mut Self::Output) -> &mut Polled<Self::Task>;

    /// As [`Polling::start`].
    ///
    /// # Errors
    ///
    /// The step fails.
    fn start(
        &self,
        step: &mut StepContext<Self>,
    ) -> impl Future<Output = Result<Self::Task, ActionError>> + Send;

    /// As [`Polling::poll`].
    ///
    /// # Errors
    ///
    /// Counted; the step fails when [`failures_max`](PollingAsync::failures_max) polls in a row
    /// have.
    fn poll(
        &self,
        task: &mut Self::Task,
        step: &mut StepContext<Self>,
    ) -> impl Future<Output = Result<Poll, ActionError>> + Send;

    /// As [`Polling::cancel`].
    ///
    /// # Errors
    ///
    /// The step has failed instead, and the plan is paused.
    fn cancel(
        &self,
        task: &mut Self::Task,
        step: &mut StepContext<Self>,
    ) -> impl Future<Output = Result<(), ActionError>> + Send {
        let _ = (task, step);
        std::future::ready(Ok(()))
    }

    /// As [`Polling::pause`].
    fn pause(&self, polls: u32) -> Duration {
        default_pause(polls)
    }

    /// As [`Polling::failures_max`].
    fn failures_max(&self) -> u32 {
        FAILURES_MAX
    }
}

/// The phase by functions that block, or by such that wait.
pub(super) trait Way<A: Action>: Sync {
    type Task: Clone + Send;

    fn polled(output: &mut A::Output) -> &mut Polled<Self::Task>;

    fn start(
        &self,
        step: &mut StepContext<A>,
    ) -> impl Future<Output = Result<Self::Task, ActionError>> + Send;

    fn poll(
        &self,
        task: &mut Self::Task,
        step: &mut StepContext<A>,
    ) -> impl Future<Output = Result<Poll, ActionError>> + Send;

    fn cancel(
        &self,
        task: &mut Self::Task,
        step: &mut StepContext<A>,
    ) -> impl Future<Output = Result<(), ActionError>> + Send;

    fn pause(&self, polls: u32) -> Duration;

    fn failures_max(&self) -> u32;
}

/// By functions that block.
struct Blocks<'a, A>(&'a A);

/// By functions that wait.
pub(super) struct Waits<'a, A>(pub(super) &'a A);

impl<A: Polling> Way<A> for Blocks<'_, A> {
    type Task = A::Task;

    fn polled(output: &mut A::Output) -> &mut Polled<A::Task> {
        A::polled(output)
    }

    fn start(
        &self,
        step: &mut StepContext<A>,
    ) -> impl Future<Output = Result<A::Task, ActionError>> + Send {
        std::future::ready(self.0.start(step))
    }

    fn poll(
        &self,
        task: &mut A::Task,
        step: &mut StepContext<A>,
    ) -> impl Future<Output = Result<Poll, ActionError>> + Send {
        std::future::ready(self.0.poll(task, step))
    }

    fn cancel(
        &self,
        task: &mut A::Task,
        step: &mut StepContext<A>,
    ) -> impl Future<Output = Result<(), ActionError>> + Send {
        std::future::ready(self.0.cancel(task, step))
    }

    fn pause(&self, polls: u32) -> Duration {
        self.0.pause(polls)
    }

    fn failures_max(&self) -> u32 {
        self.0.failures_max()
    }
}

impl<A: PollingAsync> Way<A> for Waits<'_, A> {
    type Task = A::Task;

    fn polled(output: &mut A::Output) -> &mut Polled<A::Task> {
        A::polled(output)
    }

    fn start(
        &self,
        step: &mut StepContext<A>,
    ) -> impl Future<Output = Result<A::Task, ActionError>> + Send {
        self.0.start(step)
    }

    fn poll(
        &self,
        task: &mut A::Task,
        step: &mut StepContext<A>,
    ) -> impl Future<Output = Result<Poll, ActionError>> + Send {
        self.0.poll(task, step)
    }

    fn cancel(
        &self,
        task: &mut A::Task,
        step: &mut StepContext<A>,
    ) -> impl Future<Output = Result<(), ActionError>> + Send {
        self.0.cancel(task, step)
    }

    fn pause(&self, polls: u32) -> Duration {
        self.0.pause(polls)
    }

    fn failures_max(&self) -> u32 {
        self.0.failures_max()
    }
}

/// One call of the run phase in a thread that may block: nothing in it waits.
pub(super) fn run_now<A: Polling>(
    action: &A,
    step: &mut StepContext<A>,
) -> Result<Next, ActionError> {
    let way = Blocks(action);
    let called = pin!(run(&way, step));
    match called.poll(&mut task::Context::from_waker(Waker::noop())) {
        task::Poll::Ready(result) => result,
        task::Poll::Pending => unreachable!("its futures are ready"),
    }
}

/// One call of the run phase.
pub(super) async fn run<A: Action, W: Way<A>>(
    way: &W,
    step: &mut StepContext<A>,
) -> Result<Next, ActionError> {
    if matches!(step.cause(), Cause::Cancel { .. } | Cause::Skip) {
        return end(way, step).await;
    }
    let known = W::polled(&mut step.output).task.is_some();
    if !known {
        let task = way.start(step).await?;
        W::polled(&mut step.output).task = Some(task);
        return wait(way, step);
    }
    match (step.cause(), poll_once(way, step).await) {
        (_, Ok(next)) => Ok(next),
        (Cause::Event, Err(error)) => {
            let failures = W::polled(&mut step.output).failed_in_a_row;
            if failures >= way.failures_max() {
                return Err(error);
            }
            let plan = step.plan_id();
            tracing::warn!(%error, failures, action = A::NAME, %plan, "a poll failed");
            wait(way, step)
        }
        // A new attempt: the external work may still exist.
        (_, Err(error)) => {
            tracing::debug!(%error, action = A::NAME, "what was started is started anew");
            let task = way.start(step).await?;
            *W::polled(&mut step.output) = Polled { task: Some(task), ..Polled::default() };
            wait(way, step)
        }
    }
}

/// The step is to end before what was started is done.
async fn end<A: Action, W: Way<A>>(
    way: &W,
    step: &mut StepContext<A>,
) -> Result<Next, ActionError> {
    if let Some(mut task) = W::polled(&mut step.output).task.clone() {
        way.cancel(&mut task, step).await?;
        W::polled(&mut step.output).task = Some(task);
    }
    Ok(Next::Done)
}

async fn poll_once<A: Action, W: Way<A>>(
    way: &W,
    step: &mut StepContext<A>,
) -> Result<Next, ActionError> {
    let polled = W::polled(&mut step.output);
    polled.polls += 1;
    let Some(mut task) = polled.task.clone() else {
        return Err(ActionError::new("not_started", "there is nothing to poll"));
    };
    match way.poll(&mut task, step).await {
        Err(error) => {
            let polled = W::polled(&mut step.output);
            polled.failed += 1;
            polled.failed_in_a_row += 1;
            Err(error)
        }
        Ok(outcome) => {
            let polled = W::polled(&mut step.output);
            polled.task = Some(task);
            polled.failed_in_a_row = 0;
            match outcome {
                Poll::Done => Ok(Next::Done),
                Poll::Pending(progress) => {
                    if let Some(progress) = progress {
                        step.set_progress(progress);
                    }
                    wait(way, step)
                }
            }
        }
    }
}

fn wait<A: Action, W: Way<A>>(way: &W, step: &mut StepContext<A>) -> Result<Next, ActionError> {
    let polls = W::polled(&mut step.output).polls;
    step.only_event_after(way.pause(polls), &"poll")?;
    Ok(Next::suspend(format!("poll {}", polls + 1)))
}
