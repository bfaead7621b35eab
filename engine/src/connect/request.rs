//! Requests between worlds, and their answers.

use serde::{Deserialize, Serialize};

use crate::error::{PlanError, StoreError, TriggerError};
use crate::id::{PlanId, StepId};
use crate::payload::Payload;
use crate::plan::{Created, Plan, PlanResult, Record, Trace};
use crate::run::OrderKind;
use crate::schedule::{ScheduleAnswer, ScheduleError, ScheduleRequest};
use crate::store::Seq;

/// A request of one world to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request(pub(crate) RequestKind);

/// The answer to a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer(pub(crate) AnswerKind);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum RequestKind {
    /// A plan is made; now, or when its time has come.
    Begin {
        plan: PlanId,
        created: Box<Created>,
        delayed: Option<Box<Record>>,
        /// Its priority, if that of its action does not count.
        priority: Option<i32>,
        /// Whether somebody has chosen its id: then it must not be there.
        is_chosen: bool,
    },
    Event {
        plan: PlanId,
        step: StepId,
        id: Option<String>,
        payload: Payload,
        by: Option<String>,
        /// Whether it becomes a dead letter if it is refused.
        is_kept: bool,
    },
    Order {
        plan: PlanId,
        kind: OrderKind,
        by: String,
    },
    Heartbeat {
        plan: PlanId,
        step: StepId,
        attempt: u32,
        details: Payload,
    },
    /// The plan as it is, or when it is stopped or paused.
    Look {
        plan: PlanId,
        at_once: bool,
    },
    /// Something that plans say to one another.
    Word {
        plan: PlanId,
        word: Word,
    },
    Ping,
    /// For the world that serves the schedules.
    Schedules {
        request: Box<ScheduleRequest>,
    },
    /// Publishes an event of CloudEvents to the listeners of that world.
    Publish {
        event: Payload,
    },
    /// For the world that owns a key.
    Keyed {
        service: String,
        key: String,
        request: Payload,
    },
    /// The table of worlds has changed: a hint that saves the time until the next heartbeat.
    Worlds {
        version: u64,
    },
    /// Removes a plan that is over, if nothing has happened to it after this entry.
    Remove {
        plan: PlanId,
        head: Seq,
    },
}

/// A message between plans.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Word {
    /// A step starts this sub-plan; it is created if it does not exist.
    Begin {
        caller: (PlanId, StepId),
        lineage: Vec<PlanId>,
        trace: Option<Trace>,
        action: String,
        input: Payload,
        priority: i32,
        labels: Vec<(String, String)>,
    },
    /// The parent of this plan cancels it.
    Cancel { is_forced: bool, by: String },
    /// Another plan wants to know when this one is over.
    Follow { follower: PlanId },
    /// Another plan is over.
    Ended { plan: PlanId, result: PlanResult },
    /// A lock that the plan waits for may be free.
    Wake,
    /// Plans that this one waits for may have been moved: it asks for them again.
    AskAgain,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum AnswerKind {
    Begun(Result<PlanId, TriggerError>),
    Done(Result<(), PlanError>),
    Plan(Result<Box<Plan>, PlanError>),
    Heard,
    Pong,
    Schedules(Result<ScheduleAnswer, ScheduleError>),
    /// The world does not own the plan.
    Moved,
    /// Steps that got an event, and plans that began with it.
    Published {
        delivered: u64,
        /// Number of those that decide themselves whether the event matches.
        undecided: u64,
        started: Vec<PlanId>,
        /// Steps that had got it before.
        repeated: u64,
        /// Those of the started plans that began by this request.
        begun: Vec<PlanId>,
    },
    /// The answer of a service, or why there is none.
    Keyed(Result<Payload, String>),
}

