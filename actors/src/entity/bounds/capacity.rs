//! Room for activations: limits of their number and memory, and the keys that wait for room.

use std::sync::atomic::Ordering;
use std::sync::Weak;
use std::time::Duration;

use turnwheel_runtime::{Failure, Phase, SubmitErrorKind};

use crate::actor::{ActorCell, Turn};
use crate::call::nanos;
use crate::entity::{Directory, Entity, EntityKey, Idle, Sheds, HELD_NS};

/// Entities of one type that are compared when the least recently used are looked for.
const SAMPLE: usize = 512;

/// A use that the directory does not know of is later than the last message it sent by more than
/// this, nanoseconds: a message waits for its turn.
const USED_SINCE_NS: u64 = 5_000_000;

/// An entity was not activated, since there was no room for it in time.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "{entity} «{key}» has waited {waited:?} for room, while {active} of its type are active and \
     all entities take {bytes} bytes: raise the limits, or send less at once"
)]
#[non_exhaustive]
pub struct NoRoom {
    /// Type of the entity.
    pub entity: &'static str,
    /// Its key.
    pub key: String,
    /// Time waited.
    pub waited: Duration,
    /// Number of active entities of its type.
    pub active: usize,
    /// Memory of all entities together.
    pub bytes: u64,
}

/// A key that waits for room.
pub(crate) struct Waiter<K> {
    key: K,
    since_ns: u64,
}

impl<E: Entity> Directory<E> {
    /// Takes one of the places for activations; the bytes it is charged with.
    pub(crate) fn take_place(&self) -> Option<u64> {
        let max = self.settings(|settings| settings.active_max).unwrap_or(0);
        let take = |active: usize| (active < max).then_some(active + 1);
        self.active.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        let bytes = self.memory.reserve();
        if bytes.is_none() {
            self.active.fetch_sub(1, Ordering::Relaxed);
        }
        bytes
    }

    /// Gives a place back.
    pub(crate) fn free_place(&self, bytes: u64) {
        self.active.fetch_sub(1, Ordering::Relaxed);
        self.memory.change(bytes, 0);
    }

    /// Asks an activation for its size, unless it is certain to be the charged one.
    pub(crate) fn measure(&self, key: &E::Key, cell: &ActorCell<E>) {
        let Some(size) = cell.actor.as_ref().map(E::size) else { return };
        if !self.memory.is_constant(size as u64) {
            self.measured(key, cell.state.id, size);
        }
    }

    /// An activation says how much it takes.
    pub(crate) fn measured(&self, key: &E::Key, id: u64, size: usize) {
        let bytes = u32::try_from(size).unwrap_or(u32::MAX);
        let former = match self.shard(key).active_mut(key, id) {
            Some(active) => std::mem::replace(&mut active.bytes, bytes),
            None => return,
        };
        self.memory.learn(u64::from(bytes));
        self.memory.change(u64::from(former), u64::from(bytes));
        if former < bytes && self.memory.all.is_over() {
            self.collector.make_room(self);
        }
    }

    /// Gives places that have become free to the keys that wait longest.
    pub(crate) fn next_waiting(&self) {
        loop {
            if self.queue.lock().is_empty() {
                return;
            }
            let Some(bytes) = self.take_place() else { return };
            let Some(Waiter { key, .. }) = self.queue.lock().pop_front() else {
                self.free_place(bytes);
                continue;
            };
            let mut shard = self.shard(&key);
            match shard.take_waiting(&key) {
                Some((pending, failures)) => {
                    let failed = self.begin(&mut shard, &key, pending, failures, bytes);
                    drop(shard);
                    self.fail_all(failed);
                }
                None => self.free_place(bytes),
            }
        }
    }

    /// Lets a key wait for a place.
    ///
    /// # Errors
    ///
    /// Too many wait.
    pub(crate) fn enqueue(&self, key: &E::Key) -> Result<(), SubmitErrorKind> {
        let max = self.settings(|settings| settings.waiting_max).unwrap_or(0);
        let since_ns = self.system.group().recent_ns();
        let mut queue = self.queue.lock();
        if queue.len() >= max {
            return Err(SubmitErrorKind::Full);
        }
        queue.push_back(Waiter { key: key.clone(), since_ns });
        drop(queue);
        self.collector.make_room(self);
        Ok(())
    }

