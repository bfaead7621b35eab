//! Where plans are kept: the interface that every store implements.
//!
//! One writer appends to the journal, in batches; each batch is one atomic, durable commit. Readers
//! run beside it. The journal has no index: each entry names the one before it of the same plan, the
//! newest one (the plan's *head*) is in the plan's row, or in memory as long as the row is behind.
//! Rows are for search and for start; they follow the journal and can be made again from it.
//!
//! One behaviour suite runs against every store.

pub mod aside;
mod change;
mod coded;
mod filter;
mod memory;
mod memory_states;
mod sqlite;
mod view;
mod work;
mod worlds;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use change::Change;
pub(crate) use coded::{undecodable, CODED};
pub use coded::{Codec, CodedStore};
pub use filter::{Filter, Order};
pub use memory::MemoryStore;
pub use sqlite::{SqliteCheck, SqliteStore, SqliteSync};
pub(crate) use view::read_plan;
pub use view::StoreView;
pub use work::{Work, Worked};
pub use worlds::{
    slot_of, Claim, Slots, WorldKind, WorldRow, Worlds, WorldsWrite, SCHEDULES_SLOT, SLOTS,
};

use turnwheel_actors::entity::{DueRange, Record, ReminderId, ReminderRow};

use crate::error::StoreError;
use crate::id::{PlanId, StepId};
use crate::plan::{PlanResult, PlanState, Waiting};
use crate::time::Time;

/// States of this entity are of plans: their keys begin with the id of a plan and a slash, and they are
/// removed with it.
pub const OF_PLAN: &str = "turnwheel.of-plan";

/// A place in the journal: counted from 1, in the order of commits; 0 is before all.
pub type Seq = u64;

/// A store. It is opened once for writing; readers are made as needed.
pub trait Store: Send + Sync + fmt::Debug {
    /// Takes the store for writing, and raises its epoch: an earlier writer is refused from now on.
    ///
    /// # Errors
    ///
    /// Somebody else has it, or it cannot be used.
    fn writer(&self) -> Result<Box<dyn StoreWriter>, StoreError>;

    /// A reader of what is committed.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    fn reader(&self) -> Result<Box<dyn StoreReader>, StoreError>;

    /// One who does what has to be done beside the writer.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    fn keeper(&self) -> Result<Box<dyn StoreKeeper>, StoreError> {
        Ok(Box::new(NothingToKeep))
    }

    /// What it is called in messages.
    fn name(&self) -> String;
}

/// Work that keeps a store in order, beside its writer.
pub trait StoreKeeper: Send {
    /// Does what is due. Commits go on meanwhile.
    ///
    /// # Errors
    ///
    /// It could not be done; it is due again.
    fn keep(&mut self) -> Result<(), StoreError>;
}

/// The keeper of a store that needs none.
struct NothingToKeep;

impl StoreKeeper for NothingToKeep {
    fn keep(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Whether a store has to be put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// There is nothing to do.
    None,
    /// Its [`StoreKeeper`] should be called, beside the writer.
    Soon,
    /// The writer has to wait for it: [`StoreWriter::keep`].
    Now,
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn writer(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        (**self).writer()
    }

    fn reader(&self) -> Result<Box<dyn StoreReader>, StoreError> {
        (**self).reader()
    }

    fn keeper(&self) -> Result<Box<dyn StoreKeeper>, StoreError> {
        (**self).keeper()
    }

    fn name(&self) -> String {
        (**self).name()
    }
}

/// The writing end of a store.
pub trait StoreWriter: Send {
    /// The epoch of this writer.
    fn epoch(&self) -> u64;

    /// The newest place in the journal that is taken; 0 if it is empty.
    fn last(&self) -> Seq;

    /// Removes stopped plans, their entries and their keys: those whose newest entry is still the one
    /// that is given. How many there were.
    ///
    /// # Errors
    ///
    /// Nothing was removed.
    fn remove(&mut self, plans: &[(PlanId, Seq)]) -> Result<usize, StoreError>;

