//! Errors of sending and calling. Errors return the message where there is one.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_runtime::{Failure, SpawnErrorKind, SubmitErrorKind};

use crate::large::{Large, Open};

/// A message that was not taken; gives it back.
#[must_use]
#[derive(thiserror::Error)]
#[error("the message was not taken: {kind}")]
pub struct TellError<M> {
    /// Why.
    pub kind: SubmitErrorKind,
    /// The message.
    pub message: M,
}

impl<M> TellError<M> {
    #[cold]
    #[inline(never)]
    fn map<N>(self, message: impl FnOnce(M) -> N) -> TellError<N> {
        TellError { kind: self.kind, message: message(self.message) }
    }
}

impl<T, M> Open for Result<T, TellError<Large<M>>> {
    type Opened = Result<T, TellError<M>>;

    fn open(self) -> Self::Opened {
        self.map_err(|error| error.map(Large::open))
    }
}

debug_fields!(impl<M> TellError<M>, self => kind: self.kind);

impl<M> From<TellError<M>> for Failure {
    fn from(error: TellError<M>) -> Self {
        match error.kind {
            SubmitErrorKind::Closed => Self::Closed,
            kind => Self::message(kind.to_string()),
        }
    }
}

/// A call without an answer.
#[must_use]
#[non_exhaustive]
// A tag of a full word. By default the compiler puts it into four bytes of a duration; moving the
// fresh answer as words then stalls the processor.
#[repr(u64)]
#[expect(missing_docs, reason = "the text of an error names its fields")]
pub enum AskError<M> {
    /// The actor did not take the message: full or closed.
    Refused(TellError<M>),
    /// The actor waits, directly or not, for the caller: the call would never be answered. `chain`
    /// names the actors that wait for one another, the called one last. The message is missing if
    /// the actor had taken it already.
    Cycle { chain: Vec<String>, message: Option<M> },
    /// No answer within the deadline.
    TimedOut(TimeSpent),
    /// The actor took the message and ended, or failed, before it answered; or one of the
    /// interceptors around its messages refused it.
    Unanswered(Failure),
    /// An interceptor around the calls refused to send it.
    Intercepted { failure: Failure, message: M },
    /// Another process owns the entity; see [`Placement`](crate::entity::Placement).
    NotOwner { owner: Box<NotOwner>, message: M },
    /// The call went to the process that owns the entity, and has no answer.
    Remote(RemoteError),
}

/// A message was refused since another process owns the entity, and its type does not
/// [cross](crate::entity::RemoteMessage): send it there, or again when the owner has changed. See
/// [`AskError::NotOwner`] and [`EntityRef::not_owner`](crate::EntityRef::not_owner).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{entity} «{key}» is owned by {} since epoch {epoch}, and not by this process",
    owner.as_deref().unwrap_or("another process")
)]
#[non_exhaustive]
pub struct NotOwner {
    /// Type of the entity.
    pub entity: &'static str,
    /// Its key.
    pub key: String,
    /// Its owner, if the placement [knows](crate::entity::Placement::owner) it.
    pub owner: Option<String>,
    /// The epoch of its ownership.
    pub epoch: u64,
}

/// Why a call to an entity of another process has no answer; see
/// [`RemoteMessage`](crate::entity::RemoteMessage).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the text of an error names its fields")]
pub enum RemoteError {
    /// The process that was asked does not own the key: it was not done. A carrier tries it again
    /// at the next owner, so callers do not see it.
    #[error("the process that was asked does not own the key (epoch {epoch}); nothing was done")]
    Moved { epoch: u64 },
    /// No process that owns the key could be reached in time: it was not done, and may be sent
    /// again.
    #[error("the owner of the key is unavailable: {reason}; nothing was done")]
    Unavailable { reason: String },
    /// The owner refused it before it began: it was not done.
    #[error("the owner of the key refused it: {reason}; nothing was done")]
    Refused { reason: String },
    /// Nobody knows whether it was done: look before you send it again.
    #[error("no answer came: {reason}; it may have been done")]
    Unknown { reason: String },
}

impl RemoteError {
    /// Whether it may have been done. If not, the same message may be sent again.
    pub fn may_have_been_done(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }
}

/// The outcome of a call that its carrier tells. Only carriers make it, so that an error of another
/// call, with which a handler answers, is not taken for one of this call.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Carried(pub(crate) RemoteError);

/// Place in which the time of a late call was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeSpent {
    /// From the call until it was last forwarded to another actor; zero if it was not.
    pub hops: Duration,
    /// From then until the actor began to handle it, or until the deadline.
    pub queued: Duration,
    /// From then until the deadline; `None` if it was never begun, and then it never will be.
    pub running: Option<Duration>,
    /// Calls of its chain that wait for this one.
    pub depth: usize,
}

impl<M> AskError<M> {
    /// Whether there was no answer within the deadline.
    pub fn is_timed_out(&self) -> bool {
        matches!(self, Self::TimedOut(_))
    }

    /// Whether the call would have closed a cycle.
    pub fn is_cycle(&self) -> bool {
        matches!(self, Self::Cycle { .. })
    }

