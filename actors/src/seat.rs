//! The state of an actor's task: the actor itself and what the crate keeps beside it.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use turnwheel_runtime::Failure;

use crate::actor::Actor;
use crate::address::Address;
use crate::context::{AsyncContext, Context};
use crate::dead_letter::DeadLetterReason;
use crate::envelope::{Delivery, Envelope};
use crate::gate::{Gate, Verdict};
use crate::handler::{
    Access, Admits, AsyncHandler, InterleavedHandler, Receive, ReplyHandler, Turn,
};
use crate::reply::ReplyTo;
use crate::request::{Ambient, Asker, Link};
use crate::restart::Rebirth;
use crate::scope::{self, Panic};
use crate::supervise::{Children, Deferred};
use crate::system::System;

/// What an actor's task holds.
#[derive(Debug)]
pub struct Seat<A: Actor> {
    /// The actor; away while an exclusive handler's future has it.
    pub(crate) actor: Option<A>,
    pub(crate) rest: Rest<A>,
}

/// What is beside the actor.
#[derive(Debug)]
pub(crate) struct Rest<A: Actor> {
    pub(crate) system: System,
    /// The number of this actor in the process.
    pub(crate) id: u64,
    /// Whether every message is taken at once and as it comes.
    is_plain: bool,
    /// Messages begun, modulo 2^32; without the ticks of timers.
    handled: u32,
    cold: Option<Box<Cold<A>>>,
}

/// What few actors need.
pub(crate) struct Cold<A: Actor> {
    gate: Gate<A>,
    /// Where an exclusive handler's future gives the actor back, also when it is dropped.
    home: Home<A>,
    name: Option<Arc<str>>,
    /// Streams that wait until the gate is free.
    paused: Vec<Waker>,
    pub(crate) rebirth: Option<Rebirth<A>>,
    children: Children,
    /// What is subscribed to once the actor has started.
    deferred: Vec<Deferred<A>>,
    /// Why no message is handled any more.
    broken: Option<Failure>,
    /// Until when an entity is not idle, whatever it does; nanoseconds.
    pub(crate) kept_until_ns: u64,
}

impl<A: Actor> std::fmt::Debug for Cold<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cold").field("gate", &self.gate).finish_non_exhaustive()
    }
}

type Home<A> = Arc<Mutex<Option<A>>>;

impl<A: Actor> Default for Cold<A> {
    fn default() -> Self {
        Self {
            gate: Gate::default(),
            home: Home::default(),
            name: None,
            paused: Vec::new(),
            rebirth: None,
            children: Children::default(),
            deferred: Vec::new(),
            broken: None,
            kept_until_ns: 0,
        }
    }
}

/// An actor on loan to a handler's future; goes home when the future ends or is dropped.
pub(crate) struct Loan<A> {
    actor: Option<A>,
    home: Home<A>,
}

impl<A> Loan<A> {
    pub(crate) fn get(&mut self) -> &mut A {
        match &mut self.actor {
            Some(actor) => actor,
            None => unreachable!("a loan is made with its actor"),
        }
    }
}

impl<A> Drop for Loan<A> {
    fn drop(&mut self) {
        *self.home.lock() = self.actor.take();
    }
}

impl<A: Actor> Rest<A> {
    pub(crate) fn cold(&mut self) -> &mut Cold<A> {
        self.cold.get_or_insert_default()
    }

    /// Why no message is handled any more.
    pub(crate) fn broken(&self) -> Option<Failure> {
        self.cold.as_ref()?.broken.clone()
    }

    pub(crate) fn children(&mut self) -> &mut Children {
        &mut self.cold().children
    }

    pub(crate) fn take_children(&mut self) -> Children {
        self.cold.as_mut().map(|cold| std::mem::take(&mut cold.children)).unwrap_or_default()
    }

    pub(crate) fn take_deferred(&mut self) -> Vec<Deferred<A>> {
        self.cold.as_mut().map(|cold| std::mem::take(&mut cold.deferred)).unwrap_or_default()
    }

    pub(crate) fn defer(&mut self, run: Deferred<A>) {
        self.cold().deferred.push(run);
    }

    /// Messages begun, modulo 2^32.
    pub(crate) fn handled(&self) -> u32 {
        self.handled
    }

    /// The message handled next is no activity.
    pub(crate) fn uncount(&mut self) {
        self.handled = self.handled.wrapping_sub(1);
    }

    pub(crate) fn kept_until_ns(&self) -> u64 {
        self.cold.as_ref().map_or(0, |cold| cold.kept_until_ns)
    }

    pub(crate) fn address(&self, turn: &Turn<'_, A>) -> Address<A> {
        Address::new(turn.task(), self.id, self.system.clone())
    }
}

