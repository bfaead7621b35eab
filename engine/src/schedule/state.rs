//! Stored state of a schedule. It is stored in full, with each change.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::launch::{Due, Launch, Occasion, Outcome};
use super::timing::{CatchUp, Overlap, Timing};
use crate::error::StoreError;
use crate::id::PlanId;
use crate::limits::{SCHEDULE_HISTORY_MAX, SCHEDULE_RUNNING_MAX};
use crate::payload::Payload;
use crate::store::{undecodable, CODED};
use crate::time::Time;

/// The first byte of a stored schedule.
const FORMAT: u8 = 1;

/// Settings of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) timing: Timing,
    pub(crate) overlap: Overlap,
    pub(crate) catch_up: CatchUp,
    pub(crate) jitter_us: u64,
    pub(crate) action: String,
    pub(crate) input: Payload,
}

impl Spec {
    pub(crate) fn jitter(&self) -> Duration {
        Duration::from_micros(self.jitter_us)
    }
}

/// Counts of a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Plans that began.
    pub launched: u64,
    /// Launches that were left out by the overlap policy.
    pub skipped: u64,
    /// Times that were missed and not made up for. Of one outage, no more than
    /// [`SCHEDULE_MISSED_MAX`](crate::limits::SCHEDULE_MISSED_MAX) are counted.
    pub missed: u64,
    /// Launches that failed.
    pub failed: u64,
}

/// A pause of a schedule, with author and reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// When.
    pub at: Time,
    /// The author.
    pub by: String,
    /// Why.
    pub why: String,
}

/// Times that are to be made up for: those in `after..=until`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Range {
    pub(crate) after: Time,
    pub(crate) until: Time,
    pub(crate) is_asked: bool,
}

/// A schedule, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) spec: Spec,
    pub(crate) created_at: Time,
    pub(crate) paused: Option<Paused>,
    /// Every time up to here is decided.
    pub(crate) decided: Time,
    /// Launches whose plans are to begin as soon as this is durable. A crash finds them here, and their
    /// keys say whether their plans have begun.
    pub(crate) going: Vec<Due>,
    /// Launches that wait for their turn.
    pub(crate) queue: VecDeque<Due>,
    pub(crate) ranges: VecDeque<Range>,
    /// Plans that have begun, and were not over when last heard of.
    pub(crate) running: Vec<PlanId>,
    /// Launches that somebody has asked for.
    pub(crate) by_hand: u64,
    /// Authors of the manual launches that are not over, by their numbers.
    pub(crate) askers: Vec<(u64, String)>,
    pub(crate) counts: Counts,
    /// The newest launches, oldest first.
    pub(crate) history: VecDeque<Launch>,
    /// The newest launch whose plan began.
    pub(crate) last: Option<Launch>,
}

impl Kept {
    pub(crate) fn new(spec: Spec, now: Time) -> Self {
        let decided = match spec.timing {
            // The first launch is at once.
            Timing::After { pause_us } => Time(now.0.saturating_sub(pause_us)),
            _ => now,
        };
        Self {
            spec,
            created_at: now,
            paused: None,
            decided,
            going: Vec::new(),
            queue: VecDeque::new(),
            ranges: VecDeque::new(),
            running: Vec::new(),
            by_hand: 0,
            askers: Vec::new(),
            counts: Counts::default(),
            history: VecDeque::new(),
            last: None,
        }
    }

    /// A schedule as it is shown if its stored bytes cannot be read.
    pub(crate) fn unreadable() -> Self {
        let spec = Spec {
            timing: Timing::Manual,
            overlap: Overlap::default(),
            catch_up: CatchUp::default(),
            jitter_us: 0,
            action: String::new(),
            input: Payload::default(),
        };
        Self::new(spec, Time::default())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        postcard::to_extend(self, vec![FORMAT]).expect("it holds nothing that cannot be written")
    }

    pub(crate) fn decode(name: &str, bytes: &[u8]) -> Result<Self, StoreError> {
        let corrupt = |problem: &dyn std::fmt::Display| {
            StoreError::Corrupt(format!(
                "the schedule «{name}» cannot be read: {problem}; put it again or remove it"
            ))
        };
        match bytes.split_first() {
            Some((&CODED, _)) => Err(undecodable(bytes, "no codec here knows it")),
            Some((&FORMAT, rest)) => postcard::from_bytes(rest).map_err(|error| corrupt(&error)),
            Some((format, _)) => Err(corrupt(&format!("its format is {format}, not {FORMAT}"))),
            None => Err(corrupt(&"it is empty")),
        }
    }

    /// Whether a plan of it is under way, or about to be.
    pub(crate) fn is_busy(&self) -> bool {
        !self.running.is_empty() || !self.going.is_empty()
    }

    /// Author of a launch: the schedule, or the principal who used it.
    pub(crate) fn launcher(&self, name: &str, due: Due) -> String {
        let asker =
            self.askers.iter().find(|(number, _)| due.occasion == Occasion::ByHand(*number));
        match asker {
            Some((_, asker)) => format!("{asker}, by the schedule {name}"),
            None => format!("schedule {name}"),
        }
    }

    /// Whether a plan for this time is known to have begun.
    pub(crate) fn has_launched(&self, planned: Time) -> bool {
        let is_it = |launch: &Launch| {
            launch.planned == planned
                && launch.plan().is_some()
                && !matches!(launch.occasion, Occasion::ByHand(_))
        };
        self.history.iter().rev().any(is_it)
    }

    /// A launch has ended, well or not.
    pub(crate) fn ended(&mut self, due: Due, now: Time, outcome: Outcome) {
        self.going.retain(|going| *going != due);
        if let Occasion::ByHand(ended) = due.occasion {
            self.askers.retain(|(number, _)| *number != ended);
        }
        if let Outcome::Launched(plan) = outcome {
            if self.has_launched(due.planned) && !matches!(due.occasion, Occasion::ByHand(_)) {
                return;
            }
            // Asked for again with the same idempotency key.
            if self.history.iter().any(|launch| launch.plan() == Some(plan)) {
                return;
            }
            self.running.push(plan);
            if self.running.len() > SCHEDULE_RUNNING_MAX {
                self.running.remove(0);
            }
        }
        self.remember(due, now, outcome);
    }

    pub(crate) fn remember(&mut self, due: Due, now: Time, outcome: Outcome) {
        let Due { planned, occasion } = due;
        let launch = Launch { planned, at: now, occasion, outcome };
        match launch.outcome {
            Outcome::Launched(_) => {
                self.counts.launched += 1;
                self.last = Some(launch.clone());
            }
            Outcome::Skipped(_) => self.counts.skipped += 1,
            Outcome::Failed(_) => self.counts.failed += 1,
        }
        self.history.push_back(launch);
        if self.history.len() > SCHEDULE_HISTORY_MAX {
            self.history.pop_front();
        }
    }
}
