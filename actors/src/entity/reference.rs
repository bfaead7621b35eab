//! A reference to an entity: a type and a key.

use std::sync::Arc;
use std::time::Duration;

use turnwheel_runtime::SubmitErrorKind;

use super::{name_of, not_owner, Directory, Entity, EntityKey, Handle, Refusal};
use crate::actor::{Envelope, MessageFor};
use crate::call::Ask;
use crate::error::{AskError, NotOwner, TellError};
use crate::large::{by_size, Carry};
use crate::request::{self, Ambient};
use crate::system::intercept::outgoing::{self, Destination, Target};
use crate::system::{DeadLetterReason, System};

/// How far a call goes.
#[derive(Clone, Copy)]
enum Reach {
    /// To the owner of the key, wherever that is.
    Owner,
    /// Not beyond this process.
    Here,
}

/// A reference to an entity, which is always there. Clones are cheap but for the key.
///
/// Messages from one sender are handled in the order sent, also across a passivation.
pub struct EntityRef<E: Entity> {
    directory: Arc<Handle<E>>,
    key: E::Key,
}

clone_fields!(impl<E: Entity> EntityRef<E>, directory, key);

debug_fields!(impl<E: Entity> EntityRef<E>, self =>
    entity: std::any::type_name::<E>(), key: self.key.text());

impl<E: Entity> EntityRef<E> {
    pub(crate) fn new(directory: Arc<Handle<E>>, key: E::Key) -> Self {
        Self { directory, key }
    }

    pub(crate) fn directory(&self) -> &Directory<E> {
        &self.directory
    }

    /// Its key.
    pub fn key(&self) -> &E::Key {
        &self.key
    }

