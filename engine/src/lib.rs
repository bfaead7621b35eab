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
pub mod testkit;
mod time;
mod transaction;
pub mod watch;
mod world;

pub use action::{
    Action, ActionView, Asked, Cause, Change, Concurrency, Finalize, Finalizes, Next, On,
    OnInterrupt, Phases, PlanLock, PlanShown, Poll, PollAll, Polled, Polling, Polls, PollsTogether,
    Rescue, RetryPolicy, Revert, Reverts, Run, RunAsync, Runs, RunsAsync, Shown, Singleton,
    StepContext, SubPlanOptions, Transacting, WhenTaken,
};
pub use connect::{ConnectError, Connector};
pub use error::{
    ActionError, ActionFailure, BuildError, PayloadError, PlanError, StoreError, TextTooLong,
    TriggerError,
};
pub use id::{ActionId, PlanId, PlanIdError, StepId};
pub use journal::{JournalStats, LockView, Spread};
pub use middleware::{Around, AroundDelay, AroundStep, Layer, Middleware};
pub use payload::Payload;
pub use plan::{
    ActionRef, Flow, Input, OutputRef, Plan, PlanResult, PlanState, Planner, StepKind, StepState,
    SubPlanCounts, Waiting,
};
/// What [`StepContext::transaction`] gives to its code.
pub use rusqlite;
pub use schedule::{Schedule, ScheduleError};
pub use store::{
    Codec, CodedStore, MemoryStore, SqliteCheck, SqliteStore, SqliteSync, Store, WorldKind,
};
pub use testkit::crash_points;
pub use time::{Time, TimeError};
pub use transaction::TransactionAdapter;
pub use world::{
    ActionInfo, Asking, BrokenPlan, Bulk, BulkOrder, BulkOutcome, BulkPlan, BulkProgress,
    BulkReport, Check, Chunk, ChunkCursor, ClaimError, ClaimFilter, ClaimView, CleanError, Cleaned,
    Counts, Delay, Finished, Health, KeepingView, Meta, Named, Opening, PlanHandle, PlanShare,
    PlanView, Queue, QueueStatus, Retention, SharedStore, TriggerOptions, Triggering, World,
    WorldBuilder, WorldView,
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
