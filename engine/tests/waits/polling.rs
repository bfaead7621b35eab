//! Polling: growing pauses, failures that are borne and not borne, a start that is not repeated.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    Action, ActionError, PlanHandle, PlanResult, PlanState, Poll, Polled, Polling, Polls,
    StepContext, StepState,
};

use crate::common::Theatre;

/// The outside: what was started, and what the next polls say.
#[derive(Default)]
struct Outside {
    starts: u32,
    cancelled: Vec<u32>,
    polls: Vec<Result<Poll, ActionError>>,
}

#[derive(Clone, Default)]
struct Build(Arc<Mutex<Outside>>);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Built {
    polled: Polled<u32>,
}

impl Action for Build {
    const NAME: &'static str = "build";
    type Input = ();
    type Output = Built;
    type Phases = Polls;

    fn limit(&self) -> Option<Duration> {
        Some(Duration::from_secs(600))
    }

    fn is_cancellable(&self) -> bool {
        true
    }
}

impl Polling for Build {
    type Task = u32;

    fn polled(output: &mut Built) -> &mut Polled<u32> {
        &mut output.polled
    }

    fn start(&self, _: &mut StepContext<Self>) -> Result<u32, ActionError> {
        let mut outside = self.0.lock().expect("nothing panics under this lock");
        outside.starts += 1;
        Ok(outside.starts)
    }

    fn poll(&self, _: &mut u32, _: &mut StepContext<Self>) -> Result<Poll, ActionError> {
        let mut outside = self.0.lock().expect("nothing panics under this lock");
        if outside.polls.is_empty() {
            return Ok(Poll::Pending(Some(0.2)));
        }
        outside.polls.remove(0)
    }

    fn cancel(&self, task: &mut u32, _: &mut StepContext<Self>) -> Result<(), ActionError> {
        self.0.lock().expect("nothing panics under this lock").cancelled.push(*task);
        Ok(())
    }
}

fn started(build: &Build) -> (Theatre, PlanHandle) {
    let theatre = Theatre::with(|_| {}, |world| world.action(build.clone()));
    let triggering = theatre.world.trigger::<Build>(());
    let plan = theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken");
    (theatre, plan)
}

fn say(build: &Build, polls: Vec<Result<Poll, ActionError>>) {
    build.0.lock().expect("nothing panics under this lock").polls = polls;
}

fn broken() -> Result<Poll, ActionError> {
    Err(ActionError::new("broken", "no answer"))
}

#[test]
fn polls_go_on_with_growing_pauses_until_it_is_done() {
    // D-039 D-165 D-167
    let build = Build::default();
    let (theatre, plan) = started(&build);
    let polls = |theatre: &Theatre| theatre.settle(&plan).output::<Build>().unwrap().polled.polls;
    assert_eq!(polls(&theatre), 0);
    theatre.sim.advance(Duration::from_millis(500));
    assert_eq!(polls(&theatre), 1);
    let view = theatre.settle(&plan);
    assert!((view.progress() - 0.2).abs() < 1e-9, "{}", view.progress());
    assert_eq!((view.timers.len(), view.waits_for().as_str()), (1, "poll 2"));
    for _ in 0..4 {
        theatre.sim.advance(Duration::from_millis(500));
    }
    assert_eq!(polls(&theatre), 5);
    theatre.sim.advance(Duration::from_millis(500));
    assert_eq!(polls(&theatre), 5, "the pause has grown");
    say(&build, vec![Ok(Poll::Done)]);
    theatre.sim.advance(Duration::from_millis(500));
    let view = theatre.finished(&plan);
    assert_eq!((view.result(), view.timers.len()), (PlanResult::Success, 0));
    assert_eq!(view.output::<Build>().unwrap().polled.polls, 6);
}

