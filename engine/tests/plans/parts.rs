//! Steps that ask for steps of the same plan while it runs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    Action, ActionError, MemoryStore, Next, PlanHandle, PlanResult, PlanState, PlanView, Rescue,
    Revert, Reverts, Run, RunAsync, Runs, RunsAsync, StepContext, StepId, StepState, World,
};

/// Doubles a number.
struct Double;
impl Action for Double {
    const NAME: &'static str = "double";
    type Input = u64;
    type Output = u64;
    type Phases = Runs;
}
impl Run for Double {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output = step.input * 2;
        Ok(Next::Done)
    }
}

/// Waits for ever.
struct Sleep;
impl Action for Sleep {
    const NAME: &'static str = "sleep";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}
impl RunAsync for Sleep {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.event_after(Duration::from_secs(1_000_000), &0)?;
        Ok(Next::suspend("nothing"))
    }
}

/// Asks for one after the other, then for some at once, and adds up.
struct Sum;
#[derive(Default, Serialize, Deserialize)]
struct State {
    sum: u64,
    heard: u32,
}
impl Action for Sum {
    const NAME: &'static str = "sum";
    type Input = u32;
    type Output = State;
    type Phases = RunsAsync;
}
impl RunAsync for Sum {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if let Some((tag, output)) = step.part::<u64>() {
            step.output.sum += output.unwrap_or(1_000_000);
            step.output.heard += 1;
            assert!(tag < step.input);
        }
        let heard = step.output.heard;
        if heard == step.input {
            return Ok(Next::Done);
        }
        if heard < 2 {
            step.ask::<Double>(heard, &u64::from(heard))?;
        } else if heard == 2 {
            for tag in 2..step.input {
                step.ask::<Double>(tag, &u64::from(tag))?;
            }
            step.ask::<Sleep>(step.input, &())?;
        } else if heard == 3 {
            step.drop_part(step.input);
        }
        Ok(Next::suspend("parts"))
    }
}

fn world() -> World {
    let actions = World::builder().action(Double).action(Sum).action(Sleep);
    actions.build(MemoryStore::new()).expect("it can be built")
}

#[test]
fn a_step_asks_for_steps_and_hears_of_each() {
    let world = world();
    let plan = world.trigger::<Sum>(6).wait().unwrap();
    let view = plan.finished().wait().unwrap();
    assert_eq!(view.output::<Sum>().unwrap().sum, 30);
    assert_eq!(view.result(), PlanResult::Success);
    let states: Vec<_> = view.steps.iter().map(|step| step.state).collect();
    assert_eq!(states.iter().filter(|state| **state == StepState::Dropped).count(), 1);
    let root = view.actions[0].id;
    assert_eq!(view.children(root).count(), 7, "they are parts of the action that asked");
    world.shutdown().unwrap();
}

#[test]
fn what_is_not_over_is_dropped_when_the_asker_ends() {
    let world = world();
    // The sleeper is dropped by name at the third answer; with three, by the end of the asker.
    let plan = world.trigger::<Sum>(3).wait().unwrap();
    let view = plan.finished().wait().unwrap();
    assert_eq!(view.result(), PlanResult::Success);
    assert!(view.steps.iter().all(|step| !step.state.is_live()));
    world.shutdown().unwrap();
}

#[test]
fn a_plan_that_has_grown_is_the_same_after_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    let store = || turnwheel_sqlite::SqliteStore::new(&path);
    let actions = || World::builder().action(Double).action(Sum).action(Sleep);
    let world = actions().build(store()).unwrap();
    let plan = world.trigger::<Sum>(5).wait().unwrap();
    let before = plan.finished().wait().unwrap();
    world.shutdown().unwrap();
    let world = actions().build(store()).unwrap();
    let after = world.plan(plan.id()).view().wait().unwrap();
    assert_eq!(before.steps, after.steps);
    assert_eq!(before.actions, after.actions);
    world.shutdown().unwrap();
}

/// Fails as often as it is told to, and says with which rescue; knows what was taken back.
#[derive(Default)]
struct Fragile {
    fails: AtomicU32,
    reverted: AtomicU32,
}
impl Action for Fragile {
    const NAME: &'static str = "fragile";
    type Input = String;
    type Output = u64;
    type Phases = (RunsAsync, Reverts);

