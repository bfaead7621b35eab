//! Events that could not be delivered.

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde::Serialize;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Failure;

use super::{Asking, World};
use crate::error::PlanError;
use crate::id::{PlanId, StepId};
use crate::limits::DEAD_LETTERS;
use crate::payload::Payload;
use crate::run::Deliver;
use crate::time::Time;

/// An event that no step has taken.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DeadLetter {
    /// What tells it from others, counted from 1.
    pub number: u64,
    /// When it was refused, or its step ended without it.
    pub at: Time,
    /// The plan that it was for.
    pub plan: PlanId,
    /// The step.
    pub step: StepId,
    /// The id that its sender gave.
    pub id: Option<String>,
    /// What it says.
    pub payload: Payload,
    /// Why nobody took it.
    pub reason: String,
}

/// The events that could not be delivered since the world began.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DeadLetters {
    /// How many there were in all.
    pub total: u64,
    /// The newest [`DEAD_LETTERS`] that were not delivered later, the oldest first.
    pub letters: Vec<DeadLetter>,
}

#[derive(Default)]
pub(crate) struct Letters(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    total: u64,
    letters: VecDeque<DeadLetter>,
}

/// An event and why it is a dead letter.
pub(crate) struct Undelivered {
    pub(crate) plan: PlanId,
    pub(crate) step: StepId,
    pub(crate) id: Option<String>,
    pub(crate) payload: Payload,
    pub(crate) reason: String,
}

impl Letters {
    pub(crate) fn add(&self, at: Time, letter: Undelivered) {
        let Undelivered { plan, step, id, payload, reason } = letter;
        tracing::warn!(%plan, %step, id, reason, "an event is a dead letter");
        let mut kept = self.0.lock();
        kept.total += 1;
        let number = kept.total;
        kept.letters.push_back(DeadLetter { number, at, plan, step, id, payload, reason });
        if kept.letters.len() > DEAD_LETTERS {
            kept.letters.pop_front();
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.lock().total
    }
}

impl World {
    /// The events that could not be delivered since this world began: those that were refused, because
    /// there is no such plan or its step takes no events any more, and those that a step has left behind
    /// when it ended.
    ///
    /// The sender of a refused one was told; what was left behind is in the plan's history. The list is
    /// kept in memory, the newest [`DEAD_LETTERS`].
    pub fn dead_letters(&self) -> DeadLetters {
        let kept = self.shared.letters.0.lock();
        DeadLetters { total: kept.total, letters: kept.letters.iter().cloned().collect() }
    }

    /// Tries to deliver a dead letter again, for instance after its plan was resumed or its step began
    /// anew; to the same step or, of the same plan, to another one. If it is taken it leaves the list.
    ///
    /// # Errors
    ///
    /// There is no such letter, or it is refused again: it stays in the list then.
    pub fn redeliver(&self, number: u64, to: Option<StepId>) -> Asking<(), PlanError> {
        let world = self.clone();
        Asking::new(async move {
            let found = {
                let kept = world.shared.letters.0.lock();
                kept.letters.iter().find(|letter| letter.number == number).cloned()
            };
            let Some(letter) = found else {
                let problem = format!("there is no dead letter {number}");
                return Err(PlanError::Refused { plan: PlanId::from_bytes([0; 16]), problem });
            };
            let (plan, id, payload) = (letter.plan, letter.id, letter.payload);
            let (reply, done) = completion();
            let step = to.unwrap_or(letter.step);
            let deliver = Deliver { step, id, payload, by: None, reply, is_again: true };
            let refused = |problem: String| PlanError::Refused { plan, problem };
            let told = world.plan_ref(plan).tell(deliver);
            told.map_err(|error| refused(error.kind.to_string()))?;
            done.await.map_err(|failure: Failure| refused(failure.to_string()))??;
            world.shared.letters.0.lock().letters.retain(|letter| letter.number != number);
            Ok(())
        })
    }
}
