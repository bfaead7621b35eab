//! Sending to a pool: one member after the other is offered the message until one takes it.

use std::sync::Arc;
use std::time::Duration;

use turnwheel_runtime::SubmitErrorKind;

use super::member::Member;
use super::shared::{Route, Shared};
use super::POOL_MEMBERS_MAX;
use crate::actor::{Actor, Envelope, MessageFor, Place};
use crate::call::{Ask, Load, ReplyTo};
use crate::error::{AskError, TellError};
use crate::large::{by_size, Carry};
use crate::recipient::SendMode;
use crate::request::{self, Ambient, Delivery};
use crate::system::intercept::outgoing::{self, Destination, Target};
use crate::system::{DeadLetterReason, System};

/// Number of passes over the members when some of them end meanwhile.
const ROUNDS_MAX: usize = 2 * POOL_MEMBERS_MAX;

/// Kind of the refusal by a member that waits for the caller. No mailbox refuses with it.
const WAITS: SubmitErrorKind = SubmitErrorKind::Refused;

/// In-flight count of the message, in a pool that counts.
type Counted<'a> = Option<&'a Arc<Load>>;

impl<A: Actor> Shared<A> {
    /// Offers a message to the members, beginning with the chosen one. The count that `send` is
    /// given it takes over, also when the message is refused.
    fn offer<M, T>(
        &self,
        route: Route,
        message: M,
        mut send: impl FnMut(&Member<A>, Counted<'_>, M) -> Result<T, TellError<M>>,
    ) -> Result<T, TellError<M>> {
        let mut message = message;
        for _ in 0..ROUNDS_MAX {
            let Some((members, first)) = self.choose(route) else { break };
            let (turn, rest) = (&members[first..], &members[..first]);
            let tries = if matches!(route, Route::Any) { members.len() } else { 1 };
            let mut last = WAITS;
            let mut has_ended = false;
            for (tried, member) in turn.iter().chain(rest).take(tries).enumerate() {
                if tried > 0 {
                    self.count(member);
                }
                let refusal = match send(member, self.counted(member), message) {
                    Ok(sent) => return Ok(sent),
                    Err(refusal) => refusal,
                };
                message = refusal.message;
                match refusal.kind {
                    SubmitErrorKind::Closed => {
                        // The message goes to a successor: this member ended after the choice.
                        self.forget(member.address.id());
                        has_ended = true;
                    }
                    WAITS => {}
                    kind => last = kind,
                }
            }
            if !has_ended {
                return Err(TellError { kind: last, message });
            }
        }
        Err(TellError { kind: SubmitErrorKind::Closed, message })
    }

    fn counted<'a>(&self, member: &'a Member<A>) -> Counted<'a> {
        self.counts().then_some(&member.load)
    }

    pub(super) fn tell<M: MessageFor<A, K>, K: 'static>(
        &self,
        route: Route,
        message: M,
        mode: SendMode,
    ) -> Result<(), TellError<M>> {
        by_size!(<M, K> self.tell_as(message, route, mode))
    }

    fn tell_as<M: Send + 'static, P: MessageFor<A, K> + Carry<M>, K: 'static>(
        &self,
        message: P,
        route: Route,
        mode: SendMode,
    ) -> Result<(), TellError<P>> {
        let send = |message| {
            self.offer(route, message, |member, counted, message| {
                send_tell::<A, P, K>(member, counted, message, mode)
            })
        };
        match mode {
            SendMode::Offer => self.offer_by::<M, P>(message, send),
            SendMode::Tell | SendMode::Urgent => self.deliver::<M, P>(message, |message| {
                send(message).map_err(|error| self.unsent(error))
            }),
        }
    }

    /// Into a place that this member has promised.
    pub(super) fn tell_into<M: MessageFor<A, K>, K: 'static>(
        &self,
        member: &Member<A>,
        place: Place<A>,
        message: M,
    ) -> Result<(), TellError<M>> {
        by_size!(<M, K> self.tell_into_as(message, member, place))
    }

    fn tell_into_as<M: Send + 'static, P: MessageFor<A, K> + Carry<M>, K: 'static>(
        &self,
        message: P,
        member: &Member<A>,
        place: Place<A>,
    ) -> Result<(), TellError<P>> {
        self.deliver::<M, P>(message, |message| {
            self.count(member);
            let envelope = told::<A, P, K>(self.counted(member), message);
            let sent = place.permit.submit_job(envelope);
            sent.map_err(|error| self.unsent(error.into()))
        })
    }

    /// To this member and no other.
    pub(super) fn tell_member<M: MessageFor<A, K>, K: 'static>(
        &self,
        member: &Member<A>,
        message: M,
    ) -> Result<(), TellError<M>> {
        self.deliver::<M, M>(message, |message| {
            self.count(member);
            let sent = send_tell::<A, M, K>(member, self.counted(member), message, SendMode::Tell);
            sent.map_err(|error| self.unsent(error))
        })
    }

    pub(super) fn ask<M: MessageFor<A, K>, K: 'static>(
        self: &Arc<Self>,
        route: Route,
        message: M,
        limit: Duration,
    ) -> Ask<M, M::Reply> {
        by_size!(<M, K> self.ask_as(message, route, limit))
    }

    fn ask_as<M: Send + 'static, P: MessageFor<A, K> + Carry<M>, K: 'static>(
        self: &Arc<Self>,
        message: P,
        route: Route,
        limit: Duration,
    ) -> Ask<P, P::Reply> {
        if self.is_intercepted() {
            let pool = Arc::clone(self);
            let send =
                move |message, along, limit| pool.ask_plain::<P, K>(route, message, along, limit);
            return Ask::rare(outgoing::ask::<M, P, _>(self.target(), message, limit, send));
        }
        self.ask_plain::<P, K>(route, message, request::outgoing(), limit)
    }

    fn ask_plain<M: MessageFor<A, K>, K: 'static>(
        &self,
        route: Route,
        message: M,
        outgoing: Ambient,
        limit: Duration,
    ) -> Ask<M, M::Reply> {
        let system = &self.settings.system;
        let term = self.term(limit, &outgoing);
        let sent = self.offer(route, message, |member, counted, message| {
            if outgoing.chain.blocks(member.address.raw_id()) {
                counted.inspect(|load| load.leave());
                return Err(TellError { kind: WAITS, message });
            }
            let load = counted.cloned();
            let (envelope, receiver, shared) =
                Envelope::<M, M::Reply, K>::asked(message, outgoing.clone(), term, load);
            member.address.task.submit_job(envelope)?;
            Ok((receiver, shared))
        });
        match sent {
            Ok((receiver, shared)) => Ask::waiting(receiver, shared, &system.shared().deadlines),
            Err(TellError { kind: WAITS, message }) => {
                let mut chain = outgoing.chain.names();
                chain.push(self.settings.name.clone());
                Ask::refused(AskError::Cycle { chain, message: Some(message) })
            }
            Err(error) => Ask::refused(AskError::Refused(self.unsent(error))),
        }
    }

    /// The error of a message that no member took, counted as a dead letter.
    #[cold]
    fn unsent<M>(&self, error: TellError<M>) -> TellError<M> {
        self.lost::<M>(DeadLetterReason::Refused(error.kind));
        error
    }

    /// Counts a message that no member got as a dead letter.
    pub(super) fn lost<M>(&self, reason: DeadLetterReason) {
        self.settings.system.lose::<M>(|| self.settings.name.clone(), reason);
    }
}

