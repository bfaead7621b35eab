//! Actions: the parts of plans.
//!
//! An action is a value that is registered with a [`World`](crate::World) under its name, and has
//! up to three phases. *Plan* runs in the thread that triggers, and creates the steps. *Run* does
//! the work, at the same time as other steps. *Finalize* runs when all run steps have ended well,
//! one after the other in the order of planning.
//!
//! The phases of an action are a type, [`Action::Phases`], so that a missing implementation does
//! not compile:
//!
//! | `Phases` | implement |
//! | --- | --- |
//! | `()` | nothing more: the action only plans others |
//! | [`Runs`] | [`Run`]: a function that may block, called on the blocking pool in a place of its queue |
//! | [`RunsAsync`] | [`RunAsync`]: an `async fn`, called on the world's workers |
//! | [`Polls`] | [`Polling`]: starts external work and polls it |
//! | [`PollsAsync`] | [`PollingAsync`]: the same, by `async fn`s |
//! | [`PollsTogether`] | [`PollAll`]: the same, and one call polls many steps |
//! | [`Finalizes`], [`FinalizesAsync`] | [`Finalize`], [`FinalizeAsync`] |
//! | [`Reverts`], [`RevertsAsync`] | [`Revert`], [`RevertAsync`]: undoes the work of run |
//! | `(Runs, Finalizes)`, `(RunsAsync, Reverts)`, `(Runs, Finalizes, Reverts)` … | all that are listed |

mod child_outputs;
mod chunk;
mod concurrency;
mod erased;
mod heartbeat;
mod hook;
mod migrate;
mod phases;
mod policy;
mod poll;
mod present;
mod promise;
mod registry;
mod send;
mod singleton;
mod step;
mod sub_plan;
mod together;
pub(crate) mod transact;
mod triggered;
mod when;

use std::any::Any;
use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::Serialize;

pub use child_outputs::{ChildOutput, ChildOutputs};
pub(crate) use chunk::ChunkLine;
pub use concurrency::Concurrency;
pub(crate) use concurrency::KeyOfCall;
pub(crate) use erased::{AnyAction, Begun, Call, CallKind, Returned};
pub(crate) use heartbeat::CancelFlag;
pub use hook::{Change, On};
pub use phases::{
    Finalizes, FinalizesAsync, Phases, Polls, PollsAsync, PollsTogether, Reverts, RevertsAsync,
    Runs, RunsAsync,
};
pub(crate) use policy::{crashes, interrupted, silent, timed_out, CRASHES, TIMED_OUT};
pub use policy::{Cause, OnInterrupt, Rescue, RetryPolicy};
pub use poll::{Poll, Polled, Polling, PollingAsync};
pub(crate) use present::{show, show_one};
pub use present::{ActionView, PlanShown, Shown, MASK};
pub(crate) use registry::Registry;
pub use singleton::{PlanLock, Singleton, WhenTaken};
pub(crate) use step::{Facts, Part, Wishes};
pub use step::{Next, StepContext};
pub use sub_plan::SubPlanOptions;
pub(crate) use together::Batches;
pub use together::{Asked, PollAll};
pub use transact::Transacting;
pub(crate) use triggered::Triggered;

use crate::error::ActionError;
use crate::payload::Payload;
use crate::plan::Planner;

/// The queue of steps whose action names none.
pub const DEFAULT_QUEUE: &str = "default";

