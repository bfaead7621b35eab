//! Room for activations: how many there may be, and which keys wait for a place.

use std::sync::atomic::Ordering;

use super::directory::{Directory, Entry};
use super::Entity;

impl<E: Entity> Directory<E> {
    /// Takes one of the places for activations.
    pub(super) fn has_room(&self) -> bool {
        let max = self.settings(|settings| settings.active_max).unwrap_or(0);
        let take = |active: usize| (active < max).then_some(active + 1);
        self.active.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Gives a place that has become free to the key that waits longest.
    pub(super) fn next_waiting(&self) {
        loop {
            if self.queue.lock().is_empty() || !self.has_room() {
                return;
            }
            let Some(key) = self.queue.lock().pop_front() else {
                self.active.fetch_sub(1, Ordering::Relaxed);
                continue;
            };
            let mut shard = self.shard(&key);
            match shard.remove(&key) {
                Some(Entry::Waiting { pending, failures }) => {
                    self.begin(&mut shard, &key, pending, failures);
                }
                other => {
                    if let Some(other) = other {
                        shard.insert(key, other);
                    }
                    self.active.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Lets a key wait for a place.
    pub(super) fn enqueue(&self, key: &E::Key) {
        self.queue.lock().push_back(key.clone());
        self.collector.make_room(self);
    }

    /// Keys that wait for room.
    pub(super) fn waiting(&self) -> usize {
        self.queue.lock().len()
    }
}