    /// Keys that wait for room.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.lock().len()
    }

    /// Whether a key waits for room, or more memory is charged than the budget.
    pub(crate) fn is_short_of_room(&self) -> bool {
        self.waiting() > 0 || self.memory.all.is_over()
    }

    /// Makes room by ending idle entities, and refuses the messages of keys that waited too long.
    pub(crate) fn make_room(&self) {
        self.refuse_waiting();
        let waiting = self.waiting();
        let (Some(max), wanted) = (self.settings(|settings| settings.active_max), waiting as u64)
        else {
            return;
        };
        let mut shed = 0;
        if waiting > 0 && self.active() >= max {
            let mut idle = Vec::new();
            self.add_idle(&mut idle);
            idle.sort_by_key(|idle| idle.order);
            shed += idle.into_iter().take(waiting).map(|idle| (idle.shed)()).count();
        }
        shed += self.memory.all.shed(wanted.saturating_mul(self.memory.expected()));
        self.counters.shed.fetch_add(shed as u64, Ordering::Relaxed);
        // Room may have been made by another type.
        self.next_waiting();
    }

    /// Refuses the messages of keys that waited too long for room.
    fn refuse_waiting(&self) {
        let Some(limit) = self.settings(|settings| settings.room_limit) else { return };
        let limit_ns = nanos(limit);
        let now_ns = self.system.group().now_ns();
        loop {
            let (key, waited_ns) = {
                let mut queue = self.queue.lock();
                let Some(first) = queue.front() else { return };
                let waited_ns = now_ns.saturating_sub(first.since_ns);
                if waited_ns < limit_ns {
                    return;
                }
                let Some(Waiter { key, .. }) = queue.pop_front() else { return };
                (key, waited_ns)
            };
            let mut shard = self.shard(&key);
            let Some((pending, _)) = shard.take_waiting(&key) else { continue };
            drop(shard);
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
            let failure = Failure::error(NoRoom {
                entity: std::any::type_name::<E>(),
                key: key.text().into_owned(),
                waited: Duration::from_nanos(waited_ns),
                active: self.active(),
                bytes: self.memory.all.total(),
            });
            for waiting in pending {
                waiting.fail(&self.system, &failure);
            }
        }
    }
}

impl<E: Entity> Directory<E> {
    /// Asks an activation to make room; it was chosen by its last use at `known_ns`.
    fn shed(&self, key: &E::Key, known_ns: u64, cell: &ActorCell<E>, cx: &mut Turn<'_, E>) {
        let id = cell.state.id;
        if cell.state.kept_until_ns() == HELD_NS
            || cx.holding() > 0
            || cell.state.has_open_streams()
        {
            return self.is_engaged(key, id);
        }
        if cell.state.used_ns() > known_ns.saturating_add(USED_SINCE_NS) {
            // By other ways than the directory: others may have been idle for longer.
            self.was_used(key, id, cell.state.used_ns());
            return;
        }
        self.leaves(key, id);
        cx.close();
    }
}

impl<E: Entity> Sheds for Directory<E> {
    fn add_idle(&self, idle: &mut Vec<Idle>) {
        let begin = self.next_shard();
        let most = idle.len() + SAMPLE;
        for offset in 0..Self::shards() {
            self.each_active((begin + offset) % Self::shards(), |key, active| {
                if active.task.queue_len() == 0 && active.task.phase() == Phase::Started {
                    let (directory, task) = (self.weak(), active.task.clone());
                    let (key, known_ns) = (key.clone(), active.last_use.ns());
                    let shed = Box::new(move || {
                        // In its own turn: there it is known whether something is under way.
                        let asked = task.submit(move |cell: &mut ActorCell<E>, cx| {
                            if let Some(directory) = Weak::upgrade(&directory) {
                                directory.shed(&key, known_ns, cell, cx);
                            }
                        });
                        // Full: the entity is not idle. Closed: it is ending already.
                        let _ = asked;
                    });
                    let (order, bytes) = (active.last_use.order(), u64::from(active.bytes));
                    idle.push(Idle { order, bytes, shed });
                }
                idle.len() < most
            });
        }
    }
}
