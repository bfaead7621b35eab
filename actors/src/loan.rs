//! An actor away from its seat.

use std::sync::Arc;

use parking_lot::Mutex;

/// Where an actor on loan is given back.
pub(crate) type Home<A> = Arc<Mutex<Option<A>>>;

/// An actor on loan to a handler's future; goes home when the future ends or is dropped.
pub(crate) struct Loan<A> {
    actor: Option<A>,
    home: Home<A>,
}

impl<A> Loan<A> {
    pub(crate) fn new(actor: A, home: Home<A>) -> Self {
        Self { actor: Some(actor), home }
    }

    pub(crate) fn get(&mut self) -> &mut A {
        match &mut self.actor {
            Some(actor) => actor,
            None => unreachable!("a loan is made with its actor"),
        }
    }
}

impl<A> Drop for Loan<A> {
    fn drop(&mut self) {
        *self.home.lock() = self.actor.take();
    }
}
