//! Fan-outs: outputs of sub-plans in the order in which they were asked for, and keys that find
//! plans again.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use turnwheel_engine::limits::{CHILD_OUTPUTS_PAGE, SUB_PLANS_IN_MEMORY};
use turnwheel_engine::{
    action, ActionError, Cause, Next, PlanHandle, PlanResult, PlanState, Rescue, StepContext,
    SubPlanCounts, SubPlanOptions,
};

use crate::common::Theatre;

/// Squares a number after some time; number 7 fails as long as it is told to.
#[derive(Clone, Default)]
struct Square {
    calls: Arc<AtomicU32>,
    is_broken: Arc<AtomicBool>,
}

#[action(output = u64, rescue = Rescue::Fail)]
impl Square {
    async fn run(&self, number: u64, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() == Cause::Turn {
            self.calls.fetch_add(1, Ordering::Relaxed);
            // The first that is asked for ends last.
            step.event_after(Duration::from_millis(10_000 - number), &())?;
            return Ok(step.wait_for_event("its time"));
        }
        if number == 7 && self.is_broken.load(Ordering::Relaxed) {
            return Err(ActionError::new("broken", "seven is broken"));
        }
        step.output = number * number;
        Ok(Next::Done)
    }
}

#[action]
fn cube(number: u64) -> u64 {
    number * number * number
}

/// Asks for the squares of numbers, with keys or without.
#[derive(Clone, Default)]
struct Squares {
    has_keys: bool,
    is_unfinished: Arc<AtomicBool>,
}

#[action(output = (Vec<u64>, SubPlanCounts))]
impl Squares {
    async fn run(
        &self,
        numbers: &[u64],
        step: &mut StepContext<Self>,
    ) -> Result<Next, ActionError> {
        if step.cause() == Cause::SubPlans {
            let squares = step.child_outputs::<Square>().all().await?;
            step.output = (squares, step.sub_plans());
            return Ok(Next::Done);
        }
        if self.has_keys {
            step.trigger_each::<Square>("square", numbers)?;
        } else {
            numbers.iter().try_for_each(|n| step.trigger::<Square>(n).map(drop))?;
        }
        step.trigger_with::<Cube>(SubPlanOptions::new(), &2)?;
        Ok(step.wait_for_sub_plans())
    }

    fn finalize(&self) -> Result<(), ActionError> {
        match self.is_unfinished.load(Ordering::Relaxed) {
            true => Err(ActionError::new("unfinished", "it is told to fail")),
            false => Ok(()),
        }
    }
}

fn open(square: &Square, has_keys: bool) -> Theatre {
    let (square, squares) = (square.clone(), Squares { has_keys, ..Squares::default() });
    Theatre::with(|_| {}, |world| world.action(square).action(Cube).action(squares))
}

fn trigger(theatre: &Theatre, numbers: &[u64]) -> PlanHandle {
    let plan = theatre.sim.block_on(theatre.world.trigger::<Squares>(numbers.to_vec()));
    let plan = plan.expect("it ends").expect("the plan is taken");
    theatre.sim.advance(Duration::from_secs(30));
    plan
}

fn counts(total: u32, success: u32) -> SubPlanCounts {
    SubPlanCounts { total, success, failed: total - success, pending: 0 }
}

#[test]
fn outputs_come_in_the_order_in_which_their_plans_were_asked_for() {
    // Several pages of outputs; pages of plans that wait in the journal; with keys too.
    for (count, has_keys) in [(3 * CHILD_OUTPUTS_PAGE + 1, false), (0, false), (5, true)] {
        let theatre = open(&Square::default(), has_keys);
        let numbers: Vec<u64> = (1..=count as u64).collect();
        let view = theatre.finished(&trigger(&theatre, &numbers));
        let (squares, told) = view.output::<Squares>().expect("it has ended");
        assert_eq!(squares, numbers.iter().map(|n| n * n).collect::<Vec<_>>());
        assert_eq!(told, counts(count as u32 + 1, count as u32 + 1));
    }
}

#[test]
fn outputs_of_a_fan_out_in_pages_are_in_order() {
    for has_keys in [false, true] {
        let theatre = open(&Square::default(), has_keys);
        let numbers: Vec<u64> = (1..=SUB_PLANS_IN_MEMORY as u64 + 600).collect();
        let plan = trigger(&theatre, &numbers);
        theatre.sim.advance(Duration::from_secs(60));
        let (squares, _) = theatre.finished(&plan).output::<Squares>().expect("it has ended");
        assert_eq!(squares, numbers.iter().map(|n| n * n).collect::<Vec<_>>());
    }
}

