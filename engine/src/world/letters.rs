//! Events that could not be delivered.

use serde::{Deserialize, Serialize};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Failure;

use super::{Asking, World};
use crate::connect::RequestKind;
use crate::error::{not_taken, unanswered, PlanError};
use crate::id::{PlanId, StepId};
use crate::payload::Payload;
use crate::run::Deliver;
use crate::time::Time;

/// An event that no step has taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeadLetter {
    /// Its number in the store, counted from 1.
    pub number: u64,
    /// When it was refused, or its step ended without it.
    pub at: Time,
    /// The plan that it was for.
    pub plan: PlanId,
    /// The step.
    pub step: StepId,
    /// The id that its sender gave.
    pub id: Option<String>,
    /// Content of the event.
    pub payload: Payload,
    /// Why nobody took it.
    pub reason: String,
}

impl DeadLetter {
    /// Whether it is the same letter, which may have another number by now.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let of = |letter: &Self| (letter.at, letter.plan, letter.step);
        of(self) == of(other) && self.id == other.id && self.payload == other.payload
    }
}

/// The events that could not be delivered.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DeadLetters {
    /// Total number since the store was made.
    pub total: u64,
    /// Letters that are kept and were not delivered later, the oldest first.
    pub letters: Vec<DeadLetter>,
}

/// An event and why it is a dead letter.
pub(crate) struct Undelivered {
    pub(crate) plan: PlanId,
    pub(crate) step: StepId,
    pub(crate) id: Option<String>,
    pub(crate) payload: Payload,
    pub(crate) reason: String,
}

impl World {
    /// The events that could not be delivered: refused ones, because the plan does not exist or its
    /// step takes no events any more, and those left behind by an ended step.
    ///
    /// The sender of a refused event got an error; events left behind are in the plan's history.
    /// They are kept in the store, for all its worlds: the newest
    /// [1,024](crate::limits::DEAD_LETTERS), up to [16 MiB](crate::limits::DEAD_LETTER_BYTES) of
    /// contents. They are written with the next commits: a crash may lose those of the last
    /// milliseconds.
    pub fn dead_letters(&self) -> DeadLetters {
        self.dead_letters_after(0, usize::MAX)
    }

    /// The same, at most so many with greater numbers.
    pub fn dead_letters_after(&self, number: u64, limit: usize) -> DeadLetters {
        self.shared.letters.after(number, limit)
    }

    /// Tries to deliver a dead letter again, for instance after its plan was resumed or its step began
    /// anew; to the same step or, of the same plan, to another one. If it is taken it leaves the list. Its
    /// event has another id then, so that it is no repetition of the first delivery.
    ///
    /// # Errors
    ///
    /// There is no such letter, or it is refused again: it stays in the list then.
    pub fn redeliver(&self, number: u64, to: Option<StepId>) -> Asking<(), PlanError> {
        let world = self.clone();
        Asking::new(async move {
            let found = world.dead_letters_after(number.saturating_sub(1), 1).letters.pop();
            let Some(letter) = found.filter(|letter| letter.number == number) else {
                let problem = format!("there is no dead letter {number}");
                return Err(PlanError::Refused { plan: PlanId::from_bytes([0; 16]), problem });
            };
            let id = Some(id_again(&letter));
            let (plan, payload) = (letter.plan, letter.payload.clone());
            let step = to.unwrap_or(letter.step);
            let refused = |problem: String| PlanError::Refused { plan, problem };
            let (by, is_kept) = (None, false);
            if world.shared.owns(plan) {
                let (reply, done) = completion();
                let deliver = Deliver { step, id, payload, by, reply, is_kept };
                let told = world.plan_ref(plan).tell(deliver);
                told.map_err(|error| refused(not_taken(error.kind)))?;
                done.await.map_err(|failure: Failure| refused(unanswered(&failure)))??;
            } else {
                let (reply, done) = completion();
                let event = RequestKind::Event { plan, step, id, payload, by, is_kept };
                world.shared.ask_elsewhere(plan, event, reply);
                done.await.map_err(|failure: Failure| refused(unanswered(&failure)))??;
            }
            world.shared.letters.remove(&letter);
            Ok(())
        })
    }
}

/// The id of a letter that is delivered again. Its step may know the id of the event, and would
/// drop it as a repetition; two who deliver the letter at the same time deliver it once.
fn id_again(letter: &DeadLetter) -> String {
    const AGAIN: &str = ", dead letter ";
    let id = letter.id.as_deref().unwrap_or_default();
    let id = id.split_once(AGAIN).map_or(id, |(id, _)| id);
    format!("{id}{AGAIN}{} of {}", letter.number, letter.at)
}