#[test]
fn a_few_failed_polls_are_borne_and_the_third_in_a_row_is_not() {
    // D-042
    let build = Build::default();
    let (theatre, plan) = started(&build);
    say(&build, vec![broken(), Ok(Poll::Pending(None)), broken(), broken(), broken()]);
    for failed in [1, 1, 2, 3] {
        theatre.sim.advance(Duration::from_millis(500));
        let view = theatre.settle(&plan);
        assert_eq!(view.run_step::<Build>().unwrap().state, StepState::Suspended);
        assert_eq!(view.output::<Build>().unwrap().polled.failed, failed);
    }
    theatre.sim.advance(Duration::from_millis(500));
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.timers.len()), (PlanState::Paused, 0));
    assert_eq!(view.output::<Build>().unwrap().polled.failed_in_a_row, 3);
}

#[test]
fn a_new_attempt_polls_what_was_started_and_starts_anew_only_if_that_fails() {
    // D-040 D-041 D-169
    let build = Build::default();
    let (theatre, plan) = started(&build);
    say(&build, vec![broken(), broken(), broken(), Ok(Poll::Pending(Some(0.1)))]);
    theatre.sim.advance(Duration::from_secs(2));
    assert_eq!(theatre.finished(&plan).state, PlanState::Paused);
    theatre.done(plan.resume("ann")).unwrap();
    theatre.settle(&plan);
    assert_eq!(build.0.lock().unwrap().starts, 1, "the old one is polled");
    say(&build, vec![broken(), broken(), broken(), broken()]);
    theatre.sim.advance(Duration::from_secs(3));
    assert_eq!(theatre.finished(&plan).state, PlanState::Paused);
    theatre.done(plan.resume("ann")).unwrap();
    let view = theatre.settle(&plan);
    assert_eq!(build.0.lock().unwrap().starts, 2, "it is gone");
    assert_eq!(view.output::<Build>().unwrap().polled.polls, 0);
}

#[test]
fn the_limit_of_the_step_ends_the_polls() {
    // D-044
    let build = Build::default();
    let (theatre, plan) = started(&build);
    theatre.sim.advance(Duration::from_secs(601));
    let view = theatre.finished(&plan);
    let step = view.run_step::<Build>().unwrap();
    assert_eq!(step.error.as_ref().unwrap().kind, "timed_out");
    assert_eq!((view.state, view.timers.len()), (PlanState::Paused, 0));
}

#[test]
fn what_was_started_is_ended_when_the_plan_is_cancelled_and_not_polled_or_started_anew() {
    let build = Build::default();
    let (theatre, plan) = started(&build);
    theatre.sim.advance(Duration::from_millis(500));
    assert_eq!(theatre.settle(&plan).output::<Build>().unwrap().polled.polls, 1);
    say(&build, vec![broken()]);
    theatre.done(plan.cancel("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));
    assert_eq!((view.output::<Build>().unwrap().polled.polls, view.timers.len()), (1, 0));
    let outside = build.0.lock().unwrap();
    assert_eq!((outside.starts, outside.cancelled.as_slice()), (1, [1].as_slice()));
    assert_eq!(outside.polls.len(), 1, "nobody has asked");
}

#[test]
fn an_event_in_between_polls_at_once_and_the_pauses_stay_as_they_are() {
    // D-039
    let build = Build::default();
    let (theatre, plan) = started(&build);
    let polls = || theatre.settle(&plan).output::<Build>().unwrap().polled.polls;
    let step = theatre.settle(&plan).run_step::<Build>().unwrap().id;
    for poll in 1..=3 {
        theatre.done(theatre.world.event(plan.id(), step, None, &"now")).unwrap();
        assert_eq!((polls(), theatre.settle(&plan).timers.len()), (poll, 1));
    }
    theatre.sim.advance(Duration::from_millis(500));
    assert_eq!(polls(), 4);
    theatre.sim.advance(Duration::from_millis(500));
    assert_eq!((polls(), theatre.settle(&plan).timers.len()), (5, 1));
}