/// A unit of work with a name, an input and an output, whose phases become steps of plans.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use turnwheel_engine::{Action, ActionError, MemoryStore, Next, Run, Runs, StepContext, World};
///
/// #[derive(Serialize, Deserialize)]
/// struct Name { name: String }
/// #[derive(Default, Serialize, Deserialize)]
/// struct Greeting { text: String }
///
/// struct Greet;
/// impl Action for Greet {
///     const NAME: &'static str = "greet";
///     type Input = Name;
///     type Output = Greeting;
///     type Phases = Runs;
/// }
/// impl Run for Greet {
///     fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
///         step.output.text = format!("hello {}", step.input.name);
///         Ok(Next::Done)
///     }
/// }
///
/// let world = World::builder().action(Greet).build(MemoryStore::new())?;
/// let plan = world.trigger::<Greet>(Name { name: "wheel".into() }).wait()?;
/// let greeting = plan.finished().wait()?.output::<Greet>()?;
/// assert_eq!(greeting.text, "hello wheel");
/// world.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Action: Sized + Send + Sync + 'static {
    /// The name under which it is stored with plans. Plans that wait find their action by it.
    const NAME: &'static str;

    /// Rises when the meaning of input or output changes.
    const VERSION: u32 = 1;

    /// Type of its input. Fields of type [`Input<T>`](crate::Input) can also be outputs of others.
    type Input: Serialize + DeserializeOwned + Send + 'static;

    /// Type of its output. It is stored whenever its code has ended, and passed to the next call.
    type Output: Serialize + DeserializeOwned + Default + Send + 'static;

    /// Its phases besides planning.
    type Phases: Phases<Self>;

    /// Plans: adds its own steps and those of other actions. By default just its own, with the
    /// input as it is.
    ///
    /// It runs in the thread that triggers the plan and may be slow, but what it does outside is
    /// not undone if planning fails.
    ///
    /// # Errors
    ///
    /// The plan is stored as stopped, with the error.
    fn plan(&self, planner: &mut Planner<'_, Self>, input: Self::Input) -> Result<(), ActionError> {
        planner.plan_self(input)?;
        Ok(())
    }

    /// The queue that its steps run in; without one that of the action that planned it, and at last
    /// the default one.
    fn queue(&self) -> Option<&str> {
        None
    }

    /// Of a plan with this action at its root: its steps get places in queues before those of plans
    /// with lower priorities. Without one that of the plan that asked for it, and at last 0.
    fn priority(&self) -> Option<i32> {
        None
    }

    /// Limit of its run steps with equal keys that run their code at once, in the entire world or
    /// in their queue: none by default.
    fn concurrency(&self) -> Concurrency<Self::Input> {
        Concurrency::any()
    }

    /// Whether one plan with it may be under way at a time, and what a second one does: by default
    /// any number may.
    fn singleton(&self) -> Option<Singleton<Self::Input>> {
        None
    }

    /// The share of its run step in the plan's progress, compared to others.
    fn run_weight(&self) -> f64 {
        1.0
    }

    /// The share of its finalize step in the plan's progress, compared to others.
    fn finalize_weight(&self) -> f64 {
        1.0
    }

    /// When its failed run step is tried again: by default never.
    fn retry(&self) -> RetryPolicy {
        RetryPolicy::none()
    }

    /// When its failed finalize step is tried again: by default never. Without transactions only
    /// this step is called again, with them the whole phase. After the last attempt the plan is
    /// paused.
    fn retry_finalize(&self) -> RetryPolicy {
        RetryPolicy::none()
    }

    /// When its failed compensation is tried again: by default never. After the last attempt the
    /// plan is paused, and can be resumed, the compensation [skipped](crate::PlanHandle::skip), or
    /// the plan [failed](crate::PlanHandle::fail).
    fn retry_revert(&self) -> RetryPolicy {
        RetryPolicy::none()
    }

    /// Whether its compensation is called also for a run step that has failed with this error, if
    /// its code was called: it may have had its effect nevertheless. By default it is, as is usual
    /// in a saga; so a compensation has to bear that there is nothing to take back, and
    /// [`StepContext::failure`] tells it. A step whose code was never called, because its input
    /// could not be read for instance, is never taken back.
    fn reverts_failed(&self, error: &ActionError) -> bool {
        let _ = error;
        true
    }

    /// Time limit of an attempt of its run step, waiting included; after it the attempt has failed.
    /// None by default. Time-outs count until the step has ended well or the plan is resumed, also if
    /// each attempt begins with calls that suspend.
    fn limit(&self) -> Option<Duration> {
        None
    }

    /// Maximum time between heartbeats of its run step, while its code runs and while it is
    /// suspended. Begins and ends of calls count as heartbeats, and so do
    /// [`StepContext::heartbeat`] and [`World::heartbeat`](crate::World::heartbeat). After that the
    /// attempt is over as an [interrupted](Action::on_interrupt) one, and the next one gets [the
    /// last details](StepContext::last_heartbeat). No limit by default.
    ///
    /// A step that waits for a place in a queue, or for its sub-plans, needs no heartbeats. Its
    /// time begins anew with each world, since without one heartbeats cannot arrive.
    fn heartbeat(&self) -> Option<Duration> {
        None
    }

    /// Suggests what to do with the plan after a final failure of one of its own steps.
    fn rescue(&self, error: &ActionError) -> Rescue {
        let _ = error;
        Rescue::Pause
    }

    /// Decides about the suggestion of an action that it has planned.
    fn rescue_of_planned(&self, action: &str, suggested: Rescue) -> Rescue {
        let _ = action;
        suggested
    }

    /// Whether its run step takes events from outside. By default it does. The sender of an event
    /// to a step that takes none is told so, and such a step cannot
    /// [wait for one](StepContext::wait_for_event) that does not come from itself: a timer, a part,
    /// a sub-plan.
    fn takes_events(&self) -> bool {
        true
    }

    /// Checks an event that somebody sends to its run step: the sender of one that is refused is
    /// told why, and the step does not get it. Timers and parts of the step are not checked.
    ///
    /// # Errors
    ///
    /// The event is none that the step can take.
    fn check_event(&self, event: &Payload) -> Result<(), ActionError> {
        let _any = event;
        Ok(())
    }

    /// Checks the input of a schedule that is to launch it later, and gives the labels of the
    /// plans that the
    /// schedule makes. By default every input is taken, and the plans have no labels of the
    /// action's own.
    ///
    /// # Errors
    ///
    /// A plan with this input could do nothing but fail.
    fn scheduled(&self, input: &Payload) -> Result<Vec<(String, String)>, ActionError> {
        let _any = input;
        Ok(Vec::new())
    }

    /// Treatment of its run step if the world ended while it ran, or if it was
    /// [silent](Action::heartbeat) for too long.
    fn on_interrupt(&self) -> OnInterrupt {
        OnInterrupt::RunAgain
    }

    /// The same for this input: by default that of all.
    fn on_interrupt_of(&self, input: &Self::Input) -> OnInterrupt {
        let _any = input;
        self.on_interrupt()
    }

    /// Whether its suspended run step is called with [`Cause::Cancel`] when the plan is cancelled;
    /// else it is ended without being asked. Code that runs sees
    /// [`StepContext::is_cancelled`] in both cases.
    fn is_cancellable(&self) -> bool {
        false
    }

    /// Changes of a plan with this action for which [`changed`](Action::changed) is called.
    const HOOKS: On = On::NOTHING;

    /// Told of a change of the plan, for each action of the plan once: after the change is durable,
    /// on the blocking pool, in the order of the changes; again after a crash in between. Before a
    /// plan is planned only its root action is told.
    ///
    /// # Errors
    ///
    /// They are logged, and change nothing for the plan.
    fn changed(&self, change: &Change) -> Result<(), ActionError> {
        let _ = change;
        Ok(())
    }

    /// Shows the action to people: masks what is sensitive, and says in words where it is and what
    /// came of it. By default as it is stored.
    fn present(&self, view: &mut ActionView<'_>) {
        let _ = view;
    }

    /// Makes an input that a person has edited, in the form in which [`present`](Action::present)
    /// shows it, one that can be stored. By default it is stored as it is.
    ///
    /// # Errors
    ///
    /// The order is refused with the message.
    fn edited(&self, stored: &Payload, input: Payload) -> Result<Payload, ActionError> {
        let _ = stored;
        Ok(input)
    }

    /// Makes the input and output that another version has stored those of this one; called before
    /// a step of an older plan is called, once, and what it gives is stored. References to outputs
    /// of others are in the input as they were. By default they are as they were.
    ///
    /// # Errors
    ///
    /// The step fails, and can be tried again with other code.
    fn migrate(
        &self,
        from: u32,
        input: serde_json::Value,
        output: serde_json::Value,
    ) -> Result<(serde_json::Value, serde_json::Value), ActionError> {
        let _ = from;
        Ok((input, output))
    }

    /// Whether its run step is called with [`Cause::Skip`] before it is left out.
    fn cleans_up_when_skipped(&self) -> bool {
        false
    }
}

