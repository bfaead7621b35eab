//! State shared by the actions of flows: effects, definitions, the bus.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::Value;
use turnwheel_engine::internal::{key_of_cause, Heard, Later, Plugin, WeakWorld};
use turnwheel_engine::plan::Plan;
use turnwheel_engine::{
    BuildError, Payload, PlanError, PlanId, StoreError, TriggerError, TriggerOptions, World,
};

use crate::bus::{self, Bus};
use crate::definition::{load, Flow};
use crate::event::CloudEvent;
use crate::fault::Fault;
use crate::flows::{labelled, result, FlowEntry, FlowError, Flows, INDEX, STORED_AS};
use crate::io::Io;
use crate::loops::Loops;
use crate::model::Start;
use crate::recent::Published;
use crate::run::{to_sinks, worker_result, FlowPlan};

/// State shared by the actions of flows.
pub(crate) struct Bench {
    pub(crate) io: Arc<dyn Io>,
    world: OnceLock<WeakWorld>,
    /// By hash. Never locked together with the index: the two have no order.
    pub(super) flows: Mutex<HashMap<String, Flow>>,
    /// In the order in which they were added.
    pub(super) index: Mutex<Vec<FlowEntry>>,
    pub(crate) bus: Bus,
    pub(crate) loops: Loops,
}

impl fmt::Debug for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bench").field("io", &self.io).finish_non_exhaustive()
    }
}

/// Reads the definitions that plans need and that are not known yet.
async fn read_definitions(bench: &Bench, world: &World) -> Result<(), StoreError> {
    let states = world.states();
    let failed =
        |error: &dyn fmt::Display| StoreError::Failed(format!("the definitions of flows: {error}"));
    let index = states.load(STORED_AS, INDEX).await.map_err(|error| failed(&error))?;
    let entries: Vec<FlowEntry> = match index.bytes {
        Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| failed(&error))?,
        None => Vec::new(),
    };
    for entry in &entries {
        if bench.flows.lock().contains_key(&entry.hash) {
            continue;
        }
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

impl Flows {
    /// Reads definitions that other worlds over the store have added. Without others it does nothing.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn look_again(&self) -> Result<(), FlowError> {
        if self.world.worlds().len() > 1 {
            read_definitions(&self.bench, &self.world).await?;
        }
        Ok(())
    }
}

impl Plugin for Bench {
    fn prepare<'a>(&'a self, world: &'a World) -> Later<'a, Result<(), BuildError>> {
        let _again = self.world.set(WeakWorld::new(world));
        Box::pin(async { Ok(read_definitions(self, world).await?) })
    }

    fn recover<'a>(&'a self, world: &'a World) -> Later<'a, Result<(), StoreError>> {
        Box::pin(async {
            // Plans of another node may be of flows that were added there.
            read_definitions(self, world).await?;
            bus::recover(self, world).await
        })
    }

    fn begin_empty(&self) {
        self.bus.become_known();
    }

    fn look_again(&self) {
        self.bus.become_unknown();
    }

    fn keep_only(&self, owns: &dyn Fn(PlanId) -> bool) {
        self.bus.keep_only(owns);
    }

    fn written(&self, plan: &Plan) {
        if bus::is_flow(&plan.created.action) {
            self.bus.settled(plan);
        }
    }

    fn take_event<'a>(
        &'a self,
        world: &'a World,
        event: Payload,
    ) -> Later<'a, Result<Heard, TriggerError>> {
        Box::pin(async move {
            let wrong = |error: &dyn fmt::Display| {
                let (action, problem) = ("an event".to_owned(), error.to_string());
                TriggerError::Input { action, problem }
            };
            let event: Value = event.read().map_err(|error| wrong(&error))?;
            let event = CloudEvent::from_value(event).map_err(|error| wrong(&error))?;
            let told = self.bus.tell(self, world, &event).await;
            let Published { delivered, undecided, repeated, started, begun, .. } =
                told.map_err(|error| match error {
                    FlowError::Trigger(error) => error,
                    FlowError::Store(error) | FlowError::Plan(PlanError::Store(error)) => {
                        error.into()
                    }
                    error => TriggerError::Refused(error.to_string()),
                })?;
            let begun = begun.into_iter().collect();
            Ok(Heard { delivered, undecided, repeated, started, begun })
        })
    }
}

