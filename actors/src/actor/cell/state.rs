//! The state of an actor's task: the actor itself and the crate's data beside it.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use turnwheel_runtime::internal::{Attached, Lent};
use turnwheel_runtime::Failure;

use crate::actor::cell::plain::end_panicked;
use crate::actor::cell::rare::{Deferred, RareState};
use crate::actor::{
    Actor, Address, Admits, AsyncContext, AsyncHandler, Children, Context, InterleavedHandler,
    ReplyHandler, Restarter, Turn,
};
use crate::call::{Asker, Name, ReplyTo};
use crate::large::Carry;
use crate::request::scope;
use crate::request::{Ambient, Delivery, Panic};
use crate::system::{Chain, DeadLetterReason, System};

/// The state of an actor's task.
pub struct ActorCell<A: Actor> {
    /// The actor; away while an exclusive handler's future has it.
    pub(crate) actor: Option<A>,
    pub(crate) state: CellState<A>,
}

debug_fields!(impl<A: Actor> ActorCell<A>, self =>);

/// Every actor's address knows its system.
impl<A: Actor> Attached for ActorCell<A> {
    type Attachment = System;
}

/// The part of the cell that handlers can use while the actor is borrowed.
pub(crate) struct CellState<A: Actor> {
    /// The number of this actor in the process.
    pub(crate) id: u64,
    /// Whether every message is taken at once, without gate or interceptors.
    pub(crate) is_plain: bool,
    /// The message that begins next is the tick of a timer, and no activity.
    pub(super) is_tick: bool,
    /// Messages begun, modulo 2^32.
    handled: u32,
    /// When the last message began or ended that was no tick, nanoseconds; 0 before the first.
    used_ns: u64,
    rare: Option<Box<RareState<A>>>,
}

impl<A: Actor> CellState<A> {
    pub(crate) fn rare(&mut self) -> &mut RareState<A> {
        self.rare.get_or_insert_default()
    }

    /// The interceptors around its messages; empty if there are none.
    pub(crate) fn chain(&self) -> Chain {
        self.rare.as_ref().map(|rare| rare.chain.clone()).unwrap_or_default()
    }

    pub(crate) fn is_intercepted(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| !rare.chain.is_empty())
    }

    /// Nothing waits at the gate any more.
    pub(crate) fn set_plain(&mut self) {
        self.is_plain = !self.is_intercepted();
    }

    /// Why no message is handled any more.
    pub(crate) fn broken(&self) -> Option<Failure> {
        self.rare.as_ref()?.broken.clone()
    }

    /// Whether no message is handled any more.
    pub(crate) fn is_out(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.broken.is_some() || rare.forwarder.is_some())
    }

    pub(crate) fn children(&mut self) -> &mut Children {
        &mut self.rare().children
    }

    pub(crate) fn take_children(&mut self) -> Children {
        self.rare.as_mut().map(|rare| std::mem::take(&mut rare.children)).unwrap_or_default()
    }

    pub(crate) fn take_deferred(&mut self) -> Vec<Deferred<A>> {
        self.rare.as_mut().map(|rare| std::mem::take(&mut rare.deferred)).unwrap_or_default()
    }

    /// Whether a restarted actor is in its start.
    pub(crate) fn is_restarting(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.is_restarting)
    }

    /// Notes the begin of a message. Returns whether it is activity: everything but a tick.
    #[inline(always)]
    pub(crate) fn note_begin(&mut self, now_ns: u64) -> bool {
        self.handled = self.handled.wrapping_add(1);
        if std::mem::take(&mut self.is_tick) {
            return false;
        }
        self.used_ns = now_ns;
        true
    }

    /// Notes that the actor is in use at this time.
    pub(crate) fn note_use(&mut self, now_ns: u64) {
        self.used_ns = self.used_ns.max(now_ns);
    }

    /// When it was last in use, nanoseconds on the clock of its group.
    pub(crate) fn used_ns(&self) -> u64 {
        self.used_ns
    }

    /// Messages begun, modulo 2^32: whether it makes progress.
    pub(crate) fn begun(&self) -> u32 {
        self.handled
    }

    /// Restarts of the actor so far.
    pub(crate) fn incarnation(&self) -> u64 {
        let restarter = self.rare.as_ref().and_then(|rare| rare.restarter.as_ref());
        restarter.map_or(0, Restarter::incarnation)
    }

    /// The next message is the tick of a timer, and no activity.
    pub(crate) fn expect_tick(&mut self) {
        self.is_tick = true;
    }

    pub(crate) fn kept_until_ns(&self) -> u64 {
        self.rare.as_ref().map_or(0, |rare| rare.kept_until_ns)
    }

    /// Whether streams of answers are open.
    pub(crate) fn has_open_streams(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.has_open_streams())
    }

    /// Whether a future has the actor.
    pub(crate) fn is_lent(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| !rare.lender.is_empty())
    }

    /// Whether messages wait at the gate.
    pub(crate) fn has_waiting(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.gate.has_waiting())
    }

    /// Whether a request is under way: a future of its handler, or a stream of answers.
    pub(crate) fn is_busy(&self, turn: &Turn<'_, A>) -> bool {
        let ticking = self.rare.as_ref().map_or(0, |rare| rare.ticking);
        turn.holding() > ticking || self.has_open_streams()
    }

    /// Notes that a tick that is no activity is under way, or over.
    pub(crate) fn note_tick(&mut self, is_begun: bool) {
        let ticking = &mut self.rare().ticking;
        *ticking = if is_begun { *ticking + 1 } else { ticking.saturating_sub(1) };
    }

    /// Frees memory that the actor needed earlier, if none of it is in use.
    pub(crate) fn trim(&mut self) {
        if self.is_plain && self.rare.as_ref().is_some_and(|rare| rare.is_unused()) {
            self.rare = None;
        }
    }

    pub(crate) fn address(&self, turn: &Turn<'_, A>) -> Address<A> {
        Address::new(turn.task())
    }
}

