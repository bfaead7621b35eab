//! Why a plan waits: one reason, the one that people can do most about.

use serde::{Deserialize, Serialize};

use super::state::{PlanState, StepState};
use super::step::Step;
use super::Plan;
use crate::id::StepId;

/// Reason why a plan that is not over waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Waiting {
    /// Nothing: its code runs, or is about to; or it is over.
    Nothing,
    /// Paused: an operator has to retry, skip or end a step.
    Decision,
    /// Frozen: an operator has to allow it.
    Permission,
    /// The end of a plan that has to be over before it.
    Plan,
    /// The time at which it is to be planned.
    Time,
    /// A lock that another plan has.
    Lock,
    /// The plans that one of its steps has asked for.
    SubPlans,
    /// An event.
    Event,
    /// A timer of its own, or an event that comes before.
    Timer,
    /// The next attempt of a step that has failed.
    Retry,
    /// A place in a queue.
    Place,
    /// The store: it fails, and what has happened is written when it is well again.
    Store,
    /// A world that can read it: its stored data is damaged, of a newer version, or of a codec that
    /// this world does not have.
    Unreadable,
}

impl Waiting {
    const ALL: [Self; 13] = [
        Self::Nothing,
        Self::Decision,
        Self::Permission,
        Self::Plan,
        Self::Time,
        Self::Lock,
        Self::SubPlans,
        Self::Event,
        Self::Timer,
        Self::Retry,
        Self::Place,
        Self::Store,
        Self::Unreadable,
    ];

    /// In lower case, as everywhere outside the code.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Decision => "decision",
            Self::Permission => "permission",
            Self::Plan => "plan",
            Self::Time => "time",
            Self::Lock => "lock",
            Self::SubPlans => "sub-plans",
            Self::Event => "event",
            Self::Timer => "timer",
            Self::Retry => "retry",
            Self::Place => "place",
            Self::Store => "store",
            Self::Unreadable => "unreadable",
        }
    }

    /// The reason with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|waiting| waiting.name() == name)
    }
}

impl Plan {
    /// Its reason for waiting.
    pub fn waiting(&self) -> Waiting {
        self.wait().0
    }

    /// Why it waits, if it does and is not over: one reason, the one that people can do most about.
    pub fn waits_for(&self) -> String {
        self.wait().1
    }

    /// Both: they never disagree.
    pub(crate) fn wait(&self) -> (Waiting, String) {
        if let Some(trouble) = &self.trouble {
            return (Waiting::Store, format!("{trouble}; it is tried again"));
        }
        match self.state {
            PlanState::Paused if self.counts.of(&[StepState::RevertFailed]) > 0 => {
                let find = |step: &&Step| step.state == StepState::RevertFailed;
                let step = self.steps.iter().find(find).map_or(StepId(0), |step| step.id);
                let text =
                    format!("the compensation of step {step} has failed: retry, skip or end it");
                (Waiting::Decision, text)
            }
            PlanState::Paused if self.steps.is_empty() => {
                let text = "its action is not known: register it, and resume the plan".to_owned();
                (Waiting::Decision, text)
            }
            PlanState::Paused => {
                let failed = self.failed_steps().next();
                let text = failed.map_or_else(
                    || "paused: resume it".to_owned(),
                    |step| {
                        let error =
                            step.error.as_ref().map(|error| format!(" ({})", error.message));
                        let error = error.unwrap_or_default();
                        format!("step {} has failed{error}: retry, skip or end it", step.id)
                    },
                );
                (Waiting::Decision, text)
            }
            PlanState::Scheduled => self.wait_to_be_planned(),
            PlanState::Planned if !self.locks.is_empty() => {
                let locks: Vec<_> = self.locks.iter().map(|lock| lock.name.as_str()).collect();
                let locks = || format!("the lock «{}»", locks.join("», «"));
                (Waiting::Lock, self.locked_by.clone().unwrap_or_else(locks))
            }
            PlanState::Running if !self.is_busy() => self.wait_for_step(),
            PlanState::Running => match self.waits_for_place() {
                Some(place) => (Waiting::Place, place.to_owned()),
                None => nothing(),
            },
            _ => nothing(),
        }
    }

    fn wait_to_be_planned(&self) -> (Waiting, String) {
        let Some(delayed) = &self.delayed else { return nothing() };
        if delayed.is_frozen {
            return (Waiting::Permission, "frozen: allow it".to_owned());
        }
        if let Some(plan) = self.open_prerequisites().first() {
            return (Waiting::Plan, format!("the end of plan {plan}"));
        }
        delayed.start_at.map_or_else(nothing, |at| (Waiting::Time, format!("time {at}")))
    }

    fn wait_for_step(&self) -> (Waiting, String) {
        let find = |state| self.steps.iter().find(|step| step.state == state);
        if self.counts.of(&[StepState::Suspended]) > 0 {
            let Some(step) = find(StepState::Suspended) else { return nothing() };
            let step = self.waiting_part(step);
            if step.state == StepState::Retrying {
                return next_attempt(step);
            }
            if self.children.are_open(step.id) {
                let counts = self.children.counts(step.id);
                let text = format!("{} of {} sub-plans", counts.pending, counts.total);
                return (Waiting::SubPlans, text);
            }
            let is_timed = self.timers.values().any(|timer| timer.step == step.id);
            let waiting = if is_timed { Waiting::Timer } else { Waiting::Event };
            return (waiting, step.waits_for.clone());
        }
        if self.counts.of(&[StepState::Retrying]) > 0 {
            let Some(step) = find(StepState::Retrying) else { return nothing() };
            return next_attempt(step);
        }
        if self.counts.of(&[StepState::RevertRetrying]) > 0 {
            let Some(step) = find(StepState::RevertRetrying) else { return nothing() };
            let (attempt, id) = (step.failures + 1, step.id);
            return (Waiting::Retry, format!("attempt {attempt} of the compensation of step {id}"));
        }
        nothing()
    }
}

fn next_attempt(step: &Step) -> (Waiting, String) {
    (Waiting::Retry, format!("attempt {} of step {}", step.attempt + 1, step.id))
}

fn nothing() -> (Waiting, String) {
    (Waiting::Nothing, String::new())
}

#[cfg(test)]
mod tests {
    use super::Waiting;

    #[test]
    fn names_are_read_as_they_are_written() {
        for waiting in Waiting::ALL {
            assert_eq!(Waiting::from_name(waiting.name()), Some(waiting));
        }
        assert_eq!(Waiting::from_name("patience"), None);
    }
}
