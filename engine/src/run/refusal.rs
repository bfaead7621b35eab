//! Why a plan does not take what is asked of it.

use crate::error::PlanError;
use crate::id::{ActionId, StepId};
use crate::plan::Plan;

/// Why something was refused; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The plan is not in a state for it.
    State(String),
    /// An edited input is none of its action.
    Input {
        action: ActionId,
        /// Name of the action.
        name: String,
        /// Its run step, if it has one.
        step: Option<StepId>,
        problem: String,
    },
}

impl From<String> for Refusal {
    fn from(problem: String) -> Self {
        Self::State(problem)
    }
}

impl Refusal {
    /// The error for the caller.
    pub(crate) fn of(self, plan: &Plan) -> PlanError {
        let id = plan.id;
        match self {
            Self::State(problem) => {
                PlanError::State { plan: id, state: plan.state.name(), problem }
            }
            Self::Input { action, name, step, problem } => {
                PlanError::Input { plan: id, action, name, step, problem }
            }
        }
    }
}
