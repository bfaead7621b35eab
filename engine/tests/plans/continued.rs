//! Plans that begin anew instead of ending.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_engine::store::Store;
use turnwheel_engine::{
    Action, ActionError, Cause, MemoryStore, Next, PlanHandle, PlanResult, PlanState, Planner,
    RunAsync, RunsAsync, StepContext, StoreError, TriggerOptions, World,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_testkit::FaultStore;

use crate::common::{Part, Piece, Play, Theatre};

/// Counts down, one run for each number; it waits for an event in each.
#[derive(Clone, Default)]
struct Down {
    keys: Arc<Mutex<Vec<String>>>,
    waits: bool,
    /// No second run can be planned.
    refuses: bool,
}

impl Action for Down {
    const NAME: &'static str = "down";
    type Input = u32;
    type Output = u32;
    type Phases = RunsAsync;

    fn plan(&self, planner: &mut Planner<'_, Self>, input: u32) -> Result<(), ActionError> {
        if self.refuses && input < 3 {
            return Err(ActionError::new("refused", "there is no second run").and_final());
        }
        planner.plan_self(input)?;
        Ok(())
    }
}

impl RunAsync for Down {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if self.waits && !step.has_event() {
            return Ok(step.wait_for_event("a word"));
        }
        self.keys.lock().expect("nothing panics under it").push(step.idempotency_key());
        step.output = step.run_number();
        if step.input > 0 {
            let next = step.input - 1;
            step.continue_as_new::<Self>(&next)?;
        }
        Ok(Next::Done)
    }
}

/// Asks for a plan that continues as new, and waits for its end.
struct Above;

impl Action for Above {
    const NAME: &'static str = "above";
    type Input = ();
    type Output = u32;
    type Phases = RunsAsync;
}

impl RunAsync for Above {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() == Cause::SubPlans {
            step.output = step.sub_plans().success;
            return Ok(Next::Done);
        }
        step.trigger::<Down>(&3)?;
        Ok(step.wait_for_sub_plans())
    }
}

/// Wants to go on as another action.
struct Other;

impl Action for Other {
    const NAME: &'static str = "other";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Other {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.continue_as_new::<Play>(&Part::default())?;
        Ok(Next::Done)
    }
}

fn theatre(down: &Down) -> Theatre {
    let build = |world: turnwheel_engine::WorldBuilder| {
        world.action(down.clone()).action(Above).action(Other)
    };
    Theatre::with(|_| {}, build)
}

fn begin(theatre: &Theatre, count: u32) -> PlanHandle {
    let options = TriggerOptions::new().key("the one").label("city", "Rome");
    let plan = theatre.world.trigger_with::<Down>(options, count);
    theatre.sim.block_on(plan).expect("it ends").expect("it is taken")
}

#[test]
fn a_plan_that_continues_as_new_is_the_same_plan_and_small() {
    let down = Down::default();
    let theatre = theatre(&down);
    let plan = begin(&theatre, 200);
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    assert_eq!((view.run_number, view.output::<Down>().unwrap()), (201, 201));
    assert_eq!(view.steps.len(), 2, "those of the last run");
    assert_eq!(view.labels["city"], "Rome");
    assert_eq!(begin(&theatre, 200).id(), plan.id(), "its key and first input are its own");
    let mut keys = down.keys.lock().unwrap().clone();
    assert_eq!(keys.len(), 201);
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 201, "each run has an idempotency key of its own");
    let history = theatre.sim.block_on(plan.history()).expect("it ends").expect("it is told");
    let links = history.happenings.iter().filter(|it| it.why.contains("continued as run"));
    assert_eq!(links.count(), 200, "all runs are told");
    theatre.sim.advance(Duration::from_secs(10));
    let mut reader = theatre.store.reader().expect("it reads");
    let loaded = reader.load(plan.id(), None).expect("it reads").expect("it is there");
    let (entries, whole) = (loaded.entries.len(), loaded.snapshot.map_or(0, |bytes| bytes.len()));
    assert!(entries < 10, "{entries} entries are read with its snapshot");
    assert!(whole < 64 * 1_024, "its snapshot has {whole} bytes");
}

#[test]
fn a_plan_that_continues_as_new_goes_on_after_a_crash_in_each_run() {
    let down = Down { waits: true, ..Down::default() };
    let mut theatre = theatre(&down);
    let plan = begin(&theatre, 3).id();
    for run in 1..=4 {
        let view = theatre.settle(&theatre.world.plan(plan));
        assert_eq!((view.state, view.run_number), (PlanState::Running, run));
        let step = view.run_step::<Down>().expect("it runs").id;
        let id = format!("word {run}");
        // A repetition of the word before is dropped, also over the border of two runs.
        let before = format!("word {}", run - 1);
        for id in [&before, &id].into_iter().skip(usize::from(run == 1)) {
            let sent = theatre.world.event(plan, step, Some(id), &());
            theatre.sim.wait(sent).expect("it answers").expect("it is taken");
        }
        theatre.sim.run_until_idle();
        let again = down.clone();
        theatre =
            theatre.crash_with(|_| {}, |world| world.action(again).action(Above).action(Other));
    }
    let view = theatre.finished(&theatre.world.plan(plan));
    assert_eq!((view.result(), view.run_number), (PlanResult::Success, 4));
}

