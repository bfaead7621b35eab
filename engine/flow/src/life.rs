//! Life-cycle events of flows and their tasks, as the DSL describes them.
//!
//! They are made from durable happenings, and published as all events are: other flows can listen
//! for them, by their types. A listener for all events does not get them: its own life-cycle events
//! would cause further ones without end. An event that is made again, by another world or after a
//! crash, has the same id.
//!
//! A retry of a task is the repeated begin of the tasks of a `try`: the first of them has a mark in
//! its input. A workflow correlates events while one of its tasks listens: from its first wait
//! until it has its events.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{json, Map, Value};
use turnwheel_engine::internal::{self, WeakWorld};
use turnwheel_engine::plan::{PlanResult, PlanState, StepKind, StepState};
use turnwheel_engine::watch::{Happening, WatchFilter, Watched, What};
use turnwheel_engine::{Action, ActionError, PlanId, PlanView, StepId, World};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Completer;

use crate::bench::Bench;
use crate::definition::Definition;
use crate::event::CloudEvent;
use crate::fault::Fault;
use crate::flows::{result, FlowEntry, FlowError, Flows};
use crate::limits::LIFE_AGAIN;
use crate::model::{Kind, TaskId};
use crate::run::{to_sinks, Cursor, FlowCommand, FlowRequest, FlowTask, TaskInput, TaskOutput};

/// The begin of the types of all of them.
pub(crate) const TYPES: &str = "io.serverlessworkflow.";

/// Tasks that listen and do not wait yet; of further ones it is not told when they begin to.
const BEGINNING_MAX: usize = 10_000;

/// State kept between two happenings.
#[derive(Debug, Default)]
struct Seen {
    view: Option<PlanView>,
    /// Tasks that listen, between their begin and their first waiting.
    beginning: HashSet<(PlanId, StepId)>,
}

/// Reader of what flows tell: the events that their tasks emit, and life-cycle events, made from
/// happenings. The same happening gives the same events, with the same ids.
#[derive(Debug)]
pub struct FlowEvents {
    bench: Arc<Bench>,
    world: World,
    has_life_cycle: bool,
    seen: Seen,
}

impl FlowEvents {
    /// Also life-cycle events, those of `io.serverlessworkflow.…`.
    #[must_use]
    pub fn with_life_cycle(mut self) -> Self {
        self.has_life_cycle = true;
        self
    }

    /// The events of a happening; none if its plan is of no flow, or is gone.
    ///
    /// Cost: the plan is read, once for the happenings of a plan that follow one another in a
    /// state.
    pub async fn of(&mut self, happening: &Happening) -> Vec<CloudEvent> {
        let mut all = Vec::new();
        if self.has_life_cycle {
            all = events(&self.bench, &self.world, happening, &mut self.seen).await;
        }
        all.extend(emitted(&self.bench, &self.world, happening, &mut self.seen).await);
        all
    }
}

impl Flows {
    /// A reader of what flows tell by what happens to their plans: see [`FlowEvents::of`].
    pub fn events(&self) -> FlowEvents {
        let (world, bench) = (self.world.clone(), Arc::clone(&self.bench));
        FlowEvents { bench, world, has_life_cycle: false, seen: Seen::default() }
    }
}

/// Publishes them as long as it is kept.
#[derive(Debug)]
#[must_use = "nothing is published any more when it is dropped"]
pub struct LifeCycle {
    _stop: Completer<()>,
}

