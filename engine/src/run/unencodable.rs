//! Entries that the codec of a world cannot encode: the plan takes back what they decided.
//!
//! | what the entry says | what becomes of it |
//! | --- | --- |
//! | an order or an event from outside | it is refused, and the plan goes on without it |
//! | the end of a call | the step fails with an error of kind [`UNENCODABLE`] |
//! | the begin of a sub-plan | the sub-plan is not planned, with that error |
//! | anything else | the plan is paused, and says why |

use std::collections::HashMap;
use std::sync::Arc;

use turnwheel_actors::{AsyncContext, AsyncHandler, Context};

use super::actor::AFTER_STORE_FAILURE;
use super::decide::{Decisions, Effect};
use super::entry::UnderWay;
use super::message::Wake;
use super::PlanActor;
use crate::action::{CancelFlag, Returned};
use crate::error::{ActionError, StoreError};
use crate::id::StepId;
use crate::limits::ENCODINGS_MAX;
use crate::plan::{PlanState, Record, StepState};

/// The kind of the error of a step whose end cannot be encoded.
const UNENCODABLE: &str = "unencodable";

/// How often an order is tried to be encoded: who has given it waits.
const ORDER_ENCODINGS_MAX: u32 = 2;

/// The entry under way is given up: the plan is as the store has it.
pub(super) struct TakeBack(String);

impl UnderWay {
    /// Whether it was tried so often that its plan goes on without it.
    pub(super) fn is_given_up(&self) -> bool {
        self.tries >= if self.is_order { ORDER_ENCODINGS_MAX } else { ENCODINGS_MAX }
    }
}

impl PlanActor {
    pub(super) fn give_up(
        &mut self,
        mut under_way: UnderWay,
        error: StoreError,
        cx: &mut Context<'_, Self>,
    ) {
        tracing::error!(plan = %self.id, %error, "an entry cannot be encoded, and is taken back");
        self.answer_all(&mut under_way, &error);
        let problem = error.to_string();
        let created = self.plan.as_ref().map(|plan| Box::new(plan.created.clone()));
        match created.filter(|_| self.head == 0) {
            Some(created) => {
                // The plan that has asked for it is told.
                self.forget_decisions();
                let (at, error) = (self.world.now(), unencodable(&problem));
                self.begin_with(created, Record::NotPlanned { at, error }, None, None, cx);
            }
            None => {
                // Nothing is handed over before it is read.
                self.under_way = Some(under_way);
                if let Err(error) = cx.myself().tell(TakeBack(problem)) {
                    tracing::warn!(plan = %self.id, kind = %error.kind, "it is read by the next");
                    self.under_way = None;
                    self.forget(cx);
                }
            }
        }
    }
}

fn unencodable(problem: &str) -> ActionError {
    ActionError::new(UNENCODABLE, problem).and_final()
}

impl AsyncHandler<TakeBack> for PlanActor {
    type Reply = ();

    async fn handle(&mut self, TakeBack(problem): TakeBack, cx: AsyncContext<Self>) {
        let Some(mut under_way) = self.under_way.take() else { return };
        // Later decisions rest on it.
        self.answer_all(&mut under_way, &StoreError::Failed(problem.clone()));
        let read = Self::read(&self.world, self.id).await;
        self.forget_decisions();
        let read = read.and_then(|found| {
            found.ok_or_else(|| StoreError::Failed("the plan is not there".to_owned()))
        });
        match read {
            Ok((plan, (head, growth, _))) => {
                (self.head, self.growth) = (head, growth);
                self.holds_locks = plan.needs_locks();
                self.know_followed(&plan);
                self.plan = Some(Arc::new(plan));
                let running = std::mem::take(&mut self.running);
                if let Some(mut decisions) = self.decisions() {
                    decisions.taken_back(&problem, &running, under_way.is_order);
                }
                self.running = running;
            }
            Err(error) => {
                self.running.values().for_each(|(_, cancelled)| cancelled.set());
                self.unreadable = Some(error);
                self.world.wakes().set(self.id, self.world.now().after(AFTER_STORE_FAILURE));
            }
        }
        // It hands over what was decided, or leaves memory.
        if let Err(error) = cx.myself().tell(Wake) {
            tracing::debug!(plan = %self.id, kind = %error.kind, "another message does so");
        }
    }
}

impl Decisions<'_> {
    /// The plan is as it was before the entry. Calls that have ended since have failed: they may
    /// have had their effect, and must not be repeated without a word.
    fn taken_back(
        &mut self,
        problem: &str,
        running: &HashMap<StepId, (u32, CancelFlag)>,
        is_order: bool,
    ) {
        let mut called = Vec::new();
        if self.plan.state == PlanState::Running {
            called = self.plan.in_state(StepState::Running);
            called.extend(self.plan.in_state(StepState::Reverting));
        }
        let mut has_failed = false;
        for id in called {
            let step = self.plan.step(id);
            let call = step.calls;
            if step.is_queued {
                self.effects.push(Effect::Call(id));
            } else if running.get(&id).is_none_or(|(known, _)| *known != call) {
                has_failed = true;
                self.returned(id, call, Returned::failed(unencodable(problem)), 0);
            }
        }
        let is_under_way = matches!(self.plan.state, PlanState::Running | PlanState::Scheduled);
        if !has_failed && !is_order && is_under_way {
            let why = format!("what it has to do next cannot be stored: {problem}");
            return self.become_state(PlanState::Paused, &why);
        }
        self.look_after_plans();
        self.wake();
        self.advance();
    }
}
