#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

#[macro_use(clone_fields, debug_fields, default_fields, default_value, setters)]
extern crate turnwheel_runtime;

mod actor;
mod call;
pub mod entity;
mod error;
mod large;
mod macros;
pub mod pool;
mod recipient;
mod request;
mod stream;
pub mod supervise;
#[cfg(doctest)]
mod surface;
mod system;
mod timer;
mod topic;

pub use actor::{
    handler, Access, Actor, ActorBuilder, Address, Admits, AsyncContext, AsyncHandler, Context,
    Directive, Exit, Handler, InterleavedHandler, MessageFor, Place, ReplyHandler, Restart,
    WeakAddress, With, RESTARTS_DEFAULT, RESTART_WINDOW_DEFAULT, WAITING_MAX,
};
pub use call::{Abandoned, Ask, ReplyTo};
pub use entity::{Entities, EntitiesBuilder, Entity, EntityRef};
pub use error::{AskError, SpawnError, TellError, TimeSpent};
pub use macros::{messages, Actor};
pub use pool::router::{RouteeId, Router, RouterFull, ROUTEES_MAX};
pub use pool::{Pool, PoolBuilder, Routing};
pub use recipient::{Callee, Recipient, RecipientPlace};
pub use request::{RequestContext, TraceContext, TraceContextError};
pub use stream::{AnswerSink, AnswerUnsent, Answers, Attached};
pub use supervise::{ChildSpec, Strategy, Supervisor};
pub use system::{
    intercept, registry, DeadLetter, DeadLetterReason, System, SystemBuilder, ASK_LIMIT_DEFAULT,
};
pub use timer::{ActorTimer, Delayed, TimerError, Timing};
pub use topic::{
    Published, SubscriptionId, SubscriptionInfo, Topic, TopicOverflow, TOPIC_KEPT_MAX,
};

/// Types that signatures of hidden methods name; no part of the public API.
#[doc(hidden)]
pub mod internal {
    pub use crate::actor::ActorCell;
    pub use crate::large::{Carry, Large};
    pub use crate::request::Delivery;

    /// Number of the actor's task, under which a simulation lists it.
    pub fn task_id<A: crate::Actor>(address: &crate::Address<A>) -> u64 {
        address.task.id()
    }
}
