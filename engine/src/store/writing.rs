//! The writing end of a store, and what is written.

use super::{Change, Owner, PlanRow, Seq, Upkeep, Worked, WorldsWrite};
use crate::error::StoreError;
use crate::id::PlanId;

/// The writing end of a store.
pub trait StoreWriter: Send {
    /// The number of this writer: later ones have higher ones.
    fn epoch(&self) -> u64;

    /// The newest place in the journal that is taken; 0 if it is empty.
    fn last(&self) -> Seq;

    /// Removes those stopped plans whose newest entry is still the given one and whose slots are held,
    /// with their entries and keys. Returns their number.
    ///
    /// # Errors
    ///
    /// Nothing was removed.
    fn remove(&mut self, plans: &[Removal]) -> Result<usize, StoreError>;

    /// Frees locks of plans that do not exist, if they still belong to the given plan. It is for the
    /// start of a process that has the store for itself.
    ///
    /// # Errors
    ///
    /// None was freed.
    fn free(&mut self, locks: &[(String, PlanId)]) -> Result<(), StoreError>;

    /// Whether there is room for new plans. Running plans continue as long as there is any room.
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

    /// Does upkeep that is due, between two commits.
    ///
    /// # Errors
    ///
    /// It failed; it is still due.
    fn keep(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Writes what is admitted, in one commit that is durable when it returns. Returns the outcomes
    /// of the appends and then of the changes, in order. Each of them is admitted or refused as a
    /// whole, by slots, keys and locks as they are in this transaction. A row under another epoch
    /// than that of its slot is left out: the owner of the slot writes it.
    ///
    /// # Errors
    ///
    /// Nothing was written. [`StoreError::Fenced`] if another writer has taken the store for itself
    /// since.
    fn commit(&mut self, batch: &Batch<'_>) -> Result<Vec<Verdict>, StoreError>;

    /// All entries of this writer are in their rows: who gets slots need not read those so far.
    ///
    /// # Errors
    ///
    /// The store failed, and nothing has changed.
    fn settled(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The entries after a place, each with its plan and the previous entry of that plan: to find
    /// out whether a commit was made whose answer was lost. A store that never loses an answer
    /// returns none.
    ///
    /// # Errors
    ///
    /// The store failed: this is called again before any other write.
    fn written_after(&mut self, place: Seq) -> Result<Vec<(Seq, PlanId, Seq)>, StoreError> {
        let _never_lost = place;
        Ok(Vec::new())
    }

    /// The places of those of these entries that were written after a place, in their order: to
    /// find out whether a commit was made whose answer was lost. Another owner of a plan may have
    /// written after the same entry: a store that several processes share compares the epochs too.
    ///
    /// # Errors
    ///
    /// As [`StoreWriter::written_after`].
    fn written(&mut self, entries: &[&Append], place: Seq) -> Result<Vec<Option<Seq>>, StoreError> {
        let written = self.written_after(place)?;
        let found = |entry: &&Append| {
            let same = written.iter().find(|it| (it.1, it.2) == (entry.plan, entry.prev));
            same.map(|(seq, _, _)| *seq)
        };
        Ok(entries.iter().map(found).collect())
    }

    /// Writes schedules, all in one commit that is durable when it returns; a schedule that was
    /// changed since it was read stays unchanged, and so does one that another world serves.
    /// Returns the outcome of each, in order.
    ///
    /// # Errors
    ///
    /// Nothing was written. [`StoreError::Fenced`] if another writer has taken the store for itself
    /// since.
    fn write_schedules(&mut self, writes: &[ScheduleWrite]) -> Result<Vec<Swap>, StoreError>;

    /// Changes who is there and who owns what, in one durable commit, if it is still as it was read. From
    /// then on writes under the former epochs of the slots that have changed their owner are answered
    /// with [`Verdict::Moved`].
    ///
    /// # Errors
    ///
    /// Nothing was written. [`StoreError::Fenced`] if another writer has taken the store for itself
    /// since.
    fn write_worlds(&mut self, write: &WorldsWrite) -> Result<Swap, StoreError>;

    /// As [`StoreWriter::write_worlds`], if the leases of all worlds that go are over in this
    /// transaction; else the table stays as it is.
    ///
    /// # Errors
    ///
    /// As [`StoreWriter::write_worlds`].
    fn declare_dead(&mut self, write: &WorldsWrite) -> Result<Swap, StoreError> {
        self.write_worlds(write)
    }
}

/// A schedule as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRow {
    /// Its name.
    pub name: String,
    /// Number of writes: 1 for the first one.
    pub version: u64,
    /// Its content.
    pub data: Vec<u8>,
}

/// A change of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleWrite {
    /// Its name.
    pub name: String,
    /// The version that is changed; 0 if there is none yet.
    pub from: u64,
    /// Its new content; `None` to remove it.
    pub data: Option<Vec<u8>>,
    /// The epoch of [its slot](super::slot_of_schedule) under which it is served.
    pub epoch: u64,
}

impl ScheduleWrite {
    /// Its slot, under that epoch.
    pub fn hold(&self) -> super::Hold {
        super::Hold { slot: super::slot_of_schedule(&self.name), epoch: self.epoch }
    }
}

/// Outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// It was made. The version is one more than before.
    Done,
    /// It was not made: this is the version, 0 if there is none.
    Changed {
        /// The version.
        version: u64,
    },
    /// It was not made: another world serves the schedule, under this epoch.
    Moved {
        /// The epoch.
        epoch: u64,
    },
}

