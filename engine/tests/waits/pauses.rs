//! Pauses by order: no new step, no second call, no queue; what comes meanwhile is kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, BulkOrder, Next, PlanHandle, PlanResult, PlanState, Planner, Queue, Run,
    RunAsync, Runs, RunsAsync, Singleton, StepContext, TriggerError, WorldBuilder,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion};

use crate::common::{error, part, states, step_of, Play, Script, Theatre};

/// Code that waits at a gate.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<VecDeque<Completion<()>>>>);

impl Gate {
    fn shut(&self) -> Completer<()> {
        let (open, gate) = completion();
        self.0.lock().expect("nothing panics under it").push_back(gate);
        open
    }
}

impl Action for Gate {
    const NAME: &'static str = "gate";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Gate {
    async fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let gate = self.0.lock().expect("nothing panics under it").pop_front();
        if let Some(gate) = gate {
            gate.await.map_err(|failure| ActionError::new("gone", failure))?;
        }
        Ok(Next::Done)
    }
}

/// A gate, and then a part; one plan at a time.
struct GateFirst;

impl Action for GateFirst {
    const NAME: &'static str = "gate-first";
    type Input = ();
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, (): ()) -> Result<(), ActionError> {
        planner.sequence(|planner| {
            planner.plan_action::<Gate>(())?;
            planner.plan_action::<Play>(part("after"))?;
            Ok(())
        })
    }

    fn singleton(&self) -> Option<Singleton<()>> {
        Some(Singleton::new())
    }
}

/// Blocking code in the queue `slow`.
struct Slow(Script);

impl Action for Slow {
    const NAME: &'static str = "slow";
    type Input = String;
    type Output = ();
    type Phases = Runs;

    fn queue(&self) -> Option<&str> {
        Some("slow")
    }
}

impl Run for Slow {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        self.0.say(step.input.clone());
        Ok(Next::Done)
    }
}

fn actions(gate: &Gate, script: &Script) -> impl FnOnce(WorldBuilder) -> WorldBuilder {
    let (gate, script) = (gate.clone(), script.clone());
    move |world| {
        let world = world.action(gate).action(GateFirst).action(Slow(script));
        world.queue(Queue::new("slow").size(1))
    }
}

fn begin<A: Action>(theatre: &Theatre, input: A::Input) -> Result<PlanHandle, TriggerError> {
    theatre.sim.block_on(theatre.world.trigger::<A>(input)).expect("it ends")
}

fn pass(theatre: &Theatre, seconds: u64) {
    theatre.sim.run_until_idle();
    theatre.sim.advance(Duration::from_secs(seconds));
    theatre.sim.run_until_idle();
}

#[test]
fn code_that_runs_ends_with_its_lock_and_no_step_begins_before_the_resume() {
    let gate = Gate::default();
    let theatre = Theatre::with(|_| {}, actions(&gate, &Script::default()));
    let open = gate.shut();
    let plan = begin::<GateFirst>(&theatre, ()).expect("nobody has the lock");
    theatre.settle(&plan);
    theatre.done(plan.pause("ann")).expect("it runs");
    let view = theatre.settle(&plan);
    assert_eq!((view.state, &*states(&view)), (PlanState::Paused, "running pending"));
    assert!(view.history.iter().any(|line| line.text.contains("paused by ann")));
    assert!(begin::<GateFirst>(&theatre, ()).is_err(), "its code runs: it has its lock");
    let _opened = open.complete(());
    let view = theatre.settle(&plan);
    assert_eq!((view.state, &*states(&view)), (PlanState::Paused, "success pending"));
    assert!(theatre.script.said().is_empty());

    let open = gate.shut();
    let other = begin::<GateFirst>(&theatre, ()).expect("the lock is free");
    theatre.settle(&other);
    theatre.done(plan.resume("ann")).expect_err("another plan has the lock");
    let _opened = open.complete(());
    assert_eq!(theatre.finished(&other).result(), PlanResult::Success);
    theatre.done(plan.resume("ann")).expect("it is paused");
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);
    let mut said = theatre.script.said();
    said.retain(|line| !line.starts_with("finalize"));
    assert_eq!(said, ["after", "after"]);
}

