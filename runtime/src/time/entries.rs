//! The wheel's store of entries: stable indices, memory given back in chunks.
//!
//! Owned by one [`Wheel`](super::wheel::Wheel). A key holds the sequence number of its timer, and
//! no two timers of a wheel have the same one, so a stale key never finds another timer.

#![forbid(unsafe_code)]

/// Entries of one chunk. At 40 bytes an entry (a pointer as value) 160 KiB: growing never copies
/// old entries, so that no arming waits for a large move, and untouched pages cost nothing.
pub(super) const CHUNK_ENTRIES: usize = 1 << CHUNK_BITS;

/// Empty chunks whose memory is kept for reuse; further ones are freed at once. With sixteen,
/// 65,536 timers can be armed and fire without a call to the allocator.
pub(super) const SPARE_CHUNKS_MAX: usize = 16;

/// Entries that a store may be allowed to hold: indices need a value that means «none».
pub(super) const ENTRIES_LIMIT_MAX: usize = 1 << 31;

/// The index that means «no entry».
pub(super) const NONE: u32 = u32::MAX;

const CHUNK_BITS: u32 = 12;

const _: () = assert!(ENTRIES_LIMIT_MAX < NONE as usize);
const _: () = assert!(SPARE_CHUNKS_MAX >= 1);

/// Key of one armed timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// EntryState of its entry in the store.
    pub(crate) index: u32,
    /// Its sequence number, from 1; a key with 0 finds nothing.
    pub(crate) sequence: u64,
}

/// State of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryState {
    /// In the free list of its chunk.
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
    pub(super) place: EntryState,
    value: Option<T>,
}

struct Chunk<T> {
    entries: Vec<Entry<T>>,
    free: u32,
    /// Entries in use.
    used: u32,
}

impl<T> Chunk<T> {
    const EMPTY: Self = Self { entries: Vec::new(), free: NONE, used: 0 };

    fn is_full(&self) -> bool {
        self.free == NONE && self.entries.len() == CHUNK_ENTRIES
    }
}

/// The store.
pub(super) struct Entries<T> {
    chunks: Vec<Chunk<T>>,
    /// Chunks with memory and room, the last used last.
    open: Vec<u32>,
    /// Chunks without memory.
    released: Vec<u32>,
    /// Chunks with memory and no entry in use.
    spare: usize,
    live: usize,
    limit: usize,
}

impl<T> Entries<T> {
    /// Creates a store for at most `limit` entries; indices are below the limit, rounded up to
    /// whole chunks. No allocation.
    ///
    /// # Panics
    ///
    /// If the limit is above [`ENTRIES_LIMIT_MAX`].
    pub(super) fn with_limit(limit: usize) -> Self {
        assert!(limit <= ENTRIES_LIMIT_MAX, "a wheel's limit is at most 2^31 entries");
        let (chunks, open, released) = (Vec::new(), Vec::new(), Vec::new());
        Self { chunks, open, released, spare: 0, live: 0, limit }
    }

    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// Number of chunks that hold memory.
    pub(super) fn chunks_with_memory(&self) -> usize {
        self.chunks.len() - self.released.len()
    }

    /// Stores a value; gives it back if the limit is reached.
    pub(super) fn insert(&mut self, deadline_ns: u64, sequence: u64, value: T) -> Result<Key, T> {
        if self.live >= self.limit {
            return Err(value);
        }
        let number = self.open_chunk();
        let chunk = &mut self.chunks[number as usize];
        if chunk.used == 0 {
            self.spare -= 1;
        }
        if chunk.free == NONE {
            chunk.free = (number << CHUNK_BITS) | chunk.entries.len() as u32;
            let (next, previous, place) = (NONE, NONE, EntryState::Free);
            chunk.entries.push(Entry { deadline_ns, sequence, next, previous, place, value: None });
        }
        let index = chunk.free;
        let entry = &mut chunk.entries[offset(index)];
        debug_assert!(entry.value.is_none(), "a free entry holds no value");
        chunk.free = entry.next;
        (entry.deadline_ns, entry.sequence, entry.value) = (deadline_ns, sequence, Some(value));
        chunk.used += 1;
        if chunk.is_full() {
            self.open.pop();
        }
        self.live += 1;
        Ok(Key { index, sequence })
    }

    /// The entry that a key names, if it is still there.
    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<&Entry<T>> {
        let entry = self.chunks.get(number(key.index))?.entries.get(offset(key.index))?;
        (entry.sequence == key.sequence && entry.value.is_some()).then_some(entry)
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

    /// Takes the value out and frees the entry, which must be in no list.
    pub(super) fn remove(&mut self, index: u32) -> T {
        let chunk = &mut self.chunks[number(index)];
        let was_full = chunk.is_full();
        let entry = &mut chunk.entries[offset(index)];
        let value = entry.value.take().expect("the caller has looked the entry up");
        entry.place = EntryState::Free;
        entry.next = chunk.free;
        chunk.free = index;
        chunk.used -= 1;
        self.live -= 1;
        if was_full {
            self.open.push(number(index) as u32);
        }
        if chunk.used == 0 {
            self.emptied(number(index));
        }
        value
    }

    /// Returns a chunk with room; allocates one if there is none.
    fn open_chunk(&mut self) -> u32 {
        if let Some(number) = self.open.last() {
            return *number;
        }
        let number = self.released.pop().unwrap_or_else(|| {
            self.chunks.push(Chunk::EMPTY);
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
            // Rare, and a list of at most 4,096: once in as many removals.
            self.open.retain(|open| *open as usize != number);
            self.released.push(number as u32);
            self.chunks[number] = Chunk::EMPTY;
        }
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
