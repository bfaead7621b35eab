//! The directories of all types, found without a lock: a look-up comes before every message by key.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::entity::{Directory, Entity};

/// Places that are found without a lock; a power of two.
const SLOTS: usize = 64;

/// Places that one type may have.
const PROBES: usize = 8;

const _: () = assert!(SLOTS.is_power_of_two() && PROBES <= SLOTS);

type AnyDirectory = Arc<dyn Any + Send + Sync>;

/// One directory for each type. A slot is filled once and never emptied; a type has the first free
/// one of its slots. The few that find none are behind the lock, under which all are made.
pub(crate) struct Directories {
    slots: [OnceLock<(TypeId, AnyDirectory)>; SLOTS],
    others: Mutex<HashMap<TypeId, AnyDirectory>>,
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
    /// The directory of a type; made if there is none.
    #[inline]
    pub(crate) fn get<E: Entity>(
        &self,
        make: impl FnOnce() -> Arc<Directory<E>>,
    ) -> Arc<Directory<E>> {
        let id = TypeId::of::<E>();
        let found = match self.find(id) {
            Some(found) => Arc::clone(found),
            None => self.insert(id, make),
        };
        match found.downcast() {
            Ok(directory) => directory,
            Err(_) => unreachable!("directories are found by the type of their entities"),
        }
    }

    /// Number of directories.
    pub(crate) fn len(&self) -> usize {
        self.slots.iter().filter(|slot| slot.get().is_some()).count() + self.others.lock().len()
    }

    fn slots_of(&self, id: TypeId) -> impl Iterator<Item = &OnceLock<(TypeId, AnyDirectory)>> {
        let mut hasher = IdentityHasher::default();
        id.hash(&mut hasher);
        let begin = hasher.finish() as usize;
        (0..PROBES).map(move |offset| &self.slots[begin.wrapping_add(offset) % SLOTS])
    }

    #[inline]
    fn find(&self, id: TypeId) -> Option<&AnyDirectory> {
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
    fn insert<E: Entity>(
        &self,
        id: TypeId,
        make: impl FnOnce() -> Arc<Directory<E>>,
    ) -> AnyDirectory {
        let mut others = self.others.lock();
        if let Some(found) = self.find(id).or_else(|| others.get(&id)) {
            return Arc::clone(found);
        }
        let made: AnyDirectory = make();
        let mut filling = Some((id, Arc::clone(&made)));
        for slot in self.slots_of(id) {
            // Only this thread fills slots: it holds the lock.
            match filling.take().map(|filling| slot.set(filling)) {
                Some(Err(refused)) => filling = Some(refused),
                Some(Ok(())) | None => break,
            }
        }
        if let Some((id, found)) = filling {
            others.insert(id, found);
        }
        made
    }
}
