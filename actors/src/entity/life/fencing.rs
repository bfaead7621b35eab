//! Fencing: an activation that was replaced writes no more and hands its messages on.

use std::fmt;
use std::sync::{Arc, Weak};

use turnwheel_runtime::Phase;

use crate::actor::{ActorCell, Forwarder, Pending, Turn};
use crate::entity::{Directory, Entity, EntityContext, EntityKey, Home};

/// Treatment of an activation whose write meets a [conflict](crate::entity::StoreError::Conflict):
/// another writer has written the state since it was read. Or its write has
/// [failed](crate::entity::StoreError::Failed), and nobody knows whether it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnConflict {
    /// Passivated after the current request, unless that reads the state
    /// [again](crate::entity::Stored::reload). Waiting messages go to the next activation, which
    /// reads the new state. Only this activation: a calling entity stays.
    Passivate,
    /// Keeps its state: the entity resolves the conflict itself, and reads the state again before
    /// it answers from it.
    Keep,
}

/// The activation that a stored state belongs to.
pub(crate) trait Fencing: fmt::Debug + Send + Sync {
    /// Whether no other activation of the key has taken over.
    fn is_current(&self) -> bool;
    /// Passivates it after the request under way, if its state is stale then.
    fn passivate_if_stale(&self, state: Weak<Home>);
}

/// One activation, by its key and number.
pub(crate) struct Activation<E: Entity> {
    directory: Weak<Directory<E>>,
    key: E::Key,
    id: u64,
}

impl<E: Entity> Activation<E> {
    pub(crate) fn of(cx: &EntityContext<E>) -> Self {
        Self { directory: cx.directory().weak(), key: cx.key().clone(), id: cx.raw_id() }
    }
}

debug_fields!(impl<E: Entity> Activation<E>, self => key: self.key.text(), id: self.id);

impl<E: Entity> Fencing for Activation<E> {
    fn is_current(&self) -> bool {
        let directory = self.directory.upgrade();
        directory.is_some_and(|directory| directory.id_of(&self.key) == Some(self.id))
    }

    fn passivate_if_stale(&self, state: Weak<Home>) {
        if E::ON_CONFLICT == OnConflict::Keep {
            return;
        }
        let Some(directory) = self.directory.upgrade() else { return };
        let shard = directory.shard(&self.key);
        let entry = shard.get(&self.key).filter(|entry| entry.is_activation(self.id));
        let Some(task) = entry.and_then(|entry| entry.task().cloned()) else { return };
        // A conflict in the activation is the activation's to answer for.
        if task.phase() >= Phase::Started {
            directory.collector.stale.lock().insert(self.id, state);
            drop(shard);
            // No job: an activation that ends with its group takes none any more.
            task.interrupt();
        }
    }
}

/// Forwards the messages that an activation has admitted and does not handle to the next one of its
/// key.
struct Successor<E: Entity> {
    directory: Arc<Directory<E>>,
    key: E::Key,
    id: u64,
}

impl<E: Entity> Forwarder<E> for Successor<E> {
    fn take(&self, message: Box<dyn Pending<E>>) {
        self.directory.pass_on(&self.key, self.id, message);
    }
}

impl<E: Entity> Directory<E> {
    /// Ends an activation after the current job: its admitted messages go to the next one.
    pub(crate) fn hand_over(
        self: &Arc<Self>,
        key: &E::Key,
        cell: &mut ActorCell<E>,
        turn: &mut Turn<'_, E>,
    ) {
        let id = cell.state.id;
        self.leaves(key, id);
        let directory = Arc::clone(self);
        cell.forward_messages(Box::new(Successor { directory, key: key.clone(), id }), turn);
        turn.close();
    }
}
