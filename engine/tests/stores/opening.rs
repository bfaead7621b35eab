//! Worlds that leave the plans of their store alone, or go on with those that they are asked for.

use turnwheel_engine::schedule::Overlap;
use turnwheel_engine::{Next, Opening, PlanResult, PlanState};

use crate::common::calendar::{every, get, put, HOUR};
use crate::common::{error, states, step_of, Theatre};

fn crash_into(theatre: Theatre, opening: Opening) -> Theatre {
    theatre.crash_with(|_| {}, |builder| builder.opening(opening))
}

/// Who has run since the last call; finalize phases left out.
fn ran(theatre: &Theatre) -> Vec<String> {
    theatre.script.said().into_iter().filter(|line| !line.starts_with("finalize")).collect()
}

/// Waits for one event.
fn listens(theatre: &Theatre, who: &str) {
    theatre.script.on(who, |step| match step.event::<String>()? {
        Some(_) => Ok(Next::Done),
        None => Ok(Next::Suspend("a word".to_owned())),
    });
}

#[test]
fn what_is_at_rest_is_changed_and_not_called() {
    let theatre = Theatre::new();
    listens(&theatre, "a");
    let (told, ended) = (theatre.perform("a b"), theatre.perform("a"));
    theatre.settle(&told);
    let theatre = crash_into(theatre, Opening::AtRest);
    theatre.script.said();
    let (told, ended) = (theatre.world.plan(told.id()), theatre.world.plan(ended.id()));
    let step = step_of(&theatre.settle(&told), "a");
    let sent = theatre.world.event(told.id(), step, None, &"word");
    theatre.done(sent).expect("the event is taken");
    theatre.done(ended.cancel("eva")).expect("it can be cancelled");
    let view = theatre.settle(&ended);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));
    assert_eq!(theatre.settle(&told).waits_for(), "a place in queue «default»");
    assert!(theatre.script.said().is_empty(), "no code was called");

    let theatre = crash_into(theatre, Opening::GoOn);
    let view = theatre.finished(&theatre.world.plan(told.id()));
    assert_eq!((view.result(), states(&view)), (PlanResult::Success, "success success".into()));
    assert_eq!(view.step(step).attempt, 1, "nothing was interrupted by the rest");
    assert_eq!(ran(&theatre), ["a", "b"]);
}

#[test]
fn a_paused_plan_is_skipped_and_resumed_at_rest() {
    let theatre = Theatre::new();
    theatre.script.on("a", |_| Err(error("pause")));
    let plan = theatre.perform("a b");
    let step = step_of(&theatre.finished(&plan), "a");
    let theatre = crash_into(theatre, Opening::AtRest);
    theatre.script.said();
    let plan = theatre.world.plan(plan.id());
    theatre.done(plan.skip(step, "eva")).expect("it failed");
    theatre.done(plan.resume("eva")).expect("it is paused");
    theatre.settle(&plan);
    assert!(theatre.script.said().is_empty());

    let theatre = crash_into(theatre, Opening::GoOn);
    let view = theatre.finished(&theatre.world.plan(plan.id()));
    assert_eq!((view.result(), ran(&theatre)), (PlanResult::Warning, vec!["b".to_owned()]));
}

#[test]
fn what_was_interrupted_is_cancelled_at_rest() {
    let theatre = Theatre::new();
    theatre.script.on("a", |_| Ok(Next::Suspend("a word".to_owned())));
    let plan = theatre.perform("a|b c");
    // Its entry is there, and nothing of what follows.
    let theatre = crash_into(theatre, Opening::AtRest);
    theatre.script.said();
    let plan = theatre.world.plan(plan.id());
    theatre.done(plan.cancel("eva")).expect("it can be cancelled");
    let view = theatre.settle(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));
    assert!(theatre.script.said().is_empty());
}

#[test]
fn only_what_is_asked_for_goes_on() {
    let theatre = Theatre::new();
    theatre.script.on("a", |_| Ok(Next::Suspend("a word".to_owned())));
    let (wanted, other) = (theatre.perform("a b"), theatre.perform("a c"));
    theatre.settle(&wanted);
    let step = step_of(&theatre.settle(&wanted), "a");
    let theatre = crash_into(theatre, Opening::AtRest);
    for plan in [&wanted, &other] {
        let sent = theatre.world.event(plan.id(), step, None, &"word");
        theatre.done(sent).expect("the event is taken");
    }
    let theatre = crash_into(theatre, Opening::OnRequest);
    theatre.script.on("a", |_| Ok(Next::Done));
    theatre.script.said();
    theatre.sim.run_until_idle();
    assert!(theatre.script.said().is_empty(), "nobody has asked");
    theatre.world.go_on(wanted.id());
    let view = theatre.finished(&theatre.world.plan(wanted.id()));
    assert_eq!(view.result(), PlanResult::Success);
    assert_eq!(ran(&theatre), ["a", "b"], "the other plan is left alone");
    let new = theatre.perform("d");
    assert_eq!(theatre.finished(&new).result(), PlanResult::Success);
}

#[test]
fn schedules_launch_by_themselves_only_where_plans_go_on() {
    let mut theatre = Theatre::new();
    put(&theatre, every("hourly", HOUR, "a").overlap(Overlap::Allow));
    let openings = [Opening::AtRest, Opening::OnRequest, Opening::GoOn];
    for (asked, opening) in (0..).zip(openings) {
        theatre.sim.set_wall(theatre.sim.wall() + 2 * HOUR);
        theatre = crash_into(theatre, opening);
        theatre.sim.run_until_idle();
        let launched = get(&theatre, "hourly").counts.launched;
        let by_itself = launched - asked;
        assert_eq!(by_itself > 0, opening == Opening::GoOn, "{opening:?}");
        let by_hand = theatre.world.schedules().trigger_now("hourly", "eva");
        theatre.done(by_hand).expect("it can be asked for");
    }
}

#[test]
fn what_waits_to_be_called_is_cancelled_in_the_turn_in_which_it_is_read() {
    for opening in [Opening::AtRest, Opening::GoOn] {
        let theatre = Theatre::new();
        listens(&theatre, "a");
        let told = theatre.perform("a b").id();
        let step = step_of(&theatre.settle(&theatre.world.plan(told)), "a");
        let theatre = crash_into(theatre, Opening::AtRest);
        let sent = theatre.world.event(told, step, None, &"word");
        theatre.done(sent).expect("the event is taken");
        let theatre = crash_into(theatre, opening);
        theatre.script.said();
        // The order is what makes a plan at rest be read: its step was to be called, and is not.
        let plan = theatre.world.plan(told);
        theatre.done(plan.cancel("eva")).expect("it can be cancelled");
        let view = theatre.settle(&plan);
        assert_eq!(view.state, PlanState::Stopped, "{opening:?}");
        if opening == Opening::AtRest {
            assert_eq!((view.result(), ran(&theatre)), (PlanResult::Cancelled, Vec::new()));
        }
    }
}
