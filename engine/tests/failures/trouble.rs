//! Trouble that has no file of its own: each has a typed error or a defined outcome. The list: TROUBLE.md.

use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use turnwheel_engine::limits::{PAYLOAD_BYTES_MAX, STEPS_MAX};
use turnwheel_engine::{
    Action, ActionError, Delay, Finalize, Finalizes, MemoryStore, Next, PlanHandle, PlanResult,
    PlanState, Planner, RunAsync, RunsAsync, StepContext, TransactionAdapter, TriggerError, World,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::Backoff;
use turnwheel_sqlite::{SqliteStore, SqliteSync};

use crate::common::{states, step_of, Part, Play, Theatre};

#[test]
fn a_plan_whose_action_is_gone_after_an_upgrade_is_paused_and_says_so() {
    let theatre = Theatre::with(|_| {}, |world| world.action(Many));
    let wait = |_: &mut StepContext<Play>| Ok(Next::suspend("a word"));
    theatre.script.on("a", wait);
    let plan = theatre.perform("a b");
    let id = plan.id();
    theatre.settle(&plan);
    drop(plan);
    let Theatre { sim, script, store, world } = theatre;
    let wall = sim.wall();
    drop((world, sim));
    let sim = Sim::builder().seed(9).wall(wall).build();
    let builder = World::builder().action(Many).group(&sim.group("plans"));
    let opening = builder.io_group(&sim.group("journal")).open(store.clone());
    let world = sim.block_on(opening).expect("it ends").expect("the world begins");
    let theatre = Theatre { sim, script, store, world };
    let view = theatre.settle(&theatre.world.plan(id));
    let step = step_of(&view, "a");
    theatre.done(theatre.world.event(id, step, None, &1)).unwrap();
    let view = theatre.finished(&theatre.world.plan(id));
    assert_eq!(view.state, PlanState::Paused);
    let error = view.step(step).error.clone().unwrap();
    assert_eq!(error.kind, "unknown_action");
    assert!(error.message.contains("«play»") && error.message.contains("renamed"), "{error}");
    // With the action again it goes on.
    drop(view);
    let theatre = theatre.crash();
    let plan = theatre.world.plan(id);
    theatre.script.on("a", |_| Ok(Next::Done));
    theatre.done(plan.resume("ann")).unwrap();
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);
}

#[test]
fn what_is_too_large_is_refused_with_its_size_and_the_limit() {
    let theatre = Theatre::new();
    let large = "x".repeat(PAYLOAD_BYTES_MAX);
    let text = large.clone();
    theatre.script.on("a", move |step| {
        step.output = json!(text);
        Ok(Next::Done)
    });
    let plan = theatre.perform("a");
    let view = theatre.finished(&plan);
    let error = view.step(step_of(&view, "a")).error.clone().unwrap();
    assert_eq!((view.state, error.kind.as_str()), (PlanState::Paused, "output"));
    assert!(error.message.contains(&PAYLOAD_BYTES_MAX.to_string()), "{error}");
    let input = Part { who: large.clone(), needs: Vec::new() };
    let refused = theatre.sim.block_on(theatre.world.trigger::<Play>(input)).unwrap().unwrap_err();
    assert!(matches!(refused, TriggerError::Input { .. }), "{refused}");
    let step = step_of(&view, "a");
    let event = theatre.world.event(plan.id(), step, None, &large);
    assert!(theatre.done(event).unwrap_err().to_string().contains("limit"));
    let beat = theatre.world.heartbeat(plan.id(), step, 1, &large);
    let refused = theatre.done(beat).unwrap_err().to_string();
    assert!(refused.contains("sign of life") && refused.contains("limit"), "{refused}");
}

/// Plans as many steps as it is told, or steps without end.
struct Many;

impl Action for Many {
    const NAME: &'static str = "many";
    type Input = Option<u32>;
    type Output = u32;
    type Phases = RunsAsync;

    fn plan(&self, planner: &mut Planner<'_, Self>, count: Option<u32>) -> Result<(), ActionError> {
        match count {
            Some(0) => planner.plan_self(None).map(|_| ()),
            Some(count) => {
                (0..count).try_for_each(|_| planner.plan_action::<Self>(Some(0)).map(|_| ()))
            }
            None => loop {
                planner.plan_action::<Self>(Some(0))?;
            },
        }
    }
}

