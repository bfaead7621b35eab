//! Effects of a plan's actor on the outside, when the records that request them are durable.

use std::sync::Arc;

use turnwheel_actors::{Context, Handler};
use turnwheel_runtime::Completer;

use super::decide::Effect;
use super::message::{BeginChild, Begun, Delay, Follow, PlanEnded, PlannedNow};
use super::plans::as_principal;
use super::traced::trace_end;
use super::{on_pool, PlanActor};
use crate::connect::Word;
use crate::error::{unanswered, ActionError, StoreError, TriggerError, UNKNOWN_ACTION};
use crate::id::PlanId;
use crate::limits::LABELS_MAX;
use crate::payload::Payload;
use crate::plan::{
    Created, Plan, PlanResult, PlanState, Planned, Record, SubPlan, SubPlanLabels, Trace,
};
use crate::world::Shared;

impl PlanActor {
    /// Does what was asked for, in its order.
    pub(super) fn carry_out(&mut self, mut effects: Vec<Effect>, cx: &mut Context<'_, Self>) {
        if !effects.is_empty() {
            self.is_busy_now();
        }
        let is_at_rest = self.world.is_plan_at_rest(self.id);
        for effect in effects.drain(..) {
            match effect {
                // A plan at rest calls nothing: the next world that loads the plan finds the call
                // again.
                Effect::Begin(_)
                | Effect::ReadPage(_)
                | Effect::PlanNow
                | Effect::PlanAgain
                | Effect::TellHooks
                | Effect::Send(_)
                | Effect::Finalize
                    if is_at_rest => {}
                Effect::Call(step) => self.call(step, cx),
                Effect::Begin(plan) => self.begin_child(plan, cx),
                Effect::ReadPage(step) => self.read_next_page(step, cx),
                Effect::CancelPlan(plan) => self.cancel_child(plan),
                Effect::Follow(plan) => self.tell_plan(plan, Word::Follow { follower: self.id }),
                Effect::PlanNow => self.plan_now(cx),
                Effect::PlanAgain => self.plan_again(cx),
                Effect::TellEnd => self.tell_end(),
                Effect::TraceEnd => self.plan.iter().for_each(|plan| trace_end(plan)),
                Effect::TellEndTo(plan) => self.tell_end_to(plan),
                Effect::TellHooks => self.tell_hooks(cx),
                Effect::Send(event) => self.send_event(event, cx),
                Effect::Finalize => self.finalize(cx),
            }
        }
        self.spare_effects = effects;
    }

    /// Says something to another plan, in whichever world that is.
    pub(super) fn tell_plan(&self, plan: PlanId, word: Word) {
        let myself = self.id;
        // A message that could not be sent is requested again, by this plan.
        self.world.tell_plan(plan, word, move |world| world.ask_again_later(myself));
    }

    fn begin_child(&mut self, child: PlanId, cx: &mut Context<'_, Self>) {
        let Some(plan) = self.plan.as_mut().map(Arc::make_mut) else { return };
        if plan.children.unwanted().contains(&child) {
            return;
        }
        let (action, input, labels) = match plan.children.contents(child) {
            None => return,
            Some(Ok(SubPlan { action, input, labels, .. })) => (action, input, labels),
            Some(Err(page)) => return self.begin_from_page(child, page, cx),
        };
        let Some(step) = plan.children.find(child).map(|child| child.step) else { return };
        let mut lineage = plan.created.lineage.clone();
        lineage.push(self.id);
        // Sub-plans of a plan with a trace of its own find that by their lineage.
        let given = plan.created.trace.as_ref();
        let trace = given.map(|_| Trace::of(&plan.trace_of_call(plan.step(step))));
        let (priority, labels) = (plan.created.priority, labels_of(plan, &labels));
        let caller = (self.id, step);
        let word = Word::Begin { caller, lineage, trace, action, input, priority, labels };
        self.tell_plan(child, word);
    }

