//! Flows of a world: definitions, starts, events.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::bus::{Bus, Published};
use super::definition::{load, Flow};
use super::event::CloudEvent;
use super::fault::Fault;
use super::io::Io;
use super::model::{Listen, Start};
use super::run::{FlowEffect, FlowPlan, FlowStart, FlowTask, TaskOutput};
use crate::action::Action;
use crate::error::{BuildError, PlanError, StoreError, TriggerError};
use crate::id::{PlanId, StepId};
use crate::payload::Payload;
use crate::world::{Named, PlanView, Shared, TriggerOptions, Triggering, World, WorldBuilder};
use crate::Schedule;

/// The name under which definitions are among the states of entities.
const STORED_AS: &str = "turnwheel.flow";

/// The key of the list of all definitions.
const INDEX: &str = "index";

/// What the actions of flows share.
pub(crate) struct Bench {
    pub(crate) io: Arc<dyn Io>,
    world: OnceLock<Weak<Shared>>,
    flows: Mutex<HashMap<String, Flow>>,
    /// In the order in which they were added.
    index: Mutex<Vec<FlowEntry>>,
    pub(crate) bus: Bus,
}

impl fmt::Debug for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bench").field("io", &self.io).finish_non_exhaustive()
    }
}

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
    /// Which flow it is: `namespace/name:version`.
    pub fn id(&self) -> String {
        format!("{}/{}:{}", self.namespace, self.name, self.version)
    }
}

/// Why a definition was not added, or a flow did not start.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// The world was built without flows.
    #[error("this world has no flows: build it with `WorldBuilder::flows`")]
    NoFlows,
    /// This version of it has another content.
    #[error("{0} is there already with another content: give it another version")]
    Exists(String),
    /// Nothing is known under this name.
    #[error("there is no flow {0}")]
    Unknown(String),
    /// It cannot run here.
    #[error("{flow} cannot run here: {problem}")]
    Unable {
        /// Which.
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
    Trigger(#[from] crate::error::TriggerError),
    /// Its schedule was refused.
    #[error("{0}")]
    Schedule(String),
    /// The flow has faulted.
    #[error("{0}")]
    Faulted(Box<Fault>),
    /// It was ended by somebody, or failed in a way that no flow can catch.
    #[error("the flow was ended: {0}")]
    Ended(String),
}

impl WorldBuilder {
    /// Lets the world run flows, whose effects outside `io` has.
    pub fn flows(self, io: impl Io) -> Self {
        let bench = Arc::new(Bench {
            io: Arc::new(io),
            world: OnceLock::new(),
            flows: Mutex::new(HashMap::new()),
            index: Mutex::new(Vec::new()),
            bus: Bus::default(),
        });
        let with = |bench: &Arc<Bench>| Arc::clone(bench);
        self.action(FlowPlan { bench: with(&bench) })
            .action(FlowTask { bench: with(&bench) })
            .action(FlowEffect { bench })
    }
}

/// Before a world goes on with its plans: the definitions that they need.
pub(crate) async fn prepare(world: &World) -> Result<(), BuildError> {
    let Some(plan) = world.shared().registry().get::<FlowPlan>() else { return Ok(()) };
    let bench = &plan.bench;
    let _again = bench.world.set(Arc::downgrade(world.shared()));
    let states = world.states();
    let failed = |error: &dyn fmt::Display| {
        BuildError::Store(StoreError::Failed(format!("the definitions of flows: {error}")))
    };
    let index = states.load(STORED_AS, INDEX).await.map_err(|error| failed(&error))?;
    let entries: Vec<FlowEntry> = match index.bytes {
        Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| failed(&error))?,
        None => Vec::new(),
    };
    for entry in &entries {
        let stored = states.load(STORED_AS, &entry.hash).await.map_err(|error| failed(&error))?;
        let text = stored.bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let flow = text.map(|text| load(&text, &entry.id()));
        match flow {
            Some(Ok(flow)) => {
                bench.flows.lock().insert(entry.hash.clone(), flow);
            }
            // Its plans fail with the same; others are not kept from going on.
            Some(Err(problems)) => {
                tracing::error!(flow = entry.id(), %problems, "a definition cannot be read")
            }
            None => tracing::error!(flow = entry.id(), "a definition is not in the store"),
        }
    }
    *bench.index.lock() = entries;
    Ok(())
}

