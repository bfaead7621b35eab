//! A call that is tried again: it gets the event, or the news of its sub-plans, that it was made for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, Cause, Next, PlanHandle, PlanResult, PlanState, PlanView, RetryPolicy,
    RunAsync, RunsAsync, StepContext, StepId,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Backoff, Completer, Completion};

use crate::common::{part, Play, Theatre};

const HOUR: Duration = Duration::from_secs(3_600);

/// Notes why it is called; an event may be fast, slow, or fail once.
#[derive(Clone, Default)]
struct Listener {
    calls: Arc<Mutex<Vec<String>>>,
    gate: Arc<Mutex<Option<Completion<()>>>>,
    attempts: u32,
    sub_plans: u32,
}

impl Listener {
    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().expect("nothing panics under it"))
    }

    /// The next call that looks at the gate does not end before this is completed.
    fn shut(&self) -> Completer<()> {
        let (open, gate) = completion();
        *self.gate.lock().expect("nothing panics under it") = Some(gate);
        open
    }

    async fn pass(&self) {
        let gate = self.gate.lock().expect("nothing panics under it").take();
        if let Some(gate) = gate {
            let _opened = gate.await;
        }
    }

    fn theatre(&self) -> Theatre {
        let listener = self.clone();
        Theatre::with(|_| {}, |world| world.action(listener))
    }
}

impl Action for Listener {
    const NAME: &'static str = "listener";
    type Input = ();
    type Output = Vec<String>;
    type Phases = RunsAsync;

    fn retry(&self) -> RetryPolicy {
        let pauses = Backoff::constant(Duration::from_secs(10));
        RetryPolicy::attempts(self.attempts.max(1)).pauses(pauses)
    }

    fn limit(&self) -> Option<Duration> {
        Some(2 * HOUR)
    }
}

impl RunAsync for Listener {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let event = step.event::<String>()?;
        let why = event.clone().unwrap_or_else(|| format!("{:?}", step.cause()));
        let is_known = {
            let mut calls = self.calls.lock().expect("nothing panics under it");
            calls.push(why.clone());
            calls.iter().filter(|call| **call == why).count() > 1
        };
        match step.cause() {
            Cause::Turn => {
                for number in 0..self.sub_plans {
                    step.trigger::<Play>(&part(&format!("child {number}")))?;
                }
                step.event_after(HOUR, &"the timer")?;
                return Ok(Next::suspend("events"));
            }
            Cause::SubPlans => self.pass().await,
            _ => {}
        }
        let Some(event) = event else { return Ok(Next::Done) };
        if event == "slow" {
            self.pass().await;
        }
        if event == "hard" && !is_known || event == "impossible" {
            return Err(ActionError::new("broken", "too hard"));
        }
        step.output.push(event.clone());
        Ok(if event == "the end" { Next::Done } else { Next::suspend("more events") })
    }
}

fn begin(theatre: &Theatre) -> (PlanHandle, StepId) {
    let plan = theatre.sim.block_on(theatre.world.trigger::<Listener>(()));
    let plan = plan.expect("it ends").expect("the plan is taken");
    let step = theatre.settle(&plan).run_step::<Listener>().expect("it runs").id;
    (plan, step)
}

fn tell(theatre: &Theatre, plan: &PlanHandle, step: StepId, event: &str) {
    theatre.done(theatre.world.event(plan.id(), step, None, &event)).expect("it is taken");
    theatre.sim.run_until_idle();
}

fn heard(view: &PlanView) -> Vec<String> {
    view.output::<Listener>().expect("it can be read")
}

#[test]
fn an_attempt_that_fails_with_an_event_gets_that_event_again_and_keeps_its_timers() {
    let listener = Listener { attempts: 2, ..Listener::default() };
    let theatre = listener.theatre();
    let (plan, step) = begin(&theatre);
    tell(&theatre, &plan, step, "hard");
    tell(&theatre, &plan, step, "easy");
    theatre.sim.advance(Duration::from_secs(11));
    assert_eq!(listener.calls(), ["Turn", "hard", "hard", "easy"]);
    theatre.sim.advance(HOUR);
    assert_eq!(listener.calls(), ["the timer"], "once");
    tell(&theatre, &plan, step, "the end");
    let view = theatre.finished(&plan);
    assert_eq!(heard(&view), ["hard", "easy", "the timer", "the end"]);
    assert_eq!(view.step(step).attempt, 2);
}

#[test]
fn an_attempt_that_takes_too_long_with_an_event_gets_that_event_again() {
    let listener = Listener { attempts: 2, ..Listener::default() };
    let theatre = listener.theatre();
    let (plan, step) = begin(&theatre);
    let _never = listener.shut();
    theatre.sim.advance(HOUR);
    tell(&theatre, &plan, step, "slow");
    theatre.sim.advance(HOUR + Duration::from_secs(20));
    tell(&theatre, &plan, step, "the end");
    assert_eq!(heard(&theatre.finished(&plan)), ["the timer", "slow", "the end"]);
    assert_eq!(listener.calls(), ["Turn", "the timer", "slow", "slow", "the end"]);
}

#[test]
fn an_event_that_a_step_fails_with_for_good_is_a_dead_letter_and_a_timer_is_none() {
    let listener = Listener { attempts: 2, ..Listener::default() };
    let theatre = listener.theatre();
    let (plan, step) = begin(&theatre);
    tell(&theatre, &plan, step, "impossible");
    theatre.sim.advance(Duration::from_secs(11));
    assert_eq!(theatre.settle(&plan).state, PlanState::Paused);
    assert_eq!(listener.calls(), ["Turn", "impossible", "impossible"]);
    let letters = theatre.world.dead_letters().letters;
    let payloads: Vec<_> = letters.iter().map(|letter| letter.payload.as_str()).collect();
    assert_eq!(payloads, ["\"impossible\""]);
    assert!(letters[0].reason.contains("step"), "{}", letters[0].reason);
}

#[test]
fn a_crash_while_an_event_is_handled_brings_the_same_event_again_and_nothing_before_it() {
    let listener = Listener::default();
    let theatre = listener.theatre();
    let (plan, step) = begin(&theatre);
    let _never = listener.shut();
    tell(&theatre, &plan, step, "slow");
    assert_eq!(listener.calls(), ["Turn", "slow"]);
    let id = plan.id();
    drop(plan);
    let next = listener.clone();
    let theatre = theatre.crash_with(|_| {}, |world| world.action(next));
    let plan = theatre.world.plan(id);
    let view = theatre.settle(&plan);
    assert_eq!(listener.calls(), ["slow"]);
    assert_eq!((view.step(step).attempt, view.timers.len()), (2, 1), "one timer");
    tell(&theatre, &plan, step, "the end");
    assert_eq!(heard(&theatre.finished(&plan)), ["slow", "the end"]);
}

#[test]
fn a_crash_while_the_end_of_sub_plans_is_handled_asks_for_none_again() {
    let listener = Listener { sub_plans: 2, ..Listener::default() };
    let theatre = listener.theatre();
    let _never = listener.shut();
    let (plan, _) = begin(&theatre);
    assert_eq!(listener.calls(), ["Turn", "SubPlans"]);
    let id = plan.id();
    drop(plan);
    let next = listener.clone();
    let theatre = theatre.crash_with(|_| {}, |world| world.action(next));
    let view = theatre.finished(&theatre.world.plan(id));
    assert_eq!((view.result(), view.sub_plans().count()), (PlanResult::Success, 2));
    assert_eq!(listener.calls(), ["SubPlans"]);
}
