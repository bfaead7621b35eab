//! What comes before a plan is ready for it: events for steps that have not begun, times while the clock is
//! wrong, plans whose action is missing.

use std::time::Duration;

use turnwheel_engine::{Delay, Next, PlanResult, PlanState, Waiting, World};
use turnwheel_runtime::sim::Sim;

use crate::common::{part, states, step_of, Play, Theatre};

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn an_event_for_a_step_that_has_not_begun_is_kept_for_it_also_over_a_crash() {
    let theatre = Theatre::new();
    let wait = |step: &mut turnwheel_engine::StepContext<Play>| {
        Ok(if step.has_event() { Next::Done } else { Next::suspend("a word") })
    };
    theatre.script.on("a", wait);
    theatre.script.on("b", wait);
    let plan = theatre.perform("a b c");
    let view = theatre.settle(&plan);
    let (a, b, c) = (step_of(&view, "a"), step_of(&view, "b"), step_of(&view, "c"));
    theatre.done(theatre.world.event(plan.id(), b, Some("one"), &1)).expect("it is kept");
    theatre.done(theatre.world.event(plan.id(), b, Some("one"), &1)).expect("it is known");
    theatre.done(theatre.world.event(plan.id(), c, None, &2)).expect("it is kept");
    let id = plan.id();
    let theatre = theatre.crash();
    theatre.script.on("a", wait);
    theatre.script.on("b", wait);
    theatre.script.said();
    theatre.done(theatre.world.event(id, a, None, &1)).expect("it is taken");
    let view = theatre.finished(&theatre.world.plan(id));
    assert_eq!(view.result(), PlanResult::Success);
    assert_eq!(&theatre.script.said()[..4], ["a", "b", "b", "c"]);
    // A step that wants none leaves it behind, and that is told.
    let letters = theatre.world.dead_letters().letters;
    assert_eq!(letters.iter().map(|letter| letter.step).collect::<Vec<_>>(), [c]);
}

#[test]
fn a_clock_that_is_wrong_for_a_moment_delays_no_timer() {
    let theatre = Theatre::new();
    theatre.script.on("a", |step| {
        if step.has_event() {
            return Ok(Next::Done);
        }
        step.event_after(Duration::from_millis(1_500), &1)?;
        Ok(Next::suspend("a moment"))
    });
    let plan = theatre.perform("a");
    theatre.sim.run_until_idle();
    theatre.sim.set_wall(theatre.sim.wall() - HOUR);
    assert_eq!(states(&theatre.settle(&plan)), "suspended");
    // It leaves memory while the clock is wrong.
    theatre.sim.advance(Duration::from_secs(4));
    assert_eq!(states(&theatre.settle(&plan)), "success");
    assert_eq!(theatre.script.said(), ["a", "a", "finalize a"]);
    theatre.sim.set_wall(theatre.sim.wall() + HOUR);
    let delayed = theatre.world.delay::<Play>(Delay::by(Duration::from_secs(90)), part("b"));
    let delayed = theatre.sim.block_on(delayed).expect("it ends").expect("it is taken");
    theatre.sim.run_until_idle();
    theatre.sim.set_wall(theatre.sim.wall() - HOUR);
    theatre.sim.advance(Duration::from_secs(65));
    theatre.sim.set_wall(theatre.sim.wall() + HOUR);
    theatre.sim.advance(Duration::from_secs(90));
    assert_eq!(theatre.script.said(), ["b", "finalize b"]);
    assert_eq!(theatre.settle(&delayed).state, PlanState::Stopped);
}

#[test]
fn a_delayed_plan_whose_action_is_missing_is_paused_and_goes_on_with_it() {
    let theatre = Theatre::new();
    let delayed = theatre.world.delay::<Play>(Delay::by(HOUR), part("a"));
    let id = theatre.sim.block_on(delayed).expect("it ends").expect("it is taken").id();
    theatre.sim.run_until_idle();
    let Theatre { sim, script, store, world } = theatre;
    let wall = sim.wall();
    drop((world, sim));
    let sim = Sim::builder().seed(9).wall(wall).build();
    let builder = World::builder().action(crate::common::Piece).group(&sim.group("plans"));
    let opening = builder.io_group(&sim.group("journal")).open(store.clone());
    let world = sim.block_on(opening).expect("it ends").expect("the world begins");
    let theatre = Theatre { sim, script, store, world };
    theatre.sim.advance(HOUR);
    let view = theatre.finished(&theatre.world.plan(id));
    assert_eq!((view.state, view.waiting()), (PlanState::Paused, Waiting::Decision));
    assert!(view.history.iter().any(|entry| entry.text.contains("«play»")), "{:?}", view.history);
    theatre.done(theatre.world.plan(id).resume("ann")).expect("it is tried again");
    theatre.sim.run_until_idle();
    assert_eq!(theatre.settle(&theatre.world.plan(id)).state, PlanState::Paused, "still missing");
    let theatre = theatre.crash();
    theatre.done(theatre.world.plan(id).resume("ann")).expect("it goes on");
    let view = theatre.finished(&theatre.world.plan(id));
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
}
