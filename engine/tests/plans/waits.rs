//! Steps that wait for events, and know when none can come.

use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, Cause, Next, PlanResult, PlanState, RunAsync, RunsAsync, StepContext,
    StepState,
};

use crate::common::Theatre;

/// Asks for this before it waits for an event; takes none from outside.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
enum Asks {
    Nothing,
    Timer,
    /// A timer, and when that has fired nothing.
    TimerOnce,
    SubPlan,
    Part,
}

struct Deaf;

impl Action for Deaf {
    const NAME: &'static str = "deaf";
    type Input = Asks;
    type Output = u32;
    type Phases = RunsAsync;

    fn takes_events(&self) -> bool {
        false
    }
}

impl RunAsync for Deaf {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let is_told = step.cause() != Cause::Turn;
        step.output += 1;
        match step.input {
            Asks::TimerOnce if is_told => {}
            _ if is_told => return Ok(Next::Done),
            Asks::Nothing => {}
            Asks::Timer | Asks::TimerOnce => step.event_after(Duration::from_secs(60), &())?,
            Asks::SubPlan => step.trigger::<Quick>(&()).map(drop)?,
            Asks::Part => step.ask::<Quick>(0, &())?,
        }
        Ok(step.wait_for_event("a word"))
    }
}

/// Is done at once.
struct Quick;

impl Action for Quick {
    const NAME: &'static str = "quick";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Quick {
    async fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Ok(Next::Done)
    }
}

#[test]
fn step_that_waits_for_an_event_that_cannot_come_fails_at_once() {
    for (asks, calls) in [(Asks::Nothing, 1), (Asks::TimerOnce, 2)] {
        let theatre = Theatre::with(|_| {}, |world| world.action(Deaf).action(Quick));
        let plan = theatre.sim.block_on(theatre.world.trigger::<Deaf>(asks));
        let plan = plan.expect("it ends").expect("it is taken");
        theatre.sim.run_until_idle();
        theatre.sim.advance(Duration::from_secs(61));
        let view = theatre.settle(&plan);
        assert_eq!((view.state, view.output::<Deaf>().unwrap()), (PlanState::Paused, calls));
        assert_eq!(view.errors()[0].kind, "no_event");
    }
}

#[test]
fn step_that_takes_no_events_waits_for_its_timers_parts_and_sub_plans() {
    for asks in [Asks::Timer, Asks::SubPlan, Asks::Part] {
        let theatre = Theatre::with(|_| {}, |world| world.action(Deaf).action(Quick));
        let plan = theatre.sim.block_on(theatre.world.trigger::<Deaf>(asks));
        let plan = plan.expect("it ends").expect("it is taken");
        theatre.sim.run_until_idle();
        theatre.sim.advance(Duration::from_secs(61));
        assert_eq!(theatre.finished(&plan).result(), PlanResult::Success, "{asks:?}");
    }
}

#[test]
fn event_for_an_action_that_takes_none_is_refused() {
    let theatre = Theatre::with(|_| {}, |world| world.action(Deaf).action(Quick));
    let plan = theatre.sim.block_on(theatre.world.trigger::<Deaf>(Asks::Timer));
    let plan = plan.expect("it ends").expect("it is taken");
    let step = theatre.settle(&plan).run_step::<Deaf>().expect("it runs").clone();
    assert_eq!(step.state, StepState::Suspended);
    let sent = theatre.sim.wait(theatre.world.event(plan.id(), step.id, None, &()));
    let refused = sent.expect("it answers").expect_err("it takes none").to_string();
    assert!(refused.contains("takes no events from outside"), "{refused}");
}
