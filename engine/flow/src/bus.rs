//! The event bus of a world: listeners, and flows that an event starts.
//!
//! The plans store listeners and correlations. The bus has an index of them in memory
//! (`listeners.rs`), built from the stored plans at a start, and when this world gets plans of
//! another one. The plans that take an event keep it; an event without a listener is counted and
//! dropped. Each world notifies its own listeners, and the publisher asks all worlds that run flows
//! to do so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde_json::{json, Value};
use turnwheel_engine::connect::ConnectError;
use turnwheel_engine::internal::{self, key_of_cause, unanswered, Delivered};
use turnwheel_engine::plan::{Plan, PlanState, StepState};
use turnwheel_engine::store::Filter as PlanFilter;
use turnwheel_engine::{
    Action, Payload, PlanError, PlanId, PlanView, StepId, StoreError, TriggerOptions, World,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Completer;

use crate::bench::Bench;
use crate::definition::Definition;
use crate::event::CloudEvent;
use crate::expr::Template;
use crate::flows::{labelled, FlowError};
use crate::interest::{agrees, Interests, Meant};
use crate::life::TYPES;
use crate::limits::RECENT_TAKERS;
use crate::listeners::{Expected, Listeners, Place, TaskKey};
use crate::model::{Filter, Kind, Start, Strategy, Task};
use crate::pattern::Pattern;
use crate::recent::{Published, Recent, RecentEvent, Taker};
use crate::run::{
    FlowPlan, FlowStart, FlowStarter, FlowTask, Notice, TaskInput, TaskOutput, STARTS,
};
use crate::scope::Stage;

/// Plans that a start looks at at once.
const PAGE: usize = 512;

/// Maximum number of rounds of requests while worlds come and go.
const PASSES_MAX: usize = 8;

/// Time limit of a world for notifying its listeners.
const ANSWER: std::time::Duration = std::time::Duration::from_secs(30);

/// Pause between two rounds.
const AGAIN: std::time::Duration = std::time::Duration::from_millis(20);

/// The listeners of events.
#[derive(Debug, Default)]
pub(crate) struct Bus {
    listeners: Mutex<Listeners>,
    unheard: AtomicU64,
    /// Filters that could not be evaluated, once for each event.
    unclear: AtomicU64,
    recent: Mutex<Recent>,
    /// Publishers that wait until the listeners are known.
    early: Mutex<Early>,
}

/// Publishers that wait until the listeners are known.
#[derive(Debug)]
enum Early {
    Waiting(Vec<Completer<()>>),
    Known,
}

impl Default for Early {
    fn default() -> Self {
        Self::Waiting(Vec::new())
    }
}

impl Bus {
    /// A step listens from now on, or expects something else than before.
    pub(crate) fn listen(
        &self,
        place: (PlanId, StepId),
        definition: &Definition,
        task: &Task,
        expects: Expected,
    ) {
        let Kind::Listen(it) = &task.kind else { return };
        let key = (definition.hash.clone(), task.pointer.clone());
        let interests = || Interests::new(definition, &it.strategy);
        self.listeners.lock().insert(place, key, expects, interests);
    }

    /// An entry of a plan is durable: steps that are over, or whose plan is, listen no more.
    pub(super) fn settled(&self, plan: &Plan) {
        self.listeners.lock().retain(plan.id, |step| listens(plan, step));
    }

    /// Other worlds have plans of this one: their steps listen there.
    pub(super) fn keep_only(&self, owns: &dyn Fn(PlanId) -> bool) {
        self.listeners.lock().keep_only(owns);
    }

    /// Steps that listen.
    pub(super) fn listeners(&self) -> usize {
        self.listeners.lock().len()
    }

    pub(crate) fn unheard(&self) -> u64 {
        self.unheard.load(Ordering::Relaxed)
    }

    pub(crate) fn unclear(&self) -> u64 {
        self.unclear.load(Ordering::Relaxed)
    }

    /// The newest published events, newest first.
    pub(crate) fn recent(&self, limit: usize) -> Vec<RecentEvent> {
        self.recent.lock().newest(limit)
    }

    /// A filter could not be evaluated on an event.
    pub(super) fn count_unclear(&self) {
        self.unclear.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until it is known who listens: a plan that goes on after a start may publish before that.
    async fn known(&self) {
        let (completer, known) = completion();
        match &mut *self.early.lock() {
            Early::Waiting(waiting) => waiting.push(completer),
            Early::Known => return,
        }
        // It ends in any case: with the world at last.
        let _ended = known.await;
    }

    pub(super) fn become_known(&self) {
        let before = std::mem::replace(&mut *self.early.lock(), Early::Known);
        if let Early::Waiting(waiting) = before {
            for completer in waiting {
                let _gone = completer.complete(());
            }
        }
    }

    /// From now on events wait until it is known who listens.
    pub(super) fn become_unknown(&self) {
        let mut early = self.early.lock();
        if matches!(*early, Early::Known) {
            *early = Early::default();
        }
    }

    /// Tells all worlds over the store of an event.
    pub(crate) async fn publish(
        &self,
        bench: &Bench,
        world: &World,
        event: CloudEvent,
    ) -> Result<Published, FlowError> {
        let unable = |problem: String| FlowError::Unable { flow: event.key(), problem };
        let own = world.id();
        let payload = Payload::of(&event).map_err(|error| unable(error.to_string()))?;
        let mut published = Published::default();
        // Steps and plans of earlier passes: in the next one they say that they had it before.
        let (mut steps, mut plans) = (0, BTreeSet::new());
        for _ in 0..PASSES_MAX {
            let mut others = internal::worlds_with(world, FlowPlan::NAME);
            let runs_plans = internal::runs_plans(world);
            if others.is_empty() && !runs_plans {
                let what = "events".to_owned();
                return Err(FlowError::passing(&ConnectError::NoExecutor { what }));
            }
            others.retain(|other| *other != own);
            steps += published.delivered;
            plans.append(&mut published.begun);
            published = Published::default();
            if runs_plans {
                published = self.tell(bench, world, &event).await?;
            }
            let mut has_changed = false;
            for other in others {
                match internal::publish_to(world, other, payload.clone(), ANSWER).await {
                    Ok(heard) => {
                        let heard = heard?;
                        published.delivered += heard.delivered;
                        published.undecided += heard.undecided;
                        published.repeated += heard.repeated;
                        published.started.extend(heard.started);
                        published.begun.extend(heard.begun);
                    }
                    // Others have its plans now: they are told in the next pass, and who has got the
                    // event already gets it once.
                    Err(
                        ConnectError::Unknown { .. }
                        | ConnectError::Gone { .. }
                        | ConnectError::Ending { .. },
                    ) => has_changed = true,
                    Err(error) => return Err(FlowError::passing(&error)),
                }
            }
            if !has_changed {
                break;
            }
            internal::pause(world, AGAIN).await;
        }
        published.started.sort_unstable();
        published.started.dedup();
        let own = published.repeated.min(steps);
        published.delivered += own;
        published.repeated -= own;
        published.begun.append(&mut plans);
        // Another world may have begun a plan that this one has found.
        published.repeated += published.started.len().saturating_sub(published.begun.len());
        let is_unheard = published.is_unheard();
        // Each task has events of its life cycle: those that nobody waits for are no news.
        if !(is_unheard && event.kind.starts_with(TYPES)) {
            self.recent.lock().add(internal::now(world), &event, &published);
        }
        if is_unheard {
            self.unheard.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(event = event.key(), kind = event.kind, "nobody waits for an event");
        }
        Ok(published)
    }

    /// Tells those who listen in this world.
    pub(super) async fn tell(
        &self,
        bench: &Bench,
        world: &World,
        event: &CloudEvent,
    ) -> Result<Published, FlowError> {
        self.known().await;
        let fields = event.to_value();
        let tasks = self.listeners.lock().tasks_for(event);
        let judged: Vec<_> = tasks
            .into_iter()
            .map(|(key, interests)| (key, interests.judge(event, &fields)))
            .filter(|(_, judged)| !judged.is_empty())
            .collect();
        // In the order of the plans, so that a simulation is the same again.
        let mut found = BTreeMap::new();
        let takers: Vec<(Place, TaskKey)> = {
            let listeners = self.listeners.lock();
            judged.iter().for_each(|(key, it)| listeners.steps_for(key, it, &mut found));
            let named = |place: &Place| Some((*place, listeners.task_of(*place)?.clone()));
            found.keys().filter_map(named).take(RECENT_TAKERS).collect()
        };
        let mut published = Published::default();
        let notice = Notice::Event(Box::new(event.clone()));
        let mut deliveries = Vec::new();
        for ((plan, step), meant) in found {
            let delivery = internal::offer(world, plan, step, &event.key(), &notice);
            deliveries.push((plan, step, meant, delivery));
        }
        // One plan that does not take it keeps it from no other. A sender that publishes it again
        // after an error reaches the others once.
        let mut problem: Option<FlowError> = None;
        for (plan, step, meant, delivery) in deliveries {
            match delivery.await {
                Ok(Ok(Delivered::Before)) => published.repeated += 1,
                Ok(Ok(Delivered::Now)) => {
                    published.delivered += 1;
                    let taker = takers.iter().find(|(place, _)| *place == (plan, step));
                    published.takers.extend(taker.map(|taker| taker_of(bench, taker)));
                    published.undecided += usize::from(meant == Meant::Open);
                }
                Ok(Err(PlanError::State { .. } | PlanError::Unknown(_))) => {
                    // It was over before it was asked.
                    self.listeners.lock().remove((plan, step));
                }
                // It is a dead letter: a damaged plan never takes it.
                Ok(Err(PlanError::Store(StoreError::Corrupt(why)))) => {
                    tracing::warn!(%plan, why, "a damaged flow does not hear an event");
                }
                Ok(Err(error)) => problem = problem.or(Some(error.into())),
                Err(failure) => {
                    problem = problem.or_else(|| Some(FlowError::passing(&unanswered(&failure))));
                }
            }
        }
        for flow in bench.started_by_events() {
            let Some(Start::On(strategy)) = &flow.definition().schedule else { continue };
            if !self.begins(flow.definition(), strategy, event) {
                continue;
            }
            let key = format!("event:{}:{}", flow.hash(), event.key());
            let options =
                key_of_cause(TriggerOptions::new(), key).by(format!("the event {}", event.key()));
            let options = labelled(&flow, options);
            let start = flow.start(json!([fields]));
            let asked = world.trigger_with::<FlowPlan>(options, start);
            let asked_as = internal::asked_as(&asked);
            match asked.await {
                Ok(plan) => {
                    published.started.push(plan.id());
                    // Its key has begun another one before.
                    if asked_as == Some(plan.id()) {
                        published.begun.insert(plan.id());
                    }
                }
                Err(error) => problem = problem.or(Some(error.into())),
            }
        }
        problem.map_or(Ok(published), Err)
    }

    /// Whether an event starts a flow: one event does, so that nothing has to be remembered in between.
    fn begins(&self, definition: &Definition, strategy: &Strategy, event: &CloudEvent) -> bool {
        let filters = match strategy {
            Strategy::One(filter) => std::slice::from_ref(filter),
            Strategy::Any { filters, .. } if filters.is_empty() => {
                return !event.kind.starts_with(TYPES);
            }
            Strategy::Any { filters, .. } => filters.as_slice(),
            // Those collect events.
            Strategy::All(_) => return false,
        };
        filters.iter().any(|filter| self.starts(definition, filter, event))
    }

    fn starts(&self, definition: &Definition, filter: &Filter, event: &CloudEvent) -> bool {
        let mut expressions = Vec::new();
        for (name, wanted) in &filter.with {
            let Some(value) = event.attribute(name) else { return false };
            match wanted {
                Template::Expression(text) => expressions.push((text, value)),
                Template::Fixed(wanted) if Pattern::new(wanted).fits(&value) => {}
                _ => return false,
            }
        }
        let names = Stage::Definition { is_effect: false }.names(&[]);
        let nothing = vec![&Value::Null; names.len()];
        expressions.into_iter().all(|(text, value)| {
            let program = definition.program(text, &names).map_err(|fault| fault.to_string());
            match program
                .and_then(|it| it.run(&value, &nothing, 0.0).map_err(|why| why.to_string()))
            {
                Ok(answer) => agrees(&answer, &value),
                Err(problem) => {
                    self.count_unclear();
                    let (flow, event) = (&definition.name, event.key());
                    tracing::warn!(
                        flow,
                        event,
                        filter = text,
                        problem,
                        "a flow that events start cannot evaluate its filter: it is not started"
                    );
                    false
                }
            }
        })
    }
}

/// A step that has got an event, with the names of its flow and task.
fn taker_of(bench: &Bench, (place, (hash, task)): &(Place, TaskKey)) -> Taker {
    let named = |it: &Definition| format!("{}/{}:{}", it.namespace, it.name, it.version);
    let flow = bench.definition(hash).ok().map(|it| named(&it)).unwrap_or_default();
    Taker::new(*place, flow, task.clone())
}

/// Plans that are asked at once: reading one after the other would make a start wait for each of them.
const AT_ONCE: usize = 64;

/// Asks all plans that run for the steps that wait for events.
pub(crate) async fn recover(bench: &Bench, world: &World) -> Result<(), StoreError> {
    // Before the list is read: rows that are not written yet may be by then. While the store takes
    // no writes the list lacks these plans.
    let behind = internal::plans_behind(world);
    for some in behind.chunks(AT_ONCE) {
        ask(bench, world, some.iter().copied()).await?;
    }
    for action in [FlowPlan::NAME, FlowStarter::NAME] {
        let mut before = None;
        loop {
            let filter = PlanFilter {
                states: vec![PlanState::Running, PlanState::Paused],
                action: Some(action.to_owned()),
                before,
                limit: PAGE,
                ..PlanFilter::default()
            };
            let rows = world.list(filter).await;
            let rows = rows.map_err(|error| StoreError::Failed(error.to_string()))?;
            for some in rows.chunks(AT_ONCE) {
                ask(bench, world, some.iter().map(|row| row.id)).await?;
            }
            before = rows.last().map(|row| row.id);
            if rows.len() < PAGE {
                break;
            }
        }
    }
    bench.bus.become_known();
    Ok(())
}

/// Adds the steps of some plans that listen.
async fn ask(
    bench: &Bench,
    world: &World,
    plans: impl Iterator<Item = PlanId>,
) -> Result<(), StoreError> {
    // All are asked before the first answer is waited for.
    let views: Vec<_> = plans.map(|plan| world.plan(plan).view()).collect();
    for view in views {
        match view.await {
            Ok(view) => remember(bench, &view),
            // Without it the plan would be deaf for as long as the world lives.
            Err(PlanError::Store(error @ StoreError::Failed(_))) => return Err(error),
            Err(error) => tracing::debug!(%error, "a plan hears no events"),
        }
    }
    Ok(())
}

/// Whether plans of this action have steps that listen.
pub(super) fn is_flow(action: &str) -> bool {
    action == FlowPlan::NAME || action == FlowStarter::NAME
}

/// Whether a step of a plan takes events.
fn listens(plan: &Plan, step: StepId) -> bool {
    let is_over = !matches!(plan.state, PlanState::Running | PlanState::Paused);
    let takes =
        |state| matches!(state, StepState::Suspended | StepState::Running | StepState::Retrying);
    !is_over && plan.find_step(step).is_some_and(|step| takes(step.state))
}

/// Adds the steps of a plan that listen, as the store has them.
pub(super) fn remember(bench: &Bench, view: &PlanView) {
    let start = view.root().filter(|root| is_flow(&root.name));
    let start = start.and_then(|root| root.input.read::<FlowStart>().ok());
    let Some(definition) = start.and_then(|start| bench.definition(&start.definition).ok()) else {
        return;
    };
    for step in view.steps.iter().filter(|step| listens(view, step.id)) {
        let action = view.action(step.action);
        let place = (view.id, step.id);
        let task = |at: &str| definition.by_pointer.get(at).map(|id| definition.task(*id));
        match action.name.as_str() {
            FlowTask::NAME => {
                let at = action.input.read::<TaskInput>().ok().map(|input| input.at);
                let Some(task) = at.and_then(|at| task(&at)) else { continue };
                let Kind::Listen(it) = &task.kind else { continue };
                let cursor = action.output.read::<TaskOutput>().ok().and_then(|it| it.cursor);
                let Some(listening) = cursor.and_then(|cursor| cursor.listening) else { continue };
                bench.bus.listen(place, &definition, task, listening.expects(&it.strategy));
            }
            FlowStarter::NAME => {
                let Some(task) = task(STARTS) else { continue };
                bench.bus.listen(place, &definition, task, Vec::new());
            }
            _ => {}
        }
    }
}
