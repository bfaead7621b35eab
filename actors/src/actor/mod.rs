//! Actors: the trait, the handlers of its messages, its context, its address, and the state of its
//! task.

mod address;
mod cell;
mod children;
mod context;
mod drain;
pub mod handler;
mod lifecycle;
mod restart;
mod spawn;

pub use address::{Address, Place, WeakAddress, With};
pub(crate) use cell::envelope::{Bare, Envelope};
pub(crate) use cell::forwarding::{Carrying, Forwarder, Pending, Unsent};
pub(crate) use cell::gate::Release;
pub use cell::gate::WAITING_MAX;
pub(crate) use cell::hooks::{Hooks, Outcome};
pub use cell::ActorCell;
pub(crate) use cell::{settle, CellState};
pub(crate) use children::Children;
pub use children::CHILD_CLOSE_LIMIT_DEFAULT;
pub use context::{AsyncContext, Context};
pub(crate) use drain::end_within;
pub use drain::{Drained, DRAIN_GRACE};
pub(crate) use handler::{kind, Turn};
pub use handler::{
    Access, Admits, AsyncHandler, Handler, InterleavedHandler, MessageFor, ReplyHandler,
};
pub use lifecycle::{Actor, Directive, Exit};
pub use restart::{Restart, RESTARTS_DEFAULT, RESTART_WINDOW_DEFAULT};
pub(crate) use restart::{RestartCounter, Restarter};
pub use spawn::ActorBuilder;
pub(crate) use spawn::TaskOptions;
