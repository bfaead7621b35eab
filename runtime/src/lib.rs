//! Work-stealing groups of threads, and tasks on them that take one turn at a time.

#![warn(clippy::disallowed_methods)]
#![cfg_attr(turnwheel_loom, expect(dead_code, reason = "a model uses parts of a module"))]

mod backoff;
#[cfg(not(turnwheel_loom))]
mod channel;
mod checked;
pub mod completion;
#[cfg(turnwheel_loom)]
#[path = "group/earliest.rs"]
mod earliest;
mod failure;
#[cfg(not(turnwheel_loom))]
mod group;
mod handoff;
pub mod limits;
#[cfg(turnwheel_loom)]
#[path = "subscription/mark.rs"]
mod mark;
#[cfg(turnwheel_loom)]
#[doc(hidden)]
pub mod model;
#[cfg(not(turnwheel_loom))]
pub mod sim;
#[cfg(not(any(turnwheel_loom, turnwheel_checked)))]
mod slab;
#[cfg(all(turnwheel_checked, not(turnwheel_loom)))]
#[path = "slab_checked.rs"]
mod slab;
#[cfg(not(turnwheel_loom))]
mod subscription;
#[cfg(doctest)]
mod surface;
mod sync;
mod task;
pub mod time;
#[cfg(turnwheel_loom)]
#[path = "subscription/word.rs"]
mod word;
mod worker;

pub use backoff::{Backoff, Delays};
#[cfg(not(turnwheel_loom))]
pub use channel::{Channel, ChannelError, ChannelErrorKind, Consumer, Listener, Listeners};
pub use completion::{Completer, Completion};
pub use failure::Failure;
#[cfg(not(turnwheel_loom))]
pub use group::{
    Budget, BuildError, ClassMetrics, Group, GroupBuilder, GroupMetrics, IdlePolicy, Latency,
    LatencyBucket, PerWorker, ShutdownError, ShutdownReport, SpawnError, SpawnErrorKind,
    TaskBuilder, TaskInfo, TimersFull, WorkerMetrics,
};
#[cfg(not(turnwheel_loom))]
pub use handoff::Scoped;
pub use handoff::{oneshot, Lender, Lent};
#[cfg(not(turnwheel_loom))]
pub use subscription::{Cancelled, Condition, ConditionMode, Late, Timer};
#[cfg(not(turnwheel_loom))]
pub use task::{
    current_task, losing_task, AnyTask, Context, Flow, Lifecycle, Mailbox, OnFailure, Overflow,
    Permit, Phase, Reserve, SubmitError, SubmitErrorKind, Subscription, Task, TaskJob, WeakTask,
};
#[cfg(not(turnwheel_loom))]
pub use worker::Pinning;
