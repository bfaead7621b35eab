//! The context of a handler: everything it may do besides changing its actor.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use turnwheel_runtime::{
    Completion, Failure, Group, Late, Phase, Subscription, Timer, TimerError, TimersFull,
};

use crate::actor::{kind, Actor, Address, CellState, Children, Envelope, MessageFor, Turn};
use crate::call::{is_abandoned, Abandoned, Caller};
use crate::error::TellError;
use crate::large::{by_size, is_any_large, Carry, Large};
use crate::request::{self, scope, Ambient, Delivery};
use crate::system::intercept::outgoing::{self, Target};
use crate::system::{DeadLetterReason, System, OUTGOING_BIT};

/// The running actor as its own handler or hook sees it.
pub struct Context<'a, A: Actor> {
    turn: Turn<'a, A>,
    state: &'a mut CellState<A>,
    /// The caller of a plain handler; that of other handlers is in the ambient request.
    caller: Option<&'a dyn Caller>,
}

debug_fields!(impl<A: Actor> Context<'_, A>, self => actor: self.name());

impl<'a, A: Actor> Context<'a, A> {
    #[inline(always)]
    pub(crate) fn new(turn: Turn<'a, A>, state: &'a mut CellState<A>) -> Self {
        Self { turn, state, caller: None }
    }

    /// Context of a plain handler whose caller waits.
    #[inline(always)]
    pub(crate) fn asked_by(mut self, caller: &'a dyn Caller) -> Self {
        self.caller = Some(caller);
        self
    }

    /// The address of this actor.
    pub fn myself(&self) -> Address<A> {
        self.state.address(&self.turn)
    }

    /// The name given when it was spawned, or the name of its class.
    pub fn name(&self) -> &str {
        self.turn.name()
    }

    /// The system it lives in.
    pub fn system(&self) -> &System {
        self.turn.attachment()
    }

    /// The group it runs in.
    pub fn group(&self) -> Group {
        self.turn.group()
    }

    /// Nanoseconds on the group's clock, constant within a message; see
    /// [`turnwheel_runtime::Context::now_ns`].
    pub fn now_ns(&self) -> u64 {
        self.turn.now_ns()
    }

    /// Whether the caller has stopped waiting: it has dropped its [`Ask`](crate::Ask), its deadline
    /// has passed, or its own caller has given up. False for a message without a caller.
    ///
    /// For handlers with long work, which nobody needs after that. Cost: a look at the clock and at
    /// each call in the chain.
    ///
    /// ```
    /// # use turnwheel_actors::{Actor, Context, Handler, System};
    /// # use turnwheel_runtime::Group;
    /// # use std::convert::Infallible;
    /// # struct Searcher;
    /// # impl Actor for Searcher { type Error = Infallible; }
    /// struct Search(Vec<u64>);
    /// impl Handler<Search> for Searcher {
    ///     type Reply = Option<u64>;
    ///     fn handle(&mut self, Search(all): Search, cx: &mut Context<'_, Self>) -> Option<u64> {
    ///         for part in all.chunks(4_096) {
    ///             if cx.is_abandoned() {
    ///                 return None;
    ///             }
    ///             if let Some(found) = part.iter().find(|number| **number > 100) {
    ///                 return Some(*found);
    ///             }
    ///         }
    ///         None
    ///     }
    /// }
    /// # let group = Group::builder("doc").workers(1).build()?;
    /// # let searcher = System::new(&group).spawn(Searcher)?;
    /// assert_eq!(searcher.ask(Search(vec![7, 700])).wait()?, Some(700));
    /// # group.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_abandoned(&self) -> bool {
        match self.caller {
            Some(caller) => caller.has_given_up(self.system().group()),
            None => is_call_abandoned(self.system()),
        }
    }

    /// Completes when [`Context::is_abandoned`] becomes true, for the future of an
    /// [`InterleavedHandler`](crate::InterleavedHandler). A plain handler, which has answered when
    /// it returns, has nothing to wait for: from there it never completes.
    pub fn abandoned(&self) -> Abandoned {
        Abandoned::new(request::call(), self.system().group().clone())
    }

    /// Closes this actor in order: earlier messages are handled first.
    pub fn close(&mut self) {
        self.turn.close();
    }

    /// Skips the queued messages and closes in order, after this message.
    pub fn stop(&mut self) {
        self.turn.stop();
    }

    /// Fails this actor after this message, without a call of [`on_failure`](Actor::on_failure).
    pub fn fail(&mut self, failure: Failure) {
        self.turn.fail(failure);
    }

    /// Whether it is on its way out.
    pub fn is_closing(&self) -> bool {
        self.turn.is_closing()
    }

    /// Sends a message to this actor, behind all queued ones, and lets other actors run first.
    ///
    /// # Errors
    ///
    /// As [`Address::tell`]; the message comes back.
    pub fn tell_self<M: MessageFor<A, K>, K: 'static>(
        &mut self,
        message: M,
    ) -> Result<(), TellError<M>> {
        by_size!(<M, K> self.tell_self_as(message))
    }

    #[inline(always)]
    fn tell_self_as<M: Send + 'static, P: MessageFor<A, K> + Carry<M>, K: 'static>(
        &mut self,
        message: P,
    ) -> Result<(), TellError<P>> {
        if self.state.id & OUTGOING_BIT != 0 {
            return self.tell_self_intercepted::<M, P, K>(message);
        }
        self.tell_self_plain::<P, K>(message)
    }

    #[cold]
    fn tell_self_intercepted<M: Send + 'static, P: MessageFor<A, K> + Carry<M>, K: 'static>(
        &mut self,
        message: P,
    ) -> Result<(), TellError<P>> {
        let system = self.system().clone();
        let (actor, class) = (self.name().to_owned(), self.turn.class().to_owned());
        let target = Target { system: &system, actor, class };
        let send = |message| self.tell_self_plain::<P, K>(message);
        outgoing::tell::<M, P>(target, message, send, outgoing::lost)
    }

    #[inline(always)]
    fn tell_self_plain<M: MessageFor<A, K>, K: 'static>(
        &mut self,
        message: M,
    ) -> Result<(), TellError<M>> {
        self.turn.submit_job(Envelope::<M, M::Reply, K>::told(message)).map_err(|error| {
            let reason = DeadLetterReason::Refused(error.kind);
            self.turn.attachment().lose::<M>(|| self.turn.name().to_owned(), reason);
            error.into()
        })
    }

    /// Handles a message of its own after a delay, never early. The request context goes with it.
    /// The timer ends with the actor, also at a restart, and does not keep an idle entity active.
    /// For more control: [`Context::timer`].
    ///
    /// # Errors
    ///
    /// [`TimersFull`] when the group holds as many timers as it may.
    pub fn tell_after<M: MessageFor<A, K>, K: 'static>(
        &mut self,
        delay: Duration,
        message: M,
    ) -> Result<Timer, TimersFull> {
        match const { is_any_large::<M, M::Reply>() } {
            true => self.tell_after_as::<Large<M>, kind::Boxed<K>>(delay, Carry::of(message)),
            false => self.tell_after_as::<M, K>(delay, message),
        }
    }

    fn tell_after_as<M: MessageFor<A, K>, K: 'static>(
        &mut self,
        delay: Duration,
        message: M,
    ) -> Result<Timer, TimersFull> {
        let (baggage, incarnation) = (request::baggage(), self.state.incarnation());
        self.turn.after(delay, move |cell, turn| {
            if cell.state.incarnation() != incarnation {
                return;
            }
            cell.state.expect_tick();
            M::receive(cell, Delivery { message, baggage, reply: None }, turn.reborrow());
        })
    }

    /// Handles a message of its own again and again; `late` is the rule for missed ones.
    ///
    /// # Errors
    ///
    /// [`TimerError::ZeroPeriod`]; [`TimerError::Full`].
    pub fn tell_every<M: MessageFor<A, K>, K: 'static>(
        &mut self,
        period: Duration,
        late: Late,
        mut message: impl FnMut() -> M + Send + 'static,
    ) -> Result<Timer, TimerError> {
        let (baggage, incarnation) = (request::baggage(), self.state.incarnation());
        let myself = Arc::new(OnceLock::<Timer>::new());
        let known = Arc::clone(&myself);
        let timer = self.turn.every(period, late, move |cell, turn| {
            if cell.state.incarnation() != incarnation {
                known.get().map(Timer::cancel);
                return;
            }
            let delivery = Delivery { message: message(), baggage: baggage.clone(), reply: None };
            cell.state.expect_tick();
            M::receive(cell, delivery, turn.reborrow());
        })?;
        Ok(myself.get_or_init(|| timer).clone())
    }

    /// Runs a future beside this actor's messages; handles the message that `map` makes of its
    /// output.
    ///
    /// Continues with an answer without blocking the actor: `cx.pipe(other.ask(Question), |answer|
    /// Answered(answer))`. The actor does not close in order before the future is done. Calls of
    /// the future belong to the current request: they carry its values, deadline and call chain.
    pub fn pipe<F: Future + Send + 'static, M: MessageFor<A, K>, K: 'static>(
        &mut self,
        future: F,
        map: impl FnOnce(F::Output) -> M + Send + 'static,
    ) -> Subscription {
        let baggage = request::baggage();
        let ambient = Ambient::inherited();
        let future = scope::within(future, ambient);
        if self.state.is_restarting() {
            // In its phase nothing holds messages back any more, as it did at the first start.
            return self.turn.await_exclusive(future, move |cell, turn, output| {
                let delivery = Delivery { message: map(output), baggage, reply: None };
                cell.receive_at_start::<M, K>(delivery, turn);
            });
        }
        self.turn.await_holding(future, move |cell, turn, output| {
            let delivery = Delivery { message: map(output), baggage, reply: None };
            M::receive(cell, delivery, turn.reborrow());
        })
    }

    /// Runs a closure on the group's blocking pool; handles the message that `map` makes of its
    /// result.
    pub fn run_blocking<T: Send + 'static, M: MessageFor<A, K>, K: 'static>(
        &mut self,
        block: impl FnOnce() -> T + Send + 'static,
        limit: Option<Duration>,
        map: impl FnOnce(Result<T, Failure>) -> M + Send + 'static,
    ) -> Subscription {
        let done: Completion<T> = self.group().run_blocking(block, limit);
        self.pipe(done, map)
    }

    pub(crate) fn children(&mut self) -> &mut Children {
        self.state.children()
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.state.incarnation()
    }

    pub(crate) fn turn_mut(&mut self) -> &mut Turn<'a, A> {
        &mut self.turn
    }

    /// Runs a registration now, or when the actor has started.
    pub(crate) fn once_started(
        &mut self,
        register: impl FnOnce(&mut Turn<'_, A>) + Send + 'static,
    ) {
        if self.turn.phase() < Phase::Started {
            self.state.rare().deferred.push(Box::new(register));
        } else {
            register(&mut self.turn);
        }
    }

    pub(crate) fn set_kept_until(&mut self, until_ns: u64) {
        self.state.rare().kept_until_ns = until_ns;
    }

    /// The token that a stream of answers holds while it is open.
    pub(crate) fn open_stream(&mut self) -> Arc<()> {
        Arc::clone(self.state.rare().open_streams.get_or_insert_default())
    }

    /// Counts a message whose handler does not begin as a dead letter.
    #[cold]
    pub(crate) fn unbegun<M>(&self, has_expired: bool) {
        let name = || self.turn.name().to_owned();
        self.turn.attachment().lose::<M>(name, DeadLetterReason::of_unbegun(has_expired));
    }
}

