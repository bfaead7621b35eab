//! Requests to begin plans of other worlds that have no answer yet. What is said to such a plan
//! meanwhile waits for the answer: if it came first it would find no plan, and the plan would begin
//! afterwards.
//!
//! | request to begin | what is said | then |
//! | --- | --- | --- |
//! | none under way | to begin | it is sent, and is under way until it is answered or given up |
//! | none under way | anything else | it is sent |
//! | under way | to begin | it is left out: the one under way goes to each owner in turn |
//! | under way | anything else | it waits, and is sent after the answer, or after the request was given up |
//!
//! Nothing of it is stored. The next owner of a plan that asks for others asks for all of them
//! again, in the same order; the former owner gives its requests up when it loses the plan. A
//! request that was given up may still be on its way in the store, which carries the requests of a
//! node in their order: it comes before what is sent after it.

use std::collections::HashMap;
use std::future::Future;
use std::pin::{pin, Pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::Poll;

use parking_lot::Mutex;

use super::Shared;
use crate::connect::{ConnectError, Word};
use crate::id::PlanId;

/// Follow-up of something that could not be said.
pub(super) type Again = Box<dyn FnOnce(&Arc<Shared>) + Send>;

/// Something that is said to a plan.
pub(super) struct Said {
    pub(super) word: Word,
    pub(super) again: Again,
}

/// The plans that are asked to begin in other worlds, with what waits for the answers.
#[derive(Default)]
pub(crate) struct Begins {
    /// The size of the map: most worlds never ask another one.
    count: AtomicUsize,
    under_way: Mutex<HashMap<PlanId, Vec<Said>>>,
}

impl Begins {
    /// Whether no plan is asked to begin.
    pub(super) fn is_empty(&self) -> bool {
        // Relaxed: the actor that asks a plan to begin tells it everything else afterwards.
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Keeps back what is said to a plan that is asked to begin; gives it back if it may be sent.
    pub(super) fn keep_back(&self, plan: PlanId, said: Said) -> Option<Said> {
        let mut under_way = self.under_way.lock();
        let Some(waiting) = under_way.get_mut(&plan) else { return Some(said) };
        let is_known = |known: &Said| is_same(&known.word, &said.word);
        if !matches!(said.word, Word::Begin { .. }) && !waiting.iter().any(is_known) {
            waiting.push(said);
        }
        None
    }

    fn end(&self, plan: PlanId) -> Vec<Said> {
        let mut under_way = self.under_way.lock();
        let waiting = under_way.remove(&plan).unwrap_or_default();
        self.count.store(under_way.len(), Ordering::Relaxed);
        waiting
    }
}

/// Whether one of two words is enough.
fn is_same(one: &Word, other: &Word) -> bool {
    match (one, other) {
        (Word::Cancel { is_forced: one, .. }, Word::Cancel { is_forced: other, .. }) => {
            one == other
        }
        (Word::Follow { follower: one }, Word::Follow { follower: other }) => one == other,
        (Word::Ended { plan: one, .. }, Word::Ended { plan: other, .. }) => one == other,
        (Word::Wake, Word::Wake) | (Word::AskAgain, Word::AskAgain) => true,
        _ => false,
    }
}

/// A request to begin that is under way. It ends with this.
pub(super) struct UnderWay {
    world: Arc<Shared>,
    plan: PlanId,
    /// Then a later request for the same plan may be under way.
    is_ended: bool,
}

impl UnderWay {
    pub(super) fn begin(world: &Arc<Shared>, plan: PlanId) -> Self {
        let mut under_way = world.begins.under_way.lock();
        under_way.entry(plan).or_default();
        world.begins.count.store(under_way.len(), Ordering::Relaxed);
        Self { world: Arc::clone(world), plan, is_ended: false }
    }

    /// Says what has waited.
    pub(super) fn end(mut self) {
        self.is_ended = true;
        for Said { word, again } in self.world.begins.end(self.plan) {
            self.world.tell_plan(self.plan, word, again);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        // It was not ended only if the world or its threads are ending.
        if !self.is_ended {
            drop(self.world.begins.end(self.plan));
        }
    }
}

impl Shared {
    /// The outcome of a request for a plan of this world, as long as it is of this world.
    pub(super) async fn while_owned<T>(
        &self,
        asking: PlanId,
        asked: impl Future<Output = Result<T, ConnectError>>,
    ) -> Result<T, ConnectError> {
        let directory = self.journal.directory();
        let mut asked = pin!(asked);
        let mut changed = directory.changed();
        std::future::poll_fn(move |cx| loop {
            if let Poll::Ready(outcome) = asked.as_mut().poll(cx) {
                return Poll::Ready(outcome);
            }
            // Looked at after `changed` was asked for, so that no change is missed.
            if !self.owns(asking) {
                return Poll::Ready(Err(ConnectError::Gone { world: self.epoch }));
            }
            if Pin::new(&mut changed).poll(cx).is_pending() {
                return Poll::Pending;
            }
            changed = directory.changed();
        })
        .await
    }
}
