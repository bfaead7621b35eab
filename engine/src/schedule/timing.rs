//! When a schedule launches, as it is stored.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// When a schedule launches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timing {
    /// At the times of a pattern, as the clocks of a zone show them.
    Cron {
        /// The pattern: five fields, or six with a second before them.
        pattern: String,
        /// The name of the zone in the IANA database.
        zone: String,
    },
    /// After each period; counted from the begin of 1970, so that it does not depend on when the
    /// schedule was made.
    Every {
        /// In microseconds.
        period_us: u64,
        /// Later than that by so much, in microseconds.
        offset_us: u64,
    },
    /// Once.
    At(Time),
    /// When somebody says so.
    Manual,
    /// At once, and again so long after each end of its plan.
    After {
        /// In microseconds.
        pause_us: u64,
    },
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cron { pattern, zone } => write!(f, "{pattern} ({zone})"),
            Self::Every { period_us, offset_us: 0 } => {
                write!(f, "every {:?}", Duration::from_micros(*period_us))
            }
            Self::Every { period_us, offset_us } => {
                let (period, offset) = (*period_us, *offset_us);
                let (period, offset) =
                    (Duration::from_micros(period), Duration::from_micros(offset));
                write!(f, "every {period:?}, {offset:?} later")
            }
            Self::At(time) => write!(f, "at {time}"),
            Self::Manual => f.write_str("by hand"),
            Self::After { pause_us } => {
                write!(f, "{:?} after each end", Duration::from_micros(*pause_us))
            }
        }
    }
}

/// Policy for a launch while a plan of the same schedule is running. A paused plan does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Overlap {
    /// Both run at the same time.
    Allow,
    /// The new one is left out.
    #[default]
    Forbid,
    /// The old one is cancelled; the new one begins when it has ended.
    Replace,
    /// The new one waits for its turn; at most
    /// [`SCHEDULE_QUEUE_MAX`](crate::limits::SCHEDULE_QUEUE_MAX) do, further ones are left out.
    Queue,
}

/// Policy for times that have passed without a world, or that the clock has jumped over.
///
/// A time is missed [`SCHEDULE_LATE_MAX`](crate::limits::SCHEDULE_LATE_MAX) (two minutes) after it,
/// and its jitter; until then its launch is only late, and is made. Unless [`All`](Self::All) are
/// made up for, a time is also missed when a later one is due by then: of several that have come
/// meanwhile, only the newest is launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CatchUp {
    /// They are left out.
    None,
    /// One launch makes up for all of them: that of the last one.
    #[default]
    Latest,
    /// Times within this window are made up for, the oldest first; unless [`Overlap::Allow`], one
    /// after the other.
    All {
        /// In microseconds.
        window_us: u64,
    },
}

impl CatchUp {
    /// All that are over for no longer than this.
    pub fn all_within(window: Duration) -> Self {
        Self::All { window_us: u64::try_from(window.as_micros()).unwrap_or(u64::MAX) }
    }
}
