//! The stored state of a job: one record, written compare-and-set with each change.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use turnwheel_engine::Time;

use crate::launch::{Launch, LaunchState, Root};
use crate::limits::{INLINE_MAX, NOTICES_MAX, PAGE};
use crate::notify::Event;
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

/// A job, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) spec: JobSpec,
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
    pub(crate) replay_until: Time,
    /// Number of the next launch.
    pub(crate) next_launch: u64,
    /// Launches that are not over, oldest first.
    pub(crate) active: Vec<Launch>,
    /// The newest ended launches, oldest first.
    pub(crate) ended: VecDeque<Launch>,
    /// Pages of older ones: the first that is kept, and the next that is written.
    pub(crate) pages: (u64, u64),
    /// Pages before this one are not in the store any more.
    #[serde(default)]
    pub(crate) swept: u64,
    pub(crate) counts: Counts,
    pub(crate) last_success: Option<Time>,
    pub(crate) last_error: Option<Time>,
    /// State of the launch that ended last.
    pub(crate) status: Option<LaunchState>,
    /// Reports that the dependants have not taken yet.
    pub(crate) outbox: Vec<Report>,
    /// Events that somebody is to be told of.
    #[serde(default)]
    pub(crate) notices: VecDeque<Notice>,
    /// Launches of parents that were taken, the newest last.
    pub(crate) seen: VecDeque<(String, u64)>,
    pub(crate) joins: VecDeque<Join>,
}

impl Record {
    pub(crate) fn new(spec: JobSpec, now: Time, by: &str) -> Self {
        Self {
            spec,
            revision: 1,
            created_at: now,
            changed_at: now,
            changed_by: by.to_owned(),
            anchor: now,
            decided: now,
            replay_until: Time(0),
            next_launch: 1,
            active: Vec::new(),
            ended: VecDeque::new(),
            pages: (0, 0),
            swept: 0,
            counts: Counts::default(),
            last_success: None,
            last_error: None,
            status: None,
            outbox: Vec::new(),
            notices: VecDeque::new(),
            seen: VecDeque::new(),
            joins: VecDeque::new(),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it is made of texts, numbers and lists")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
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
        is_full.then(|| self.ended.iter().take(PAGE).cloned().collect())
    }

    /// Forgets the launches that were written to a page, and the oldest page if it is not kept.
    pub(crate) fn paged(&mut self) {
        self.ended.drain(..PAGE.min(self.ended.len()));
        self.pages.1 += 1;
        let kept = usize::try_from(self.pages.1 - self.pages.0).unwrap_or(usize::MAX);
        let keep = usize::try_from(self.spec.keep).unwrap_or(usize::MAX);
        if kept.saturating_mul(PAGE) >= keep.saturating_add(PAGE) {
            self.pages.0 += 1;
        }
    }

    pub(crate) fn launch(&self, id: u64) -> Option<&Launch> {
        self.active.iter().chain(&self.ended).find(|launch| launch.id == id)
    }

    /// The newest launch of a planned time.
    pub(crate) fn of_time(&self, planned: Time) -> Option<usize> {
        self.ended.iter().rposition(|launch| launch.covers(planned))
    }
}
