//! The states and reminders of entities, through the journal's writer.

use std::sync::Arc;

use turnwheel_actors::entity::{
    DueRange, Record, ReminderId, ReminderRow, ReminderStore, StateStore, StoreError, StoreFuture,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Failure;

use super::{Journal, Urgency};
use crate::error::{cut, unanswered, TextTooLong};
use crate::limits::{KEY_BYTES_MAX, NAME_BYTES_MAX, STATE_BYTES_MAX};
use crate::store::{Change, Hold, Slots, StateRow, StateScan, StoreReader, Verdict};
use crate::time::Time;

/// Epoch of states whose writers are told apart by the version alone.
const TIMED_EPOCH: u64 = 1;

/// The states and reminders of entities in a world's store: their writes share the commits of plans.
#[derive(Clone, Debug)]
pub(crate) struct Durable {
    journal: Journal,
    urgency: Urgency,
}

/// The owner of a state, for errors.
struct Owner<'a> {
    entity: &'a str,
    key: &'a str,
}

impl Durable {
    pub(crate) fn new(journal: Journal) -> Arc<Self> {
        Arc::new(Self { journal, urgency: Urgency::Next })
    }

    async fn read<R: Send + 'static>(
        &self,
        question: impl FnOnce(&mut dyn StoreReader) -> Result<R, crate::StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let answer =
            self.journal.read(question).await.map_err(|failure| failed(&unanswered(&failure)))?;
        answer.map_err(|error| failed(&error))
    }

    async fn change(
        &self,
        change: Change,
        expected: u64,
        epoch: u64,
        of: Owner<'_>,
    ) -> Result<u64, StoreError> {
        let (done, outcome) = completion();
        let ticket = Box::new(move |verdict| {
            // The caller may have given up; the change is durable all the same.
            let _gone = done.complete(verdict);
        });
        self.journal.change(change, self.urgency, ticket);
        let outcome = outcome.await.map_err(|failure: Failure| failed(&unanswered(&failure)))?;
        let (entity, key) = (of.entity.to_owned(), of.key.to_owned());
        match outcome.map_err(|error| failed(&error))? {
            Verdict::Changed(version) => Ok(version),
            Verdict::Conflict { found } => {
                Err(StoreError::Conflict { entity, key, expected, found })
            }
            Verdict::Outdated { newest } => Err(StoreError::Fenced { entity, key, epoch, newest }),
            Verdict::Moved { epoch: newest, .. } => {
                Err(StoreError::Fenced { entity, key, epoch, newest })
            }
            other => Err(StoreError::Failed(format!("a change is answered by {other:?}"))),
        }
    }

    async fn write(
        &self,
        of: Owner<'_>,
        bytes: Option<Vec<u8>>,
        expected: u64,
        epoch: u64,
    ) -> Result<u64, StoreError> {
        self.write_timed(of, (bytes, None), expected, (epoch, None)).await
    }

    /// With a hold it is written only if the slot still has its epoch.
    async fn write_timed(
        &self,
        of: Owner<'_>,
        (bytes, due): (Option<Vec<u8>>, Option<Time>),
        expected: u64,
        (epoch, hold): (u64, Option<Hold>),
    ) -> Result<u64, StoreError> {
        let length = bytes.as_ref().map_or(0, Vec::len);
        let fits = TextTooLong::of("key of the entity", of.key.len(), KEY_BYTES_MAX)
            .and_then(|()| TextTooLong::of("state of the entity", length, STATE_BYTES_MAX));
        if let Err(problem) = fits {
            let (entity, key) = (of.entity, cut(of.key.to_owned(), NAME_BYTES_MAX));
            return Err(StoreError::Failed(format!("{entity} «{key}»: {problem}")));
        }
        let (entity, key) = (of.entity.to_owned(), of.key.to_owned());
        let change = Change::State { entity, key, bytes, due, expected, epoch };
        let Some(hold) = hold else { return self.change(change, expected, epoch, of).await };
        let change = Change::Under { hold, change: Box::new(change) };
        self.change(change, expected, hold.epoch, of).await
    }
}

/// States of a world's store with a time at which their owner has to look at them.
///
/// A state has a name and a key, as those of entities, and is changed only from the version that
/// was read: of two who try, one gets [`StoreError::Conflict`]. Bytes and due time change together.
/// Writes share the commits of plans.
#[derive(Clone, Debug)]
pub struct TimedStates {
    states: Arc<Durable>,
}

impl TimedStates {
    pub(crate) fn new(journal: Journal) -> Self {
        Self { states: Durable::new(journal) }
    }