#[test]
fn events_and_retries_wait_for_the_resume_also_over_a_crash() {
    let theatre = Theatre::with(|play| play.attempts = 2, |world| world);
    let listen = |theatre: &Theatre| {
        theatre.script.on("ear", |step| match step.has_event() {
            true => Ok(Next::Done),
            false => Ok(Next::suspend("a word")),
        });
    };
    listen(&theatre);
    theatre.script.on("fragile", |_| Err(error("often")));
    let plan = theatre.perform("ear|fragile");
    let view = theatre.settle(&plan);
    assert_eq!(states(&view), "suspended retrying");
    theatre.done(plan.pause("ann")).expect("it runs");
    let id = plan.id();
    let event = theatre.world.event(id, step_of(&view, "ear"), None, &1);
    theatre.done(event).expect("a paused plan takes events");
    pass(&theatre, 60);
    let view = theatre.settle(&plan);
    assert_eq!((view.state, &*states(&view)), (PlanState::Paused, "suspended retrying"));
    assert_eq!(theatre.script.said(), ["ear", "fragile"]);
    drop(plan);

    let theatre = theatre.crash_with(|play| play.attempts = 2, |world| world);
    pass(&theatre, 60);
    let plan = theatre.world.plan(id);
    assert_eq!(theatre.settle(&plan).state, PlanState::Paused);
    assert!(theatre.script.said().is_empty());
    listen(&theatre);
    theatre.script.on("fragile", |_| Ok(Next::Done));
    theatre.done(plan.resume("ann")).expect("it is paused");
    pass(&theatre, 0);
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);
    let mut said = theatre.script.said();
    said.retain(|line| !line.starts_with("finalize"));
    said.sort_unstable();
    assert_eq!(said, ["ear", "fragile"]);
}

#[test]
fn code_that_a_crash_interrupts_during_a_pause_is_called_again_after_the_resume() {
    let gate = Gate::default();
    let theatre = Theatre::with(|_| {}, actions(&gate, &Script::default()));
    let _open = gate.shut();
    let plan = begin::<GateFirst>(&theatre, ()).expect("nobody has the lock");
    theatre.settle(&plan);
    theatre.done(plan.pause("ann")).expect("it runs");
    let id = plan.id();
    drop(plan);
    let theatre = theatre.crash_with(|_| {}, actions(&gate, &Script::default()));
    let plan = theatre.world.plan(id);
    let view = theatre.settle(&plan);
    assert_eq!((view.state, &*states(&view)), (PlanState::Paused, "retrying pending"));
    // Ids are made of the time and of the seed, which is that of the world before.
    pass(&theatre, 1);
    let other = begin::<GateFirst>(&theatre, ()).expect("no code of it runs: the lock is free");
    assert_eq!(theatre.finished(&other).result(), PlanResult::Success);
    theatre.done(plan.resume("ann")).expect("it is paused");
    pass(&theatre, 0);
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);
}

#[test]
fn step_that_waits_for_a_place_leaves_the_queue_and_asks_again_after_the_resume() {
    let script = Script::default();
    let theatre = Theatre::with(|_| {}, actions(&Gate::default(), &script));
    theatre.sim.block_for(Duration::from_secs(60));
    let first = begin::<Slow>(&theatre, "first".to_owned()).expect("it is taken");
    let second = begin::<Slow>(&theatre, "second".to_owned()).expect("it is taken");
    theatre.settle(&first);
    theatre.done(second.pause("ann")).expect("it runs");
    for _ in 0..20 {
        pass(&theatre, 60);
    }
    assert_eq!(theatre.finished(&first).result(), PlanResult::Success);
    assert_eq!(theatre.finished(&second).state, PlanState::Paused);
    assert_eq!(script.said(), ["first"]);
    theatre.done(second.resume("ann")).expect("it is paused");
    for _ in 0..20 {
        pass(&theatre, 60);
    }
    assert_eq!(theatre.finished(&second).result(), PlanResult::Success);
    assert_eq!(script.said(), ["second"]);
}

#[test]
fn steps_of_a_paused_plan_are_told_to_end_when_it_is_cancelled() {
    let theatre = Theatre::with(|play| play.is_cancellable = true, |world| world);
    theatre.script.on("ear", |_| Ok(Next::suspend("a word")));
    let plan = theatre.perform("ear");
    theatre.settle(&plan);
    theatre.done(plan.pause("ann")).expect("it runs");
    theatre.done(plan.cancel("ann")).expect("it is not over");
    let view = theatre.settle(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));
    assert_eq!(theatre.script.said()[..2], ["ear", "cancel ear"]);
}

#[test]
fn pause_is_refused_where_it_means_nothing_and_is_an_order_for_many() {
    let theatre = Theatre::new();
    theatre.script.on("ear", |_| Ok(Next::suspend("a word")));
    let plan = theatre.perform("ear");
    theatre.settle(&plan);
    let bulk = theatre.world.bulk(turnwheel_engine::store::Filter::default());
    let pause = || theatre.sim.block_on(bulk.run(BulkOrder::Pause, "ann")).expect("it ends");
    assert_eq!(pause().expect("the store is there").touched(), 1);
    assert_eq!(pause().expect("the store is there").touched(), 0);
    let refused =
        |plan: &PlanHandle| theatre.done(plan.pause("ann")).expect_err("it is refused").to_string();
    assert!(refused(&plan).contains("paused already"), "{}", refused(&plan));
    theatre.done(plan.cancel("ann")).expect("it is not over");
    theatre.settle(&plan);
    assert!(refused(&plan).contains("it is over"), "{}", refused(&plan));
}
