//! Supervision: children, watchers, links and supervisors.
//!
//! | wanted | how |
//! | --- | --- |
//! | an actor that ends with another | [`Context::spawn_child`](crate::Context::spawn_child) |
//! | a message at an end | [`Context::watch`](crate::Context::watch) |
//! | two actors that fail together | [`Address::link`](crate::Address::link) |
//! | a fresh state after a failure, same address and mailbox | [`Restart`](crate::Restart) |
//! | a fresh actor, order among several, limits, escalation | [`Supervisor`] |
//! | an end within a limit, with the leftovers | [`Address::drain`](crate::Address::drain) |

mod link;
mod plan;
mod spec;
mod supervisor;
mod watch;

pub use crate::actor::{Drained, CHILD_CLOSE_LIMIT_DEFAULT, DRAIN_GRACE};
pub use link::{Link, LinkBroken};
pub use spec::{ChildRef, ChildSpec, RestartKind};
pub use supervisor::{
    ChildError, ChildInfo, EscalatedFailure, ListChildren, StartChild, StopChild, Strategy,
    Supervisor,
};