    /// Whether there is room for new plans. Those that are under way go on as long as there is any.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`]: no new plans, until there is more room.
    fn takes_plans(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether the store has to be put in order.
    fn upkeep(&self) -> Upkeep {
        Upkeep::None
    }

    /// Does what is due, between two commits.
    ///
    /// # Errors
    ///
    /// It could not be done; it is due again.
    fn keep(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Writes all of it or nothing; durable when it returns. What became of the appends and then of the
    /// changes, in their order.
    ///
    /// # Errors
    ///
    /// Nothing was written. [`StoreError::Fenced`] if another writer was taken since.
    fn commit(&mut self, batch: &Batch<'_>) -> Result<Vec<Verdict>, StoreError>;

    /// Writes schedules, all in one commit that is durable when it returns; those that were changed by
    /// somebody else since they were read stay as they are. What became of each, in their order.
    ///
    /// # Errors
    ///
    /// Nothing was written. [`StoreError::Fenced`] if another writer was taken since, or if another world
    /// serves the schedules.
    fn write_schedules(&mut self, writes: &[ScheduleWrite]) -> Result<Vec<Swap>, StoreError>;

    /// Changes who is there and who owns what, in one durable commit, if it is still as it was read. From
    /// then on entries of worlds that do not own the slot of their plan are answered with
    /// [`Verdict::Outdated`].
    ///
    /// # Errors
    ///
    /// Nothing was written. [`StoreError::Fenced`] if another writer was taken since.
    fn write_worlds(&mut self, write: &WorldsWrite) -> Result<Swap, StoreError>;
}

/// A schedule as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRow {
    /// What it is called.
    pub name: String,
    /// How often it was written: 1 for the first time.
    pub version: u64,
    /// What it says.
    pub data: Vec<u8>,
}

/// A change of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleWrite {
    /// What it is called.
    pub name: String,
    /// The version that is changed; 0 if there is none yet.
    pub from: u64,
    /// What it says from now on; nothing to remove it.
    pub data: Option<Vec<u8>>,
    /// The world that serves the schedules: the one that owns [`SCHEDULES_SLOT`].
    pub epoch: u64,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// It was made. The version is one more than before.
    Done,
    /// It was not made: this is the version, 0 if there is none.
    Changed {
        /// The version.
        version: u64,
    },
}

/// What one commit writes.
#[derive(Debug)]
pub struct Batch<'a> {
    /// Journal entries, in their order.
    pub appends: &'a [Append],
    /// Changes of states and reminders, made after the entries, in their order.
    pub changes: &'a [Change],
    /// Rows that are brought up to date.
    pub rows: &'a [PlanRow],
    /// Every entry up to here is in the rows; it is kept if there are rows, and never goes back.
    pub projected: Seq,
}

/// An entry of the journal.
#[derive(Clone, Debug)]
pub struct Append {
    /// The plan.
    pub plan: PlanId,
    /// The entry before it of the same plan; 0 if it is the first.
    pub prev: Seq,
    /// The world that owns the plan.
    pub epoch: u64,
    /// The records, encoded.
    pub records: Vec<u8>,
    /// An idempotency key that the plan takes, if this is its first entry.
    pub key: Option<String>,
    /// Locks that the plan takes with it. If another plan has one of them, nothing is written.
    pub take: Vec<String>,
    /// Locks that the plan gives back with it, also of those that it takes.
    pub release: Vec<String>,
}

/// What became of an append or of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is at this place.
    Written(Seq),
    /// It was not written: this plan has its idempotency key.
    KeyTaken(PlanId),
    /// The change was made; this is the version now.
    Changed(u64),
    /// What became of a step's own SQL.
    Worked(Worked),
    /// It was not made: the version is another one.
    Conflict {
        /// The version in the store.
        found: u64,
    },
    /// It was not made: it belongs to another owner by now.
    Outdated {
        /// Its epoch; 0 if there is none.
        newest: u64,
    },
    /// It was not written: another plan has one of the locks.
    LockTaken {
        /// The lock.
        name: String,
        /// The plan that has it.
        holder: PlanId,
    },
}

/// What is known of a plan without reading its journal.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRow {
    /// The plan.
    pub id: PlanId,
    /// Its newest journal entry.
    pub head: Seq,
    /// Its state.
    pub state: PlanState,
    /// Its result.
    pub result: PlanResult,
    /// What it is called.
    pub label: String,
    /// The name of its root action.
    pub action: String,
    /// Who triggered it.
    pub by: String,
    /// What people search for it by.
    pub labels: BTreeMap<String, String>,
    /// When it was created.
    pub created_at: Time,
    /// When its planning began.
    pub started_at: Option<Time>,
    /// When it was stopped.
    pub ended_at: Option<Time>,
    /// When it has to do something by itself.
    pub wakes_at: Option<Time>,
    /// Whether it was doing something, so that a start has to go on with it.
    pub is_busy: bool,
    /// The plan and step that triggered it.
    pub caller: Option<(PlanId, StepId)>,
    /// What it waits for.
    pub waits: Waiting,
    /// The same for people, if it is live and waits.
    pub waits_for: String,
    /// The whole plan as of a journal entry, encoded.
    pub snapshot: Option<(Seq, Vec<u8>)>,
}

