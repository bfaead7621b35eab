//! The stored state of a job: one record, written compare-and-set with each change.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use turnwheel_engine::Time;

use crate::launch::{Launch, LaunchState, Root};
use crate::limits::{INLINE_MAX, NOTICES_MAX, PAGE};
use crate::notify::Event;
use crate::shared::{launches, Shared};
use crate::small::is_default;
use crate::spec::JobSpec;

/// Counts of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Runs that succeeded.
    pub success: u64,
    /// Runs that did not.
    pub error: u64,
    /// Launches that a policy left out.
    pub skipped: u64,
    /// Times that were missed and not made up for.
    pub missed: u64,
    /// Runs of which nobody knows the outcome, as after the death of their node.
    #[serde(default)]
    pub lost: u64,
}

/// End of a launch, as its dependants are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    Success,
    Failure,
    /// It did not run.
    Skipped,
}

/// News for the dependants of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) job: String,
    pub(crate) launch: u64,
    pub(crate) end: End,
    pub(crate) root: Root,
}

/// An event whose notifications have not begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notice {
    pub(crate) launch: u64,
    pub(crate) run: Option<usize>,
    pub(crate) event: Event,
}

/// Parents that have reported of one chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Join {
    pub(crate) root: Root,
    pub(crate) ends: BTreeMap<String, (u64, End)>,
}

/// A key with which a job was launched by hand: a repeated request is known by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunKey {
    pub(crate) key: String,
    pub(crate) launch: u64,
    pub(crate) is_forced: bool,
}

/// A job, as it is stored. Fields with their defaults are not written: most jobs have little to
/// say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) spec: Shared,
    /// Number of edits: an edit of an older revision is refused.
    pub(crate) revision: u64,
    pub(crate) created_at: Time,
    pub(crate) changed_at: Time,
    pub(crate) changed_by: String,
    /// Start of the periods of `@every`: when the schedule was set.
    pub(crate) anchor: Time,
    /// Every time up to here is decided.
    pub(crate) decided: Time,
    /// The latest time that was decided before the clock was set back.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) replay_until: Time,
    /// Every time up to here was decided, and its row may be gone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) settled: Time,
    /// When a job at rest is to be looked at again; the end of time if never. Only in the store.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) wakes: Option<Time>,
    /// Number of the next launch.
    pub(crate) next_launch: u64,
    /// Launches that are not over, oldest first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) active: Vec<Launch>,
    /// The newest ended launches, oldest first.
    #[serde(default, with = "launches", skip_serializing_if = "is_default")]
    pub(crate) ended: VecDeque<Arc<Launch>>,
    /// Pages of older ones: the first that is kept, and the next that is written.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) pages: (u64, u64),
    /// When the newest launch of each of the newest pages ended, for jobs that keep by age.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) page_ends: VecDeque<Time>,
    /// Bytes of output of the newest pages, for jobs that keep by size.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) page_bytes: VecDeque<u64>,
    /// Pages before this one are not in the store any more.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) swept: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) counts: Counts,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) last_success: Option<Time>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) last_error: Option<Time>,
    /// Whether it is being removed: nothing of it begins any more, and it goes when what is under
    /// way has ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) is_leaving: bool,
    /// State of the launch that ended last.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) status: Option<LaunchState>,
    /// Whether its last launch has failed that was not cancelled.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) is_failing: bool,
    /// Reports that the dependants have not taken yet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) outbox: Vec<Report>,
    /// Events that somebody is to be told of.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) notices: VecDeque<Notice>,
    /// Launches of parents that were taken, the newest last.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) seen: VecDeque<(String, u64)>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) joins: VecDeque<Join>,
    /// Keys of launches by hand, the newest last.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) run_keys: VecDeque<RunKey>,
}

