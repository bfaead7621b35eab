//! Rounds of sub-plans: a step is told of the plans of its newest round only.

use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, Cause, Next, PlanHandle, PlanResult, PlanState, RunAsync, RunsAsync,
    StepContext, SubPlanCounts,
};

use crate::common::{error, part, Play, Theatre};

/// Asks for its plans in each attempt, fails if one of them does, and says what it is told.
struct Asker {
    limit: Option<Duration>,
}

impl Action for Asker {
    const NAME: &'static str = "asker";
    type Input = Vec<String>;
    type Output = Option<SubPlanCounts>;
    type Phases = RunsAsync;

    fn limit(&self) -> Option<Duration> {
        self.limit
    }
}

impl RunAsync for Asker {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() == Cause::SubPlans {
            let counts = step.sub_plans();
            step.output = Some(counts);
            return match counts.failed {
                0 => Ok(Next::Done),
                failed => Err(ActionError::new("asker", format!("{failed} have failed"))),
            };
        }
        assert_eq!(step.sub_plans(), SubPlanCounts::default(), "a round that has not begun");
        for who in step.input.clone() {
            step.trigger::<Play>(&part(&who))?;
        }
        Ok(step.wait_for_sub_plans())
    }
}

fn ask(limit: Option<Duration>, who: &[&str]) -> (Theatre, PlanHandle) {
    let theatre = Theatre::with(|_| {}, |world| world.action(Asker { limit }));
    theatre
        .script
        .on("slow", |step| Ok(if step.has_event() { Next::Done } else { Next::suspend("a word") }));
    theatre.script.on("broken", |_| Err(error("fail")));
    let who = who.iter().map(|who| (*who).to_owned()).collect();
    let plan = theatre.sim.block_on(theatre.world.trigger::<Asker>(who));
    let plan = plan.expect("it ends").expect("the plan is taken");
    theatre.settle(&plan);
    (theatre, plan)
}

/// Ends the one sub-plan that is open.
fn release(theatre: &Theatre, plan: &PlanHandle) {
    let view = theatre.settle(plan);
    let open: Vec<_> = view.sub_plans().filter(|(_, child)| child.result.is_none()).collect();
    assert_eq!(open.len(), 1);
    let child = theatre.world.plan(open[0].0);
    let step = theatre.settle(&child).run_step::<Play>().expect("it runs").id;
    theatre.done(theatre.world.event(child.id(), step, None, &1)).expect("it is taken");
    theatre.sim.run_until_idle();
}

fn counts(total: u32, success: u32, failed: u32) -> SubPlanCounts {
    SubPlanCounts { total, success, failed, pending: 0 }
}

#[test]
fn step_that_is_resumed_after_a_failed_sub_plan_is_told_of_its_new_ones_only() {
    let (theatre, plan) = ask(None, &["a", "broken", "c"]);
    let view = theatre.finished(&plan);
    assert_eq!(view.state, PlanState::Paused);
    assert_eq!(view.output::<Asker>().expect("it was told"), Some(counts(3, 2, 1)));
    // The ids of a simulation follow from its time.
    theatre.sim.advance(Duration::from_secs(1));
    let id = plan.id();
    drop(plan);
    let script = theatre.script.clone();
    let theatre = theatre.crash_with(|_| {}, |world| world.action(Asker { limit: None }));
    script.on("broken", |_| Ok(Next::Done));
    let plan = theatre.world.plan(id);
    theatre.done(plan.resume("ann")).expect("it is paused");
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    assert_eq!(view.output::<Asker>().expect("it was told"), Some(counts(3, 3, 0)));
    let step = view.run_step::<Asker>().expect("it runs").id;
    assert_eq!(view.sub_plan_counts(step), counts(6, 5, 1), "the view counts all");
}

#[test]
fn plans_that_end_while_their_step_has_failed_do_not_end_its_next_round() {
    let (theatre, plan) = ask(Some(Duration::from_secs(60)), &["slow", "quick"]);
    theatre.sim.advance(Duration::from_secs(61));
    assert_eq!(theatre.settle(&plan).state, PlanState::Paused, "it has timed out");
    release(&theatre, &plan);
    theatre.done(plan.resume("ann")).expect("it is paused");
    let view = theatre.settle(&plan);
    assert_eq!(view.state, PlanState::Running, "its new plans are not over");
    release(&theatre, &plan);
    let view = theatre.finished(&plan);
    assert_eq!(view.output::<Asker>().expect("it was told"), Some(counts(2, 2, 0)));
}
