//! The wheel's store of entries: stable indices, generations, memory given back in chunks.
//!
//! Owned by one [`Wheel`](super::wheel::Wheel). Invariant: an entry's generation is never used
//! again once its value has left, so a stale key finds nothing, for ever.

#![forbid(unsafe_code)]

use std::fmt;

/// Entries of one chunk. At 40 bytes an entry (a pointer as value) 160 KiB: growing never copies
/// old entries, so that no arming waits for a large move, and untouched pages cost nothing.
pub(super) const CHUNK_ENTRIES: usize = 1 << CHUNK_BITS;

/// Empty chunks that keep their memory for reuse; further ones give it back at once. Sixteen let
/// 65,536 timers come and go without a call to the allocator.
pub(super) const SPARE_CHUNKS_MAX: usize = 16;

/// Entries that a store may be allowed to hold: indices need a value that means «none».
pub(super) const ENTRIES_LIMIT_MAX: usize = 1 << 31;

/// The index that means «no entry».
pub(super) const NONE: u32 = u32::MAX;

const CHUNK_BITS: u32 = 12;

/// The generation at which an entry is retired, so that generations never wrap.
const GENERATION_RETIRED: u32 = u32::MAX;

/// Above 0, so that a key whose bits are all zero, as in a word not written yet, names nothing.
const GENERATION_FIRST: u32 = 1;

const _: () = assert!(ENTRIES_LIMIT_MAX < NONE as usize);
const _: () = assert!(SPARE_CHUNKS_MAX >= 1);

/// Name of one armed timer: where its entry is, and which use of that entry is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Place in the store.
    pub(crate) index: u32,
    /// Use of that place.
    pub(crate) generation: u32,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the free list of its chunk, or retired.
    Free,
    /// In the list of this slot.
    Slot(u16),
    /// In the heap of due timers.
    Due,
}

/// One timer, or one free place.
pub(super) struct Entry<T> {
    pub(super) deadline_ns: u64,
    /// Position among all arms; unique, and the order of equal deadlines.
    pub(super) sequence: u64,
    /// Next of the slot's list, or of the chunk's free list.
    pub(super) next: u32,
    pub(super) previous: u32,
    pub(super) generation: u32,
    pub(super) place: Place,
    value: Option<T>,
}

struct Chunk<T> {
    entries: Vec<Entry<T>>,
    free: u32,
    /// Entries in use, and retired ones.
    used: u32,
    /// Generation of entries that are made from now on: above all that were ever used here.
    base: u32,
    /// Highest generation of a free entry.
    highest: u32,
}

impl<T> Chunk<T> {
    fn new() -> Self {
        Self { entries: Vec::new(), free: NONE, used: 0, base: GENERATION_FIRST, highest: 0 }
    }

    fn is_full(&self) -> bool {
        self.free == NONE && self.entries.len() == CHUNK_ENTRIES
    }

    fn has_memory(&self) -> bool {
        self.entries.capacity() > 0
    }

    fn release(&mut self) {
        debug_assert_eq!(self.used, 0, "a chunk in use keeps its memory");
        self.base = self.base.max(self.highest);
        self.entries = Vec::new();
        self.free = NONE;
    }
}

/// The store.
pub(super) struct Entries<T> {
    chunks: Vec<Chunk<T>>,
    /// Chunks with room, the last used first. Some may have given their memory back meanwhile.
    open: Vec<u32>,
    /// Chunks without memory.
    released: Vec<u32>,
    /// Chunks with memory and no entry in use.
    spare: usize,
    live: usize,
    /// Entries whose generations are used up.
    retired: usize,
    limit: usize,
}

