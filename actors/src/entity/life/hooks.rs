//! Begin and end of one activation.

use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use turnwheel_runtime::{Completion, Failure, Lifecycle, OnFailure, Phase};

use crate::actor::{ActorCell, Context, Directive, Exit, Outcome, Restart, RestartCounter, Turn};
use crate::call::{nanos, CallChain};
use crate::entity::{
    Directory, Entities, Entity, EntityKey, Failures, Home, Ownership, StateStore,
};
use crate::request::{scope, Ambient};
use crate::system::id;

/// Until when an activation is kept that is held.
pub(crate) const HELD_NS: u64 = u64::MAX;

/// Pause before the second attempt to activate; each further one waits twice as long.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(20);

/// The context of an entity that is being made.
#[derive(Debug)]
pub struct CreateContext<'a, E: Entity> {
    key: &'a E::Key,
    directory: &'a Directory<E>,
}

impl<E: Entity> CreateContext<'_, E> {
    /// Its key.
    pub fn key(&self) -> &E::Key {
        self.key
    }

    /// The entities that it belongs to. An activation that they do not outlive fails with
    /// [`Failure::Closed`].
    pub fn entities(&self) -> Entities {
        self.directory.entities().unwrap_or_else(|| Failure::Closed.raise())
    }
}

/// The context of an entity's activation.
pub struct EntityContext<E: Entity> {
    key: E::Key,
    id: u64,
    directory: Arc<Directory<E>>,
    entities: Entities,
}

clone_fields!(impl<E: Entity> EntityContext<E>, key, id, directory, entities);

debug_fields!(impl<E: Entity> EntityContext<E>, self => key: self.key_text());

impl<E: Entity> EntityContext<E> {
    pub(crate) fn directory(&self) -> &Directory<E> {
        &self.directory
    }

    /// The number of its activation with the flag bits, as the directory knows it.
    pub(crate) fn raw_id(&self) -> u64 {
        self.id
    }

    /// Its key.
    pub fn key(&self) -> &E::Key {
        &self.key
    }

    /// Its key as text.
    pub fn key_text(&self) -> String {
        self.key.text().into_owned()
    }

    /// A number that no other activation of this process has.
    pub fn activation(&self) -> u64 {
        id::bare(self.id)
    }

    /// The entities of its system.
    pub fn entities(&self) -> &Entities {
        &self.entities
    }

    /// The store of its system.
    pub fn store(&self) -> &Arc<dyn StateStore> {
        self.entities.store()
    }

    /// The epoch of the key's owner: of this process, unless the key has moved since the activation
    /// was made.
    pub fn epoch(&self) -> u64 {
        self.place().epoch
    }

    pub(crate) fn place(&self) -> Ownership {
        self.entities.shared.settings.placement.place(E::NAME, &self.key.text())
    }

    /// The activation that is provided: from now on it is left out.
    pub(crate) fn activates_by_default(&self) {
        self.directory.is_activated_by_default.store(true, Ordering::Relaxed);
    }

    /// Reports the current size of this activation in bytes: for changes after the last call of its
    /// [size](Entity::size), with a [budget](crate::entity::EntitiesBuilder::memory_budget). A
    /// short lock.
    pub fn resized(&self, bytes: usize) {
        self.directory.measured(&self.key, self.id, bytes);
    }

    /// Completes after a delay.
    pub fn sleep(&self, delay: Duration) -> Completion<()> {
        self.entities.system().group().sleep(delay)
    }
}

/// The lifecycle of an entity's task.
pub(crate) struct EntityHooks<E: Entity> {
    key: E::Key,
    directory: Arc<Directory<E>>,
    /// The failures of the activations before this one, until it has begun.
    failures: Option<Failures>,
    /// Whether messages have waited for it.
    is_awaited: bool,
    /// Whether it makes way for another, since it was stuck.
    is_stuck: bool,
    restarts: Option<Box<RestartCounter>>,
}

impl<E: Entity> EntityHooks<E> {
    pub(crate) fn new(
        key: E::Key,
        directory: Arc<Directory<E>>,
        failures: Option<Failures>,
        is_awaited: bool,
    ) -> Self {
        Self { key, directory, failures, is_awaited, is_stuck: false, restarts: None }
    }