impl<A: Actor> Destination for Shared<A> {
    fn system(&self) -> &System {
        &self.settings.system
    }

    #[cold]
    fn target(&self) -> Target<'_> {
        let class = std::any::type_name::<A>().to_owned();
        Target { system: &self.settings.system, actor: self.settings.name.clone(), class }
    }
}

/// Sends a message without an answer.
fn send_tell<A: Actor, M: MessageFor<A, K>, K: 'static>(
    member: &Member<A>,
    counted: Counted<'_>,
    message: M,
    mode: SendMode,
) -> Result<(), TellError<M>> {
    if counted.is_none() && mode != SendMode::Urgent {
        return member.address.offer_plain::<M, K>(message);
    }
    let (task, told) = (&member.address.task, told::<A, M, K>(counted, message));
    let sent = match mode {
        SendMode::Urgent => task.submit_job_urgent(told),
        SendMode::Tell | SendMode::Offer => task.submit_job(told),
    };
    sent.map_err(TellError::from)
}

/// A message without a caller, with its count.
fn told<A: Actor, M: MessageFor<A, K>, K: 'static>(
    counted: Counted<'_>,
    message: M,
) -> Envelope<M, M::Reply, K> {
    let reply = counted.map(|load| ReplyTo::told(Arc::clone(load)));
    Envelope::new(Delivery { message, baggage: request::baggage(), reply })
}
