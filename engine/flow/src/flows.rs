//! Flows of a world: definitions, starts, events.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use turnwheel_engine::action::Action;
use turnwheel_engine::plan::PlanState;
use turnwheel_engine::store::Filter;
use turnwheel_engine::{
    internal, Named, Payload, PlanError, PlanId, PlanView, Queue, Schedule, ScheduleError,
    StoreError, TriggerError, TriggerOptions, Triggering, World, WorldBuilder,
};

use crate::bench::Bench;
use crate::definition::{Definition, Flow};
use crate::event::CloudEvent;
use crate::fault::Fault;
use crate::io::Io;
use crate::model::Start;
use crate::recent::{Published, RecentEvent};
use crate::run::{
    Delivery, FlowCommand, FlowPlan, FlowRequest, FlowStart, FlowStarter, FlowTask, Ordered,
    TaskOutput, REQUESTS,
};

/// The name under which definitions are among the states of entities.
pub(super) const STORED_AS: &str = "turnwheel.flow";

/// The key of the list of all definitions.
pub(super) const INDEX: &str = "index";

/// The labels of a flow's plan: its namespace, name and version.
const LABELS: [&str; 3] = ["flow.namespace", "flow.name", "flow.version"];

/// Plans that are asked for at once.
const LIVE_PAGE: usize = 1_000;

/// A definition that a world knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FlowEntry {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The hash of its content.
    pub hash: String,
}

impl FlowEntry {
    /// Its id: `namespace/name:version`.
    pub fn id(&self) -> String {
        format!("{}/{}:{}", self.namespace, self.name, self.version)
    }
}