/// Content of one commit.
#[derive(Debug)]
pub struct Batch<'a> {
    /// Journal entries, in their order.
    pub appends: &'a [Append],
    /// Changes of states and reminders, made after the entries, in their order.
    pub changes: &'a [Change],
    /// Rows that are brought up to date.
    pub rows: &'a [RowWrite],
    /// Every entry up to here that this writer has made, or has found when it was opened, is in the
    /// rows; it is stored if there are rows, and never decreases.
    pub projected: Seq,
}

/// An entry of the journal.
#[derive(Clone, Debug)]
pub struct Append {
    /// The plan.
    pub plan: PlanId,
    /// The entry before it of the same plan; 0 if it is the first.
    pub prev: Seq,
    /// The epoch of the plan's slot under which it was read and decided on.
    pub epoch: u64,
    /// The records, encoded.
    pub records: Vec<u8>,
    /// An idempotency key that the plan takes, if this is its first entry.
    pub key: Option<String>,
    /// Locks that the plan takes with it. If another plan has one of them, nothing is written.
    pub take: Vec<String>,
    /// Locks that the plan gives back with it, also of those that it takes.
    pub release: Vec<String>,
    /// Plans that this plan waits for from now on, until they are over.
    pub follow: Vec<PlanId>,
    /// Plans that it waits for no more.
    pub unfollow: Vec<PlanId>,
}

/// A row that is brought up to date.
#[derive(Clone, Debug)]
pub struct RowWrite {
    /// The row.
    pub row: PlanRow,
    /// The epoch of the plan's slot.
    pub epoch: u64,
    /// Whether it is left out if the plan has no row: the plan had one, and was removed meanwhile.
    pub is_refresh: bool,
}

/// A plan that is removed.
#[derive(Clone, Copy, Debug)]
pub struct Removal {
    /// The plan.
    pub plan: PlanId,
    /// Its newest entry.
    pub head: Seq,
    /// The epoch of its slot.
    pub epoch: u64,
}

/// Outcome of an append or of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Written at this place.
    Written(Seq),
    /// It was not written: this plan has its idempotency key.
    KeyTaken(PlanId),
    /// The change was made; this is the version now.
    Changed(u64),
    /// Outcome of a step's own SQL.
    Worked(Worked),
    /// It was not made: the version is another one.
    Conflict {
        /// The version in the store.
        found: u64,
    },
    /// It was not made: a newer owner of the state has written it.
    Outdated {
        /// The epoch of that owner.
        newest: u64,
    },
    /// It was not made: its slot has another epoch than the one that it names.
    Moved {
        /// The world that has the slot; 0 if none has.
        owner: u64,
        /// The epoch of the slot.
        epoch: u64,
    },
    /// It was not written: another plan has one of the locks.
    LockTaken {
        /// The lock.
        name: String,
        /// The plan that has it.
        holder: PlanId,
    },
    /// It was not written: the codec of the store cannot encode it, for this reason.
    Unencodable(String),
}

impl From<Owner> for Verdict {
    fn from(owner: Owner) -> Self {
        Self::Moved { owner: owner.world, epoch: owner.epoch }
    }
}
