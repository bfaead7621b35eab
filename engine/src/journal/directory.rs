//! Live worlds and their plans, as of the last commit.
//!
//! The store decides; this copy finds the owner of a plan without a query.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion};

use crate::id::PlanId;
use crate::store::{slot_of, Slots, Worlds, NO_EPOCH};

/// Called for each change, with the former and the new worlds.
type Listener = Box<dyn Fn(&Worlds, &Worlds) + Send + Sync>;

/// The worlds that share a journal.
pub(crate) struct Directory {
    worlds: Mutex<Arc<Worlds>>,
    /// The world that owns all plans, if one does: the usual case. Relaxed: a reader with an older
    /// value checks `worlds`, or is refused by the store.
    lone: AtomicU64,
    waiting: Mutex<Vec<Completer<()>>>,
    listener: OnceLock<Listener>,
    /// The worlds of this process, if the store may have others; else all are.
    own: Option<Mutex<BTreeSet<u64>>>,
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory").field("worlds", &self.now()).finish_non_exhaustive()
    }
}

impl Directory {
    /// `is_shared` says whether other processes have worlds there too.
    pub(crate) fn new(worlds: Worlds, is_shared: bool) -> Self {
        let lone = AtomicU64::new(lone(&worlds));
        let (worlds, listener) = (Mutex::new(Arc::new(worlds)), OnceLock::new());
        let own = is_shared.then(Mutex::default);
        Self { worlds, lone, waiting: Mutex::default(), listener, own }
    }

    /// Has changes told to this function, the first one that is given.
    pub(crate) fn listen(&self, listener: Listener) {
        if self.listener.set(listener).is_err() {
            tracing::error!("a directory has one listener");
        }
    }

    pub(crate) fn now(&self) -> Arc<Worlds> {
        Arc::clone(&self.worlds.lock())
    }

    /// Whether a world owns a plan.
    pub(crate) fn owns(&self, world: u64, plan: PlanId) -> bool {
        self.lone.load(Ordering::Relaxed) == world
            || self.worlds.lock().owner(slot_of(plan)) == world
    }

    /// The world that owns a plan; 0 if none does.
    pub(crate) fn owner(&self, plan: PlanId) -> u64 {
        self.worlds.lock().owner(slot_of(plan))
    }

    /// The epoch under which a world has the slot of a plan; none if it does not have it.
    pub(crate) fn held(&self, world: u64, plan: PlanId) -> u64 {
        self.held_slot(world, slot_of(plan))
    }

    /// The epoch under which a world has a slot; none if it does not have it.
    pub(crate) fn held_slot(&self, world: u64, slot: usize) -> u64 {
        let owner = self.worlds.lock().owners()[slot];
        if owner.world == world {
            owner.epoch
        } else {
            NO_EPOCH
        }
    }

    /// Worlds of this process are registered.
    pub(super) fn add_own(&self, worlds: &[u64]) {
        self.own.iter().for_each(|own| own.lock().extend(worlds));
    }

    /// Whether a world is of this process.
    pub(super) fn is_own(&self, world: u64) -> bool {
        self.own.as_ref().is_none_or(|own| own.lock().contains(&world))
    }

    /// The epoch of the slot of a plan, if a world of this process has it.
    pub(super) fn epoch_here(&self, plan: PlanId) -> u64 {
        let owner = self.worlds.lock().owners()[slot_of(plan)];
        if self.is_own(owner.world) {
            owner.epoch
        } else {
            NO_EPOCH
        }
    }

    /// The epoch of the slot of a plan, whichever world has it.
    pub(crate) fn epoch(&self, plan: PlanId) -> u64 {
        self.worlds.lock().owners()[slot_of(plan)].epoch
    }

    /// A change is durable.
    pub(crate) fn set(&self, worlds: Worlds) {
        self.lone.store(lone(&worlds), Ordering::Relaxed);
        let before = std::mem::replace(&mut *self.worlds.lock(), Arc::new(worlds));
        let now = self.now();
        if let Some(listener) = self.listener.get() {
            listener(&before, &now);
        }
        for waiting in std::mem::take(&mut *self.waiting.lock()) {
            // A waiter that has given up is gone.
            let _gone = waiting.complete(());
        }
    }

    /// Completes at the next change.
    pub(crate) fn changed(&self) -> Completion<()> {
        let (completer, changed) = completion();
        let mut waiting = self.waiting.lock();
        waiting.retain(|waiting| !waiting.is_cancelled());
        waiting.push(completer);
        changed
    }
}

fn lone(worlds: &Worlds) -> u64 {
    match &worlds.rows[..] {
        [row] if row.slots == Slots::all() => row.epoch,
        _ => 0,
    }
}
