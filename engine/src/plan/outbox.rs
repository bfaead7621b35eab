//! Events that steps send to other plans, until they are delivered; as part of [`Plan::apply`].

use serde::{Deserialize, Serialize};

use super::Plan;
use crate::id::{PlanId, StepId};
use crate::payload::Payload;
use crate::time::Time;

/// The plan that an event is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum EventTarget {
    /// The plan with this id.
    Plan(PlanId),
    /// The plan that has taken this idempotency key.
    Key(String),
    /// The only plan with this label and value that is not stopped.
    Label(String, String),
}

impl From<PlanId> for EventTarget {
    fn from(plan: PlanId) -> Self {
        Self::Plan(plan)
    }
}

/// An event that a step sends to another plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentEvent {
    /// Counted from 1 in the plan.
    pub number: u32,
    /// When.
    pub at: Time,
    /// The step that sends it.
    pub step: StepId,
    /// The plan that it is for.
    pub to: EventTarget,
    /// The action whose run step gets it.
    pub action: String,
    /// Id of the event.
    pub id: String,
    /// Content of the event.
    pub payload: Payload,
}

/// A sent event that is delivered, or cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveredEvent {
    /// When.
    pub at: Time,
    /// Number of the event.
    pub number: u32,
    /// Why it cannot be delivered.
    pub problem: Option<String>,
}

impl Plan {
    pub(super) fn sent(&mut self, event: &SentEvent) {
        self.last_sent = self.last_sent.max(event.number);
        self.outbox.insert(event.number, event.clone());
    }

    pub(super) fn delivered(&mut self, delivered: &DeliveredEvent) {
        let DeliveredEvent { at, number, problem } = delivered;
        let Some(event) = self.outbox.remove(number) else { return };
        if let Some(problem) = problem {
            let (step, id) = (event.step, event.id);
            self.note(*at, format!("event «{id}» of step {step} was not delivered: {problem}"));
        }
    }

    /// Numbers of events that are not delivered.
    pub(crate) fn undelivered(&self) -> impl Iterator<Item = u32> + '_ {
        self.outbox.keys().copied()
    }

    /// An event that is not delivered.
    pub(crate) fn sent_event(&self, number: u32) -> Option<&SentEvent> {
        self.outbox.get(&number)
    }

    /// Whether an event with this id is not delivered.
    pub(crate) fn is_sending(&self, id: &str) -> bool {
        self.outbox.values().any(|event| event.id == id)
    }
}
