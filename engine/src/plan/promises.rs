//! Promises that steps wait for by name and key, as part of [`Plan::apply`].

use serde::{Deserialize, Serialize};

use super::step::Event;
use super::Plan;
use crate::id::StepId;
use crate::payload::Payload;
use crate::time::Time;

/// Names of labels of rows by which waiting plans are found, and ids of events of completed
/// promises.
const PREFIX: &str = "promise:";

/// A step waits for a promise, or somebody completes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promised {
    /// When.
    pub at: Time,
    /// The step.
    pub step: StepId,
    /// The name.
    pub name: String,
    /// The key.
    pub key: String,
    /// The value and its author, when it is completed.
    pub given: Option<(Payload, String)>,
}

/// The label by which the store finds the plan that waits.
pub(crate) fn label_of(name: &str, key: &str) -> String {
    format!("{PREFIX}{name}/{key}")
}

/// Whether an event with this id completes a promise of this name.
pub(crate) fn is_promise(id: &str, name: &str) -> bool {
    let rest = id.strip_prefix(PREFIX).and_then(|id| id.strip_prefix(name));
    rest.is_some_and(|rest| rest.starts_with('/'))
}

impl Plan {
    pub(super) fn promised(&mut self, promised: &Promised) {
        let Promised { at, step, name, key, given } = promised;
        let promise = (name.clone(), key.clone());
        let Some((payload, by)) = given else {
            self.promises.insert(promise, *step);
            return;
        };
        self.promises.remove(&promise);
        let (id, payload) = (Some(label_of(name, key)), payload.clone());
        let event = Event { id, payload, at: *at, is_own: false };
        self.steps[step.index()].inbox.push_back(event);
        self.note(*at, format!("promise «{name}» of «{key}» completed by {by}"));
    }

    /// A step does not wait any more, neither for its timers nor for promises.
    pub(super) fn drop_waits(&mut self, step: StepId) {
        self.timers.retain(|_, timer| timer.step != step);
        self.promises.retain(|_, waiting| *waiting != step);
    }

    /// The step that waits for a promise.
    pub(crate) fn waits_for_promise(&self, name: &str, key: &str) -> Option<StepId> {
        self.promises.get(&(name.to_owned(), key.to_owned())).copied()
    }

    /// Whether a step waits for any promise.
    pub(crate) fn has_promise(&self, step: StepId) -> bool {
        self.promises.values().any(|waiting| *waiting == step)
    }

    /// The labels by which a completer finds the plan.
    pub(crate) fn promise_labels(&self) -> impl Iterator<Item = String> + '_ {
        self.promises.keys().map(|(name, key)| label_of(name, key))
    }
}
