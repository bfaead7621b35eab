//! A panic in any code of users is a failure of what it was asked for, and of nothing else.

use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, ActionView, Around, AroundDelay, AroundStep, Change, Concurrency, Delay,
    Finalize, Finalizes, Middleware, Next, On, OnInterrupt, PlanResult, PlanState, PlanView,
    Planner, Poll, Polled, Polling, Polls, Rescue, RetryPolicy, Revert, Reverts, Run, Runs,
    Singleton, StepContext, TriggerError,
};

use crate::common::Theatre;

/// Panics where it is told to.
struct Bomb(&'static str);

fn burst(here: &str, place: &str) {
    assert!(here != place, "burst in {here}");
}

impl Action for Bomb {
    const NAME: &'static str = "bomb";
    const HOOKS: On = On::ALL;
    type Input = String;
    type Output = u32;
    type Phases = (Runs, Finalizes, Reverts);

    fn plan(&self, planner: &mut Planner<'_, Self>, how: String) -> Result<(), ActionError> {
        burst(self.0, "plan");
        planner.plan_self(how).map(|_| ())
    }

    fn queue(&self) -> Option<&str> {
        burst(self.0, "queue");
        None
    }

    fn priority(&self) -> Option<i32> {
        burst(self.0, "priority");
        None
    }

    fn concurrency(&self) -> Concurrency<String> {
        burst(self.0, "concurrency");
        Concurrency::any()
    }

    fn singleton(&self) -> Option<Singleton<String>> {
        burst(self.0, "singleton");
        None
    }

    fn run_weight(&self) -> f64 {
        burst(self.0, "run_weight");
        1.0
    }

    fn retry(&self) -> RetryPolicy {
        burst(self.0, "retry");
        RetryPolicy::none()
    }

    fn retry_finalize(&self) -> RetryPolicy {
        burst(self.0, "retry_finalize");
        RetryPolicy::none()
    }

    fn retry_revert(&self) -> RetryPolicy {
        burst(self.0, "retry_revert");
        RetryPolicy::none()
    }

    fn reverts_failed(&self, _: &ActionError) -> bool {
        burst(self.0, "reverts_failed");
        true
    }

    fn limit(&self) -> Option<Duration> {
        burst(self.0, "limit");
        None
    }

    fn heartbeat(&self) -> Option<Duration> {
        burst(self.0, "heartbeat");
        None
    }

    fn rescue(&self, error: &ActionError) -> Rescue {
        burst(self.0, "rescue");
        if error.kind == "revert" {
            Rescue::Revert
        } else {
            Rescue::Pause
        }
    }

    fn on_interrupt(&self) -> OnInterrupt {
        burst(self.0, "on_interrupt");
        OnInterrupt::RunAgain
    }

    fn is_cancellable(&self) -> bool {
        burst(self.0, "is_cancellable");
        false
    }

    fn present(&self, _: &mut ActionView<'_>) {
        burst(self.0, "present");
    }

    fn changed(&self, _: &Change) -> Result<(), ActionError> {
        burst(self.0, "changed");
        Ok(())
    }
}

impl Run for Bomb {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        burst(self.0, "run");
        if step.has_event() {
            burst(self.0, "event");
            return Ok(Next::Done);
        }
        match step.input.as_str() {
            "fail" => Err(ActionError::new("broken", "as it was told")),
            "revert" => Err(ActionError::new("revert", "as it was told")),
            "wait" => Ok(Next::suspend("an event")),
            _ => Ok(Next::Done),
        }
    }
}

impl Finalize for Bomb {
    fn finalize(&self, _: &mut StepContext<Self>) -> Result<(), ActionError> {
        burst(self.0, "finalize");
        if self.0 == "retry_finalize" {
            return Err(ActionError::new("broken", "as it was told"));
        }
        Ok(())
    }
}

