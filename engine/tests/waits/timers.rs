//! Timers with names: moved and cancelled, by their step and from outside.

use std::time::Duration;

use turnwheel_engine::{action, ActionError, Next, PlanHandle, PlanState, StepContext};

use crate::common::Theatre;

const MINUTE: Duration = Duration::from_secs(60);

/// Writes down what it is called for, and does as events tell it.
#[action(output = Vec<String>)]
async fn watch(step: &mut StepContext<Watch>) -> Result<Next, ActionError> {
    let told = step.event::<String>()?.unwrap_or_else(|| "begin".to_owned());
    step.output.push(match step.timer() {
        Some(timer) => format!("timer {timer}: {told}"),
        None => told.clone(),
    });
    match told.as_str() {
        "begin" => step.set_timer("idle", MINUTE, &"first")?,
        "move" => step.set_timer("idle", 5 * MINUTE, &"moved")?,
        "cancel" => step.cancel_timer("idle"),
        "both" => {
            step.set_timer("idle", MINUTE, &"not b")?;
            step.set_timer("b", MINUTE, &"b")?;
        }
        "not b" => step.cancel_timer("b"),
        "end" => return Ok(Next::Done),
        _ => {}
    }
    Ok(step.wait_for_event("orders"))
}

/// Takes no events, and cancels the only timer that it has.
#[action]
impl Deaf {
    fn takes_events(&self) -> bool {
        false
    }

    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.set_timer("idle", MINUTE, &())?;
        if step.has_event() {
            step.cancel_timer("idle");
        }
        Ok(step.wait_for_event("nothing"))
    }
}

struct Deaf;

fn begin(theatre: &Theatre) -> PlanHandle {
    let plan = theatre.sim.block_on(theatre.world.trigger::<Watch>(()));
    plan.expect("it ends").expect("the plan is taken")
}

fn tell(theatre: &Theatre, plan: &PlanHandle, what: &str) {
    let step = theatre.settle(plan).run_step::<Watch>().expect("it runs").id;
    theatre.done(theatre.world.event(plan.id(), step, None, &what)).expect("it is taken");
    theatre.sim.run_until_idle();
}

fn said(theatre: &Theatre, plan: &PlanHandle) -> Vec<String> {
    theatre.settle(plan).output::<Watch>().expect("it was called")
}

fn theatre() -> Theatre {
    Theatre::with(|_| {}, |world| world.action(Watch).action(Deaf))
}

fn crash(theatre: Theatre) -> Theatre {
    theatre.crash_with(|_| {}, |world| world.action(Watch).action(Deaf))
}

#[test]
fn timer_that_is_set_again_fires_once_at_its_new_time() {
    let theatre = theatre();
    let plan = begin(&theatre);
    tell(&theatre, &plan, "move");
    let id = plan.id();
    theatre.sim.advance(2 * MINUTE);
    let theatre = crash(theatre);
    let plan = theatre.world.plan(id);
    assert_eq!(said(&theatre, &plan), ["begin", "move"]);
    theatre.sim.advance(10 * MINUTE);
    assert_eq!(said(&theatre, &plan), ["begin", "move", "timer idle: moved"]);
}

#[test]
fn cancelled_timer_never_fires_also_after_a_crash() {
    let theatre = theatre();
    let plan = begin(&theatre);
    tell(&theatre, &plan, "cancel");
    let id = plan.id();
    let theatre = crash(theatre);
    theatre.sim.advance(10 * MINUTE);
    let plan = theatre.world.plan(id);
    assert_eq!(said(&theatre, &plan), ["begin", "cancel"]);
    assert!(theatre.settle(&plan).timers.is_empty());
}

#[test]
fn event_of_a_cancelled_timer_that_has_fired_is_dropped() {
    let theatre = theatre();
    let plan = begin(&theatre);
    tell(&theatre, &plan, "both");
    // Both fire in the same moment.
    theatre.sim.advance(10 * MINUTE);
    assert_eq!(said(&theatre, &plan), ["begin", "both", "timer idle: not b"]);
}

#[test]
fn timer_is_moved_and_cancelled_from_outside() {
    let theatre = theatre();
    let plan = begin(&theatre);
    let step = theatre.settle(&plan).run_step::<Watch>().expect("it runs").id;
    let soon = theatre.settle(&plan).created.at.after(Duration::from_secs(5));
    theatre.done(plan.move_timer(step, "idle", Some(soon), "ann")).expect("it has one");
    theatre.sim.advance(Duration::from_secs(6));
    assert_eq!(said(&theatre, &plan), ["begin", "timer idle: first"]);
    let refused = theatre.done(plan.move_timer(step, "idle", None, "ann")).unwrap_err();
    assert!(refused.to_string().contains("has no timer «idle»"), "{refused}");
    tell(&theatre, &plan, "move");
    theatre.done(plan.move_timer(step, "idle", None, "ann")).expect("it has one");
    theatre.sim.advance(10 * MINUTE);
    assert_eq!(said(&theatre, &plan).len(), 3);
    let view = theatre.settle(&plan);
    assert!(view.history.iter().any(|line| line.text.contains("cancelled by ann")));
}

#[test]
fn step_that_takes_no_events_and_cancels_its_only_timer_fails() {
    let theatre = theatre();
    let plan = theatre.sim.block_on(theatre.world.trigger::<Deaf>(()));
    let plan = plan.expect("it ends").expect("the plan is taken");
    theatre.sim.advance(2 * MINUTE);
    let view = theatre.settle(&plan);
    let error = view.run_step::<Deaf>().expect("it runs").error.clone();
    assert_eq!(view.state, PlanState::Paused);
    assert_eq!(error.map(|error| error.kind), Some("no_event".to_owned()));
}