/// Why a definition was not added, or a flow did not start.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// The world was built without flows.
    #[error("this world has no flows: build it with `WithFlows::flows`")]
    NoFlows,
    /// This version of it has another content.
    #[error("{0} is there already with another content: give it another version")]
    Exists(String),
    /// This version of it was removed and added with another content.
    #[error("{0} has another content than when it was read: read it again")]
    Changed(String),
    /// Nothing is known under this name.
    #[error("there is no flow {0}")]
    Unknown(String),
    /// Plans of it are not over, so it is not removed.
    #[error("{plans} plans of {flow} are not over, such as {plan}: wait for them or cancel them")]
    UnderWay {
        /// The flow.
        flow: String,
        /// Number of plans.
        plans: usize,
        /// One of them.
        plan: PlanId,
    },
    /// Schedules start it, so it is not removed.
    #[error(
        "{flow} is started by schedules: {schedules}; remove them or let them start another version, \
         or force the removal: they go on with the removed version then"
    )]
    Scheduled {
        /// The flow.
        flow: String,
        /// The names of the schedules.
        schedules: String,
    },
    /// It cannot run here.
    #[error("{flow} cannot run here: {problem}")]
    Unable {
        /// The flow.
        flow: String,
        /// Why.
        problem: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The plan could not be made or read.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The plan could not be made.
    #[error(transparent)]
    Trigger(#[from] turnwheel_engine::TriggerError),
    /// The plan is not one that can be retried.
    #[error("{0}")]
    NotRetried(String),
    /// Its schedule was refused.
    #[error("{0}")]
    Schedule(String),
    /// Nobody could do it at the moment. Asked for again it is done once.
    #[error("{0}: try again")]
    Passing(String),
    /// The flow has faulted.
    #[error("{0}")]
    Faulted(Box<Fault>),
    /// It was ended by somebody, or failed in a way that no flow can catch.
    #[error("the flow was ended: {0}")]
    Ended(String),
}

impl FlowError {
    pub(crate) fn passing(error: &dyn fmt::Display) -> Self {
        Self::Passing(error.to_string())
    }
}

/// A schedule that could not be stored for the moment is not one that is wrong.
impl From<ScheduleError> for FlowError {
    fn from(error: ScheduleError) -> Self {
        match error {
            ScheduleError::Store(error) => error.into(),
            ScheduleError::Refused(_) | ScheduleError::Changed(_) => Self::passing(&error),
            error => Self::Schedule(error.to_string()),
        }
    }
}

/// Flows for a world that is described.
pub trait WithFlows {
    /// Lets the world run flows, whose effects outside `io` has.
    #[must_use]
    fn flows(self, io: impl Io) -> Self;
}

impl WithFlows for WorldBuilder {
    fn flows(self, io: impl Io) -> Self {
        let bench = Arc::new(Bench::new(io));
        let with = |bench: &Arc<Bench>| Arc::clone(bench);
        let requests = Queue::new(REQUESTS).size(bench.io.requests_max()).only_blocking();
        internal::with_plugin(self, Arc::clone(&bench) as _)
            .queue(requests)
            .action(FlowPlan { bench: with(&bench) })
            .action(FlowTask { bench: with(&bench) })
            .action(FlowStarter { bench: with(&bench) })
            .action(Delivery { bench: with(&bench) })
            .action(Ordered { bench: with(&bench) })
            .action(FlowCommand { bench: with(&bench) })
            .action(FlowRequest { bench })
    }
}

/// The result of a flow's plan.
///
/// # Errors
///
/// It has faulted, was cancelled, or is not over.
pub fn result(view: &PlanView) -> Result<Value, FlowError> {
    let output: TaskOutput = view.output::<FlowPlan>()?;
    match output.outcome {
        Some(outcome) => match outcome.fault {
            Some(fault) => Err(FlowError::Faulted(Box::new(fault))),
            None => Ok(outcome.output),
        },
        None => {
            let error = view.errors().first().map(ToString::to_string);
            Err(FlowError::Ended(error.unwrap_or_else(|| view.result().name().to_owned())))
        }
    }
}

impl Flow {
    /// The input of the plan that a start of this flow is: for triggers and schedules that say more than
    /// [`Flows::start_with`].
    pub fn start(&self, input: Value) -> FlowStart {
        FlowStart {
            definition: self.hash().to_owned(),
            flow: self.id(),
            input,
            from: None,
            within: Vec::new(),
        }
    }

    /// Refuses a `schedule` by which it could only fail: `every`, `cron` and `after` start it with
    /// the input `{}`.
    ///
    /// # Errors
    ///
    /// The schema of its input does not take that.
    pub fn check_schedule(&self) -> Result<(), FlowError> {
        let by = match self.definition().schedule {
            Some(Start::Every(_)) => "every",
            Some(Start::Cron { .. }) => "cron",
            Some(Start::After(_)) => "after",
            _ => return Ok(()),
        };
        let checked = self.check_input(&Value::Object(serde_json::Map::new()));
        checked.map_err(|problem| {
            FlowError::Schedule(format!(
                "/schedule/{by} of {} starts it with the input {{}}, which its input.schema \
                 refuses: {problem}. Let the schema take that, or add the flow without beginning \
                 its schedule",
                self.id()
            ))
        })
    }
}

/// The same, with the labels by which people find the plans of a flow.
pub(super) fn labelled(flow: &Flow, options: TriggerOptions) -> TriggerOptions {
    labels_of(flow.definition())
        .into_iter()
        .fold(options, |options, (name, value)| options.label(name, value))
}

/// The name of the schedule that a flow itself has said.
pub(super) fn schedule_name(namespace: &str, name: &str) -> String {
    format!("flow:{namespace}/{name}")
}

/// The labels of a flow's plan.
pub(crate) fn labels_of(flow: &Definition) -> [(String, String); 3] {
    let values = [&flow.namespace, &flow.name, &flow.version];
    std::array::from_fn(|at| (LABELS[at].to_owned(), values[at].clone()))
}

/// The flows of a world that was built with [`WithFlows::flows`].
///
/// ```
/// use serde_json::json;
/// use turnwheel_flow::{self as flow, FakeIo, Flows, WithFlows};
/// use turnwheel_engine::{MemoryStore, World};
/// use turnwheel_runtime::completion::block_on;
///
/// let world = World::builder().flows(FakeIo::new()).build(MemoryStore::new())?;
/// let flows = Flows::new(&world)?;
/// let greet = flow::load(
///     "document: { dsl: '1.0.3', namespace: shop, name: greet, version: '1.0.0' }
/// do:
///   - greet: { set: { text: '${ \"hello \\(.name)\" }' } }
/// ",
///     "greet.yaml",
/// )?;
/// block_on(flows.add(&greet))??;
/// let plan = flows.start(&greet, json!({ "name": "wheel" })).wait()?;
/// assert_eq!(flow::result(&plan.finished().wait()?)?, json!({ "text": "hello wheel" }));
/// world.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Flows {
    pub(super) world: World,
    pub(super) bench: Arc<Bench>,
}

