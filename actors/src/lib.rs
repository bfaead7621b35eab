#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod abandon;
mod actor;
mod address;
mod admit;
mod answers;
mod ask;
mod call_chain;
mod cold;
mod context;
mod dead_letter;
mod deadline;
mod delayed;
pub mod entity;
mod envelope;
mod error;
mod gate;
pub mod handler;
mod hooks;
pub mod intercept;
mod macros;
mod onward;
mod plain;
pub mod pool;
mod recipient;
pub mod registry;
mod reply;
mod request;
mod restart;
mod router;
mod scope;
mod seat;
mod spawn;
mod stream;
pub mod supervise;
mod system;
pub mod testkit;
mod timer;
mod topic;
mod weak;

pub use abandon::Abandoned;
pub use actor::{Actor, Directive, Exit};
pub use address::{Address, Place, With};
pub use answers::{AnswerSink, AnswerUnsent, Answers};
pub use ask::Ask;
pub use context::{AsyncContext, Context};
pub use dead_letter::{DeadLetter, DeadLetterReason};
pub use delayed::Delayed;
pub use entity::{Entities, EntitiesBuilder, Entity, EntityRef};
#[doc(hidden)]
pub use envelope::Delivery;
pub use error::{AskError, SpawnError, TellError, TimeSpent};
pub use gate::WAITING_MAX;
pub use handler::{
    Access, Admits, AsyncHandler, Handler, InterleavedHandler, Receive, ReplyHandler,
};
pub use macros::{messages, Actor};
pub use pool::{Pool, PoolBuilder, Routing};
pub use recipient::{Callee, Recipient, RecipientPlace};
pub use reply::ReplyTo;
pub use request::{RequestContext, TraceContext, TraceContextError};
pub use restart::{Restart, RESTARTS_DEFAULT, RESTART_WINDOW_DEFAULT};
pub use router::{RouteeId, Router, RouterFull, ROUTEES_MAX};
#[doc(hidden)]
pub use seat::Seat;
pub use spawn::ActorBuilder;
pub use stream::Attached;
pub use supervise::{ChildSpec, Strategy, Supervisor};
pub use system::{System, SystemBuilder, ASK_LIMIT_DEFAULT};
pub use timer::{ActorTimer, TimerError, Timing};
pub use topic::{
    Published, SubscriptionId, SubscriptionInfo, Topic, TopicOverflow, TOPIC_KEPT_MAX,
};
pub use weak::WeakAddress;
