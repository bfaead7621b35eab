//! The end of a world: running code may finish, no new code begins, and others get its plans.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::completion::{block_on, block_on_timeout, completion};
use turnwheel_runtime::{Completer, Completion, Group};

use super::{shares, World};
use crate::error::{BuildError, StoreError};
use crate::id::PlanId;
use crate::store::{Slots, SLOTS};

/// Counts the plans of a world with activity: code, a planning, or an entry.
///
/// All orderings are sequentially consistent: the end of the world sets `is_ending` and then checks
/// the count; the plan that brings the count to 0 notifies it. Likewise a slot is closed first and
/// then its count is read, while a plan counts first and then looks whether its slot is closed: so
/// no code begins in a slot that is given away.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    plans: AtomicUsize,
    is_ending: AtomicBool,
    is_draining: AtomicBool,
    is_giving: AtomicBool,
    waiting: Mutex<Vec<Completer<()>>>,
    slots: SlotStates,
}

/// Number of such plans in each slot, and whether it is closed: no code begins in it.
#[derive(Debug)]
struct SlotStates(Box<[(AtomicU32, AtomicBool)]>);

impl Default for SlotStates {
    fn default() -> Self {
        Self((0..SLOTS).map(|_| Default::default()).collect())
    }
}

/// A plan that has something under way, as long as this lives.
#[derive(Debug)]
pub(crate) struct BusyPlan(Arc<Busy>, usize);

/// Slots of a world are given away, as long as this lives.
#[derive(Debug)]
pub(super) struct Giving(Arc<Busy>);

impl Drop for Giving {
    fn drop(&mut self) {
        self.0.is_giving.store(false, Ordering::SeqCst);
    }
}

impl Busy {
    pub(crate) fn enter(self: &Arc<Self>, slot: usize) -> BusyPlan {
        self.plans.fetch_add(1, Ordering::SeqCst);
        self.slots.0[slot].0.fetch_add(1, Ordering::SeqCst);
        BusyPlan(Arc::clone(self), slot)
    }

    /// The slots with such plans.
    pub(super) fn slots(&self) -> Slots {
        let is_busy = |slot: &usize| self.slots.0[*slot].0.load(Ordering::SeqCst) > 0;
        (0..SLOTS).filter(is_busy).collect()
    }

    /// From now on no code begins in these slots.
    pub(super) fn close(&self, slots: &Slots) {
        slots.iter().for_each(|slot| self.slots.0[slot].1.store(true, Ordering::SeqCst));
    }

    pub(super) fn open(&self, slots: &Slots) {
        slots.iter().for_each(|slot| self.slots.0[slot].1.store(false, Ordering::SeqCst));
    }

    pub(crate) fn is_closed(&self, slot: usize) -> bool {
        self.slots.0[slot].1.load(Ordering::SeqCst)
    }

    /// Whether the world gives its slots away, and begins no new plans.
    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::SeqCst)
    }

    pub(super) fn set_draining(&self) {
        self.is_draining.store(true, Ordering::SeqCst);
    }

    /// Begins to give slots away; nothing if that is under way. A flow that gives some opens again
    /// what it has kept: two at once would open slots that the other one is about to give.
    pub(super) fn begin_giving(self: &Arc<Self>) -> Option<Giving> {
        let was_giving = self.is_giving.swap(true, Ordering::SeqCst);
        (!was_giving).then(|| Giving(Arc::clone(self)))
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    /// Completes when no plan has anything under way.
    fn idle(&self) -> Completion<()> {
        let (completer, idle) = completion();
        self.waiting.lock().push(completer);
        if self.plans.load(Ordering::SeqCst) == 0 {
            self.tell();
        }
        idle
    }

    fn tell(&self) {
        for waiting in std::mem::take(&mut *self.waiting.lock()) {
            // A waiter that has given up is gone.
            let _gone = waiting.complete(());
        }
    }
}

impl Drop for BusyPlan {
    fn drop(&mut self) {
        self.0.slots.0[self.1].0.fetch_sub(1, Ordering::SeqCst);
        if self.0.plans.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.is_ending() {
            self.0.tell();
        }
    }
}

/// The plans whose newest entries the store has refused so far, and why.
#[derive(Debug, Default)]
pub(crate) struct Unwritten(Mutex<BTreeMap<PlanId, String>>);

impl Unwritten {
    pub(crate) fn note(&self, plan: PlanId, problem: Option<String>) {
        let mut all = self.0.lock();
        match problem {
            Some(problem) => all.insert(plan, problem),
            None => all.remove(&plan),
        };
    }

