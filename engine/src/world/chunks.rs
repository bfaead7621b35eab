//! The output stream of a plan, as it is read.

use serde::{Deserialize, Serialize};
use turnwheel_runtime::Failure;

use super::{Asking, PlanHandle};
use crate::error::{PlanError, StoreError};
use crate::id::{PlanId, StepId};
use crate::journal::decode;
use crate::payload::Payload;
use crate::plan::Record;
use crate::store::{Seq, StoreReader};
use crate::time::Time;

/// A place in the output stream of a plan; the default is before the first chunk. It stays valid in later
/// processes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ChunkCursor {
    entry: Seq,
    /// The place in the entry, counted from 1.
    place: u32,
}

/// A chunk of the output stream of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its place: [`PlanHandle::chunks`] goes on from it.
    pub cursor: ChunkCursor,
    /// The step that has added it.
    pub step: StepId,
    /// In which attempt.
    pub attempt: u32,
    /// When.
    pub at: Time,
    /// Its kind.
    pub kind: String,
    /// Its data.
    pub data: Payload,
}

impl PlanHandle {
    /// The chunks of the plan's output stream after a place, in order, at most `limit`: the durable
    /// ones, while steps add more or when the plan is over. Fewer than the limit means that there
    /// are no more for now.
    ///
    /// Cost: the entries of the plan after the place are read.
    ///
    /// # Errors
    ///
    /// There is no such plan, or it cannot be read.
    pub fn chunks(&self, after: ChunkCursor, limit: usize) -> Asking<Vec<Chunk>, PlanError> {
        let (journal, id) = (self.world.shared().journal().clone(), self.id());
        Asking::new(async move {
            let known = journal.head(id);
            let read = journal.read(move |reader| read(reader, id, known, after, limit));
            let lost = |failure: Failure| StoreError::unanswered(&failure);
            read.await.map_err(lost)??.ok_or(PlanError::Unknown(id))
        })
    }
}

fn read(
    reader: &mut dyn StoreReader,
    plan: PlanId,
    known: Option<Seq>,
    after: ChunkCursor,
    limit: usize,
) -> Result<Option<Vec<Chunk>>, StoreError> {
    let head = match known {
        Some(head) => head,
        None => match reader.load(plan, None)? {
            Some(loaded) => loaded.head,
            None => return Ok(None),
        },
    };
    let mut chunks = Vec::new();
    for (entry, bytes) in reader.history_after(plan, after.entry.saturating_sub(1), head)? {
        let mut place = 0;
        for record in decode(plan, &bytes)? {
            match record {
                Record::Chunk { step, attempt, at, kind, data } => {
                    place += 1;
                    let cursor = ChunkCursor { entry, place };
                    if cursor > after {
                        chunks.push(Chunk { cursor, step, attempt, at, kind, data });
                    }
                }
                Record::ChunksDropped { .. } => chunks.clear(),
                _ => {}
            }
        }
    }
    chunks.truncate(limit);
    Ok(Some(chunks))
}
