//! Handling of a message: four traits, which differ in the messages that they let in between.
//!
//! | trait | the handler | while it waits |
//! | --- | --- | --- |
//! | [`Handler`] | a plain function | it does not wait |
//! | [`AsyncHandler`] | a future that may borrow the actor | no other message is taken (turn-based) |
//! | [`InterleavedHandler`] | a future without a borrow of the actor | other messages are taken |
//! | [`ReplyHandler`] | a plain function that answers by hand | it does not wait |
//!
//! `tell` and `ask` take messages of all kinds: [`MessageFor`] finds the trait that an actor
//! implements for a message. Implementing two of them for one message makes the call ambiguous.

use std::future::Future;

use crate::actor::{Actor, ActorCell, AsyncContext, Context};
use crate::call::ReplyTo;
use crate::large::{Carry, Large};
use crate::request::Delivery;

/// Takes a message with a plain function: the fast path.
pub trait Handler<M>: Actor {
    /// The answer to `ask`; a `tell` drops it.
    type Reply: Send + 'static;

    /// Futures of this actor beside which it may run.
    const ACCESS: Access = Access::Write;

    /// Handles one message.
    fn handle(&mut self, message: M, cx: &mut Context<'_, Self>) -> Self::Reply;
}

/// Handles a message with a future that borrows the actor; no other message is taken until it ends.
///
/// The actor is moved aside and back: a large actor should box its state. Cost: one allocation, for
/// the future, and one more in a handler that asks.
pub trait AsyncHandler<M>: Actor {
    /// The answer to `ask`; a `tell` drops it.
    type Reply: Send + 'static;

    /// Handles one message.
    fn handle(
        &mut self,
        message: M,
        cx: AsyncContext<Self>,
    ) -> impl Future<Output = Self::Reply> + Send;
}

/// Takes a message with a future that others may interleave with at its await points.
///
/// The future has no borrow of the actor; it reaches the state with
/// [`Address::with`](crate::Address::with) or a message to itself.
pub trait InterleavedHandler<M>: Actor {
    /// The answer to `ask`; a `tell` drops it.
    type Reply: Send + 'static;

    /// Messages that may be handled while the future waits.
    const ADMITS: Admits = Admits::All;

    /// Futures of this actor beside which it may begin; by default a reader if it admits readers.
    const ACCESS: Access = match Self::ADMITS {
        Admits::Readers => Access::Read,
        Admits::All | Admits::Chain => Access::Write,
    };

    /// Begins to handle one message.
    fn handle(
        &mut self,
        message: M,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = Self::Reply> + Send + 'static;
}

/// Handles a message with a plain function that answers through `reply`: later, from another
/// handler, or by another actor.
///
/// ```
/// # use turnwheel_actors::{Actor, Context, Handler, System};
/// # use turnwheel_runtime::Group;
/// # use std::convert::Infallible;
/// use turnwheel_actors::{Address, ReplyHandler, ReplyTo};
/// # struct Worker;
/// # impl Actor for Worker { type Error = Infallible; }
/// struct Square(u64);
/// # impl Handler<Square> for Worker {
/// #     type Reply = u64;
/// #     fn handle(&mut self, Square(of): Square, _: &mut Context<'_, Self>) -> u64 { of * of }
/// # }
/// struct Desk(Address<Worker>);
/// # impl Actor for Desk { type Error = Infallible; }
/// impl ReplyHandler<Square> for Desk {
///     type Reply = u64;
///     fn handle(&mut self, message: Square, reply: ReplyTo<u64>, _: &mut Context<'_, Self>) {
///         // The worker answers the caller; if the worker is gone, the caller gets an error.
///         let _ = self.0.forward(message, reply);
///     }
/// }
/// # let group = Group::builder("doc").workers(1).build()?;
/// # let system = System::new(&group);
/// let desk = system.spawn(Desk(system.spawn(Worker)?))?;
/// assert_eq!(desk.ask(Square(7)).wait()?, 49);
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ReplyHandler<M>: Actor {
    /// The answer to `ask`.
    type Reply: Send + 'static;

    /// Futures of this actor beside which it may run.
    const ACCESS: Access = Access::Write;

    /// Handles one message. Without a caller, an answer to `reply` is dropped.
    fn handle(&mut self, message: M, reply: ReplyTo<Self::Reply>, cx: &mut Context<'_, Self>);
}

/// Messages that an actor handles while the future of an [`InterleavedHandler`] waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admits {
    /// Every message: the handler is reentrant.
    All,
    /// Handlers that are read-only; writers wait, and no reader passes a waiting writer.
    Readers,
    /// Messages of this one's call chain: calls that come back to the actor.
    Chain,
}

/// Futures of [`InterleavedHandler`]s with restricted admission beside which a message may be
/// taken. Irrelevant without such futures: an actor then takes every message at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Beside none. Later messages do not pass a message that waits for its turn.
    Write,
    /// Beside readers ([`Admits::Readers`]), unless a writer waits before it. The handler must not
    /// change state that readers rely on.
    Read,
    /// Beside all, and ahead of waiting messages: for questions like «how far are you?».
    Always,
}

/// Markers of the handler traits; the second parameter of [`MessageFor`].
pub mod kind {
    /// [`Handler`](super::Handler).
    #[derive(Debug)]
    pub enum Plain {}
    /// [`AsyncHandler`](super::AsyncHandler).
    #[derive(Debug)]
    pub enum Exclusive {}
    /// [`InterleavedHandler`](super::InterleavedHandler).
    #[derive(Debug)]
    pub enum Shared {}
    /// [`ReplyHandler`](super::ReplyHandler).
    #[derive(Debug)]
    pub enum Replying {}
    /// A closure; see [`Address::with`](crate::Address::with).
    #[derive(Debug)]
    pub struct Closure<R>(std::marker::PhantomData<fn() -> R>);
    /// A large message of kind `K`, in its box.
    #[doc(hidden)]
    #[derive(Debug)]
    pub struct Boxed<K>(std::marker::PhantomData<fn() -> K>);
}

/// A message that actors of type `A` take, by any of the handler traits, which implement it.
#[diagnostic::on_unimplemented(
    message = "`{A}` does not take messages of type `{Self}`",
    note = "implement `Handler<{Self}>`, `AsyncHandler<{Self}>`, `InterleavedHandler<{Self}>` or `ReplyHandler<{Self}>` for it"
)]
pub trait MessageFor<A: Actor, K: 'static>: Sized + Send + 'static {
    /// The answer to `ask`.
    type Reply: Send + 'static;

