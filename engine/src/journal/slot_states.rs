//! The states of entities over nodes, through the journal's writer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use turnwheel_actors::entity::{Record, StateStore, StoreError, StoreFuture};

use super::states::{failed, Owner, TIMED_EPOCH};
use super::{Durable, Journal};
use crate::error::{cut, unanswered};
use crate::limits::NAME_BYTES_MAX;
use crate::store::{slot_of_entity, Hold, OWN_NAMES};

/// The states of entities that the owners of their slots activate. The epoch of a write is that of
/// the slot, and is checked in the commit.
///
/// A write whose commit has failed may still be made by a connection that is lost: a state is read
/// after such a write only when the writer has found out that it can happen no more.
#[derive(Debug)]
pub(crate) struct SlotStates {
    states: Arc<Durable>,
    /// Writes that have failed.
    failed: AtomicU64,
    /// How many of them have been made or not, and can be made no more.
    settled: AtomicU64,
}

impl SlotStates {
    pub(crate) fn new(journal: Journal) -> Arc<Self> {
        let (failed, settled) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { states: Durable::new(journal), failed, settled })
    }

    /// Waits until what has become of failed writes can change no more.
    async fn settle(&self) -> Result<(), StoreError> {
        let count = self.failed.load(Ordering::SeqCst);
        if self.settled.load(Ordering::SeqCst) >= count {
            return Ok(());
        }
        let settled = self.states.journal.writer.call(|writer, _| {
            // Asked for no entry: the connection is there again, and the old one has ended.
            let last = writer.last;
            writer.store.written(&[], last).map(drop)
        });
        let settled = settled.await.map_err(|failure| failed(&unanswered(&failure)))?;
        settled.map_err(|error| failed(&error))?;
        self.settled.fetch_max(count, Ordering::SeqCst);
        Ok(())
    }

    async fn write(
        &self,
        of: Owner<'_>,
        bytes: Option<Vec<u8>>,
        expected: u64,
        epoch: u64,
    ) -> Result<u64, StoreError> {
        is_free(&of)?;
        let hold = Hold { slot: slot_of_entity(of.entity, of.key), epoch };
        let epochs = (TIMED_EPOCH, Some(hold));
        let written = self.states.write_timed(of, (bytes, None), expected, epochs).await;
        if matches!(written, Err(StoreError::Failed(_))) {
            self.failed.fetch_add(1, Ordering::SeqCst);
        }
        written
    }
}

impl StateStore for SlotStates {
    fn load<'a>(&'a self, entity: &'a str, key: &'a str) -> StoreFuture<'a, Record> {
        Box::pin(async move {
            is_free(&Owner { entity, key })?;
            self.settle().await?;
            self.states.load(entity, key).await
        })
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

/// Refuses the name of a type of entities under which the engine keeps states of its own.
fn is_free(of: &Owner<'_>) -> Result<(), StoreError> {
    if !of.entity.starts_with(OWN_NAMES) {
        return Ok(());
    }
    let (entity, key) = (of.entity.to_owned(), cut(of.key.to_owned(), NAME_BYTES_MAX));
    let problem = format!("names that begin with «{OWN_NAMES}» are the engine's");
    Err(StoreError::Malformed { entity, key, problem })
}
