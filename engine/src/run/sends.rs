//! Events from steps to other plans: recorded first, delivered when that is durable, then struck
//! off.

use turnwheel_actors::{Context, Handler};

use super::decide::{Decisions, Effect};
use super::PlanActor;
use crate::error::PlanError;
use crate::id::{PlanId, StepId};
use crate::payload::Payload;
use crate::plan::{DeliveredEvent, EventTarget, PlanState, Record, SentEvent};
use crate::store::Filter;
use crate::world::World;

/// An attempt to deliver an event has ended.
pub(super) struct SendEnded {
    number: u32,
    outcome: Sending,
}

/// Outcome of an attempt to deliver an event.
enum Sending {
    Delivered,
    /// It cannot be delivered.
    GivenUp(String),
    /// It is tried again later.
    Again,
}

impl Decisions<'_> {
    /// A call of a step has sent events.
    pub(super) fn send_events(
        &mut self,
        step: StepId,
        events: Vec<(EventTarget, &'static str, String, Payload)>,
    ) {
        for (to, action, id, payload) in events {
            if self.plan.is_sending(&id) {
                continue;
            }
            let (number, action) = (self.plan.last_sent + 1, action.to_owned());
            let event = SentEvent { number, at: self.now, step, to, action, id, payload };
            self.record(Record::Sent(Box::new(event)));
            self.effects.push(Effect::Send(number));
        }
    }

    /// Events of a plan that was read, or whose delivery has failed.
    pub(super) fn send_again(&mut self) {
        self.effects.extend(self.plan.undelivered().map(Effect::Send));
    }
}

impl PlanActor {
    /// Sends an event, unless it is on its way.
    pub(super) fn send_event(&mut self, number: u32, cx: &mut Context<'_, Self>) {
        let event = self.plan.as_ref().and_then(|plan| plan.sent_event(number)).cloned();
        let Some(event) = event.filter(|_| self.sending.insert(number)) else { return };
        let (world, from) = (World::of(&self.world), self.id);
        let sent = async move { deliver(&world, from, event).await };
        cx.pipe(sent, move |outcome| SendEnded { number, outcome });
    }
}

impl Handler<SendEnded> for PlanActor {
    type Reply = ();

    fn handle(&mut self, SendEnded { number, outcome }: SendEnded, cx: &mut Context<'_, Self>) {
        self.sending.remove(&number);
        let problem = match outcome {
            Sending::Delivered => None,
            Sending::GivenUp(problem) => Some(problem),
            Sending::Again => {
                self.world.ask_again_later(self.id);
                return self.settle(cx);
            }
        };
        if let Some(mut decisions) = self.decisions() {
            let at = decisions.now;
            let delivered = DeliveredEvent { at, number, problem };
            decisions.record(Record::Delivered(Box::new(delivered)));
        }
        self.settle(cx);
    }
}

/// States of plans that are not stopped.
const LIVE: [PlanState; 6] = [
    PlanState::Pending,
    PlanState::Scheduled,
    PlanState::Planning,
    PlanState::Planned,
    PlanState::Running,
    PlanState::Paused,
];

async fn deliver(world: &World, from: PlanId, event: SentEvent) -> Sending {
    let plan = match target(world, &event.to).await {
        Ok(plan) => plan,
        Err(outcome) => return outcome,
    };
    let view = match world.plan(plan).view().await {
        Ok(view) => view,
        Err(error) => return failed(error),
    };
    let mut actions = view.actions.iter().filter(|action| action.name == event.action);
    let Some(step) = actions.find_map(|action| action.run_step) else {
        return Sending::GivenUp(format!("plan {plan} has no step of «{}»", event.action));
    };
    let (by, payload) = (Some(format!("plan {from}")), Ok(event.payload));
    match world.deliver(plan, step, Some(&event.id), payload, by).await {
        Ok(Ok(())) => Sending::Delivered,
        Ok(Err(error)) => failed(error),
        Err(_) => Sending::Again,
    }
}

fn failed(error: PlanError) -> Sending {
    match error {
        PlanError::Store(_)
        | PlanError::Connect { .. }
        | PlanError::TimedOut { .. }
        | PlanError::Refused { .. } => Sending::Again,
        error => Sending::GivenUp(error.to_string()),
    }
}

/// The plan that an event is for.
async fn target(world: &World, to: &EventTarget) -> Result<PlanId, Sending> {
    match to {
        EventTarget::Plan(plan) => Ok(*plan),
        EventTarget::Key(key) => match world.find(key).await {
            Ok(Some(plan)) => Ok(plan.id()),
            Ok(None) => Err(Sending::GivenUp(format!("no plan has the key «{key}»"))),
            Err(_) => Err(Sending::Again),
        },
        EventTarget::Label(name, value) => {
            let labels = vec![(name.clone(), Some(value.clone()))];
            let states = LIVE.to_vec();
            let filter = Filter { labels, states, limit: 2, ..Filter::default() };
            // A row that is not written yet must not make an event undeliverable.
            match world.list_now(filter).await.as_deref() {
                Ok([one]) => Ok(one.id),
                Ok(found) => {
                    let many = if found.is_empty() { "no plan has" } else { "several plans have" };
                    Err(Sending::GivenUp(format!("{many} the label «{name}» with «{value}»")))
                }
                Err(_) => Err(Sending::Again),
            }
        }
    }
}
