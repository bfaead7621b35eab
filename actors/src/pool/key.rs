//! Which place a key belongs to: that with the highest score (rendezvous hashing). A place more or
//! less moves only the keys that it wins or had.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::system::id::mix;

/// The same in every run: the hasher has no random keys.
pub(crate) fn hash(key: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// The index of the place that a key belongs to; `None` if there is no place.
pub(crate) fn winner(places: impl Iterator<Item = u64>, key: u64) -> Option<usize> {
    let best = places.enumerate().max_by_key(|(_, place)| mix(key ^ mix(place + 1)));
    best.map(|(index, _)| index)
}
