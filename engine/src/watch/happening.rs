//! One thing that happened to a plan.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::{PlanId, StepId};
use crate::plan::{PlanResult, PlanState, StepKind, StepState};
use crate::store::Seq;
use crate::time::Time;

/// A position in the journal of a store; later happenings have greater ones.
///
/// As text it is two numbers with a point between, or the first one alone; a listener stores it to
/// continue from there.
///
/// ```
/// use turnwheel_engine::watch::Cursor;
/// let cursor: Cursor = "17.2".parse()?;
/// assert_eq!(cursor.to_string(), "17.2");
/// assert!(cursor < Cursor::from(17), "a number alone is the end of a journal entry");
/// # Ok::<(), turnwheel_engine::watch::CursorError>(())
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Cursor {
    /// The entry of the journal.
    pub seq: Seq,
    /// Number of the happening within its entry, from 0.
    pub nth: u32,
}

impl Cursor {
    /// Before everything.
    pub const START: Self = Self { seq: 0, nth: 0 };
}

/// The end of an entry of the journal.
impl From<Seq> for Cursor {
    fn from(seq: Seq) -> Self {
        Self { seq, nth: u32::MAX }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nth {
            u32::MAX => write!(f, "{}", self.seq),
            nth => write!(f, "{}.{nth}", self.seq),
        }
    }
}

/// A text that is no [`Cursor`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("«{0}» is no place in a journal: write two numbers as in 17.2, or the first one alone")]
pub struct CursorError(String);

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let wrong = || CursorError(text.to_owned());
        let (seq, nth) = match text.split_once('.') {
            Some((seq, nth)) => (seq, nth.parse().map_err(|_| wrong())?),
            None => (text, u32::MAX),
        };
        Ok(Self { seq: seq.parse().map_err(|_| wrong())?, nth })
    }
}

/// One thing that happened to a plan, and is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Happening {
    /// Its place: a listener that goes on [after](crate::watch::WatchFilter::after) it misses nothing.
    pub cursor: Cursor,
    /// The plan.
    pub plan: PlanId,
    /// Label of the plan.
    pub label: String,
    /// When.
    pub at: Time,
    /// The happening.
    #[serde(flatten)]
    pub what: What,
    /// The author, if there is one: the name given with the trigger or the order.
    pub by: Option<String>,
    /// Why; for people.
    pub why: String,
}

/// Kind of a happening.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// The plan went into another state.
    Plan {
        /// The former state; `None` for a new plan.
        from: Option<PlanState>,
        /// The new one.
        to: PlanState,
        /// Its result so far.
        result: PlanResult,
    },
    /// A step went into another state.
    Step {
        /// The step.
        step: StepId,
        /// Its action.
        action: String,
        /// Its phase.
        kind: StepKind,
        /// The state before.
        from: StepState,
        /// The new one.
        to: StepState,
        /// Number of the attempt, from 1; 0 before the first.
        attempt: u32,
    },
    /// An event has come for a step, or a timer of it.
    Event {
        /// The step.
        step: StepId,
        /// Its action.
        action: String,
        /// The id that its sender gave.
        id: Option<String>,
    },
    /// Somebody wants the plan to end.
    Cancel {
        /// Whether code that runs is not waited for.
        is_forced: bool,
    },
    /// Something else that changes no state; `why` says it.
    Note,
}

impl Happening {
    /// The step that it is about.
    pub fn step(&self) -> Option<StepId> {
        match &self.what {
            What::Step { step, .. } | What::Event { step, .. } => Some(*step),
            _ => None,
        }
    }

    /// The state that the plan went into.
    pub fn plan_state(&self) -> Option<PlanState> {
        match self.what {
            What::Plan { to, .. } => Some(to),
            _ => None,
        }
    }

    /// The state that a step went into.
    pub fn step_state(&self) -> Option<StepState> {
        match self.what {
            What::Step { to, .. } => Some(to),
            _ => None,
        }
    }
}

/// In one line, for people.
impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} plan {}", self.at, self.plan)?;
        match &self.what {
            What::Plan { to, .. } => write!(f, " is {}", to.name())?,
            What::Step { step, action, kind, to, .. } => {
                write!(f, " step {step} ({} of {action}) is {}", kind.name(), to.name())?;
            }
            What::Event { step, action, .. } => write!(f, " event for step {step} ({action})")?,
            What::Cancel { .. } => f.write_str(" is to end")?,
            What::Note => {}
        }
        if !self.why.is_empty() {
            write!(f, ": {}", self.why)?;
        }
        match &self.by {
            Some(by) => write!(f, ", by {by}"),
            None => Ok(()),
        }
    }
}
