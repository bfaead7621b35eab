//! Calls to entities on their way between worlds: requests for the owner of a key.
//!
//! A call is JSON within the request, so that two neighbouring releases understand one another. A
//! node without entities refuses it by the name of the service.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use turnwheel_actors::entity::{RemoteCall, RemoteCalls, RemoteError};
use turnwheel_actors::{Entities, RequestContext};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Completion;

use super::{Nodes, SERVICE};
use crate::connect::{Answer, AnswerKind, ConnectError, Request, RequestKind};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::payload::Payload;
use crate::store::{entity_key, slot_of_key};
use crate::world::by_key::Service;
use crate::world::hub::within;
use crate::world::reach_slot::Doubt;
use crate::world::{Hub, Patience};

/// A call as it is carried.
#[derive(Debug, Serialize, Deserialize)]
struct Carried<'a> {
    entity: Cow<'a, str>,
    key: Cow<'a, str>,
    message: Cow<'a, str>,
    content: Cow<'a, RawValue>,
    /// The time that its caller waits still; nothing without a limit.
    #[serde(default)]
    left_ns: Option<u64>,
    #[serde(default)]
    request: Cow<'a, RequestContext>,
}

/// The outcome of a call as it is carried.
type Outcome = Result<Box<RawValue>, RemoteError>;

impl RemoteCalls for Nodes {
    fn call(&self, call: RemoteCall) -> Completion<Result<Vec<u8>, RemoteError>> {
        let Some(world) = self.world.upgrade() else {
            let reason = "the world of this process has ended".to_owned();
            return Completion::done(Err(RemoteError::Unavailable { reason }));
        };
        let (told, answer) = completion();
        if let Some(place) = self.under_way.enter(call.content.len(), told) {
            let (hub, from) = (Arc::clone(&world.hub), world.epoch);
            world.hub.spawn(async move {
                let outcome = bring(&hub, from, call, &place.doubt).await;
                place.tell(outcome);
            });
        }
        answer
    }
}

/// Brings a call to the owner of its key, whichever that is by then, and its answer back.
async fn bring(
    hub: &Hub,
    from: u64,
    call: RemoteCall,
    doubt: &Doubt,
) -> Result<Vec<u8>, RemoteError> {
    let content = of_json(call.content).map_err(|reason| RemoteError::Refused { reason })?;
    let begun_ns = hub.group.now_ns();
    let left = || match call.limit {
        Duration::MAX => None,
        limit => {
            let took = Duration::from_nanos(hub.group.now_ns().saturating_sub(begun_ns));
            Some(u64::try_from(limit.saturating_sub(took).as_nanos()).unwrap_or(u64::MAX))
        }
    };
    let request = || {
        let carried = Carried {
            entity: Cow::Borrowed(&call.entity),
            key: Cow::Borrowed(&call.key),
            message: Cow::Borrowed(&call.message),
            content: Cow::Borrowed(&content),
            left_ns: left(),
            request: Cow::Borrowed(&call.request),
        };
        Request(RequestKind::Keyed {
            service: SERVICE.to_owned(),
            key: entity_key(&call.entity, &call.key),
            request: Payload::enclosing(&carried),
        })
    };
    let slot = slot_of_key(&entity_key(&call.entity, &call.key));
    let what = || format!("the entity {} «{}»", call.entity, call.key);
    // As nothing was sent yet, it waits for an owner as long as its caller does.
    let patience = Patience { limit: None, waits: true, repeats: call.is_repeatable };
    let asked = hub.reach_slot_by(from, slot, what, request, patience, doubt);
    let outcome = match call.limit {
        Duration::MAX => asked.await,
        limit => within(&hub.group, limit, asked).await,
    };
    answered(outcome, doubt)
}

fn answered(outcome: Result<Answer, ConnectError>, doubt: &Doubt) -> Result<Vec<u8>, RemoteError> {
    match outcome {
        Ok(Answer(AnswerKind::Keyed(Ok(payload)))) => match payload.read::<Outcome>() {
            Ok(Ok(content)) => Ok(Box::<str>::from(content).into_string().into()),
            Ok(Err(error)) => Err(of_next_owner(error, doubt)),
            Err(error) => {
                let reason = format!("its answer cannot be read: {error}");
                Err(RemoteError::Unknown { reason })
            }
        },
        Ok(Answer(AnswerKind::Keyed(Err(reason)))) | Err(ConnectError::Refused(reason)) => {
            Err(of_next_owner(RemoteError::Refused { reason }, doubt))
        }
        Ok(other) => Err(RemoteError::Unknown { reason: format!("it is answered by {other:?}") }),
        Err(error) if doubt.is_open() => Err(RemoteError::Unknown { reason: error.to_string() }),
        Err(error) => Err(RemoteError::Unavailable { reason: error.to_string() }),
    }
}

/// The error of an owner, if an owner before it may have done what it has not done.
fn of_next_owner(error: RemoteError, doubt: &Doubt) -> RemoteError {
    match error {
        RemoteError::Refused { reason } | RemoteError::Unavailable { reason }
            if doubt.is_open() =>
        {
            let reason =
                format!("its owner went before it has answered, and the next one says: {reason}");
            RemoteError::Unknown { reason }
        }
        error => error,
    }
}

/// What crosses is JSON, and no longer than a payload.
fn of_json(bytes: Vec<u8>) -> Result<Box<RawValue>, String> {
    if bytes.len() > PAYLOAD_BYTES_MAX {
        let length = bytes.len();
        return Err(format!("it has {length} bytes, and at most {PAYLOAD_BYTES_MAX} may cross"));
    }
    let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
    RawValue::from_string(text).map_err(|error| error.to_string())
}

/// Takes calls for the entities of this world.
pub(super) fn taking(entities: &Entities) -> Service {
    let entities = entities.clone();
    Arc::new(move |_, request, age| {
        let call = match request.read::<Carried<'static>>() {
            Ok(carried) => carried.into_call(age),
            Err(error) => {
                let problem = format!("the call cannot be read: {error}");
                return Box::pin(std::future::ready(AnswerKind::Keyed(Err(problem))));
            }
        };
        let answer = entities.take_remote(&call);
        Box::pin(async move {
            let outcome: Outcome = match answer.await {
                Err(RemoteError::Moved { .. }) => return AnswerKind::Moved,
                Err(error) => Err(error),
                Ok(bytes) => of_json(bytes).map_err(|problem| RemoteError::Unknown {
                    reason: format!("it was done, and its answer does not come: {problem}"),
                }),
            };
            AnswerKind::Keyed(Ok(Payload::enclosing(&outcome)))
        })
    })
}

impl Carried<'_> {
    /// A call that was sent so long ago.
    fn into_call(self, age: Duration) -> RemoteCall {
        RemoteCall {
            entity: self.entity.into_owned(),
            key: self.key.into_owned(),
            message: self.message.into_owned(),
            content: Box::<str>::from(self.content.into_owned()).into_string().into(),
            limit: self
                .left_ns
                .map_or(Duration::MAX, |left_ns| Duration::from_nanos(left_ns).saturating_sub(age)),
            // It goes no further.
            is_repeatable: false,
            request: self.request.into_owned(),
        }
    }
}
