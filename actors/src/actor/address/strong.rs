//! The address of an actor: the handle for sending it messages.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use turnwheel_runtime::{Completion, Phase, SubmitError, SubmitErrorKind, Task, TaskJob};

use super::place::{Place, Way};
use super::With;
use crate::actor::{kind, Actor, ActorCell, Bare, Context, Envelope, MessageFor};
use crate::call::{Ask, Other, Waiting};
use crate::error::{AskError, TellError};
use crate::large::{by_size, Carry};
use crate::request::{self, Ambient, Delivery};
use crate::system::id;
use crate::system::intercept::outgoing::{self, Destination, Target};
use crate::system::{holders, DeadLetterReason, System, OUTGOING_BIT};

/// A handle of an actor. Clones reach the same actor; when the last is gone and nothing the actor
/// waits for is left, the actor closes in order.
///
/// Messages from one sender are handled in the order sent.
pub struct Address<A: Actor> {
    /// Its tag is the actor's number, its attachment the system.
    pub(crate) task: Task<ActorCell<A>>,
}

clone_fields!(impl<A: Actor> Address<A>, task);

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
    #[inline(always)]
    pub(crate) fn new(task: Task<ActorCell<A>>) -> Self {
        Self { task }
    }

    /// A number that no other actor of this process has or will have.
    pub fn id(&self) -> u64 {
        id::bare(self.raw_id())
    }

    /// Its number with the flag bits in it.
    #[inline(always)]
    pub(crate) fn raw_id(&self) -> u64 {
        self.task.tag()
    }

    /// The name given when it was spawned, or the name of its class.
    pub fn name(&self) -> String {
        self.task.name()
    }

    /// The system it lives in.
    #[inline(always)]
    pub fn system(&self) -> &System {
        self.task.attachment()
    }

    /// Sends a message; its answer is dropped.
    ///
    /// Never blocks. Cost: two atomic read-modify-writes, and no heap allocation in the steady
    /// state for a message of up to 48 bytes.
    ///
    /// # Errors
    ///
    /// Full, closed, or the group's memory is used up; the message comes back. It also counts as a
    /// dead letter.
    #[inline(always)]
    pub fn tell<M: MessageFor<A, K>, K: 'static>(&self, message: M) -> Result<(), TellError<M>> {
        by_size!(<M, K> self.tell_as(message))
    }

    #[inline(always)]
    fn tell_as<M: Send + 'static, P: MessageFor<A, K> + Carry<M>, K: 'static>(
        &self,
        message: P,
    ) -> Result<(), TellError<P>> {
        match self.is_intercepted() {
            true => self.tell_intercepted::<M, P, K>(message),
            false => self.tell_plain::<P, K>(message),
        }
    }

    /// Out of line, so that what sends is in line where there are no interceptors.
    #[cold]
    #[inline(never)]
    fn tell_intercepted<M: Send + 'static, P: MessageFor<A, K> + Carry<M>, K: 'static>(
        &self,
        message: P,
    ) -> Result<(), TellError<P>> {
        self.deliver::<M, P>(message, |message| self.tell_plain::<P, K>(message))
    }

    /// Without a look at interceptors.
    #[inline(always)]
    pub(crate) fn tell_plain<M: MessageFor<A, K>, K: 'static>(
        &self,
        message: M,
    ) -> Result<(), TellError<M>> {
        self.offer_plain::<M, K>(message).map_err(|error| self.unsent(error))
    }

    /// As [`Address::tell_plain`]; a message that is refused is no dead letter.
    #[inline(always)]
    pub(crate) fn offer_plain<M: MessageFor<A, K>, K: 'static>(
        &self,
        message: M,
    ) -> Result<(), TellError<M>> {
        let Some(baggage) = request::baggage() else {
            let told = self.task.submit_job(Bare::<M, K>::new(message));
            return told.map_err(|error| TellError { kind: error.kind, message: error.job.open() });
        };
        let delivery = Delivery { message, baggage: Some(baggage), reply: None };
        let told = self.task.submit_job(Envelope::<M, M::Reply, K>::new(delivery));
        told.map_err(TellError::from)
    }

    fn send_by<J: TaskJob<ActorCell<A>>>(&self, job: J, way: Way<A>) -> Result<(), SubmitError<J>> {
        match way {
            Way::Urgent => self.task.submit_job_urgent(job),
            Way::Within(limit) => self.task.submit_job_wait(job, limit),
            Way::Into(permit) => permit.submit_job(job),
        }
    }

    /// Sends a message in this way.
    pub(super) fn tell_by<M: MessageFor<A, K>, K: 'static>(
        &self,
        message: M,
        way: Way<A>,
    ) -> Result<(), TellError<M>> {
        by_size!(<M, K> self.tell_by_as(message, way))
    }

    fn tell_by_as<M: Send + 'static, P: MessageFor<A, K> + Carry<M>, K: 'static>(
        &self,
        message: P,
        way: Way<A>,
    ) -> Result<(), TellError<P>> {
        self.deliver::<M, P>(message, |message| {
            let told = Envelope::<P, P::Reply, K>::told(message);
            self.send_by(told, way).map_err(|error| self.refused(error))
        })
    }

    /// As [`Address::tell`], but ahead of all queued messages: it is handled after the current
    /// message. Urgent messages keep their order among themselves. For rare control messages that
    /// must not wait behind a flood; costs a lock.
    ///
    /// # Errors
    ///
    /// As [`Address::tell`]; `Full` if
    /// [`URGENT_JOBS_MAX`](turnwheel_runtime::limits::URGENT_JOBS_MAX) wait already.
    pub fn tell_urgent<M: MessageFor<A, K>, K: 'static>(
        &self,
        message: M,
    ) -> Result<(), TellError<M>> {
        self.tell_by::<M, K>(message, Way::Urgent)
    }

    /// As [`Address::tell`], but waits up to `limit` for a place. Only off the workers.
    ///
    /// # Errors
    ///
    /// `TimedOut`, `Closed`, `GroupMemory`; `OnWorker` at once on a worker thread if there is no
    /// place. The message comes back.
    pub fn tell_wait<M: MessageFor<A, K>, K: 'static>(
        &self,
        message: M,
        limit: Duration,
    ) -> Result<(), TellError<M>> {
        self.tell_by::<M, K>(message, Way::Within(limit))
    }

    /// Waits for a place in the mailbox without blocking; use it with
    /// [`Context::pipe`](crate::Context::pipe) or `.await`.
    ///
    /// # Errors
    ///
    /// The actor has closed, or its mailbox has another overflow policy than «reject».
    pub async fn reserve(&self) -> Result<Place<A>, turnwheel_runtime::Failure> {
        let permit = self.task.reserve().await?;
        Ok(Place::new(permit, self.clone()))
    }

    /// As [`Address::tell`]; a refused message is no dead letter.
    pub(crate) fn offer<M: MessageFor<A, K>, K: 'static>(
        &self,
        message: M,
    ) -> Result<(), TellError<M>> {
        by_size!(<M, K> self.offer_as(message))
    }

    fn offer_as<M: Send + 'static, P: MessageFor<A, K> + Carry<M>, K: 'static>(
        &self,
        message: P,
    ) -> Result<(), TellError<P>> {
        self.offer_by::<M, P>(message, |message| self.offer_plain::<P, K>(message))
    }

    /// Sends a message and answers a future of the reply, with the system's deadline.
    ///
    /// Cost: as [`Address::tell`] and three more atomic operations; its memory is reused. An ask
    /// that could never be answered, since the actor waits for the caller, fails at once with
    /// [`AskError::Cycle`].
    #[inline(always)]
    pub fn ask<M: MessageFor<A, K>, K: 'static>(&self, message: M) -> Ask<M, M::Reply> {
        self.ask_within(message, self.system().shared().ask_limit)
    }

    /// As [`Address::ask`] with a deadline of its own; inside a handler the deadline of the request
    /// that it handles counts if it is earlier.
    #[inline(always)]
    pub fn ask_within<M: MessageFor<A, K>, K: 'static>(
        &self,
        message: M,
        limit: Duration,
    ) -> Ask<M, M::Reply> {
        by_size!(<M, K> self.ask_as(message, limit))
    }

    #[inline(always)]
    fn ask_as<M: Send + 'static, P: MessageFor<A, K> + Carry<M>, K: 'static>(
        &self,
        message: P,
        limit: Duration,
    ) -> Ask<P, P::Reply> {
        let mut other = None;
        let waiting = self.ask_apart::<M, P, K>(message, limit, &mut other);
        Ask::of(waiting, other)
    }

    /// Sends a call. Out of line, and what it returns is in registers: a call that is returned
    /// through memory is read back by its poller in other sizes than it was written in, which
    /// stalls.
    #[inline(never)]
    fn ask_apart<M: Send + 'static, P: MessageFor<A, K> + Carry<M>, K: 'static>(
        &self,
        message: P,
        limit: Duration,
        other: &mut Option<Box<Other<P, P::Reply>>>,
    ) -> Option<Waiting<P::Reply>> {
        self.ask_here::<M, P, K>(message, limit).apart(other)
    }

    #[inline(always)]
    fn ask_here<M: Send + 'static, P: MessageFor<A, K> + Carry<M>, K: 'static>(
        &self,
        message: P,
        limit: Duration,
    ) -> Ask<P, P::Reply> {
        if self.is_intercepted() {
            return Ask::rare(self.ask_intercepted::<M, P, K>(message, limit));
        }
        // Checked before there is a chain: a chain whose address is taken is built in memory.
        if request::closes_cycle(self.raw_id()) {
            return Ask::rare(self.cycle(message, &request::outgoing()));
        }
        self.ask_plain::<P, K>(message, request::outgoing_for::<(A, P, K)>(), limit)
    }

    #[cold]
    #[inline(never)]
    fn ask_intercepted<M: Send + 'static, P: MessageFor<A, K> + Carry<M>, K: 'static>(
        &self,
        message: P,
        limit: Duration,
    ) -> Box<Other<P, P::Reply>> {
        let myself = self.clone();
        outgoing::ask::<M, P, _>(self.target(), message, limit, move |message, along, limit| {
            match along.chain.blocks(myself.raw_id()) {
                true => Ask::rare(myself.cycle(message, &along)),
                false => myself.ask_plain::<P, K>(message, along, limit),
            }
        })
    }

    /// The call would never be answered.
    #[cold]
    #[inline(never)]
    fn cycle<M, R>(&self, message: M, outgoing: &Ambient) -> Box<Other<M, R>> {
        let mut chain = outgoing.chain.names();
        chain.push(self.name());
        Other::refused(AskError::Cycle { chain, message: Some(message) })
    }

    #[inline(always)]
    fn ask_plain<M: MessageFor<A, K>, K: 'static>(
        &self,
        message: M,
        outgoing: Ambient,
        limit: Duration,
    ) -> Ask<M, M::Reply> {
        let term = self.term(limit, &outgoing);
        let (envelope, receiver, shared) =
            Envelope::<M, M::Reply, K>::asked(message, outgoing, term, None);
        match self.task.submit_job(envelope) {
            Ok(()) => Ask::waiting(receiver, shared, &self.system().shared().deadlines),
            Err(error) => Ask::refused(AskError::Refused(self.refused(error))),
        }
    }

    /// Runs a closure on the actor, in its turn among the messages, and returns its result.
    ///
    /// For futures of an [`InterleavedHandler`](crate::InterleavedHandler), tests and tools.
    pub fn with<R: Send + 'static, F>(&self, look: F) -> Ask<With<F>, R>
    where
        F: FnOnce(&mut A, &mut Context<'_, A>) -> R + Send + 'static,
    {
        self.ask::<_, kind::Closure<R>>(With(look))
    }

    /// Closes the actor in order: earlier messages are handled first. Completes at its end.
    pub fn close(&self) -> Completion<()> {
        self.task.close()
    }

    /// As [`Address::close`]; after `limit` the remaining messages are skipped.
    pub fn close_within(&self, limit: Duration) -> Completion<()> {
        self.task.close_within(limit)
    }

    /// Skips the queued messages and closes in order.
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

    /// Phase of the actor's life.
    pub fn phase(&self) -> Phase {
        self.task.phase()
    }

    /// Messages queued and places promised, about.
    pub fn queue_len(&self) -> u64 {
        self.task.queue_len()
    }

    /// The error of a refused message, counted as a dead letter.
    pub(super) fn refused<M, R, K>(&self, error: SubmitError<Envelope<M, R, K>>) -> TellError<M> {
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
    pub(super) fn unsent<M>(&self, error: TellError<M>) -> TellError<M> {
        self.system().lose::<M>(|| self.name(), DeadLetterReason::Refused(error.kind));
        error
    }
}

impl<A: Actor> Destination for Address<A> {
    #[inline(always)]
    fn system(&self) -> &System {
        self.system()
    }

    #[cold]
    fn target(&self) -> Target<'_> {
        Target { system: self.system(), actor: self.name(), class: self.task.class() }
    }

    #[inline(always)]
    fn is_intercepted(&self) -> bool {
        self.raw_id() & OUTGOING_BIT != 0
    }
}

holders!(<A: Actor> Address<A>, |holder| holder.phase().is_over(););
