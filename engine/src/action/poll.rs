//! Polling: a step that starts something outside and asks for it again and again.

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

/// One call of the run phase.
pub(super) fn run<A: Polling>(action: &A, step: &mut StepContext<A>) -> Result<Next, ActionError> {
    if matches!(step.cause(), Cause::Cancel { .. } | Cause::Skip) {
        return end(action, step);
    }
    let known = A::polled(&mut step.output).task.is_some();
    if !known {
        let task = action.start(step)?;
        A::polled(&mut step.output).task = Some(task);
        return wait(action, step);
    }
    match step.cause() {
        Cause::Event => poll(action, step),
        // A new attempt: the external work may still exist.
        _ => poll_once(action, step).or_else(|error| {
            tracing::debug!(%error, action = A::NAME, "what was started is started anew");
            let task = action.start(step)?;
            *A::polled(&mut step.output) = Polled { task: Some(task), ..Polled::default() };
            wait(action, step)
        }),
    }
}

/// The step is to end before what was started is done.
fn end<A: Polling>(action: &A, step: &mut StepContext<A>) -> Result<Next, ActionError> {
    if let Some(mut task) = A::polled(&mut step.output).task.clone() {
        action.cancel(&mut task, step)?;
        A::polled(&mut step.output).task = Some(task);
    }
    Ok(Next::Done)
}

fn poll<A: Polling>(action: &A, step: &mut StepContext<A>) -> Result<Next, ActionError> {
    poll_once(action, step).or_else(|error| {
        let failures = A::polled(&mut step.output).failed_in_a_row;
        if failures >= action.failures_max() {
            return Err(error);
        }
        tracing::warn!(%error, failures, action = A::NAME, plan = %step.plan_id(), "a poll failed");
        wait(action, step)
    })
}

fn poll_once<A: Polling>(action: &A, step: &mut StepContext<A>) -> Result<Next, ActionError> {
    let polled = A::polled(&mut step.output);
    polled.polls += 1;
    let Some(mut task) = polled.task.clone() else {
        return Err(ActionError::new("not_started", "there is nothing to poll"));
    };
    match action.poll(&mut task, step) {
        Err(error) => {
            let polled = A::polled(&mut step.output);
            polled.failed += 1;
            polled.failed_in_a_row += 1;
            Err(error)
        }
        Ok(outcome) => {
            let polled = A::polled(&mut step.output);
            polled.task = Some(task);
            polled.failed_in_a_row = 0;
            match outcome {
                Poll::Done => Ok(Next::Done),
                Poll::Pending(progress) => {
                    if let Some(progress) = progress {
                        step.set_progress(progress);
                    }
                    wait(action, step)
                }
            }
        }
    }
}

fn wait<A: Polling>(action: &A, step: &mut StepContext<A>) -> Result<Next, ActionError> {
    let polls = A::polled(&mut step.output).polls;
    step.only_event_after(action.pause(polls), &"poll")?;
    Ok(Next::suspend(format!("poll {}", polls + 1)))
}
