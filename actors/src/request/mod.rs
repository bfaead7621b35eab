//! Context of a request: values and trace of its sender, and the chain of calls it is part of.
//!
//! While an actor handles a message, and at each poll of its handler's future, these are *ambient*:
//! kept in a thread-local place, from where `tell`, `ask` and timers take them along. A message
//! without any costs one look at a flag.

mod ambient;
mod context;
mod delivery;
pub(crate) mod scope;
mod trace;

pub(crate) use ambient::{baggage, call, closes_cycle, outgoing, outgoing_for, Ambient};
pub(crate) use context::Baggage;
pub use context::RequestContext;
pub use delivery::Delivery;
pub(crate) use scope::Panic;
pub use trace::{TraceContext, TraceContextError};
