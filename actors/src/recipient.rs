//! Addresses that know the message and not the actor.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::actor::Actor;
use crate::address::Address;
use crate::ask::Ask;
use crate::error::TellError;
use crate::handler::Receive;

/// Somebody who takes messages of type `M`: an [`Address`] without the actor's type.
///
/// For lists of subscribers of different types. Clones share one allocation and keep the actor
/// alive as an address does. A `tell` costs a virtual call more than an address's.
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

/// As [`Recipient`], and knows what it answers.
pub struct Callee<M, R> {
    target: Arc<dyn Answering<M, R>>,
}

/// What a recipient does with a message.
trait Target<M>: Send + Sync {
    fn tell(&self, message: M) -> Result<(), TellError<M>>;
    fn tell_urgent(&self, message: M) -> Result<(), TellError<M>>;
    fn name(&self) -> String;
    fn is_over(&self) -> bool;
}

/// What a callee does with a call.
trait Answering<M, R>: Target<M> {
    fn ask(&self, message: M) -> Ask<M, R>;
}

/// An address and the way in which its actor takes the message.
struct Typed<A: Actor, K> {
    address: Address<A>,
    kind: PhantomData<fn() -> K>,
}

impl<A, M, K> Target<M> for Typed<A, K>
where
    A: Receive<M, K>,
    M: Send + 'static,
    K: 'static,
{
    fn tell(&self, message: M) -> Result<(), TellError<M>> {
        self.address.tell(message)
    }

    fn tell_urgent(&self, message: M) -> Result<(), TellError<M>> {
        self.address.tell_urgent(message)
    }

    fn name(&self) -> String {
        self.address.name()
    }

    fn is_over(&self) -> bool {
        self.address.phase().is_over()
    }
}

impl<A, M, K> Answering<M, A::Reply> for Typed<A, K>
where
    A: Receive<M, K>,
    M: Send + 'static,
    K: 'static,
{
    fn ask(&self, message: M) -> Ask<M, A::Reply> {
        self.address.ask(message)
    }
}

impl<A: Actor> Address<A> {
    /// The same actor as one that takes messages of type `M`. One allocation.
    pub fn recipient<M, K>(&self) -> Recipient<M>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        Recipient { target: Arc::new(Typed::<A, K> { address: self.clone(), kind: PhantomData }) }
    }

    /// The same actor as one that answers messages of type `M`. One allocation.
    pub fn callee<M, K>(&self) -> Callee<M, A::Reply>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        Callee { target: Arc::new(Typed::<A, K> { address: self.clone(), kind: PhantomData }) }
    }
}

impl<M: 'static> Recipient<M> {
    /// As [`Address::tell`].
    ///
    /// # Errors
    ///
    /// As [`Address::tell`]; the message comes back.
    pub fn tell(&self, message: M) -> Result<(), TellError<M>> {
        self.target.tell(message)
    }

    /// As [`Address::tell_urgent`].
    ///
    /// # Errors
    ///
    /// As [`Address::tell_urgent`]; the message comes back.
    pub fn tell_urgent(&self, message: M) -> Result<(), TellError<M>> {
        self.target.tell_urgent(message)
    }

    /// The name of the actor.
    pub fn name(&self) -> String {
        self.target.name()
    }

    /// Whether the actor has ended.
    pub fn is_over(&self) -> bool {
        self.target.is_over()
    }
}

impl<M: 'static, R: 'static> Callee<M, R> {
    /// As [`Address::tell`].
    ///
    /// # Errors
    ///
    /// As [`Address::tell`]; the message comes back.
    pub fn tell(&self, message: M) -> Result<(), TellError<M>> {
        self.target.tell(message)
    }

    /// As [`Address::ask`].
    pub fn ask(&self, message: M) -> Ask<M, R> {
        self.target.ask(message)
    }

    /// The name of the actor.
    pub fn name(&self) -> String {
        self.target.name()
    }

    /// Whether the actor has ended.
    pub fn is_over(&self) -> bool {
        self.target.is_over()
    }
}

impl<M> Clone for Recipient<M> {
    fn clone(&self) -> Self {
        Self { target: Arc::clone(&self.target) }
    }
}

impl<M, R> Clone for Callee<M, R> {
    fn clone(&self) -> Self {
        Self { target: Arc::clone(&self.target) }
    }
}

impl<M> fmt::Debug for Recipient<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recipient").field("name", &self.target.name()).finish_non_exhaustive()
    }
}

impl<M, R> fmt::Debug for Callee<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callee").field("name", &self.target.name()).finish_non_exhaustive()
    }
}
