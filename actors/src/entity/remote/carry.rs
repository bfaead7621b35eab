//! The way of a message to the owner of its key in another process.

use std::any::{Any, TypeId};
use std::time::Duration;

use turnwheel_runtime::completion::InlineExecutor;
use turnwheel_runtime::{Completion, Failure};

use super::registry::Codec;
use super::{RemoteCall, RemoteCalls, RemoteError};
use crate::actor::{Carrying, Envelope, Pending};
use crate::call::ReplyTo;
use crate::entity::{Directory, Entity, NotOwner, Shared};
use crate::error::Carried;
use crate::request::{Delivery, RequestContext};
use crate::system::{DeadLetterReason, System};

/// Time of a caller that its carrier does not use, at most.
const WAY_BACK_MAX: Duration = Duration::from_millis(100);

/// The way to the owner of a key.
pub(super) struct Way<'a> {
    shared: &'a Shared,
    carrier: &'a dyn RemoteCalls,
    /// The type of the entity, and its name.
    entity: (TypeId, &'static str),
    key: &'a str,
}

impl Carrying for Way<'_> {
    fn crosses(&self, message: TypeId) -> bool {
        self.shared.settings.remote.sender(self.entity.0, message).is_some()
    }

    fn carry(&self, message: TypeId, delivery: Box<dyn Any + Send>) {
        match self.shared.settings.remote.sender(self.entity.0, message) {
            Some(send) => send(self, delivery),
            None => unreachable!("it was asked whether the message crosses"),
        }
    }
}

impl<E: Entity> Directory<E> {
    /// Has a message carried to the owner of its key. It comes back if its type does not cross.
    #[cold]
    pub(crate) fn carry<M: Send + 'static, R: Send + 'static, K>(
        &self,
        owner: &NotOwner,
        envelope: Envelope<M, R, K>,
    ) -> Result<(), Envelope<M, R, K>> {
        self.on_the_way(owner, envelope, |way, envelope| envelope.carry(way))
    }

    /// The same of a message that has waited for an activation.
    pub(crate) fn carry_waiting(
        &self,
        owner: &NotOwner,
        message: Box<dyn Pending<E>>,
    ) -> Result<(), Box<dyn Pending<E>>> {
        self.on_the_way(owner, message, |way, message| message.carry(way))
    }

    fn on_the_way<T>(
        &self,
        owner: &NotOwner,
        message: T,
        carry: impl FnOnce(&Way<'_>, T) -> Result<(), T>,
    ) -> Result<(), T> {
        let Some(entities) = self.entities() else { return Err(message) };
        let shared = &*entities.shared;
        let Some(carrier) = shared.settings.carrier.as_deref() else { return Err(message) };
        let entity = (TypeId::of::<E>(), E::NAME);
        carry(&Way { shared, carrier, entity, key: &owner.key }, message)
    }
}

impl Way<'_> {
    pub(super) fn send<M: Send + 'static, R: Send + 'static>(
        &self,
        codec: &Codec<M, R>,
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
                    deadline_ns => for_carrier(deadline_ns.saturating_sub(now_ns)),
                }
            }
        };
        let content = match (codec.write)(&mut message) {
            Ok(content) => content,
            Err(error) => {
                let reason = format!("the message cannot be written: {error}");
                if let Some(reply) = reply {
                    refuse(reply, RemoteError::Refused { reason });
                }
                return self.lose::<M>(DeadLetterReason::Dropped);
            }
        };
        let call = RemoteCall {
            entity: self.entity.1.to_owned(),
            key: self.key.to_owned(),
            message: codec.message.to_owned(),
            content,
            limit,
            is_repeatable: codec.is_repeatable,
            request: RequestContext::of(baggage),
        };
        let answer = self.carrier.call(call);
        match reply {
            Some(reply) => answer_to(answer, reply, codec.read),
            None => self.note_loss::<M>(answer),
        }
    }

    fn lose<M>(&self, reason: DeadLetterReason) {
        lose::<M>(&self.shared.system, self.entity.1, reason);
    }

    /// A message without a caller that does not arrive is a dead letter.
    fn note_loss<M: 'static>(&self, answer: Completion<Result<Vec<u8>, RemoteError>>) {
        let (system, entity) = (self.shared.system.clone(), self.entity.1);
        let noted = answer.then_on(InlineExecutor, move |outcome| {
            if !matches!(outcome, Ok(Ok(_))) {
                lose::<M>(&system, entity, DeadLetterReason::Dropped);
            }
            Ok(())
        });
        noted.detach();
    }
}

/// The time that a carrier has of that which a caller waits still. The difference is for the way
/// back: at the deadline itself the caller is told less than its carrier knows.
fn for_carrier(left_ns: u64) -> Duration {
    let left = Duration::from_nanos(left_ns);
    left - (left / 20).min(WAY_BACK_MAX)
}

fn lose<M>(system: &System, entity: &str, reason: DeadLetterReason) {
    system.lose::<M>(|| entity.to_owned(), reason);
}

fn refuse<R: Send>(reply: ReplyTo<R>, error: RemoteError) {
    let failure = match reply.is_forwarded() {
        // It says nothing of the handler that has forwarded the call.
        true => Failure::error(error),
        false => Failure::error(Carried(error)),
    };
    reply.fail(failure);
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