impl Revert for Bomb {
    fn revert(&self, _: &mut StepContext<Self>) -> Result<(), ActionError> {
        burst(self.0, "revert");
        if self.0 == "retry_revert" {
            return Err(ActionError::new("broken", "as it was told"));
        }
        Ok(())
    }
}

/// The plan when it is over or paused, or its error; and that the world goes on.
fn blow(theatre: &Theatre, how: &str) -> Result<PlanView, TriggerError> {
    let triggering = theatre.world.trigger::<Bomb>(how.to_owned());
    let taken = theatre.sim.block_on(triggering).expect("it ends");
    let view = taken.map(|plan| {
        let view = theatre.settle(&plan);
        if how == "wait" && view.state == PlanState::Running {
            let step = view.run_step::<Bomb>().expect("it runs").id;
            theatre.done(theatre.world.event(plan.id(), step, None, &1)).expect("it is taken");
        }
        let view = theatre.finished(&plan);
        let shown = theatre.world.present(&view);
        assert_eq!(shown.actions.len(), view.actions.len());
        view
    });
    let good = theatre.finished(&theatre.perform("a b"));
    assert_eq!(good.result(), PlanResult::Success, "other plans are not hit");
    view
}

fn with(place: &'static str) -> Theatre {
    Theatre::with(|_| {}, |world| world.action(Bomb(place)))
}

#[test]
fn a_panic_in_a_phase_of_an_action_is_its_failure() {
    for place in ["plan", "queue", "singleton"] {
        let error = blow(&with(place), "go").expect_err(place);
        let TriggerError::Planning { error, .. } = error else { panic!("{place}: {error}") };
        assert_eq!(error.kind, "panic", "{place}");
    }
    for (place, how) in
        [("run", "go"), ("event", "wait"), ("finalize", "go"), ("concurrency", "go")]
    {
        let view = blow(&with(place), how).expect(place);
        assert_eq!(view.state, PlanState::Paused, "{place}");
        assert_eq!(view.failed_steps().next().unwrap().error.as_ref().unwrap().kind, "panic");
    }
    let view = blow(&with("revert"), "revert").unwrap();
    assert_eq!(view.state, PlanState::Paused);
    let step = view.run_step::<Bomb>().unwrap();
    assert_eq!(step.revert_error.as_ref().unwrap().kind, "panic");
}

#[test]
fn a_panic_in_a_question_to_an_action_is_answered_with_what_is_safe() {
    for place in ["priority", "run_weight", "limit", "heartbeat", "is_cancellable", "on_interrupt"]
    {
        let view = blow(&with(place), "go").expect(place);
        assert_eq!(view.result(), PlanResult::Success, "{place}");
    }
    for (place, how) in [("retry", "fail"), ("rescue", "revert"), ("retry_finalize", "go")] {
        assert_eq!(blow(&with(place), how).expect(place).state, PlanState::Paused, "{place}");
    }
    assert_eq!(blow(&with("retry_revert"), "revert").unwrap().state, PlanState::Paused);
    let view = blow(&with("reverts_failed"), "revert").unwrap();
    assert_eq!(view.result(), PlanResult::Reverted, "as if it had not been asked");
}

#[test]
fn a_panic_in_a_hook_or_in_showing_changes_nothing() {
    for place in ["changed", "present"] {
        assert_eq!(blow(&with(place), "go").expect(place).result(), PlanResult::Success, "{place}");
    }
    let theatre = Theatre::with(
        |_| {},
        |world| world.action(Bomb("")).hook(On::ALL, |_| panic!("burst in a hook of the world")),
    );
    assert_eq!(blow(&theatre, "go").unwrap().result(), PlanResult::Success);
}

