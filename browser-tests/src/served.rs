//! A server on a free port, over a world with actions that fail, wait and go on.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use tokio::sync::oneshot;
use turnwheel::actors::{Actor, Context, Entities, Entity, Handler};
use turnwheel::engine::{
    Action, ActionError, MemoryStore, Next, Payload, PlanId, Planner, Run, Runs, StepContext,
    StepId, Store, TriggerOptions, Triggering, World, WorldBuilder,
};
use turnwheel::flow::{self, CloudEvent, Flows, WithFlows};
use turnwheel::http::serve::{Listen, Server, Stopped};
use turnwheel::http::{Access, Options};
use turnwheel::io::{HostIo, IoOptions};
use turnwheel::jobs::{JobSpec, Jobs, JobsOptions, WithJobs};
use turnwheel::journeys::{Event, Journeys, JourneysOptions};
use turnwheel::runtime::completion::block_on;
use turnwheel::runtime::Group;

/// Waits for an event, and answers it.
#[derive(Debug)]
struct Wait;

impl Action for Wait {
    const NAME: &'static str = "wait";
    type Input = Value;
    type Output = Value;
    type Phases = Runs;
}

impl Run for Wait {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        match step.event::<Value>()? {
            Some(event) => {
                step.output = event;
                Ok(Next::Done)
            }
            None => Ok(Next::suspend("an event of somebody")),
        }
    }
}

/// Fails unless its input says that it is mended.
#[derive(Debug)]
struct Mend;

#[derive(Serialize, Deserialize)]
struct Mended {
    is_mended: bool,
}

impl Action for Mend {
    const NAME: &'static str = "mend";
    type Input = Mended;
    type Output = Value;
    type Phases = Runs;
}

impl Run for Mend {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.input.is_mended {
            step.output = json!("it is whole");
            return Ok(Next::Done);
        }
        Err(ActionError::new("broken", "it is broken and wants to be mended"))
    }
}

/// Does nothing: one of many.
#[derive(Debug)]
struct Brick;

impl Action for Brick {
    const NAME: &'static str = "brick";
    type Input = u32;
    type Output = u32;
    type Phases = Runs;
}

impl Run for Brick {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output = step.input;
        Ok(Next::Done)
    }
}

/// Plans so many bricks, a hundred beside each other in each row.
#[derive(Debug)]
struct Wall;

