#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod action;
pub mod connect;
mod error;
mod finite;
mod id;
#[doc(hidden)]
pub mod internal;
mod journal;
pub mod limits;
pub mod middleware;
mod payload;
pub mod picture;
pub mod plan;
mod run;
pub mod schedule;
pub mod store;
mod time;
mod transaction;
pub mod watch;
mod world;

pub use action::{
    Action, ActionView, Asked, Cause, Change, ChildOutput, ChildOutputs, Concurrency, Finalize,
    FinalizeAsync, Finalizes, FinalizesAsync, Next, On, OnInterrupt, Phases, PlanLock, PlanShown,
    Poll, PollAll, Polled, Polling, PollingAsync, Polls, PollsAsync, PollsTogether, Rescue,
    RetryPolicy, Revert, RevertAsync, Reverts, RevertsAsync, Run, RunAsync, Runs, RunsAsync, Shown,
    Singleton, StepContext, SubPlanOptions, Transacting, WhenTaken, MASK,
};
pub use connect::{ConnectError, Connector};
pub use error::{
    ActionError, ActionFailure, BuildError, PayloadError, PlanError, StoreError, TextTooLong,
    TriggerError,
};
pub use id::{ActionId, PlanId, PlanIdError, StepId};
pub use journal::{JournalStats, LockView, Spread, StateWrite, TimedStates};
pub use middleware::{Around, AroundDelay, AroundStep, Layer, Middleware};
pub use payload::Payload;
pub use plan::{
    ActionRef, EventTarget, Flow, Input, OutputRef, Plan, PlanResult, PlanState, Planner, StepKind,
    StepState, SubPlanCounts, Waiting,
};
pub use schedule::{Schedule, ScheduleError};
pub use store::{Codec, CodedStore, MemoryStore, Store, WorldKind};
pub use time::{Time, TimeError};
pub use transaction::TransactionAdapter;
/// Makes an action of a function or of an impl block: the shortest way to write one.
///
/// **A function** is an action of its name: `fn charge_card` is kept as it is, and the type
/// `ChargeCard` is the action «charge_card». The parameter is the input, by value (then it is
/// cloned) or by reference (`&str` stands for `String`, `&[T]` for `Vec<T>`); the value of the
/// result is the output. A second parameter `step: &mut StepContext<ChargeCard>` tells more and
/// asks for more; then the input is cloned in each case. An `async fn` holds no thread while it
/// waits.
///
/// ```
/// use turnwheel_engine::{action, ActionError, MemoryStore, RetryPolicy, World};
///
/// /// Greets.
/// #[action(retry = RetryPolicy::attempts(3))]
/// async fn greet(name: &str) -> Result<String, ActionError> {
///     Ok(format!("hello {name}"))
/// }
///
/// let world = World::builder().action(Greet).build(MemoryStore::new())?;
/// let greeting = world.trigger::<Greet>("wheel".to_owned()).outcome::<Greet>().wait()?;
/// assert_eq!(greeting, "hello wheel");
/// world.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// **An impl block** is for an action that holds something, plans, polls, or has more phases. Each
/// method of [`Action`] may stand in it, and of the phases those that the action has:
///
/// | method | what it is given | trait |
/// | --- | --- | --- |
/// | `run`, may be `async` | input, `step` | [`Run`], [`RunAsync`] |
/// | `start` | input, `step`; its result is the task | [`Polling`], [`PollingAsync`] |
/// | `poll`, `cancel` | `&mut` task, input, `step` | [`Polling`], [`PollingAsync`] |
/// | `finalize` | input, output, `step` | [`Finalize`], [`FinalizeAsync`] |
/// | `revert` | input, output, `step` | [`Revert`], [`RevertAsync`] |
///
/// Every parameter but the task may be left out. Each of these methods may be an `async fn`: it is
/// called on the world's workers, and waits without holding a thread. `run` may give
/// `Result<Next, ..>` instead of an output, to suspend for instance; then it writes `step.output`,
/// and the option `output` says its type. An action that polls has the output [`Polled`] with its
/// task, unless `polled` and `output` say another.
///
/// ```
/// use turnwheel_engine::{action, ActionError, MemoryStore, Rescue, World};
///
/// struct Charge { currency: &'static str }
///
/// #[action(name = "charge", rescue = Rescue::Revert)]
/// impl Charge {
///     fn run(&self, cents: u64) -> Result<String, ActionError> {
///         Ok(format!("{cents} {}", self.currency))
///     }
///     fn revert(&self, _cents: u64, receipt: &String) -> Result<(), ActionError> {
///         assert!(receipt.is_empty() || receipt.ends_with(self.currency));
///         Ok(())
///     }
/// }
///
/// let world = World::builder().action(Charge { currency: "EUR" }).build(MemoryStore::new())?;
/// assert_eq!(world.trigger::<Charge>(995).outcome::<Charge>().wait()?, "995 EUR");
/// world.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Options: `name = ".."`, under which plans are stored, by default that of the function or type
/// (renaming it makes plans that wait wait for ever: give a name); `version`, `input`, `output`;
/// `queue`, `priority`, `retry`, `limit`, `heartbeat`, `rescue`, `on_interrupt`, `cancellable`, as
/// the methods of [`Action`]; `type_name` of a function's action; `crate`, the path of this crate
/// where it is not found among the dependencies (it is also found in `turnwheel`).
pub use turnwheel_engine_macros::action;
pub use world::{
    ActionInfo, Asking, BrokenPlan, Bulk, BulkOrder, BulkOutcome, BulkPlan, BulkProgress,
    BulkReport, Check, Chunk, ChunkCursor, ClaimError, ClaimFilter, ClaimView, CleanError, Cleaned,
    Counts, Delay, Finished, Health, KeepingView, Meta, Named, Opening, Outcome, OutcomeError,
    PlanFailure, PlanHandle, PlanShare, PlanView, Presenter, PromiseError, Queue, QueueStatus,
    Retention, SharedStore, TriggerOptions, Triggering, World, WorldBuilder, WorldView,
};
pub use world::{DeadLetter, DeadLetters, Stats, WaitingPlans};

/// A reference to a field of an action's output: `output!(triage => assignee)`, or deeper with
/// `output!(triage => place.city)`. The action comes from [`Planner::plan_action`].
///
/// The fields are checked by the compiler; their names must be those in JSON.
#[macro_export]
macro_rules! output {
    ($action:expr => $($field:ident).+) => {
        $action.reference(&[$(stringify!($field)),+], |output| &output.$($field).+)
    };
}
