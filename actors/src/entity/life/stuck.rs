//! Activations that are stuck, in a request or in their end: found, counted, replaced.
//!
//! The collector interrupts activations with waiting messages, in the mailbox or at the gate, and
//! ending ones. Each checks itself: without progress for the limit since the first check, it drops
//! the future that holds it and ends. An activation whose thread does not return cannot check; its
//! key goes to another. When the thread returns the old activation finds itself replaced: it
//! handles nothing more, its admitted messages are forwarded, and its writes are refused.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::Phase;

use crate::actor::{ActorCell, Turn};
use crate::call::nanos;
use crate::entity::{Directory, Entity, EntityKey, Entry};

/// An activation that may be stuck.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspect {
    /// Since when it has made no progress, as far as known.
    since_ns: u64,
    /// Messages begun then.
    handled: Option<u32>,
    /// Since when it owes an answer.
    asked_ns: Option<u64>,
}

/// By the numbers of the activations.
pub(crate) type Suspects = Mutex<HashMap<u64, Suspect>>;

/// The relation of an activation to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Active,
    Leaving,
    Replaced,
}

impl<E: Entity> Directory<E> {
    /// Time without progress before an activation is replaced.
    pub(crate) fn stuck_limit(&self) -> Duration {
        let is_own = E::STUCK_LIMIT != crate::entity::STUCK_LIMIT_DEFAULT;
        let set = self.settings(|settings| settings.stuck_limit.filter(|_| !is_own));
        set.flatten().unwrap_or(E::STUCK_LIMIT)
    }

    /// Makes activations with waiting messages, and ending ones, check themselves; replaces those
    /// that did not for too long.
    pub(crate) fn look_for_stuck(&self, limit: Duration) {
        let now_ns = self.system.group().now_ns();
        let limit_ns = nanos(limit);
        let mut lost = Vec::new();
        let mut suspects = self.collector.suspects.lock();
        let mut former = std::mem::take(&mut *suspects);
        for shard in 0..Self::shards() {
            self.table.each(shard, |key, entry| {
                let Some(task) = entry.task() else { return true };
                let (id, is_leaving) = (task.tag(), matches!(entry, Entry::Inactive(_)));
                let known = former.remove(&id);
                if known.is_none() && !is_leaving && task.queue_len() == 0 {
                    return true;
                }
                let fresh = Suspect { since_ns: now_ns, handled: None, asked_ns: None };
                let mut suspect = known.unwrap_or(fresh);
                let asked_ns = *suspect.asked_ns.get_or_insert(now_ns);
                if now_ns.saturating_sub(asked_ns) >= limit_ns {
                    lost.push((key.clone(), id));
                } else {
                    suspects.insert(id, suspect);
                }
                task.interrupt();
                true
            });
        }
        drop(suspects);
        lost.into_iter().for_each(|(key, id)| self.abandon(&key, id));
    }

    fn role(&self, key: &E::Key, id: u64) -> Role {
        match self.shard(key).get(key).filter(|entry| entry.is_activation(id)) {
            Some(Entry::Active(_)) => Role::Active,
            Some(Entry::Inactive(_)) => Role::Leaving,
            None => Role::Replaced,
        }
    }

    /// An activation looks at itself. Whether it was stuck, or replaced, and makes way now.
    pub(crate) fn makes_way(
        self: &Arc<Self>,
        key: &E::Key,
        cell: &mut ActorCell<E>,
        turn: &mut Turn<'_, E>,
    ) -> bool {
        let role = self.role(key, cell.state.id);
        cell.take_back();
        if role != Role::Replaced && !self.is_over_limit(role, cell, turn.phase()) {
            return false;
        }
        if role != Role::Replaced {
            self.count_replaced(key, "it has made no progress");
        }
        // Its futures go, and give the actor back.
        turn.cancel_subscriptions();
        cell.take_back();
        if turn.phase() <= Phase::Started {
            self.hand_over(key, cell, turn);
        }
        true
    }

    fn is_over_limit(&self, role: Role, cell: &mut ActorCell<E>, phase: Phase) -> bool {
        let now_ns = self.system.group().now_ns();
        let is_gated = !cell.state.is_plain && !cell.state.rare().gate.is_free();
        let is_held = role == Role::Leaving || cell.actor.is_none() || is_gated;
        let handled = Some(cell.state.begun());
        let fresh = Suspect { since_ns: now_ns, handled, asked_ns: None };
        let mut suspects = self.collector.suspects.lock();
        // The activation itself has a limit of its own.
        if phase < Phase::Started || !is_held {
            suspects.remove(&cell.state.id);
            return false;
        }
        let suspect = suspects.entry(cell.state.id).or_insert(fresh);
        suspect.asked_ns = None;
        if suspect.handled != handled {
            *suspect = fresh;
            return false;
        }
        now_ns.saturating_sub(suspect.since_ns) >= nanos(self.stuck_limit())
    }

    /// Frees the key of an activation whose thread does not return.
    fn abandon(&self, key: &E::Key, id: u64) {
        let mut shard = self.shard(key);
        let Some((pending, bytes)) = shard.take_activation(key, id) else { return };
        self.count_replaced(key, "its thread does not return");
        self.begin_next(shard, key, pending, None, u64::from(bytes));
    }

    fn count_replaced(&self, key: &E::Key, why: &'static str) {
        self.counters.replaced.fetch_add(1, Ordering::Relaxed);
        let limit = self.stuck_limit();
        tracing::warn!(
            entity = std::any::type_name::<E>(), key = %key.text(), ?limit, why,
            "an activation was stuck and is replaced"
        );
    }
}
