//! Code of a step that writes to the store itself, in a commit of the journal.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::error::ActionError;
use crate::id::{PlanId, StepId};
use crate::payload::Payload;

/// Code that is called in the transaction of a commit with the connection of the store, perhaps
/// more than once; each call but the last was rolled back. `None`: the connection is of another
/// store.
pub type WorkCode = dyn Fn(&dyn Any) -> Option<Result<Payload, ActionError>> + Send + Sync;

/// Work that is done once for its step and name. Its return value is stored with its changes, and
/// answers later requests for the same work.
#[derive(Clone)]
pub struct Work {
    /// The plan of the step.
    pub plan: PlanId,
    /// The step.
    pub step: StepId,
    /// The name of the work, unique within the step.
    pub name: String,
    /// Whether it has a commit of its own, and so more time.
    pub is_alone: bool,
    /// The code.
    pub code: Arc<WorkCode>,
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("plan", &self.plan)
            .field("step", &self.step)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Outcome of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Worked {
    /// Done, now or before; with its return value.
    Done(Payload),
    /// It has failed, and what it had written was taken back.
    Failed(ActionError),
    /// It takes too long to share a commit, and was taken back: it needs one of its own.
    Slow,
    /// This store knows no SQL.
    Unsupported,
}