/// A fan-out in which number 7 fails; a crash; then it is resumed and nothing fails.
fn resumed(has_keys: bool) -> (Square, SubPlanCounts, SubPlanCounts) {
    let square = Square::default();
    square.is_broken.store(true, Ordering::Relaxed);
    let theatre = open(&square, has_keys);
    let plan = trigger(&theatre, &[9, 7, 8]);
    let view = theatre.settle(&plan);
    assert_eq!(view.state, PlanState::Paused, "the output of seven is missing");
    let error = view.errors()[0].message.clone();
    assert!(error.contains("seven is broken"), "{error}");
    let id = plan.id();
    drop(plan);
    square.is_broken.store(false, Ordering::Relaxed);
    let (again, squares) = (square.clone(), Squares { has_keys, ..Squares::default() });
    let theatre =
        theatre.crash_with(|_| {}, |world| world.action(again).action(Cube).action(squares));
    let plan = theatre.world.plan(id);
    theatre.done(plan.resume("ann")).expect("it is paused");
    theatre.sim.advance(Duration::from_secs(30));
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    let (squares, told) = view.output::<Squares>().expect("it has ended");
    assert_eq!(squares, [81, 49, 64]);
    let step = view.run_step::<Squares>().expect("it runs").id;
    (square, told, view.sub_plan_counts(step))
}

#[test]
fn fan_out_with_keys_that_is_tried_again_repeats_only_what_has_failed() {
    let (square, told, all) = resumed(true);
    assert_eq!(square.calls.load(Ordering::Relaxed), 4);
    assert_eq!((told, all), (counts(4, 4), counts(6, 5)), "the cube has no key");
}

#[test]
fn outputs_of_a_resumed_fan_out_are_those_of_its_newest_round() {
    let (square, told, all) = resumed(false);
    assert_eq!(square.calls.load(Ordering::Relaxed), 6);
    assert_eq!((told, all), (counts(4, 4), counts(8, 7)));
}

/// Asks for two squares by key, and times out the first time.
struct Late;

#[action(output = (Vec<u64>, SubPlanCounts), limit = Duration::from_secs(5))]
impl Late {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() == Cause::SubPlans {
            let squares = step.child_outputs::<Square>().all().await?;
            step.output = (squares, step.sub_plans());
            return Ok(Next::Done);
        }
        // In another order in the second attempt.
        let mut numbers = [5, 9_000];
        if step.attempt() > 1 {
            numbers.reverse();
        }
        for number in numbers {
            let key = SubPlanOptions::new().key(number.to_string());
            let plan = step.trigger_with::<Square>(key.clone(), &number)?;
            assert_eq!(step.trigger_with::<Square>(key, &number)?, plan, "the same key again");
        }
        Ok(step.wait_for_sub_plans())
    }
}

#[test]
fn plan_with_a_key_that_is_under_way_is_waited_for_by_the_next_attempt() {
    let square = Square::default();
    let given = square.clone();
    let theatre = Theatre::with(|_| {}, |world| world.action(given).action(Late));
    let plan = theatre.sim.block_on(theatre.world.trigger::<Late>(()));
    let plan = plan.expect("it ends").expect("the plan is taken");
    theatre.sim.advance(Duration::from_secs(6));
    assert_eq!(theatre.settle(&plan).state, PlanState::Paused, "it has timed out");
    theatre.done(plan.resume("ann")).expect("it is paused");
    theatre.sim.advance(Duration::from_millis(3_999));
    let view = theatre.finished(&plan);
    let found = view.output::<Late>().expect("it has ended");
    assert_eq!(found, (vec![81_000_000, 25], counts(2, 2)));
    assert_eq!(square.calls.load(Ordering::Relaxed), 2);
}

#[test]
fn step_that_had_ended_well_and_begins_again_asks_for_new_plans() {
    let square = Square::default();
    let squares = Squares { has_keys: true, ..Squares::default() };
    squares.is_unfinished.store(true, Ordering::Relaxed);
    let (given, again) = (square.clone(), squares.clone());
    let theatre = Theatre::with(|_| {}, |world| world.action(given).action(Cube).action(again));
    let plan = trigger(&theatre, &[1, 2]);
    let view = theatre.settle(&plan);
    assert_eq!(view.state, PlanState::Paused, "the finalize phase has failed");
    squares.is_unfinished.store(false, Ordering::Relaxed);
    let step = view.run_step::<Squares>().expect("it has ended").id;
    theatre.done(plan.restart_from(step, "ann")).expect("it is paused");
    theatre.done(plan.resume("ann")).expect("it is paused");
    theatre.sim.advance(Duration::from_secs(30));
    let view = theatre.finished(&plan);
    assert_eq!(view.output::<Squares>().expect("it has ended"), (vec![1, 4], counts(3, 3)));
    assert_eq!(square.calls.load(Ordering::Relaxed), 4);
}