    /// Makes the entity and runs its activation, to its end at once if it does not wait.
    fn activate(&self, cell: &mut ActorCell<E>, turn: &mut Turn<'_, E>) {
        let begun = catch_unwind(AssertUnwindSafe(|| {
            let cx = CreateContext { key: &self.key, directory: &self.directory };
            cell.actor = Some(E::create_in(&cx));
            cell.start(turn)
        }));
        if let Err(failure) = begun.unwrap_or_else(|panic| Err(Failure::from_panic(panic))) {
            return self.settle(cell, turn, Err(failure));
        }
        if self.directory.is_activated_by_default.load(Ordering::Relaxed) {
            return self.settle(cell, turn, Ok(()));
        }
        let Some(entities) = self.directory.entities() else {
            return self.settle(cell, turn, Err(Failure::Closed));
        };
        let (key, directory) = (self.key.clone(), Arc::clone(&self.directory));
        let cx = EntityContext { key, id: cell.state.id, directory, entities };
        // Its calls must not come back to it meanwhile: it takes no message before it is active.
        let chain = CallChain::waiting(cell.asker(turn, false), None);
        let ambient = Ambient { chain, ..Ambient::default() };
        let mut attempts = attempts(cell, cx, ambient);
        // Most activations do not wait, and so need no subscription.
        let mut noop = std::task::Context::from_waker(Waker::noop());
        match contained_poll(&mut attempts, &mut noop) {
            Poll::Ready(outcome) => self.settle(cell, turn, outcome),
            Poll::Pending => {
                let hooks = self.again();
                turn.await_exclusive(limited(turn, attempts), move |cell, turn, outcome| {
                    hooks.settle(cell, turn, outcome);
                });
            }
        }
    }

    /// Makes the entity again after a failure: nothing is handled before its activation is over.
    fn activate_again(&self, cell: &mut ActorCell<E>, turn: &mut Turn<'_, E>) {
        cell.run_as_start(|cell| self.activate(cell, turn));
    }

    /// A copy for later calls.
    fn again(&self) -> Self {
        let (key, directory) = (self.key.clone(), Arc::clone(&self.directory));
        Self::new(key, directory, None, self.is_awaited)
    }

    /// Takes a call that has come back to this ending activation, behind the future that holds the
    /// actor.
    fn take_returning(&self, cell: &mut ActorCell<E>, turn: &mut Turn<'_, E>) {
        cell.take_back();
        if cell.actor.is_none() && cell.state.is_lent() {
            if self.directory.has_returning(&self.key, cell.state.id) {
                let hooks = self.again();
                turn.await_exclusive(std::future::ready(()), move |cell, turn, ()| {
                    hooks.take_returning(cell, turn);
                });
            }
            return;
        }
        if let Some(message) = self.directory.next_returning(&self.key, cell.state.id) {
            // The next one at the next look, also if this one panics.
            turn.task().interrupt();
            message.receive(cell, turn.reborrow());
        }
    }

    /// Ends an activation if its state is stale after the future that holds the actor.
    fn fence(&self, state: Weak<Home>, cell: &mut ActorCell<E>, turn: &mut Turn<'_, E>) {
        cell.take_back();
        if cell.actor.is_none() && cell.state.is_lent() {
            let hooks = self.again();
            turn.await_exclusive(std::future::ready(()), move |cell, turn, ()| {
                hooks.fence(state, cell, turn);
            });
        } else if turn.phase() <= Phase::Started && state.upgrade().is_some_and(|it| it.is_stale())
        {
            tracing::info!(
                entity = std::any::type_name::<E>(), key = %self.key.text(),
                "passivated: its state was written by another"
            );
            self.directory.hand_over(&self.key, cell, turn);
        }
    }