impl Record {
    pub(crate) fn new(spec: JobSpec, now: Time, by: &str) -> Self {
        Self {
            spec: Shared::new(spec),
            revision: 1,
            created_at: now,
            changed_at: now,
            changed_by: by.to_owned(),
            anchor: now,
            decided: now,
            replay_until: Time(0),
            settled: Time(0),
            wakes: None,
            next_launch: 1,
            active: Vec::new(),
            ended: VecDeque::new(),
            pages: (0, 0),
            page_ends: VecDeque::new(),
            page_bytes: VecDeque::new(),
            swept: 0,
            counts: Counts::default(),
            last_success: None,
            last_error: None,
            is_leaving: false,
            status: None,
            is_failing: false,
            outbox: Vec::new(),
            notices: VecDeque::new(),
            seen: VecDeque::new(),
            joins: VecDeque::new(),
            run_keys: VecDeque::new(),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it is made of texts, numbers and lists")
    }

    /// Whether times of its schedule count.
    pub(crate) fn fires(&self) -> bool {
        !self.spec.disabled && !self.is_leaving
    }

    /// Whether nothing is under way and nobody has to be told anything.
    pub(crate) fn is_at_rest(&self) -> bool {
        let owes_nothing = self.outbox.is_empty() && self.notices.is_empty();
        self.active.is_empty() && owes_nothing && !self.is_leaving
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut record: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        // Before jobs were marked when they leave: its success was stored, and nobody has edited it
        // since.
        let is_done = record.status == Some(LaunchState::Succeeded) && record.active.is_empty();
        let is_since = record.last_success.is_some_and(|at| record.changed_at < at);
        record.is_leaving |= record.spec.ephemeral && is_done && is_since;
        Ok(record)
    }

    /// Keeps an event until its notifications have begun.
    pub(crate) fn note(&mut self, notice: Notice) {
        self.notices.push_back(notice);
        if self.notices.len() > NOTICES_MAX {
            let dropped = self.notices.pop_front();
            tracing::warn!(job = self.spec.name, ?dropped, "too many notifications wait");
        }
    }

    /// The launches that leave the record for a page, if it has too many.
    pub(crate) fn overflow(&self) -> Option<Vec<Launch>> {
        let is_full = self.ended.len() > INLINE_MAX;
        is_full.then(|| {
            let oldest = self.ended.iter().take(PAGE);
            oldest.map(|launch| Launch::clone(launch)).collect()
        })
    }

    /// Forgets the launches that were written to a page, and the oldest page if it is not kept.
    pub(crate) fn paged(&mut self) {
        let paged: Vec<_> = self.ended.drain(..PAGE.min(self.ended.len())).collect();
        let end = paged.iter().filter_map(|launch| launch.ended_at).max().unwrap_or_default();
        match self.spec.keep_bytes {
            Some(_) => {
                let bytes = paged.iter().map(|launch| self.bytes_of(launch)).sum();
                self.page_bytes.push_back(bytes);
            }
            None => self.page_bytes.clear(),
        }
        self.pages.1 += 1;
        match self.spec.keep_for {
            Some(_) => self.page_ends.push_back(end),
            None => self.page_ends.clear(),
        }
        let kept = usize::try_from(self.pages.1 - self.pages.0).unwrap_or(usize::MAX);
        let keep = usize::try_from(self.spec.keep).unwrap_or(usize::MAX);
        if kept.saturating_mul(PAGE) >= keep.saturating_add(PAGE) {
            self.pages.0 += 1;
        }
        // As many as there are pages: one that is dropped has no row here either.
        let kept = usize::try_from(self.pages.1 - self.pages.0).unwrap_or(usize::MAX);
        self.page_bytes.drain(..self.page_bytes.len().saturating_sub(kept));
        self.page_ends.drain(..self.page_ends.len().saturating_sub(kept));
    }

    /// The time before which launches that have ended are not kept.
    pub(crate) fn kept_from(&self, now: Time) -> Option<Time> {
        let age = u64::try_from(self.spec.keep_for?.0.as_micros()).unwrap_or(u64::MAX);
        Some(Time(now.0.saturating_sub(age)))
    }

    /// Bytes of output that the runs of a launch have kept.
    fn bytes_of(&self, launch: &Launch) -> u64 {
        launch.runs.iter().map(|run| run.output_bytes.min(self.spec.output_max)).sum()
    }

    /// Forgets the launches that ended too long ago or have too much output, and pages of such.
    pub(crate) fn prune(&mut self, now: Time) {
        self.prune_by_size();
        self.prune_by_age(now);
    }

    fn prune_by_size(&mut self) {
        let Some(max) = self.spec.keep_bytes else { return };
        let inline: u64 = self.ended.iter().map(|launch| self.bytes_of(launch)).sum();
        let mut sum = inline + self.page_bytes.iter().sum::<u64>();
        while sum > max && self.pages.0 < self.pages.1 {
            sum -= self.page_bytes.pop_front().unwrap_or(0);
            // Pages before the first known one are older than it.
            self.pages.0 = self.pages.0.max(self.pages.1 - self.page_bytes.len() as u64);
            let kept = self.page_bytes.len();
            self.page_ends.drain(..self.page_ends.len().saturating_sub(kept));
            self.settled = self.settled.max(self.oldest());
        }
        while sum > max && self.ended.len() > 1 {
            let Some(old) = self.ended.pop_front() else { return };
            sum -= self.bytes_of(&old);
            self.settled = self.settled.max(old.until.unwrap_or(old.planned));
        }
    }

    /// The planned time before which no row is in memory.
    fn oldest(&self) -> Time {
        let oldest = self.ended.iter().find(|launch| launch.is_scheduled());
        oldest.map_or(Time(0), |launch| Time(launch.planned.0.saturating_sub(1)))
    }

    fn prune_by_age(&mut self, now: Time) {
        let Some(from) = self.kept_from(now) else { return };
        while let Some(end) = self.page_ends.front().filter(|end| **end < from).copied() {
            self.page_ends.pop_front();
            // Pages of an earlier time than the first known end are older than it.
            self.pages.0 = self.pages.0.max(self.pages.1 - self.page_ends.len() as u64);
            self.settled = self.settled.max(end);
        }
        let is_old = |launch: &&Arc<Launch>| launch.ended_at.is_some_and(|end| end < from);
        while self.ended.len() > 1 && self.ended.front().filter(is_old).is_some() {
            let Some(old) = self.ended.pop_front() else { return };
            self.settled = self.settled.max(old.until.unwrap_or(old.planned));
        }
    }

    /// Takes the plans of runs that are known and were not written.
    pub(crate) fn keep_plans(&mut self, known: &Self) {
        if known.created_at != self.created_at {
            return;
        }
        for launch in &mut self.active {
            let Some(other) = known.launch(launch.id) else { continue };
            for (run, other) in launch.runs.iter_mut().zip(&other.runs) {
                if run.plan.is_none() && (&run.node, run.attempt) == (&other.node, other.attempt) {
                    run.plan = other.plan;
                }
            }
        }
    }

    pub(crate) fn launch(&self, id: u64) -> Option<&Launch> {
        let ended = self.ended.iter().map(Arc::as_ref);
        self.active.iter().chain(ended).find(|launch| launch.id == id)
    }

    /// The newest launch of a planned time.
    pub(crate) fn of_time(&self, planned: Time) -> Option<usize> {
        self.ended.iter().rposition(|launch| launch.covers(planned))
    }
}