impl<A: Actor> ActorCell<A> {
    /// Without an actor, the first turn makes one.
    pub(crate) fn new(actor: Option<A>, id: u64, restarter: Option<Restarter<A>>) -> Self {
        let rare = restarter.map(|restarter| {
            Box::new(RareState { restarter: Some(restarter), ..RareState::default() })
        });
        let (is_plain, is_tick) = (true, false);
        Self { actor, state: CellState { id, is_plain, is_tick, handled: 0, used_ns: 0, rare } }
    }

    /// Adds these interceptors around its messages; `name` replaces its own name for them.
    pub(crate) fn intercepted(mut self, chain: Chain, name: Option<Arc<str>>) -> Self {
        if !chain.is_empty() {
            let rare = self.state.rare();
            (rare.chain, rare.name) = (chain, name);
            self.state.is_plain = false;
        }
        self
    }

    /// Creates the actor if there is none and there is a factory.
    pub(crate) fn make(&mut self) {
        if self.actor.is_none() {
            let rare = self.state.rare.as_mut();
            let restarter = rare.and_then(|rare| rare.restarter.as_mut());
            self.actor = restarter.map(Restarter::make);
        }
    }

    /// Lends the actor to a future.
    pub(crate) fn lend(&mut self) -> Option<Lent<A>> {
        let actor = self.actor.take()?;
        Some(self.state.rare().lender.lend(actor))
    }

    /// Forgets the futures that the former actor had under way. Messages that waited for them still
    /// wait.
    pub(crate) fn forget_futures(&mut self) {
        let rare = self.state.rare();
        rare.gate.clear();
        rare.ticking = 0;
        if !rare.gate.has_waiting() {
            self.state.set_plain();
        }
    }

    /// The actor of a task that was not spawned.
    pub(crate) fn into_actor(self) -> A {
        match self.actor {
            Some(actor) => actor,
            None => unreachable!("a cell is made with its actor"),
        }
    }

    /// Fetches the actor home if its handler's future has ended.
    pub(crate) fn take_back(&mut self) {
        if self.actor.is_none() {
            self.actor = self.state.rare.as_mut().and_then(|rare| rare.lender.fetch());
        }
    }

    /// A message whose handler answers by hand.
    pub(crate) fn run_replying<M, P: Carry<M>>(
        &mut self,
        delivery: Delivery<P, <A as ReplyHandler<M>>::Reply>,
        turn: Turn<'_, A>,
    ) where
        A: ReplyHandler<M>,
        M: Send + 'static,
    {
        if self.begin(&delivery, &turn).is_none() {
            return;
        }
        let Some(actor) = &mut self.actor else { return self.drop_without_actor::<M>(&turn) };
        let ambient = Ambient::of(&delivery, None);
        let Delivery { message, reply, .. } = delivery;
        let reply = reply.unwrap_or_else(ReplyTo::nobody);
        let mut cx = Context::new(turn, &mut self.state);
        ambient.within(|| actor.handle(message.open(), reply, &mut cx));
    }

    /// A message whose future borrows the actor: no other message is taken until it ends.
    pub(crate) fn run_exclusive<M, P: Carry<M>>(
        &mut self,
        delivery: Delivery<P, <A as AsyncHandler<M>>::Reply>,
        mut turn: Turn<'_, A>,
    ) where
        A: AsyncHandler<M>,
        M: Send + 'static,
    {
        if self.actor.is_none() {
            return self.drop_without_actor::<M>(&turn);
        }
        let Some(is_activity) = self.begin(&delivery, &turn) else { return };
        let asker = self.asker(&turn, false);
        let mut ambient = Ambient::of(&delivery, Some(asker));
        let Delivery { message, reply, .. } = delivery;
        let cx = AsyncContext::new(self.state.address(&turn));
        // Made here, so that also a future that is never polled gives the actor back.
        let Some(mut lent) = self.lend() else { return };
        let future = async move {
            let make = || P::keep(lent.handle(message.open(), cx));
            scope::made_contained(make, &mut ambient).await
        };
        turn.run_exclusive(future, move |cell, cx, outcome| {
            cell.take_back();
            let panic = settle(reply, outcome.map(P::answer));
            cell.go_on(panic, is_activity, cx);
        });
    }

