//! Two actors that fail together.

use std::fmt;

use turnwheel_runtime::completion::InlineExecutor;
use turnwheel_runtime::{Completion, Failure};

use crate::actor::Actor;
use crate::address::Address;

/// Two linked actors. Dropping it keeps the link.
#[must_use = "the link stays also without it; drop it with `let _ =` if it is never to be cut"]
#[derive(Debug)]
pub struct Link {
    halves: Option<[Completion<()>; 2]>,
}

impl Link {
    /// Cuts the link.
    pub fn unlink(mut self) {
        // Dropped, a completion is cancelled.
        self.halves = None;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for half in self.halves.take().into_iter().flatten() {
            half.detach();
        }
    }
}

/// What a linked actor fails with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LinkBroken {
    /// The name of the actor that failed.
    pub name: String,
    /// Why it failed.
    pub failure: Failure,
}

impl fmt::Display for LinkBroken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the linked actor {} has failed: {}", self.name, self.failure)
    }
}

impl std::error::Error for LinkBroken {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.failure)
    }
}

impl<A: Actor> Address<A> {
    /// Links two actors: when one fails for good or is killed, the other fails with [`LinkBroken`],
    /// without being asked, at once if that has happened already. An end in order cuts the link.
    ///
    /// A link keeps neither of them.
    pub fn link<B: Actor>(&self, other: &Address<B>) -> Link {
        Link { halves: Some([half(self, other), half(other, self)]) }
    }
}

/// Fails `second` when `first` does.
fn half<A: Actor, B: Actor>(first: &Address<A>, second: &Address<B>) -> Completion<()> {
    let name = first.name();
    let second = second.task.downgrade();
    first.task.closed().on_error(InlineExecutor, move |failure| {
        if matches!(failure, Failure::Cancelled) {
            return;
        }
        if let Some(second) = second.upgrade() {
            second.fail(Failure::error(LinkBroken { name, failure })).detach();
        }
    })
}