/// Begins to publish, from now on.
pub(super) fn publish(world: &World, bench: Arc<Bench>) -> LifeCycle {
    let (stop, mut stopped) = completion::<()>();
    let mut watch = world.watch(WatchFilter::new().catching_up());
    let weak = WeakWorld::new(world);
    internal::spawn(world, async move {
        let mut seen = Seen::default();
        loop {
            let next = {
                let mut next = std::pin::pin!(watch.next());
                std::future::poll_fn(|cx| {
                    use std::future::Future;
                    if std::pin::Pin::new(&mut stopped).poll(cx).is_ready() {
                        return std::task::Poll::Ready(None);
                    }
                    next.as_mut().poll(cx)
                })
                .await
            };
            let happening = match next {
                None => return,
                Some(Ok(Watched::Happened(happening))) => happening,
                Some(Ok(_)) => continue,
                Some(Err(error)) if error.is_unreadable() => {
                    tracing::error!(%error, "life-cycle events are missing");
                    continue;
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, "life-cycle events come later");
                    let pause = weak.upgrade().map(|world| internal::sleep(&world, LIFE_AGAIN));
                    let Some(pause) = pause else { return };
                    if pause.await.is_err() {
                        return;
                    }
                    continue;
                }
            };
            let Some(world) = weak.upgrade() else { return };
            for event in events(&bench, &world, &happening, &mut seen).await {
                if let Err(error) = to_sinks(&bench, &world, &event).await {
                    tracing::warn!(%error, "a life-cycle event is not written down for its sinks");
                }
                if let Err(error) = bench.bus.publish(&bench, &world, event).await {
                    tracing::warn!(%error, "a life-cycle event is not published");
                }
            }
        }
    });
    LifeCycle { _stop: stop }
}

/// The plan, as it was read for an earlier happening, or later.
async fn view_of<'a>(
    kept: &'a mut Option<PlanView>,
    world: &World,
    plan: PlanId,
    step: StepId,
    to: StepState,
) -> Option<&'a PlanView> {
    let known = kept.as_ref().filter(|view| view.id == plan);
    let known = known.and_then(|view| view.find_step(step));
    if known.is_none_or(|known| known.state != to) {
        *kept = world.plan(plan).view().await.ok();
    }
    kept.as_ref().filter(|view| view.id == plan)
}

/// The event that a task has emitted.
async fn emitted(
    bench: &Bench,
    world: &World,
    happening: &Happening,
    seen: &mut Seen,
) -> Option<CloudEvent> {
    let What::Step { step, action, to: StepState::Success, kind: StepKind::Run, .. } =
        &happening.what
    else {
        return None;
    };
    if action != FlowTask::NAME {
        return None;
    }
    let told = Told::new(bench, happening)?;
    let (kept, to) = (&mut seen.view, StepState::Success);
    let view = view_of(kept, world, happening.plan, *step, to).await?;
    let (definition, task) = told.task_of(bench, view, *step).await?;
    if !matches!(definition.task(task).kind, Kind::Emit(_)) {
        return None;
    }
    let output = &view.action(view.find_step(*step)?.action).output;
    let outcome = output.read::<TaskOutput>().ok()?.outcome?;
    match outcome.emitted {
        Some(event) => Some(*event),
        None if outcome.is_skipped || outcome.fault.is_some() => None,
        None => CloudEvent::from_value(outcome.output).ok(),
    }
}

/// The events that are made of one thing that happened.
async fn events(
    bench: &Bench,
    world: &World,
    happening: &Happening,
    seen: &mut Seen,
) -> Vec<CloudEvent> {
    let Some(told) = Told::new(bench, happening) else { return Vec::new() };
    match &happening.what {
        What::Plan { from, to, result } => match (from, to) {
            (Some(PlanState::Paused), PlanState::Running) => {
                vec![told.workflow("resumed", "resumedAt", Map::new())]
            }
            (_, PlanState::Running) => {
                let definition = json!({
                    "name": told.entry.name, "namespace": told.entry.namespace,
                    "version": told.entry.version,
                });
                let more = Map::from_iter([("definition".to_owned(), definition)]);
                vec![told.workflow("started", "startedAt", more)]
            }
            (_, PlanState::Paused) => vec![told.workflow("suspended", "suspendedAt", Map::new())],
            (_, PlanState::Stopped) => told.ended(world, *result).await.into_iter().collect(),
            _ => Vec::new(),
        },
        What::Step { step, action, kind: StepKind::Run, from, to, .. }
            if [FlowTask::NAME, FlowCommand::NAME, FlowRequest::NAME]
                .contains(&action.as_str()) =>
        {
            let key = (happening.plan, *step);
            if *to == StepState::Suspended && seen.beginning.remove(&key) {
                let event = told.workflow("correlation-started", "startedAt", Map::new());
                return vec![event];
            }
            if !is_begin(*from, *to) && !is_end(*to) {
                return Vec::new();
            }
            let view = view_of(&mut seen.view, world, happening.plan, *step, *to).await;
            let Some(view) = view else { return Vec::new() };
            let mut events = told.task(view, *step, *from, *to);
            if told.listens(bench, view, *step).await {
                if is_begin(*from, *to) && seen.beginning.len() < BEGINNING_MAX {
                    seen.beginning.insert(key);
                } else if !seen.beginning.remove(&key) && *to == StepState::Success {
                    events.splice(0..0, told.correlated(view, *step));
                }
            }
            events
        }
        _ => Vec::new(),
    }
}

