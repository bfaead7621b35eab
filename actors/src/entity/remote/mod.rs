//! Calls to entities of other processes.
//!
//! This crate knows no network. It turns a message into a [`RemoteCall`], hands it to a
//! [`RemoteCalls`], and takes the calls of other processes by [`Entities::take_remote`]. Who owns a
//! key is said by the [`Placement`](super::Placement) alone.
//!
//! 1. The message goes to the key's activation if there is one here, as ever.
//! 2. There is none, and the placement says «not local»: the message is written as JSON and given
//!    to the carrier. The call counts as begun from here on: it cannot be cancelled.
//! 3. The carrier finds the owner and brings the call there. After [`RemoteError::Moved`] it tries
//!    again at the next owner, as nothing was done.
//! 4. The owner finds type and message by their names, and asks its own entity within the time that
//!    is left. A key that it does not own is `Moved`. It carries the call on only if the key moves
//!    while the message waits for an activation.
//! 5. The answer is read, and completes the [`Ask`](crate::Ask).
//!
//! A message that waits for the next activation of its key when the key moves away is carried too.
//! A message whose type is not [registered](RemoteMessages::message) is refused with
//! [`AskError::NotOwner`](crate::AskError::NotOwner).
//!
//! | the caller gets | when | was it done? |
//! | --- | --- | --- |
//! | the answer | the owner answers | yes, once |
//! | [`RemoteError::Refused`] | the owner does not know it, is full, or cannot begin it | no |
//! | [`RemoteError::Unavailable`] | no owner is there before the deadline | no |
//! | [`RemoteError::Unknown`] | the owner goes, or its handler fails | nobody knows |
//! | [`AskError::TimedOut`](crate::AskError::TimedOut) | its carrier tells nothing | nobody knows |
//!
//! A handler that answers with the error of a call of its own has failed, so that is `Unknown`.
//! A call whose outcome is unknown is not sent again, unless its type says that this does no harm
//! ([`RemoteMessage::IS_REPEATABLE`]).
//!
//! Not promised over processes: the order of messages of one sender (wait for an answer before the
//! next call where the order matters), the detection of call cycles (they end with the deadline),
//! and the cancellation of a call that was carried.

mod carry;
mod registry;
mod take;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::Serialize;
use turnwheel_runtime::Completion;

use crate::request::RequestContext;

pub(crate) use registry::Registry;
pub use registry::RemoteMessages;

pub use crate::error::RemoteError;

/// A message that may go to an entity of another process. It travels as JSON, and so does its
/// answer: a field that is added needs `#[serde(default)]` while nodes of two releases run.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use turnwheel_actors::entity::RemoteMessage;
///
/// #[derive(Serialize, Deserialize)]
/// struct Deposit(i64);
///
/// impl RemoteMessage for Deposit {
///     const NAME: &'static str = "deposit";
/// }
/// ```
pub trait RemoteMessage: Serialize + DeserializeOwned + Send + 'static {
    /// Its name among the messages of an entity; part of the format between processes.
    const NAME: &'static str;

    /// Whether it does no harm to handle it twice, as for a question. Then it is sent again to the
    /// next owner of its key if its owner goes before it answers; otherwise the caller gets
    /// [`RemoteError::Unknown`].
    const IS_REPEATABLE: bool = false;
}

/// A call on its way to the owner of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteCall {
    /// [Name](super::Entity::NAME) of the entity's type.
    pub entity: String,
    /// The key, as text.
    pub key: String,
    /// [Name](RemoteMessage::NAME) of the message.
    pub message: String,
    /// The message, as JSON.
    pub content: Vec<u8>,
    /// The time within which its outcome must be told, a little less than its caller waits still;
    /// [`Duration::MAX`] without a limit.
    pub limit: Duration,
    /// Whether it may be sent again when nobody knows whether it was done.
    pub is_repeatable: bool,
    /// The context of the request that it belongs to.
    pub request: RequestContext,
}

/// The answer to a call, as JSON.
pub type RemoteAnswer = Pin<Box<dyn Future<Output = Result<Vec<u8>, RemoteError>> + Send>>;

/// Brings calls to the owners of their keys.
pub trait RemoteCalls: Send + Sync + fmt::Debug {
    /// Brings a call to the process that owns the key, whichever that is by then, has it
    /// [taken](super::Entities::take_remote) there, and brings the answer back.
    ///
    /// It keeps the [limit](RemoteCall::limit) of the call, and tries again after
    /// [`RemoteError::Moved`]. It does not bring a call that is not
    /// [repeatable](RemoteCall::is_repeatable) a second time if the first one may have been taken.
    /// Called without a lock; it must not block.
    fn call(&self, call: RemoteCall) -> Completion<Result<Vec<u8>, RemoteError>>;
}
