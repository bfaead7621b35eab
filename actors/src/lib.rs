#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

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

pub use actor::address::{Address, Place, WeakAddress, With};
pub use actor::cell::gate::WAITING_MAX;
pub use actor::context::{AsyncContext, Context};
pub use actor::handler;
pub use actor::handler::{
    Access, Admits, AsyncHandler, Handler, InterleavedHandler, Receive, ReplyHandler,
};
pub use actor::restart::{Restart, RESTARTS_DEFAULT, RESTART_WINDOW_DEFAULT};
pub use actor::spawn::ActorBuilder;
pub use actor::{Actor, Directive, Exit};
pub use call::abandoned::Abandoned;
pub use call::ask::Ask;
pub use call::reply::ReplyTo;
pub use entity::{Entities, EntitiesBuilder, Entity, EntityRef};
pub use error::{AskError, SpawnError, TellError, TimeSpent};
pub use macros::{messages, Actor};
pub use pool::router::{RouteeId, Router, RouterFull, ROUTEES_MAX};
pub use pool::{Pool, PoolBuilder, Routing};
pub use recipient::{Callee, Recipient, RecipientPlace};
pub use request::{RequestContext, TraceContext, TraceContextError};
pub use stream::{AnswerSink, AnswerUnsent, Answers, Attached};
pub use supervise::{ChildSpec, Strategy, Supervisor};
pub use system::dead_letter::{DeadLetter, DeadLetterReason};
pub use system::intercept;
pub use system::registry;
pub use system::{System, SystemBuilder, ASK_LIMIT_DEFAULT};
pub use timer::{ActorTimer, Delayed, TimerError, Timing};
pub use topic::{
    Published, SubscriptionId, SubscriptionInfo, Topic, TopicOverflow, TOPIC_KEPT_MAX,
};

/// Types that signatures of hidden methods name; no part of the public API.
#[doc(hidden)]
pub mod internal {
    pub use crate::actor::cell::ActorCell;
    pub use crate::large::{Carry, Large};
    pub use crate::request::Delivery;

    /// Number of the actor's task, under which a simulation lists it.
    pub fn task_id<A: crate::Actor>(address: &crate::Address<A>) -> u64 {
        address.task.id()
    }
}