    fn cancel_child(&mut self, child: PlanId) {
        let by = as_principal(self.id);
        let is_forced =
            self.plan.as_ref().and_then(|plan| plan.cancel.as_ref()).is_some_and(|c| c.is_forced);
        self.tell_plan(child, Word::Cancel { is_forced, by });
    }

    /// Tells who waits for the end of this plan: the plan that has asked for it, and its followers.
    fn tell_end(&self) {
        let caller = self.plan.as_ref().and_then(|plan| plan.created.caller);
        let followers = self.world.journal().followers().of(self.id);
        for waiting in caller.map(|(caller, _)| caller).into_iter().chain(followers) {
            self.tell_end_to(waiting);
        }
    }

    fn tell_end_to(&self, waiting: PlanId) {
        if let Some(plan) = self.plan.as_ref().filter(|plan| plan.state == PlanState::Stopped) {
            let result = plan.result();
            self.tell_plan(waiting, Word::Ended { plan: self.id, result });
        }
    }

    fn plan_now(&mut self, cx: &mut Context<'_, Self>) {
        let Some(plan) = self.plan.as_ref().filter(|_| !self.is_planning) else { return };
        let (action, input) = (plan.created.action.clone(), plan.created.input.clone());
        self.plan_on_pool(action, input, None, None, cx);
    }

    /// Plans where it may take its time.
    pub(super) fn plan_on_pool(
        &mut self,
        action: String,
        input: Payload,
        created: Option<Box<Created>>,
        reply: Option<Completer<Result<Begun, TriggerError>>>,
        cx: &mut Context<'_, Self>,
    ) {
        self.is_planning = true;
        let (id, world) = (self.id, Arc::clone(&self.world));
        let planning = move || plan_by_name(&world, id, &action, &input);
        cx.pipe(on_pool(cx.group(), planning), move |planned| {
            let planned = planned
                .unwrap_or_else(|failure| Err(ActionError::new("failure", unanswered(&failure))));
            PlannedNow { created, planned: planned.map(Box::new), reply }
        });
    }
}

/// The labels of a plan that another one asks for.
fn labels_of(plan: &Plan, wanted: &SubPlanLabels) -> Vec<(String, String)> {
    let mut labels = wanted.own.clone();
    if wanted.is_inheriting {
        let is_new = |name: &String| !wanted.own.iter().any(|(own, _)| own == name);
        let inherited = plan.labels.iter().filter(|(name, _)| is_new(name));
        labels.extend(inherited.map(|(name, value)| (name.clone(), value.clone())));
    }
    if labels.len() > LABELS_MAX {
        let left_out = labels.len() - LABELS_MAX;
        tracing::warn!(plan = %plan.id, left_out, "a plan does not inherit all labels");
        labels.truncate(LABELS_MAX);
    }
    labels
}

/// Plans an action that is known by its name.
fn plan_by_name(
    world: &Shared,
    id: PlanId,
    name: &str,
    input: &Payload,
) -> Result<Planned, ActionError> {
    let Some(action) = world.registry().find(name) else {
        let message = format!("no action «{name}» is registered with this world");
        return Err(ActionError::new(UNKNOWN_ACTION, message).and_final());
    };
    Ok(action.plan(world.registry(), id, input, &|| world.now()))
}

impl Handler<Delay> for PlanActor {
    type Reply = ();

    fn handle(&mut self, message: Delay, cx: &mut Context<'_, Self>) {
        if cx.is_closing() {
            return self.pass_on(message);
        }
        let Delay { created, delayed, reply } = message;
        if let Some(error) = &self.unreadable {
            let _late = reply.complete(Err(TriggerError::Store(error.clone())));
            return cx.passivate();
        }
        if self.plan.is_some() || self.is_planning {
            let _late = reply.complete(Err(TriggerError::Exists(self.id)));
            return;
        }
        self.begin_with(created, delayed, None, Some(reply), cx);
    }
}

impl Handler<BeginChild> for PlanActor {
    type Reply = ();