/// Whether the caller of the call that is handled now has given up.
fn is_call_abandoned(system: &System) -> bool {
    let call = request::call().and_then(|call| call.upgrade());
    call.is_some_and(|call| is_abandoned(&call, system.group()))
}

/// The running actor as the future of an [`AsyncHandler`](crate::AsyncHandler) sees it.
#[derive(Debug)]
pub struct AsyncContext<A: Actor> {
    myself: Address<A>,
}

impl<A: Actor> AsyncContext<A> {
    pub(crate) fn new(myself: Address<A>) -> Self {
        Self { myself }
    }

    /// The address of this actor. An `ask` to it fails at once: it waits for itself.
    pub fn myself(&self) -> &Address<A> {
        &self.myself
    }

    /// The system it lives in.
    pub fn system(&self) -> &System {
        self.myself.system()
    }

    /// Whether the caller has stopped waiting; as [`Context::is_abandoned`]. Valid within the
    /// future of the handler; always false elsewhere, as in a thread of your own: use
    /// [`AsyncContext::abandoned`] there.
    pub fn is_abandoned(&self) -> bool {
        is_call_abandoned(self.system())
    }

    /// Completes when the caller has stopped waiting: it has dropped its [`Ask`](crate::Ask), its
    /// deadline has passed, or its own caller has given up. Never completes without a caller. Call
    /// it within the future of the handler; the result may be used anywhere.
    ///
    /// ```
    /// # use turnwheel_actors::{Actor, AsyncContext, AsyncHandler, System};
    /// # use turnwheel_runtime::Group;
    /// # use std::{convert::Infallible, time::Duration};
    /// # struct Prober;
    /// # impl Actor for Prober { type Error = Infallible; }
    /// struct Probe;
    /// impl AsyncHandler<Probe> for Prober {
    ///     type Reply = &'static str;
    ///     async fn handle(&mut self, _: Probe, cx: AsyncContext<Self>) -> &'static str {
    ///         loop {
    ///             // One step of long work, then a look back.
    ///             let step = cx.sleep(Duration::from_millis(1));
    ///             if step.await.is_err() || cx.is_abandoned() {
    ///                 return "given up";
    ///             }
    ///         }
    ///     }
    /// }
    /// # let group = Group::builder("doc").workers(1).build()?;
    /// # let prober = System::new(&group).spawn(Prober)?;
    /// let probe = prober.ask_within(Probe, Duration::from_millis(5));
    /// assert!(probe.wait().is_err());
    /// # group.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn abandoned(&self) -> Abandoned {
        Abandoned::new(request::call(), self.system().group().clone())
    }

    /// Completes after a delay.
    pub fn sleep(&self, delay: Duration) -> Completion<()> {
        self.myself.system().group().sleep(delay)
    }
}
