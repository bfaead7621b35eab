//! Calls: both sides of one, the calls above it, its deadline, and how it is given up.

mod abandoned;
mod ask;
mod chain;
mod deadlines;
mod load;
mod reply;

pub use abandoned::Abandoned;
pub(crate) use abandoned::{is_abandoned, Watchers};
pub use ask::Ask;
pub(crate) use ask::{Other, Waiting};
pub(crate) use chain::{Asker, CallChain, Name};
pub(crate) use deadlines::{deadline_after, nanos, thread_shard, Deadlines, SHARDS};
pub(crate) use load::Load;
pub use reply::ReplyTo;
pub(crate) use reply::{Answer, Call, Caller, Term};
