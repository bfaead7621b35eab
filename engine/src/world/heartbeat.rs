//! Signs of life from outside.

use turnwheel_runtime::{completion::completion, Completion};

use super::World;
use crate::connect::RequestKind;
use crate::error::{not_taken, PlanError};
use crate::id::{PlanId, StepId};
use crate::payload::Payload;
use crate::run::Heartbeat;

impl World {
    /// Says that what a step has started outside is alive, and how far it is: for workers elsewhere that
    /// the step waits for while it is suspended. They are given the ids of plan and step, and the number
    /// of the [attempt](crate::StepContext::attempt), so that one of an attempt that is over is told so.
    ///
    /// It completes when it is taken, not when it is durable: as those of
    /// [code that runs](crate::StepContext::heartbeat), signs of life from outside are written together.
    ///
    /// # Errors
    ///
    /// There is no such plan or step, the step does not run and is not suspended, or this attempt is over:
    /// the worker should end what it does.
    pub fn heartbeat<D: serde::Serialize + ?Sized>(
        &self,
        plan: PlanId,
        step: StepId,
        attempt: u32,
        details: &D,
    ) -> Completion<Result<(), PlanError>> {
        let refused = |problem| Completion::done(Err(PlanError::Refused { plan, problem }));
        let details = match Payload::of(details) {
            Ok(details) => details,
            Err(error) => return refused(format!("the sign of life of step {step} {error}")),
        };
        let (reply, done) = completion();
        if !self.shared().owns(plan) {
            let beat = RequestKind::Heartbeat { plan, step, attempt, details };
            self.shared().ask_elsewhere(plan, beat, reply);
            return done;
        }
        match self.plan_ref(plan).tell(Heartbeat { step, attempt, details, reply }) {
            Ok(()) => done,
            Err(error) => refused(not_taken(error.kind)),
        }
    }
}
