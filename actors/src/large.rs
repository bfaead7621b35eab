//! Large messages: boxed once where they are sent, opened where they are handled.
//!
//! A debug build copies a message in each function that it passes through, about twenty times
//! between sender and handler, so that a few hundred KiB would use up a stack of 2 MiB.

use std::any::type_name;
use std::future::{poll_fn, Future};
use std::mem::size_of;

/// Messages of more bytes travel in a box. An allocation of this size costs less than the copies
/// that it saves, also in a release build.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// Whether such an answer, or message, travels in a box.
pub(crate) const fn is_large<M>() -> bool {
    size_of::<M>() > MESSAGE_BYTES_MAX
}

/// Whether a message of this type with this answer travels in a box.
pub(crate) const fn is_any_large<M, R>() -> bool {
    is_large::<M>() || is_large::<R>()
}

/// A large message on its way.
#[derive(Debug)]
pub struct Large<M>(pub(crate) Box<M>);

impl<M> Large<M> {
    pub(crate) fn open(self) -> M {
        *self.0
    }
}

/// Sends a large message in its box; a refused message is taken out of the box.
#[inline(never)]
pub(crate) fn send<M, T: Open>(message: M, send: impl FnOnce(Large<M>) -> T) -> T::Opened {
    send(Large(Box::new(message))).open()
}

/// Outcome of sending a large message.
pub(crate) trait Open {
    /// The same with the message itself.
    type Opened;

    /// Takes a message that came back out of its box.
    fn open(self) -> Self::Opened;
}

/// A message, itself or in its box.
pub trait Carry<M>: Send + 'static {
    /// Takes it out, as late as possible.
    fn open(self) -> M;

    /// The message in its place.
    fn message(&mut self) -> &mut M;

    /// Puts it into a box if it travels in one.
    fn of(message: M) -> Self;

    /// The answer of its handler, itself or in a box.
    type Kept<R: Send>: Send;

    /// The future of its handler, which holds the message, in a box as the message was.
    fn keep<F>(future: F) -> impl Future<Output = Self::Kept<F::Output>> + Send
    where
        F: Future<Output: Send> + Send;

    /// Takes the answer out.
    fn answer<R: Send>(kept: Self::Kept<R>) -> R;
}

impl<M: Send + 'static> Carry<M> for M {
    #[inline(always)]
    fn open(self) -> M {
        self
    }

    #[inline(always)]
    fn message(&mut self) -> &mut M {
        self
    }

    fn of(message: M) -> Self {
        message
    }

    type Kept<R: Send> = R;

    #[inline(always)]
    fn keep<F: Future<Output: Send> + Send>(future: F) -> impl Future<Output = F::Output> + Send {
        future
    }

    #[inline(always)]
    fn answer<R: Send>(kept: R) -> R {
        kept
    }
}

impl<M: Send + 'static> Carry<M> for Large<M> {
    fn open(self) -> M {
        *self.0
    }

    fn message(&mut self) -> &mut M {
        &mut self.0
    }

    fn of(message: M) -> Self {
        Self(Box::new(message))
    }

    type Kept<R: Send> = Box<R>;

    fn keep<F: Future<Output: Send> + Send>(
        future: F,
    ) -> impl Future<Output = Box<F::Output>> + Send {
        let mut future = Box::pin(future);
        poll_fn(move |cx| future.as_mut().poll(cx).map(Box::new))
    }

    fn answer<R: Send>(kept: Box<R>) -> R {
        *kept
    }
}

/// The type of a message, without its box.
pub(crate) fn name_of<M>() -> &'static str {
    let name = type_name::<M>();
    let boxed = name.strip_prefix(concat!(module_path!(), "::Large<"));
    boxed.and_then(|name| name.strip_suffix('>')).unwrap_or(name)
}

/// Calls a method with a message as it is, or in a box if it or its answer is large.
macro_rules! by_size {
    (<$message:ident, $kind:ident> $this:ident.$method:ident($value:ident $(, $more:expr)*)) => {
        match const { $crate::large::is_any_large::<$message, $message::Reply>() } {
            true => $crate::large::send($value, |$value| {
                use $crate::{actor::kind::Boxed, large::Large};
                $this.$method::<$message, Large<$message>, Boxed<$kind>>($value $(, $more)*)
            }),
            false => $this.$method::<$message, $message, $kind>($value $(, $more)*),
        }
    };
}

pub(crate) use by_size;