fn is_begin(from: StepState, to: StepState) -> bool {
    from == StepState::Pending && to == StepState::Running
}

fn is_end(to: StepState) -> bool {
    matches!(to, StepState::Success | StepState::Error | StepState::Cancelled | StepState::Dropped)
}

/// Whether an error is that of a task that takes too long.
fn is_late(error: &ActionError) -> bool {
    error.kind == Fault::timeout("").kind
}

/// The name of one run of a flow, as the specification writes it.
fn qualified(entry: &FlowEntry, plan: PlanId) -> String {
    format!("{}-{plan}.{}", entry.name, entry.namespace)
}

/// The task that is tried once more with this one, its first: `/do/0/a` of `/do/0/a/try/0/b`.
fn retried(input: &TaskInput) -> Option<&str> {
    let begin = input.at.rsplitn(3, '/').nth(2).filter(|_| input.is_retry)?;
    begin.strip_suffix("/try")
}

struct Told<'a> {
    happening: &'a Happening,
    name: String,
    entry: FlowEntry,
}

impl<'a> Told<'a> {
    /// Nothing if the plan is of no flow.
    fn new(bench: &Bench, happening: &'a Happening) -> Option<Self> {
        let entry =
            bench.index.lock().iter().find(|entry| entry.id() == happening.label).cloned()?;
        Some(Self { happening, name: qualified(&entry, happening.plan), entry })
    }

    fn event(&self, kind: &str, data: Map<String, Value>) -> CloudEvent {
        let id = format!("{}/{}/{kind}", self.happening.plan, self.happening.cursor);
        let source = format!("/{}/{}", self.entry.namespace, self.entry.name);
        let mut event = CloudEvent::new(id, source, format!("{TYPES}{kind}.v1"));
        event = event.data(Value::Object(data)).subject(self.happening.plan.to_string());
        event.time = Some(self.happening.at.to_string());
        event
    }

    fn workflow(&self, kind: &str, at: &str, mut data: Map<String, Value>) -> CloudEvent {
        data.insert("name".to_owned(), json!(self.name));
        data.insert(at.to_owned(), json!(self.happening.at.to_string()));
        self.event(&format!("workflow.{kind}"), data)
    }

    async fn ended(&self, world: &World, how: PlanResult) -> Option<CloudEvent> {
        let more = |name: &str, value: Value| Map::from_iter([(name.to_owned(), value)]);
        if how == PlanResult::Cancelled {
            return Some(self.workflow("cancelled", "cancelledAt", Map::new()));
        }
        let view = world.plan(self.happening.plan).view().await.ok()?;
        Some(match result(&view) {
            Ok(output) => self.workflow("completed", "completedAt", more("output", output)),
            Err(FlowError::Faulted(fault)) => {
                self.workflow("faulted", "faultedAt", more("error", fault.to_value()))
            }
            Err(_) => self.workflow("cancelled", "cancelledAt", Map::new()),
        })
    }

