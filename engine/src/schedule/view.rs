//! A schedule as people see it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::entry::Entry;
use super::expected::revision;
use super::launch::{jitter, Launch};
use super::rule::Rule;
use super::state::{Counts, Paused, Spec};
use super::timing::{CatchUp, Overlap, Timing};
use crate::id::PlanId;
use crate::payload::Payload;
use crate::store::ScheduleRow;
use crate::time::Time;

/// A schedule as it was at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScheduleView {
    /// Its name.
    pub name: String,
    /// When it launches.
    pub timing: Timing,
    /// Policy for launches while one is running.
    pub overlap: Overlap,
    /// Policy for missed times.
    pub catch_up: CatchUp,
    /// Maximum delay of a launch.
    pub jitter: Duration,
    /// The launched action.
    pub action: String,
    /// With which input.
    pub input: Payload,
    /// When it was first put.
    pub created_at: Time,
    /// The pause, if it is paused.
    pub paused: Option<Paused>,
    /// The newest launch whose plan began.
    pub last: Option<Launch>,
    /// When the next launch is due, jitter included; nothing while it is paused.
    pub next: Option<Time>,
    /// Why it has no times, if what is stored cannot be understood here; put it again.
    pub problem: Option<String>,
    /// Counts of outcomes.
    pub counts: Counts,
    /// Its plans that are under way, as far as it watches them.
    pub running: Vec<PlanId>,
    /// Launches that wait for their turn.
    pub waiting: usize,
    /// The newest launches, oldest first; at most
    /// [`SCHEDULE_HISTORY_MAX`](crate::limits::SCHEDULE_HISTORY_MAX).
    pub history: Vec<Launch>,
}

impl ScheduleView {
    /// As a store has it, where no world is.
    pub(crate) fn read(row: &ScheduleRow) -> Self {
        Self::of(&row.name, &Entry::read(row, crate::store::NO_EPOCH))
    }

    /// The revision of its settings and its pause, for [`Expected`](super::Expected). Launches do
    /// not change it.
    pub fn revision(&self) -> u64 {
        let spec = Spec {
            timing: self.timing.clone(),
            overlap: self.overlap,
            catch_up: self.catch_up,
            jitter_us: u64::try_from(self.jitter.as_micros()).unwrap_or(u64::MAX),
            action: self.action.clone(),
            input: self.input.clone(),
        };
        revision(&spec, self.paused.as_ref())
    }

    /// The first times after `after`, at most so many, and no more than
    /// [`SCHEDULE_TIMES_MAX`](crate::limits::SCHEDULE_TIMES_MAX), without jitter; none if there is a
    /// [problem](Self::problem).
    pub fn times(&self, after: Time, limit: usize) -> Vec<Time> {
        Rule::of(&self.timing).map_or_else(|_| Vec::new(), |rule| rule.preview(after, limit))
    }

    pub(super) fn of(name: &str, entry: &Entry) -> Self {
        let kept = &entry.kept;
        let next = match kept.paused {
            Some(_) => None,
            None => entry.rule.next(kept.decided),
        };
        let next = next.map(|planned| planned.after(jitter(name, planned, kept.spec.jitter())));
        Self {
            name: name.to_owned(),
            timing: kept.spec.timing.clone(),
            overlap: kept.spec.overlap,
            catch_up: kept.spec.catch_up,
            jitter: kept.spec.jitter(),
            action: kept.spec.action.clone(),
            input: kept.spec.input.clone(),
            created_at: kept.created_at,
            paused: kept.paused.clone(),
            last: kept.last.clone(),
            next,
            problem: entry.problem.clone(),
            counts: kept.counts,
            running: kept.running.clone(),
            waiting: kept.queue.len(),
            history: kept.history.iter().cloned().collect(),
        }
    }
}
