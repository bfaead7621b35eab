//! Ways into a mailbox besides a plain `tell`, and places that it has promised.

use std::time::Duration;

use turnwheel_runtime::Permit;

use super::strong::Address;
use crate::actor::{Actor, ActorCell, MessageFor};
use crate::error::TellError;

/// A way into a mailbox.
pub(super) enum Way<A: Actor> {
    Urgent,
    /// Waits for a place.
    Within(Duration),
    Into(Permit<ActorCell<A>>),
}

/// A promised place in a mailbox; dropping it gives the place back.
#[derive(Debug)]
#[must_use]
pub struct Place<A: Actor> {
    pub(crate) permit: Permit<ActorCell<A>>,
    address: Address<A>,
}

impl<A: Actor> Place<A> {
    pub(super) fn new(permit: Permit<ActorCell<A>>, address: Address<A>) -> Self {
        Self { permit, address }
    }

    /// Sends a message into the reserved place; the result is never full.
    ///
    /// # Errors
    ///
    /// The actor has closed since; the message comes back.
    pub fn tell<M: MessageFor<A, K>, K: 'static>(self, message: M) -> Result<(), TellError<M>> {
        let Self { permit, address } = self;
        address.tell_by::<M, K>(message, Way::Into(permit))
    }
}
