//! Wall clocks that are wrong: limits and timers keep to the time that has passed.

use std::time::Duration;

use turnwheel_engine::{Delay, Next, PlanState, Time};

use crate::common::{part, states, Play, Theatre};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

fn limited() -> Theatre {
    let theatre = Theatre::with(|play| play.limit = Some(HOUR / 2), |builder| builder);
    theatre.script.on("a", |step| match step.has_event() {
        true => Ok(Next::Done),
        false => Ok(Next::suspend("a word")),
    });
    theatre
}

fn with_timer(delay: Duration) -> Theatre {
    let theatre = Theatre::new();
    theatre.script.on("a", move |step| {
        if step.has_event() {
            return Ok(Next::Done);
        }
        step.event_after(delay, &1)?;
        Ok(Next::suspend("its time"))
    });
    theatre
}

fn jump(theatre: &Theatre, is_forth: bool) {
    let wall = theatre.sim.wall();
    theatre.sim.set_wall(if is_forth { wall + HOUR } else { wall - HOUR });
}

#[test]
fn step_that_begins_while_the_clock_is_wrong_has_its_whole_limit() {
    for is_ahead in [false, true] {
        let theatre = limited();
        jump(&theatre, is_ahead);
        let plan = theatre.perform("a");
        theatre.sim.advance(4 * SECOND);
        jump(&theatre, !is_ahead);
        theatre.sim.advance(HOUR / 2 - 10 * SECOND);
        let view = theatre.settle(&plan);
        assert_eq!(states(&view), "suspended", "{:?}", view.errors());
        theatre.sim.advance(MINUTE + 10 * SECOND);
        assert_eq!(states(&theatre.settle(&plan)), "error");
    }
}

#[test]
fn step_that_runs_while_the_clock_is_wrong_for_a_moment_is_not_timed_out() {
    let theatre = limited();
    let plan = theatre.perform("a");
    theatre.settle(&plan);
    jump(&theatre, true);
    theatre.settle(&plan);
    theatre.sim.advance(4 * SECOND);
    theatre.settle(&plan);
    jump(&theatre, false);
    theatre.sim.advance(2 * MINUTE);
    let view = theatre.settle(&plan);
    assert_eq!(states(&view), "suspended", "{:?}", view.errors());
}

#[test]
fn timer_that_is_set_while_the_clock_is_wrong_keeps_its_time() {
    for is_ahead in [false, true] {
        let theatre = with_timer(HOUR / 2);
        jump(&theatre, is_ahead);
        let plan = theatre.perform("a");
        theatre.sim.advance(4 * SECOND);
        jump(&theatre, !is_ahead);
        theatre.sim.advance(HOUR / 2 - 10 * SECOND);
        assert_eq!(states(&theatre.settle(&plan)), "suspended", "half an hour is not over");
        theatre.sim.advance(MINUTE + 10 * SECOND);
        assert_eq!(states(&theatre.settle(&plan)), "success");
    }
}

#[test]
fn short_timer_that_is_set_while_the_clock_is_ahead_is_not_late_by_an_hour() {
    let theatre = with_timer(SECOND + SECOND / 2);
    jump(&theatre, true);
    let plan = theatre.perform("a");
    theatre.sim.advance(SECOND);
    jump(&theatre, false);
    theatre.sim.advance(SECOND);
    assert_eq!(states(&theatre.settle(&plan)), "success");
}

#[test]
fn clock_that_comes_back_after_some_minutes_changes_no_timer() {
    let theatre = with_timer(HOUR);
    jump(&theatre, false);
    theatre.sim.run_until_idle();
    theatre.perform("b");
    theatre.sim.advance(5 * MINUTE);
    theatre.perform("b");
    jump(&theatre, true);
    let plan = theatre.perform("a");
    theatre.sim.advance(HOUR - 10 * SECOND);
    assert_eq!(states(&theatre.settle(&plan)), "suspended");
    theatre.sim.advance(MINUTE + 10 * SECOND);
    assert_eq!(states(&theatre.settle(&plan)), "success");
}

#[test]
fn clock_that_stays_where_it_has_jumped_to_is_followed_after_a_while() {
    let theatre = with_timer(HOUR);
    theatre.sim.advance(2 * MINUTE);
    let plan = theatre.perform("a");
    theatre.settle(&plan);
    // The machine slept for an hour.
    jump(&theatre, true);
    theatre.sim.advance(3 * MINUTE);
    assert_eq!(states(&theatre.settle(&plan)), "success");
}