    /// A message whose future lets other messages in.
    pub(crate) fn run_interleaved<M, P: Carry<M>>(
        &mut self,
        delivery: Delivery<P, <A as InterleavedHandler<M>>::Reply>,
        mut turn: Turn<'_, A>,
    ) where
        A: InterleavedHandler<M>,
        M: Send + 'static,
    {
        let Some(is_activity) = self.begin(&delivery, &turn) else { return };
        // Where other messages may come in, a call that returns to the actor is no cycle.
        let asker = (A::ADMITS != Admits::All).then(|| self.asker(&turn, true));
        let ambient = Ambient::of(&delivery, asker);
        let Delivery { message, reply, .. } = delivery;
        let Some(actor) = &mut self.actor else { return self.drop_without_actor::<M>(&turn) };
        let made = {
            let mut cx = Context::new(turn.reborrow(), &mut self.state);
            let make = AssertUnwindSafe(|| {
                ambient.within(|| P::keep(actor.handle(message.open(), &mut cx)))
            });
            catch_unwind(make)
        };
        let future = match made {
            Ok(future) => future,
            Err(panic) => return end_panicked(reply, panic),
        };
        self.enter(A::ADMITS);
        turn.await_holding(scope::contained(future, ambient), move |cell, cx, outcome| {
            let panic = settle(reply, outcome.map(P::answer));
            cell.leave(A::ADMITS);
            cell.go_on(panic, is_activity, cx);
        });
    }

    /// Notes the begin of a handler, and returns whether its message is activity. `None` if its
    /// deadline has passed, or its caller has given up: then the message is a dead letter.
    pub(crate) fn begin<M, R>(
        &mut self,
        delivery: &Delivery<M, R>,
        turn: &Turn<'_, A>,
    ) -> Option<bool> {
        let is_activity = self.state.note_begin(turn.now_ns());
        // Not the turn's clock: the actor may run in another group than the system's.
        let now_ns = turn.attachment().group().recent_ns();
        if let Some(reply) = delivery.reply.as_ref().filter(|reply| !reply.begin(now_ns)) {
            let has_expired = reply.has_expired(turn.attachment().group());
            self.dead_letter::<M>(turn, DeadLetterReason::of_unbegun(has_expired));
            return None;
        }
        Some(is_activity)
    }

    /// The identity with which it calls others.
    pub(crate) fn asker(&mut self, turn: &Turn<'_, A>, is_reentrant: bool) -> Asker {
        if let Some(asker) = &self.state.rare().askers[usize::from(is_reentrant)] {
            return asker.clone();
        }
        let by_type = std::any::type_name::<A>();
        let name = match turn.name() == by_type {
            true => Name::Type(by_type),
            false => Name::Own(self.name(turn)),
        };
        let asker = Asker { actor: self.state.id, name, is_reentrant };
        self.state.rare().askers[usize::from(is_reentrant)] = Some(asker.clone());
        asker
    }

    /// The name that call chains and interceptors know it by.
    pub(crate) fn name(&mut self, turn: &Turn<'_, A>) -> Arc<str> {
        Arc::clone(self.state.rare().name.get_or_insert_with(|| turn.name().into()))
    }

    pub(crate) fn class(&mut self, turn: &Turn<'_, A>) -> Arc<str> {
        Arc::clone(self.state.rare().class.get_or_insert_with(|| turn.class().into()))
    }

    /// Notes a future of a handler that keeps messages out.
    pub(crate) fn enter(&mut self, admits: Admits) {
        if admits != Admits::All {
            self.state.rare().gate.enter(admits);
            self.state.is_plain = false;
        }
    }

    /// Notes its end.
    pub(crate) fn leave(&mut self, admits: Admits) {
        if admits != Admits::All {
            self.state.rare().gate.leave(admits);
        }
    }

    pub(crate) fn dead_letter<M>(&self, turn: &Turn<'_, A>, reason: DeadLetterReason) {
        turn.attachment().lose::<M>(|| turn.name().to_owned(), reason);
    }

    /// The actor was lost to a panic and is on its way out.
    #[cold]
    pub(crate) fn drop_without_actor<M>(&self, turn: &Turn<'_, A>) {
        self.dead_letter::<M>(turn, DeadLetterReason::Dropped);
    }
}

/// Answers a call with its handler's outcome; returns a panic.
pub(crate) fn settle<R>(reply: Option<ReplyTo<R>>, outcome: Result<R, Panic>) -> Option<Panic> {
    match outcome {
        Ok(answer) => {
            if let Some(reply) = reply {
                reply.send(answer);
            }
        }
        Err(panic) => {
            if let Some(reply) = reply {
                reply.fail(Failure::from_panic_ref(panic.as_ref()));
            }
            return Some(panic);
        }
    }
    None
}