impl Flows {
    /// The flows of a world.
    ///
    /// # Errors
    ///
    /// It was built without.
    pub fn new(world: &World) -> Result<Self, FlowError> {
        let plan = internal::action::<FlowPlan>(world).ok_or(FlowError::NoFlows)?;
        Ok(Self { world: world.clone(), bench: Arc::clone(&plan.bench) })
    }

    /// Starts a flow that was added. The returned future ends when its plan is durable.
    pub fn start(&self, flow: &Flow, input: Value) -> Triggering {
        self.start_with(flow, input, TriggerOptions::new())
    }

    /// The same, with more said about the plan: an idempotency key, labels, a priority.
    pub fn start_with(&self, flow: &Flow, input: Value, options: TriggerOptions) -> Triggering {
        let options = labelled(flow, options);
        self.world.trigger_with::<FlowPlan>(options, flow.start(input))
    }

    /// As [`Flows::start_with`], for callers who want to know whether the idempotency key was taken: see
    /// [`Named`]. The payload is what the plan is created with if it is a new one.
    ///
    /// # Errors
    ///
    /// The input cannot be stored.
    pub fn start_named(
        &self,
        flow: &Flow,
        input: Value,
        options: TriggerOptions,
    ) -> Result<(Named, Payload), FlowError> {
        let options = labelled(flow, options);
        let start = Payload::of(&flow.start(input)).map_err(|error| {
            let (action, problem) = (flow.id(), error.to_string());
            TriggerError::Input { action, problem }
        })?;
        Ok((self.world.trigger_named(FlowPlan::NAME, options, start.clone()), start))
    }

    /// Lets a flow that was added start by itself, as its `schedule` says; one without is left alone.
    /// A later version takes the place of an earlier one. Flows that start on one event do so from the
    /// moment they are added; for those that start on several of them, a plan of its own collects them
    /// from now on.
    ///
    /// # Errors
    ///
    /// The schedule was refused, for instance because the flow
    /// [could only fail](Flow::check_schedule) by it.
    pub async fn schedule(&self, flow: &Flow) -> Result<(), FlowError> {
        flow.check_schedule()?;
        let name = schedule_name(flow.namespace(), flow.name());
        let unanswered = |failure| FlowError::passing(&internal::unanswered(&failure));
        let schedule = match &flow.definition().schedule {
            Some(Start::Every(period)) => Schedule::every(name, *period),
            Some(Start::After(pause)) => Schedule::after(name, *pause),
            Some(Start::Cron { pattern, zone }) => Schedule::cron(name, pattern)?.zone(zone),
            Some(Start::Collected) => {
                let key = format!("starts:{}", flow.hash());
                let options = internal::key_of_cause(TriggerOptions::new(), key).by(flow.id());
                let start = flow.start(Value::Null);
                self.world.trigger_with::<FlowStarter>(options, start).await?;
                return Ok(());
            }
            _ => return Ok(()),
        };
        let start = flow.start(Value::Object(serde_json::Map::new()));
        let overlap = match &flow.definition().schedule {
            Some(Start::After(_)) => turnwheel_engine::schedule::Overlap::Forbid,
            _ => turnwheel_engine::schedule::Overlap::Allow,
        };
        let schedule = schedule.overlap(overlap);
        let schedule = schedule.action::<FlowPlan>(&start)?;
        let _put = self.world.schedules().put(schedule).await.map_err(unanswered)??;
        Ok(())
    }

