//! The states and reminders of entities, through the journal's writer.

use std::sync::Arc;

use turnwheel_actors::entity::{
    DueRange, Record, ReminderId, ReminderRow, ReminderStore, StateStore, StoreError, StoreFuture,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Failure;

use super::Journal;
use crate::error::{cut, unanswered, TextTooLong};
use crate::limits::{KEY_BYTES_MAX, NAME_BYTES_MAX, STATE_BYTES_MAX};
use crate::store::{Change, StoreReader, Verdict};

/// The states and reminders of entities in a world's store: their writes share the commits of plans.
#[derive(Clone, Debug)]
pub(crate) struct Durable {
    journal: Journal,
}

/// The owner of a state, for errors.
struct Owner<'a> {
    entity: &'a str,
    key: &'a str,
}

impl Durable {
    pub(crate) fn new(journal: Journal) -> Arc<Self> {
        Arc::new(Self { journal })
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
        self.journal.change(change, ticket);
        let outcome = outcome.await.map_err(|failure: Failure| failed(&unanswered(&failure)))?;
        let (entity, key) = (of.entity.to_owned(), of.key.to_owned());
        match outcome.map_err(|error| failed(&error))? {
            Verdict::Changed(version) => Ok(version),
            Verdict::Conflict { found } => {
                Err(StoreError::Conflict { entity, key, expected, found })
            }
            Verdict::Outdated { newest } => Err(StoreError::Fenced { entity, key, epoch, newest }),
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
        let length = bytes.as_ref().map_or(0, Vec::len);
        let fits = TextTooLong::of("key of the entity", of.key.len(), KEY_BYTES_MAX)
            .and_then(|()| TextTooLong::of("state of the entity", length, STATE_BYTES_MAX));
        if let Err(problem) = fits {
            let (entity, key) = (of.entity, cut(of.key.to_owned(), NAME_BYTES_MAX));
            return Err(StoreError::Failed(format!("{entity} «{key}»: {problem}")));
        }
        let (entity, key) = (of.entity.to_owned(), of.key.to_owned());
        let change = Change::State { entity, key, bytes, expected, epoch };
        self.change(change, expected, epoch, of).await
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
