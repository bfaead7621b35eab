//! The actions for external work.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use turnwheel_actors::entity::ReminderStore;
use turnwheel_engine::{
    Action, ActionError, Next, Rescue, RetryPolicy, RunAsync, RunsAsync, StepContext,
};

use super::offer::Offer;
use super::waiting::Waiting;

/// Attempts if a worker fails without saying that it is final, and the task does not say how many.
const ATTEMPTS: u32 = 5;

/// Attempts that a task may have.
const ATTEMPTS_MAX: u32 = 1_000;

/// Bytes of a topic: it is part of the key of each offer.
const TOPIC_BYTES_MAX: usize = 200;

/// External work and its workers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalTask {
    /// Topic of its workers.
    pub topic: String,
    /// Input of the work.
    #[serde(default)]
    pub input: Value,
    /// Attempts if workers fail without saying that it is final; 5 by default, 1,000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Time limit of an attempt, the time in which it waits for a worker included; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

/// Name of the timer at the end of an attempt's time.
const DEADLINE: &str = "deadline";

/// Answer of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done; this is the output of the step.
    Completed(Value),
    /// It has failed.
    Failed {
        /// A code of the worker's own.
        kind: String,
        /// The error.
        message: String,
        /// Whether trying again cannot help.
        is_final: bool,
        /// The attempt of the step that the worker had. A later attempt is called with the same
        /// event, and offers the task again.
        attempt: u32,
    },
}

/// The action `external`: offers its input to external workers, and waits for their answer.
#[derive(Debug)]
pub struct External {
    store: watch::Receiver<Option<Arc<dyn ReminderStore>>>,
    waiting: Arc<Waiting>,
}

impl External {
    pub(super) fn new(
        store: watch::Receiver<Option<Arc<dyn ReminderStore>>>,
        waiting: Arc<Waiting>,
    ) -> Self {
        Self { store, waiting }
    }
}

impl Action for External {
    const NAME: &'static str = "external";
    type Input = ExternalTask;
    type Output = Value;
    type Phases = RunsAsync;

    fn retry(&self) -> RetryPolicy {
        // The task says how many it has; see `run`.
        RetryPolicy::attempts(ATTEMPTS_MAX)
    }
}

impl RunAsync for External {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        self.offer(step).await
    }
}

/// The action `external.call`: a task of a flow that workers do. It is as [`External`], but its
/// plan fails when the worker's failure is final: the flow decides what comes of that.
#[derive(Debug)]
pub struct ExternalCall(pub(super) External);

impl Action for ExternalCall {
    const NAME: &'static str = turnwheel_flow::WORKER_CALL;
    type Input = ExternalTask;
    type Output = Value;
    type Phases = RunsAsync;

    fn retry(&self) -> RetryPolicy {
        self.0.retry()
    }

    fn rescue(&self, _: &ActionError) -> Rescue {
        Rescue::Fail
    }
}

impl RunAsync for ExternalCall {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        self.0.offer(step).await
    }
}

impl External {
    async fn offer<A>(&self, step: &mut StepContext<A>) -> Result<Next, ActionError>
    where
        A: Action<Input = ExternalTask, Output = Value>,
    {
        let attempts = step.input.attempts.unwrap_or(ATTEMPTS);
        if attempts == 0 || attempts > ATTEMPTS_MAX {
            let message = format!("a task has 1 to {ATTEMPTS_MAX} attempts");
            return Err(ActionError::new("attempts", message).and_final());
        }
        let is_timer = step.timer() == Some(DEADLINE);
        let late: Option<u32> = if is_timer { step.event()? } else { None };
        let outcome = if is_timer { None } else { step.event::<Outcome>()? };
        let failure = match (late, outcome) {
            (_, Some(Outcome::Completed(output))) => {
                step.output = output;
                return Ok(Next::Done);
            }
            (_, Some(Outcome::Failed { kind, message, is_final, attempt })) => {
                Some((ActionError::new(kind, message), is_final, attempt))
            }
            (Some(attempt), None) => {
                let ms = step.input.within_ms.unwrap_or(0);
                let message = format!("no worker has done it within {ms} ms");
                Some((ActionError::new(DEADLINE, message), false, attempt))
            }
            (None, None) => None,
        };
        // An attempt that follows a failure is called with the same event.
        let failure = failure.filter(|(_, is_final, of)| *is_final || *of >= step.attempt());
        if let Some((error, is_final, attempt)) = failure {
            // The failure is the worker's, not one of handling its event.
            step.event_is_understood();
            let is_last = is_final || attempt >= attempts;
            return Err(if is_last { error.and_final() } else { error });
        }
        let topic = step.input.topic.clone();
        if topic.is_empty() || topic.len() > TOPIC_BYTES_MAX {
            let message = format!("a topic has 1 to {TOPIC_BYTES_MAX} bytes");
            return Err(ActionError::new("topic", message).and_final());
        }
        let mut store = self.store.clone();
        // The world may be starting: steps interrupted by a restart begin before everything is
        // ready.
        let store = store.wait_for(Option::is_some).await.map(|store| store.clone());
        let Ok(Some(store)) = store else {
            return Err(ActionError::new("stopping", "nobody keeps the offers of steps any more"));
        };
        let offer = Offer::new(&topic, step.plan_id(), step.step_id(), step.attempt());
        offer.put(&*store).await?;
        self.waiting.offered(&topic);
        if let Some(ms) = step.input.within_ms {
            let attempt = step.attempt();
            step.set_timer(DEADLINE, Duration::from_millis(ms), &attempt)?;
        }
        // Its references are resolved only here: workers get the data stored with the step.
        step.output = step.input.input.clone();
        Ok(Next::suspend(format!("a worker for «{topic}»")))
    }
}
