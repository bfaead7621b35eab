//! Plans that wait for plans: sub-plans, chains, delays.

mod common;

use std::time::Duration;

use common::{error, part, states, Part, Play, Theatre};
use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    Action, ActionError, Cause, Delay, Next, PlanHandle, PlanResult, PlanState, RunAsync,
    RunsAsync, StepContext, SubPlanCounts,
};

/// Asks for plans of parts, at most some at once, and fails if one of them does.
struct Company;

#[derive(Serialize, Deserialize)]
struct Cast {
    parts: Vec<String>,
    at_once: u32,
}

impl Action for Company {
    const NAME: &'static str = "company";
    type Input = Cast;
    type Output = Option<(u32, u32)>;
    type Phases = RunsAsync;
}

impl RunAsync for Company {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() != Cause::SubPlans {
            step.limit_sub_plans(step.input.at_once);
            for who in std::mem::take(&mut step.input.parts) {
                step.trigger::<Play>(&part(&who))?;
            }
            return Ok(Next::suspend("the company"));
        }
        let counts = step.sub_plans();
        step.output = Some((counts.success, counts.failed));
        if counts.failed > 0 {
            return Err(ActionError::new("sub_plans", "a sub-plan has failed"));
        }
        Ok(Next::Done)
    }
}

fn company() -> Theatre {
    Theatre::with(|play| play.is_cancellable = true, |world| world.action(Company))
}

fn cast(theatre: &Theatre, parts: &[&str], at_once: u32) -> PlanHandle {
    let parts = parts.iter().map(|who| (*who).to_owned()).collect();
    let triggering = theatre.world.trigger::<Company>(Cast { parts, at_once });
    theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken")
}

#[test]
fn a_step_waits_for_the_plans_it_has_asked_for() {
    // D-045 D-047
    let theatre = company();
    let plan = cast(&theatre, &["a", "b", "c"], 10);
    let view = theatre.finished(&plan);
    assert_eq!(view.result(), PlanResult::Success, "{view:?}");
    assert_eq!(view.output::<Company>().unwrap(), Some((3, 0)));
    for (id, child) in view.sub_plans() {
        let child_view = theatre.settle(&theatre.world.plan(id));
        assert_eq!(child_view.created.caller, Some((plan.id(), child.step)));
        assert_eq!(child_view.state, PlanState::Stopped);
    }
}

#[test]
fn no_more_plans_than_allowed_are_under_way_at_once() {
    // D-076
    let theatre = company();
    let names = ["a", "b", "c", "d", "e"];
    for who in names {
        theatre.script.on(who, |step| match step.event::<u32>()? {
            None => Ok(Next::suspend("a word")),
            Some(_) => Ok(Next::Done),
        });
    }
    let plan = cast(&theatre, &names, 2);
    for round in 0..5 {
        let view = theatre.settle(&plan);
        let said = theatre.script.said();
        let begun = said.iter().filter(|line| !line.starts_with("finalize")).count();
        assert!(begun <= 4, "{said:?}");
        let open: Vec<_> = view
            .sub_plans()
            .map(|(id, _)| theatre.world.plan(id))
            .filter(|child| {
                theatre.sim.block_on(child.view()).unwrap().is_ok_and(|v| states(&v) == "suspended")
            })
            .collect();
        assert_eq!(open.len(), 2.min(5 - round), "round {round}");
        let child = &open[0];
        let step = theatre.settle(child).run_step::<Play>().unwrap().id;
        theatre.done(theatre.world.event(child.id(), step, None, &1)).unwrap();
    }
    assert_eq!(theatre.finished(&plan).output::<Company>().unwrap(), Some((5, 0)));
}