impl<T> Entries<T> {
    /// A store for at most `limit` entries, retired ones included: so an index is below the limit,
    /// rounded up to whole chunks. No allocation.
    ///
    /// # Panics
    ///
    /// If the limit is above [`ENTRIES_LIMIT_MAX`].
    pub(super) fn with_limit(limit: usize) -> Self {
        assert!(limit <= ENTRIES_LIMIT_MAX, "a wheel's limit is at most 2^31 entries");
        Self {
            chunks: Vec::new(),
            open: Vec::new(),
            released: Vec::new(),
            spare: 0,
            live: 0,
            retired: 0,
            limit,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// Chunks that hold memory.
    pub(super) fn chunks_with_memory(&self) -> usize {
        self.chunks.iter().filter(|chunk| chunk.has_memory()).count()
    }

    /// Stores a value; gives it back if the limit is reached.
    pub(super) fn insert(&mut self, deadline_ns: u64, sequence: u64, value: T) -> Result<Key, T> {
        if self.live + self.retired >= self.limit {
            return Err(value);
        }
        let number = self.open_chunk();
        let chunk = &mut self.chunks[number as usize];
        if chunk.used == 0 {
            self.spare -= 1;
        }
        let index = if chunk.free == NONE {
            let offset = chunk.entries.len() as u32;
            chunk.entries.push(Entry {
                deadline_ns,
                sequence,
                next: NONE,
                previous: NONE,
                generation: chunk.base,
                place: Place::Free,
                value: Some(value),
            });
            (number << CHUNK_BITS) | offset
        } else {
            let index = chunk.free;
            let entry = &mut chunk.entries[offset(index)];
            debug_assert!(entry.value.is_none(), "a free entry holds no value");
            chunk.free = entry.next;
            entry.deadline_ns = deadline_ns;
            entry.sequence = sequence;
            entry.value = Some(value);
            index
        };
        chunk.used += 1;
        let generation = chunk.entries[offset(index)].generation;
        if chunk.is_full() {
            self.open.pop();
        }
        self.live += 1;
        Ok(Key { index, generation })
    }

    /// The entry that a key names, if it is still there.
    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<&Entry<T>> {
        let entry = self.at(key.index)?;
        (entry.generation == key.generation && entry.value.is_some()).then_some(entry)
    }

    /// The entry at an index, free or not, if there is memory there.
    #[inline]
    pub(super) fn at(&self, index: u32) -> Option<&Entry<T>> {
        self.chunks.get(number(index))?.entries.get(offset(index))
    }

    /// The entry at an index that is known to be in use.
    #[inline]
    pub(super) fn entry(&self, index: u32) -> &Entry<T> {
        &self.chunks[number(index)].entries[offset(index)]
    }

    /// The entry at an index that is known to be in use.
    #[inline]
    pub(super) fn entry_mut(&mut self, index: u32) -> &mut Entry<T> {
        &mut self.chunks[number(index)].entries[offset(index)]
    }

    /// Takes the value out and ends the generation. The entry must be in no list.
    pub(super) fn remove(&mut self, index: u32) -> T {
        let chunk = &mut self.chunks[number(index)];
        let was_full = chunk.is_full();
        let entry = &mut chunk.entries[offset(index)];
        let value = entry.value.take().expect("the caller has looked the entry up");
        entry.place = Place::Free;
        entry.generation += 1;
        self.live -= 1;
        if entry.generation == GENERATION_RETIRED {
            self.retired += 1;
            return value;
        }
        entry.next = chunk.free;
        chunk.free = index;
        chunk.highest = chunk.highest.max(entry.generation);
        chunk.used -= 1;
        if was_full {
            self.open.push(number(index) as u32);
        }
        if chunk.used == 0 {
            self.emptied(number(index));
        }
        value
    }

    /// The first chunk with room; gets memory for one if there is none.
    fn open_chunk(&mut self) -> u32 {
        while let Some(&number) = self.open.last() {
            if self.chunks[number as usize].has_memory() {
                return number;
            }
            self.open.pop();
            self.released.push(number);
        }
        let number = self.released.pop().unwrap_or_else(|| {
            self.chunks.push(Chunk::new());
            self.chunks.len() as u32 - 1
        });
        self.chunks[number as usize].entries.reserve_exact(CHUNK_ENTRIES);
        self.spare += 1;
        self.open.push(number);
        number
    }

    fn emptied(&mut self, number: usize) {
        if self.spare < SPARE_CHUNKS_MAX {
            self.spare += 1;
        } else {
            self.chunks[number].release();
        }
    }
}

impl<T> fmt::Debug for Entries<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries")
            .field("live", &self.live)
            .field("limit", &self.limit)
            .field("chunks_with_memory", &self.chunks_with_memory())
            .finish()
    }
}

#[inline]
fn number(index: u32) -> usize {
    (index >> CHUNK_BITS) as usize
}

#[inline]
fn offset(index: u32) -> usize {
    index as usize & (CHUNK_ENTRIES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_with_a_pointer_takes_40_bytes() {
        assert_eq!(size_of::<Entry<Box<u8>>>(), 40);
    }

    #[test]
    fn empty_chunks_give_their_memory_back_and_keep_their_generations() {
        let count = CHUNK_ENTRIES * (SPARE_CHUNKS_MAX + 4);
        let mut entries = Entries::with_limit(count);
        let keys: Vec<Key> =
            (0..count).map(|i| entries.insert(0, i as u64, i).expect("below the limit")).collect();
        assert!(entries.insert(0, 0, 0).is_err());
        assert_eq!(entries.chunks_with_memory(), SPARE_CHUNKS_MAX + 4);
        for (i, key) in keys.iter().enumerate() {
            assert_eq!(entries.remove(key.index), i);
        }
        assert_eq!(entries.len(), 0);
        assert_eq!(entries.chunks_with_memory(), SPARE_CHUNKS_MAX);
        for i in 0..count {
            entries.insert(1, i as u64, i).expect("below the limit");
        }
        assert_eq!(entries.chunks_with_memory(), SPARE_CHUNKS_MAX + 4);
        assert_eq!(entries.chunks.len(), SPARE_CHUNKS_MAX + 4);
        assert!(keys.iter().all(|key| entries.find(*key).is_none()));
    }

    #[test]
    fn an_entry_whose_generations_are_used_up_is_retired() {
        let mut entries = Entries::with_limit(8);
        entries.chunks.push(Chunk { base: GENERATION_RETIRED - 2, ..Chunk::new() });
        entries.released.push(0);
        let first = entries.insert(0, 0, ()).expect("below the limit");
        entries.remove(first.index);
        let second = entries.insert(0, 1, ()).expect("below the limit");
        assert_eq!(second.index, first.index);
        entries.remove(second.index);
        let third = entries.insert(0, 2, ()).expect("below the limit");
        assert_ne!(third.index, first.index);
        assert!(entries.find(first).is_none() && entries.find(second).is_none());
        assert_eq!(entries.len(), 1);
    }
}
