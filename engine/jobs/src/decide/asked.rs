//! Launches whose outcome nobody knows, of jobs with `unknown: ask`: a person says what it was.

use super::{cut, Turn};
use crate::error::JobError;
use crate::launch::{Answer, LaunchState, Run, RunState};
use crate::limits::ASKED_MAX;
use crate::record::End;
use crate::spec::Overlap;

impl Turn<'_> {
    /// Keeps a launch until a person says its outcome. Those that follow do not wait for that.
    pub(super) fn ask(&mut self, place: usize) {
        let launch = &mut self.record.active[place];
        let is_new = !launch.is_asked();
        launch.state = LaunchState::Unknown;
        let unknown = launch.runs.iter().rfind(|run| run.state == RunState::Unknown);
        let why = unknown.map_or(String::new(), |run| run.reason.clone());
        launch.reason = cut(&format!("say whether it did its work (turnwheel job answer): {why}"));
        let id = launch.id;
        if is_new {
            self.tell_end(id, LaunchState::Unknown);
            self.record.status = Some(LaunchState::Unknown);
        }
        let asked: Vec<usize> = (0..self.record.active.len())
            .filter(|place| self.record.active[*place].is_asked())
            .collect();
        if asked.len() > ASKED_MAX {
            // It stays unknown. Its dependants are told of a failure.
            let launch = self.record.active.remove(asked[0]);
            self.close(launch, Some(End::Failure));
        }
        self.release();
    }

    /// Takes the outcome of a launch that nobody knew.
    pub(crate) fn answer(&mut self, id: u64, answer: Answer, by: &str) -> Result<(), JobError> {
        let job = self.record.spec.name.clone();
        let busy = self.record.active.iter().find(|launch| launch.is_under_way());
        let busy = busy.map(|launch| launch.id);
        let known = self.record.launch(id).map(|launch| launch.state.name());
        let place = self.record.active.iter().position(|it| it.id == id && it.is_asked());
        let Some(place) = place else {
            return Err(match known {
                Some(state) => JobError::NotAsked { job, launch: id, state: state.into() },
                None => JobError::UnknownLaunch { job, launch: id.to_string() },
            });
        };
        let is_alone = self.overlap() == Overlap::Allow || busy.is_none();
        if let Some(busy) = busy.filter(|_| answer == Answer::Retry && !is_alone) {
            let problem = format!("launch {busy} is under way: retry launch {id} after it");
            return Err(JobError::Overlaps { job, problem });
        }
        let launch = &mut self.record.active[place];
        launch.answered_by = Some(by.to_owned());
        launch.reason.clear();
        let mut members = Vec::new();
        for run in launch.runs.iter_mut().filter(|run| run.state == RunState::Unknown) {
            members.push((run.member, run.attempt));
            let said = match answer {
                Answer::Succeeded => "succeeded",
                Answer::Failed | Answer::Retry => "failed",
            };
            run.reason = cut(&format!("{by} says that it {said}; {}", run.reason));
            run.state = match answer {
                Answer::Succeeded => RunState::Succeeded,
                Answer::Failed | Answer::Retry => RunState::Lost,
            };
        }
        match answer {
            Answer::Succeeded => self.count_as_success(members.len() as u64),
            Answer::Failed => {}
            Answer::Retry => return self.retry(id, place, members),
        }
        // Its failure was told when it was asked for.
        self.end_launch(id, answer == Answer::Failed);
        Ok(())
    }

    /// Counts attempts as successes that were counted as lost.
    fn count_as_success(&mut self, runs: u64) {
        let counts = &mut self.record.counts;
        counts.lost = counts.lost.saturating_sub(runs);
        counts.error = counts.error.saturating_sub(runs);
        counts.success += runs;
        self.record.last_success = Some(self.now);
    }

    /// Begins a further attempt of each of these members.
    fn retry(&mut self, id: u64, place: usize, members: Vec<(u32, u32)>) -> Result<(), JobError> {
        let state = RunState::Waiting(self.now);
        for (member, attempt) in members {
            // Without a node it waits for one, or has failed, as any further attempt.
            let node = self.other_node(id, member).unwrap_or_default();
            let run = Run::new(member, &node, attempt + 1, state);
            self.record.active[place].runs.push(run);
        }
        self.record.active[place].state = LaunchState::Running;
        Ok(())
    }
}