/// After it has begun to go on: who waits for events.
pub(crate) async fn recover(world: &World) -> Result<(), StoreError> {
    match world.shared().registry().get::<FlowPlan>() {
        Some(plan) => super::bus::recover(&plan.bench, world).await,
        None => Ok(()),
    }
}

impl Bench {
    pub(crate) fn world(&self) -> Option<World> {
        self.world.get().and_then(Weak::upgrade).map(|shared| World::of(&shared))
    }

    /// A definition by its hash.
    pub(crate) fn definition(&self, hash: &str) -> Result<Arc<super::Definition>, Fault> {
        let found = self.flows.lock().get(hash).map(|flow| Arc::clone(flow.definition()));
        found.ok_or_else(|| Fault::configuration(format!("the definition {hash} is not here")))
    }

    /// The same, from the store if it was added by another world meanwhile.
    pub(crate) async fn definition_later(
        &self,
        hash: &str,
    ) -> Result<Arc<super::Definition>, Fault> {
        if let Ok(known) = self.definition(hash) {
            return Ok(known);
        }
        let missing = || Fault::configuration(format!("the definition {hash} is not in the store"));
        let world = self.world().ok_or_else(missing)?;
        let stored = world.states().load(STORED_AS, hash).await;
        let stored = stored.map_err(|error| Fault::runtime(format!("a definition: {error}")))?;
        let text =
            stored.bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(missing)?;
        let flow = load(&text, hash).map_err(Fault::configuration)?;
        self.flows.lock().insert(hash.to_owned(), flow);
        self.definition(hash)
    }

    /// A definition by its name, of a version or of the latest one.
    pub(crate) fn find(&self, namespace: &str, name: &str, version: &str) -> Option<Flow> {
        let index = self.index.lock();
        let own = index.iter().filter(|it| it.namespace == namespace && it.name == name);
        let found = match version {
            "latest" | "" => own.max_by_key(|it| order(&it.version)),
            version => own.into_iter().find(|it| it.version == version),
        }?;
        self.flows.lock().get(&found.hash).cloned()
    }

    /// Flows that start on events.
    pub(crate) fn started_by_events(&self) -> Vec<Flow> {
        let flows = self.flows.lock();
        let index = self.index.lock();
        let mut newest: HashMap<(&str, &str), &FlowEntry> = HashMap::new();
        for entry in index.iter() {
            let known = newest.entry((&entry.namespace, &entry.name)).or_insert(entry);
            if order(&entry.version) > order(&known.version) {
                *known = entry;
            }
        }
        let flows = newest.values().filter_map(|entry| flows.get(&entry.hash));
        flows
            .filter(|flow| matches!(flow.definition().schedule, Some(Start::On(_))))
            .cloned()
            .collect()
    }

    /// What came of another flow.
    pub(crate) async fn result_of(&self, plan: PlanId) -> Result<Value, Fault> {
        let Some(world) = self.world() else {
            return Err(Fault::runtime("the world is being shut down"));
        };
        let view = world.plan(plan).view().await;
        let view = view.map_err(|error| Fault::runtime(format!("the flow {plan}: {error}")))?;
        result(&view).map_err(|error| match error {
            FlowError::Faulted(fault) => *fault,
            other => Fault::runtime(other),
        })
    }

    /// Starts a flow that nobody waits for; the same key starts it once.
    pub(crate) async fn start_detached(
        &self,
        flow: &Flow,
        input: Value,
        key: String,
    ) -> Result<(), FlowError> {
        let world = self.world().ok_or(FlowError::NoFlows)?;
        let options = TriggerOptions::new().key(key.clone()).by(format!("the step {key}"));
        world.trigger_with::<FlowPlan>(options, flow.start(input)).await?;
        Ok(())
    }