/// Panics around the phases of a bomb.
struct Fuse(&'static str);

impl Middleware for Fuse {
    fn delay(&self, around: &mut AroundDelay<'_>) -> Result<(), ActionError> {
        burst(self.0, "delay");
        around.pass()
    }

    fn plan(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        burst(self.0, "plan");
        around.pass()
    }

    fn plan_phase(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        burst(self.0, "plan_phase");
        around.pass()
    }

    fn present(&self, view: &mut ActionView<'_>) {
        burst(self.0, "present");
        view.pass();
    }

    fn hook(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        burst(self.0, "hook");
        around.pass()
    }

    async fn run(&self, around: &mut AroundStep<'_>) -> Result<Next, ActionError> {
        burst(self.0, "run");
        let next = around.pass().await;
        burst(self.0, "ran");
        next
    }

    async fn finalize(&self, around: &mut AroundStep<'_>) -> Result<Next, ActionError> {
        burst(self.0, "finalize");
        around.pass().await
    }

    async fn revert(&self, around: &mut AroundStep<'_>) -> Result<Next, ActionError> {
        burst(self.0, "revert");
        around.pass().await
    }
}

#[test]
fn a_panic_in_a_middleware_is_a_failure_of_what_it_is_around() {
    let with = |place| {
        Theatre::with(|_| {}, |world| world.action(Bomb("")).middleware_of::<Bomb>(Fuse(place)))
    };
    for place in ["plan", "plan_phase"] {
        let error = blow(&with(place), "go").expect_err(place);
        assert!(error.to_string().contains("burst in plan"), "{error}");
    }
    for (place, how) in [("run", "go"), ("ran", "go"), ("finalize", "go"), ("revert", "revert")] {
        let view = blow(&with(place), how).expect(place);
        assert_eq!(view.state, PlanState::Paused, "{place}");
        let errors = view.errors();
        assert!(errors.iter().any(|error| error.kind == "panic"), "{place}: {errors:?}");
    }
    for place in ["present", "hook"] {
        assert_eq!(blow(&with(place), "go").expect(place).result(), PlanResult::Success, "{place}");
    }
    let theatre = with("delay");
    let delayed = theatre.world.delay::<Bomb>(Delay::frozen(), "go".to_owned());
    let error = theatre.sim.block_on(delayed).unwrap().unwrap_err();
    assert!(matches!(error, TriggerError::Delay { .. }), "{error}");
    blow(&theatre, "go").unwrap();
}

/// Panics while it starts, is polled, is asked for its pause, or is ended.
struct Probe(&'static str);

impl Action for Probe {
    const NAME: &'static str = "probe";
    type Input = ();
    type Output = Polled<u32>;
    type Phases = Polls;

    fn is_cancellable(&self) -> bool {
        true
    }
}

impl Polling for Probe {
    type Task = u32;

    fn polled(output: &mut Polled<u32>) -> &mut Polled<u32> {
        burst("", "polled");
        output
    }

    fn start(&self, _: &mut StepContext<Self>) -> Result<u32, ActionError> {
        burst(self.0, "start");
        Ok(1)
    }

    fn poll(&self, _: &mut u32, _: &mut StepContext<Self>) -> Result<Poll, ActionError> {
        burst(self.0, "poll");
        Ok(Poll::Pending(None))
    }

    fn cancel(&self, _: &mut u32, _: &mut StepContext<Self>) -> Result<(), ActionError> {
        burst(self.0, "cancel");
        Ok(())
    }

    fn pause(&self, _: u32) -> Duration {
        burst(self.0, "pause");
        Duration::from_secs(1)
    }
}

#[test]
fn a_panic_of_a_poll_is_a_failure_of_its_step() {
    for place in ["start", "poll", "pause", "cancel"] {
        let theatre = Theatre::with(|_| {}, |world| world.action(Probe(place)));
        let plan = theatre.sim.block_on(theatre.world.trigger::<Probe>(())).unwrap().unwrap();
        theatre.settle(&plan);
        theatre.sim.advance(Duration::from_secs(10));
        if place == "cancel" {
            theatre.done(plan.cancel("ann")).unwrap();
        }
        let view = theatre.finished(&plan);
        assert_eq!(view.state, PlanState::Paused, "{place}");
        assert_eq!(view.failed_steps().next().unwrap().error.as_ref().unwrap().kind, "panic");
    }
}