    /// Whether the mailbox was full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Refused(TellError { kind: SubmitErrorKind::Full, .. }))
    }

    /// Whether the actor takes no more messages, or ended before it answered.
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Refused(refused) => refused.kind == SubmitErrorKind::Closed,
            Self::Unanswered(failure) => failure.is_closed(),
            _ => false,
        }
    }

    /// The message, if it came back.
    pub fn into_message(self) -> Option<M> {
        match self {
            Self::Refused(TellError { message, .. }) => Some(message),
            Self::Cycle { message, .. } => message,
            Self::Intercepted { message, .. } | Self::NotOwner { message, .. } => Some(message),
            Self::TimedOut(_) | Self::Unanswered(_) | Self::Remote(_) => None,
        }
    }

    /// The same error with another message.
    pub(crate) fn map<N>(self, change: impl FnOnce(M) -> N) -> AskError<N> {
        match self {
            Self::Refused(error) => AskError::Refused(error.map(change)),
            Self::Cycle { chain, message } => {
                AskError::Cycle { chain, message: message.map(change) }
            }
            Self::TimedOut(spent) => AskError::TimedOut(spent),
            Self::Unanswered(failure) => AskError::Unanswered(failure),
            Self::Remote(error) => AskError::Remote(error),
            Self::Intercepted { failure, message } => {
                AskError::Intercepted { failure, message: change(message) }
            }
            Self::NotOwner { owner, message } => {
                AskError::NotOwner { owner, message: change(message) }
            }
        }
    }

    /// The error and the message apart.
    pub(crate) fn split(self) -> (AskError<()>, Option<M>) {
        let mut message = None;
        let error = self.map(|held| message = Some(held));
        (error, message)
    }

    /// Joins the parts that [`AskError::split`] returns.
    pub(crate) fn join(error: AskError<()>, message: Option<M>) -> Self {
        match (error, message) {
            (AskError::Cycle { chain, .. }, message) => Self::Cycle { chain, message },
            (error, Some(message)) => error.map(|()| message),
            (AskError::TimedOut(spent), None) => Self::TimedOut(spent),
            (AskError::Remote(error), None) => Self::Remote(error),
            (error, None) => Self::Unanswered(error.into()),
        }
    }
}

/// Its text: the message need not be `Debug`.
impl<M> fmt::Debug for AskError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AskError({self})")
    }
}

impl<M> fmt::Display for AskError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refused) => refused.fmt(f),
            Self::Cycle { chain, .. } => {
                write!(f, "the call would never be answered, since these wait for one another: ")?;
                f.write_str(&chain.join(" -> "))
            }
            Self::TimedOut(TimeSpent { hops, queued, running, depth }) => {
                write!(f, "no answer in time: ")?;
                if !hops.is_zero() {
                    write!(f, "{hops:?} until it was forwarded, ")?;
                }
                write!(f, "{queued:?} in the queue")?;
                match running {
                    Some(running) => write!(f, ", {running:?} in its handler")?,
                    None => f.write_str(" and never begun")?,
                }
                write!(f, ", at depth {depth} of the call chain")
            }
            Self::Unanswered(failure) => write!(f, "the actor did not answer: {failure}"),
            Self::Intercepted { failure, .. } => write!(f, "the message was not sent: {failure}"),
            Self::NotOwner { owner, .. } => write!(f, "the message was not sent: {owner}"),
            Self::Remote(error) => error.fmt(f),
        }
    }
}

impl<M> std::error::Error for AskError<M> {}

impl<M> From<AskError<M>> for Failure {
    fn from(error: AskError<M>) -> Self {
        match error {
            AskError::Refused(refused) => refused.into(),
            AskError::Unanswered(failure) | AskError::Intercepted { failure, .. } => failure,
            AskError::NotOwner { owner, .. } => Self::error(*owner),
            AskError::Remote(error) => Self::error(error),
            AskError::TimedOut(spent) => {
                Self::TimedOut(spent.hops + spent.queued + spent.running.unwrap_or_default())
            }
            cycle @ AskError::Cycle { .. } => Self::message(cycle.to_string()),
        }
    }
}

/// Failure with which the called actor reports a cycle.
#[derive(Debug, thiserror::Error)]
#[error("a call cycle: {}", names.join(" -> "))]
pub(crate) struct CallCycle {
    pub(crate) names: Vec<String>,
}

/// An actor that was not spawned; gives it back.
#[must_use]
#[derive(thiserror::Error)]
#[error("the actor was not spawned: {}", said(*kind))]
pub struct SpawnError<A> {
    /// Why.
    pub kind: SpawnErrorKind,
    /// The actor.
    pub actor: A,
}

debug_fields!(impl<A> SpawnError<A>, self => kind: self.kind);

/// The words of the runtime for a task that was not spawned.
pub(crate) fn said(kind: SpawnErrorKind) -> turnwheel_runtime::SpawnError<()> {
    turnwheel_runtime::SpawnError { kind, state: () }
}
