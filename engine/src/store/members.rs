//! Leases of the worlds that share a store, by the clock of the store.
//!
//! A lease saves work and keeps no promise: the epochs of slots do that. A world whose lease is
//! over may be declared dead by the others, which get its slots under new epochs. It stops by its
//! own clock before that, so that it begins nothing in vain.

use std::sync::Arc;
use std::time::Duration;

use crate::error::StoreError;

/// The leases of a store that several processes use at a time.
///
/// Each has a connection of its own: a heartbeat waits neither for a commit nor for rows, which are
/// carried by another one.
pub trait Members: Send {
    /// Renews the leases of these worlds, if they are registered: they end this long after now. A
    /// registered world that has no lease gets one as long: it came a moment ago.
    ///
    /// # Errors
    ///
    /// The store failed. The leases may be renewed.
    fn beat(&mut self, worlds: &[u64], lease: Duration) -> Result<Beat, StoreError>;

    /// Leaves rows for worlds; those for a world that is not registered may be left out. False if
    /// the store carries no rows between nodes.
    ///
    /// # Errors
    ///
    /// The store failed. The rows may be there.
    fn post(&mut self, mail: &[Mail]) -> Result<bool, StoreError> {
        let _carries_none = mail;
        Ok(false)
    }

    /// Takes rows for these worlds, the oldest first: at most `rows`, and no further ones once they
    /// have so many `bytes`. Each is given once as long as its taker lives, also after a call that
    /// has failed, and may be lost with its taker.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn mail(&mut self, worlds: &[u64], rows: usize, bytes: usize) -> Result<Vec<Mail>, StoreError> {
        let _carries_none = (worlds, rows, bytes);
        Ok(Vec::new())
    }

    /// Calls this with the number of a world for which a row may have come, as long as this value
    /// lives. It is a hint that saves time: a store without hints is asked for rows now and then.
    fn listen(&mut self, hint: Hint) {
        let _none = hint;
    }

    /// Whether hints come now: then rows are looked for less often.
    fn is_listening(&self) -> bool {
        false
    }
}

/// Told that a row may have come for a world: see [`Members::listen`].
pub type Hint = Arc<dyn Fn(u64) + Send + Sync>;

/// A row for a world of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// The world.
    pub to: u64,
    /// Its content.
    pub bytes: Vec<u8>,
    /// How long ago it was written. A row that is posted has waited for so long before; the store
    /// adds the time that it has it, by its clock.
    pub age: Duration,
}

/// The findings of a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    /// The version of the table of worlds: whoever knows another one reads it.
    pub version: u64,
    /// The registered worlds by their numbers, with what is left of their leases: nothing if they
    /// are over.
    pub left: Vec<(u64, Duration)>,
    /// The version of the dead letters: that of the state which each of their changes writes.
    pub letters: u64,
}

impl Beat {
    /// The registered worlds whose leases are over, by their numbers.
    pub fn lapsed(&self) -> Vec<u64> {
        let over = self.left.iter().filter(|(_, left)| left.is_zero());
        over.map(|(world, _)| *world).collect()
    }
}
