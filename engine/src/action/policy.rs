//! Policies for failures: retry, leave to an operator, skip, end, revert.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_runtime::Backoff;

use crate::error::ActionError;

/// When a failed run step, finalize step or compensation is tried again.
///
/// Errors that are [final](ActionError::and_final) are not tried again, and others not if the policy
/// names kinds of errors.
///
/// ```
/// use std::time::Duration;
/// use turnwheel_engine::RetryPolicy;
/// use turnwheel_runtime::Backoff;
///
/// let pauses = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60));
/// let policy = RetryPolicy::attempts(4).pauses(pauses);
/// assert_eq!(policy.pause(1, 7), Some(Duration::from_secs(1)));
/// assert_eq!(policy.pause(3, 7), Some(Duration::from_secs(4)));
/// assert_eq!(policy.pause(4, 7), None, "four attempts were made");
///
/// let policy = policy.except_for(&["declined"]);
/// assert!(!policy.retries(&turnwheel_engine::ActionError::new("declined", "no money")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    attempts: u32,
    pauses: Backoff,
    only: Option<&'static [&'static str]>,
    except: &'static [&'static str],
}

impl RetryPolicy {
    /// No second attempt.
    pub fn none() -> Self {
        Self::attempts(1)
    }

    /// At most so many attempts, the first included; pauses from a second, doubling, to five minutes,
    /// each shortened by chance by up to a quarter.
    pub fn attempts(attempts: u32) -> Self {
        let longest = Duration::from_secs(300);
        let pauses = Backoff::exponential(Duration::from_secs(1), longest).jitter_percent(25);
        Self { attempts, pauses, only: None, except: &[] }
    }

    /// Other pauses.
    #[must_use]
    pub fn pauses(mut self, pauses: Backoff) -> Self {
        self.pauses = pauses;
        self
    }

    /// Only errors of these kinds.
    #[must_use]
    pub fn only_for(mut self, kinds: &'static [&'static str]) -> Self {
        self.only = Some(kinds);
        self
    }

    /// All errors but those of these kinds.
    #[must_use]
    pub fn except_for(mut self, kinds: &'static [&'static str]) -> Self {
        self.except = kinds;
        self
    }

    /// Whether there may be another attempt after such an error.
    pub fn retries(&self, error: &ActionError) -> bool {
        let kind = error.kind.as_str();
        let is_wanted = self.only.is_none_or(|kinds| kinds.contains(&kind));
        is_wanted && !self.except.contains(&kind) && !error.is_final
    }

    /// The pause after so many failures in a row; `None` if there is no further attempt. The seed
    /// decides what is left to chance.
    pub fn pause(&self, failures: u32, seed: u64) -> Option<Duration> {
        if failures >= self.attempts {
            return None;
        }
        self.pauses.delays(seed).nth(failures.saturating_sub(1) as usize)
    }
}

/// Treatment of a plan when a step has failed for good and no other step is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Rescue {
    /// Pause, for a person to look at.
    Pause,
    /// Leave the step out, with those that need its output, and go on.
    Skip,
    /// Stop; steps that have not begun stay so.
    Fail,
    /// Take back what was done, in reverse order, and stop: the steps that have ended well, and those
    /// whose code was called and failed, unless their actions
    /// [do not want that](crate::Action::reverts_failed).
    Revert,
}

impl Rescue {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Skip => "skip",
            Self::Fail => "fail",
            Self::Revert => "revert",
        }
    }

    /// Combines several suggestions: the common one, or a pause if they differ.
    pub(crate) fn combine(suggestions: impl IntoIterator<Item = Self>) -> Option<Self> {
        suggestions.into_iter().reduce(|one, other| if one == other { one } else { Self::Pause })
    }
}

/// Treatment of a step that was running when its world ended, or that was
/// [silent](crate::Action::heartbeat) for too long: its effect is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnInterrupt {
    /// It is called again, as a further attempt, with the same idempotency key. A step that was
    /// silent [too often](crate::limits::SILENCES_MAX) has failed.
    RunAgain,
    /// It has failed, and the plan's rescue decides.
    Fail,
    /// It has failed, and the plan is paused for a person to look at, whatever its rescue says.
    Pause,
}

/// Why a step's code is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Cause {
    /// First call of the step, or its repetition after a failure or a crash. A later call that is
    /// repeated keeps its cause, with the same event.
    #[default]
    Turn,
    /// An event has come: [`StepContext::event`](crate::StepContext::event).
    Event,
    /// The plan is being cancelled and this step has to end. Only steps of
    /// [cancellable](crate::Action::is_cancellable) actions are called for it.
    Cancel {
        /// Whether it was asked a second time, with force.
        is_forced: bool,
    },
    /// The plans that the step has asked for are over: [`StepContext::sub_plans`](crate::StepContext::sub_plans).
    SubPlans,
    /// The step is to be left out, and may clean up. Only steps of actions that
    /// [want to know](crate::Action::cleans_up_when_skipped) are called for it.
    Skip,
}

/// The error of a step that took too long.
pub(crate) fn timed_out(limit: Duration) -> ActionError {
    ActionError::new(TIMED_OUT, format!("the step was not done within {limit:?}"))
}

/// The kind of the error of a step that was not done within its limit.
pub(crate) const TIMED_OUT: &str = "timed_out";

/// The error of a step that was interrupted and must not run again.
pub(crate) fn interrupted() -> ActionError {
    let message = "the world went away while the step ran: it may or may not have had its effect";
    ActionError::new("interrupted", message).and_final()
}

/// The kind of the error of a step during which processes have crashed, again and again.
pub(crate) const CRASHES: &str = "crashes";

/// The error of a step that may be the reason why processes crash.
pub(crate) fn crashes(ends: u32) -> ActionError {
    let message = format!(
        "the step was running when a process ended without closing, {ends} times in a row: it does \
         not run again before somebody resumes the plan"
    );
    ActionError::new(CRASHES, message).and_final()
}

/// The error of a step that gave no sign of life.
pub(crate) fn silent(within: Duration) -> ActionError {
    let message = format!(
        "the step gave no sign of life within {within:?}: it may or may not have had its effect"
    );
    ActionError::new("silent", message).and_final()
}
