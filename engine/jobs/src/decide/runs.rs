//! Ends of runs: further attempts, and the end of the launch.

use std::time::Duration;

use turnwheel_engine::{PlanId, Time};

use super::{cut, Effect, Turn};
use crate::launch::{Launch, LaunchState, Run, RunState};
use crate::notify::Event;
use crate::record::End;
use crate::spec::Unknown;

/// End of a run, as its plan says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) state: RunState,
    pub(crate) reason: String,
    pub(crate) started_at: Option<Time>,
    pub(crate) output_bytes: u64,
    pub(crate) is_cut: bool,
    pub(crate) note: String,
}

impl Turn<'_> {
    fn active(&mut self, id: u64) -> Option<&mut Launch> {
        self.record.active.iter_mut().find(|launch| launch.id == id)
    }

    /// The plan of a run is durable.
    pub(crate) fn started(&mut self, id: u64, run: usize, plan: PlanId) {
        let Some(launch) = self.active(id) else { return };
        let is_ending = launch.cancelled_by.is_some();
        let Some(run_row) = launch.runs.get_mut(run) else { return };
        run_row.plan = Some(plan);
        if is_ending && !run_row.state.is_over() {
            self.effects.push(Effect::Cancel { launch: id, run, plan });
        }
    }

    /// A run has ended.
    pub(crate) fn ended(&mut self, id: u64, run: usize, ended: Ended) {
        let now = self.now;
        let policy = self.record.spec.unknown;
        let Some(launch) = self.active(id) else { return };
        let cancelled_by = launch.cancelled_by.clone();
        let Some(row) = launch.runs.get_mut(run).filter(|row| !row.state.is_over()) else { return };
        let is_unknown = ended.state == RunState::Unknown;
        row.state = match (ended.state, policy) {
            (RunState::Succeeded, _) => RunState::Succeeded,
            _ if cancelled_by.is_some() => RunState::Cancelled,
            (RunState::Unknown, Unknown::Fail | Unknown::Retry) => RunState::Failed,
            (state, _) => state,
        };
        row.reason = cut(&ended.reason);
        row.started_at = ended.started_at.or(row.started_at);
        row.ended_at = Some(now);
        (row.output_bytes, row.is_cut) = (ended.output_bytes, ended.is_cut);
        row.note = cut(&ended.note);
        let (state, node, attempt) = (row.state, row.node.clone(), row.attempt);
        if state == RunState::Cancelled {
            if let Some(by) = cancelled_by.as_ref().filter(|_| row.reason.is_empty()) {
                row.reason = format!("cancelled by {by}");
            }
        }
        self.count(state);
        let is_retried = state == RunState::Failed
            && cancelled_by.is_none()
            && attempt <= self.record.spec.retries
            && !(is_unknown && policy == Unknown::Fail);
        if is_retried {
            let at = now.after(self.pause(attempt));
            let next = Run::new(&node, attempt + 1, RunState::Waiting(at));
            if let Some(launch) = self.active(id) {
                launch.runs.push(next);
            }
            return;
        }
        self.finish(id);
    }

    fn count(&mut self, state: RunState) {
        match state {
            RunState::Succeeded => {
                self.record.counts.success += 1;
                self.record.last_success = Some(self.now);
            }
            _ => {
                self.record.counts.error += 1;
                self.record.last_error = Some(self.now);
            }
        }
    }

    /// The pause after an attempt: twice as long as the one before it.
    fn pause(&self, attempt: u32) -> Duration {
        let backoff = self.record.spec.backoff;
        let factor = 1u32.checked_shl(attempt - 1).unwrap_or(u32::MAX);
        backoff.first.0.saturating_mul(factor).min(backoff.max.0)
    }

    /// Ends a launch if all of its runs are over.
    fn finish(&mut self, id: u64) {
        let place = self.record.active.iter().position(|launch| launch.id == id);
        let Some(place) = place else { return };
        if self.record.active[place].runs.iter().any(|run| !run.state.is_over()) {
            return;
        }
        let mut launch = self.record.active.remove(place);
        launch.state = state_of(&launch);
        if launch.reason.is_empty() && launch.state != LaunchState::Succeeded {
            launch.reason = launch.runs.last().map(|run| run.reason.clone()).unwrap_or_default();
        }
        let is_success = launch.state == LaunchState::Succeeded;
        self.tell_end(id, launch.state);
        self.record.status = Some(launch.state);
        self.close(launch, Some(if is_success { End::Success } else { End::Failure }));
        if is_success && self.record.spec.ephemeral {
            self.effects.push(Effect::Remove);
            return;
        }
        self.release();
    }

    fn tell_end(&mut self, id: u64, state: LaunchState) {
        let before = self.record.status;
        let had_failed = matches!(
            before,
            Some(LaunchState::Failed | LaunchState::PartlyFailed | LaunchState::Unknown)
        );
        match state {
            LaunchState::Succeeded => {
                self.tell(id, None, Event::Success);
                if had_failed {
                    self.tell(id, None, Event::Recovery);
                }
            }
            LaunchState::Cancelled => {}
            _ => self.tell(id, None, Event::Failure),
        }
    }

    /// Begins the attempts whose pause is over, and says when the next one is.
    pub(super) fn start_waiting(&mut self) -> Option<Time> {
        let (now, mut next) = (self.now, None::<Time>);
        let mut begun = Vec::new();
        for launch in &mut self.record.active {
            for (place, run) in launch.runs.iter_mut().enumerate() {
                match run.state {
                    RunState::Waiting(at) if at <= now => {
                        run.state = RunState::Running;
                        self.effects.push(Effect::Start { launch: launch.id, run: place });
                        begun.push((launch.id, place));
                    }
                    RunState::Waiting(at) => next = Some(next.map_or(at, |next| next.min(at))),
                    _ => {}
                }
            }
        }
        for (launch, run) in begun {
            self.tell(launch, Some(run), Event::Start);
        }
        next
    }

    /// Cancels the launches that are over their deadline, and says when the next one is.
    pub(super) fn end_late(&mut self) -> Option<Time> {
        let limit = self.record.spec.deadline?;
        let due = |launch: &Launch| launch.planned.after(limit.0);
        let is_open = |launch: &&Launch| launch.is_under_way() && launch.cancelled_by.is_none();
        let open = self.record.active.iter().filter(is_open);
        let late: Vec<u64> =
            open.clone().filter(|launch| due(launch) <= self.now).map(|launch| launch.id).collect();
        let next = open.map(due).filter(|due| *due > self.now).min();
        for id in late {
            self.end(id, "the deadline", &format!("its deadline of {limit} has passed"));
        }
        next
    }

    /// Ends everything that is under way or waits, for a launch that takes its place.
    pub(super) fn end_all(&mut self, why: &str) {
        let all: Vec<u64> = self.record.active.iter().map(|launch| launch.id).collect();
        for id in all {
            self.end(id, "a later launch", why);
        }
    }

    /// Ends a launch: what runs is cancelled, what waits does not begin. Whether there is one.
    pub(crate) fn end(&mut self, id: u64, by: &str, why: &str) -> bool {
        let now = self.now;
        let Some(place) = self.record.active.iter().position(|launch| launch.id == id) else {
            return false;
        };
        if self.record.active[place].state == LaunchState::Queued {
            let mut launch = self.record.active.remove(place);
            launch.cancelled_by = Some(by.to_owned());
            self.leave_out(launch, LaunchState::Skipped, why);
            return true;
        }
        let launch = &mut self.record.active[place];
        launch.cancelled_by.get_or_insert(by.to_owned());
        launch.reason = cut(why);
        for (run, row) in launch.runs.iter_mut().enumerate() {
            match (row.state, row.plan) {
                (RunState::Waiting(_), _) => {
                    row.state = RunState::Cancelled;
                    row.ended_at = Some(now);
                    row.reason = cut(why);
                }
                (RunState::Running, Some(plan)) => {
                    self.effects.push(Effect::Cancel { launch: id, run, plan });
                }
                // Its plan is about to begin, and is cancelled then.
                _ => {}
            }
        }
        self.finish(id);
        true
    }
}

/// The state of a group: by the last attempt on each node.
fn state_of(launch: &Launch) -> LaunchState {
    let mut last: Vec<&Run> = Vec::new();
    for run in &launch.runs {
        last.retain(|other| other.node != run.node);
        last.push(run);
    }
    let has = |state: RunState| last.iter().any(|run| run.state == state);
    match (has(RunState::Succeeded), has(RunState::Failed)) {
        _ if has(RunState::Unknown) => LaunchState::Unknown,
        _ if has(RunState::Cancelled) => LaunchState::Cancelled,
        (true, false) => LaunchState::Succeeded,
        (true, true) => LaunchState::PartlyFailed,
        (false, _) => LaunchState::Failed,
    }
}
