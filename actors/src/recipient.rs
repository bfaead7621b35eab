//! Addresses that know the message and not the actor.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use turnwheel_runtime::{Completion, Failure, Group};

use crate::actor::{Actor, Address, MessageFor};
use crate::call::Ask;
use crate::error::TellError;
use crate::system::registry::Holder;
use crate::system::{holders, DeadLetterReason};

/// A target for messages of type `M`: an [`Address`] without the actor's type.
///
/// For lists of subscribers of different types. Clones share one allocation and keep the actor
/// alive as an address does. A `tell` costs one virtual call more than `Address::tell`.
///
/// ```
/// # use turnwheel_actors::{Actor, Context, Handler, System};
/// # use turnwheel_runtime::Group;
/// # struct Counter(u64);
/// # impl Actor for Counter { type Error = std::convert::Infallible; }
/// # struct Add(u64);
/// # impl Handler<Add> for Counter {
/// #     type Reply = u64;
/// #     fn handle(&mut self, Add(by): Add, _: &mut Context<'_, Self>) -> u64 { self.0 += by; self.0 }
/// # }
/// use turnwheel_actors::Recipient;
/// # let group = Group::builder("doc").workers(1).build()?;
/// # let counter = System::new(&group).spawn(Counter(0))?;
/// let recipients: Vec<Recipient<Add>> = vec![counter.recipient()];
/// for recipient in &recipients {
///     recipient.tell(Add(2))?;
/// }
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recipient<M> {
    target: Arc<dyn Target<M>>,
}

/// As [`Recipient`], with the type of the reply.
pub struct Callee<M, R> {
    target: Arc<dyn Answering<M, R>>,
}

/// Way of a message to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendMode {
    Tell,
    Urgent,
    /// As a `tell`; a refused message is no dead letter.
    Offer,
}

/// Operations of a recipient, without the type of its actor.
pub(crate) trait Target<M>: Send + Sync {
    fn send(&self, message: M, mode: SendMode) -> Result<(), TellError<M>>;
    fn reserve(&self) -> Reserving<M>;
    /// Counts a message that it did not get as a dead letter.
    fn lost(&self, reason: DeadLetterReason);
    fn group(&self) -> Group;
    /// The actor or pool behind it.
    fn holder(&self) -> &dyn Holder;
}

/// A future of a promised place.
pub(crate) type Reserving<M> =
    Pin<Box<dyn Future<Output = Result<RecipientPlace<M>, Failure>> + Send>>;

/// A promised place in the mailbox of a [`Recipient`]; dropping it gives the place back.
#[must_use]
pub struct RecipientPlace<M> {
    tell: Box<dyn FnOnce(M) -> Result<(), TellError<M>> + Send>,
}

impl<M> RecipientPlace<M> {
    pub(crate) fn new(tell: impl FnOnce(M) -> Result<(), TellError<M>> + Send + 'static) -> Self {
        Self { tell: Box::new(tell) }
    }

    /// Sends a message into the reserved place; the result is never full.
    ///
    /// # Errors
    ///
    /// The actor has closed since; the message comes back.
    pub fn tell(self, message: M) -> Result<(), TellError<M>> {
        (self.tell)(message)
    }
}

debug_fields!(impl<M> RecipientPlace<M>, self =>);

/// As [`Target`], with calls.
pub(crate) trait Answering<M, R>: Target<M> {
    fn ask(&self, message: M) -> Ask<M, R>;
}

/// An address or a pool, and the way in which its actors take the message.
pub(crate) struct Typed<T, K>(pub(crate) T, PhantomData<fn() -> K>);

impl<T, K> Typed<T, K> {
    pub(crate) fn new(to: &T) -> Arc<Self>
    where
        T: Clone,
    {
        Arc::new(Self(to.clone(), PhantomData))
    }
}

