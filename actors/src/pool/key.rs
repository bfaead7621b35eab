//! The place of a key: the one with the highest score (rendezvous hashing). Adding or removing a
//! place moves only the keys of that place.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::system::id::mix;

/// The same in every run: the hasher has no random keys.
pub(crate) fn hash(key: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Index of the place of a key; `None` if there is no place.
pub(crate) fn winner(places: impl Iterator<Item = u64>, key: u64) -> Option<usize> {
    let best = places.enumerate().max_by_key(|(_, place)| mix(key ^ mix(place + 1)));
    best.map(|(index, _)| index)
}