    /// Whether a step is a task that listens.
    async fn listens(&self, bench: &Bench, view: &PlanView, step: StepId) -> bool {
        let task = self.task_of(bench, view, step).await;
        task.is_some_and(|(definition, id)| matches!(definition.task(id).kind, Kind::Listen(_)))
    }

    /// The task of a step, unless the step is for what extends it.
    async fn task_of(
        &self,
        bench: &Bench,
        view: &PlanView,
        step: StepId,
    ) -> Option<(Arc<Definition>, TaskId)> {
        let input = &view.action(view.find_step(step)?.action).input;
        let input = input.read::<TaskInput>().ok().filter(|input| !input.is_extended)?;
        let definition = bench.definition_later(&self.entry.hash).await.ok()?;
        let id = *definition.by_pointer.get(&input.at)?;
        Some((definition, id))
    }

    /// It has the events that it listened for.
    fn correlated(&self, view: &PlanView, step: StepId) -> Option<CloudEvent> {
        let output = &view.action(view.find_step(step)?.action).output;
        let outcome = output.read::<TaskOutput>().ok()?.outcome?;
        if outcome.fault.is_some() {
            return None;
        }
        let keys = Value::Object(outcome.keys);
        let more = Map::from_iter([("correlationKeys".to_owned(), keys)]);
        Some(self.workflow("correlation-completed", "completedAt", more))
    }

    fn task(
        &self,
        view: &PlanView,
        step: StepId,
        from: StepState,
        to: StepState,
    ) -> Vec<CloudEvent> {
        let Some(step) = view.find_step(step) else { return Vec::new() };
        let action = view.action(step.action);
        let Ok(input) = action.input.read::<TaskInput>() else { return Vec::new() };
        let event = |kind: &str, at: &str, more: Option<(&str, Value)>| {
            let mut data = Map::from_iter(more.map(|(name, value)| (name.to_owned(), value)));
            data.insert("workflow".to_owned(), json!(self.name));
            data.insert("task".to_owned(), json!(input.at));
            data.insert(at.to_owned(), json!(self.happening.at.to_string()));
            self.event(&format!("task.{kind}"), data)
        };
        // A task that goes on in the next run of its plan has begun once, and is not over before.
        let goes_on = |from: &[Cursor]| from.first().is_some_and(|from| from.began != 0);
        if is_begin(from, to) && goes_on(&input.resume) {
            return Vec::new();
        }
        if is_begin(from, to) {
            let mut events: Vec<CloudEvent> = retried(&input)
                .map(|task| {
                    let data = json!({
                        "workflow": self.name, "task": task,
                        "retriedAt": self.happening.at.to_string(),
                    });
                    self.event("task.retried", data.as_object().cloned().unwrap_or_default())
                })
                .into_iter()
                .collect();
            events.push(event("created", "createdAt", None));
            events.push(event("started", "startedAt", None));
            return events;
        }
        match to {
            StepState::Success => {
                let outcome = action.output.read::<TaskOutput>().ok();
                let outcome = outcome.and_then(|output| output.outcome).unwrap_or_default();
                if goes_on(&outcome.goes_on) {
                    return Vec::new();
                }
                vec![match outcome.fault {
                    Some(fault) => event("faulted", "faultedAt", Some(("error", fault.to_value()))),
                    None => event("completed", "completedAt", Some(("output", outcome.output))),
                }]
            }
            // It takes too long, and is dropped after that.
            StepState::Error if step.error.as_ref().is_some_and(is_late) => {
                let fault = Fault::timeout("the task takes too long").from_task(&input.at);
                vec![event("faulted", "faultedAt", Some(("error", fault.to_value())))]
            }
            StepState::Dropped if from == StepState::Error => Vec::new(),
            StepState::Error | StepState::Cancelled | StepState::Dropped => {
                vec![event("cancelled", "cancelledAt", None)]
            }
            _ => Vec::new(),
        }
    }
}
