//! Two actors that fail together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use turnwheel_runtime::completion::InlineExecutor;
use turnwheel_runtime::Failure;

use crate::actor::{Actor, Address};

/// Two linked actors. Dropping it keeps the link.
#[derive(Debug)]
pub struct Link {
    is_cut: Arc<AtomicBool>,
}

impl Link {
    /// Cuts the link. A failure that is under way to the other actor arrives all the same.
    pub fn unlink(self) {
        self.is_cut.store(true, Ordering::Release);
    }
}

/// The failure of a linked actor.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the linked actor {name} has failed: {failure}")]
#[non_exhaustive]
pub struct LinkBroken {
    /// The name of the actor that failed.
    pub name: String,
    /// Why it failed.
    #[source]
    pub failure: Failure,
}

impl<A: Actor> Address<A> {
    /// Links two actors: when one fails for good or is killed, the other fails with [`LinkBroken`],
    /// without a call of its policy, at once if that has happened already. An end in order removes
    /// the link.
    ///
    /// A link keeps neither of them alive.
    pub fn link<B: Actor>(&self, other: &Address<B>) -> Link {
        let is_cut = Arc::default();
        half(self, other, &is_cut);
        half(other, self, &is_cut);
        Link { is_cut }
    }
}

/// Fails `second` when `first` does.
fn half<A: Actor, B: Actor>(first: &Address<A>, second: &Address<B>, is_cut: &Arc<AtomicBool>) {
    let name = first.name();
    let second = second.task.downgrade();
    let is_cut = Arc::clone(is_cut);
    let told = first.task.closed().on_error(InlineExecutor, move |failure| {
        if is_cut.load(Ordering::Acquire) {
            return;
        }
        if let Some(second) = second.upgrade() {
            second.fail(Failure::error(LinkBroken { name, failure })).detach();
        }
    });
    told.detach();
}