/// The run phase of an action that may block.
pub trait Run: Action {
    /// Does the work. Called again after each event, failure or crash; see [`StepContext::cause`].
    ///
    /// # Errors
    ///
    /// The step fails; its retry and rescue policies decide about the plan.
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError>;
}

/// The run phase of an action that waits without holding a thread.
pub trait RunAsync: Action {
    /// Does the work. Called again after each event, failure or crash; see [`StepContext::cause`].
    ///
    /// # Errors
    ///
    /// The step fails; its retry and rescue policies decide about the plan.
    fn run(
        &self,
        step: &mut StepContext<Self>,
    ) -> impl Future<Output = Result<Next, ActionError>> + Send;
}

/// The finalize phase of an action.
pub trait Finalize: Action {
    /// Ends the work when all run steps of the plan have ended well. It must be idempotent: after a
    /// failure the whole phase is run again.
    ///
    /// # Errors
    ///
    /// The step fails and the plan is paused.
    fn finalize(&self, step: &mut StepContext<Self>) -> Result<(), ActionError>;
}

/// The finalize phase of an action that waits without holding a thread, as [`Finalize`]. Inside of
/// a transaction of the host it holds the thread of that.
pub trait FinalizeAsync: Action {
    /// Ends the work when all run steps of the plan have ended well. It must be idempotent: after a
    /// failure the whole phase is run again.
    ///
    /// # Errors
    ///
    /// The step fails and the plan is paused.
    fn finalize(
        &self,
        step: &mut StepContext<Self>,
    ) -> impl Future<Output = Result<(), ActionError>> + Send;
}

