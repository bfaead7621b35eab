//! Plans that other worlds ask for, and plans that have moved between worlds.

use std::sync::Arc;

use turnwheel_actors::{Context, Handler};

use super::decide::Decisions;
use super::message::{AskAgain, BeginElsewhere, Begun};
use super::PlanActor;
use crate::error::{StoreError, TriggerError};
use crate::plan::{Plan, PlanState, Record};

impl Handler<BeginElsewhere> for PlanActor {
    type Reply = ();

    fn handle(&mut self, message: BeginElsewhere, cx: &mut Context<'_, Self>) {
        if cx.is_closing() {
            return self.pass_on(message);
        }
        let BeginElsewhere { created, delayed, is_chosen, reply } = message;
        if let Some(error) = &self.unreadable {
            let _late = reply.complete(Err(TriggerError::Store(error.clone())));
            return cx.passivate();
        }
        if let Some(plan) = &self.plan {
            let is_same = !is_chosen && plan.created.action == created.action;
            if is_same && self.is_settled() {
                // It was asked for twice: the answer to the first request was lost.
                let _late = reply.complete(Ok(Begun { plan: self.id }));
            } else if is_same {
                let id = self.id;
                self.answers.push(Box::new(move |outcome| {
                    let begun = outcome.as_ref().map(|_| Begun { plan: id });
                    let _late = reply.complete(begun.map_err(|error| error.clone().into()));
                }));
            } else {
                let _late = reply.complete(Err(TriggerError::Exists(self.id)));
            }
            return self.settle(cx);
        }
        if self.is_planning {
            // It was asked for twice, and is asked for again when that is durable.
            let _late = reply.complete(Err(TriggerError::Exists(self.id)));
            return;
        }
        match delayed {
            Some(delayed) => self.begin_with(created, delayed, None, Some(reply), cx),
            None => {
                let (action, input) = (created.action.clone(), created.input.clone());
                self.plan_on_pool(action, input, Some(created), Some(reply), cx);
                cx.hold();
            }
        }
    }
}

impl Handler<AskAgain> for PlanActor {
    type Reply = ();

    fn handle(&mut self, AskAgain: AskAgain, cx: &mut Context<'_, Self>) {
        if cx.is_closing() {
            return self.pass_on(AskAgain);
        }
        if let Some(mut decisions) = self.decisions() {
            decisions.ask_again();
        }
        self.settle(cx);
    }
}

impl Decisions<'_> {
    /// Plans that this one waits for may have ended unheard, and who waits for this one too.
    fn ask_again(&mut self) {
        self.send_again();
        self.look_after_plans();
        if self.plan.state == PlanState::Stopped {
            self.wake();
        }
    }
}

impl PlanActor {
    /// The plan as it was read. If it was under way in a world that is gone, its history says so.
    pub(super) fn traced(&mut self, mut plan: Plan) -> Plan {
        let is_under_way = matches!(plan.state, PlanState::Planned | PlanState::Running);
        let Some((at, from)) = self.world.taken_over(self.id).filter(|_| is_under_way) else {
            return plan;
        };
        let text = format!("taken over by world {} from {from}, which is gone", self.world.epoch());
        let is_older = plan.history.last().is_none_or(|entry| entry.at <= at);
        if is_older && !plan.history.iter().any(|entry| entry.text == text) {
            let note = Record::Note { at, text };
            if plan.apply(&note).is_ok() {
                self.records.push(note);
            }
        }
        plan
    }

    /// Goes on from where the plan was read. If something of it was interrupted because a world has
    /// died, its history names that world.
    pub(super) fn go_on_as_read(&mut self) {
        let (now, began) = (self.world.now(), self.world.began());
        let is_first_life = |plan: &Plan| plan.history.last().is_some_and(|entry| entry.at > began);
        let dead = self.plan.as_ref().filter(|plan| !is_first_life(plan));
        let dead = dead.and_then(|_| self.world.died_before());
        let known = self.records.len();
        let unclean_ends_max = self.world.unclean_ends_max(self.id);
        let Some(mut decisions) = self.decisions() else { return };
        decisions.loaded(unclean_ends_max);
        let Some(dead) = dead.filter(|_| self.records.len() > known) else { return };
        let text = format!("world {} goes on after {dead}, which has died", self.world.epoch());
        let note = Record::Note { at: now, text };
        if self.plan.as_mut().is_some_and(|plan| Arc::make_mut(plan).apply(&note).is_ok()) {
            self.records.push(note);
        }
    }

    /// Why nothing is done here, if another world owns the plan.
    pub(super) fn moved(&self) -> Option<StoreError> {
        let newest = self.world.journal().directory().owner(self.id);
        let epoch = self.world.epoch();
        (newest != epoch).then_some(StoreError::Fenced { epoch, newest })
    }
}
