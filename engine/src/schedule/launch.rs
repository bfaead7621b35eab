//! One launch of a schedule: its time and its outcome.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::id::PlanId;
use crate::time::Time;

/// Why a launch was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Occasion {
    /// Its time had come.
    OnTime,
    /// Its time was missed, and the catch-up policy makes up for it.
    CaughtUp,
    /// Somebody asked for a range of times.
    Backfill,
    /// Somebody asked for a launch: the number tells it from others at the same moment.
    ByHand(u64),
}

/// Outcome of a launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// This plan began.
    Launched(PlanId),
    /// It was left out, and why.
    Skipped(String),
    /// It could not be launched, and why.
    Failed(String),
}

/// A launch that is over: a plan has begun, or none will.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The time for which it was planned.
    pub planned: Time,
    /// When it was decided.
    pub at: Time,
    /// Why it was due.
    pub occasion: Occasion,
    /// Its outcome.
    pub outcome: Outcome,
}

impl Launch {
    /// The plan, if one began.
    pub fn plan(&self) -> Option<PlanId> {
        match self.outcome {
            Outcome::Launched(plan) => Some(plan),
            Outcome::Skipped(_) | Outcome::Failed(_) => None,
        }
    }
}

/// The bit of a number that stands for an idempotency key; counted numbers do not have it.
const BY_KEY: u64 = 1 << 63;

/// The number of the launches that are asked for with this key: a part of its digest.
pub(crate) fn number_of_key(key: &str) -> u64 {
    let digest = Sha256::digest(key.as_bytes());
    u64::from_be_bytes(std::array::from_fn(|at| digest[at])) | BY_KEY
}

/// A launch that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Due {
    pub(crate) planned: Time,
    pub(crate) occasion: Occasion,
}

impl Due {
    /// The idempotency key of its plan: one for each planned time, however it comes about.
    pub(crate) fn key(&self, schedule: &str) -> String {
        match self.occasion {
            // Whenever it is asked for: the same key is the same plan.
            Occasion::ByHand(number) if number & BY_KEY != 0 => {
                format!("schedule/{schedule}/by-key-{number}")
            }
            Occasion::ByHand(number) => {
                format!("schedule/{schedule}/{}/by-hand-{number}", self.planned)
            }
            _ => format!("schedule/{schedule}/{}", self.planned),
        }
    }
}

/// Delay of a launch: the same each time for the same schedule and time.
///
/// FNV-1a over name and time, mixed as by SplitMix64: neither changes with versions or platforms.
pub(crate) fn jitter(schedule: &str, planned: Time, max: Duration) -> Duration {
    let max = u64::try_from(max.as_micros()).unwrap_or(u64::MAX);
    if max == 0 {
        return Duration::ZERO;
    }
    let bytes = schedule.bytes().chain(planned.0.to_le_bytes());
    let mut mixed = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Duration::from_micros((mixed ^ (mixed >> 31)) % max)
}