impl Request {
    /// Name of the request: for logs.
    pub fn name(&self) -> &'static str {
        match &self.0 {
            RequestKind::Begin { .. } => "begin",
            RequestKind::Event { .. } => "event",
            RequestKind::Order { .. } => "order",
            RequestKind::Heartbeat { .. } => "heartbeat",
            RequestKind::Look { at_once: true, .. } => "view",
            RequestKind::Look { .. } => "wait",
            RequestKind::Word { .. } => "between plans",
            RequestKind::Ping => "ping",
            RequestKind::Schedules { .. } => "schedules",
            RequestKind::Publish { .. } => "publish",
            RequestKind::Keyed { .. } => "for a key",
            RequestKind::Worlds { .. } => "worlds",
            RequestKind::Remove { .. } => "remove",
        }
    }

    /// The plan that it is about.
    pub fn plan(&self) -> Option<PlanId> {
        match &self.0 {
            RequestKind::Begin { plan, .. }
            | RequestKind::Event { plan, .. }
            | RequestKind::Order { plan, .. }
            | RequestKind::Heartbeat { plan, .. }
            | RequestKind::Look { plan, .. }
            | RequestKind::Word { plan, .. }
            | RequestKind::Remove { plan, .. } => Some(*plan),
            RequestKind::Ping
            | RequestKind::Schedules { .. }
            | RequestKind::Publish { .. }
            | RequestKind::Keyed { .. }
            | RequestKind::Worlds { .. } => None,
        }
    }

    /// As bytes, for a connector between machines of the same version.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(self)
    }

    /// From [`Request::to_bytes`].
    ///
    /// # Errors
    ///
    /// These are not the bytes of a request.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        from_bytes(bytes, "request")
    }
}

impl Answer {
    /// As bytes, for a connector between machines of the same version.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(self)
    }

    /// From [`Answer::to_bytes`].
    ///
    /// # Errors
    ///
    /// These are not the bytes of an answer.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        let mut answer: Self =
            from_bytes(bytes, "answer").or_else(|error| Self::of_before(bytes).ok_or(error))?;
        if let AnswerKind::Plan(Ok(plan)) = &mut answer.0 {
            plan.rebuild();
        }
        Ok(answer)
    }

    /// An answer of the release before, which told no repeated events.
    fn of_before(bytes: &[u8]) -> Option<Self> {
        let none_repeated_none_begun = [bytes, &[0, 0]].concat();
        let mut answer: Self = from_bytes(&none_repeated_none_begun, "answer").ok()?;
        let AnswerKind::Published { started, begun, .. } = &mut answer.0 else { return None };
        begun.clone_from(started);
        Some(answer)
    }

    /// Whether nothing was done because another world owns the plan.
    pub(crate) fn is_moved(&self) -> bool {
        matches!(
            &self.0,
            AnswerKind::Moved
                | AnswerKind::Begun(Err(TriggerError::Store(StoreError::Fenced { .. })))
                | AnswerKind::Done(Err(PlanError::Store(StoreError::Fenced { .. })))
                | AnswerKind::Plan(Err(PlanError::Store(StoreError::Fenced { .. })))
                | AnswerKind::Schedules(Err(ScheduleError::Store(StoreError::Fenced { .. })))
        )
    }
}

fn to_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_allocvec(value).expect("requests have no maps of unknown length")
}

fn from_bytes<T: serde::de::DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T, StoreError> {
    postcard::from_bytes(bytes)
        .map_err(|error| StoreError::Corrupt(format!("the bytes of no {what}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_event_of_the_release_before_is_read_and_is_told_to_a_node_of_it() {
        let started = vec![PlanId::new(uuid::Uuid::from_u128(7))];
        let (repeated, begun) = (0, started.clone());
        let told = AnswerKind::Published { delivered: 3, undecided: 1, started, repeated, begun };
        let bytes = Answer(told).to_bytes();
        // The number of repeated steps, and what began: a number, and one plan with its length.
        let before = &bytes[..bytes.len() - 19];
        let read = Answer::from_bytes(before).expect("it is read");
        assert_eq!(read.to_bytes(), bytes);
        assert!(Answer::from_bytes(&before[..before.len() - 1]).is_err(), "it is cut");
    }
}