    pub(crate) async fn publish(&self, event: CloudEvent) -> Result<Published, FlowError> {
        let world = self.world().ok_or(FlowError::NoFlows)?;
        self.bus.publish(self, &world, event).await
    }

    pub(crate) fn listen(&self, plan: PlanId, step: StepId, listen: &Listen) {
        self.bus.listen(plan, step, &listen.strategy);
    }

    pub(crate) fn forget_listener(&self, plan: PlanId, step: StepId) {
        self.bus.forget(plan, step);
    }
}

/// Versions in their order: numbers by their values, what is before a release before it.
fn order(version: &str) -> (Vec<u64>, bool, String) {
    let (main, rest) = match version.find(['-', '+']) {
        Some(at) => (&version[..at], &version[at..]),
        None => (version, ""),
    };
    let numbers = main.split('.').map(|part| part.parse().unwrap_or(0)).collect();
    (numbers, !rest.starts_with('-'), rest.to_owned())
}

/// What came of a flow's plan.
///
/// # Errors
///
/// It has faulted, was ended, or is not over.
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
        FlowStart { definition: self.hash().to_owned(), flow: self.id(), input }
    }
}

/// The same, with the labels by which people find the plans of a flow.
fn labelled(flow: &Flow, options: TriggerOptions) -> TriggerOptions {
    options
        .label("flow.namespace", flow.namespace())
        .label("flow.name", flow.name())
        .label("flow.version", flow.version())
}

/// The flows of a world that was built with [`WorldBuilder::flows`].
///
/// ```
/// use serde_json::json;
/// use turnwheel_engine::flow::{self, FakeIo, Flows};
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
    world: World,
    bench: Arc<Bench>,
}

impl Flows {
    /// The flows of a world.
    ///
    /// # Errors
    ///
    /// It was built without.
    pub fn new(world: &World) -> Result<Self, FlowError> {
        let plan = world.shared().registry().get::<FlowPlan>().ok_or(FlowError::NoFlows)?;
        Ok(Self { world: world.clone(), bench: Arc::clone(&plan.bench) })
    }

    /// Adds a definition, so that it can be started; one that is there already is left as it is. It is
    /// durable when this is done, and stays for the plans that began with it, whatever versions follow.
    ///
    /// # Errors
    ///
    /// The same version has another content, it needs what this host has not, or the store failed.
    pub async fn add(&self, flow: &Flow) -> Result<FlowEntry, FlowError> {
        self.check(flow)?;
        let entry = FlowEntry {
            namespace: flow.namespace().to_owned(),
            name: flow.name().to_owned(),
            version: flow.version().to_owned(),
            hash: flow.hash().to_owned(),
        };
        let is_same = |it: &FlowEntry| it.id() == entry.id();
        if let Some(known) = self.bench.index.lock().iter().find(|it| is_same(it)) {
            return match known.hash == entry.hash {
                true => Ok(entry),
                false => Err(FlowError::Exists(entry.id())),
            };
        }
        let states = self.world.states();
        let failed = |error: turnwheel_actors::entity::StoreError| {
            FlowError::Store(StoreError::Failed(error.to_string()))
        };
        let text = flow.source().to_string();
        let stored = states.load(STORED_AS, &entry.hash).await.map_err(failed)?;
        match stored.bytes {
            Some(bytes) if bytes != text.as_bytes() => return Err(FlowError::Exists(entry.hash)),
            Some(_) => {}
            None => {
                let bytes = text.into_bytes();
                let saved = states.save(STORED_AS, &entry.hash, bytes, stored.version, 0);
                // Somebody else has stored the same meanwhile: the index tells.
                if let Err(error) = saved.await {
                    tracing::debug!(%error, "a definition was stored by somebody else");
                }
            }
        }
        self.add_to_index(&entry).await?;
        self.bench.flows.lock().insert(entry.hash.clone(), flow.clone());
        Ok(entry)
    }