#[test]
fn clock_that_is_wrong_for_a_moment_in_an_idle_world_changes_no_timer() {
    for is_ahead in [false, true] {
        let theatre = with_timer(HOUR / 2);
        theatre.sim.advance(10 * MINUTE);
        for _ in 0..3 {
            jump(&theatre, is_ahead);
            theatre.perform("b");
            theatre.sim.advance(4 * SECOND);
            jump(&theatre, !is_ahead);
            theatre.sim.advance(10 * MINUTE);
        }
        jump(&theatre, is_ahead);
        let plan = theatre.perform("a");
        theatre.sim.advance(4 * SECOND);
        jump(&theatre, !is_ahead);
        theatre.sim.advance(HOUR / 2 - 10 * SECOND);
        assert_eq!(states(&theatre.settle(&plan)), "suspended", "half an hour is not over");
        theatre.sim.advance(MINUTE + 10 * SECOND);
        assert_eq!(states(&theatre.settle(&plan)), "success");
    }
}

#[test]
fn what_is_timed_by_a_clock_that_was_wrong_at_the_start_keeps_its_time() {
    for is_ahead in [false, true] {
        let theatre = Theatre::with(|play| play.limit = Some(HOUR), |builder| builder);
        theatre.script.on("a", |step| match step.has_event() {
            true => Ok(Next::Done),
            false => {
                step.event_after(HOUR / 2, &1)?;
                Ok(Next::suspend("its time"))
            }
        });
        theatre.script.on("limited", |_| Ok(Next::suspend("a word")));
        let (plan, limited) = (theatre.perform("a"), theatre.perform("limited"));
        let delay = Delay::by(HOUR / 2).or_never_after(HOUR / 4);
        let delayed = theatre.world.delay::<Play>(delay, part("b"));
        let delayed = theatre.sim.block_on(delayed).expect("it ends").expect("it is taken");
        let date = Time::from(theatre.sim.wall() + 3 * HOUR);
        let dated = theatre.world.delay::<Play>(Delay::until(date), part("c"));
        let dated = theatre.sim.block_on(dated).expect("it ends").expect("it is taken");
        theatre.sim.advance(4 * SECOND);
        // It was wrong, and is right now.
        jump(&theatre, !is_ahead);
        let second = theatre.perform("a");
        theatre.sim.advance(HOUR / 2 - 10 * SECOND);
        for plan in [&plan, &second] {
            assert_eq!(states(&theatre.settle(plan)), "suspended", "half an hour is not over");
        }
        assert_eq!(theatre.settle(&delayed).state, PlanState::Scheduled);
        theatre.sim.advance(MINUTE + 10 * SECOND);
        for plan in [&plan, &second] {
            let view = theatre.settle(plan);
            assert_eq!(states(&view), "success");
            assert!(view.history.iter().any(|line| line.text.contains("the clock was set by")));
        }
        assert_eq!(theatre.settle(&delayed).state, PlanState::Stopped);
        assert_eq!(states(&theatre.settle(&limited)), "suspended", "an hour is not over");
        theatre.sim.advance(HOUR / 2);
        assert_eq!(states(&theatre.settle(&limited)), "error");
        let start = theatre.settle(&dated).delayed.as_ref().and_then(|delayed| delayed.start_at);
        assert_eq!(start, Some(date), "a date is none that is counted");
    }
}

#[test]
fn what_was_timed_in_doubt_keeps_its_time_also_in_the_next_process() {
    for is_ahead in [false, true] {
        let theatre = with_timer(HOUR / 2);
        let plan = theatre.perform("a").id();
        theatre.sim.advance(4 * SECOND);
        jump(&theatre, !is_ahead);
        theatre.sim.advance(2 * MINUTE);
        let theatre = theatre.crash();
        theatre.script.on("a", |_| Ok(Next::Done));
        let plan = theatre.world.plan(plan);
        theatre.sim.advance(HOUR / 2 - 3 * MINUTE);
        assert_eq!(states(&theatre.settle(&plan)), "suspended", "half an hour is not over");
        theatre.sim.advance(2 * MINUTE);
        assert_eq!(states(&theatre.settle(&plan)), "success");
    }
}

#[test]
fn two_moments_in_which_the_clock_is_wrong_are_not_taken_for_one_that_lasts() {
    let theatre = with_timer(HOUR / 2);
    theatre.sim.advance(10 * MINUTE);
    for _ in 0..2 {
        jump(&theatre, true);
        theatre.perform("b");
        jump(&theatre, false);
        theatre.sim.advance(MINUTE - SECOND);
    }
    jump(&theatre, true);
    let plan = theatre.perform("a");
    theatre.sim.advance(4 * SECOND);
    jump(&theatre, false);
    theatre.sim.advance(HOUR / 2);
    assert_eq!(states(&theatre.settle(&plan)), "success");
}
