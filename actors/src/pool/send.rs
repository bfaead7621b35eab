//! Sending to a pool: one member after the other is offered the message until one takes it.

use std::sync::Arc;
use std::time::Duration;

use turnwheel_runtime::SubmitErrorKind;

use super::member::Member;
use super::shared::{Route, Shared};
use super::POOL_MEMBERS_MAX;
use crate::actor::address::Place;
use crate::actor::cell::envelope::Envelope;
use crate::actor::handler::{kind, Receive};
use crate::actor::Actor;
use crate::call::ask::Ask;
use crate::call::reply::ReplyTo;
use crate::call::Load;
use crate::error::{AskError, TellError};
use crate::large::{self, is_any_large, Carry, Large};
use crate::request::{self, Delivery, Outgoing};
use crate::system::dead_letter::DeadLetterReason;
use crate::system::intercept::outgoing::{self, Destination, Target};
use crate::system::System;

/// How often the members are gone through again since some of them have ended meanwhile.
const ROUNDS_MAX: usize = 2 * POOL_MEMBERS_MAX;

/// Why a member did not take a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Refused(SubmitErrorKind),
    /// The member waits for the caller.
    Cycle,
}

/// A message that was not taken.
struct Refusal<M> {
    why: Why,
    message: M,
}

impl<M> Refusal<M> {
    fn new(kind: SubmitErrorKind, message: M) -> Self {
        Self { why: Why::Refused(kind), message }
    }

    fn into_error(self) -> TellError<M> {
        let Self { why, message } = self;
        let kind = match why {
            Why::Refused(kind) => kind,
            Why::Cycle => unreachable!("only a call finds a cycle, and says so"),
        };
        TellError { kind, message }
    }
}

/// Where the message counts as in flight, in a pool that counts.
type Counted<'a> = Option<&'a Arc<Load>>;

impl<A: Actor> Shared<A> {
    /// Offers a message to the members, beginning with the chosen one. The count that `send` is
    /// given it takes over, also when the message is refused.
    fn offer<M, T>(
        &self,
        route: Route,
        message: M,
        mut send: impl FnMut(&Member<A>, Counted<'_>, M) -> Result<T, Refusal<M>>,
    ) -> Result<T, Refusal<M>> {
        let closed = SubmitErrorKind::Closed;
        let mut message = message;
        for _ in 0..ROUNDS_MAX {
            let Some((members, first)) = self.choose(route) else { break };
            let (turn, rest) = (&members[first..], &members[..first]);
            let tries = match route {
                Route::Any => members.len(),
                Route::Key(_) => 1,
            };
            let mut last = Why::Cycle;
            let mut has_ended = false;
            for (tried, member) in turn.iter().chain(rest).take(tries).enumerate() {
                if tried > 0 {
                    self.count(member);
                }
                let counted = self.counts().then_some(&member.load);
                let refusal = match send(member, counted, message) {
                    Ok(sent) => return Ok(sent),
                    Err(refusal) => refusal,
                };
                message = refusal.message;
                if refusal.why == Why::Refused(closed) {
                    // It goes to a successor: this one was found before it ended.
                    self.forget(member.address.id());
                    has_ended = true;
                } else if refusal.why != Why::Cycle {
                    last = refusal.why;
                }
            }
            if !has_ended {
                return Err(Refusal { why: last, message });
            }
        }
        Err(Refusal::new(closed, message))
    }

    pub(super) fn tell<M, K>(&self, route: Route, message: M) -> Result<(), TellError<M>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        match const { is_any_large::<M, A::Reply>() } {
            true => large::send(message, |message| {
                self.tell_as::<M, Large<M>, kind::Boxed<K>>(route, message)
            }),
            false => self.tell_as::<M, M, K>(route, message),
        }
    }

    fn tell_as<M, P, K>(&self, route: Route, message: P) -> Result<(), TellError<P>>
    where
        A: Receive<P, K>,
        M: Send + 'static,
        P: Carry<M>,
        K: 'static,
    {
        self.deliver::<M, P>(message, |message| {
            self.tell_by(route, message).map_err(|refusal| self.unsent(refusal))
        })
    }

