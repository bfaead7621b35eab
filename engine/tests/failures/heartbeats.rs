//! Signs of life: of code that runs, from outside, missed; what the next attempt is told; what is written.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, Cause, Next, OnInterrupt, PlanError, PlanHandle, PlanResult, PlanState,
    Rescue, RunAsync, RunsAsync, StepContext, StepState, Store,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion};

use crate::common::Theatre;

/// What the code of the step does next.
#[derive(Clone, Debug)]
enum Say {
    Beat(u32),
    Suspend,
    Done,
}

/// The code waits for orders, and says what it was told at each begin.
#[derive(Clone)]
struct Work {
    orders: Arc<Mutex<VecDeque<Completion<Say>>>>,
    told: Arc<Mutex<Vec<String>>>,
    policy: OnInterrupt,
    within: Option<Duration>,
}

impl Default for Work {
    fn default() -> Self {
        let (orders, told) = Default::default();
        Self { orders, told, policy: OnInterrupt::RunAgain, within: Some(Duration::from_secs(60)) }
    }
}

impl Work {
    /// An order that is given later.
    fn order(&self) -> Completer<Say> {
        let (give, order) = completion();
        self.orders.lock().expect("nothing panics under this lock").push_back(order);
        give
    }

    fn now(&self, say: Say) {
        assert!(self.order().complete(say).is_ok());
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().expect("nothing panics under this lock"))
    }
}

impl Action for Work {
    const NAME: &'static str = "work";
    type Input = ();
    type Output = u32;
    type Phases = RunsAsync;

    fn heartbeat(&self) -> Option<Duration> {
        self.within
    }

    fn on_interrupt(&self) -> OnInterrupt {
        self.policy
    }

    fn rescue(&self, _: &ActionError) -> Rescue {
        Rescue::Skip
    }
}

impl RunAsync for Work {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let known: Option<u32> = step.last_heartbeat()?;
        let line = format!("attempt {} knows {known:?}", step.attempt());
        self.told.lock().expect("nothing panics under this lock").push(line);
        if step.cause() == Cause::Event {
            return Ok(Next::Done);
        }
        loop {
            let order = self.orders.lock().expect("nothing panics under this lock").pop_front();
            let Some(order) = order else { return Ok(Next::Done) };
            match order.await {
                Ok(Say::Beat(details)) => step.heartbeat(&details)?,
                Ok(Say::Suspend) => return Ok(Next::suspend("the worker outside")),
                Ok(Say::Done) => return Ok(Next::Done),
                // Nobody gives orders any more: the code hangs.
                Err(_) => std::future::pending().await,
            }
        }
    }
}

