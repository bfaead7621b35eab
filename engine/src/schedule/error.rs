//! Errors of schedules, and of requests about them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{PayloadError, StoreError, TriggerError};
use crate::limits::{SCHEDULES_MAX, SCHEDULE_NAME_BYTES_MAX};

/// A schedule was refused, or a request about one; nothing was changed.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The pattern cannot be understood.
    #[error("the pattern «{pattern}»: {field} {problem}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The field.
        field: String,
        /// The problem.
        problem: String,
    },
    /// There is no such zone.
    #[error(
        "there is no time zone «{zone}»: take a name of the IANA database, such as Europe/Berlin or UTC"
    )]
    UnknownZone {
        /// The name.
        zone: String,
    },
    /// A zone was given where none is meant.
    #[error("the schedule «{name}» has no use for a zone: only patterns of cron mean local time")]
    NeedlessZone {
        /// The schedule.
        name: String,
    },
    /// The period is too short, or longer than time.
    #[error(
        "a period must be at least a second (a pause: a millisecond), and less than 292,000 years"
    )]
    NoPeriod,
    /// It would never launch anything.
    #[error("the schedule «{name}» never launches: {timing} has no time after now")]
    NeverFires {
        /// The schedule.
        name: String,
        /// Its times.
        timing: String,
    },
    /// The name cannot be used.
    #[error(
        "«{name}» cannot name a schedule: a name has 1 to {SCHEDULE_NAME_BYTES_MAX} bytes and no \
         control characters"
    )]
    Name {
        /// The name, or its begin.
        name: String,
    },
    /// Nothing is to be launched.
    #[error("the schedule «{name}» has no action: say which with Schedule::action")]
    NoAction {
        /// The schedule.
        name: String,
    },
    /// The action is not registered with this world.
    #[error(
        "the schedule «{name}»: no action «{action}» is registered, add it to the world's builder"
    )]
    UnknownAction {
        /// The schedule.
        name: String,
        /// The action.
        action: String,
    },
    /// The input cannot be stored.
    #[error("the input of the schedule «{name}» {problem}")]
    Input {
        /// The schedule.
        name: String,
        /// The problem.
        problem: String,
    },
    /// There are too many.
    #[error("there are {SCHEDULES_MAX} schedules, which is the limit: remove some first")]
    TooMany,
    /// There is no such schedule.
    #[error("there is no schedule «{0}»")]
    Unknown(String),
    /// The range of a backfill has no end, too many times, or none.
    #[error("the backfill of «{name}» {problem}")]
    Backfill {
        /// The schedule.
        name: String,
        /// The problem.
        problem: String,
    },
    /// Another world has changed it at the same time.
    #[error("the schedule «{0}» was changed by another world at the same time: try again")]
    Changed(String),
    /// Its plan was not launched.
    #[error("the schedule «{name}» did not launch: {error}")]
    Launch {
        /// The schedule.
        name: String,
        /// Why.
        error: TriggerError,
    },
    /// Too many of its plans are under way.
    #[error("the schedule «{name}» has {count} launches under way: wait for them")]
    Busy {
        /// The schedule.
        name: String,
        /// Their number.
        count: usize,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The world is going down.
    #[error("the request was not taken: {0}")]
    Refused(String),
    /// It is in another state than the change is for.
    #[error("the schedule «{name}» {problem}")]
    Edited {
        /// The schedule.
        name: String,
        /// The problem.
        problem: String,
    },
}

impl ScheduleError {
    pub(crate) fn input(name: &str, action: &str, error: &PayloadError) -> Self {
        Self::Input { name: name.to_owned(), problem: format!("for «{action}» {error}") }
    }
}

/// The length of a period in microseconds.
pub(crate) fn micros(duration: Duration) -> Option<u64> {
    u64::try_from(duration.as_micros()).ok().filter(|us| *us <= i64::MAX as u64)
}
