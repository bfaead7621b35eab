//! Launches after others: once for each group, when all parents of the chain have ended.

use super::Turn;
use crate::launch::{Cause, LaunchState};
use crate::limits::SEEN_MAX;
use crate::record::{End, Join, Report};
use crate::spec::On;

impl Turn<'_> {
    /// A launch of a parent has ended. `expected` names the parents that the chain reaches: with
    /// several, the job waits for all of them.
    pub(crate) fn parent_ended(&mut self, report: &Report, expected: &[String]) {
        let seen = (report.job.clone(), report.launch);
        if self.record.seen.contains(&seen) {
            return;
        }
        self.record.seen.push_back(seen);
        if self.record.seen.len() > SEEN_MAX {
            self.record.seen.pop_front();
        }
        let Some(join) = self.joined(report, expected) else { return };
        let unmet: Vec<String> = join
            .ends
            .iter()
            .filter(|(job, (_, end))| !self.follows(job, *end))
            .map(|(job, (launch, end))| {
                format!("launch {launch} of {job} ended with {}", word(*end))
            })
            .collect();
        let cause = Cause::After { job: report.job.clone(), launch: report.launch };
        let launch = self.new_launch(self.now, cause, Some(report.root.clone()));
        if !unmet.is_empty() {
            return self.leave_out(launch, LaunchState::Skipped, &unmet.join(", "));
        }
        if self.record.spec.disabled {
            return self.leave_out(launch, LaunchState::Skipped, "the job is disabled");
        }
        self.admit(launch);
    }

    /// The ends of all parents, once they have all reported.
    fn joined(&mut self, report: &Report, expected: &[String]) -> Option<Join> {
        let joins = &mut self.record.joins;
        let place = joins.iter().position(|join| join.root == report.root).unwrap_or_else(|| {
            if joins.len() >= SEEN_MAX {
                joins.pop_front();
            }
            joins.push_back(Join { root: report.root.clone(), ends: Default::default() });
            joins.len() - 1
        });
        joins[place].ends.insert(report.job.clone(), (report.launch, report.end));
        let is_complete = expected.iter().all(|job| joins[place].ends.contains_key(job));
        is_complete.then(|| joins.remove(place)).flatten()
    }

    fn follows(&self, parent: &str, end: End) -> bool {
        let on = self.record.spec.after.iter().find(|after| after.job == parent);
        match on.map(|after| after.on) {
            Some(On::Success) => end == End::Success,
            Some(On::Failure) => end == End::Failure,
            Some(On::Always) => true,
            None => false,
        }
    }
}

fn word(end: End) -> &'static str {
    match end {
        End::Success => "a success",
        End::Failure => "a failure",
        End::Skipped => "no run",
    }
}