    /// The plans of a flow that are not over, with the version of each, the oldest first: a new
    /// version runs beside them.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn live(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<(PlanId, String)>, FlowError> {
        let prefix = format!("{namespace}/{name}:");
        let mut live = Vec::new();
        let mut before = None;
        loop {
            let filter = Filter {
                states: vec![
                    PlanState::Pending,
                    PlanState::Scheduled,
                    PlanState::Planning,
                    PlanState::Planned,
                    PlanState::Running,
                    PlanState::Paused,
                ],
                action: Some(FlowPlan::NAME.to_owned()),
                before,
                limit: LIVE_PAGE,
                ..Filter::default()
            };
            let rows = self.world.list(filter).await?;
            before = rows.last().map(|row| row.id);
            let is_last = rows.len() < LIVE_PAGE;
            let own = |label: &str| label.strip_prefix(&prefix).map(str::to_owned);
            live.extend(rows.iter().filter_map(|row| Some((row.id, own(&row.label)?))));
            if is_last {
                live.reverse();
                return Ok(live);
            }
        }
    }

    /// All definitions, in the order in which they were added.
    pub fn list(&self) -> Vec<FlowEntry> {
        self.bench.index.lock().clone()
    }

    /// A definition by its name, of a version or of the latest one (`latest`).
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn find(&self, namespace: &str, name: &str, version: &str) -> Result<Flow, FlowError> {
        let found = self.bench.find(namespace, name, version);
        found.ok_or_else(|| FlowError::Unknown(format!("{namespace}/{name}:{version}")))
    }

    /// Delivers an event to its listening tasks, and starts the flows that begin with it. It is
    /// durable with all of them when this returns. The same event again (by source and id) changes
    /// nothing for tasks that have got it.
    ///
    /// # Errors
    ///
    /// A listener could not be notified: publish the event again.
    pub async fn publish(&self, event: CloudEvent) -> Result<Published, FlowError> {
        self.bench.publish(event).await
    }

    /// Lets the tasks of a flow that goes on hear events again, in a world that was opened
    /// [on request](turnwheel_engine::Opening::OnRequest). Elsewhere they do so by themselves.
    ///
    /// # Errors
    ///
    /// There is no such plan, or it cannot be read.
    pub async fn hear(&self, plan: PlanId) -> Result<(), FlowError> {
        let view = self.world.plan(plan).view().await?;
        crate::bus::remember(&self.bench, &view);
        Ok(())
    }

    /// Publishes the events of flows and their tasks, from now on and while the returned value is
    /// kept: the life-cycle events of the DSL, such as
    /// `io.serverlessworkflow.workflow.completed.v1`. Flows can listen for them by their types; a
    /// listener for all events does not get them.
    ///
    /// Cost: that of [`World::watch`], and a look at the plan for each task that begins or ends.
    pub fn publish_life_cycle(&self) -> crate::life::LifeCycle {
        crate::life::publish(&self.world, Arc::clone(&self.bench))
    }

    /// Steps that wait for events, in this world.
    pub fn listeners(&self) -> usize {
        self.bench.bus.listeners()
    }

    /// Events that nobody waited for, since the start of the world.
    pub fn unheard(&self) -> u64 {
        self.bench.bus.unheard()
    }

    /// Events that were published in this world lately, newest first: at most
    /// [`RECENT_EVENTS`](crate::limits::RECENT_EVENTS), also those that nobody took. Events of the
    /// life cycle that nobody took are left out. They are in memory only.
    pub fn recent(&self, limit: usize) -> Vec<RecentEvent> {
        self.bench.bus.recent(limit)
    }

    /// Number of failed evaluations of event filters since the start of the world; such an event
    /// does not match. The history of the listening plan names the filter and the reason; for a
    /// flow started by events the log does.
    pub fn unclear(&self) -> u64 {
        self.bench.bus.unclear()
    }
}