    /// As a `tell`; what is refused is no dead letter.
    pub(super) fn offer_any<M, K>(&self, message: M) -> Result<(), TellError<M>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        match const { is_any_large::<M, A::Reply>() } {
            true => large::send(message, |message| {
                self.offer_as::<M, Large<M>, kind::Boxed<K>>(message)
            }),
            false => self.offer_as::<M, M, K>(message),
        }
    }

    fn offer_as<M, P, K>(&self, message: P) -> Result<(), TellError<P>>
    where
        A: Receive<P, K>,
        M: Send + 'static,
        P: Carry<M>,
        K: 'static,
    {
        self.offer_by::<M, P>(message, |message| {
            self.tell_by(Route::Any, message).map_err(Refusal::into_error)
        })
    }

    fn tell_by<M, K>(&self, route: Route, message: M) -> Result<(), Refusal<M>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        self.offer(route, message, |member, counted, message| {
            send_tell::<A, M, K>(member, counted, message)
        })
    }

    /// Into a place that this member has promised.
    pub(super) fn tell_into<M, K>(
        &self,
        member: &Member<A>,
        place: Place<A>,
        message: M,
    ) -> Result<(), TellError<M>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        match const { is_any_large::<M, A::Reply>() } {
            true => large::send(message, |message| {
                self.tell_into_as::<M, Large<M>, kind::Boxed<K>>(member, place, message)
            }),
            false => self.tell_into_as::<M, M, K>(member, place, message),
        }
    }

    fn tell_into_as<M, P, K>(
        &self,
        member: &Member<A>,
        place: Place<A>,
        message: P,
    ) -> Result<(), TellError<P>>
    where
        A: Receive<P, K>,
        M: Send + 'static,
        P: Carry<M>,
        K: 'static,
    {
        self.deliver::<M, P>(message, |message| {
            self.count(member);
            let counted = self.counts().then_some(&member.load);
            let envelope = told::<A, P, K>(counted, message);
            let sent = place.into_permit().submit_job(envelope);
            sent.map_err(|error| self.unsent(Refusal::new(error.kind, error.job.open().message)))
        })
    }

    pub(super) fn tell_urgent<M, K>(&self, route: Route, message: M) -> Result<(), TellError<M>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        match const { is_any_large::<M, A::Reply>() } {
            true => large::send(message, |message| {
                self.tell_urgent_as::<M, Large<M>, kind::Boxed<K>>(route, message)
            }),
            false => self.tell_urgent_as::<M, M, K>(route, message),
        }
    }

    fn tell_urgent_as<M, P, K>(&self, route: Route, message: P) -> Result<(), TellError<P>>
    where
        A: Receive<P, K>,
        M: Send + 'static,
        P: Carry<M>,
        K: 'static,
    {
        self.deliver::<M, P>(message, |message| {
            let sent = self.offer(route, message, |member, counted, message| {
                let told = told::<A, P, K>(counted, message);
                let sent = member.address.task.submit_job_urgent(told);
                sent.map_err(|error| Refusal::new(error.kind, error.job.open().message))
            });
            sent.map_err(|refusal| self.unsent(refusal))
        })
    }

    /// To this member and no other.
    pub(super) fn tell_member<M, K>(
        &self,
        member: &Member<A>,
        message: M,
    ) -> Result<(), TellError<M>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        self.deliver::<M, M>(message, |message| {
            self.count(member);
            let counted = self.counts().then_some(&member.load);
            let sent = send_tell::<A, M, K>(member, counted, message);
            sent.map_err(|refusal| self.unsent(refusal))
        })
    }

    pub(super) fn ask<M, K>(
        self: &Arc<Self>,
        route: Route,
        message: M,
        limit: Duration,
    ) -> Ask<M, A::Reply>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        match const { is_any_large::<M, A::Reply>() } {
            true => large::send(message, |message| {
                self.ask_as::<M, Large<M>, kind::Boxed<K>>(route, message, limit)
            }),
            false => self.ask_as::<M, M, K>(route, message, limit),
        }
    }

    fn ask_as<M, P, K>(
        self: &Arc<Self>,
        route: Route,
        message: P,
        limit: Duration,
    ) -> Ask<P, A::Reply>
    where
        A: Receive<P, K>,
        M: Send + 'static,
        P: Carry<M>,
        K: 'static,
    {
        if self.is_intercepted() {
            let pool = Arc::clone(self);
            let send =
                move |message, along, limit| pool.ask_plain::<P, K>(route, message, along, limit);
            return Ask::rare(outgoing::ask::<M, P, _>(self.target(), message, limit, send));
        }
        self.ask_plain::<P, K>(route, message, request::outgoing(), limit)
    }

    fn ask_plain<M, K>(
        &self,
        route: Route,
        message: M,
        outgoing: Outgoing,
        limit: Duration,
    ) -> Ask<M, A::Reply>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        let system = &self.settings.system;
        let (now_ns, deadline_ns) = self.deadline(limit, &outgoing);
        let sent = self.offer(route, message, |member, counted, message| {
            if outgoing.chain.blocks(member.address.raw_id()) {
                counted.inspect(|load| load.leave());
                return Err(Refusal { why: Why::Cycle, message });
            }
            let load = counted.cloned();
            let (envelope, receiver, shared) =
                Envelope::<M, A::Reply, K>::asked(message, outgoing.clone(), deadline_ns, load);
            match member.address.task.submit_job(envelope) {
                Ok(()) => Ok((receiver, shared)),
                Err(error) => Err(Refusal::new(error.kind, error.job.open().message)),
            }
        });
        match sent {
            Ok((receiver, shared)) => {
                Ask::waiting(receiver, shared, &system.shared().deadlines, now_ns)
            }
            Err(Refusal { why: Why::Cycle, message }) => {
                let mut chain = outgoing.chain.names();
                chain.push(self.settings.name.clone());
                Ask::refused(AskError::Cycle { chain, message: Some(message) })
            }
            Err(refusal) => Ask::refused(AskError::Refused(self.unsent(refusal))),
        }
    }

    /// The error of a message that nobody took, counted as a dead letter.
    #[cold]
    fn unsent<M>(&self, refusal: Refusal<M>) -> TellError<M> {
        let error = refusal.into_error();
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
fn send_tell<A, M, K>(
    member: &Member<A>,
    counted: Counted<'_>,
    message: M,
) -> Result<(), Refusal<M>>
where
    A: Receive<M, K>,
    M: Send + 'static,
    K: 'static,
{
    let Some(load) = counted else {
        let offered = member.address.offer_plain::<M, K>(message);
        return offered.map_err(|error| Refusal::new(error.kind, error.message));
    };
    let sent = member.address.task.submit_job(told::<A, M, K>(Some(load), message));
    sent.map_err(|error| Refusal::new(error.kind, error.job.open().message))
}

/// A message that was told, with what counts it.
fn told<A, M, K>(counted: Counted<'_>, message: M) -> Envelope<M, A::Reply, K>
where
    A: Receive<M, K>,
{
    let reply = counted.map(|load| ReplyTo::told(Arc::clone(load)));
    Envelope::new(Delivery { message, baggage: request::baggage(), reply })
}
