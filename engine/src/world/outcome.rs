//! The outcome of a plan in one step: its output, or why there is none.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{ready, Context, Poll};

use turnwheel_runtime::completion::block_on;

use super::handle::{Finished, PlanHandle, PlanView, Triggering};
use crate::action::Action;
use crate::error::{unanswered, ActionError, PlanError, TriggerError};
use crate::id::{PlanId, StepId};
use crate::plan::{PlanResult, PlanState, StepState};

/// Why a plan has no outcome.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutcomeError {
    /// The plan was not taken.
    #[error(transparent)]
    Trigger(#[from] TriggerError),
    /// It cannot be read, or has no such action.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// It has not ended well.
    #[error(transparent)]
    Failed(#[from] PlanFailure),
}

/// A plan that was stopped or paused without having ended well.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PlanFailure {
    /// The plan.
    pub plan: PlanId,
    /// Paused, and can be resumed; or stopped.
    pub state: PlanState,
    /// Its result.
    pub result: PlanResult,
    /// The first step with an error, and the name of its action. `None` if planning failed, and for
    /// a plan that was cancelled or paused by an order.
    pub step: Option<(StepId, String)>,
    /// The error of this step, or of planning.
    pub error: Option<ActionError>,
}

impl fmt::Display for PlanFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, state, result, step, error } = self;
        write!(f, "plan {plan} is {}, its result «{}»", state.name(), result.name())?;
        if let Some((step, action)) = step {
            write!(f, "; step {step} «{action}»")?;
        }
        match error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for PlanFailure {}

impl PlanView {
    /// The output of the first action of this type, if the plan has ended well: with the result
    /// «success», or «warning» after a step was skipped.
    ///
    /// # Errors
    ///
    /// The plan is under way, paused, failed, cancelled or taken back; it has no such action.
    pub fn outcome<A: Action>(&self) -> Result<A::Output, OutcomeError> {
        let (state, result) = (self.state, self.result());
        let is_good = matches!(result, PlanResult::Success | PlanResult::Warning);
        if state == PlanState::Stopped && is_good {
            return Ok(self.output::<A>()?);
        }
        let has_error = |state: StepState| {
            matches!(state, StepState::RevertFailed | StepState::Error | StepState::Reverted)
        };
        let failed = self.steps.iter().filter(|step| step.error.is_some());
        let failed = failed.min_by_key(|step| !has_error(step.state));
        let step = failed.map(|step| (step.id, self.action(step.action).name.clone()));
        let error = failed.and_then(|step| step.error.clone());
        let error = error.or_else(|| self.planning_error.clone());
        Err(PlanFailure { plan: self.id, state, result, step, error }.into())
    }
}

/// The outcome of a plan that is awaited. Await it, or [`wait`](Outcome::wait) off the workers.
#[must_use = "futures do nothing unless awaited"]
pub struct Outcome<A> {
    stage: Stage,
    action: PhantomData<fn() -> A>,
}

enum Stage {
    Triggering(Triggering),
    Finished(Finished),
}

impl<A> fmt::Debug for Outcome<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome").finish_non_exhaustive()
    }
}

impl Triggering {
    /// Waits for the plan's end too, and gives the output of its first action of this type.
    ///
    /// ```
    /// # use turnwheel_engine::{action, ActionError, MemoryStore, World};
    /// #[action]
    /// fn half(number: u64) -> Result<u64, ActionError> {
    ///     if number % 2 == 1 {
    ///         return Err(ActionError::new("odd", format!("{number} is odd")));
    ///     }
    ///     Ok(number / 2)
    /// }
    /// let world = World::builder().action(Half).build(MemoryStore::new())?;
    /// assert_eq!(world.trigger::<Half>(42).outcome::<Half>().wait()?, 21);
    /// let failure = world.trigger::<Half>(7).outcome::<Half>().wait().expect_err("7 is odd");
    /// assert!(failure.to_string().contains("7 is odd"), "{failure}");
    /// world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn outcome<A: Action>(self) -> Outcome<A> {
        Outcome { stage: Stage::Triggering(self), action: PhantomData }
    }
}

impl PlanHandle {
    /// Completes when the plan is stopped or paused: with the output of its first action of this
    /// type, or why there is none.
    pub fn outcome<A: Action>(&self) -> Outcome<A> {
        Outcome { stage: Stage::Finished(self.finished()), action: PhantomData }
    }
}

impl<A: Action> Outcome<A> {
    /// Waits for it.
    ///
    /// # Errors
    ///
    /// The plan was not taken, cannot be read, or has not ended well.
    ///
    /// Called on a worker of a group it is refused: that worker may be the one that is needed.
    pub fn wait(self) -> Result<A::Output, OutcomeError> {
        block_on(self).unwrap_or_else(|refused| {
            Err(OutcomeError::Trigger(TriggerError::Refused(unanswered(&refused))))
        })
    }
}

impl<A: Action> Future for Outcome<A> {
    type Output = Result<A::Output, OutcomeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match &mut self.stage {
                Stage::Triggering(triggering) => {
                    let plan = ready!(Pin::new(triggering).poll(cx))?;
                    self.stage = Stage::Finished(plan.finished());
                }
                Stage::Finished(finished) => {
                    return Poll::Ready(ready!(Pin::new(finished).poll(cx))?.outcome::<A>());
                }
            }
        }
    }
}
