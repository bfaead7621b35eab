//! The address of an actor: how anybody sends it messages.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use turnwheel_runtime::{Completion, Permit, Phase, SubmitError, SubmitErrorKind, Task};

use crate::actor::cell::envelope::{Bare, Envelope};
use crate::actor::cell::ActorCell;
use crate::actor::context::Context;
use crate::actor::handler::{kind, Access, Receive, Turn};
use crate::actor::Actor;
use crate::call::ask::{Ask, Other};
use crate::call::reply::ReplyTo;
use crate::error::{AskError, TellError};
use crate::request::Delivery;
use crate::request::{self, Outgoing};
use crate::system::dead_letter::DeadLetterReason;
use crate::system::id::{self, OUTGOING_BIT};
use crate::system::intercept::outgoing::{self, Destination, Target};
use crate::system::registry::holders;
use crate::system::System;

/// A handle of an actor. Clones reach the same actor; when the last is gone and nothing the actor
/// waits for is left, the actor closes in order.
///
/// Messages from one sender are handled in the order sent.
pub struct Address<A: Actor> {
    /// Its tag is the actor's number.
    pub(crate) task: Task<ActorCell<A>>,
    system: System,
}

impl<A: Actor> Clone for Address<A> {
    fn clone(&self) -> Self {
        Self { task: self.task.clone(), system: self.system.clone() }
    }
}

impl<A: Actor> PartialEq for Address<A> {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl<A: Actor> Eq for Address<A> {}

/// By identity, as `Eq`.
impl<A: Actor> Hash for Address<A> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl<A: Actor> fmt::Debug for Address<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({} #{})", self.name(), self.id())
    }
}

impl<A: Actor> Address<A> {
    pub(crate) fn new(task: Task<ActorCell<A>>, system: System) -> Self {
        Self { task, system }
    }

    /// A number that no other actor of this process has or will have.
    pub fn id(&self) -> u64 {
        id::bare(self.raw_id())
    }

    /// Its number with what is kept in it.
    #[inline(always)]
    pub(crate) fn raw_id(&self) -> u64 {
        self.task.tag()
    }

    /// The name given when it was spawned, or the name of its class.
    pub fn name(&self) -> String {
        self.task.name()
    }

