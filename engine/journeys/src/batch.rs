//! Batches of messages: what a desk sends together is in a row of its own, so that the rows of
//! users are not written again once their messages have left.
//!
//! 1. A message leaves the outbox of its user for a batch. Both rows are in one commit: of a user
//!    who is refused there the batch has a message that counts for nothing.
//! 2. When that is durable the messages are sent. A batch goes when all of its messages are sent,
//!    or are back in the rows of their users after a failure.
//! 3. The row of a user names the batch. Its message was sent if the batch has it no more. That is
//!    noted with the next change of the user.
//! 4. A sender that takes long writes its batches again, with what is left, before their time is
//!    over. A batch whose time is over, or whose sender is gone, is found by its due time: its
//!    messages go back to the rows of their users, and then the batch goes.
//!
//! A batch is written under a key that no other batch ever has, so a sender that was taken for dead
//! cannot write over what others have made of it: its next write of it is a conflict. The states of
//! row and batch with a test for each are in the README of this crate.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use turnwheel_actors::entity::Record;
use turnwheel_engine::store::StateRow;

use crate::row::{BatchId, Outgoing, Row};

/// Name of the states of batches: short, as it is in each row twice.
pub(crate) const BATCH: &str = "tw.batch";

/// Version of the encoding.
const VERSION: u8 = 1;

/// A batch as it is stored.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Batch {
    /// When its sender counts as gone, in milliseconds.
    pub(crate) until: u64,
    /// Messages that are not known to be sent, by the keys of their users.
    pub(crate) messages: BTreeMap<String, Outgoing>,
}

impl Batch {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let bytes = postcard::to_extend(self, vec![VERSION]);
        bytes.expect("memory takes all that is written")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        match bytes.split_first() {
            Some((&VERSION, rest)) => {
                postcard::from_bytes(rest).map_err(|error| format!("it is malformed: {error}"))
            }
            Some((version, _)) => Err(format!("it is of version {version}, which is unknown")),
            None => Err("it is empty".to_owned()),
        }
    }
}

impl BatchId {
    /// The key of its row.
    pub(crate) fn key(&self) -> String {
        format!("{}/{}/{}", self.world, self.sender, self.number)
    }

    /// The batch of a key.
    pub(crate) fn of_key(key: &str) -> Option<Self> {
        let mut parts = key.split('/').map(|part| part.parse().ok());
        let (world, sender, number) = (parts.next()??, parts.next()??, parts.next()??);
        Some(Self { world, sender, number }).filter(|id| id.key() == key)
    }
}

/// Batches that rows of users name, as they are stored, or why one cannot be read.
pub(crate) type Found = HashMap<BatchId, Result<Batch, String>>;

/// The batches of rows that are not those of this desk: they have to be read.
pub(crate) fn named(rows: &[Result<Row, String>], own: &Own) -> Vec<BatchId> {
    let rows = rows.iter().filter_map(|row| row.as_ref().ok());
    let named = rows.flat_map(|row| row.sending.iter().map(|it| it.batch));
    let named: HashSet<BatchId> = named.filter(|batch| !own.knows(batch)).collect();
    named.into_iter().collect()
}

/// Takes batches as they were read; those that are gone are empty.
pub(crate) fn found(named: Vec<BatchId>, records: Vec<Record>) -> Found {
    let of = named.into_iter().zip(records).map(|(id, record)| {
        let batch = record.bytes.map_or(Ok(Batch::default()), |bytes| Batch::decode(&bytes));
        (id, batch.map_err(|problem| format!("batch {}: {problem}", id.key())))
    });
    of.collect()
}

/// The batches of a desk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    pub(crate) world: u64,
    /// The number of this desk in its world. It gets another one after a commit of which nobody
    /// knows whether it was made: then its batches are as those of others.
    pub(crate) sender: u64,
    /// Those that were sent by earlier numbers, and are under way.
    pub(crate) earlier: HashSet<BatchId>,
}

impl Own {
    /// Whether it is known of a batch what is left of it.
    pub(crate) fn knows(&self, batch: &BatchId) -> bool {
        let is_current = (batch.world, batch.sender) == (self.world, self.sender);
        is_current || self.earlier.contains(batch)
    }
}

/// Whether the sender of a batch may be sending it. A world that is not known here
/// may be a new one.
pub(crate) fn may_be_sending(
    id: &BatchId,
    batch: &Batch,
    own: u64,
    now: u64,
    alive: &[u64],
) -> bool {
    batch.until > now || (id.world != own && alive.contains(&id.world))
}

/// A batch as it was found by its due time.
pub(crate) fn of_row(row: &StateRow) -> Result<(BatchId, Batch), String> {
    let id = BatchId::of_key(&row.key).ok_or("its key is of no batch")?;
    Ok((id, Batch::decode(row.record.bytes.as_deref().unwrap_or_default())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_of_a_world_that_is_not_known_yet_is_being_sent_until_its_time_is_over() {
        let id = BatchId { world: 7, sender: 0, number: 1 };
        let batch = Batch { until: 100, ..Batch::default() };
        let is_sending = |own, now, alive: &[u64]| may_be_sending(&id, &batch, own, now, alive);
        assert!(is_sending(3, 99, &[3]), "a new world");
        assert!(!is_sending(3, 100, &[3]), "a world that is gone");
        assert!(is_sending(3, 100, &[3, 7]), "a world that is late");
        assert!(is_sending(7, 99, &[7]) && !is_sending(7, 100, &[7]), "the same world");
    }

    #[test]
    fn key_of_a_batch_leads_back_to_it() {
        let id = BatchId { world: 7, sender: 0, number: u64::MAX };
        assert_eq!(BatchId::of_key(&id.key()), Some(id));
        for wrong in ["", "1/2", "1/2/3/4", "1/2/x", "1/2/03"] {
            assert_eq!(BatchId::of_key(wrong), None, "{wrong}");
        }
    }
}
