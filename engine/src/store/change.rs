//! Data stored beside plans: states of entities, their reminders, and tables of users.

use turnwheel_actors::entity::{ReminderId, ReminderRow};

use super::{Hold, Work};
use crate::time::Time;

/// A change of versioned data: it is made only if the data was not changed since it was read.
#[derive(Clone, Debug)]
pub enum Change {
    /// The state of an entity is written or removed.
    State {
        /// Name of the entity's type.
        entity: String,
        /// Its key.
        key: String,
        /// The state; nothing if it is removed.
        bytes: Option<Vec<u8>>,
        /// When its owner has to look at it: [`StoreReader::states_of`](super::StoreReader::states_of)
        /// finds it by that.
        due: Option<Time>,
        /// The version that the writer knows; 0 if there is none.
        expected: u64,
        /// The epoch of the entity's owner.
        epoch: u64,
    },
    /// A state is removed with its version, whatever that is: for a key that is never used again.
    /// No other change of its commit writes the key.
    StateGone {
        /// Name of the entity's type.
        entity: String,
        /// Its key.
        key: String,
    },
    /// A reminder is written, as [`ReminderStore::upsert`] does.
    ///
    /// [`ReminderStore::upsert`]: turnwheel_actors::entity::ReminderStore::upsert
    Reminder {
        /// The reminder; its version is the one that the writer knows.
        row: Box<ReminderRow>,
        /// The epoch of the entity's owner.
        epoch: u64,
    },
    /// A reminder is removed.
    ReminderGone {
        /// The reminder.
        id: ReminderId,
        /// The version that the writer knows.
        expected: u64,
        /// The epoch of the entity's owner.
        epoch: u64,
    },
    /// A step's own SQL, once.
    Work(Work),
    /// A change that is made only if its slot still has this epoch.
    Under {
        /// The slot with its epoch.
        hold: Hold,
        /// The change.
        change: Box<Change>,
    },
}

impl Change {
    /// About how many bytes it writes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::State { bytes, key, .. } => bytes.as_ref().map_or(0, Vec::len) + key.len(),
            Self::StateGone { .. } | Self::Reminder { .. } | Self::ReminderGone { .. } => 256,
            Self::Work(_) => 4_096,
            Self::Under { change, .. } => change.bytes(),
        }
    }

    /// The change itself, and what has to be held for it.
    pub fn parts(&self) -> (Option<Hold>, &Self) {
        match self {
            Self::Under { hold, change } => (Some(*hold), change.parts().1),
            change => (None, change),
        }
    }

    /// The state that it writes or removes: name and key.
    pub(crate) fn state(&self) -> Option<(&str, &str)> {
        match self.parts().1 {
            Self::State { entity, key, .. } | Self::StateGone { entity, key } => {
                Some((entity, key))
            }
            _ => None,
        }
    }

    /// The state that it removes with its version.
    pub(crate) fn gone(&self) -> Option<(&str, &str)> {
        matches!(self.parts().1, Self::StateGone { .. }).then(|| self.state()).flatten()
    }

    /// Whether it must not share its commit with others.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.parts().1, Self::Work(work) if work.is_alone)
    }
}

/// Whether a change is allowed: `known` are the version and the newest epoch in the store.
pub fn admit(known: (u64, u64), expected: u64, epoch: u64) -> Result<(), super::Verdict> {
    let (version, newest) = known;
    if epoch < newest {
        return Err(super::Verdict::Outdated { newest });
    }
    if version != expected {
        return Err(super::Verdict::Conflict { found: version });
    }
    Ok(())
}