    async fn add_to_index(&self, entry: &FlowEntry) -> Result<(), FlowError> {
        let states = self.world.states();
        let failed =
            |error: &dyn fmt::Display| FlowError::Store(StoreError::Failed(error.to_string()));
        for _ in 0..100 {
            let stored = states.load(STORED_AS, INDEX).await.map_err(|error| failed(&error))?;
            let mut entries: Vec<FlowEntry> = match stored.bytes {
                Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| failed(&error))?,
                None => Vec::new(),
            };
            if let Some(known) = entries.iter().find(|it| it.id() == entry.id()) {
                if known.hash != entry.hash {
                    return Err(FlowError::Exists(entry.id()));
                }
            } else {
                entries.push(entry.clone());
            }
            let bytes = serde_json::to_vec(&entries).map_err(|error| failed(&error))?;
            match states.save(STORED_AS, INDEX, bytes, stored.version, 0).await {
                Ok(_) => {
                    *self.bench.index.lock() = entries;
                    return Ok(());
                }
                Err(turnwheel_actors::entity::StoreError::Conflict { .. }) => {}
                Err(error) => return Err(failed(&error)),
            }
        }
        Err(failed(&"too many definitions are added at once"))
    }

    /// Whether this host has what a flow needs.
    fn check(&self, flow: &Flow) -> Result<(), FlowError> {
        for language in flow.definition().languages() {
            if let Some(problem) = self.bench.io.script_problem(language) {
                return Err(FlowError::Unable { flow: flow.id(), problem });
            }
        }
        Ok(())
    }

    /// Starts a flow that was added. What comes back ends when its plan is durable.
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
    /// A later version takes the place of an earlier one. Flows that start on events do so from the
    /// moment they are added.
    ///
    /// # Errors
    ///
    /// The schedule was refused.
    pub async fn schedule(&self, flow: &Flow) -> Result<(), FlowError> {
        let name = format!("flow:{}/{}", flow.namespace(), flow.name());
        let wrong = |error: &dyn fmt::Display| FlowError::Schedule(error.to_string());
        let schedule = match &flow.definition().schedule {
            Some(Start::Every(period)) => Schedule::every(name, *period),
            Some(Start::Cron(pattern)) => {
                Schedule::cron(name, pattern).map_err(|error| wrong(&error))?
            }
            _ => return Ok(()),
        };
        let start = flow.start(Value::Object(serde_json::Map::new()));
        let schedule = schedule.overlap(crate::schedule::Overlap::Allow);
        let schedule = schedule.action::<FlowPlan>(&start).map_err(|error| wrong(&error))?;
        let put = self.world.schedules().put(schedule).await.map_err(|error| wrong(&error))?;
        put.map_err(|error| wrong(&error))?;
        Ok(())
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

    /// Delivers an event to the tasks that wait for it, and starts the flows that begin with it. It is
    /// durable with all of them when this is done. The same event again (by source and id) changes
    /// nothing for who has got it.
    ///
    /// # Errors
    ///
    /// Somebody who waits could not be told: publish it again.
    pub async fn publish(&self, event: CloudEvent) -> Result<Published, FlowError> {
        self.bench.publish(event).await
    }

    /// Lets the tasks of a flow that goes on hear events again, in a world that was opened
    /// [on request](crate::Opening::OnRequest). Elsewhere they do so by themselves.
    ///
    /// # Errors
    ///
    /// There is no such plan, or it cannot be read.
    pub async fn hear(&self, plan: PlanId) -> Result<(), FlowError> {
        let view = self.world.plan(plan).view().await?;
        super::bus::remember(&self.bench, &view);
        Ok(())
    }

    /// Events that nobody waited for, since the start of the world.
    pub fn unheard(&self) -> u64 {
        self.bench.bus.unheard()
    }
}
