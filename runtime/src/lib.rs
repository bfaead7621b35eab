//! Scheduler for tasks that own a state and process one job at a time.
//!
//! A [`Group`] is a fixed set of worker threads. A [`Task`] owns a state; jobs are closures that
//! get `&mut` access to it. The runtime never runs two jobs of one task at the same time, so a job
//! needs no lock. Idle tasks take no thread: a million of them are a matter of memory.
//!
//! ```
//! use turnwheel_runtime::Group;
//!
//! let group = Group::builder("cpu").workers(2).build()?;
//! let counter = group.spawn(0_u64)?;
//!
//! // From any thread: queue a job, or queue one and wait for its answer.
//! counter.submit(|count, _| *count += 1)?;
//! assert_eq!(counter.call(|count, _| *count).wait()?, 1);
//!
//! group.shutdown()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to go on
//!
//! | topic | item |
//! | --- | --- |
//! | threads, pinning, limits of a group | [`GroupBuilder`] |
//! | giving work to a task: submit, call, permits | [`Task`] |
//! | what a job may do: timers, futures, further jobs | [`Context`] |
//! | start, end and failures of a task | [`Lifecycle`], [`OnFailure`] |
//! | bounds, and what happens when a mailbox is full | [`Mailbox`], [`Overflow`] |
//! | results that come later | [`Completion`], [`completion`] |
//! | one value from one thread to another | [`oneshot`] |
//! | deterministic tests in virtual time | [`sim`] |
//! | clocks | [`time`] |
//! | every limit with its unit and reason | [`limits`] |
//!
//! # Handles
//!
//! Dropping a handle cancels nothing; dropping the last end of a pair tells the other end.
//!
//! | handle | what it is | dropped |
//! | --- | --- | --- |
//! | [`Timer`], [`Subscription`] | the name of a job source in the task | nothing changes |
//! | [`Completer`], [`Condition`] | a source | dropping the last one ends its waiters |
//! | [`Completion`], [`Permit`] | a receiver | its source is notified |
//! | [`Task`] | an address | the last one closes the task in order, once no subscription is left |
//! | [`Group`] | an address | nothing ends; the last one without a shutdown is logged |
//!
//! The same holds while a task lives and while it closes. Ends are `#[must_use]`, except
//! [`Completion`], since operations that go on by themselves return one.
//!
//! Bounded queues between tasks are in the crate `turnwheel-channel`; typed messages, supervision
//! and entities in `turnwheel-actors`; several groups as
//! one runtime, ordered startup, health and retries in `turnwheel-extras`.

#![warn(clippy::disallowed_methods)]
#![cfg_attr(turnwheel_loom, expect(dead_code, reason = "a model uses parts of a module"))]

#[macro_use]
mod macros;
#[macro_use]
mod sync;

mod backoff;
mod checked;
pub mod completion;
mod failure;
mod group;
mod handoff;
pub mod limits;
#[cfg(turnwheel_loom)]
#[doc(hidden)]
#[path = "../loom/model.rs"]
pub mod model;
pub mod sim;
#[cfg(not(turnwheel_checked))]
mod slab;
#[cfg(turnwheel_checked)]
#[path = "../checked/slab.rs"]
mod slab;
mod subscription;
#[cfg(doctest)]
mod surface;
mod task;
pub mod time;
mod worker;

pub use backoff::{Backoff, Delays};
pub use completion::{Completer, Completion};
pub use failure::Failure;
pub use group::{
    Budget, BuildError, ClassMetrics, Group, GroupBuilder, GroupMetrics, IdlePolicy, Latency,
    LatencyBucket, ShutdownError, ShutdownReport, SpawnError, SpawnErrorKind, TaskBuilder,
    TaskInfo, TimersFull, WorkerMetrics,
};
pub use handoff::oneshot;
pub use subscription::{Cancelled, Condition, ConditionMode, Late, Timer, TimerError};
pub use task::{
    current_task, AnyTask, Context, Flow, Lifecycle, Mailbox, OnFailure, Overflow, Permit, Phase,
    Reserve, SubmitError, SubmitErrorKind, Subscription, Task, TaskJob, WeakTask,
};
pub use worker::{HostedWorker, Pinning};

/// Building blocks of `turnwheel-actors`. Not part of the API: they may change in any release.
#[doc(hidden)]
pub mod internal {
    pub use crate::completion::chain::spawn_inline;
    pub use crate::failure::contain;
    pub use crate::group::PerWorker;
    pub use crate::handoff::{hide_from_turns, Lender, Lent, Scoped};
    pub use crate::task::{losing_task, Attached, Attachment, Of};
    pub use crate::time::wheel::{Key, Wheel, MOVES_MAX};
}
