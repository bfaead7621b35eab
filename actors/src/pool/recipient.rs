//! A pool as a recipient of messages of one type, without the type of its actors.

use std::sync::Arc;

use turnwheel_runtime::{Failure, Group};

use super::shared::Route;
use super::Pool;
use crate::actor::{Actor, MessageFor};
use crate::call::Ask;
use crate::error::TellError;
use crate::recipient::{
    Answering, Callee, Recipient, RecipientPlace, Reserving, SendMode, Target, Typed,
};
use crate::system::registry::Holder;
use crate::system::DeadLetterReason;

impl<A: Actor> Pool<A> {
    /// The pool as a recipient of messages of type `M`: for topics, routers and lists. Keeps the
    /// pool alive as a clone does.
    pub fn recipient<M: MessageFor<A, K>, K: 'static>(&self) -> Recipient<M> {
        Recipient::new(Typed::<_, K>::new(self))
    }

    /// The pool as a callee of messages of type `M`.
    pub fn callee<M: MessageFor<A, K>, K: 'static>(&self) -> Callee<M, M::Reply> {
        Callee::new(Typed::<_, K>::new(self))
    }
}

impl<A: Actor, M: MessageFor<A, K>, K: 'static> Target<M> for Typed<Pool<A>, K> {
    fn send(&self, message: M, mode: SendMode) -> Result<(), TellError<M>> {
        self.0.shared.tell(Route::Any, message, mode)
    }

    fn reserve(&self) -> Reserving<M> {
        let shared = Arc::clone(&self.0.shared);
        Box::pin(async move {
            loop {
                let Some((members, first)) = shared.choose(Route::Any) else {
                    return Err(Failure::Closed);
                };
                // Counted when the message is there: a place is no work.
                let member = members[first].clone();
                drop(members);
                shared.uncount(&member);
                match member.address.reserve().await {
                    Ok(place) => {
                        return Ok(RecipientPlace::new(move |message| {
                            shared.tell_into(&member, place, message)
                        }));
                    }
                    Err(failure) if failure.is_closed() => shared.forget(member.address.id()),
                    Err(failure) => return Err(failure),
                }
            }
        })
    }

    fn lost(&self, reason: DeadLetterReason) {
        self.0.shared.lost::<M>(reason);
    }

    fn group(&self) -> Group {
        self.0.shared.group().clone()
    }

    fn holder(&self) -> &dyn Holder {
        &self.0
    }
}

impl<A: Actor, M: MessageFor<A, K>, K: 'static> Answering<M, M::Reply> for Typed<Pool<A>, K> {
    fn ask(&self, message: M) -> Ask<M, M::Reply> {
        self.0.ask(message)
    }
}