fn started(work: &Work) -> (Theatre, PlanHandle) {
    let theatre = Theatre::with(|_| {}, |world| world.action(work.clone()));
    let triggering = theatre.world.trigger::<Work>(());
    let plan = theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken");
    theatre.sim.run_until_idle();
    (theatre, plan)
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn code_that_gives_signs_of_life_runs_as_long_as_it_wants() {
    let work = Work::default();
    let orders: Vec<_> = (0..5).map(|_| work.order()).collect();
    let (theatre, plan) = started(&work);
    for (number, order) in orders.into_iter().enumerate() {
        theatre.sim.advance(seconds(50));
        let say = if number == 4 { Say::Done } else { Say::Beat(number as u32) };
        assert!(order.complete(say).is_ok());
        theatre.sim.run_until_idle();
    }
    let view = theatre.finished(&plan);
    assert_eq!((view.result(), view.run_step::<Work>().unwrap().attempt), (PlanResult::Success, 1));
    assert_eq!(work.told(), ["attempt 1 knows None"]);
}

#[test]
fn code_that_is_silent_for_too_long_is_called_again_and_knows_the_last_details() {
    let work = Work::default();
    work.now(Say::Beat(1));
    work.now(Say::Beat(2));
    drop(work.order());
    let (theatre, plan) = started(&work);
    theatre.sim.advance(seconds(59));
    assert_eq!(work.told(), ["attempt 1 knows None"], "it is not late yet");
    theatre.sim.advance(seconds(2));
    let view = theatre.finished(&plan);
    let step = view.run_step::<Work>().unwrap();
    assert_eq!((view.result(), step.attempt), (PlanResult::Success, 2));
    assert_eq!(work.told(), ["attempt 2 knows Some(2)"]);
    assert!(view.history.iter().any(|entry| entry.text.contains("silent for too long")));
}

#[test]
fn a_step_that_is_silent_again_and_again_fails_at_last() {
    let work = Work::default();
    let hung: Vec<_> = (0..40).map(|_| work.order()).collect();
    let (theatre, plan) = started(&work);
    theatre.sim.advance(seconds(60 * 30));
    let view = theatre.finished(&plan);
    assert_eq!(view.result(), PlanResult::Warning, "its rescue is to skip it");
    let step = view.run_step::<Work>().unwrap();
    assert_eq!(step.error.as_ref().unwrap().kind, "silent");
    assert_eq!(step.attempt, 1 + turnwheel_engine::limits::SILENCES_MAX);
    drop(hung);
}

#[test]
fn the_policy_may_be_to_fail_or_to_pause() {
    let cases = [(OnInterrupt::Fail, PlanState::Stopped), (OnInterrupt::Pause, PlanState::Paused)];
    for (policy, state) in cases {
        let work = Work { policy, ..Work::default() };
        let hung = work.order();
        let (theatre, plan) = started(&work);
        theatre.sim.advance(seconds(61));
        let view = theatre.finished(&plan);
        assert_eq!((view.state, work.told().len()), (state, 1), "{policy:?}");
        assert_eq!(view.run_step::<Work>().unwrap().error.as_ref().unwrap().kind, "silent");
        drop(hung);
    }
}

#[test]
fn a_suspended_step_is_kept_alive_from_outside_and_only_by_its_own_attempt() {
    let work = Work::default();
    work.now(Say::Suspend);
    let (theatre, plan) = started(&work);
    let step = theatre.settle(&plan).run_step::<Work>().unwrap().id;
    let beat = |theatre: &Theatre, attempt, details: u32| {
        theatre.done(theatre.world.heartbeat(plan.id(), step, attempt, &details))
    };
    for details in 0..4 {
        theatre.sim.advance(seconds(50));
        beat(&theatre, 1, details).unwrap();
    }
    work.now(Say::Suspend);
    theatre.sim.advance(seconds(61));
    assert_eq!(theatre.settle(&plan).run_step::<Work>().unwrap().attempt, 2);
    let told = ["attempt 1 knows None", "attempt 2 knows Some(3)"];
    assert_eq!(work.told(), told);
    let error = beat(&theatre, 1, 9).unwrap_err();
    assert!(matches!(error, PlanError::State { .. }), "{error}");
    assert!(error.to_string().contains("attempt 1 of its step 2 is over"), "{error}");
    beat(&theatre, 2, 10).unwrap();
    theatre.done(theatre.world.event(plan.id(), step, None, &())).unwrap();
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);
    assert_eq!(work.told(), ["attempt 2 knows Some(10)"], "an event's call is told as well");
    let late = beat(&theatre, 2, 11).unwrap_err();
    assert!(late.to_string().contains("is stopped: end what was done for it"), "{late}");
    let unknown = theatre.world.heartbeat(theatre.world.plan(plan.id()).id(), step, 1, &f64::NAN);
    assert!(theatre.done(unknown).is_err());
}

