//! The directories of all types, found without a lock: a look-up comes before every message by key.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::entity::{Directory, Entity};

/// Places that are found without a lock; a power of two.
const PLACES: usize = 64;

/// Places that one type may have.
const TRIES: usize = 8;

const _: () = assert!(PLACES.is_power_of_two() && TRIES <= PLACES);

type Kept = Arc<dyn Any + Send + Sync>;

/// One directory for each type. A place is filled once and never emptied; a type has the first free
/// one of its places. The few that find none are behind the lock, under which all are made.
pub(crate) struct Directories {
    places: [OnceLock<(TypeId, Kept)>; PLACES],
    others: Mutex<HashMap<TypeId, Kept>>,
}

impl Default for Directories {
    fn default() -> Self {
        Self { places: [const { OnceLock::new() }; PLACES], others: Mutex::default() }
    }
}

/// Takes a number as it is: the number of a type is a hash already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
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
        let kept = match self.near(id) {
            Some(kept) => Arc::clone(kept),
            None => self.far(id, make),
        };
        match kept.downcast() {
            Ok(directory) => directory,
            Err(_) => unreachable!("directories are kept by the type of their entities"),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.places.iter().filter(|place| place.get().is_some()).count() + self.others.lock().len()
    }

    fn places_of(&self, id: TypeId) -> impl Iterator<Item = &OnceLock<(TypeId, Kept)>> {
        let mut hasher = AsItIs::default();
        id.hash(&mut hasher);
        let begin = hasher.finish() as usize;
        (0..TRIES).map(move |offset| &self.places[begin.wrapping_add(offset) % PLACES])
    }

    #[inline]
    fn near(&self, id: TypeId) -> Option<&Kept> {
        for place in self.places_of(id) {
            match place.get() {
                Some((known, kept)) if *known == id => return Some(kept),
                Some(_) => {}
                None => return None,
            }
        }
        None
    }

    #[cold]
    fn far<E: Entity>(&self, id: TypeId, make: impl FnOnce() -> Arc<Directory<E>>) -> Kept {
        let mut others = self.others.lock();
        if let Some(kept) = self.near(id).or_else(|| others.get(&id)) {
            return Arc::clone(kept);
        }
        let made: Kept = make();
        let mut filling = Some((id, Arc::clone(&made)));
        for place in self.places_of(id) {
            // Nobody else fills places meanwhile: that takes the lock.
            match filling.take().map(|filling| place.set(filling)) {
                Some(Err(refused)) => filling = Some(refused),
                Some(Ok(())) | None => break,
            }
        }
        if let Some((id, kept)) = filling {
            others.insert(id, kept);
        }
        made
    }
}