impl<A: Actor> Seat<A> {
    pub(crate) fn new(actor: A, id: u64, system: System, rebirth: Option<Rebirth<A>>) -> Self {
        let cold =
            rebirth.map(|rebirth| Box::new(Cold { rebirth: Some(rebirth), ..Cold::default() }));
        Self { actor: Some(actor), rest: Rest { system, id, is_plain: true, handled: 0, cold } }
    }

    /// A seat whose actor is made in its first turn.
    pub(crate) fn vacant(id: u64, system: System) -> Self {
        Self { actor: None, rest: Rest { system, id, is_plain: true, handled: 0, cold: None } }
    }

    /// A seat whose actor comes from the factory in the first turn.
    pub(crate) fn unmade(id: u64, system: System, rebirth: Rebirth<A>) -> Self {
        let mut seat = Self::vacant(id, system);
        seat.rest.cold().rebirth = Some(rebirth);
        seat
    }

    /// Makes the actor if there is none and there is a factory.
    pub(crate) fn make(&mut self) {
        if self.actor.is_none() {
            let cold = self.rest.cold.as_mut();
            let rebirth = cold.and_then(|cold| cold.rebirth.as_mut());
            self.actor = rebirth.map(Rebirth::make);
        }
    }

    /// Lends the actor to a future.
    pub(crate) fn lend(&mut self) -> Option<Loan<A>> {
        let actor = Some(self.actor.take()?);
        Some(Loan { actor, home: Arc::clone(&self.rest.cold().home) })
    }

    /// From now on every message is answered with this failure.
    pub(crate) fn refuse_all(&mut self, failure: Failure) {
        self.rest.cold().broken = Some(failure);
        self.rest.is_plain = false;
    }

    /// Forgets the futures that the former actor had under way.
    pub(crate) fn start_anew(&mut self) {
        self.rest.cold().gate = Gate::default();
        self.rest.is_plain = true;
    }

    /// The actor of a task that was not spawned.
    pub(crate) fn into_actor(self) -> A {
        match self.actor {
            Some(actor) => actor,
            None => unreachable!("a seat is made with its actor"),
        }
    }

    /// Fetches the actor home if its handler's future has ended.
    pub(crate) fn fetch(&mut self) {
        if self.actor.is_none() {
            let home = self.rest.cold.as_ref().map(|cold| Arc::clone(&cold.home));
            self.actor = home.and_then(|home| home.lock().take());
        }
    }

