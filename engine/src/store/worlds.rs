//! The worlds that share a store, and which plans each of them owns.
//!
//! Plans fall into [`SLOTS`] slots by the last bits of their ids. A slot belongs to one world at most,
//! under an epoch that rises with every change of owner. Every write names the epoch of its slot, which
//! is checked in its commit: a world that has lost a slot can write nothing there, whether it knows of
//! it or not, and what it sent before is not written after it has got the slot back. So ownership costs
//! nothing for each plan, and a take-over is one small write however many plans it moves.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Swap;
use crate::id::PlanId;
use crate::payload::Payload;
use crate::time::Time;

/// Number of slots of plans. It is part of the format: ids contain their slot.
pub const SLOTS: usize = 1_024;

const WORDS: usize = SLOTS / 64;

/// The slot of a plan.
pub fn slot_of(plan: PlanId) -> usize {
    (plan.uuid().as_u128() % SLOTS as u128) as usize
}

/// The slot of a key: the last ten bits of the first two bytes of its SHA-256. It is part of the
/// format, so that every node and every store finds the same one.
pub fn slot_of_key(key: &str) -> usize {
    let digest = Sha256::digest(key);
    usize::from(u16::from_be_bytes([digest[0], digest[1]])) % SLOTS
}

/// The slot of a schedule, by its name: the owner of the slot serves it.
pub fn slot_of_schedule(name: &str) -> usize {
    slot_of_key(name)
}

/// The slot of an entity, by the name of its type and its key: that of the key `type/key`.
pub fn slot_of_entity(entity: &str, key: &str) -> usize {
    slot_of_key(&entity_key(entity, key))
}

/// The key that stands for an entity among all keys.
pub(crate) fn entity_key(entity: &str, key: &str) -> String {
    format!("{entity}/{key}")
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

    /// The slots that are in this set and in the other one.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let mut both = *self;
        both.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
        both
    }

    /// The slots of this set that are not in the other one.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = *self;
        left.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= !other);
        left
    }
}

impl FromIterator<usize> for Slots {
    fn from_iter<I: IntoIterator<Item = usize>>(slots: I) -> Self {
        let mut set = Self::default();
        slots.into_iter().for_each(|slot| set.add(slot));
        set
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
    /// Its number: later worlds have higher ones, and none is used twice.
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

/// Owner of a slot, and the epoch under which it has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The world; 0 if none has the slot.
    pub world: u64,
    /// Rises with every change of owner; 0 as long as no world ever had the slot.
    pub epoch: u64,
}

/// Names the slot of a write, and the epoch under which the writer believes to have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The slot.
    pub slot: usize,
    /// The epoch; [`NO_EPOCH`] if the writer does not have the slot.
    pub epoch: u64,
}

impl Hold {
    /// The slot of a plan.
    pub fn of(plan: PlanId, epoch: u64) -> Self {
        Self { slot: slot_of(plan), epoch }
    }
}

/// An epoch that no slot ever has: a write under it is refused.
pub const NO_EPOCH: u64 = u64::MAX;

/// The registered worlds, and the owners of slots.
#[derive(Clone, Debug)]
pub struct Worlds {
    /// Counts the changes.
    pub version: u64,
    /// The worlds, by their numbers.
    pub rows: Vec<WorldRow>,
    owners: Vec<Owner>,
}

impl Default for Worlds {
    fn default() -> Self {
        Self::new(0, Vec::new(), vec![Owner::default(); SLOTS])
    }
}

impl Worlds {
    /// Worlds as they are stored: their slots are those that the owners say. There is one owner for
    /// each slot.
    pub fn new(version: u64, mut rows: Vec<WorldRow>, owners: Vec<Owner>) -> Self {
        rows.sort_by_key(|row| row.epoch);
        for row in &mut rows {
            row.slots = Slots::default();
            let own = owners.iter().enumerate().filter(|(_, owner)| owner.world == row.epoch);
            own.for_each(|(slot, _)| row.slots.add(slot));
        }
        Self { version, rows, owners }
    }

    /// The world that owns a slot; 0 if none does.
    pub fn owner(&self, slot: usize) -> u64 {
        self.owners[slot].world
    }

    /// The owners of all slots, in the order of the slots.
    pub fn owners(&self) -> &[Owner] {
        &self.owners
    }

    /// A world that is registered.
    pub fn find(&self, epoch: u64) -> Option<&WorldRow> {
        self.rows.iter().find(|row| row.epoch == epoch)
    }

    /// Slots that no world owns.
    pub fn free(&self) -> Slots {
        free(&self.rows)
    }

    /// Whether a writer may write to a slot: nobody has got it since its epoch.
    ///
    /// # Errors
    ///
    /// The owner of the slot.
    pub fn admit(&self, hold: Hold) -> Result<(), Owner> {
        let owner = self.owners[hold.slot];
        if owner.epoch == hold.epoch {
            Ok(())
        } else {
            Err(owner)
        }
    }

    /// Makes a change, if it was decided by what is known here. The epoch of each slot that gets
    /// another owner, or none, rises.
    pub fn swap(&mut self, write: &WorldsWrite) -> Swap {
        if write.from != self.version {
            return Swap::Changed { version: self.version };
        }
        let is_left = |row: &WorldRow| {
            !write.gone.contains(&row.epoch) && write.put.iter().all(|put| put.epoch != row.epoch)
        };
        self.rows.retain(is_left);
        self.rows.extend(write.put.iter().cloned());
        self.rows.sort_by_key(|row| row.epoch);
        self.version += 1;
        let mut worlds = vec![0; SLOTS];
        for row in &self.rows {
            row.slots.iter().for_each(|slot| worlds[slot] = row.epoch);
        }
        for (owner, world) in self.owners.iter_mut().zip(worlds) {
            if owner.world != world {
                *owner = Owner { world, epoch: owner.epoch + 1 };
            }
        }
        Swap::Done
    }
}

/// Slots that none of these worlds has.
pub(crate) fn free(rows: &[WorldRow]) -> Slots {
    rows.iter().fold(Slots::all(), |free, row| free.without(&row.slots))
}