impl RunAsync for Many {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output = 1;
        Ok(Next::Done)
    }
}

#[test]
fn a_planning_that_adds_steps_for_ever_is_ended_with_the_limit() {
    let world = World::builder().action(Many).build(MemoryStore::new()).unwrap();
    let error = world.trigger::<Many>(None).wait().unwrap_err();
    let TriggerError::Planning { error, .. } = error else { panic!("{error}") };
    assert!(error.message.contains(&STEPS_MAX.to_string()), "{error}");
    assert!(error.message.contains("many"), "the chain is named: {error}");
    world.shutdown().unwrap();
}

#[test]
fn a_plan_of_a_hundred_thousand_steps_runs_and_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = || SqliteStore::new(folder.path().join("plans.db")).sync(SqliteSync::Off);
    let world = World::builder().action(Many).build(store()).unwrap();
    let plan = world.trigger::<Many>(Some(100_000)).wait().unwrap();
    let id = plan.id();
    let view = plan.finished().wait().unwrap();
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    world.shutdown().unwrap();
    drop((plan, world));
    let world = World::builder().action(Many).build(store()).unwrap();
    let view = world.plan(id).finished().wait().unwrap();
    let done = view.actions.iter().filter(|action| action.output.as_str() == "1").count();
    assert_eq!((view.result(), done), (PlanResult::Success, 100_000));
    world.shutdown().unwrap();
}

fn later(theatre: &Theatre, by: i64) {
    let hour = Duration::from_secs(by.unsigned_abs());
    let wall = theatre.sim.wall();
    theatre.sim.set_wall(if by > 0 { wall + hour } else { wall - hour });
}

#[test]
fn a_clock_that_jumps_makes_nothing_early_by_its_own_time_and_nothing_is_lost() {
    for jump in [3_600, -3_600] {
        let retries = |play: &mut Play| play.attempts = 2;
        let theatre = Theatre::with(retries, |world| world);
        theatre.script.on("timer", |step| {
            if step.has_event() {
                return Ok(Next::Done);
            }
            step.event_after(Duration::from_secs(60), &1)?;
            Ok(Next::suspend("a minute"))
        });
        theatre.script.on("retry", |step| {
            if step.attempt() == 1 {
                return Err(ActionError::new("broken", "once"));
            }
            Ok(Next::Done)
        });
        let plans: Vec<PlanHandle> = ["timer", "retry"].map(|who| theatre.perform(who)).into();
        let delay = Delay::by(Duration::from_secs(60));
        let delayed = theatre.world.delay::<crate::common::Piece>(delay, "a".to_owned());
        let delayed = theatre.sim.block_on(delayed).unwrap().unwrap();
        theatre.sim.run_until_idle();
        later(&theatre, jump);
        theatre.sim.advance(Duration::from_secs(59));
        if jump < 0 {
            assert_eq!(states(&theatre.settle(&plans[0])), "suspended", "its minute is not over");
        }
        // By then the clock has shown the time that was asked for, whichever way it jumped.
        theatre.sim.advance(Duration::from_secs(3_700));
        for plan in plans.iter().chain([&delayed]) {
            assert_eq!(theatre.finished(plan).result(), PlanResult::Success, "jump {jump}");
        }
    }
}

#[test]
fn a_jump_of_the_clock_over_a_restart_is_no_harm() {
    for jump in [86_400_i64, -86_400] {
        let theatre = Theatre::new();
        theatre.script.on("a", |step| {
            if step.has_event() {
                return Ok(Next::Done);
            }
            step.event_after(Duration::from_secs(60), &1)?;
            Ok(Next::suspend("a minute"))
        });
        let id = theatre.perform("a").id();
        theatre.sim.run_until_idle();
        later(&theatre, jump);
        let theatre = theatre.crash();
        theatre.sim.advance(Duration::from_secs(86_400 + 120));
        assert_eq!(theatre.finished(&theatre.world.plan(id)).result(), PlanResult::Success);
        let new = theatre.perform("b");
        assert_ne!(new.id(), id);
        assert_eq!(theatre.finished(&new).result(), PlanResult::Success);
    }
}

/// A database whose transaction around a finalize phase does not end before it is told to.
struct Stuck {
    entered: Sender<()>,
    end: Mutex<Receiver<()>>,
}