/// The compensation of an action that waits without holding a thread, as [`Revert`].
pub trait RevertAsync: Action {
    /// Undoes the work of the run phase. It must be idempotent: after a crash it is called again.
    ///
    /// # Errors
    ///
    /// As of [`Revert::revert`].
    fn revert(
        &self,
        step: &mut StepContext<Self>,
    ) -> impl Future<Output = Result<(), ActionError>> + Send;
}

/// Takes back what the run phase of an action has done: the compensation of a saga (Garcia-Molina
/// and Salem, 1987).
pub trait Revert: Action {
    /// Undoes it; the input and output are those of the run phase, which has ended well, or has
    /// [failed](StepContext::failure) and may have had its effect. It must be idempotent: after a
    /// crash it is called again. Its changes of the output are not kept.
    ///
    /// # Errors
    ///
    /// It is [tried again](Action::retry_revert) if the action says so; then the plan is paused,
    /// and resuming it tries again.
    fn revert(&self, step: &mut StepContext<Self>) -> Result<(), ActionError>;
}

/// The message of a panic. The payload is dropped here: a destructor that panics as well must not
/// unwind into the caller.
pub fn panic_message(panic: Box<dyn Any + Send>) -> String {
    let text = if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    };
    drop_quietly(panic);
    text
}

/// Drops a value of users. A panic in its destructor is logged and ends here.
pub(crate) fn drop_quietly<T>(value: T) {
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(value)));
    if let Err(panic) = dropped {
        // Its own destructor may panic again, and so on: it is not run.
        std::mem::forget(panic);
        tracing::warn!("a destructor of a value of a step panics");
    }
}