    /// Futures of the actor beside which the message may be handled.
    #[doc(hidden)]
    const GATE_ACCESS: Access;

    /// Takes a message in a turn of the actor.
    #[doc(hidden)]
    #[inline(always)]
    fn receive(cell: &mut ActorCell<A>, delivery: Delivery<Self, Self::Reply>, turn: Turn<'_, A>) {
        if cell.state.is_plain {
            return Self::run(cell, delivery, turn, false);
        }
        let Delivery { message, baggage, reply } = delivery;
        cell.receive_gated::<Self, K>(message, baggage, reply, turn);
    }

    /// As [`MessageFor::receive`], for a message without caller and metadata.
    #[doc(hidden)]
    #[inline(always)]
    fn receive_told(cell: &mut ActorCell<A>, message: Self, turn: Turn<'_, A>) {
        Self::receive(cell, Delivery { message, baggage: None, reply: None }, turn);
    }

    /// Runs the handler of an admitted message, with the interceptors of the actor around it if
    /// there are any.
    #[doc(hidden)]
    fn run<P: Carry<Self>>(
        cell: &mut ActorCell<A>,
        delivery: Delivery<P, Self::Reply>,
        turn: Turn<'_, A>,
        is_intercepted: bool,
    );
}

/// The context of the runtime as the cell sees it.
pub(crate) type Turn<'a, A> = turnwheel_runtime::Context<'a, ActorCell<A>>;

impl<A: Handler<M>, M: Send + 'static> MessageFor<A, kind::Plain> for M {
    type Reply = <A as Handler<M>>::Reply;
    const GATE_ACCESS: Access = <A as Handler<M>>::ACCESS;

    #[inline(always)]
    fn receive_told(cell: &mut ActorCell<A>, message: M, turn: Turn<'_, A>) {
        match cell.state.is_plain {
            true => cell.run_told(message, turn, A::handle),
            false => cell.receive_gated::<M, kind::Plain>(message, None, None, turn),
        }
    }

    #[inline(always)]
    fn run<P: Carry<M>>(
        cell: &mut ActorCell<A>,
        delivery: Delivery<P, Self::Reply>,
        turn: Turn<'_, A>,
        is_intercepted: bool,
    ) {
        let handle =
            |actor: &mut A, message: P, cx: &mut Context<'_, A>| actor.handle(message.open(), cx);
        match is_intercepted {
            false => cell.run_plain(delivery, turn, handle),
            true => cell.plain_intercepted::<M, P, _>(delivery, turn, handle),
        }
    }
}

/// Receives the messages of a handler trait by two methods of the cell.
macro_rules! received_by {
    ($handler:ident, $kind:ident, $access:expr, $run:ident, $run_intercepted:ident) => {
        impl<A: $handler<M>, M: Send + 'static> MessageFor<A, kind::$kind> for M {
            type Reply = <A as $handler<M>>::Reply;
            const GATE_ACCESS: Access = $access;

            fn run<P: Carry<M>>(
                cell: &mut ActorCell<A>,
                delivery: Delivery<P, Self::Reply>,
                turn: Turn<'_, A>,
                is_intercepted: bool,
            ) {
                match is_intercepted {
                    false => cell.$run(delivery, turn),
                    true => cell.$run_intercepted(delivery, turn),
                }
            }
        }
    };
}

received_by!(AsyncHandler, Exclusive, Access::Write, run_exclusive, exclusive_intercepted);
received_by!(
    InterleavedHandler,
    Shared,
    <A as InterleavedHandler<M>>::ACCESS,
    run_interleaved,
    interleaved_intercepted
);
received_by!(
    ReplyHandler,
    Replying,
    <A as ReplyHandler<M>>::ACCESS,
    run_replying,
    replying_intercepted
);

/// A large message is handled as the message in its box.
impl<A: Actor, M: MessageFor<A, K>, K: 'static> MessageFor<A, kind::Boxed<K>> for Large<M> {
    type Reply = M::Reply;
    const GATE_ACCESS: Access = M::GATE_ACCESS;

    fn run<P: Carry<Self>>(
        cell: &mut ActorCell<A>,
        Delivery { message, baggage, reply }: Delivery<P, Self::Reply>,
        turn: Turn<'_, A>,
        is_intercepted: bool,
    ) {
        let delivery = Delivery { message: message.open(), baggage, reply };
        <M as MessageFor<A, K>>::run(cell, delivery, turn, is_intercepted);
    }
}
