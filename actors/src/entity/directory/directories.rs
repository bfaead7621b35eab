//! The directories of all types, found without a lock: a look-up comes before every message by key.

use std::any::{Any, TypeId};
use std::array;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::call::{thread_shard, SHARDS};
use crate::entity::{Directory, Entity};

/// Places that are found without a lock; a power of two.
const SLOTS: usize = 64;

/// Places that one type may have.
const PROBES: usize = 8;

const _: () = assert!(SLOTS.is_power_of_two() && PROBES <= SLOTS);

/// Handle of a directory for some threads, alone on its cache line with its count: each look-up by
/// key counts a reference, and threads that share a count wait for each other.
#[repr(align(64))]
pub(crate) struct Handle<E: Entity>(Arc<Directory<E>>);

impl<E: Entity> Deref for Handle<E> {
    type Target = Directory<E>;

    #[inline(always)]
    fn deref(&self) -> &Directory<E> {
        &self.0
    }
}

/// The handles of one directory.
type Handles = Box<[Arc<dyn Any + Send + Sync>; SHARDS]>;

/// One directory for each type. A slot is filled once and never emptied; a type has the first free
/// one of its slots. The few that find none are behind the lock, under which all are made.
pub(crate) struct Directories {
    slots: [OnceLock<(TypeId, Handles)>; SLOTS],
    others: Mutex<HashMap<TypeId, Handles>>,
}

default_value! {
    Directories => Self { slots: [const { OnceLock::new() }; SLOTS], others: Mutex::default() }
}

/// Takes a number as it is: the number of a type is a hash already.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 ^= number;
    }
}

impl Directories {
    /// This thread's handle of the directory of a type, which is made if there is none.
    #[inline]
    pub(crate) fn get<E: Entity>(
        &self,
        make: impl FnOnce() -> Arc<Directory<E>>,
    ) -> Arc<Handle<E>> {
        let id = TypeId::of::<E>();
        let own = |handles: &Handles| Arc::clone(&handles[thread_shard()]);
        let found = self.find(id).map_or_else(|| self.insert(id, make, own), own);
        match found.downcast() {
            Ok(handle) => handle,
            Err(_) => unreachable!("directories are found by the type of their entities"),
        }
    }

    /// Number of directories.
    pub(crate) fn len(&self) -> usize {
        self.slots.iter().filter(|slot| slot.get().is_some()).count() + self.others.lock().len()
    }

    fn slots_of(&self, id: TypeId) -> impl Iterator<Item = &OnceLock<(TypeId, Handles)>> {
        let mut hasher = IdentityHasher::default();
        id.hash(&mut hasher);
        let begin = hasher.finish() as usize;
        (0..PROBES).map(move |offset| &self.slots[begin.wrapping_add(offset) % SLOTS])
    }

    #[inline]
    fn find(&self, id: TypeId) -> Option<&Handles> {
        for slot in self.slots_of(id) {
            match slot.get() {
                Some((known, found)) if *known == id => return Some(found),
                Some(_) => {}
                None => return None,
            }
        }
        None
    }

    #[cold]
    fn insert<E: Entity, H>(
        &self,
        id: TypeId,
        make: impl FnOnce() -> Arc<Directory<E>>,
        own: impl Fn(&Handles) -> H,
    ) -> H {
        let mut others = self.others.lock();
        if let Some(found) = self.find(id).or_else(|| others.get(&id)) {
            return own(found);
        }
        let made = make();
        let handles: Handles = Box::new(array::from_fn(|_| Arc::new(Handle(made.clone())) as _));
        let handle = own(&handles);
        let mut filling = Some((id, handles));
        for slot in self.slots_of(id) {
            // Only this thread fills slots: it holds the lock.
            match filling.take().map(|filling| slot.set(filling)) {
                Some(Err(refused)) => filling = Some(refused),
                Some(Ok(())) | None => break,
            }
        }
        others.extend(filling);
        handle
    }
}
