//! The worlds that share a store, and which plans each of them owns.
//!
//! Plans fall into [`SLOTS`] slots by the last bits of their ids. A slot belongs to one world at most,
//! and every entry of a plan is checked against that in its commit: a world that has lost a slot can
//! write nothing there, whether it knows of it or not. So ownership costs nothing for each plan, and a
//! take-over is one small write however many plans it moves.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Swap;
use crate::error::StoreError;
use crate::id::PlanId;
use crate::payload::Payload;
use crate::time::Time;

/// Number of slots of plans. It is part of the format: ids contain their slot.
pub const SLOTS: usize = 1_024;

const WORDS: usize = SLOTS / 64;

/// The slot of the schedules: its owner serves them.
pub const SCHEDULES_SLOT: usize = 0;

/// The slot of a plan.
pub fn slot_of(plan: PlanId) -> usize {
    (plan.uuid().as_u128() % SLOTS as u128) as usize
}

/// A set of slots.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Slots([u64; WORDS]);

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} slots", self.len())
    }
}

impl Slots {
    /// All of them.
    pub const fn all() -> Self {
        Self([u64::MAX; WORDS])
    }

    /// Whether a slot is in it.
    pub fn has(&self, slot: usize) -> bool {
        self.0[slot / 64] & (1 << (slot % 64)) != 0
    }

    /// Adds a slot.
    pub fn add(&mut self, slot: usize) {
        self.0[slot / 64] |= 1 << (slot % 64);
    }

    /// Takes a slot out.
    pub fn remove(&mut self, slot: usize) {
        self.0[slot / 64] &= !(1 << (slot % 64));
    }

    /// Number of slots in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The slots of the set, the lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..SLOTS).filter(|slot| self.has(*slot))
    }

    /// The slots of this set that are not in the other one.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = *self;
        left.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= !other);
        left
    }

    /// As bytes, for a store.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// From [`Slots::to_bytes`].
    ///
    /// # Errors
    ///
    /// These are not the bytes of a set of slots.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        if bytes.len() != WORDS * 8 {
            let problem = format!("a world's slots have {} bytes", bytes.len());
            return Err(StoreError::Corrupt(problem));
        }
        let mut slots = Self::default();
        for (word, bytes) in slots.0.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("chunks have eight bytes"));
        }
        Ok(slots)
    }
}

/// Kind of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorldKind {
    /// It triggers plans, sends events, and looks; other worlds run what it triggers.
    Client,
    /// It also runs plans.
    Executor,
}

/// A world as it is registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorldRow {
    /// Its number: later worlds have higher ones, and none is used twice. It is the epoch of all
    /// its writes.
    pub epoch: u64,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: WorldKind,
    /// When it was registered.
    pub since: Time,
    /// The slots that it owns; none if it is a client.
    pub slots: Slots,
    /// Its description of itself, as JSON.
    pub meta: String,
    /// Its claims: no other world has any of them.
    pub claims: Vec<Claim>,
}

/// A name that one world has, with what it wrote beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The class of names that it is of.
    pub class: String,
    /// The name in its class.
    pub id: String,
    /// Data that its world wrote with it.
    pub data: Payload,
}

/// A change of who is there and who owns what.
#[derive(Clone, Debug, Default)]
pub struct WorldsWrite {
    /// The version that is changed.
    pub from: u64,
    /// Worlds that are new or changed.
    pub put: Vec<WorldRow>,
    /// Worlds that are gone, with all that they had claimed.
    pub gone: Vec<u64>,
}

/// The registered worlds, and the owners of slots.
#[derive(Clone, Debug)]
pub struct Worlds {
    /// Counts the changes.
    pub version: u64,
    /// The worlds, by their epochs.
    pub rows: Vec<WorldRow>,
    owners: Vec<u64>,
}

impl Default for Worlds {
    fn default() -> Self {
        Self::new(0, Vec::new())
    }
}

impl Worlds {
    /// These worlds.
    pub fn new(version: u64, rows: Vec<WorldRow>) -> Self {
        let mut worlds = Self { version, rows, owners: Vec::new() };
        worlds.arrange();
        worlds
    }

    fn arrange(&mut self) {
        self.rows.sort_by_key(|row| row.epoch);
        self.owners = vec![0; SLOTS];
        for row in &self.rows {
            row.slots.iter().for_each(|slot| self.owners[slot] = row.epoch);
        }
    }

    /// The world that owns a slot; 0 if none does.
    pub fn owner(&self, slot: usize) -> u64 {
        self.owners[slot]
    }

    /// A world that is registered.
    pub fn find(&self, epoch: u64) -> Option<&WorldRow> {
        self.rows.iter().find(|row| row.epoch == epoch)
    }

    /// Slots that no world owns.
    pub fn free(&self) -> Slots {
        let mut free = Slots::default();
        (0..SLOTS).filter(|slot| self.owners[*slot] == 0).for_each(|slot| free.add(slot));
        free
    }

    /// Whether a world may write to a slot. A store that never had a world takes what anybody
    /// writes.
    ///
    /// # Errors
    ///
    /// The world that owns it; 0 if none does.
    pub fn admit(&self, slot: usize, epoch: u64) -> Result<(), u64> {
        let owner = self.owners[slot];
        if owner == epoch || self.version == 0 {
            Ok(())
        } else {
            Err(owner)
        }
    }

    /// Makes a change, if it was decided by what is known here.
    pub fn swap(&mut self, write: &WorldsWrite) -> Swap {
        if write.from != self.version {
            return Swap::Changed { version: self.version };
        }
        let is_left = |row: &WorldRow| {
            !write.gone.contains(&row.epoch) && write.put.iter().all(|put| put.epoch != row.epoch)
        };
        self.rows.retain(is_left);
        self.rows.extend(write.put.iter().cloned());
        self.version += 1;
        self.arrange();
        Swap::Done
    }
}
