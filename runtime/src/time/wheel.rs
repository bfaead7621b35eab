//! Hierarchical timing wheel: pending timers, sorted as little and as late as possible.
//!
//! After G. Varghese and A. Lauck, «Hashed and Hierarchical Timing Wheels» (SOSP 1987), scheme 7,
//! with exact deadlines: the wheel sorts timers into ticks, a small heap sorts the current tick. A
//! pure data structure: no clock, no lock, no atomic; its owner passes the time.
//!
//! Invariant: a timer whose tick is after `tick` is in the slot that its highest six-bit digit
//! different from `tick` names, every other timer is in the heap. So each slot's timers are all
//! earlier than those of later slots and of higher levels. See `README.md`; property tests are in
//! `tests/jobs/wheel.rs`.

#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub use super::entries::Key;
use super::entries::{Entries, EntryState, NONE};

/// Timers that one `expire` moves to a lower level or into the heap, at most. It bounds the time
/// for which the owner's lock is held to some 100 µs (with a million timers a move costs 50 to
/// 150 ns, most of it cache misses); the rest is moved by the next call.
pub const MOVES_MAX: usize = 1_024;

/// Cancelled timers that may stay in the heap before it is rebuilt without them.
const STALE_MAX: usize = 64;

/// Places that the heap keeps after it has been emptied (24 bytes each); more are given back.
const DUE_SPARE: usize = 4_096;

/// Length of a tick: 2^16 ns are 65.5 µs. It decides how many timers the heap sorts at once, not
/// how exactly they fire.
const TICK_BITS: u32 = 16;

const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;

/// Eight levels cover all 2^64 ns, so that there is no overflow to treat.
///
/// | level | a slot spans | the level reaches |
/// | --- | --- | --- |
/// | 0 | 65.5 µs | 4.19 ms |
/// | 1 | 4.19 ms | 268 ms |
/// | 2 | 268 ms | 17.2 s |
/// | 3 | 17.2 s | 18.3 min |
/// | 4 | 18.3 min | 19.5 h |
/// | 5 | 19.5 h | 52 days |
/// | 6 | 52 days | 9.1 years |
/// | 7 | 9.1 years | 584 years |
const LEVELS: usize = 8;

const _: () = assert!(LEVELS as u32 * SLOT_BITS + TICK_BITS == u64::BITS);
const _: () = assert!(LEVELS * SLOTS <= u16::MAX as usize);

/// Pending timers, each with a value of type `T`.
pub struct Wheel<T> {
    entries: Entries<T>,
    slots: Box<[Slot; LEVELS * SLOTS]>,
    /// For each level, which slots hold timers.
    occupied: [u64; LEVELS],
    /// The tick up to which, inclusive, all timers have left the slots.
    tick: u64,
    /// Latest time that `expire` was called with.
    now_ns: u64,
    /// The slot that `tick` has reached and that is not empty yet.
    emptying: Option<u16>,
    /// Timers whose tick has been reached. The top is never cancelled.
    due: BinaryHeap<Reverse<Due>>,
    /// Cancelled timers in `due`.
    stale: usize,
    sequence: u64,
}

/// A list of timers, first in first out.
#[derive(Clone, Copy)]
struct Slot {
    head: u32,
    tail: u32,
    /// Not later than any timer of the slot, and exact until the earliest one is cancelled.
    earliest_ns: u64,
}

const EMPTY: Slot = Slot { head: NONE, tail: NONE, earliest_ns: u64::MAX };

/// An element of the heap; the order of the fields is the order of delivery.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    deadline_ns: u64,
    sequence: u64,
    index: u32,
}

impl<T> Wheel<T> {
    /// An empty wheel for at most `limit` timers, at time `now_ns`. Indices of keys are below the
    /// limit, rounded up to a multiple of 4,096. Allocates 8 KiB for the slots.
    ///
    /// # Panics
    ///
    /// If the limit is above 2^31.
    pub fn with_limit(now_ns: u64, limit: usize) -> Self {
        Self {
            entries: Entries::with_limit(limit),
            slots: Box::new([EMPTY; LEVELS * SLOTS]),
            occupied: [0; LEVELS],
            tick: now_ns >> TICK_BITS,
            now_ns,
            emptying: None,
            due: BinaryHeap::new(),
            stale: 0,
            sequence: 0,
        }
    }

    /// Number of pending timers.
    pub fn pending(&self) -> usize {
        self.entries.len()
    }

    /// Adds a timer. A deadline that has passed is delivered by the next `expire`.
    ///
    /// Constant time; one allocation for each 4,096 timers.
    ///
    /// # Errors
    ///
    /// The value, if as many timers are pending as the wheel may hold.
    pub fn arm(&mut self, deadline_ns: u64, value: T) -> Result<Key, T> {
        let sequence = self.next_sequence();
        let key = self.entries.insert(deadline_ns, sequence, value)?;
        self.place(key.index, deadline_ns, sequence);
        Ok(key)
    }