    fn rescue(&self, error: &ActionError) -> Rescue {
        match error.kind.as_str() {
            "skip" => Rescue::Skip,
            "fail" => Rescue::Fail,
            "revert" => Rescue::Revert,
            _ => Rescue::Pause,
        }
    }
}
impl RunAsync for Fragile {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let left = self.fails.load(Ordering::SeqCst);
        if left > 0 {
            self.fails.store(left - 1, Ordering::SeqCst);
            return Err(ActionError::new(&step.input, "as it was told to"));
        }
        step.output = 42;
        Ok(Next::Done)
    }
}
impl Revert for Fragile {
    fn revert(&self, _: &mut StepContext<Self>) -> Result<(), ActionError> {
        self.reverted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Needs what a fragile one gives, or nothing.
struct Needs;
impl Action for Needs {
    const NAME: &'static str = "needs";
    type Input = String;
    type Output = Option<u64>;
    type Phases = RunsAsync;
}
impl RunAsync for Needs {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if let Some((_, output)) = step.part::<u64>() {
            step.output = Some(output.unwrap_or(0));
            return Ok(Next::Done);
        }
        step.ask::<Fragile>(1, &step.input.clone())?;
        Ok(Next::suspend("the fragile one"))
    }
}

fn needs(kind: &str) -> (World, PlanHandle, PlanView) {
    let fragile = Fragile { fails: AtomicU32::new(1), ..Fragile::default() };
    let world = World::builder().action(fragile).action(Needs).build(MemoryStore::new());
    let world = world.expect("it begins");
    let plan = world.trigger::<Needs>(kind.to_owned()).wait().expect("it is taken");
    let view = plan.finished().wait().expect("it ends");
    (world, plan, view)
}

fn states(view: &PlanView) -> Vec<StepState> {
    view.steps[1..].iter().map(|step| step.state).collect()
}

#[test]
fn a_failed_part_pauses_the_plan_and_the_step_that_waits_for_it_goes_on_with_it() {
    let (world, plan, view) = needs("broken");
    assert_eq!(view.state, PlanState::Paused);
    assert_eq!(states(&view), [StepState::Suspended, StepState::Error]);
    plan.resume("ann").wait().unwrap().unwrap();
    let view = plan.finished().wait().unwrap();
    assert_eq!(view.result(), PlanResult::Success);
    assert_eq!(view.output::<Needs>().unwrap(), Some(42));
    world.shutdown().unwrap();

    // By hand it is left out, or both begin again, or all is ended.
    let (world, plan, _) = needs("broken");
    plan.skip(StepId(3), "ann").wait().unwrap().unwrap();
    plan.resume("ann").wait().unwrap().unwrap();
    let view = plan.finished().wait().unwrap();
    assert_eq!((view.result(), view.output::<Needs>().unwrap()), (PlanResult::Warning, Some(0)));
    world.shutdown().unwrap();

    let (world, plan, _) = needs("broken");
    plan.restart_from(StepId(2), "ann").wait().unwrap().unwrap();
    plan.resume("ann").wait().unwrap().unwrap();
    let view = plan.finished().wait().unwrap();
    assert_eq!(states(&view), [StepState::Success, StepState::Dropped, StepState::Success]);
    assert_eq!(view.result(), PlanResult::Success);
    world.shutdown().unwrap();

    let (world, plan, _) = needs("broken");
    plan.cancel("ann").wait().unwrap().unwrap();
    let view = plan.finished().wait().unwrap();
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));
    world.shutdown().unwrap();
}

#[test]
fn a_failed_part_is_rescued_as_its_action_says() {
    let (world, _, view) = needs("skip");
    assert_eq!(states(&view), [StepState::Success, StepState::Skipped]);
    assert_eq!((view.result(), view.output::<Needs>().unwrap()), (PlanResult::Warning, Some(0)));
    world.shutdown().unwrap();
    let (world, _, view) = needs("fail");
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Error));
    world.shutdown().unwrap();
    let (world, _, view) = needs("revert");
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Reverted));
    assert_eq!(states(&view), [StepState::Error, StepState::Reverted]);
    world.shutdown().unwrap();
}