    fn handle(&mut self, message: BeginChild, cx: &mut Context<'_, Self>) {
        if cx.is_closing() {
            return self.pass_on(message);
        }
        if let Some(error) = &self.unreadable {
            // It may exist, and must not be begun a second time. If the store only failed to answer, the
            // plan that asks for it does so again; of a damaged one it is told when somebody ends
            // it.
            match error {
                StoreError::Failed(_) => self.world.ask_again_later(message.caller.0),
                StoreError::Corrupt(_) => self.world.callers().note(self.id, message.caller),
                _ => {}
            }
            return cx.passivate();
        }
        if self.plan.is_some() || self.is_planning {
            // It was asked for again: if it is over, that was not heard.
            self.effects.push(Effect::TellEndTo(message.caller.0));
            return self.settle(cx);
        }
        let BeginChild { caller, lineage, trace, action, input, priority, labels } = message;
        let own = self.world.registry().find(&action).and_then(|action| action.priority());
        let created = Created {
            at: self.world.now(),
            action: action.clone(),
            input: input.clone(),
            caller: Some(caller),
            lineage,
            key: None,
            labels,
            by: format!("step {} of plan {}", caller.1, caller.0),
            priority: own.unwrap_or(priority),
            deadline: None,
            trace,
        };
        self.plan_on_pool(action, input, Some(Box::new(created)), None, cx);
        cx.hold();
    }
}

impl Handler<PlannedNow> for PlanActor {
    type Reply = ();

    fn handle(&mut self, message: PlannedNow, cx: &mut Context<'_, Self>) {
        self.is_planning = false;
        let PlannedNow { created, planned, reply } = message;
        let now = self.world.now();
        let next = match planned {
            Ok(planned) => Record::Planned(planned),
            Err(error) => Record::NotPlanned { at: now, error },
        };
        match created {
            Some(created) => self.begin_with(created, next, None, reply, cx),
            None => {
                let mut next = next;
                if let Some(plan) = &self.plan {
                    self.admit(&mut next, &plan.created);
                }
                if let Some(mut decisions) = self.decisions() {
                    match decisions.plan.state {
                        PlanState::Running => decisions.planned_again(next),
                        _ => decisions.planned_now(next),
                    }
                }
                self.settle(cx);
            }
        }
        self.hear_what_came_early();
    }
}

impl Handler<PlanEnded> for PlanActor {
    type Reply = ();

    fn handle(&mut self, message: PlanEnded, cx: &mut Context<'_, Self>) {
        if cx.is_closing() {
            return self.pass_on(message);
        }
        let PlanEnded { plan, result } = message;
        if let Some(mut decisions) = self.decisions() {
            decisions.plan_ended(plan, result);
        }
        self.settle(cx);
    }
}

impl Handler<Follow> for PlanActor {
    type Reply = ();

    fn handle(&mut self, message: Follow, cx: &mut Context<'_, Self>) {
        if cx.is_closing() {
            return self.pass_on(message);
        }
        if self.is_unborn() {
            return self.hear_later(message);
        }
        let Follow { follower } = message;
        if self.unreadable.is_some() {
            // It exists: waiters are answered when it can be read again, or is ended by an
            // operator.
            return cx.passivate();
        }
        if self.plan.is_none() {
            // A plan that does not exist is never over: the follower must not wait for it.
            let (plan, result) = (self.id, PlanResult::Cancelled);
            self.tell_plan(follower, Word::Ended { plan, result });
            return self.settle(cx);
        }
        let is_caller = self
            .plan
            .as_ref()
            .and_then(|plan| plan.created.caller)
            .is_some_and(|it| it.0 == follower);
        if !is_caller && self.world.journal().lease().is_some() {
            // It may be of another node.
            self.world.journal().followers().add(self.id, follower);
        }
        // The follower is stored, so it is notified at the end; it may have asked after that.
        self.effects.push(Effect::TellEndTo(follower));
        self.settle(cx);
    }
}
