//! Storage of plans: the interface that every store implements.
//!
//! One writer appends to the journal, in batches; each batch is one atomic, durable commit. Readers
//! run concurrently. The journal has no index: each entry refers to the previous one of its plan,
//! and the newest one (the plan's *head*) is in the plan's row, or in memory while the row is
//! outdated. Rows are for search and for start; they follow the journal and can be rebuilt from it.
//!
//! One behaviour suite runs against every store.

pub mod aside;
pub mod balance;
pub(crate) mod change;
mod coded;
mod copy;
mod filter;
mod members;
mod memory;
mod memory_leases;
mod memory_list;
mod memory_states;
mod reading;
mod search;
mod tally;
mod view;
mod work;
mod worlds;
mod writing;

use std::fmt;
use std::sync::Arc;

pub use change::Change;
pub(crate) use coded::{undecodable, CODED};
pub use coded::{Codec, CodedStore};
pub use copy::{copy, Content, CopyError};
pub use filter::{Filter, Order};
pub use members::{Beat, Hint, Mail, Members};
pub use memory::MemoryStore;
pub use reading::{
    Count, Found, Loaded, Newest, PlanRow, StateRow, StateScan, StoreReader, Written,
};
pub use search::{search, SearchPage};
pub use tally::{Tallies, Tally};
pub(crate) use view::read_plan;
pub use view::StoreView;
pub use work::{Work, WorkCode, Worked};
pub(crate) use worlds::entity_key;
pub(crate) use worlds::free;
pub use worlds::{
    slot_of, slot_of_entity, slot_of_key, slot_of_schedule, Claim, Hold, Owner, Slots, WorldKind,
    WorldRow, Worlds, WorldsWrite, NO_EPOCH, SLOTS,
};
pub use writing::{
    Append, Batch, Removal, RowWrite, ScheduleRow, ScheduleWrite, StoreWriter, Swap, Verdict,
};

use crate::error::StoreError;

/// Begin of the names of states that are the engine's and those of its services.
pub(crate) const OWN_NAMES: &str = "turnwheel.";

/// States of this entity are of plans: their keys begin with the id of a plan and a slash, and they
/// are removed with it.
pub const OF_PLAN: &str = "turnwheel.of-plan";

/// States of this entity are dead letters: they are encoded as plans are.
pub(crate) const LETTERS: &str = "turnwheel.dead-letters";

/// Prefix of the keys of dead letters.
pub(crate) const LETTER_SLOT: &str = "slot ";

/// The key of the state with the number of the last dead letter.
pub(crate) const LETTER_NEWEST: &str = "newest";

/// A place in the journal: counted from 1, in the order of commits; 0 is before all.
pub type Seq = u64;

/// A store. Writers and readers are made as needed.
pub trait Store: Send + Sync + fmt::Debug {
    /// Opens the store for writing, beside the writers that are there. What each of them may write is
    /// said by the epochs of slots: see [`Worlds`].
    ///
    /// # Errors
    ///
    /// Another process has the store for itself, or it cannot be used.
    fn open(&self) -> Result<Box<dyn StoreWriter>, StoreError>;

    /// Opens the store for writing and takes it for itself: every earlier writer is refused from now
    /// on.
    ///
    /// # Errors
    ///
    /// As [`Store::open`].
    fn writer(&self) -> Result<Box<dyn StoreWriter>, StoreError>;

    /// A reader of what is committed.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    fn reader(&self) -> Result<Box<dyn StoreReader>, StoreError>;

    /// The leases of the worlds that share it; nothing if one process at a time uses it.
    ///
    /// # Errors
    ///
    /// They cannot be reached.
    fn members(&self) -> Result<Option<Box<dyn Members>>, StoreError> {
        Ok(None)
    }

    /// One who does what has to be done beside the writer.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    fn keeper(&self) -> Result<Box<dyn StoreKeeper>, StoreError> {
        Ok(Box::new(NothingToKeep))
    }

    /// Its name in messages.
    fn name(&self) -> String;
}

impl<S: Store + ?Sized> Store for &S {
    fn open(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        (**self).open()
    }

    fn writer(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        (**self).writer()
    }

    fn reader(&self) -> Result<Box<dyn StoreReader>, StoreError> {
        (**self).reader()
    }

    fn members(&self) -> Result<Option<Box<dyn Members>>, StoreError> {
        (**self).members()
    }

    fn keeper(&self) -> Result<Box<dyn StoreKeeper>, StoreError> {
        (**self).keeper()
    }

    fn name(&self) -> String {
        (**self).name()
    }
}

/// Work that keeps a store in order, beside its writer.
pub trait StoreKeeper: Send {
    /// Does upkeep that is due. Commits continue meanwhile.
    ///
    /// # Errors
    ///
    /// It failed; it is still due.
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
    fn open(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        (**self).open()
    }

    fn writer(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        (**self).writer()
    }

    fn reader(&self) -> Result<Box<dyn StoreReader>, StoreError> {
        (**self).reader()
    }

    fn members(&self) -> Result<Option<Box<dyn Members>>, StoreError> {
        (**self).members()
    }

    fn keeper(&self) -> Result<Box<dyn StoreKeeper>, StoreError> {
        (**self).keeper()
    }

    fn name(&self) -> String {
        (**self).name()
    }
}