#[test]
fn events_that_one_run_has_not_taken_are_taken_by_the_next_one() {
    let theatre = theatre(&Down { waits: true, ..Down::default() });
    let plan = begin(&theatre, 3);
    let step = theatre.settle(&plan).run_step::<Down>().expect("it runs").id;
    let sent: Vec<_> = (0..4).map(|_| theatre.world.event(plan.id(), step, None, &())).collect();
    for sent in sent {
        theatre.sim.wait(sent).expect("it answers").expect("it is taken");
    }
    let view = theatre.finished(&plan);
    assert_eq!((view.result(), view.run_number), (PlanResult::Success, 4));
    assert!(theatre.world.dead_letters().letters.is_empty());
}

#[test]
fn events_for_a_next_run_that_cannot_begin_are_dead_letters() {
    let theatre = theatre(&Down { waits: true, refuses: true, ..Down::default() });
    let plan = begin(&theatre, 3);
    let step = theatre.settle(&plan).run_step::<Down>().expect("it runs").id;
    let sent: Vec<_> = (0..3).map(|_| theatre.world.event(plan.id(), step, None, &())).collect();
    for sent in sent {
        theatre.sim.wait(sent).expect("it answers").expect("it is taken");
    }
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Error));
    assert_eq!(theatre.world.dead_letters().letters.len(), 2);
}

#[test]
fn who_waits_for_a_plan_waits_for_its_last_run() {
    let theatre = theatre(&Down::default());
    let plan = theatre.sim.block_on(theatre.world.trigger::<Above>(()));
    let view = theatre.finished(&plan.expect("it ends").expect("it is taken"));
    assert_eq!((view.result(), view.output::<Above>().unwrap()), (PlanResult::Success, 1));
    let child = theatre.world.plan(view.sub_plans().next().expect("it has one").0);
    assert_eq!(theatre.finished(&child).run_number, 4);
}

#[test]
fn a_cancelled_plan_does_not_continue_as_new() {
    let down = Down { waits: true, ..Down::default() };
    let theatre = theatre(&down);
    let plan = begin(&theatre, 3);
    theatre.sim.run_until_idle();
    theatre.done(plan.cancel("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.result(), view.run_number), (PlanResult::Cancelled, 1));
}

#[test]
fn a_plan_continues_as_new_with_its_own_root_action_only() {
    let theatre = theatre(&Down::default());
    let plan = theatre.sim.block_on(theatre.world.trigger::<Other>(()));
    let view = theatre.finished(&plan.expect("it ends").expect("it is taken"));
    assert_eq!(view.state, PlanState::Paused);
    assert_eq!(view.errors()[0].kind, "continue_as_new");
}

/// A world over a store, which knows the action or lacks it.
fn world_over(sim: &Sim, store: &FaultStore, is_known: bool) -> World {
    let builder = World::builder().action(Piece).seed(4);
    let builder = if is_known { builder.action(Down::default()) } else { builder };
    let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
    sim.block_on(builder.open(store.clone())).expect("it ends").expect("the world begins")
}

#[test]
fn plan_whose_action_is_missing_between_two_runs_is_paused_and_goes_on_with_it() {
    let mut paused = 0;
    for kept in 1..6 {
        let (store, sim) = (FaultStore::new(MemoryStore::new()), Sim::new(3));
        let world = world_over(&sim, &store, true);
        let first = store.commits() + kept + 1;
        let away = || StoreError::Failed("the disk was away".to_owned());
        (first..first + 2_000).for_each(|commit| store.fail_at(commit, away()));
        let plan = sim.block_on(world.trigger::<Down>(3)).expect("it ends");
        sim.advance(Duration::from_secs(5));
        let Ok(plan) = plan else { continue };
        let (id, wall) = (plan.id(), sim.wall());
        drop((plan, world, sim));
        store.heal();
        let sim = Sim::builder().seed(9).wall(wall).build();
        let world = world_over(&sim, &store, false);
        sim.advance(Duration::from_secs(60));
        let view = sim.block_on(world.plan(id).view()).expect("it ends").expect("it is there");
        assert_eq!(view.state, PlanState::Paused, "kept {kept}");
        paused += 1;
        drop((world, sim));
        let sim = Sim::builder().seed(10).wall(wall).build();
        let world = world_over(&sim, &store, true);
        let resumed = sim.block_on(world.plan(id).resume("ann")).expect("it ends");
        resumed.expect("its action is back").expect("it is paused");
        let view = sim.block_on(world.plan(id).finished()).expect("it ends").expect("it is there");
        assert_eq!((view.result(), view.run_number), (PlanResult::Success, 4), "kept {kept}");
    }
    assert!(paused > 2, "{paused}");
}