/// Plans that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Their state.
    pub state: PlanState,
    /// Their result.
    pub result: PlanResult,
    /// What they wait for.
    pub waits: Waiting,
    /// How many there are.
    pub plans: u64,
}

/// The reading end of a store.
pub trait StoreReader: Send {
    /// The entries of a plan after its snapshot, oldest first. `head` is its newest entry if that is
    /// known; else its row says it.
    ///
    /// # Errors
    ///
    /// The store failed, or an entry is missing.
    fn load(&mut self, plan: PlanId, head: Option<Seq>) -> Result<Option<Loaded>, StoreError>;

    /// All entries of a plan up to one with their places, oldest first, whether there is a snapshot or
    /// not.
    ///
    /// # Errors
    ///
    /// The store failed, or an entry is missing.
    fn history(&mut self, plan: PlanId, head: Seq) -> Result<Vec<(Seq, Vec<u8>)>, StoreError> {
        self.history_after(plan, 0, head)
    }

    /// The same, but only those after a place.
    ///
    /// # Errors
    ///
    /// The store failed, or an entry is missing.
    fn history_after(
        &mut self,
        plan: PlanId,
        after: Seq,
        head: Seq,
    ) -> Result<Vec<(Seq, Vec<u8>)>, StoreError>;

    /// Entries of all plans as they were written, at most `limit` after a place: for export and for
    /// checks.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn journal(&mut self, after: Seq, limit: usize) -> Result<Vec<Written>, StoreError>;

    /// The locks that plans have, by name.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn locks(&mut self) -> Result<Vec<(String, PlanId)>, StoreError>;

    /// The worlds that are registered.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn worlds(&mut self) -> Result<Worlds, StoreError>;

    /// The slots of all plans that are not stopped, as their rows say.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn live(&mut self) -> Result<Slots, StoreError>;

    /// The plans with journal entries that are not in their rows: with their heads, by id.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn behind(&mut self) -> Result<Vec<(PlanId, Seq)>, StoreError>;

    /// The plans that a start has to go on with, at most `limit` after `from`, by id.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn busy(&mut self, from: Option<PlanId>, limit: usize) -> Result<Vec<PlanId>, StoreError>;

    /// The plans that have to do something by themselves, at most `limit`, the earliest first.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn wakes(&mut self, until: Time, limit: usize) -> Result<Vec<(Time, PlanId)>, StoreError>;

    /// The plan that has taken an idempotency key.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn by_key(&mut self, key: &str) -> Result<Option<PlanId>, StoreError>;

    /// The state of an entity; the default if there is none.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn state(&mut self, entity: &str, key: &str) -> Result<Record, StoreError>;

    /// A reminder.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn reminder(&mut self, id: &ReminderId) -> Result<Option<ReminderRow>, StoreError>;

    /// The reminders of an entity by name, at most so many.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn reminders_of(
        &mut self,
        entity: &str,
        key: &str,
        limit: usize,
    ) -> Result<Vec<ReminderRow>, StoreError>;

    /// A range of reminders by due time.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn reminders_due(&mut self, range: &DueRange) -> Result<Vec<ReminderRow>, StoreError>;

    /// The rows of plans in the order of their ids, without their snapshots.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn list(&mut self, filter: &Filter) -> Result<Vec<PlanRow>, StoreError>;

    /// How many plans there are, by state, result and what they wait for; only those that there are.
    ///
    /// Cost: it does not depend on how many plans there are, but in memory.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn counts(&mut self) -> Result<Vec<Count>, StoreError>;

    /// A schedule.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn schedule(&mut self, name: &str) -> Result<Option<ScheduleRow>, StoreError>;

    /// Schedules by name, at most `limit` after one.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn schedules(&mut self, after: &str, limit: usize) -> Result<Vec<ScheduleRow>, StoreError>;
}

/// A plan as it is stored.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The whole plan at some entry.
    pub snapshot: Option<Vec<u8>>,
    /// The entries after that.
    pub entries: Vec<Vec<u8>>,
    /// The newest one.
    pub head: Seq,
}

/// An entry of the journal as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its place.
    pub seq: Seq,
    /// The plan.
    pub plan: PlanId,
    /// The entry before it of the same plan; 0 if it is the first.
    pub prev: Seq,
    /// The records, encoded.
    pub records: Vec<u8>,
}
