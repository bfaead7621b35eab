//! The way of a message to the owner of its key in another process.

use std::time::Duration;

use turnwheel_runtime::completion::InlineExecutor;
use turnwheel_runtime::{Completion, Failure};

use super::{Codec, RemoteCall, RemoteCalls, RemoteError};
use crate::actor::{Envelope, Pending};
use crate::call::ReplyTo;
use crate::entity::{Directory, Entity, NotOwner, Shared};
use crate::request::{Delivery, RequestContext};
use crate::system::{DeadLetterReason, System};

/// The owner of a message's key, and the way to it.
pub(crate) struct Way<'a> {
    shared: &'a Shared,
    entity: &'static str,
    key: &'a str,
}

impl<E: Entity> Directory<E> {
    /// Has a message carried to the owner of its key. It comes back if its type does not cross.
    #[cold]
    pub(crate) fn carry<M: Send + 'static, R: Send + 'static, K>(
        &self,
        owner: &NotOwner,
        envelope: Envelope<M, R, K>,
    ) -> Result<(), Envelope<M, R, K>> {
        let Some(entities) = self.entities() else { return Err(envelope) };
        let way = Way { shared: &entities.shared, entity: E::NAME, key: &owner.key };
        envelope.carry::<E>(&way)
    }

    /// The same of a message that has waited for an activation.
    pub(crate) fn carry_waiting(
        &self,
        owner: &NotOwner,
        message: Box<dyn Pending<E>>,
    ) -> Result<(), Box<dyn Pending<E>>> {
        let Some(entities) = self.entities() else { return Err(message) };
        message.carry(&Way { shared: &entities.shared, entity: E::NAME, key: &owner.key })
    }
}

impl<M: Send + 'static, R: Send + 'static, K> Envelope<M, R, K> {
    pub(crate) fn carry<A: 'static>(self, way: &Way<'_>) -> Result<(), Self> {
        let settings = &way.shared.settings;
        let carrier = settings.carrier.as_ref();
        let Some((carrier, codec)) = carrier.zip(settings.remote.codec::<A, M, R>()) else {
            return Err(self);
        };
        way.send(&**carrier, codec, self.open());
        Ok(())
    }
}

impl Way<'_> {
    fn send<M: Send + 'static, R: Send + 'static>(
        &self,
        carrier: &dyn RemoteCalls,
        codec: Codec<M, R>,
        Delivery { mut message, baggage, reply }: Delivery<M, R>,
    ) {
        let system = &self.shared.system;
        let limit = match &reply {
            None => system.shared().ask_limit,
            Some(reply) => {
                let now_ns = system.group().now_ns();
                // From here on it cannot be cancelled, and may have been done when it is too late.
                if !reply.begin(now_ns) {
                    let reason = DeadLetterReason::of_unbegun(reply.has_expired(system.group()));
                    return self.lose::<M>(reason);
                }
                match reply.call().map_or(u64::MAX, |call| call.deadline_ns) {
                    u64::MAX => Duration::MAX,
                    deadline_ns => Duration::from_nanos(deadline_ns.saturating_sub(now_ns)),
                }
            }
        };
        let content = match (codec.write)(&mut message) {
            Ok(content) => content,
            Err(error) => {
                let reason = format!("the message cannot be written: {error}");
                reply.into_iter().for_each(|it| refuse(it, RemoteError::Refused { reason: reason.clone() }));
                return self.lose::<M>(DeadLetterReason::Dropped);
            }
        };
        let call = RemoteCall {
            entity: self.entity.to_owned(),
            key: self.key.to_owned(),
            message: codec.message.to_owned(),
            content,
            limit,
            is_repeatable: codec.is_repeatable,
            request: RequestContext::of(baggage),
        };
        let answer = carrier.call(call);
        match reply {
            Some(reply) => answer_to(answer, reply, codec.read),
            None => self.note_loss::<M>(answer),
        }
    }

    fn lose<M>(&self, reason: DeadLetterReason) {
        lose::<M>(&self.shared.system, self.entity, reason);
    }

    /// A message without a caller that does not arrive is a dead letter.
    fn note_loss<M: 'static>(&self, answer: Completion<Result<Vec<u8>, RemoteError>>) {
        let (system, entity) = (self.shared.system.clone(), self.entity);
        let noted = answer.then_on(InlineExecutor, move |outcome| {
            if !matches!(outcome, Ok(Ok(_))) {
                lose::<M>(&system, entity, DeadLetterReason::Dropped);
            }
            Ok(())
        });
        noted.detach();
    }
}

fn lose<M>(system: &System, entity: &str, reason: DeadLetterReason) {
    system.lose::<M>(|| entity.to_owned(), reason);
}

fn refuse<R: Send>(reply: ReplyTo<R>, error: RemoteError) {
    reply.fail(Failure::error(error));
}

/// Brings what has come from the owner to the caller.
fn answer_to<R: Send + 'static>(
    answer: Completion<Result<Vec<u8>, RemoteError>>,
    reply: ReplyTo<R>,
    read: fn(&[u8]) -> serde_json::Result<R>,
) {
    let told = answer.then_on(InlineExecutor, move |outcome| {
        match outcome.map_err(|failure| failure.to_string()) {
            Ok(Ok(bytes)) => match read(&bytes) {
                Ok(answer) => reply.send(answer),
                Err(error) => {
                    let reason = format!("its answer cannot be read: {error}");
                    refuse(reply, RemoteError::Unknown { reason });
                }
            },
            Ok(Err(error)) => refuse(reply, error),
            Err(reason) => refuse(reply, RemoteError::Unknown { reason }),
        }
        Ok(())
    });
    told.detach();
}