#[test]
fn a_failed_sub_plan_is_told_when_it_is_over_and_not_while_it_is_paused() {
    let theatre = company();
    theatre.script.on("a", |_| Err(error("broken")));
    theatre.script.on("b", |_| Err(error("fail")));
    let plan = cast(&theatre, &["a", "b"], 10);
    let view = theatre.settle(&plan);
    let step = view.run_step::<Company>().unwrap().id;
    let counts = SubPlanCounts { total: 2, success: 0, failed: 1, pending: 1 };
    assert_eq!(view.sub_plan_counts(step), counts);
    assert_eq!(view.waits_for(), "1 of 2 sub-plans");
    let paused = view.sub_plans().find(|(_, child)| child.result.is_none()).unwrap().0;
    theatre.script.on("a", |_| Ok(Next::Done));
    theatre.done(theatre.world.plan(paused).resume("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Paused, PlanResult::Error));
    assert_eq!(view.output::<Company>().unwrap(), Some((1, 1)));
}

#[test]
fn cancel_reaches_the_plans_below_and_those_not_begun_never_begin() {
    // D-054 D-077
    let theatre = company();
    for who in ["a", "b", "c"] {
        theatre.script.on(who, |_| Ok(Next::suspend("the end of time")));
    }
    let plan = cast(&theatre, &["a", "b", "c"], 2);
    theatre.settle(&plan);
    theatre.done(plan.cancel("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));
    let mut said = theatre.script.said();
    said.sort();
    assert_eq!(said, ["a", "b", "cancel a", "cancel b"]);
    assert!(view.sub_plans().all(|(_, child)| child.result == Some(PlanResult::Cancelled)));
}

#[test]
fn sub_plans_are_made_once_whatever_happens_in_between() {
    let theatre = company();
    theatre.script.on("a", |step| match step.event::<u32>()? {
        None => Ok(Next::suspend("a word")),
        Some(_) => Ok(Next::Done),
    });
    let plan = cast(&theatre, &["a", "b"], 10);
    let view = theatre.settle(&plan);
    let (child, _) = view.sub_plans().find(|(_, child)| child.result.is_none()).unwrap();
    let id = plan.id();
    drop(plan);
    let theatre = theatre.crash_with(|play| play.is_cancellable = true, |w| w.action(Company));
    theatre.sim.run_until_idle();
    let step = theatre.settle(&theatre.world.plan(child)).run_step::<Play>().unwrap().id;
    theatre.done(theatre.world.event(child, step, None, &1)).unwrap();
    let view = theatre.finished(&theatre.world.plan(id));
    assert_eq!(view.output::<Company>().unwrap(), Some((2, 0)));
    let said = theatre.script.said();
    assert_eq!(said.iter().filter(|line| *line == "b").count(), 1, "{said:?}");
}

fn delay(theatre: &Theatre, delay: Delay, who: &str) -> PlanHandle {
    let part = Part { who: who.to_owned(), needs: Vec::new() };
    let triggering = theatre.world.delay::<Play>(delay, part);
    theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken")
}

#[test]
fn a_delayed_plan_is_planned_at_its_time_also_by_another_world() {
    // S-05 D-206 D-211
    let theatre = Theatre::new();
    let plan = delay(&theatre, Delay::by(Duration::from_secs(360)), "a");
    let view = theatre.settle(&plan);
    assert_eq!((view.state, view.progress()), (PlanState::Scheduled, 0.0));
    theatre.sim.advance(Duration::from_secs(359));
    assert_eq!(theatre.settle(&plan).state, PlanState::Scheduled);
    let id = plan.id();
    drop(plan);
    let theatre = theatre.crash();
    theatre.sim.run_until_idle();
    assert!(theatre.script.said().is_empty());
    theatre.sim.advance(Duration::from_secs(1));
    let view = theatre.finished(&theatre.world.plan(id));
    assert_eq!(view.result(), PlanResult::Success);
    assert_eq!(theatre.script.said(), ["a", "finalize a"]);
}

#[test]
fn a_delayed_plan_that_comes_too_late_is_never_planned() {
    // D-212
    let theatre = Theatre::new();
    let window = Delay::by(Duration::from_secs(360)).or_never_after(Duration::from_secs(40));
    let plan = delay(&theatre, window, "a");
    let id = plan.id();
    drop(plan);
    let theatre = theatre.crash_at(Duration::from_secs(401));
    let view = theatre.finished(&theatre.world.plan(id));
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Error));
    assert_eq!(view.planning_error.as_ref().unwrap().kind, "too_late");
    assert!(theatre.script.said().is_empty());
}

#[test]
fn a_frozen_plan_waits_until_it_is_allowed_and_a_delayed_one_can_be_cancelled() {
    // D-209 D-252 F-074
    let theatre = Theatre::new();
    let plan = delay(&theatre, Delay::frozen(), "a");
    theatre.sim.advance(Duration::from_secs(1_000_000));
    assert_eq!(theatre.settle(&plan).waits_for(), "frozen: allow it");
    theatre.done(plan.delay_until(None, "ann")).unwrap();
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);

    let plan = delay(&theatre, Delay::by(Duration::from_secs(60)), "b");
    theatre.done(plan.cancel("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));
    theatre.sim.advance(Duration::from_secs(120));
    assert_eq!(theatre.script.said(), ["a", "finalize a"]);
}

#[test]
fn a_chained_plan_comes_after_all_it_waits_for_unless_one_failed() {
    // D-220 D-221 D-222 D-224 D-255 D-256
    let theatre = Theatre::new();
    for who in ["a", "b"] {
        theatre.script.on(who, |step| match step.event::<u32>()? {
            None => Ok(Next::suspend("a word")),
            Some(_) => Ok(Next::Done),
        });
    }
    let (a, b) = (theatre.perform("a"), theatre.perform("b"));
    let chained = delay(&theatre, Delay::after([a.id(), b.id()]), "c");
    let say = |plan: &PlanHandle| {
        let step = theatre.settle(plan).run_step::<Play>().unwrap().id;
        theatre.done(theatre.world.event(plan.id(), step, None, &1)).unwrap();
        theatre.settle(plan);
    };
    say(&a);
    let waits = theatre.settle(&chained).waits_for();
    assert_eq!(waits, format!("the end of plan {}", b.id()));
    say(&b);
    assert_eq!(theatre.finished(&chained).result(), PlanResult::Success);

    theatre.script.on("f", |_| Err(error("fail")));
    let failed = theatre.perform("f");
    let chained = delay(&theatre, Delay::after([failed.id()]), "c");
    let view = theatre.finished(&chained);
    assert_eq!(view.planning_error.as_ref().unwrap().kind, "failed_dependency");

    let halted = theatre.perform("a");
    theatre.settle(&halted);
    theatre.done(halted.halt("ann")).unwrap();
    let chained = delay(&theatre, Delay::after([halted.id()]), "c");
    assert_eq!(theatre.finished(&chained).result(), PlanResult::Success);
}

#[test]
fn what_a_plan_comes_after_is_stored_and_a_frozen_one_waits_longer() {
    // D-254 D-257
    let theatre = Theatre::new();
    theatre.script.on("a", |_| Ok(Next::suspend("a word")));
    let first = theatre.perform("a");
    let chained = delay(&theatre, Delay::after([first.id()]).and_frozen(), "c");
    let (first, id) = (first.id(), chained.id());
    drop(chained);
    let theatre = theatre.crash();
    let chained = theatre.world.plan(id);
    let delayed = theatre.settle(&chained).delayed.clone().expect("it is delayed");
    assert_eq!(delayed.after.into_iter().collect::<Vec<_>>(), [(first, None)]);
    assert!(delayed.is_frozen);

    let step = theatre.settle(&theatre.world.plan(first)).run_step::<Play>().unwrap().id;
    theatre.script.on("a", |_| Ok(Next::Done));
    theatre.done(theatre.world.event(first, step, None, &1)).unwrap();
    theatre.sim.advance(Duration::from_secs(1_000_000));
    let view = theatre.settle(&chained);
    assert_eq!((view.state, view.waits_for().as_str()), (PlanState::Scheduled, "frozen: allow it"));
    let after: Vec<_> = view.delayed.iter().flat_map(|delayed| delayed.after.values()).collect();
    assert_eq!(after, [&Some(PlanResult::Success)]);
    theatre.done(chained.delay_until(None, "ann")).unwrap();
    assert_eq!(theatre.finished(&chained).result(), PlanResult::Success);
}
