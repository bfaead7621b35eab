//! The entries of a directory, by key, in shards with a lock each.
//!
//! A key is hashed once a look-up: the hash picks the shard and finds the entry in it. The hash is
//! keyed and differs between processes, since keys come from outside.

use std::hash::{BuildHasher, RandomState};

use hashbrown::hash_table::{Entry as Place, HashTable};
use parking_lot::{Mutex, MutexGuard};

use crate::entity::{Active, Entity, Entry, Failures, Inactive, Queue};

/// Shards of a table: senders to different keys seldom meet. A power of two.
const SHARDS: usize = 64;

/// The entries of all keys of one type.
pub(crate) struct Table<E: Entity> {
    hasher: RandomState,
    shards: Box<[Shard<E>]>,
}

/// Alone on its cache line: the lock is written by every look.
#[repr(align(64))]
struct Shard<E: Entity>(Mutex<Entries<E>>);

type Entries<E> = HashTable<(<E as Entity>::Key, Entry<E>)>;

/// The locked shard of a key, for looks at this key.
pub(crate) struct Locked<'a, E: Entity> {
    entries: MutexGuard<'a, Entries<E>>,
    hasher: &'a RandomState,
    hash: u64,
}

impl<E: Entity> Default for Table<E> {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Shard(Mutex::default())).collect();
        Self { hasher: RandomState::new(), shards }
    }
}

impl<E: Entity> Table<E> {
    /// Locks the shard of a key.
    #[inline]
    pub(crate) fn lock(&self, key: &E::Key) -> Locked<'_, E> {
        let hash = self.hasher.hash_one(key);
        // Bits that the table inside does not begin with.
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        Locked { entries: shard.0.lock(), hasher: &self.hasher, hash }
    }

    /// Looks at the entries of one shard; false ends the look.
    pub(crate) fn each(&self, shard: usize, mut look: impl FnMut(&E::Key, &mut Entry<E>) -> bool) {
        for (key, entry) in self.shards[shard].0.lock().iter_mut() {
            if !look(key, entry) {
                return;
            }
        }
    }

    /// Drops the entries of one shard that are not wanted any more.
    pub(crate) fn retain(&self, shard: usize, is_wanted: impl Fn(&Entry<E>) -> bool) {
        self.shards[shard].0.lock().retain(|(_, entry)| is_wanted(entry));
    }

    pub(crate) const fn shards() -> usize {
        SHARDS
    }
}

impl<E: Entity> Locked<'_, E> {
    fn is_mine(&self, key: &E::Key) -> bool {
        self.hasher.hash_one(key) == self.hash
    }

    #[inline]
    pub(crate) fn get(&self, key: &E::Key) -> Option<&Entry<E>> {
        debug_assert!(self.is_mine(key), "a locked shard is for one key");
        self.entries.find(self.hash, |(known, _)| known == key).map(|(_, entry)| entry)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: &E::Key) -> Option<&mut Entry<E>> {
        debug_assert!(self.is_mine(key), "a locked shard is for one key");
        self.entries.find_mut(self.hash, |(known, _)| known == key).map(|(_, entry)| entry)
    }

    /// Stores an entry, replacing the former one.
    pub(crate) fn insert(&mut self, key: E::Key, entry: Entry<E>) {
        debug_assert!(self.is_mine(&key), "a locked shard is for one key");
        let hasher = self.hasher;
        let place = self.entries.entry(
            self.hash,
            |(known, _)| *known == key,
            |(known, _)| hasher.hash_one(known),
        );
        match place {
            Place::Occupied(mut place) => place.get_mut().1 = entry,
            Place::Vacant(place) => drop(place.insert((key, entry))),
        }
    }

    /// The entry of a key without an activation that takes messages.
    pub(crate) fn inactive_mut(&mut self, key: &E::Key) -> Option<&mut Inactive<E>> {
        match self.get_mut(key)? {
            Entry::Inactive(inactive) => Some(inactive),
            Entry::Active(_) => None,
        }
    }

    /// This activation of a key, if it takes messages.
    pub(crate) fn active_mut(&mut self, key: &E::Key, id: u64) -> Option<&mut Active<E>> {
        match self.get_mut(key)? {
            Entry::Active(active) if active.id() == id => Some(active),
            Entry::Active(_) | Entry::Inactive(_) => None,
        }
    }

    /// Removes an activation, ending or not: returns the messages for the next one, in order, and
    /// its charged bytes.
    pub(crate) fn take_activation(&mut self, key: &E::Key, id: u64) -> Option<(Queue<E>, u32)> {
        match self.remove_if(key, |entry| entry.is_activation(id))? {
            Entry::Active(active) => Some((Queue::new(), active.bytes)),
            Entry::Inactive(inactive) => match *inactive {
                Inactive::Leaving(mut leaving) => Some((leaving.take_rest(), leaving.bytes)),
                Inactive::Waiting { .. } | Inactive::Held { .. } => None,
            },
        }
    }

    /// Removes a key that waits for room; returns its waiting messages.
    pub(crate) fn take_waiting(&mut self, key: &E::Key) -> Option<(Queue<E>, Option<Failures>)> {
        match self.take_inactive(key, |entry| matches!(entry, Inactive::Waiting { .. }))? {
            Inactive::Waiting { pending, failures } => Some((pending, failures)),
            Inactive::Leaving(_) | Inactive::Held { .. } => None,
        }
    }

    /// Removes a key that is held.
    pub(crate) fn take_held(&mut self, key: &E::Key) -> Option<Failures> {
        match self.take_inactive(key, |entry| matches!(entry, Inactive::Held { .. }))? {
            Inactive::Held { failures, .. } => Some(failures),
            Inactive::Leaving(_) | Inactive::Waiting { .. } => None,
        }
    }

    fn take_inactive(
        &mut self,
        key: &E::Key,
        is_it: impl Fn(&Inactive<E>) -> bool,
    ) -> Option<Inactive<E>> {
        let is_it = |entry: &_| matches!(entry, Entry::Inactive(inactive) if is_it(inactive));
        match self.remove_if(key, is_it)? {
            Entry::Inactive(inactive) => Some(*inactive),
            Entry::Active(_) => None,
        }
    }

    fn remove_if(&mut self, key: &E::Key, is_it: impl Fn(&Entry<E>) -> bool) -> Option<Entry<E>> {
        debug_assert!(self.is_mine(key), "a locked shard is for one key");
        let same = |(known, entry): &(E::Key, Entry<E>)| known == key && is_it(entry);
        let found = self.entries.find_entry(self.hash, same).ok()?;
        Some(found.remove().0 .1)
    }
}