    /// A plain message: no future, no waiting.
    #[inline(always)]
    pub(crate) fn handle_plain<M, R, K>(
        &mut self,
        delivery: Delivery<M, R>,
        access: Access,
        turn: Turn<'_, A>,
        handle: impl FnOnce(&mut A, M, &mut Context<'_, A>) -> R,
    ) where
        A: Receive<M, K, Reply = R>,
        M: Send + 'static,
        K: 'static,
        R: Send + 'static,
    {
        if self.rest.is_plain {
            return self.plain(delivery, turn, handle);
        }
        if let Some(delivery) = self.admit::<M, K>(delivery, access, &turn) {
            self.plain(delivery, turn, handle);
        }
    }

    #[inline(always)]
    fn plain<M, R>(
        &mut self,
        delivery: Delivery<M, R>,
        turn: Turn<'_, A>,
        handle: impl FnOnce(&mut A, M, &mut Context<'_, A>) -> R,
    ) {
        let Delivery { message, baggage, reply } = delivery;
        let Some(actor) = &mut self.actor else {
            return self.nobody_home::<M>(&turn);
        };
        self.rest.handled = self.rest.handled.wrapping_add(1);
        let mut cx = Context::new(turn, &mut self.rest);
        if baggage.is_none() && reply.is_none() {
            // The answer of a message that was told is dropped: nobody asked.
            drop(handle(actor, message, &mut cx));
            return;
        }
        let Some(reply) = reply else {
            let mut ambient = Ambient { baggage, ..Ambient::default() };
            drop(ambient.within(|| handle(actor, message, &mut cx)));
            return;
        };
        if !reply.begin(cx.system().group().recent_ns()) {
            return cx.expired::<M>();
        }
        let deadline_ns = reply.slot().map_or(u64::MAX, |slot| slot.deadline_ns);
        let mut ambient = Ambient { baggage, deadline_ns, ..Ambient::default() };
        let run = AssertUnwindSafe(|| ambient.within(|| handle(actor, message, &mut cx)));
        if let Some(panic) = settle(Some(reply), catch_unwind(run)) {
            resume_unwind(panic);
        }
    }

    /// A message whose handler answers when it likes.
    pub(crate) fn handle_replying<M>(
        &mut self,
        delivery: Delivery<M, <A as ReplyHandler<M>>::Reply>,
        turn: Turn<'_, A>,
    ) where
        A: ReplyHandler<M>,
        M: Send + 'static,
    {
        type Kind = crate::handler::kind::Replying;
        let Some(delivery) = self.admit::<M, Kind>(delivery, A::ACCESS, &turn) else {
            return;
        };
        if !self.begin(&delivery, &turn) {
            return;
        }
        let Some(actor) = &mut self.actor else {
            return self.nobody_home::<M>(&turn);
        };
        let mut ambient = Ambient::of(&delivery);
        let Delivery { message, reply, .. } = delivery;
        let reply = reply.unwrap_or_else(ReplyTo::nobody);
        let mut cx = Context::new(turn, &mut self.rest);
        ambient.within(|| actor.handle(message, reply, &mut cx));
    }

    /// A message whose future borrows the actor: nothing else is taken until it ends.
    pub(crate) fn handle_exclusive<M>(
        &mut self,
        delivery: Delivery<M, <A as AsyncHandler<M>>::Reply>,
        mut turn: Turn<'_, A>,
    ) where
        A: AsyncHandler<M>,
        M: Send + 'static,
    {
        type Kind = crate::handler::kind::Exclusive;
        let Some(delivery) = self.admit::<M, Kind>(delivery, Access::Write, &turn) else {
            return;
        };
        let Some(actor) = self.actor.take() else {
            return self.nobody_home::<M>(&turn);
        };
        if !self.begin(&delivery, &turn) {
            self.actor = Some(actor);
            return;
        }
        let asker = self.asker(&turn);
        let ambient = Ambient { asker: Some(asker), ..Ambient::of(&delivery) };
        let Delivery { message, reply, .. } = delivery;
        let home = Arc::clone(&self.rest.cold().home);
        let cx = AsyncContext::new(self.rest.address(&turn));
        // Made here, so that also a future that is never polled gives the actor back.
        let mut loan = Loan { actor: Some(actor), home };
        let future = async move { loan.get().handle(message, cx).await };
        turn.await_exclusive(scope::contained(future, ambient), move |seat, cx, outcome| {
            seat.fetch();
            let panic = settle(reply, outcome);
            seat.go_on(panic, cx);
        });
    }

    /// A message whose future others may interleave with.
    pub(crate) fn handle_interleaved<M>(
        &mut self,
        delivery: Delivery<M, <A as InterleavedHandler<M>>::Reply>,
        mut turn: Turn<'_, A>,
    ) where
        A: InterleavedHandler<M>,
        M: Send + 'static,
    {
        type Kind = crate::handler::kind::Shared;
        let access = <A as InterleavedHandler<M>>::ACCESS;
        let Some(delivery) = self.admit::<M, Kind>(delivery, access, &turn) else {
            return;
        };
        if !self.begin(&delivery, &turn) {
            return;
        }
        // Where others may come in, a call that comes back to the actor is no cycle.
        let asker = (A::ADMITS != Admits::All).then(|| self.asker(&turn).reentrant());
        let mut ambient = Ambient { asker, ..Ambient::of(&delivery) };
        let Delivery { message, reply, .. } = delivery;
        let Some(actor) = &mut self.actor else {
            return self.nobody_home::<M>(&turn);
        };
        let future = {
            let mut cx = Context::new(turn.reborrow(), &mut self.rest);
            ambient.within(|| actor.handle(message, &mut cx))
        };
        if A::ADMITS != Admits::All {
            self.rest.cold().gate.enter(A::ADMITS);
            self.rest.is_plain = false;
        }
        turn.await_holding(scope::contained(future, ambient), move |seat, cx, outcome| {
            let panic = settle(reply, outcome);
            if A::ADMITS != Admits::All {
                seat.rest.cold().gate.leave(A::ADMITS);
            }
            seat.go_on(panic, cx);
        });
    }

    /// After a handler's future: takes what waited for it, or lets its panic go on.
    fn go_on(&mut self, panic: Option<Panic>, turn: &mut Turn<'_, A>) {
        let Some(panic) = panic else {
            return self.drain(turn.reborrow());
        };
        if !self.rest.is_plain {
            // After the policy hook, which may put another actor into the seat. Refused only with a
            // full fast lane, and then the next future that ends takes what waits.
            drop(turn.run(|seat, turn| seat.drain(turn.reborrow())));
        }
        resume_unwind(panic);
    }

    /// Takes what waits and fits now.
    pub(crate) fn drain(&mut self, mut turn: Turn<'_, A>) {
        if self.rest.is_plain || self.rest.broken().is_some() {
            return;
        }
        while self.actor.is_some() {
            let Some(open) = self.rest.cold().gate.next() else { break };
            // A panic goes on to the policy hook; the rest comes after it.
            let run = AssertUnwindSafe(|| open(self, turn.reborrow()));
            if let Err(panic) = catch_unwind(run) {
                return self.go_on(Some(panic), &mut turn);
            }
        }
        let cold = self.rest.cold();
        if cold.gate.is_free() {
            let paused = std::mem::take(&mut cold.paused);
            self.rest.is_plain = true;
            paused.into_iter().for_each(Waker::wake);
        }
    }

    /// The message handled next passes the gate in any case.
    pub(crate) fn admit_next(&mut self) {
        if !self.rest.is_plain && self.rest.broken().is_none() {
            self.rest.cold().gate.open_once();
        }
    }

    /// Whether a stream may be pulled; if not, its waker is called when it may.
    pub(crate) fn admits_streams(&mut self, waker: &Waker) -> bool {
        if !self.rest.is_plain {
            self.rest.cold().paused.push(waker.clone());
        }
        self.rest.is_plain
    }

    /// Lets a message through the gate, keeps it, or refuses it.
    fn admit<M, K>(
        &mut self,
        delivery: Delivery<M, A::Reply>,
        access: Access,
        turn: &Turn<'_, A>,
    ) -> Option<Delivery<M, A::Reply>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        if self.rest.is_plain {
            return Some(delivery);
        }
        if let Some(failure) = self.rest.broken() {
            if let Some(reply) = delivery.reply {
                reply.fail(failure);
            }
            self.dead_letter::<M>(turn, DeadLetterReason::Dropped);
            return None;
        }
        let slot = delivery.reply.as_ref().and_then(|reply| reply.slot());
        let chain = slot.and_then(|slot| slot.chain.clone());
        let comes_back = Link::contains(chain.as_ref(), self.rest.id);
        let gate = &mut self.rest.cold().gate;
        match gate.judge(access, comes_back) {
            Verdict::Take => return Some(delivery),
            Verdict::Wait => {
                let envelope = Envelope::<M, A::Reply, K>::new(delivery);
                gate.keep(access, Box::new(|seat, turn| A::receive(seat, envelope.open(), turn)));
            }
            Verdict::Cycle => {
                let mut names = Link::names(chain.as_ref());
                names.push(turn.name().to_owned());
                if let Some(reply) = delivery.reply {
                    reply.fail(Failure::error(crate::error::CallCycle { names }));
                }
            }
            Verdict::TooMany => {
                if let Some(reply) = delivery.reply {
                    reply.fail(Failure::Refused("too many messages wait for other handlers"));
                }
                self.dead_letter::<M>(turn, DeadLetterReason::TooManyWaiting);
            }
        }
        None
    }

    /// Notes the begin of a handler. False if its deadline has passed.
    fn begin<M, R>(&mut self, delivery: &Delivery<M, R>, turn: &Turn<'_, A>) -> bool {
        self.rest.handled = self.rest.handled.wrapping_add(1);
        // Not the turn's clock: the actor may run in another group than the system's.
        let now_ns = self.rest.system.group().recent_ns();
        let begun = delivery.reply.as_ref().is_none_or(|reply| reply.begin(now_ns));
        if !begun {
            self.dead_letter::<M>(turn, DeadLetterReason::Expired);
        }
        begun
    }

    fn asker(&mut self, turn: &Turn<'_, A>) -> Asker {
        let actor = self.rest.id;
        let name = self.rest.cold().name.get_or_insert_with(|| turn.name().into());
        Asker { actor, name: Arc::clone(name), is_reentrant: false }
    }

    fn dead_letter<M>(&self, turn: &Turn<'_, A>, reason: DeadLetterReason) {
        let letters = &self.rest.system.shared().dead_letters;
        letters.add(std::any::type_name::<M>(), || turn.name().to_owned(), reason);
    }

    /// The actor was lost to a panic and is on its way out.
    #[cold]
    fn nobody_home<M>(&self, turn: &Turn<'_, A>) {
        self.dead_letter::<M>(turn, DeadLetterReason::Dropped);
    }
}

/// Answers a call with what its handler came to; gives a panic back.
fn settle<R>(reply: Option<ReplyTo<R>>, outcome: Result<R, Panic>) -> Option<Panic> {
    match (outcome, reply) {
        (Ok(answer), Some(reply)) => reply.send(answer),
        (Ok(_), None) => {}
        (Err(panic), reply) => {
            if let Some(reply) = reply {
                reply.fail(Failure::from_panic_ref(panic.as_ref()));
            }
            return Some(panic);
        }
    }
    None
}