    /// Sends a message; its answer is dropped. Activates the entity if it is not, where its owner
    /// is. A message that [crosses](super::RemoteMessage) and is lost on its way is a dead letter.
    ///
    /// # Errors
    ///
    /// `Full`; `Closed` during the pause after a failed activation, or when the group shuts down;
    /// `Refused` if another process owns it ([`EntityRef::not_owner`] names it) and the message
    /// does not cross. The message comes back.
    pub fn tell<M: MessageFor<E, K>, K: 'static>(&self, message: M) -> Result<(), TellError<M>> {
        by_size!(<M, K> self.tell_as(message))
    }

    fn tell_as<M: Send + 'static, P: MessageFor<E, K> + Carry<M>, K: 'static>(
        &self,
        message: P,
    ) -> Result<(), TellError<P>> {
        self.deliver::<M, P>(message, |message| {
            let envelope = Envelope::<P, P::Reply, K>::told(message);
            let Err((refusal, mut envelope)) = self.directory.send(&self.key, envelope) else {
                return Ok(());
            };
            if let Refusal::NotOwner(owner) = &refusal {
                match self.directory.carry(owner, envelope) {
                    Ok(()) => return Ok(()),
                    Err(unsent) => envelope = unsent,
                }
            }
            let kind = self.directory.refused::<P>(&refusal);
            Err(TellError { kind, message: envelope.open().message })
        })
    }

    /// Sends a message and answers a future of the reply, with the system's deadline. If another
    /// process owns the entity, and the message [crosses](super::RemoteMessage), it is asked there.
    pub fn ask<M: MessageFor<E, K>, K: 'static>(&self, message: M) -> Ask<M, M::Reply> {
        self.ask_within(message, self.directory.system.shared().ask_limit)
    }

    /// As [`EntityRef::ask`] with a deadline of its own.
    pub fn ask_within<M: MessageFor<E, K>, K: 'static>(
        &self,
        message: M,
        limit: Duration,
    ) -> Ask<M, M::Reply> {
        by_size!(<M, K> self.ask_as(message, limit))
    }

    #[inline(always)]
    fn ask_as<M: Send + 'static, P: MessageFor<E, K> + Carry<M>, K: 'static>(
        &self,
        message: P,
        limit: Duration,
    ) -> Ask<P, P::Reply> {
        if self.is_intercepted() {
            let myself = self.clone();
            let send = move |message, along, limit| {
                myself.ask_plain::<P, K>(message, along, limit, Reach::Owner)
            };
            return Ask::rare(outgoing::ask::<M, P, _>(self.target(), message, limit, send));
        }
        self.ask_plain::<P, K>(message, request::outgoing_for::<(E, P, K)>(), limit, Reach::Owner)
    }

    /// As [`EntityRef::ask_within`] for a call that was carried here: it goes no further, and has
    /// met the interceptors of its sender.
    pub(crate) fn ask_here<M: MessageFor<E, K>, K: 'static>(
        &self,
        message: M,
        limit: Duration,
    ) -> Ask<M, M::Reply> {
        by_size!(<M, K> self.ask_here_as(message, limit))
    }

    fn ask_here_as<M: Send + 'static, P: MessageFor<E, K> + Carry<M>, K: 'static>(
        &self,
        message: P,
        limit: Duration,
    ) -> Ask<P, P::Reply> {
        self.ask_plain::<P, K>(message, request::outgoing(), limit, Reach::Here)
    }

    #[inline(always)]
    fn ask_plain<M: MessageFor<E, K>, K: 'static>(
        &self,
        message: M,
        outgoing: Ambient,
        limit: Duration,
        reach: Reach,
    ) -> Ask<M, M::Reply> {
        if !outgoing.chain.is_empty() {
            // Only a caller that waits for others can close a cycle.
            if self.directory.closes_cycle(&self.key, &outgoing.chain) {
                let mut chain = outgoing.chain.names();
                chain.push(self.name());
                return Ask::refused(AskError::Cycle { chain, message: Some(message) });
            }
        }
        let term = self.term(limit, &outgoing);
        let (envelope, receiver, shared) =
            Envelope::<M, M::Reply, K>::asked(message, outgoing, term, None);
        match self.directory.send(&self.key, envelope) {
            Ok(()) => Ask::waiting(receiver, shared, &self.directory.system.shared().deadlines),
            Err((refusal, mut envelope)) => {
                if let (Refusal::NotOwner(owner), Reach::Owner) = (&refusal, reach) {
                    match self.directory.carry(owner, envelope) {
                        Ok(()) => {
                            let deadlines = &self.directory.system.shared().deadlines;
                            return Ask::waiting(receiver, shared, deadlines);
                        }
                        Err(unsent) => envelope = unsent,
                    }
                }
                let kind = self.directory.refused::<M>(&refusal);
                let message = envelope.open().message;
                Ask::refused(match refusal {
                    Refusal::Refused(_) => AskError::Refused(TellError { kind, message }),
                    Refusal::Failed(failure) => {
                        // If its drop panics on return, the language drops no return value.
                        drop(message);
                        AskError::Unanswered(failure)
                    }
                    Refusal::NotOwner(owner) => AskError::NotOwner { owner, message },
                })
            }
        }
    }

    /// Ends the current activation, if any: earlier messages are handled first. Completes at its
    /// end; the next message makes a new activation.
    pub fn passivate(&self) -> turnwheel_runtime::Completion<()> {
        self.directory.passivate(&self.key)
    }

    /// Its owner and epoch, if another process owns it: there its messages are taken. A look at the
    /// [placement](super::Placement).
    pub fn not_owner(&self) -> Option<NotOwner> {
        let owner = self.directory.settings(|settings| not_owner::<E>(settings, &self.key));
        owner.flatten().map(|owner| *owner)
    }

    /// Whether it has an activation that takes messages.
    pub fn is_active(&self) -> bool {
        self.directory.is_active(&self.key)
    }

    fn name(&self) -> String {
        name_of::<E>(&self.key)
    }
}

impl<E: Entity> Destination for EntityRef<E> {
    #[inline(always)]
    fn system(&self) -> &System {
        &self.directory.system
    }

    #[cold]
    fn target(&self) -> Target<'_> {
        let class = std::any::type_name::<E>().to_owned();
        Target { system: &self.directory.system, actor: self.name(), class }
    }
}

impl<E: Entity> Directory<E> {
    /// Counts a refused message; returns the kind of refusal for a `tell`.
    #[cold]
    fn refused<M>(&self, refusal: &Refusal) -> SubmitErrorKind {
        let kind = match refusal {
            Refusal::Refused(kind) => *kind,
            Refusal::Failed(_) => SubmitErrorKind::Closed,
            Refusal::NotOwner(_) => SubmitErrorKind::Refused,
        };
        let recipient = || std::any::type_name::<E>().to_owned();
        self.system.lose::<M>(recipient, DeadLetterReason::Refused(kind));
        kind
    }
}
