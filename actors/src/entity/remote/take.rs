//! Calls of other processes for keys of this one.

use std::future::ready;

use serde::de::DeserializeOwned;
use serde::Serialize;

use super::{RemoteAnswer, RemoteCall, RemoteError, RemoteMessage};
use crate::actor::MessageFor;
use crate::entity::{Entities, Entity, EntityKey, NotOwner};
use crate::error::AskError;

impl Entities {
    /// Takes a call that another process has brought here: the message is sent at once, and the
    /// future is that of its answer. For implementations of [`RemoteCalls`](super::RemoteCalls).
    ///
    /// The handler does not begin when the time of the call is over. If this process does not own
    /// the key the answer is [`RemoteError::Moved`].
    pub fn take_remote(&self, call: &RemoteCall) -> RemoteAnswer {
        let registry = &self.shared.settings.remote;
        match registry.taker(&call.entity, &call.message) {
            Some(take) => call.request.apart(|| take(self, call)),
            None if registry.knows(&call.entity) => {
                refused(format!("«{}» takes no message «{}» here", call.entity, call.message))
            }
            None => refused(format!("entities «{}» are not served here", call.entity)),
        }
    }
}

fn refused(reason: String) -> RemoteAnswer {
    Box::pin(ready(Err(RemoteError::Refused { reason })))
}

/// Takes a call with a message of one type.
pub(super) fn take<E: Entity, M, K: 'static>(entities: &Entities, call: &RemoteCall) -> RemoteAnswer
where
    M: RemoteMessage + MessageFor<E, K>,
    <M as MessageFor<E, K>>::Reply: Serialize + DeserializeOwned,
{
    let Some(key) = E::Key::from_text(&call.key) else {
        return refused(format!("«{}» is no key of «{}»", call.key, call.entity));
    };
    let message: M = match serde_json::from_slice(&call.content) {
        Ok(message) => message,
        Err(error) => return refused(format!("the message cannot be read: {error}")),
    };
    let asked = entities.get::<E>(key).ask_here::<M, K>(message, call.limit);
    let begun = asked.call();
    Box::pin(async move {
        let answer = asked.await.map_err(|error| {
            let is_unbegun = begun.is_none_or(|call| call.metadata().end_unbegun());
            not_answered(error, is_unbegun)
        })?;
        serde_json::to_vec(&answer).map_err(|error| RemoteError::Unknown {
            reason: format!("it was done, and its answer cannot be written: {error}"),
        })
    })
}

/// The error of a call for the process that has brought it. An error of the handler may look like
/// one of the call, as of a call that it has made itself: so whether the handler has begun decides.
fn not_answered<M>(error: AskError<M>, is_unbegun: bool) -> RemoteError {
    match error {
        // It was carried on from here.
        AskError::Remote(error) => error,
        error if !is_unbegun => RemoteError::Unknown { reason: error.to_string() },
        AskError::NotOwner { owner, .. } => RemoteError::Moved { epoch: owner.epoch },
        AskError::Unanswered(failure) => match failure.downcast_ref::<NotOwner>() {
            Some(owner) => RemoteError::Moved { epoch: owner.epoch },
            None => RemoteError::Refused { reason: failure.to_string() },
        },
        late @ AskError::TimedOut(_) => RemoteError::Unavailable { reason: late.to_string() },
        refused => RemoteError::Refused { reason: refused.to_string() },
    }
}
