//! A world in a simulation, with actions whose code each test gives by name.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod calendar;
pub(crate) mod worlds;
pub(crate) mod wrapped;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use turnwheel_engine::{
    Action, ActionError, Cause, Finalize, Finalizes, Input, MemoryStore, Next, PlanHandle,
    PlanView, Planner, Rescue, RetryPolicy, Revert, Reverts, RunAsync, RunsAsync, StepContext,
    StepId, World, WorldBuilder,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Backoff, Completion};

/// The code of a step: gets the call, gives its end.
pub(crate) type Code = Box<dyn FnMut(&mut StepContext<Play>) -> Result<Next, ActionError> + Send>;

/// What happened, and what is to happen.
#[derive(Clone, Default)]
pub(crate) struct Script {
    codes: Arc<Mutex<HashMap<String, Code>>>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Script {
    pub(crate) fn on(
        &self,
        who: &str,
        code: impl FnMut(&mut StepContext<Play>) -> Result<Next, ActionError> + Send + 'static,
    ) {
        self.codes
            .lock()
            .expect("no code panics while it is looked up")
            .insert(who.to_owned(), Box::new(code));
    }

    pub(crate) fn say(&self, line: impl Into<String>) {
        self.log.lock().expect("no panic while a line is added").push(line.into());
    }

    /// What was said since the last call.
    pub(crate) fn said(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().expect("no panic while a line is added"))
    }
}

/// The part of an action: who plays it, and whose outputs it needs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) who: String,
    pub(crate) needs: Vec<Input<Value>>,
}

/// An action that plays a part: says who, then does what the script has for it.
///
/// The kind of its error says how it is rescued; it is tried as often as `attempts` says.
pub(crate) struct Play {
    pub(crate) script: Script,
    pub(crate) attempts: u32,
    pub(crate) limit: Option<Duration>,
    pub(crate) is_cancellable: bool,
    pub(crate) cleans_up: bool,
    /// How often a compensation, and a finalize phase, is tried.
    pub(crate) later_attempts: u32,
    pub(crate) reverts_failed: bool,
}

impl Action for Play {
    const NAME: &'static str = "play";
    type Input = Part;
    type Output = Value;
    type Phases = (RunsAsync, Finalizes, Reverts);

    fn retry(&self) -> RetryPolicy {
        RetryPolicy::attempts(self.attempts).pauses(Backoff::constant(Duration::from_secs(10)))
    }

    fn retry_finalize(&self) -> RetryPolicy {
        self.retry_revert()
    }

    fn retry_revert(&self) -> RetryPolicy {
        let pauses = Backoff::constant(Duration::from_secs(10));
        RetryPolicy::attempts(self.later_attempts).pauses(pauses).except_for(&["hopeless"])
    }

    fn reverts_failed(&self, error: &ActionError) -> bool {
        self.reverts_failed && error.message != "nothing was done"
    }

    fn limit(&self) -> Option<Duration> {
        self.limit
    }

    fn rescue(&self, error: &ActionError) -> Rescue {
        match error.kind.as_str() {
            "skip" => Rescue::Skip,
            "fail" => Rescue::Fail,
            "revert" => Rescue::Revert,
            _ => Rescue::Pause,
        }
    }

    fn is_cancellable(&self) -> bool {
        self.is_cancellable
    }

    fn cleans_up_when_skipped(&self) -> bool {
        self.cleans_up
    }
}

impl Play {
    pub(crate) fn new(script: &Script) -> Self {
        Self {
            script: script.clone(),
            attempts: 1,
            limit: None,
            is_cancellable: false,
            cleans_up: false,
            later_attempts: 1,
            reverts_failed: true,
        }
    }

    fn play(&self, key: &str, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        self.script.say(key);
        let code = self.script.codes.lock().expect("no panic while it is looked up").remove(key);
        let Some(mut code) = code else { return Ok(Next::Done) };
        let result = code(step);
        let mut codes = self.script.codes.lock().expect("no panic while it is looked up");
        codes.entry(key.to_owned()).or_insert(code);
        result
    }
}

impl RunAsync for Play {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let key = match step.cause() {
            Cause::Cancel { is_forced: false } => format!("cancel {}", step.input.who),
            Cause::Cancel { is_forced: true } => format!("abort {}", step.input.who),
            Cause::Skip => format!("clean {}", step.input.who),
            _ => step.input.who.clone(),
        };
        self.play(&key, step)
    }
}

impl Finalize for Play {
    fn finalize(&self, step: &mut StepContext<Self>) -> Result<(), ActionError> {
        let key = format!("finalize {}", step.input.who);
        self.play(&key, step).map(|_| ())
    }
}

impl Revert for Play {
    fn revert(&self, step: &mut StepContext<Self>) -> Result<(), ActionError> {
        let key = format!("revert {}", step.input.who);
        self.play(&key, step).map(|_| ())
    }
}