impl TransactionAdapter for Stuck {
    fn transaction(
        &self,
        work: &mut dyn FnMut() -> Result<(), ActionError>,
    ) -> Result<(), ActionError> {
        work()?;
        let is_finalize = std::thread::current().name().is_none_or(|name| !name.contains("plans_"));
        if is_finalize {
            let _nobody_waits = self.entered.send(());
            let end = self.end.lock().expect("nothing panics under this lock");
            let _ended = end.recv();
        }
        Ok(())
    }
}

/// Has a finalize phase.
struct Closing;

impl Action for Closing {
    const NAME: &'static str = "closing";
    type Input = ();
    type Output = ();
    type Phases = Finalizes;
}

impl Finalize for Closing {
    fn finalize(&self, _: &mut StepContext<Self>) -> Result<(), ActionError> {
        Ok(())
    }
}

#[test]
fn a_transaction_that_never_ends_holds_up_its_plan_and_no_other_and_can_be_given_up() {
    // Planning is in the thread of this test, and its transactions end at once.
    let test = std::thread::Builder::new().name("plans_in_the_test".to_owned());
    let test = test.spawn(|| {
        let ((entered, enters), (end, ends)) = (channel(), channel());
        let stuck = Stuck { entered, end: Mutex::new(ends) };
        let world = World::builder().action(Closing).action(Many).transactions(stuck);
        let world = world.build(MemoryStore::new()).unwrap();
        let plan = world.trigger::<Closing>(()).wait().unwrap();
        enters.recv().unwrap();
        let other = world.trigger::<Many>(Some(2)).wait().unwrap();
        assert_eq!(other.finished().wait().unwrap().result(), PlanResult::Success);
        assert_eq!(plan.view().wait().unwrap().state, PlanState::Running);
        let gone = turnwheel_runtime::completion::block_on(plan.cancel_now("ann")).unwrap();
        gone.unwrap().unwrap();
        let view = plan.finished().wait().unwrap();
        assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));
        drop(end);
        world.shutdown().unwrap();
    });
    test.expect("it begins").join().expect("it ends well");
}

/// Waits a moment, fails once, goes on.
struct Busy;

impl Action for Busy {
    const NAME: &'static str = "busy";
    type Input = u64;
    type Output = u64;
    type Phases = (RunsAsync, Finalizes);

    fn retry(&self) -> turnwheel_engine::RetryPolicy {
        let pauses = Backoff::constant(Duration::from_millis(3));
        turnwheel_engine::RetryPolicy::attempts(20).pauses(pauses)
    }
}

impl RunAsync for Busy {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.has_event() {
            step.output = step.input + 1;
            return Ok(Next::Done);
        }
        if step.attempt() == 1 && step.input % 3 == 0 {
            return Err(ActionError::new("broken", "once"));
        }
        step.event_after(Duration::from_millis(step.input % 7), &())?;
        Ok(Next::suspend("a moment"))
    }
}

impl Finalize for Busy {
    fn finalize(&self, step: &mut StepContext<Self>) -> Result<(), ActionError> {
        step.output += 1_000;
        Ok(())
    }
}

#[test]
fn a_world_that_is_shut_down_in_the_middle_of_everything_goes_on_with_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let store = SqliteStore::new(folder.path().join("plans.db")).sync(SqliteSync::Off);
        World::builder().action(Busy).build(store).unwrap()
    };
    let mut plans = Vec::new();
    for life in 0..6_u64 {
        let world = open();
        for number in 0..20 {
            let input = life * 20 + number;
            let triggering = world.trigger_once::<Busy>(format!("busy {input}"), input);
            plans.push((triggering.wait().unwrap().id(), input));
        }
        // In the middle of it: some have begun, some wait, some are over.
        world.shutdown().unwrap();
        assert!(world.trigger::<Busy>(1).wait().is_err(), "it takes nothing any more");
    }
    let world = open();
    for (plan, input) in plans {
        let view = world.plan(plan).finished().wait().unwrap();
        assert_eq!(view.result(), PlanResult::Success, "{:?}", view.errors());
        assert_eq!(view.output::<Busy>().unwrap(), input + 1_001, "finalized once");
    }
    world.shutdown().unwrap();
}