    /// Takes a timer out and returns its value, or nothing if the key is stale: delivered,
    /// cancelled, or not of this wheel's present timers. A stale key never hits another timer.
    ///
    /// Constant time (amortised, if the timer's tick has been reached).
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        self.displace(key)?;
        let value = self.entries.remove(key.index);
        self.forget_stale();
        Some(value)
    }

    /// The earliest deadline; constant time.
    ///
    /// Never later than the true one. Earlier only if the earliest timer of a slot was cancelled; a
    /// call of `expire` at the returned time then makes it exact, by moving that slot's timers.
    /// Each timer moves at most eight times, so an owner that calls `expire` at each returned time
    /// does not loop for ever.
    pub fn next_deadline(&self) -> Option<u64> {
        let due = self.due.peek().map(|Reverse(due)| due.deadline_ns);
        let first = due.or_else(|| Some(self.slots[self.first_slot()?].earliest_ns));
        let emptying = self.emptying.map(|slot| self.slots[usize::from(slot)].earliest_ns);
        [first, emptying].into_iter().flatten().min()
    }

    /// Delivers timers whose deadline is at or before `now_ns`, in the order of their deadlines and
    /// for equal ones in the order of arming: at most `max`, and none early. Returns how many.
    ///
    /// The rest comes with the next call, so after a call with many timers **look at
    /// [`next_deadline`](Self::next_deadline), not at the number returned**: a call also ends when
    /// it has moved [`MOVES_MAX`] timers. The cost follows the timers that are moved and delivered,
    /// not the time that has passed. A `now_ns` before that of an earlier call is replaced by the
    /// earlier one.
    ///
    /// # Panics
    ///
    /// If `deliver` panics; its timer is gone then, all others are kept.
    pub fn expire(&mut self, now_ns: u64, max: usize, deliver: &mut impl FnMut(u64, T)) -> usize {
        debug_assert!(max > 0, "a call that may deliver nothing makes no progress");
        self.now_ns = self.now_ns.max(now_ns);
        let mut moves = MOVES_MAX;
        let mut delivered = 0;
        // Each pass empties a slot that holds timers: at most `MOVES_MAX` passes.
        while self.empty_slot(&mut moves) {
            delivered += self.deliver_due(max - delivered, deliver);
            if delivered == max || !self.due.is_empty() || !self.reach_next_slot() {
                break;
            }
        }
        if self.due.is_empty() && self.due.capacity() > DUE_SPARE {
            self.due.shrink_to(DUE_SPARE);
        }
        delivered
    }

    /// Returns the elements of the heap, stale ones included, and the chunks that hold memory.
    pub fn memory(&self) -> (usize, usize) {
        (self.due.len(), self.entries.chunks_with_memory())
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Puts an entry that is nowhere into its slot or into the heap.
    #[inline]
    fn place(&mut self, index: u32, deadline_ns: u64, sequence: u64) {
        let tick = deadline_ns >> TICK_BITS;
        if tick <= self.tick {
            self.entries.entry_mut(index).place = EntryState::Due;
            self.due.push(Reverse(Due { deadline_ns, sequence, index }));
        } else {
            self.link(index, deadline_ns, tick);
        }
    }

    #[inline]
    fn link(&mut self, index: u32, deadline_ns: u64, tick: u64) {
        debug_assert!(tick > self.tick, "a tick that has been reached belongs to the heap");
        let level = (tick ^ self.tick).ilog2() / SLOT_BITS;
        let digit = (tick >> (level * SLOT_BITS)) as usize % SLOTS;
        let number = level as usize * SLOTS + digit;
        self.occupied[level as usize] |= 1 << digit;
        let slot = &mut self.slots[number];
        let previous = slot.tail;
        slot.tail = index;
        slot.earliest_ns = slot.earliest_ns.min(deadline_ns);
        if previous == NONE {
            slot.head = index;
        } else {
            self.entries.entry_mut(previous).next = index;
        }
        let entry = self.entries.entry_mut(index);
        entry.next = NONE;
        entry.previous = previous;
        entry.place = EntryState::Slot(number as u16);
    }

    #[inline]
    fn unlink(&mut self, index: u32, number: u16) {
        let entry = self.entries.entry(index);
        let (previous, next) = (entry.previous, entry.next);
        debug_assert_eq!(entry.place, EntryState::Slot(number), "an entry knows its slot");
        let slot = &mut self.slots[usize::from(number)];
        if previous == NONE {
            slot.head = next;
        } else {
            self.entries.entry_mut(previous).next = next;
        }
        if next == NONE {
            slot.tail = previous;
        } else {
            self.entries.entry_mut(next).previous = previous;
        }
        if slot.head == NONE {
            self.emptied(number);
        }
    }

    fn emptied(&mut self, number: u16) {
        let (level, digit) = (usize::from(number) / SLOTS, usize::from(number) % SLOTS);
        self.slots[usize::from(number)] = EMPTY;
        self.occupied[level] &= !(1 << digit);
        if self.emptying == Some(number) {
            self.emptying = None;
        }
    }

    /// Takes the named entry out of its slot or counts it as stale in the heap.
    #[inline]
    fn displace(&mut self, key: Key) -> Option<()> {
        match self.entries.find(key)?.place {
            EntryState::Slot(number) => self.unlink(key.index, number),
            EntryState::Due => self.stale += 1,
            EntryState::Free => unreachable!("an entry with a value is in a slot or in the heap"),
        }
        Some(())
    }

    /// Keeps the top of the heap live, and the stale elements fewer than the live ones.
    #[inline]
    fn forget_stale(&mut self) {
        while self.stale > 0 {
            let Some(Reverse(top)) = self.due.peek() else { break };
            if is_live(&self.entries, top) {
                break;
            }
            self.due.pop();
            self.stale -= 1;
        }
        if self.stale > STALE_MAX && self.stale > self.due.len() / 2 {
            let entries = &self.entries;
            self.due.retain(|Reverse(due)| is_live(entries, due));
            self.stale = 0;
        }
        debug_assert!(self.stale <= self.due.len(), "stale elements are in the heap");
    }

    /// Slot of the earliest timer in a slot, except the slot that is being emptied.
    ///
    /// The lowest level comes first, and in it the lowest digit: no digit in use is below that of
    /// `tick`, so a level never has to be searched from its middle.
    #[inline]
    fn first_slot(&self) -> Option<usize> {
        let level = self.occupied.iter().position(|slots| *slots != 0)?;
        Some(level * SLOTS + self.occupied[level].trailing_zeros() as usize)
    }

    /// Moves the time to the first slot with timers, unless that is after now.
    fn reach_next_slot(&mut self) -> bool {
        debug_assert!(self.emptying.is_none() && self.due.is_empty(), "earlier timers come first");
        let now_tick = self.now_ns >> TICK_BITS;
        let reached = self.first_slot().map(|slot| (slot, self.first_tick(slot)));
        match reached {
            Some((slot, tick)) if tick <= now_tick => {
                debug_assert!(tick > self.tick, "the time only moves forward");
                self.tick = tick;
                self.emptying = Some(slot as u16);
                true
            }
            _ => {
                // No timer lies between, so every entry keeps its slot.
                self.tick = self.tick.max(now_tick);
                false
            }
        }
    }

    /// The first tick that belongs to a slot: the present one with the slot's digit in its place
    /// and zeros below.
    fn first_tick(&self, slot: usize) -> u64 {
        let (level, digit) = (slot / SLOTS, slot % SLOTS);
        let shift = level as u32 * SLOT_BITS;
        let above = !((1u64 << (shift + SLOT_BITS)) - 1);
        (self.tick & above) | ((digit as u64) << shift)
    }

    /// Moves the timers of the slot that has been reached to lower levels or into the heap; answers
    /// whether it is done with that.
    fn empty_slot(&mut self, moves: &mut usize) -> bool {
        while let Some(number) = self.emptying {
            if *moves == 0 {
                return false;
            }
            *moves -= 1;
            let index = self.slots[usize::from(number)].head;
            let entry = self.entries.entry(index);
            let (deadline_ns, sequence) = (entry.deadline_ns, entry.sequence);
            self.unlink(index, number);
            self.place(index, deadline_ns, sequence);
        }
        true
    }

    fn deliver_due(&mut self, max: usize, deliver: &mut impl FnMut(u64, T)) -> usize {
        for delivered in 0..max {
            match self.due.peek() {
                Some(Reverse(due)) if due.deadline_ns <= self.now_ns => {}
                _ => return delivered,
            }
            let Some(Reverse(due)) = self.due.pop() else { return delivered };
            debug_assert!(is_live(&self.entries, &due), "the top of the heap is live");
            let value = self.entries.remove(due.index);
            // Before `deliver`, which may panic.
            self.forget_stale();
            deliver(due.deadline_ns, value);
        }
        max
    }
}

/// Whether an element of the heap still belongs to a pending timer.
fn is_live<T>(entries: &Entries<T>, due: &Due) -> bool {
    entries.find(Key { index: due.index, sequence: due.sequence }).is_some()
}

debug_fields!(impl<T> Wheel<T>, self => pending: self.pending());
