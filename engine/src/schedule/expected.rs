//! State of a schedule that a change is for, so that nobody overwrites what another person has
//! changed.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::entry::Entry;
use super::error::ScheduleError;
use super::state::{Paused, Spec};
use super::timetable::Roster;

/// State that a schedule has to be in for a change; see [`Schedules::expecting`].
///
/// The world that serves the schedule looks at it in the one task that changes it, and the store
/// refuses the writes of any other world. So of two changes of the same state only one is made,
/// from whichever worlds they come.
///
/// [`Schedules::expecting`]: super::Schedules::expecting
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Expected {
    /// Any state, and none.
    #[default]
    Any,
    /// There is no schedule with this name.
    Absent,
    /// There is one.
    Present,
    /// Its [revision](super::ScheduleView::revision) is one of these.
    Revisions(Vec<u64>),
}

impl Expected {
    /// Refuses a change of another state than this one.
    pub(super) fn check(&self, name: &str, found: Option<&Entry>) -> Result<(), ScheduleError> {
        let problem = match (self, found) {
            (Self::Any, _) | (Self::Absent, None) | (Self::Present, Some(_)) => return Ok(()),
            (Self::Absent, Some(_)) => "exists, and the request is for a new one".to_owned(),
            (Self::Present | Self::Revisions(_), None) => {
                "does not exist, and the request names a state of it".to_owned()
            }
            (Self::Revisions(wanted), Some(entry)) => {
                let current = revision(&entry.kept.spec, entry.kept.paused.as_ref());
                if wanted.contains(&current) {
                    return Ok(());
                }
                format!(
                    "was changed since it was read: read it again, its revision is \
                     {current:016x} now"
                )
            }
        };
        Err(ScheduleError::Edited { name: name.to_owned(), problem })
    }
}

impl Roster {
    /// Whether there is a schedule to be changed, in the state that the change is for.
    pub(super) fn expected(&self, name: &str, state: &Expected) -> Result<(), ScheduleError> {
        let found = self.found(name);
        state.check(name, found.as_ref().ok().copied())?;
        found.map(|_| ())
    }
}

/// The revision of what people change, made of it: what launches change is no part of it. The same
/// settings have the same revision in every process and release that stores them alike.
pub(super) fn revision(spec: &Spec, paused: Option<&Paused>) -> u64 {
    let bytes = postcard::to_extend(&(spec, paused), Vec::new());
    let bytes = bytes.expect("it holds nothing that cannot be written");
    let digest = Sha256::digest(&bytes);
    let first = digest.first_chunk().expect("a digest has 32 bytes");
    u64::from_be_bytes(*first)
}