    /// The same states, for work that nobody waits for: a commit has a small number of its writes,
    /// and all those of callers first. So callers do not wait behind it, however much there is.
    ///
    /// ```
    /// use turnwheel_engine::{MemoryStore, World};
    ///
    /// let world = World::builder().build(MemoryStore::new())?;
    /// let states = world.timed_states().in_spare_room();
    /// turnwheel_runtime::completion::block_on(async {
    ///     states.save("jobs", "backup", (Some(b"x".to_vec()), None), 0).await
    /// })??;
    /// # world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn in_spare_room(&self) -> Self {
        let (journal, urgency) = (self.states.journal.clone(), Urgency::Spare);
        Self { states: Arc::new(Durable { journal, urgency }) }
    }

    /// Reads a state; the default if there is none.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn load(&self, name: &str, key: &str) -> Result<Record, StoreError> {
        self.states.load(name, key).await
    }

    /// Reads states by name and key, in their order, at the cost of one question.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn load_all(&self, of: Vec<(String, String)>) -> Result<Vec<Record>, StoreError> {
        self.states.read(move |reader| reader.states_by_key(&of)).await
    }

    /// Writes a state with its due time if its version is still `expected` (0: there is none);
    /// returns the new version. It completes when the write is durable.
    ///
    /// # Errors
    ///
    /// Nothing was written, or the store failed and it is not known.
    pub async fn save(
        &self,
        name: &str,
        key: &str,
        (bytes, due): (Option<Vec<u8>>, Option<Time>),
        expected: u64,
    ) -> Result<u64, StoreError> {
        let of = Owner { entity: name, key };
        self.states.write_timed(of, (bytes, due), expected, (TIMED_EPOCH, None)).await
    }

    /// As [`TimedStates::save`], if the slot of the key still has the epoch of this hold: for the
    /// node that owns the key, by [`World::hold_of_key`](crate::World::hold_of_key), or another key
    /// that stands for it, such as that of a service.
    ///
    /// # Errors
    ///
    /// As [`TimedStates::save`]. [`StoreError::Fenced`] if another node has got the slot: nothing
    /// was written, and that node does what is due.
    pub async fn save_held(
        &self,
        hold: Hold,
        name: &str,
        key: &str,
        (bytes, due): (Option<Vec<u8>>, Option<Time>),
        expected: u64,
    ) -> Result<u64, StoreError> {
        let of = Owner { entity: name, key };
        self.states.write_timed(of, (bytes, due), expected, (TIMED_EPOCH, Some(hold))).await
    }

    /// The states of one name in the order of a scan, at most so many.
    ///
    /// # Errors
    ///
    /// The store failed, or it cannot list states.
    pub async fn list(
        &self,
        name: &str,
        scan: StateScan,
        limit: usize,
    ) -> Result<Vec<StateRow>, StoreError> {
        let name = name.to_owned();
        self.states.read(move |reader| reader.states_of(&name, &scan, limit)).await
    }

    /// The same of those states whose keys are in some slots, such as
    /// [those of a world](crate::World::own_slots).
    ///
    /// # Errors
    ///
    /// As [`TimedStates::list`].
    pub async fn list_in(
        &self,
        slots: &Slots,
        name: &str,
        scan: StateScan,
        limit: usize,
    ) -> Result<Vec<StateRow>, StoreError> {
        let (name, slots) = (name.to_owned(), *slots);
        self.states.read(move |reader| reader.states_in(&name, &scan, &slots, limit)).await
    }
}

fn failed(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Failed(error.to_string())
}

impl StateStore for Durable {
    fn load<'a>(&'a self, entity: &'a str, key: &'a str) -> StoreFuture<'a, Record> {
        let (entity, key) = (entity.to_owned(), key.to_owned());
        Box::pin(self.read(move |reader| reader.state(&entity, &key)))
    }

    fn save<'a>(
        &'a self,
        entity: &'a str,
        key: &'a str,
        bytes: Vec<u8>,
        expected: u64,
        epoch: u64,
    ) -> StoreFuture<'a, u64> {
        Box::pin(self.write(Owner { entity, key }, Some(bytes), expected, epoch))
    }

    fn clear<'a>(
        &'a self,
        entity: &'a str,
        key: &'a str,
        expected: u64,
        epoch: u64,
    ) -> StoreFuture<'a, u64> {
        Box::pin(self.write(Owner { entity, key }, None, expected, epoch))
    }
}

impl ReminderStore for Durable {
    fn get<'a>(&'a self, id: &'a ReminderId) -> StoreFuture<'a, Option<ReminderRow>> {
        let id = id.clone();
        Box::pin(self.read(move |reader| reader.reminder(&id)))
    }

    fn list_of<'a>(
        &'a self,
        entity: &'a str,
        key: &'a str,
        limit: usize,
    ) -> StoreFuture<'a, Vec<ReminderRow>> {
        let (entity, key) = (entity.to_owned(), key.to_owned());
        Box::pin(self.read(move |reader| reader.reminders_of(&entity, &key, limit)))
    }

    fn list<'a>(&'a self, range: &'a DueRange) -> StoreFuture<'a, Vec<ReminderRow>> {
        let range = range.clone();
        Box::pin(self.read(move |reader| reader.reminders_due(&range)))
    }

    fn upsert<'a>(&'a self, row: &'a ReminderRow, epoch: u64) -> StoreFuture<'a, u64> {
        let change = Change::Reminder { row: Box::new(row.clone()), epoch };
        let of = Owner { entity: &row.id.entity, key: &row.id.key };
        Box::pin(self.change(change, row.version, epoch, of))
    }

    fn remove<'a>(&'a self, id: &'a ReminderId, expected: u64, epoch: u64) -> StoreFuture<'a, ()> {
        let change = Change::ReminderGone { id: id.clone(), expected, epoch };
        let of = Owner { entity: &id.entity, key: &id.key };
        Box::pin(async move { self.change(change, expected, epoch, of).await.map(drop) })
    }
}
