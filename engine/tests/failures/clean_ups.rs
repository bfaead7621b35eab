//! Steps that are left out and clean up before: their work is not called any more.

use std::sync::{Arc, Mutex};

use turnwheel_engine::{
    Action, ActionError, Cause, Next, PlanHandle, PlanResult, PlanState, Rescue, RunAsync,
    RunsAsync, StepContext,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion};

use crate::common::Theatre;

/// Fails the first time that its work is called; the clean-up does what it is told.
#[derive(Clone, Default)]
struct Skipped {
    calls: Arc<Mutex<Vec<String>>>,
    gate: Arc<Mutex<Option<Completion<()>>>>,
    waits: bool,
    fails_once: bool,
}

impl Skipped {
    fn theatre(&self) -> Theatre {
        let action = self.clone();
        Theatre::with(|_| {}, |world| world.action(action))
    }

    fn crash(&self, theatre: Theatre) -> Theatre {
        let action = self.clone();
        theatre.crash_with(|_| {}, |world| world.action(action))
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().expect("nothing panics under it").clone()
    }

    /// The next clean-up does not end before this is completed.
    fn shut(&self) -> Completer<()> {
        let (open, gate) = completion();
        *self.gate.lock().expect("nothing panics under it") = Some(gate);
        open
    }
}

impl Action for Skipped {
    const NAME: &'static str = "skipped";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;

    fn rescue(&self, _: &ActionError) -> Rescue {
        Rescue::Skip
    }

    fn cleans_up_when_skipped(&self) -> bool {
        true
    }
}

impl RunAsync for Skipped {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let cause = format!("{:?}", step.cause());
        let count = {
            let mut calls = self.calls.lock().expect("nothing panics under it");
            calls.push(cause.clone());
            calls.iter().filter(|call| **call == cause).count()
        };
        if step.cause() == Cause::Skip {
            let gate = self.gate.lock().expect("nothing panics under it").take();
            if let Some(gate) = gate {
                let _opened = gate.await;
            }
            if self.fails_once && count == 1 {
                return Err(ActionError::new("broken", "the clean-up").and_final());
            }
            return Ok(if self.waits { step.wait_for_event("a word") } else { Next::Done });
        }
        if cause == "Turn" && count == 1 {
            return Err(ActionError::new("broken", "the work").and_final());
        }
        Ok(Next::Done)
    }
}

fn trigger(theatre: &Theatre) -> PlanHandle {
    let triggering = theatre.world.trigger::<Skipped>(());
    theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken")
}

#[test]
fn crash_in_a_clean_up_calls_the_clean_up_again_and_not_the_work() {
    let action = Skipped::default();
    let theatre = action.theatre();
    let _never = action.shut();
    let plan = trigger(&theatre);
    theatre.settle(&plan);
    assert_eq!(action.calls(), ["Turn", "Skip"]);
    let id = plan.id();
    drop(plan);
    let theatre = action.crash(theatre);
    let view = theatre.finished(&theatre.world.plan(id));
    assert_eq!(action.calls(), ["Turn", "Skip", "Skip"]);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Warning));
}

#[test]
fn clean_up_that_waits_for_an_event_leaves_the_step_out_at_its_end() {
    let action = Skipped { waits: true, ..Skipped::default() };
    let theatre = action.theatre();
    let plan = trigger(&theatre);
    let step = theatre.settle(&plan).run_step::<Skipped>().expect("it runs").id;
    theatre.done(theatre.world.event(plan.id(), step, None, &1)).expect("it is taken");
    let view = theatre.finished(&plan);
    assert_eq!(action.calls(), ["Turn", "Skip", "Event"]);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Warning));
}

#[test]
fn clean_up_that_has_failed_is_called_again_by_a_resume_and_the_work_by_a_restart() {
    let action = Skipped { fails_once: true, ..Skipped::default() };
    for restarts in [false, true] {
        action.calls.lock().expect("nothing panics under it").clear();
        let theatre = action.theatre();
        let plan = trigger(&theatre);
        let view = theatre.finished(&plan);
        assert_eq!(view.state, PlanState::Paused);
        if restarts {
            let step = view.run_step::<Skipped>().expect("it runs").id;
            theatre.done(plan.restart_from(step, "ann")).expect("it is paused");
        }
        theatre.done(plan.resume("ann")).expect("it is paused");
        let view = theatre.finished(&plan);
        let (last, result) = match restarts {
            true => ("Turn", PlanResult::Success),
            false => ("Skip", PlanResult::Warning),
        };
        assert_eq!(action.calls(), ["Turn", "Skip", last]);
        assert_eq!(view.result(), result);
    }
}
