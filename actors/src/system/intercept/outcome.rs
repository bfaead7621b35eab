//! The end of a message as an interceptor sees it and may change it.

use std::any::{type_name, Any, TypeId};
use std::time::Duration;

use turnwheel_runtime::Failure;

use crate::error::AskError;

/// The end of a message.
#[derive(Debug)]
pub(crate) enum End<R> {
    Replied(R),
    /// No answer here: the message was sent without a caller, or its handler answers by hand.
    Open,
    Failed(AskError<()>),
}

/// An end without the type of its answer.
pub(crate) trait AnyEnd {
    fn reply(&self) -> Option<&dyn Any>;
    fn reply_mut(&mut self) -> Option<&mut dyn Any>;
    fn error(&self) -> Option<&AskError<()>>;
    fn fail(&mut self, error: AskError<()>);
    /// `given` names the type of the answer.
    fn answer(&mut self, reply: Box<dyn Any>, given: &'static str);
}

impl<R: Send + 'static> AnyEnd for End<R> {
    fn reply(&self) -> Option<&dyn Any> {
        match self {
            Self::Replied(reply) => Some(reply),
            Self::Open | Self::Failed(_) => None,
        }
    }

    fn reply_mut(&mut self) -> Option<&mut dyn Any> {
        match self {
            Self::Replied(reply) => Some(reply),
            Self::Open | Self::Failed(_) => None,
        }
    }

    fn error(&self) -> Option<&AskError<()>> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Open | Self::Replied(_) => None,
        }
    }

    fn fail(&mut self, error: AskError<()>) {
        if !matches!(self, Self::Open) {
            *self = Self::Failed(error);
        }
    }

    fn answer(&mut self, reply: Box<dyn Any>, given: &'static str) {
        if matches!(self, Self::Open) {
            return;
        }
        *self = match reply.downcast() {
            Ok(reply) => Self::Replied(*reply),
            Err(_) => {
                let wanted = type_name::<R>();
                let text =
                    format!("an interceptor answered with a `{given}` instead of a `{wanted}`");
                Self::Failed(AskError::Unanswered(Failure::message(text)))
            }
        };
    }
}

/// The end of a message, for [`Interceptor::end`](super::Interceptor::end).
///
/// It is one of three: an answer, an error, or *open*. Open are messages that were sent without a
/// caller, and messages whose [`ReplyHandler`](crate::ReplyHandler) has kept the reply; no
/// interceptor can change those. The answer to a message without a caller is visible here and then
/// dropped.
pub struct Outcome<'a> {
    pub(crate) end: &'a mut dyn AnyEnd,
    /// Limits of a further attempt of an outgoing call.
    pub(crate) retrying: Option<Retrying>,
    pub(crate) again: Option<Again>,
}

/// A call that may be made once more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retrying {
    /// The type of its message.
    pub(crate) message: TypeId,
    /// The time that its caller still has.
    pub(crate) left: Duration,
}

/// A call that is to be made once more.
pub(crate) struct Again {
    pub(crate) message: Box<dyn Any + Send>,
    pub(crate) delay: Duration,
}

debug_fields!(impl Outcome<'_>, self => is_open: self.is_open(), error: self.error());

impl Outcome<'_> {
    /// The answer, if there is one and it is of this type.
    pub fn reply<R: 'static>(&self) -> Option<&R> {
        self.end.reply()?.downcast_ref()
    }

    /// The answer, mutable, if there is one and it is of this type.
    pub fn reply_mut<R: 'static>(&mut self) -> Option<&mut R> {
        self.end.reply_mut()?.downcast_mut()
    }

    /// Reason for a missing answer. It does not contain the message.
    ///
    /// Of an incoming message it is [`AskError::Unanswered`]: an inner interceptor refused it, or
    /// its handler panicked.
    pub fn error(&self) -> Option<&AskError<()>> {
        self.end.error()
    }

    /// Whether there is neither an answer nor an error.
    pub fn is_open(&self) -> bool {
        self.end.reply().is_none() && self.end.error().is_none()
    }

    /// Answers in place of the answer or of the error. A panic of the handler is the actor's
    /// failure all the same.
    ///
    /// An answer of another type than the message's fails the message; the error names both.
    pub fn answer<R: Send + 'static>(&mut self, reply: R) {
        self.end.answer(Box::new(reply), type_name::<R>());
    }

    /// Puts a failure in place of the answer or of the error; the caller gets it.
    pub fn fail(&mut self, failure: Failure) {
        self.end.fail(AskError::Unanswered(failure));
    }

    /// Repeats an outgoing call after a delay. The inner interceptors begin anew; this one gets its
    /// state back, and its [`end`](super::Interceptor::end) is called again.
    ///
    /// # Errors
    ///
    /// It is no outgoing call with a message of this type, or the caller has less time left; the
    /// message comes back.
    pub fn retry<M: Send + 'static>(&mut self, message: M, delay: Duration) -> Result<(), M> {
        let is_one =
            |retrying: Retrying| retrying.message == TypeId::of::<M>() && delay < retrying.left;
        if !self.retrying.is_some_and(is_one) {
            return Err(message);
        }
        self.again = Some(Again { message: Box::new(message), delay });
        Ok(())
    }
}
