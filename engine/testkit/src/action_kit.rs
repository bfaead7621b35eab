//! One action in isolation, in a simulation with a clock of its own.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use turnwheel_engine::internal::{self, Calling, Phase};
use turnwheel_engine::plan::{PlanResult, PlanState, Step, StepState};
use turnwheel_engine::store::MemoryStore;
use turnwheel_engine::{
    Action, ActionError, Payload, PlanError, PlanHandle, PlanView, Triggering, World, WorldBuilder,
};
use turnwheel_runtime::sim::Sim;

use crate::PlannedAlone;

/// Tries one action in isolation: what it plans, how it runs, suspends, polls, finalizes and takes back,
/// with time under control.
///
/// Everything runs in the thread of the test, in a simulation: nothing waits for real, and time passes
/// only when told to. Code is called as in a world, with its retry policy, limits and events.
///
/// | to try | call |
/// | --- | --- |
/// | planning; what is planned is noted and not planned itself, and need not be registered | [`ActionKit::plan`] |
/// | the run phase alone, without planning; for references give values: `Input::from` | [`ActionKit::run`] |
/// | the finalize phase or the compensation alone, on a given output | [`ActionKit::finalize`], [`ActionKit::revert`] |
/// | a whole plan with its real planning | [`ActionKit::trigger`] |
///
/// ```
/// use std::time::Duration;
/// use turnwheel_testkit::ActionKit;
/// use turnwheel_engine::{Action, ActionError, Next, Run, Runs, StepContext, StepState};
///
/// struct Wait;
/// impl Action for Wait {
///     const NAME: &'static str = "wait";
///     type Input = u64;
///     type Output = String;
///     type Phases = Runs;
/// }
/// impl Run for Wait {
///     fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
///         if step.has_event() {
///             step.output = "done".to_owned();
///             return Ok(Next::Done);
///         }
///         step.event_after(Duration::from_secs(step.input), &())?;
///         Ok(Next::suspend("time"))
///     }
/// }
///
/// let kit = ActionKit::new(Wait);
/// assert!(kit.plan(60).runs());
/// let run = kit.run(60);
/// assert_eq!(run.state(), StepState::Suspended);
/// kit.advance(Duration::from_secs(60));
/// assert_eq!((run.state(), run.output().as_str()), (StepState::Success, "done"));
/// ```
pub struct ActionKit<A: Action> {
    world: World,
    sim: Sim,
    action: PhantomData<fn() -> A>,
}

impl<A: Action> fmt::Debug for ActionKit<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActionKit").field("action", &A::NAME).finish_non_exhaustive()
    }
}

/// How a call of a phase ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Called<T> {
    /// Its result.
    pub result: Result<(), ActionError>,
    /// The output afterwards.
    pub output: T,
}

impl<A: Action> ActionKit<A> {
    /// The action alone.
    ///
    /// # Panics
    ///
    /// As [`ActionKit::with_world`].
    pub fn new(action: A) -> Self {
        Self::with_world(action, |builder| builder)
    }

    /// The action in a world with more in it: actions that it triggers, or those of whole plans, middleware,
    /// queues.
    ///
    /// # Panics
    ///
    /// The world cannot be made: two actions have the same name, for instance.
    pub fn with_world(action: A, more: impl FnOnce(WorldBuilder) -> WorldBuilder) -> Self {
        let sim = Sim::new(1);
        let builder = World::builder()
            .action(action)
            .group(&sim.group("plans"))
            .io_group(&sim.group("journal"))
            .seed(1);
        let opening = sim.block_on(more(builder).open(MemoryStore::new()));
        let world = match opening {
            Ok(Ok(world)) => world,
            Ok(Err(error)) => panic!("the world of the kit cannot be made: {error}"),
            Err(stuck) => panic!("the world of the kit does not begin: {stuck:?}"),
        };
        Self { world, sim, action: PhantomData }
    }

    /// The world that it runs in.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The simulation, for what the kit has no call for.
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    /// Lets time pass: all that becomes due happens at its time.
    pub fn advance(&self, time: Duration) {
        self.sim.advance(time);
        self.sim.run_until_idle();
    }

    /// Calls the action's planning. What it plans is noted with its input, and has an output to refer to.
    pub fn plan(&self, input: A::Input) -> PlannedAlone<A> {
        PlannedAlone::new(internal::plan_alone::<A>(&self.world, input))
    }