/// Plans parts: `"a b"` one after the other, `"a|b"` at the same time, spaces binding less.
pub(crate) struct Piece;

impl Action for Piece {
    const NAME: &'static str = "piece";
    type Input = String;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, text: String) -> Result<(), ActionError> {
        planner.sequence(|planner| {
            for scene in text.split_whitespace() {
                planner.concurrence(|planner| {
                    for who in scene.split('|') {
                        planner.plan_action::<Play>(part(who))?;
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    }
}

pub(crate) fn part(who: &str) -> Part {
    Part { who: who.to_owned(), needs: Vec::new() }
}

/// A world in a simulation.
pub(crate) struct Theatre {
    pub(crate) sim: Sim,
    pub(crate) script: Script,
    pub(crate) store: MemoryStore,
    pub(crate) world: World,
}

impl Theatre {
    pub(crate) fn new() -> Self {
        Self::with(|_| {}, |builder| builder)
    }

    /// With actions and a world changed as said.
    pub(crate) fn with(
        change: impl FnOnce(&mut Play),
        build: impl FnOnce(WorldBuilder) -> WorldBuilder,
    ) -> Self {
        let (sim, script, store) = (Sim::new(7), Script::default(), MemoryStore::new());
        let world = open(&sim, &script, &store, change, build);
        Self { sim, script, store, world }
    }

    /// Another world over the same store, as after a crash: what the old one had in memory is lost.
    pub(crate) fn crash(self) -> Self {
        self.crash_with(|_| {}, |builder| builder)
    }

    /// The same, and the next world begins so much later.
    pub(crate) fn crash_at(self, later: Duration) -> Self {
        let Self { sim, script, store, world } = self;
        let wall = sim.wall() + later;
        drop(world);
        drop(sim);
        let sim = Sim::builder().seed(8).wall(wall).build();
        let world = open(&sim, &script, &store, |_| {}, |builder| builder);
        Self { sim, script, store, world }
    }

    pub(crate) fn crash_with(
        self,
        change: impl FnOnce(&mut Play),
        build: impl FnOnce(WorldBuilder) -> WorldBuilder,
    ) -> Self {
        let Self { sim, script, store, world } = self;
        let wall = sim.wall();
        drop(world);
        drop(sim);
        let sim = Sim::builder().seed(8).wall(wall).build();
        let world = open(&sim, &script, &store, change, build);
        Self { sim, script, store, world }
    }

    /// Triggers a piece.
    pub(crate) fn perform(&self, text: &str) -> PlanHandle {
        let triggering = self.world.trigger::<Piece>(text.to_owned());
        self.sim.block_on(triggering).expect("it ends").expect("the plan is taken")
    }

    /// Runs what can run, and shows the plan.
    pub(crate) fn settle(&self, plan: &PlanHandle) -> PlanView {
        self.sim.run_until_idle();
        self.sim.block_on(plan.view()).expect("it ends").expect("the plan is there")
    }

    /// The plan when it is stopped or paused.
    pub(crate) fn finished(&self, plan: &PlanHandle) -> PlanView {
        self.sim.block_on(plan.finished()).expect("it ends").expect("the plan is there")
    }

    pub(crate) fn done<T>(&self, completion: Completion<T>) -> T {
        self.sim.block_on(completion).expect("it ends").expect("the world is there")
    }
}

fn open(
    sim: &Sim,
    script: &Script,
    store: &MemoryStore,
    change: impl FnOnce(&mut Play),
    build: impl FnOnce(WorldBuilder) -> WorldBuilder,
) -> World {
    let mut play = Play::new(script);
    change(&mut play);
    let builder = World::builder()
        .action(play)
        .action(Piece)
        .group(&sim.group("plans"))
        .io_group(&sim.group("journal"))
        .seed(1);
    let opening = build(builder).open(store.clone());
    sim.block_on(opening).expect("it ends").expect("the world begins")
}

/// The run step of a part.
pub(crate) fn step_of(view: &PlanView, who: &str) -> StepId {
    let fits = |input: &Part| input.who == who;
    let action =
        view.actions.iter().find(|action| action.input.read::<Part>().is_ok_and(|p| fits(&p)));
    action.and_then(|action| action.run_step).expect("the piece has this part")
}

/// The states of the run steps, in their order.
pub(crate) fn states(view: &PlanView) -> String {
    let runs = view.steps.iter().filter(|step| step.kind == turnwheel_engine::StepKind::Run);
    runs.map(|step| step.state.name()).collect::<Vec<_>>().join(" ")
}

/// An error that is rescued as its kind says.
pub(crate) fn error(kind: &str) -> ActionError {
    ActionError::new(kind, format!("{kind} me"))
}