impl<A: Actor, M: MessageFor<A, K>, K: 'static> Target<M> for Typed<Address<A>, K> {
    fn send(&self, message: M, mode: SendMode) -> Result<(), TellError<M>> {
        match mode {
            SendMode::Tell => self.0.tell(message),
            SendMode::Urgent => self.0.tell_urgent(message),
            SendMode::Offer => self.0.offer(message),
        }
    }

    fn reserve(&self) -> Reserving<M> {
        let address = self.0.clone();
        Box::pin(async move {
            let place = address.reserve().await?;
            Ok(RecipientPlace::new(move |message| place.tell(message)))
        })
    }

    fn lost(&self, reason: DeadLetterReason) {
        self.0.system().lose::<M>(|| self.0.name(), reason);
    }

    fn group(&self) -> Group {
        self.0.task.group()
    }

    fn holder(&self) -> &dyn Holder {
        &self.0
    }
}

impl<A: Actor, M: MessageFor<A, K>, K: 'static> Answering<M, M::Reply> for Typed<Address<A>, K> {
    fn ask(&self, message: M) -> Ask<M, M::Reply> {
        self.0.ask(message)
    }
}

impl<A: Actor> Address<A> {
    /// This actor as a recipient of messages of type `M`. One allocation.
    pub fn recipient<M: MessageFor<A, K>, K: 'static>(&self) -> Recipient<M> {
        Recipient::new(Typed::<_, K>::new(self))
    }

    /// This actor as a callee of messages of type `M`. One allocation.
    pub fn callee<M: MessageFor<A, K>, K: 'static>(&self) -> Callee<M, M::Reply> {
        Callee::new(Typed::<_, K>::new(self))
    }
}

impl<M: 'static> Recipient<M> {
    pub(crate) fn target(&self) -> &dyn Target<M> {
        &*self.target
    }

    /// As [`Address::reserve`]; one allocation more.
    ///
    /// # Errors
    ///
    /// As [`Address::reserve`].
    pub fn reserve(
        &self,
    ) -> impl Future<Output = Result<RecipientPlace<M>, Failure>> + Send + 'static {
        self.target.reserve()
    }

    /// As [`Address::tell_urgent`].
    ///
    /// # Errors
    ///
    /// As [`Address::tell_urgent`]; the message comes back.
    pub fn tell_urgent(&self, message: M) -> Result<(), TellError<M>> {
        self.target.send(message, SendMode::Urgent)
    }
}

impl<M: 'static, R: 'static> Callee<M, R> {
    /// As [`Address::ask`].
    pub fn ask(&self, message: M) -> Ask<M, R> {
        self.target.ask(message)
    }
}

/// The parts of a recipient, with answers and without.
macro_rules! handles {
    ($($handle:ident<$($parameter:ident),+> of $target:ident;)+) => {$(
        impl<$($parameter: 'static),+> $handle<$($parameter),+> {
            pub(crate) fn new(target: Arc<dyn $target<$($parameter),+>>) -> Self {
                Self { target }
            }

            /// As [`Address::closed`].
            pub fn closed(&self) -> Completion<()> {
                self.target.holder().end()
            }

            /// As [`Address::queue_len`].
            pub fn queue_len(&self) -> u64 {
                self.target.holder().work()
            }

            /// As [`Address::tell`].
            ///
            /// # Errors
            ///
            /// As [`Address::tell`]; the message comes back.
            pub fn tell(&self, message: M) -> Result<(), TellError<M>> {
                self.target.send(message, SendMode::Tell)
            }

            /// The name of the actor.
            pub fn name(&self) -> String {
                self.target.holder().actor_name()
            }

            /// Whether the actor has ended.
            pub fn is_over(&self) -> bool {
                self.target.holder().has_ended()
            }
        }

        clone_fields!(impl<$($parameter),+> $handle<$($parameter),+>, target);
        debug_fields!(impl<$($parameter),+> $handle<$($parameter),+>, self =>
            name: self.target.holder().actor_name());
        holders!(<$($parameter),+> $handle<$($parameter),+>, Self::is_over;);
    )+};
}

handles! {
    Recipient<M> of Target;
    Callee<M, R> of Answering;
}
