//! Events on their way to the steps that wait for them.

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Completion;

use super::World;
use crate::connect::RequestKind;
use crate::error::{cut, not_taken, PayloadError, PlanError, TextTooLong};
use crate::id::{PlanId, StepId};
use crate::limits::{EVENT_ID_BYTES_MAX, REASON_BYTES_MAX};
use crate::payload::Payload;
use crate::run::{Deliver, Delivered};

impl World {
    /// As [`World::event`], with who has sent it: the history of the plan says so.
    pub fn event_by<E: serde::Serialize>(
        &self,
        plan: PlanId,
        step: StepId,
        id: Option<&str>,
        event: &E,
        by: &str,
    ) -> Completion<Result<(), PlanError>> {
        self.deliver(plan, step, id, Payload::of(event), Some(by.to_owned()))
    }

    /// Sends a broadcast event: a refused one is no dead letter.
    pub(crate) fn offer<E: serde::Serialize>(
        &self,
        plan: PlanId,
        step: StepId,
        id: &str,
        event: &E,
    ) -> Completion<Result<Delivered, PlanError>> {
        self.send(plan, step, Some(id), Payload::of(event), None, false)
    }

    pub(crate) fn deliver(
        &self,
        plan: PlanId,
        step: StepId,
        id: Option<&str>,
        payload: Result<Payload, PayloadError>,
        by: Option<String>,
    ) -> Completion<Result<(), PlanError>> {
        let sent = self.send(plan, step, id, payload, by, true);
        sent.map(|sent| sent.map(|_| ()))
    }

    fn send(
        &self,
        plan: PlanId,
        step: StepId,
        id: Option<&str>,
        payload: Result<Payload, PayloadError>,
        by: Option<String>,
        is_kept: bool,
    ) -> Completion<Result<Delivered, PlanError>> {
        let refused = |problem: String| Completion::done(Err(PlanError::Refused { plan, problem }));
        let payload = match payload {
            Ok(payload) => payload,
            Err(error) => return refused(format!("the event for step {step} {error}")),
        };
        let limit = TextTooLong::check("id of the event", id.unwrap_or(""), EVENT_ID_BYTES_MAX);
        if let Err(problem) = limit {
            return Completion::done(Err(PlanError::EventId { plan, problem }));
        }
        let by = by.map(|by| cut(by, REASON_BYTES_MAX));
        let id = id.map(str::to_owned);
        if !self.shared().owns(plan) {
            let (reply, done) = completion();
            let event = RequestKind::Event { plan, step, id, payload, by, is_kept };
            self.shared().ask_elsewhere(plan, event, reply);
            // The answers of other worlds do not say when it was delivered.
            return done.map(|done| done.map(|()| Delivered::Now));
        }
        let (reply, done) = completion();
        let deliver = Deliver { step, id, payload, by, reply, is_kept };
        match self.plan_ref(plan).tell(deliver) {
            Ok(()) => done,
            Err(error) => refused(not_taken(error.kind)),
        }
    }
}