    /// The system it lives in.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// Sends a message; its answer is dropped.
    ///
    /// Never blocks. Cost: two atomic read-modify-writes, and no heap allocation in the steady
    /// state for a message of up to 48 bytes.
    ///
    /// # Errors
    ///
    /// Full, closed, or the group's memory is used up; the message comes back. That is counted as a
    /// dead letter too.
    #[inline(always)]
    pub fn tell<M, K>(&self, message: M) -> Result<(), TellError<M>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        self.deliver(message, |message| self.tell_plain::<M, K>(message))
    }

    /// Without a look at interceptors.
    #[inline(always)]
    pub(crate) fn tell_plain<M, K>(&self, message: M) -> Result<(), TellError<M>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        self.offer_plain::<M, K>(message).map_err(|error| self.unsent(error))
    }

    /// As [`Address::tell_plain`]; a message that is refused is no dead letter.
    #[inline(always)]
    pub(crate) fn offer_plain<M, K>(&self, message: M) -> Result<(), TellError<M>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        let Some(baggage) = request::baggage() else {
            let told = self.task.submit_job(Bare::<M, K>::new(message));
            return told.map_err(|error| TellError { kind: error.kind, message: error.job.open() });
        };
        let delivery = Delivery { message, baggage: Some(baggage), reply: None };
        let told = self.task.submit_job(Envelope::<M, A::Reply, K>::new(delivery));
        told.map_err(|error| TellError { kind: error.kind, message: error.job.open().message })
    }

    /// Sends a message as `submit` does.
    fn tell_by<M, K>(
        &self,
        message: M,
        submit: impl FnOnce(
            Envelope<M, A::Reply, K>,
        ) -> Result<(), SubmitError<Envelope<M, A::Reply, K>>>,
    ) -> Result<(), TellError<M>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        self.deliver(message, |message| {
            submit(Envelope::told(message)).map_err(|error| self.refused(error))
        })
    }

    /// As [`Address::tell`], but ahead of all that is queued: it is handled after the message under
    /// way. Urgent messages keep their order among themselves. For rare words that must not wait
    /// behind a flood; costs a lock.
    ///
    /// # Errors
    ///
    /// As [`Address::tell`]; `Full` if
    /// [`URGENT_JOBS_MAX`](turnwheel_runtime::limits::URGENT_JOBS_MAX) wait already.
    pub fn tell_urgent<M, K>(&self, message: M) -> Result<(), TellError<M>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        self.tell_by::<M, K>(message, |envelope| self.task.submit_job_urgent(envelope))
    }

    /// As [`Address::tell`], but waits up to `limit` for a place. Only off the workers.
    ///
    /// # Errors
    ///
    /// `OnWorker` at once on a worker thread, `TimedOut`, `Closed`; the message comes back.
    pub fn tell_wait<M, K>(&self, message: M, limit: Duration) -> Result<(), TellError<M>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        self.tell_by::<M, K>(message, |envelope| self.task.submit_job_wait(envelope, limit))
    }

    /// Waits for a place in the mailbox without blocking; use it with
    /// [`Context::pipe`](crate::Context::pipe) or `.await`.
    ///
    /// # Errors
    ///
    /// The actor has closed, or its mailbox has another overflow policy than «reject».
    pub async fn reserve(&self) -> Result<Place<A>, turnwheel_runtime::Failure> {
        let permit = self.task.reserve().await?;
        Ok(Place { permit, address: self.clone() })
    }

    /// As [`Address::reserve`], without a borrow.
    pub(crate) fn reserve_owned(
        &self,
    ) -> impl std::future::Future<Output = Result<Place<A>, turnwheel_runtime::Failure>> + Send + 'static
    {
        let address = self.clone();
        async move {
            let permit = address.task.reserve().await?;
            Ok(Place { permit, address })
        }
    }

    /// As [`Address::tell`]; what is refused is no dead letter.
    pub(crate) fn offer<M, K>(&self, message: M) -> Result<(), TellError<M>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        self.offer_by(message, |message| self.offer_plain::<M, K>(message))
    }

    /// Sends a message and answers a future of the reply, with the system's deadline.
    ///
    /// Cost: as [`Address::tell`] and three more atomic operations; its memory is reused. An ask
    /// that could never be answered, since the actor waits for the caller, fails at once with
    /// [`AskError::Cycle`].
    pub fn ask<M, K>(&self, message: M) -> Ask<M, A::Reply>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        self.ask_within(message, self.system.shared().ask_limit)
    }

    /// As [`Address::ask`] with a deadline of its own; inside a handler the deadline of the request
    /// that it handles counts if it is earlier.
    pub fn ask_within<M, K>(&self, message: M, limit: Duration) -> Ask<M, A::Reply>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        if self.is_intercepted() {
            return Ask::rare(self.ask_intercepted::<M, K>(message, limit));
        }
        // Asked before there is a chain: one whose address is taken is built in memory.
        if request::closes_cycle(self.raw_id()) {
            return Ask::rare(self.cycle(message, &request::outgoing()));
        }
        self.ask_plain::<M, K>(message, request::outgoing_for::<(A, M, K)>(), limit)
    }

    #[cold]
    #[inline(never)]
    fn ask_intercepted<M, K>(&self, message: M, limit: Duration) -> Box<Other<M, A::Reply>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        let myself = self.clone();
        outgoing::ask(self.target(), message, limit, move |message, along, limit| {
            match along.chain.blocks(myself.raw_id()) {
                true => Ask::rare(myself.cycle(message, &along)),
                false => myself.ask_plain::<M, K>(message, along, limit),
            }
        })
    }

    /// The call would never be answered.
    #[cold]
    #[inline(never)]
    fn cycle<M, R>(&self, message: M, outgoing: &Outgoing) -> Box<Other<M, R>> {
        let mut chain = outgoing.chain.names();
        chain.push(self.name());
        Other::refused(AskError::Cycle { chain, message: Some(message) })
    }

    #[inline(always)]
    fn ask_plain<M, K>(&self, message: M, outgoing: Outgoing, limit: Duration) -> Ask<M, A::Reply>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        let (now_ns, deadline_ns) = self.deadline(limit, &outgoing);
        let (envelope, receiver, shared) =
            Envelope::<M, A::Reply, K>::asked(message, outgoing, deadline_ns, None);
        match self.task.submit_job(envelope) {
            Ok(()) => Ask::waiting(receiver, shared, &self.system.shared().deadlines, now_ns),
            Err(error) => Ask::refused(AskError::Refused(self.refused(error))),
        }
    }

    /// Sends a message whose answer goes to somebody else's caller.
    ///
    /// # Errors
    ///
    /// As [`Address::tell`]; the caller is told that there is no answer. `Refused` if this actor
    /// itself waits for the answer and takes nothing meanwhile: the caller is told the cycle.
    pub fn forward<M, K>(&self, message: M, reply: ReplyTo<A::Reply>) -> Result<(), TellError<M>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        let mut reply = Some(reply);
        let mut send = |message| {
            // Nobody waits for the answer to a message that was told: it goes on as one.
            let reply = reply.take().filter(ReplyTo::is_anybody);
            if reply.as_ref().is_some_and(|reply| reply.is_awaited_by(self.raw_id())) {
                return Err(self.forward_cycle(message, reply));
            }
            if let Some(reply) = &reply {
                reply.forwarded(self.system.group().recent_ns());
            }
            let delivery = Delivery { message, baggage: request::baggage(), reply };
            let envelope = Envelope::<M, A::Reply, K>::new(delivery);
            self.task.submit_job(envelope).map_err(|error| self.refused(error))
        };
        if !self.is_intercepted() {
            return send(message);
        }
        outgoing::tell(self.target(), message, send).map_err(|unsent| {
            if let Some((reply, failure)) = reply.zip(unsent.failure.clone()) {
                reply.fail(failure);
            }
            unsent.counted()
        })
    }

    /// The actor waits for the answer that it is to give.
    #[cold]
    fn forward_cycle<M, R>(&self, message: M, reply: Option<ReplyTo<R>>) -> TellError<M> {
        if let Some(reply) = reply {
            reply.fail_with_cycle(self.name());
        }
        self.unsent(TellError { kind: SubmitErrorKind::Refused, message })
    }

    /// Runs a closure on the actor, in its turn among the messages, and answers what it returns.
    ///
    /// For futures of an [`InterleavedHandler`](crate::InterleavedHandler), tests and tools.
    pub fn with<R, F>(&self, look: F) -> Ask<With<F>, R>
    where
        R: Send + 'static,
        F: FnOnce(&mut A, &mut Context<'_, A>) -> R + Send + 'static,
    {
        self.ask::<_, kind::Closure<R>>(With(look))
    }

    /// Closes the actor in order: what was sent before is handled first. Completes when it is over.
    pub fn close(&self) -> Completion<()> {
        self.task.close()
    }

    /// As [`Address::close`]; after `limit` what is left is skipped.
    pub fn close_within(&self, limit: Duration) -> Completion<()> {
        self.task.close_within(limit)
    }

    /// Skips what is queued and closes in order.
    pub fn stop(&self) -> Completion<()> {
        self.task.stop()
    }

    /// Ends the actor after its current message, without hooks but [`Actor::ended`].
    pub fn kill(&self) -> Completion<()> {
        self.task.kill()
    }

    /// Completes when the actor has started, or failed to.
    pub fn started(&self) -> Completion<()> {
        self.task.started()
    }

    /// Completes when the actor has ended: with the failure if it ended by one.
    pub fn closed(&self) -> Completion<()> {
        self.task.closed()
    }

    /// Where it is in its life.
    pub fn phase(&self) -> Phase {
        self.task.phase()
    }

    /// Messages queued and places promised, about.
    pub fn queue_len(&self) -> u64 {
        self.task.queue_len()
    }

    /// The error of a refused message, counted as a dead letter.
    fn refused<M, R, K>(&self, error: SubmitError<Envelope<M, R, K>>) -> TellError<M> {
        let kind = error.kind;
        let Delivery { message, reply, .. } = error.job.open();
        if let Some(reply) = reply {
            reply.fail(match kind {
                SubmitErrorKind::Closed => turnwheel_runtime::Failure::Closed,
                kind => turnwheel_runtime::Failure::message(kind.to_string()),
            });
        }
        self.unsent(TellError { kind, message })
    }

    #[cold]
    fn unsent<M>(&self, error: TellError<M>) -> TellError<M> {
        self.system.lose::<M>(|| self.name(), DeadLetterReason::Refused(error.kind));
        error
    }
}

