//! The states and reminders of entities, through the journal's writer.

use std::sync::Arc;

use turnwheel_actors::entity::{
    DueRange, Record, ReminderId, ReminderRow, ReminderStore, StateStore, StoreError, StoreFuture,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Failure;

use super::{Journal, Urgency};
use crate::error::{cut, unanswered, TextTooLong};
use crate::limits::{KEY_BYTES_MAX, NAME_BYTES_MAX, STATE_BYTES_MAX, TOGETHER_MAX};
use crate::store::{Change, Hold, Slots, StateRow, StateScan, StoreReader, Verdict};
use crate::time::Time;

/// Epoch of states whose writers are told apart by the version alone.
pub(super) const TIMED_EPOCH: u64 = 1;

/// The states and reminders of entities in a world's store: their writes share the commits of plans.
#[derive(Clone, Debug)]
pub(crate) struct Durable {
    pub(super) journal: Journal,
    urgency: Urgency,
}

/// The owner of a state, for errors.
pub(super) struct Owner<'a> {
    pub(super) entity: &'a str,
    pub(super) key: &'a str,
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
        made(outcome.map_err(|error| failed(&error))?, expected, epoch, &of)
    }

    /// Hands over changes for one commit.
    async fn change_all(&self, changes: Vec<Change>) -> Result<Vec<Verdict>, StoreError> {
        if changes.len() > TOGETHER_MAX {
            let count = changes.len();
            let problem = format!("{count} changes at once: at most {TOGETHER_MAX} are");
            return Err(StoreError::Failed(problem));
        }
        let (done, outcome) = completion();
        let tickets = Box::new(move |verdicts| {
            // The caller may have given up; the changes are durable all the same.
            let _gone = done.complete(verdicts);
        });
        self.journal.change_all(changes, self.urgency, tickets);
        let outcome = outcome.await.map_err(|failure: Failure| failed(&unanswered(&failure)))?;
        outcome.map_err(|error| failed(&error))
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
    pub(super) async fn write_timed(
        &self,
        of: Owner<'_>,
        (bytes, due): (Option<Vec<u8>>, Option<Time>),
        expected: u64,
        (epoch, hold): (u64, Option<Hold>),
    ) -> Result<u64, StoreError> {
        check(&of, bytes.as_deref())?;
        let (entity, key) = (of.entity.to_owned(), of.key.to_owned());
        let change = Change::State { entity, key, bytes, due, expected, epoch };
        let Some(hold) = hold else { return self.change(change, expected, epoch, of).await };
        let change = Change::Under { hold, change: Box::new(change) };
        self.change(change, expected, hold.epoch, of).await
    }
}

/// Refuses what no store takes.
fn check(of: &Owner<'_>, bytes: Option<&[u8]>) -> Result<(), StoreError> {
    let length = bytes.map_or(0, <[u8]>::len);
    let fits = TextTooLong::of("key of the entity", of.key.len(), KEY_BYTES_MAX)
        .and_then(|()| TextTooLong::of("state of the entity", length, STATE_BYTES_MAX));
    fits.map_err(|problem| {
        let (entity, key) = (of.entity.to_owned(), cut(of.key.to_owned(), NAME_BYTES_MAX));
        StoreError::Malformed { entity, key, problem: problem.to_string() }
    })
}

/// The new version of a state, or why it was not written.
fn made(verdict: Verdict, expected: u64, epoch: u64, of: &Owner<'_>) -> Result<u64, StoreError> {
    if let Verdict::Changed(version) = verdict {
        return Ok(version);
    }
    let (entity, key) = (of.entity.to_owned(), of.key.to_owned());
    Err(match verdict {
        Verdict::Conflict { found } => StoreError::Conflict { entity, key, expected, found },
        Verdict::Outdated { newest } | Verdict::Moved { epoch: newest, .. } => {
            StoreError::Fenced { entity, key, epoch, newest }
        }
        other => StoreError::Failed(format!("a change is answered by {other:?}")),
    })
}

/// A write of a state, with others in one commit.
#[derive(Clone, Debug)]
pub struct StateWrite {
    /// Name of the state.
    pub name: String,
    /// Its key.
    pub key: String,
    /// Its content; nothing if it is removed.
    pub bytes: Option<Vec<u8>>,
    /// When its owner has to look at it.
    pub due: Option<Time>,
    /// The version that the writer knows; 0 if there is none.
    pub expected: u64,
    /// The slot under whose epoch it is written, as by [`TimedStates::save_held`].
    pub hold: Option<Hold>,
}

impl StateWrite {
    /// The epoch of its writer, for errors.
    fn epoch(&self) -> u64 {
        self.hold.map_or(TIMED_EPOCH, |hold| hold.epoch)
    }

    fn change(self) -> Result<Change, StoreError> {
        let Self { name: entity, key, bytes, due, expected, hold } = self;
        check(&Owner { entity: &entity, key: &key }, bytes.as_deref())?;
        let change = Change::State { entity, key, bytes, due, expected, epoch: TIMED_EPOCH };
        Ok(match hold {
            Some(hold) => Change::Under { hold, change: Box::new(change) },
            None => change,
        })
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

    /// Writes states in one commit, each if its own version is still the expected one: all that are
    /// written become durable together. Returns the new version of each, or why it was not written.
    ///
    /// Cost: that of [`TimedStates::save`] for each, and one message to the journal for all.
    ///
    /// ```
    /// use turnwheel_engine::{MemoryStore, StateWrite, World};
    ///
    /// let world = World::builder().build(MemoryStore::new())?;
    /// let write = |key: &str, expected| StateWrite {
    ///     name: "jobs".into(),
    ///     key: key.into(),
    ///     bytes: Some(b"x".to_vec()),
    ///     due: None,
    ///     expected,
    ///     hold: None,
    /// };
    /// let states = world.timed_states();
    /// let both = states.save_all(vec![write("backup", 0), write("report", 7)]);
    /// let written = turnwheel_runtime::completion::block_on(both)??;
    /// assert!(written[0].is_ok() && written[1].is_err());
    /// # world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The store failed, and it is not known whether any was written; or these are more than
    /// [`TOGETHER_MAX`](crate::limits::TOGETHER_MAX).
    pub async fn save_all(
        &self,
        writes: Vec<StateWrite>,
    ) -> Result<Vec<Result<u64, StoreError>>, StoreError> {
        let of = |it: &StateWrite| (it.name.clone(), it.key.clone(), it.expected, it.epoch());
        let of: Vec<(String, String, u64, u64)> = writes.iter().map(of).collect();
        let changes = writes.into_iter().map(StateWrite::change);
        let changes = changes.collect::<Result<Vec<Change>, StoreError>>()?;
        let verdicts = self.states.change_all(changes).await?;
        let made = of.iter().zip(verdicts).map(|((entity, key, expected, epoch), verdict)| {
            made(verdict, *expected, *epoch, &Owner { entity, key })
        });
        Ok(made.collect())
    }

    /// Removes states with their versions, whatever those are: only for keys that are never used
    /// again, as a late writer of such a key finds nothing.
    ///
    /// # Errors
    ///
    /// The store failed, and it is not known whether they are gone.
    pub async fn remove_all(&self, name: &str, keys: Vec<String>) -> Result<(), StoreError> {
        let gone = |key| Change::StateGone { entity: name.to_owned(), key };
        self.states.change_all(keys.into_iter().map(gone).collect()).await.map(drop)
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

pub(super) fn failed(error: &dyn std::fmt::Display) -> StoreError {
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
