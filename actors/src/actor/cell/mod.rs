//! The state of an actor's task: the actor, the crate's data beside it, and the handling of
//! messages.

mod admission;
pub(crate) mod envelope;
pub(crate) mod forwarding;
pub(crate) mod gate;
pub(crate) mod hooks;
mod intercepted;
mod plain;
mod rare;
mod state;

pub use state::ActorCell;
pub(crate) use state::{settle, CellState};