impl<A: Actor> Destination for Address<A> {
    #[inline(always)]
    fn system(&self) -> &System {
        &self.system
    }

    #[cold]
    fn target(&self) -> Target<'_> {
        Target { system: &self.system, actor: self.name(), class: self.task.class() }
    }

    #[inline(always)]
    fn is_intercepted(&self) -> bool {
        self.raw_id() & OUTGOING_BIT != 0
    }
}

/// A promised place in a mailbox; dropping it gives the place back.
#[derive(Debug)]
#[must_use]
pub struct Place<A: Actor> {
    permit: Permit<ActorCell<A>>,
    address: Address<A>,
}

impl<A: Actor> Place<A> {
    pub(crate) fn into_permit(self) -> Permit<ActorCell<A>> {
        self.permit
    }

    /// Sends a message into the promised place; it is never full.
    ///
    /// # Errors
    ///
    /// The actor has closed since; the message comes back.
    pub fn tell<M, K>(self, message: M) -> Result<(), TellError<M>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        let Self { permit, address } = self;
        address.tell_by::<M, K>(message, |envelope| permit.submit_job(envelope))
    }
}

/// The message of [`Address::with`].
pub struct With<F>(F);

impl<F> fmt::Debug for With<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("With")
    }
}

impl<A, R, F> Receive<With<F>, kind::Closure<R>> for A
where
    A: Actor,
    R: Send + 'static,
    F: FnOnce(&mut A, &mut Context<'_, A>) -> R + Send + 'static,
{
    type Reply = R;
    const GATE_ACCESS: Access = Access::Write;

    fn run(cell: &mut ActorCell<A>, delivery: Delivery<With<F>, R>, turn: Turn<'_, A>) {
        cell.run_plain(delivery, turn, |actor, With(look), cx| look(actor, cx));
    }

    fn run_intercepted(cell: &mut ActorCell<A>, delivery: Delivery<With<F>, R>, turn: Turn<'_, A>) {
        cell.plain_intercepted(delivery, turn, |actor, With(look), cx| look(actor, cx));
    }
}

holders!(<A: Actor> Address<A>, |holder| holder.phase().is_over(););