    fn take(&self) -> BTreeMap<PlanId, String> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// Minimum time for threads to end, even if the code of steps has used up the limit.
const LEAST_LIMIT: Duration = Duration::from_millis(100);

impl World {
    /// Ends the world without its threads: running code may finish within the limit, no further
    /// code is called. Then its record is removed, and other executors over the store continue its
    /// plans; without one, they wait for the next that starts. New work is refused from the begin.
    ///
    /// Code that takes longer may run on, but its result does not count: the next owner of the plan
    /// sees an interrupted call. Returns whether all code ended in time. A second call does nothing
    /// more.
    ///
    /// # Errors
    ///
    /// The record could not be removed: the next executor that starts finds that this world does
    /// not answer.
    pub async fn terminate(&self, limit: Duration) -> Result<bool, StoreError> {
        let was_in_time = self.rest(limit).await;
        let written = self.shared().letters.flush();
        let _in_time = self.shared().group.timeout(written, limit).await;
        self.leave().await?;
        Ok(was_in_time)
    }

    /// Begins nothing from now on, and waits until what runs has ended. Whether it has, in time.
    async fn rest(&self, limit: Duration) -> bool {
        let shared = self.shared();
        shared.busy.is_ending.store(true, Ordering::SeqCst);
        std::mem::take(&mut *shared.last_calls.lock()).call();
        shared.end_entities(&Slots::all());
        let idle = shared.busy.idle();
        shared.group.timeout(idle, limit).await.is_ok()
    }

    async fn leave(&self) -> Result<bool, StoreError> {
        let me = self.id();
        self.shared().hub().change(move |worlds| shares::leave(worlds, &[me])).await
    }

    /// Ends the world with its threads.
    pub(super) fn end(&self, limit: Duration) -> Result<(), BuildError> {
        let shared = self.shared();
        let hub = shared.hub();
        let has_own_threads =
            shared.own.groups.iter().any(|group| group.name() == shared.group.name());
        let is_alone = hub.worlds().rows.iter().all(|row| row.epoch == self.id());
        let begun_ns = shared.group.now_ns();
        let left = || {
            let took = Duration::from_nanos(shared.group.now_ns() - begun_ns);
            limit.saturating_sub(took).max(LEAST_LIMIT)
        };
        // Its plans go on elsewhere meanwhile, if others share the store.
        let drained = block_on(self.give_slots_away(limit));
        if let Ok(Err(error)) = drained {
            tracing::warn!(%error, "slots are given away at the end");
        }
        // Running steps may end first: a step begun and never called would count as interrupted.
        match block_on(self.rest(left())) {
            Ok(true) => {}
            Ok(false) => self.note_unwritten(left()),
            Err(refused) => tracing::debug!(%refused, "a world is left to its simulation"),
        }
        // A store that does not answer must not hold up the end.
        let _in_time = block_on_timeout(shared.letters.flush(), left());
        let letters = shared.letters.unwritten();
        let is_joined = shared.own.groups.iter().all(|group| group.name() != hub.group.name());
        if !has_own_threads || !is_alone || is_joined {
            // A world that shares threads or the store lets go of its plans too.
            self.leave_within(left());
        }
        if let Ok(Ok(Err(error))) = block_on_timeout(shared.journal().flush(), left()) {
            tracing::warn!(%error, "rows stay behind their journal");
        }
        let mut ended = Ok(());
        for group in shared.own.end() {
            if group.name() == hub.group.name() {
                // Its own threads have ended: nothing of it is under way.
                self.leave_within(left());
            }
            ended = ended.and(self.end_group(group, left()));
        }
        ended?;
        let unwritten = shared.unwritten.take();
        match unwritten.values().next().cloned() {
            Some(problem) => {
                Err(BuildError::NotWritten { plans: unwritten.into_keys().collect(), problem })
            }
            None if is_alone && letters > 0 => Err(BuildError::LettersLost { letters }),
            None => Ok(()),
        }
    }

    /// Something is under way still: entries that are not durable by now are named at the end.
    fn note_unwritten(&self, limit: Duration) {
        let shared = self.shared();
        let unwritten = block_on_timeout(shared.journal().unwritten(self.id()), limit);
        for plan in unwritten.into_iter().flatten().flatten() {
            let problem = "the store did not say whether it is written".to_owned();
            shared.unwritten.note(plan, Some(problem));
        }
    }

    fn leave_within(&self, limit: Duration) {
        match block_on_timeout(self.leave(), limit) {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "a world leaves its record behind"),
            Err(refused) => tracing::debug!(%refused, "a world leaves its record behind"),
        }
    }

    fn end_group(&self, group: &Group, limit: Duration) -> Result<(), BuildError> {
        let report = group.shutdown_within(limit).map_err(|error| {
            BuildError::Threads(format!("the group «{}»: {error}", group.name()))
        })?;
        if report.left.is_empty() || group.name() != self.shared().hub().group.name() {
            return Ok(());
        }
        let plans = self.shared().unwritten.take().into_keys().collect();
        let problem = "the store did not answer before the limit".to_owned();
        Err(BuildError::NotWritten { plans, problem })
    }
}