    /// Runs the run phase alone with this input, as far as it goes without waiting.
    ///
    /// # Panics
    ///
    /// The action has no run phase, or the input cannot be written as JSON.
    pub fn run(&self, input: A::Input) -> ActionRun<'_, A> {
        self.expect(Phase::Run, "run phase");
        self.begun(internal::run_alone::<A>(&self.world, payload(&input, "input")))
    }

    /// Plans the action as a world does and runs the whole plan, as far as it goes without waiting.
    ///
    /// # Panics
    ///
    /// The plan is refused, or its planning fails: [`ActionKit::plan`] shows that.
    pub fn trigger(&self, input: A::Input) -> ActionRun<'_, A> {
        self.begun(self.world.trigger::<A>(input))
    }

    fn begun(&self, triggering: Triggering) -> ActionRun<'_, A> {
        match self.sim.block_on(triggering) {
            Ok(Ok(plan)) => {
                self.sim.run_until_idle();
                ActionRun { kit: self, plan }
            }
            Ok(Err(error)) => panic!("«{}» is not run: {error}", A::NAME),
            Err(stuck) => panic!("«{}» is not run: {stuck:?}", A::NAME),
        }
    }

    /// Calls the finalize phase with this input and the output that the run phase has left.
    ///
    /// # Panics
    ///
    /// The action has no finalize phase, or a value cannot be written as JSON.
    pub fn finalize(&self, input: &A::Input, output: &A::Output) -> Called<A::Output> {
        self.expect(Phase::Finalize, "finalize phase");
        self.called(Phase::Finalize, payload(input, "input"), payload(output, "output"), None)
    }

    /// Calls the compensation with this input and the output that the run phase has left; with the error
    /// of the run phase, if it has failed.
    ///
    /// # Panics
    ///
    /// The action has no compensation, or a value cannot be written as JSON.
    pub fn revert(
        &self,
        input: &A::Input,
        output: &A::Output,
        failure: Option<ActionError>,
    ) -> Called<A::Output> {
        self.expect(Phase::Revert, "compensation");
        self.called(Phase::Revert, payload(input, "input"), payload(output, "output"), failure)
    }

    fn expect(&self, phase: Phase, name: &str) {
        let has_phase = internal::has_phase::<A>(&self.world, phase);
        assert!(has_phase, "«{}» has no {name}", A::NAME);
    }

    fn called(
        &self,
        phase: Phase,
        input: Payload,
        output: Payload,
        failure: Option<ActionError>,
    ) -> Called<A::Output> {
        let call = internal::call_alone::<A>(&self.world, phase, input, output.clone(), failure);
        let returned = match call {
            Calling::Over(over) => over,
            Calling::Polled(future) => match self.sim.block_on(future) {
                Ok(over) => over,
                Err(stuck) => panic!("«{}» does not end: {stuck:?}", A::NAME),
            },
        };
        let output = returned.output.unwrap_or(output);
        let output = if output.is_null() { Ok(A::Output::default()) } else { output.read() };
        match output {
            Ok(output) => Called { result: returned.result, output },
            Err(error) => panic!("the output of «{}» {error}", A::NAME),
        }
    }
}

fn payload<T: Serialize>(value: &T, what: &str) -> Payload {
    match Payload::of(value) {
        Ok(payload) => payload,
        Err(error) => panic!("the {what} {error}"),
    }
}

/// An action that runs, or has run. What it shows is how it is now.
pub struct ActionRun<'kit, A: Action> {
    kit: &'kit ActionKit<A>,
    plan: PlanHandle,
}

impl<A: Action> fmt::Debug for ActionRun<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActionRun").field("action", &A::NAME).field("plan", &self.plan).finish()
    }
}

impl<A: Action> ActionRun<'_, A> {
    /// Its plan, for orders.
    pub fn plan(&self) -> &PlanHandle {
        &self.plan
    }

    /// The plan as it is now, after all that happens without waiting.
    ///
    /// # Panics
    ///
    /// The plan cannot be read.
    pub fn view(&self) -> PlanView {
        self.kit.sim.run_until_idle();
        match self.kit.sim.block_on(self.plan.view()) {
            Ok(Ok(view)) => view,
            Ok(Err(error)) => panic!("«{}» cannot be looked at: {error}", A::NAME),
            Err(stuck) => panic!("«{}» cannot be looked at: {stuck:?}", A::NAME),
        }
    }

    /// Its run step.
    ///
    /// # Panics
    ///
    /// It has none.
    pub fn step(&self) -> Step {
        match self.view().run_step::<A>() {
            Some(step) => step.clone(),
            None => panic!("«{}» has planned no run step", A::NAME),
        }
    }

    /// The state of its run step.
    pub fn state(&self) -> StepState {
        self.step().state
    }

    /// Why its run step has failed the last time it ended.
    pub fn error(&self) -> Option<ActionError> {
        self.step().error
    }

    /// How far its run step says it is, from 0 to 1.
    pub fn progress(&self) -> f64 {
        f64::from(self.step().done_thousandths()) / 1_000.0
    }

    /// What it waits for, for people; empty if it does not wait.
    pub fn waits_for(&self) -> String {
        self.step().waits_for
    }

    /// Its output so far.
    ///
    /// # Panics
    ///
    /// It cannot be read as its type.
    pub fn output(&self) -> A::Output {
        match self.view().output::<A>() {
            Ok(output) => output,
            Err(error) => panic!("{error}"),
        }
    }

    /// The state of the plan, and what came of it.
    pub fn outcome(&self) -> (PlanState, PlanResult) {
        let view = self.view();
        (view.state, view.result())
    }

    /// Sends its run step an event, and lets it take it.
    ///
    /// # Errors
    ///
    /// It is refused.
    ///
    /// # Panics
    ///
    /// The world of the kit does not answer.
    pub fn event<E: Serialize>(&self, event: &E) -> Result<(), PlanError> {
        let step = self.step().id;
        let sent = self.kit.world.event(self.plan.id(), step, None, event);
        let sent = match self.kit.sim.block_on(sent) {
            Ok(Ok(sent)) => sent,
            other => panic!("the event for «{}» is not answered: {other:?}", A::NAME),
        };
        self.kit.sim.run_until_idle();
        sent
    }

    /// Ends the plan, and lets its action hear of it.
    ///
    /// # Errors
    ///
    /// It is over.
    ///
    /// # Panics
    ///
    /// The world of the kit does not answer.
    pub fn cancel(&self) -> Result<(), PlanError> {
        let done = match self.kit.sim.block_on(self.plan.cancel("the test")) {
            Ok(Ok(done)) => done,
            other => panic!("the cancel of «{}» is not answered: {other:?}", A::NAME),
        };
        self.kit.sim.run_until_idle();
        done
    }
}