impl Action for Wall {
    const NAME: &'static str = "wall";
    type Input = u32;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, bricks: u32) -> Result<(), ActionError> {
        planner.sequence(|planner| {
            for row in 0..bricks.div_ceil(100) {
                planner.concurrence(|planner| {
                    for brick in (row * 100..bricks).take(100) {
                        planner.plan_action::<Brick>(brick)?;
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    }
}

/// Answers how often it was asked.
#[derive(Debug)]
struct Account(u64);

impl Actor for Account {
    type Error = std::convert::Infallible;
}

impl Entity for Account {
    type Key = String;
    const NAME: &'static str = "account";

    fn create(_: &String) -> Self {
        Self(0)
    }
}

/// Asks an account.
struct Count;

impl Handler<Count> for Account {
    type Reply = u64;

    fn handle(&mut self, _: Count, _: &mut Context<'_, Self>) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// What a world is described with.
pub type Builder = WorldBuilder;

/// A server on a free port of this machine over a world of its own. It stops when this is dropped.
#[derive(Debug)]
pub struct Served {
    url: String,
    world: World,
    entities: Entities,
    jobs: Jobs,
    journeys: Journeys,
    groups: [Group; 2],
    open: Mutex<VecDeque<Triggering>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Stopped>>,
}

impl Served {
    /// Over a world in memory, for everybody on this machine.
    pub fn new() -> Self {
        Self::over(MemoryStore::new())
    }

    /// Over a world with this store.
    ///
    /// # Panics
    ///
    /// The store cannot be used, or there is no free port.
    pub fn over(store: impl Store) -> Self {
        let world = Self::builder().build(store).expect("a world");
        Self::with(world, Options::new(Access::Loopback))
    }

    /// A world with the actions `wait`, `mend`, `brick` and `wall`, with flows and jobs.
    pub fn builder() -> Builder {
        let io = Self::io();
        let executors = io.executors();
        let builder = World::builder().action(Wait).action(Mend).action(Brick).action(Wall);
        builder.flows(io).jobs(&executors)
    }

    fn io() -> HostIo {
        HostIo::new(IoOptions::default())
    }

    /// Over this world, with these options.
    ///
    /// # Panics
    ///
    /// There is no free port.
    pub fn with(world: World, options: Options) -> Self {
        let entities = Entities::builder(world.plan_entities().system()).store(world.states());
        let entities = entities.build();
        let group = |name: &str| Group::builder(name).workers(1).build().expect("a group");
        let groups = [group("jobs"), group("journeys")];
        let io = Self::io();
        let jobs = Jobs::open(&world, &groups[0], JobsOptions::new(&io.executors()));
        let jobs = block_on(jobs).expect("it is answered").expect("jobs");
        let journeys = Journeys::open(&world, &groups[1], JourneysOptions::new(io.channels()));
        let journeys = block_on(journeys).expect("it is answered").expect("journeys");
        let options = options.entities(&entities).jobs(&jobs).journeys(&journeys);
        let (told, url) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = world.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            let listen = Listen::at("127.0.0.1:0".parse().expect("an address"));
            runtime.block_on(async {
                let server = Server::bind(&served, options, listen).await.expect("a free port");
                told.send(server.url()).expect("somebody waits");
                server.run(async { drop(stopped.await) }).await
            })
        });
        let url = url.recv().expect("the server listens");
        let open = Mutex::default();
        Self {
            url,
            world,
            entities,
            jobs,
            journeys,
            groups,
            open,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// The address of a page of the console, such as `plans`.
    pub fn page(&self, name: &str) -> String {
        format!("{}/console/#/{name}", self.url)
    }

    /// Begins a plan, and answers its id once it is durable.
    ///
    /// # Panics
    ///
    /// It is refused.
    pub fn begin(&self, action: &str, input: &Value) -> PlanId {
        let input = Payload::of(input).expect("it can be stored");
        let named = self.world.trigger_named(action, TriggerOptions::new(), input);
        named.triggering.wait().expect("it is taken").id()
    }

    /// Begins one of many plans with labels; what becomes of all of them [`Served::settle`] waits for.
    pub fn begin_labelled(&self, action: &str, input: &Value, labels: &[(&str, String)]) {
        let input = Payload::of(input).expect("it can be stored");
        let options = labels
            .iter()
            .fold(TriggerOptions::new(), |options, (name, value)| options.label(*name, value));
        let begun = self.world.trigger_named(action, options, input).triggering;
        let mut open = self.open.lock().expect("nobody panics with it");
        open.push_back(begun);
        // So many share their commits.
        if open.len() >= 2_000 {
            let first = open.pop_front().expect("there are many");
            first.wait().expect("it is taken");
        }
    }

    /// Waits until all plans that were begun are durable.
    ///
    /// # Panics
    ///
    /// One was refused.
    pub fn settle(&self) {
        let open = std::mem::take(&mut *self.open.lock().expect("nobody panics with it"));
        for begun in open {
            begun.wait().expect("it is taken");
        }
    }

    /// Cancels a plan, and waits until it is over.
    pub fn cancel(&self, plan: PlanId) {
        let handle = self.world.plan(plan);
        let done = block_on(handle.cancel("somebody else")).expect("it is answered");
        done.expect("nobody gives it up").expect("it is not over");
        self.over_with(plan);
    }

    /// Adds a flow and starts it; answers its plan once that is durable.
    ///
    /// # Panics
    ///
    /// It is refused.
    pub fn start_flow(&self, text: &str, input: Value) -> PlanId {
        let flow = flow::load(text, "test").expect("it is a flow");
        let flows = Flows::new(&self.world).expect("the world has flows");
        block_on(flows.add(&flow)).expect("it is answered").expect("it is taken");
        flows.start(&flow, input).wait().expect("it is taken").id()
    }

    /// Sends an event to a step, which may be refused.
    pub fn send(&self, plan: PlanId, step: u32, event: &Value) {
        let sent = self.world.event(plan, StepId(step), None, event);
        // What nobody takes is a dead letter.
        let _refused = block_on(sent).expect("it is answered");
    }

    /// Activates an entity of the type `account`.
    pub fn ask_account(&self, key: &str) {
        self.entities.get::<Account>(key).ask(Count).wait().expect("it answers");
    }

    /// Waits until a plan is over or paused.
    pub fn over_with(&self, plan: PlanId) {
        self.world.plan(plan).finished().wait().expect("it is there");
    }

    /// Publishes an event for flows, and waits until it is durable.
    pub fn publish(&self, event: &Value) {
        let flows = Flows::new(&self.world).expect("the world has flows");
        let event = CloudEvent::from_value(event.clone()).expect("it is an event");
        block_on(flows.publish(event)).expect("it is answered").expect("it is taken");
    }

    /// Adds a job, from its settings as JSON.
    ///
    /// # Panics
    ///
    /// It is refused.
    pub fn put_job(&self, settings: &Value) {
        let spec: JobSpec = serde_json::from_value(settings.clone()).expect("settings of a job");
        self.jobs.put(spec, None, "test").wait().expect("it is answered").expect("it is taken");
    }

    /// Adds a journey, from its text.
    ///
    /// # Panics
    ///
    /// It is refused.
    pub fn put_journey(&self, text: &str) {
        let put = block_on(self.journeys.put(text, "test"));
        put.expect("it is answered").expect("it is taken");
    }

    /// Gives an event of a user to the journeys of a platform.
    ///
    /// # Panics
    ///
    /// It is refused.
    pub fn user_event(&self, platform: &str, user: &str, id: &str, kind: &str, data: Value) {
        let event = Event::new(platform, user, id, kind).data(data);
        let taken = self.journeys.event(event).wait();
        taken.expect("it is answered").expect("it is taken");
    }

    /// Its world.
    pub fn world(&self) -> &World {
        &self.world
    }
}

impl Default for Served {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // What was under way is left as it is.
        self.jobs.end();
        self.journeys.end();
        let _ = self.world.shutdown();
        for group in &self.groups {
            let _ = group.shutdown();
        }
    }
}
