//! Coalesced polls: many steps in one call, each with its own result.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    Action, ActionError, Asked, PlanHandle, PlanResult, PlanState, Poll, PollAll, Polled,
    PollsTogether, StepContext,
};
use turnwheel_runtime::sim::Sim;

use crate::common::Theatre;

/// The outside: what was asked when, and what it says of each job.
#[derive(Default)]
struct Outside {
    starts: Vec<u32>,
    cancelled: Vec<u32>,
    batches: Vec<usize>,
    answers: BTreeMap<u32, Result<Poll, ActionError>>,
    of_the_batch: Option<&'static str>,
}

#[derive(Clone, Default)]
struct Print(Arc<Mutex<Outside>>);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Printed {
    polled: Polled<u32>,
    seen: u32,
}

impl Print {
    fn outside(&self) -> std::sync::MutexGuard<'_, Outside> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Action for Print {
    const NAME: &'static str = "print";
    type Input = u32;
    type Output = Printed;
    type Phases = PollsTogether;

    fn is_cancellable(&self) -> bool {
        true
    }
}

impl PollAll for Print {
    type Task = u32;

    fn polled(output: &mut Printed) -> &mut Polled<u32> {
        &mut output.polled
    }

    fn start(&self, step: &mut StepContext<Self>) -> Result<u32, ActionError> {
        self.outside().starts.push(step.input);
        Ok(step.input)
    }

    fn poll_all(&self, batch: &mut [Asked<Self>]) -> Result<(), ActionError> {
        let mut outside = self.outside();
        outside.batches.push(batch.len());
        for asked in batch {
            asked.step.output.seen += 1;
            match outside.answers.get(&asked.task) {
                Some(answer) => asked.answer(answer.clone()),
                None => asked.answer(Ok(Poll::Pending(Some(0.5)))),
            }
        }
        match outside.of_the_batch {
            Some("panic") => panic!("out of paper"),
            Some(kind) => Err(ActionError::new(kind, "no answer")),
            None => Ok(()),
        }
    }

    fn batch_max(&self) -> usize {
        10
    }

    fn batch_interval(&self) -> Duration {
        Duration::from_millis(200)
    }

    fn cancel(&self, task: &mut u32, _: &mut StepContext<Self>) -> Result<(), ActionError> {
        self.outside().cancelled.push(*task);
        Ok(())
    }
}

fn theatre(print: &Print) -> Theatre {
    Theatre::with(|_| {}, |world| world.action(print.clone()))
}

fn start(theatre: &Theatre, job: u32) -> PlanHandle {
    let triggering = theatre.world.trigger::<Print>(job);
    theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken")
}

fn pass(sim: &Sim, millis: u64) {
    sim.run_until_idle();
    sim.advance(Duration::from_millis(millis));
    sim.run_until_idle();
}

fn broken() -> Result<Poll, ActionError> {
    Err(ActionError::new("broken", "no answer"))
}

#[test]
fn steps_are_asked_about_together_at_most_so_many_at_once_and_not_too_often() {
    let print = Print::default();
    let theatre = theatre(&print);
    let plans: Vec<PlanHandle> = (0..25).map(|job| start(&theatre, job)).collect();
    pass(&theatre.sim, 500);
    assert_eq!(print.outside().starts.len(), 25);
    assert_eq!(print.outside().batches, [10], "a full batch does not wait for others");
    pass(&theatre.sim, 199);
    assert_eq!(print.outside().batches, [10]);
    pass(&theatre.sim, 1);
    assert_eq!(print.outside().batches, [10, 10], "the interval is over");
    pass(&theatre.sim, 200);
    assert_eq!(print.outside().batches, [10, 10, 5]);
    for plan in &plans {
        let view = theatre.settle(plan);
        assert_eq!(view.output::<Print>().unwrap().seen, 1);
        assert!((view.progress() - 0.5).abs() < 1e-9);
    }
}

