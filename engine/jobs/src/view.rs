//! A job as people see it.

use serde::{Deserialize, Serialize};
use turnwheel_engine::Time;

use crate::launch::{Launch, LaunchState};
use crate::mask;
use crate::record::Counts;
use crate::spec::JobSpec;

/// A job as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobView {
    /// Its settings.
    pub spec: JobSpec,
    /// Number of edits; an edit names it to be refused after another one.
    pub revision: u64,
    /// When it was made.
    pub created_at: Time,
    /// When it was edited last.
    pub changed_at: Time,
    /// The user that has edited it last.
    pub changed_by: String,
    /// When its next launch is due, jitter included.
    pub next: Option<Time>,
    /// Why it does not fire although it should; put it again.
    pub problem: Option<String>,
    /// Parents that are not there any more: it does not run after them.
    #[serde(default)]
    pub gone: Vec<String>,
    /// Launches that are under way, wait, or are asked for, oldest first.
    pub active: Vec<Launch>,
    /// The newest launch that is over.
    pub last: Option<Launch>,
    /// Its counts.
    pub counts: Counts,
    /// When a run of it succeeded last.
    pub last_success: Option<Time>,
    /// When a run of it failed last.
    pub last_error: Option<Time>,
    /// State of the launch that ended last.
    pub status: Option<LaunchState>,
    /// Jobs that run after it, by name.
    pub dependants: Vec<String>,
}

/// A launch that is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextLaunch {
    /// Its time by the schedule.
    pub planned: Time,
    /// When it begins: later by its jitter.
    pub begins: Time,
}

impl JobView {
    /// The same without the credentials in its settings, for those who may look and not edit.
    #[must_use]
    pub fn masked(mut self) -> Self {
        mask::settings(&mut self.spec.config);
        self.spec.processors.values_mut().for_each(mask::settings);
        self.spec.notify.iter_mut().for_each(mask::notify);
        self
    }

    /// Number of launches that are at work; others wait for their turn, a place or their key.
    pub fn begun(&self) -> usize {
        self.active.iter().filter(|launch| launch.is_at_work()).count()
    }
}
