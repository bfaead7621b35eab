//! Attempts that are over while their step waits: no timer and no part of theirs is left.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, Cause, Next, OnInterrupt, PlanHandle, PlanState, PlanView, RetryPolicy,
    RunAsync, RunsAsync, StepContext, StepState,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Backoff, Completion};

use crate::common::Theatre;

const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);

/// Waits for ever.
struct Sleep;

impl Action for Sleep {
    const NAME: &'static str = "sleep";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Sleep {
    async fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Ok(Next::suspend("nothing"))
    }
}

/// Asks for a part and sets a timer when it begins, and keeps what it hears.
#[derive(Clone)]
struct Asker {
    attempts: u32,
    limit: Option<Duration>,
    silence: Option<Duration>,
    asks: bool,
    on_interrupt: OnInterrupt,
    gate: Arc<Mutex<Option<Completion<()>>>>,
}

impl Asker {
    fn new() -> Self {
        Self {
            attempts: 1,
            limit: None,
            silence: None,
            asks: true,
            on_interrupt: OnInterrupt::RunAgain,
            gate: Arc::default(),
        }
    }

    fn theatre(&self) -> Theatre {
        let action = self.clone();
        Theatre::with(|_| {}, |world| world.action(action).action(Sleep))
    }
}

impl Action for Asker {
    const NAME: &'static str = "asker";
    type Input = ();
    type Output = Vec<String>;
    type Phases = RunsAsync;

    fn limit(&self) -> Option<Duration> {
        self.limit
    }

    fn heartbeat(&self) -> Option<Duration> {
        self.silence
    }

    fn retry(&self) -> RetryPolicy {
        RetryPolicy::attempts(self.attempts).pauses(Backoff::constant(MINUTE))
    }

    fn on_interrupt(&self) -> OnInterrupt {
        self.on_interrupt
    }
}

impl RunAsync for Asker {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() == Cause::Turn {
            step.event_after(HOUR, &"the timer")?;
            if self.asks {
                step.ask::<Sleep>(1, &())?;
            }
            return Ok(Next::suspend("a part"));
        }
        let gate = self.gate.lock().expect("nothing panics under it").take();
        if let Some(gate) = gate {
            let _opened = gate.await;
        }
        let event = step.event::<String>()?;
        step.output.extend(event);
        Ok(Next::suspend("more"))
    }
}

fn trigger(theatre: &Theatre) -> PlanHandle {
    let triggering = theatre.world.trigger::<Asker>(());
    let plan = theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken");
    theatre.settle(&plan);
    plan
}

/// The states of the step that asks, and of its parts.
fn states(view: &PlanView) -> Vec<StepState> {
    view.steps.iter().skip(1).map(|step| step.state).collect()
}

#[test]
fn parts_and_timers_of_a_step_that_has_timed_out_are_dropped() {
    let asker = Asker { limit: Some(MINUTE), ..Asker::new() };
    let theatre = asker.theatre();
    let plan = trigger(&theatre);
    theatre.sim.advance(HOUR);
    let view = theatre.settle(&plan);
    assert_eq!(states(&view), [StepState::Error, StepState::Dropped]);
    assert_eq!((view.state, view.timers.len()), (PlanState::Paused, 0));
    theatre.done(plan.resume("ann")).expect("it is paused");
    let view = theatre.settle(&plan);
    assert_eq!(states(&view), [StepState::Suspended, StepState::Dropped, StepState::Suspended]);
    assert_eq!(view.timers.len(), 1);
}

#[test]
fn parts_of_an_attempt_that_is_retried_are_dropped() {
    let asker = Asker { limit: Some(MINUTE), attempts: 2, ..Asker::new() };
    let theatre = asker.theatre();
    let plan = trigger(&theatre);
    theatre.sim.advance(2 * MINUTE);
    let view = theatre.settle(&plan);
    assert_eq!(states(&view), [StepState::Suspended, StepState::Dropped, StepState::Suspended]);
    assert_eq!(view.timers.len(), 1);
}

#[test]
fn parts_of_a_step_that_was_silent_for_too_long_are_dropped() {
    for on_interrupt in [OnInterrupt::Fail, OnInterrupt::RunAgain] {
        let asker = Asker { silence: Some(MINUTE), on_interrupt, ..Asker::new() };
        let theatre = asker.theatre();
        let plan = trigger(&theatre);
        theatre.sim.advance(MINUTE + Duration::from_secs(1));
        let view = theatre.settle(&plan);
        let (asks, last) = (states(&view)[0], states(&view)[1]);
        assert_eq!(last, StepState::Dropped);
        let expected = match on_interrupt {
            OnInterrupt::Fail => (StepState::Error, 0, 2),
            _ => (StepState::Suspended, 1, 3),
        };
        assert_eq!((asks, view.timers.len(), states(&view).len()), expected);
    }
}

#[test]
fn interrupted_step_that_is_paused_and_resumed_has_one_timer_and_one_part() {
    for (asks, own) in [(false, false), (true, false), (false, true)] {
        let asker = Asker { asks, on_interrupt: OnInterrupt::Pause, ..Asker::new() };
        let theatre = asker.theatre();
        let plan = trigger(&theatre);
        let step = theatre.settle(&plan).run_step::<Asker>().expect("it runs").id;
        let (never, gate) = completion();
        *asker.gate.lock().expect("nothing panics under it") = Some(gate);
        match own {
            // The event that is interrupted is that of its timer.
            true => drop(theatre.sim.advance(HOUR)),
            false => {
                let event = theatre.world.event(plan.id(), step, None, &"slow");
                theatre.done(event).expect("it is taken");
            }
        }
        theatre.sim.run_until_idle();
        let id = plan.id();
        drop(plan);
        let action = asker.clone();
        let theatre = theatre.crash_with(|_| {}, |world| world.action(action).action(Sleep));
        drop(never);
        let plan = theatre.world.plan(id);
        let view = theatre.settle(&plan);
        assert_eq!((view.state, view.timers.len()), (PlanState::Paused, 0));
        theatre.done(plan.resume("ann")).expect("it is paused");
        let view = theatre.settle(&plan);
        assert_eq!(view.timers.len(), 1, "one timer");
        let open = states(&view).iter().filter(|state| **state == StepState::Suspended).count();
        assert_eq!(open, 1 + usize::from(asks));
        theatre.sim.advance(HOUR * 2);
        let heard = theatre.settle(&plan).output::<Asker>().expect("it can be read");
        let expected: &[&str] = if own { &["the timer"] } else { &["slow", "the timer"] };
        assert_eq!(heard, expected, "the event from outside is not lost");
    }
}