    /// The continuation of an activation.
    fn settle(&self, cell: &mut ActorCell<E>, turn: &mut Turn<'_, E>, outcome: Outcome) {
        cell.take_back();
        match outcome {
            Ok(()) => {
                self.directory.measure(&self.key, cell);
                cell.drain_after_start(turn);
            }
            // The key has moved meanwhile: nothing was done, and its messages go to its owner.
            Err(failure) if self.directory.is_elsewhere(&self.key) => {
                tracing::debug!(
                    entity = std::any::type_name::<E>(), key = %self.key.text(), %failure,
                    "an activation ends, as its key has moved"
                );
                self.directory.hand_over(&self.key, cell, turn);
            }
            Err(failure) => {
                tracing::warn!(
                    entity = std::any::type_name::<E>(), key = %self.key.text(), %failure,
                    "an activation failed"
                );
                // Messages in the mailbox fail; later messages wait for the end.
                cell.refuse_all(failure, turn);
                self.directory.leaves(&self.key, cell.state.id);
                turn.close();
            }
        }
    }

    /// The last act: from here on the key may be activated again.
    fn ended(&mut self, cell: &mut ActorCell<E>, failure: Option<&Failure>) {
        let broken = match self.is_stuck {
            true => Some(Failure::TimedOut(self.directory.stuck_limit())),
            false => cell.state.broken(),
        };
        let failure = broken.as_ref().or(failure);
        let exit = failure.map_or(Exit::Closed, |failure| Exit::Failed(failure.clone()));
        let told = catch_unwind(AssertUnwindSafe(|| cell.end(&exit)));
        // A key whose activation was stuck is free at once.
        let held = failure.filter(|_| !self.is_stuck);
        self.directory.has_ended(&self.key, cell.state.id, held, self.failures.take());
        self.directory.collector.stale.lock().remove(&cell.state.id);
        if let Err(panic) = told {
            std::panic::resume_unwind(panic);
        }
    }
}

type Activation = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// The activation of the entity in its cell, with its attempts.
fn attempts<E: Entity>(
    cell: &mut ActorCell<E>,
    cx: EntityContext<E>,
    mut ambient: Ambient,
) -> Activation {
    let lend = cell.lend();
    let attempts = async move {
        let Some(mut lent) = lend else { return Err(Failure::Closed) };
        let mut pause = ATTEMPT_PAUSE;
        for _ in 1..E::ACTIVATION_ATTEMPTS {
            if attempt(&mut *lent, &cx, &mut ambient).await?.is_ok() {
                return Ok(());
            }
            cx.sleep(pause).await?;
            pause = pause.saturating_mul(2);
        }
        attempt(&mut *lent, &cx, &mut ambient).await?.map_err(Failure::error)
    };
    Box::pin(attempts)
}

/// One attempt to activate an entity. A panic is a failure, and no further attempt follows it.
async fn attempt<E: Entity>(
    entity: &mut E,
    cx: &EntityContext<E>,
    ambient: &mut Ambient,
) -> Result<Result<(), E::Error>, Failure> {
    let activated = scope::made_contained(|| entity.activate(cx.clone()), ambient);
    activated.await.map_err(Failure::from_panic)
}

/// A panic is a failure.
fn contained_poll(attempts: &mut Activation, cx: &mut std::task::Context<'_>) -> Poll<Outcome> {
    let polled = catch_unwind(AssertUnwindSafe(|| attempts.as_mut().poll(cx)));
    polled.unwrap_or_else(|panic| Poll::Ready(Err(Failure::from_panic(panic))))
}

/// An activation that waits, with its limit.
fn limited<E: Entity>(turn: &Turn<'_, E>, mut attempts: Activation) -> Activation {
    let group = turn.attachment().group().clone();
    let mut limit: Option<Completion<()>> = None;
    Box::pin(std::future::poll_fn(move |cx| {
        if let Poll::Ready(outcome) = contained_poll(&mut attempts, cx) {
            return Poll::Ready(outcome);
        }
        if E::ACTIVATION_LIMIT == Duration::MAX {
            return Poll::Pending;
        }
        let limit = limit.get_or_insert_with(|| group.sleep(E::ACTIVATION_LIMIT));
        match Pin::new(limit).poll(cx) {
            Poll::Ready(_) => Poll::Ready(Err(Failure::TimedOut(E::ACTIVATION_LIMIT))),
            Poll::Pending => Poll::Pending,
        }
    }))
}

impl<E: Entity> Lifecycle<ActorCell<E>> for EntityHooks<E> {
    fn starting(&mut self, cell: &mut ActorCell<E>, turn: &mut Turn<'_, E>) -> Outcome {
        if self.is_awaited {
            // Waiting messages are in the mailbox before any close: each activation makes progress,
            // even one that passivates itself at once.
            drop(self.directory.shard(&self.key));
        }
        self.activate(cell, turn);
        Ok(())
    }

