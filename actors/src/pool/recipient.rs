//! A pool as one that takes messages of a type, without the type of its actors.

use std::marker::PhantomData;
use std::sync::Arc;

use turnwheel_runtime::{Completion, Failure, Group};

use super::shared::{Route, Shared};
use super::Pool;
use crate::actor::handler::Receive;
use crate::actor::Actor;
use crate::call::ask::Ask;
use crate::error::TellError;
use crate::recipient::{Answering, Callee, Recipient, RecipientPlace, Reserving, Target};
use crate::system::dead_letter::DeadLetterReason;

/// A pool and the way in which its members take the message.
struct Typed<A: Actor, K> {
    shared: Arc<Shared<A>>,
    kind: PhantomData<fn() -> K>,
}

impl<A: Actor> Pool<A> {
    /// The pool as one that takes messages of type `M`: for topics, routers and lists. Keeps the
    /// pool as a clone does.
    pub fn recipient<M, K>(&self) -> Recipient<M>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        let shared = Arc::clone(&self.shared);
        Recipient::new(Arc::new(Typed::<A, K> { shared, kind: PhantomData }))
    }

    /// The pool as one that answers messages of type `M`.
    pub fn callee<M, K>(&self) -> Callee<M, A::Reply>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        let shared = Arc::clone(&self.shared);
        Callee::new(Arc::new(Typed::<A, K> { shared, kind: PhantomData }))
    }
}

impl<A, M, K> Target<M> for Typed<A, K>
where
    A: Receive<M, K>,
    M: Send + 'static,
    K: 'static,
{
    fn tell(&self, message: M) -> Result<(), TellError<M>> {
        self.shared.tell(Route::Any, message)
    }

    fn tell_urgent(&self, message: M) -> Result<(), TellError<M>> {
        self.shared.tell_urgent(Route::Any, message)
    }

    fn offer(&self, message: M) -> Result<(), TellError<M>> {
        self.shared.offer_any(message)
    }

    fn reserve(&self) -> Reserving<M> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            loop {
                let Some((members, first)) = shared.choose(Route::Any) else {
                    return Err(Failure::Closed);
                };
                // Counted when the message is there: a place is no work.
                let member = members[first].clone();
                drop(members);
                shared.uncount(&member);
                match member.address.reserve_owned().await {
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
        self.shared.lost::<M>(reason);
    }

    fn group(&self) -> Group {
        self.shared.settings.group.clone()
    }

    fn name(&self) -> String {
        self.shared.settings.name.clone()
    }

    fn queue_len(&self) -> u64 {
        self.shared.members().iter().map(|member| member.address.queue_len()).sum()
    }

    fn is_over(&self) -> bool {
        self.shared.is_closed()
    }

    fn closed(&self) -> Completion<()> {
        self.shared.supervisor.closed()
    }
}

impl<A, M, K> Answering<M, A::Reply> for Typed<A, K>
where
    A: Receive<M, K>,
    M: Send + 'static,
    K: 'static,
{
    fn ask(&self, message: M) -> Ask<M, A::Reply> {
        let limit = self.shared.settings.system.shared().ask_limit;
        self.shared.ask(Route::Any, message, limit)
    }
}