impl Bench {
    pub(super) fn new(io: impl Io) -> Self {
        Self {
            io: Arc::new(io),
            world: OnceLock::new(),
            flows: Mutex::new(HashMap::new()),
            index: Mutex::new(Vec::new()),
            bus: Bus::default(),
            loops: Loops::default(),
        }
    }

    pub(crate) fn world(&self) -> Option<World> {
        self.world.get().and_then(WeakWorld::upgrade)
    }

    /// A definition by its hash.
    pub(crate) fn definition(&self, hash: &str) -> Result<Arc<crate::Definition>, Fault> {
        let found = self.flows.lock().get(hash).map(|flow| Arc::clone(flow.definition()));
        found.ok_or_else(|| Fault::configuration(format!("the definition {hash} is not here")))
    }

    /// The same, from the store if it was added by another world meanwhile.
    pub(crate) async fn definition_later(
        &self,
        hash: &str,
    ) -> Result<Arc<crate::Definition>, Fault> {
        Ok(Arc::clone(self.flow_later(hash).await?.definition()))
    }

    /// The same as the flow that it was read as.
    pub(crate) async fn flow_later(&self, hash: &str) -> Result<Flow, Fault> {
        let known = self.flows.lock().get(hash).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let missing = || Fault::configuration(format!("the definition {hash} is not in the store"));
        let world = self.world().ok_or_else(missing)?;
        let stored = world.states().load(STORED_AS, hash).await;
        let stored = stored.map_err(|error| Fault::runtime(format!("a definition: {error}")))?;
        let text =
            stored.bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(missing)?;
        let flow = load(&text, hash).map_err(Fault::configuration)?;
        self.flows.lock().insert(hash.to_owned(), flow.clone());
        Ok(flow)
    }

    /// A definition by its name, of a version or of the latest one.
    pub(crate) fn find(&self, namespace: &str, name: &str, version: &str) -> Option<Flow> {
        let hash = self.hash_of(namespace, name, version)?;
        self.flows.lock().get(&hash).cloned()
    }

    fn hash_of(&self, namespace: &str, name: &str, version: &str) -> Option<String> {
        let index = self.index.lock();
        let mut own = index.iter().filter(|it| it.namespace == namespace && it.name == name);
        let found = match version {
            "latest" | "" => own.max_by_key(|it| order(&it.version)),
            version => own.find(|it| it.version == version),
        };
        found.map(|it| it.hash.clone())
    }

    /// Flows that start on events.
    pub(crate) fn started_by_events(&self) -> Vec<Flow> {
        let newest = self.newest();
        let flows = self.flows.lock();
        let newest = newest.iter().filter_map(|hash| flows.get(hash));
        newest
            .filter(|flow| matches!(flow.definition().schedule, Some(Start::On(_))))
            .cloned()
            .collect()
    }

    /// The hashes of the newest versions.
    fn newest(&self) -> Vec<String> {
        let index = self.index.lock();
        let mut newest: HashMap<(&str, &str), &FlowEntry> = HashMap::new();
        for entry in index.iter() {
            let known = newest.entry((&entry.namespace, &entry.name)).or_insert(entry);
            if order(&entry.version) > order(&known.version) {
                *known = entry;
            }
        }
        newest.values().map(|entry| entry.hash.clone()).collect()
    }

    /// The result of another flow, or of a worker.
    pub(crate) async fn result_of(&self, plan: PlanId, is_worker: bool) -> Result<Value, Fault> {
        let Some(world) = self.world() else {
            return Err(Fault::runtime("the world is being shut down"));
        };
        let view = world.plan(plan).view().await;
        let view = view.map_err(|error| Fault::runtime(format!("the flow {plan}: {error}")))?;
        if is_worker {
            return worker_result(&view);
        }
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
        let options =
            key_of_cause(TriggerOptions::new(), key.clone()).by(format!("the step {key}"));
        let options = labelled(flow, options);
        world.trigger_with::<FlowPlan>(options, flow.start(input)).await?;
        Ok(())
    }

    /// Publishes an event of a flow, here and to the sinks.
    pub(crate) async fn emit(&self, event: CloudEvent) -> Result<(), FlowError> {
        let world = self.world().ok_or(FlowError::NoFlows)?;
        to_sinks(self, &world, &event).await?;
        self.bus.publish(self, &world, event).await.map(drop)
    }

    pub(crate) async fn publish(&self, event: CloudEvent) -> Result<Published, FlowError> {
        let world = self.world().ok_or(FlowError::NoFlows)?;
        self.bus.publish(self, &world, event).await
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