#[test]
fn each_step_gets_its_own_result() {
    // D-042: the counts of failures are those of the step.
    let print = Print::default();
    let theatre = theatre(&print);
    let answers = [(0, Ok(Poll::Done)), (1, broken()), (2, Ok(Poll::Pending(Some(0.25))))];
    print.outside().answers.extend(answers);
    let plans: Vec<PlanHandle> = (0..3).map(|job| start(&theatre, job)).collect();
    pass(&theatre.sim, 700);
    assert_eq!(print.outside().batches, [3]);
    assert_eq!(theatre.finished(&plans[0]).result(), PlanResult::Success);
    let second = theatre.settle(&plans[1]).output::<Print>().unwrap().polled;
    assert_eq!((second.polls, second.failed_in_a_row), (1, 1));
    assert!((theatre.settle(&plans[2]).progress() - 0.25).abs() < 1e-9);
    pass(&theatre.sim, 700);
    pass(&theatre.sim, 700);
    let view = theatre.finished(&plans[1]);
    assert_eq!(view.state, PlanState::Paused, "the third failure in a row is not borne");
    assert_eq!(view.failed_steps().next().unwrap().error.as_ref().unwrap().kind, "broken");
    print.outside().answers.insert(2, Ok(Poll::Done));
    pass(&theatre.sim, 700);
    assert_eq!(theatre.finished(&plans[2]).result(), PlanResult::Success);
}

#[test]
fn an_error_or_a_panic_of_the_batch_counts_for_each_that_has_no_answer() {
    for kind in ["broken", "panic"] {
        let print = Print::default();
        let theatre = theatre(&print);
        let plans: Vec<PlanHandle> = (0..3).map(|job| start(&theatre, job)).collect();
        // These have their answers before it fails.
        print.outside().of_the_batch = Some(kind);
        pass(&theatre.sim, 700);
        for plan in &plans {
            let polled = theatre.settle(plan).output::<Print>().unwrap().polled;
            assert_eq!((polled.polls, polled.failed), (1, 0), "it was answered");
        }
    }
}

/// Answers for nobody.
struct Mute(Result<(), ActionError>);

impl Action for Mute {
    const NAME: &'static str = "mute";
    type Input = ();
    type Output = Printed;
    type Phases = PollsTogether;
}

impl PollAll for Mute {
    type Task = u32;

    fn polled(output: &mut Printed) -> &mut Polled<u32> {
        &mut output.polled
    }

    fn start(&self, _: &mut StepContext<Self>) -> Result<u32, ActionError> {
        Ok(1)
    }

    fn poll_all(&self, _: &mut [Asked<Self>]) -> Result<(), ActionError> {
        self.0.clone()
    }
}

#[test]
fn steps_that_are_not_answered_fail_in_this_poll() {
    let cases = [(Ok(()), "not_answered"), (Err(ActionError::new("down", "gone")), "down")];
    for (outcome, kind) in cases {
        let theatre = Theatre::with(|_| {}, |world| world.action(Mute(outcome)));
        let plans: Vec<PlanHandle> = (0..2)
            .map(|_| theatre.sim.block_on(theatre.world.trigger::<Mute>(())).unwrap().unwrap())
            .collect();
        for failed in 1..=3 {
            pass(&theatre.sim, 600);
            let view = theatre.settle(&plans[0]);
            assert_eq!(view.output::<Mute>().unwrap().polled.failed_in_a_row, failed);
        }
        for plan in &plans {
            let view = theatre.finished(plan);
            assert_eq!(view.state, PlanState::Paused);
            assert_eq!(view.failed_steps().next().unwrap().error.as_ref().unwrap().kind, kind);
        }
    }
}

#[test]
fn a_crash_between_start_and_poll_starts_nothing_twice() {
    let print = Print::default();
    let theatre = theatre(&print);
    let plan = start(&theatre, 5);
    theatre.settle(&plan);
    let id = plan.id();
    drop(plan);
    print.outside().answers.insert(5, Ok(Poll::Done));
    let theatre = theatre.crash_with(|_| {}, |world| world.action(print.clone()));
    pass(&theatre.sim, 1_000);
    let view = theatre.finished(&theatre.world.plan(id));
    assert_eq!((view.result(), print.outside().starts.as_slice()), (PlanResult::Success, &[5][..]));
}

#[test]
fn what_is_gone_at_a_new_attempt_is_started_anew_and_what_was_started_is_cancelled() {
    let print = Print::default();
    let theatre = theatre(&print);
    print.outside().answers.insert(1, broken());
    let plan = start(&theatre, 1);
    for _ in 0..3 {
        pass(&theatre.sim, 700);
    }
    assert_eq!(theatre.finished(&plan).state, PlanState::Paused);
    theatre.done(plan.resume("ann")).unwrap();
    pass(&theatre.sim, 200);
    assert_eq!(print.outside().starts, [1, 1], "it is gone");
    assert_eq!(theatre.settle(&plan).output::<Print>().unwrap().polled.polls, 0);
    theatre.done(plan.cancel("ann")).unwrap();
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Cancelled);
    assert_eq!(print.outside().cancelled, [1]);
}