#[test]
fn many_signs_of_life_are_few_entries_and_a_crash_loses_five_seconds_of_them() {
    let work = Work::default();
    work.now(Say::Suspend);
    let (theatre, plan) = started(&work);
    let step = theatre.settle(&plan).run_step::<Work>().unwrap().id;
    let entries =
        |theatre: &Theatre| theatre.store.reader().unwrap().journal(0, usize::MAX).unwrap().len();
    let before = entries(&theatre);
    for details in 0..1_000_u32 {
        theatre.done(theatre.world.heartbeat(plan.id(), step, 1, &details)).unwrap();
        theatre.sim.advance(Duration::from_millis(20));
    }
    let written = entries(&theatre) - before;
    assert!((3..=5).contains(&written), "20 seconds, {written} entries");
    let id = plan.id();
    drop(plan);
    let theatre = theatre.crash_with(|_| {}, |world| world.action(work.clone()));
    theatre.sim.advance(seconds(61));
    theatre.sim.run_until_idle();
    let view = theatre.finished(&theatre.world.plan(id));
    assert_eq!(view.run_step::<Work>().unwrap().attempt, 2);
    let told = work.told();
    let known: u32 = told[1].trim_end_matches(')').rsplit('(').next().unwrap().parse().unwrap();
    assert!(known >= 1_000 - 250, "{told:?}");
}

#[test]
fn nobody_is_blamed_for_the_time_without_a_world() {
    let work = Work::default();
    work.now(Say::Suspend);
    let (theatre, plan) = started(&work);
    let id = plan.id();
    drop(plan);
    let Theatre { sim, script, store, world } = theatre;
    let wall = sim.wall() + seconds(3_600);
    drop(world);
    drop(sim);
    let sim = turnwheel_runtime::sim::Sim::builder().seed(9).wall(wall).build();
    let opening = turnwheel_engine::World::builder()
        .action(work.clone())
        .group(&sim.group("plans"))
        .io_group(&sim.group("journal"))
        .open(store.clone());
    let world = sim.block_on(opening).expect("it ends").expect("the world begins");
    let theatre = Theatre { sim, script, store, world };
    let plan = theatre.world.plan(id);
    theatre.sim.advance(seconds(59));
    assert_eq!(theatre.settle(&plan).run_step::<Work>().unwrap().state, StepState::Suspended);
    theatre.sim.advance(seconds(2));
    assert_eq!(theatre.finished(&plan).run_step::<Work>().unwrap().attempt, 2);
}

#[test]
fn an_action_that_declares_nothing_may_be_silent_and_its_details_are_kept() {
    let work = Work { within: None, ..Work::default() };
    work.now(Say::Beat(7));
    let hung = work.order();
    let (theatre, plan) = started(&work);
    theatre.sim.advance(seconds(3_600));
    let view = theatre.settle(&plan);
    let step = view.run_step::<Work>().unwrap();
    assert_eq!((step.state, step.attempt), (StepState::Running, 1));
    assert_eq!(step.beat.as_ref().unwrap().details.as_ref().unwrap().as_str(), "7");
    drop(hung);
}

#[test]
fn nobody_is_blamed_for_the_time_in_which_the_machine_slept() {
    let work = Work::default();
    work.now(Say::Suspend);
    let (theatre, plan) = started(&work);
    let step = theatre.settle(&plan).run_step::<Work>().unwrap().id;
    let beat = || theatre.world.heartbeat(plan.id(), step, 1, &1);
    for _ in 0..4 {
        theatre.sim.advance(seconds(30));
        theatre.done(beat()).unwrap();
    }
    theatre.sim.set_wall(theatre.sim.wall() + seconds(3_600));
    for _ in 0..4 {
        theatre.sim.advance(seconds(30));
        theatre.done(beat()).unwrap();
    }
    let view = theatre.settle(&plan);
    let step = view.run_step::<Work>().unwrap();
    assert_eq!((step.state, step.attempt), (StepState::Suspended, 1));
    theatre.sim.advance(seconds(121));
    assert!(theatre.settle(&plan).run_step::<Work>().unwrap().attempt > 1, "it is silent now");
}