    fn started(&mut self, cell: &mut ActorCell<E>, turn: &mut Turn<'_, E>) -> Outcome {
        // This hook also follows an activation that has failed: that cell is broken.
        if cell.state.broken().is_none() {
            self.failures = None;
        }
        cell.state.take_deferred().into_iter().for_each(|register| register(turn));
        // Many rest for long, and few need it later.
        cell.state.trim();
        Ok(())
    }

    fn closing(&mut self, cell: &mut ActorCell<E>, turn: &mut Turn<'_, E>) -> Outcome {
        self.directory.leaves(&self.key, cell.state.id);
        let is_told = !self.is_stuck && cell.state.broken().is_none();
        cell.close_in_order(is_told, turn)
    }

    fn interrupted(&mut self, cell: &mut ActorCell<E>, turn: &mut Turn<'_, E>) -> Outcome {
        self.take_returning(cell, turn);
        self.is_stuck |= self.directory.makes_way(&self.key, cell, turn);
        let stale = self.directory.collector.stale.lock().remove(&cell.state.id);
        stale.into_iter().for_each(|state| self.fence(state, cell, turn));
        Ok(())
    }

    fn closed(&mut self, cell: &mut ActorCell<E>, _: &mut Turn<'_, E>) -> Outcome {
        self.ended(cell, None);
        Ok(())
    }

    fn failed(&mut self, cell: &mut ActorCell<E>, turn: &mut Turn<'_, E>, failure: &Failure) {
        cell.state.take_children().close_alone(&turn.group());
        self.ended(cell, Some(failure));
    }

    fn on_failure(
        &mut self,
        cell: &mut ActorCell<E>,
        turn: &mut Turn<'_, E>,
        failure: &Failure,
    ) -> OnFailure {
        match cell.with_actor(turn, |actor, cx| actor.on_failure(failure, cx)) {
            Some(Directive::Resume) => return OnFailure::Resume,
            Some(Directive::Stop) => return OnFailure::Stop,
            Some(Directive::Escalate) | None => return OnFailure::Escalate,
            Some(Directive::Restart) => {}
        }
        let fresh = || Box::new(RestartCounter::new(Restart::default()));
        let restarts = self.restarts.get_or_insert_with(fresh);
        if restarts.next(turn.group().now_ns(), cell.state.id).is_none() {
            cell.refuse_all(failure.clone(), turn);
            self.directory.leaves(&self.key, cell.state.id);
            turn.close();
            return OnFailure::Resume;
        }
        // Timers and futures of the failed actor end with it; messages in the mailbox get a fresh
        // one.
        cell.end(&Exit::Failed(failure.clone()));
        turn.cancel_subscriptions();
        cell.forget_futures();
        let children = cell.state.take_children();
        if children.is_empty() {
            self.activate_again(cell, turn);
        } else {
            let hooks = self.again();
            turn.await_exclusive(children.close(turn.group()), move |cell, turn, ()| {
                hooks.activate_again(cell, turn);
            });
        }
        OnFailure::Resume
    }
}

impl<E: Entity> Context<'_, E> {
    /// Ends this activation: earlier messages are handled first, later ones go to the next
    /// activation. Overrides [`keep_for`](Self::keep_for).
    pub fn passivate(&mut self) {
        self.close();
    }

    /// Keeps this activation from being passivated as idle for this time from now, replacing
    /// earlier calls; zero ends that. It does not shorten the usual time. Lack of room still ends
    /// the activation.
    pub fn keep_for(&mut self, time: Duration) {
        let time_ns = nanos(time);
        let until_ns = self.group().now_ns().saturating_add(time_ns);
        // The last value is reserved for held activations.
        self.set_kept_until(if time.is_zero() { 0 } else { until_ns.min(HELD_NS - 1) });
    }

    /// Holds this activation until [`keep_for`](Self::keep_for) is called, for work that must not
    /// be cut off: neither idleness nor lack of room ends it. Only a close, a stop or the end of
    /// the group does.
    pub fn hold(&mut self) {
        self.set_kept_until(HELD_NS);
    }
}
