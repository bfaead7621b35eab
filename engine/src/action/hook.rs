//! Hooks: code that is told when a plan goes into another state.

use std::fmt;

use crate::error::ActionError;
use crate::id::{ActionId, PlanId};
use crate::payload::Payload;
use crate::plan::{PlanResult, PlanState};
use crate::time::Time;

/// Changes of a plan that a hook receives.
///
/// ```
/// use turnwheel_engine::On;
/// const MINE: On = On::STATES.and(On::FAILURE).without(On::PLANNED);
/// assert!(MINE.includes(On::STOPPED) && !MINE.includes(On::SUCCESS));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct On(u16);

impl On {
    /// Nothing.
    pub const NOTHING: Self = Self(0);
    /// The plan has come into being.
    pub const PENDING: Self = Self(1);
    /// Scheduled for later.
    pub const SCHEDULED: Self = Self(1 << 1);
    /// Planning has begun.
    pub const PLANNING: Self = Self(1 << 2);
    /// Planned.
    pub const PLANNED: Self = Self(1 << 3);
    /// It runs, or goes on.
    pub const RUNNING: Self = Self(1 << 4);
    /// Paused.
    pub const PAUSED: Self = Self(1 << 5);
    /// Stopped.
    pub const STOPPED: Self = Self(1 << 6);
    /// Stopped, and all its steps have succeeded.
    pub const SUCCESS: Self = Self(1 << 7);
    /// Stopped with another result: an error, a skipped step, cancelled, reverted, halted.
    pub const FAILURE: Self = Self(1 << 8);
    /// All states; success and failure are none.
    pub const STATES: Self = Self((1 << 7) - 1);
    /// Everything.
    pub const ALL: Self = Self((1 << 9) - 1);

    /// These and those.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These, but not those.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether it has any of those.
    pub const fn includes(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The change into a state.
    pub const fn state(state: PlanState) -> Self {
        match state {
            PlanState::Pending => Self::PENDING,
            PlanState::Scheduled => Self::SCHEDULED,
            PlanState::Planning => Self::PLANNING,
            PlanState::Planned => Self::PLANNED,
            PlanState::Running => Self::RUNNING,
            PlanState::Paused => Self::PAUSED,
            PlanState::Stopped => Self::STOPPED,
        }
    }

    /// The flag for a result at the end of a plan.
    pub(crate) const fn result(result: PlanResult) -> Self {
        match result {
            PlanResult::Success => Self::SUCCESS,
            _ => Self::FAILURE,
        }
    }

    /// Whether there are no planned actions yet when it happens: only the root is told.
    pub(crate) const fn is_early(self) -> bool {
        Self::PENDING.and(Self::SCHEDULED).and(Self::PLANNING).includes(self)
    }

    /// In lower case; of several, with commas between.
    pub fn names(self) -> String {
        const NAMES: [&str; 9] = [
            "pending",
            "scheduled",
            "planning",
            "planned",
            "running",
            "paused",
            "stopped",
            "success",
            "failure",
        ];
        let named = NAMES.iter().enumerate().filter(|(bit, _)| self.0 & (1 << bit) != 0);
        named.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Debug for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "On({})", self.names())
    }
}

/// A change of a plan, for hooks.
#[derive(Clone, Debug)]
pub struct Change {
    /// The plan.
    pub plan: PlanId,
    /// Its label.
    pub label: String,
    /// The change.
    pub on: On,
    /// When.
    pub at: Time,
    /// The result of the plan, as it was when the change became durable.
    pub result: PlanResult,
    /// The action that is told.
    pub action: ActionId,
    /// Its name.
    pub name: String,
    /// The input that it has planned itself with, with references where outputs are meant; `null` if it
    /// only plans others. For the root what the plan was triggered with, if it is that.
    pub input: Payload,
    /// Its output.
    pub output: Payload,
}

impl Change {
    /// Whether the action that is told is the root of the plan.
    pub fn is_root(&self) -> bool {
        self.action == ActionId(1)
    }

    /// The action's input as its type.
    ///
    /// # Errors
    ///
    /// It is not a value of this type.
    pub fn input<T: serde::de::DeserializeOwned>(&self) -> Result<T, ActionError> {
        Ok(self.input.read()?)
    }
}
