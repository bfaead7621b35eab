//! Ends of runs: further attempts, and the end of the launch.

use std::time::Duration;

use turnwheel_engine::{PlanId, Time};

use super::{cut, Effect, Turn};
use crate::launch::{Launch, LaunchState, Run, RunState};
use crate::limits::NODE_LOOK;
use crate::notify::Event;
use crate::record::End;
use crate::spec::{NoNode, Unknown};

/// The author of the end of a launch that takes too long, while its runs end.
const DEADLINE: &str = "the deadline";

/// End of a run, as its plan says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) state: RunState,
    pub(crate) reason: String,
    pub(crate) started_at: Option<Time>,
    /// When its work ended; nothing if nobody knows.
    pub(crate) ended_at: Option<Time>,
    pub(crate) output_bytes: u64,
    pub(crate) is_cut: bool,
    pub(crate) note: String,
    /// The node that has run it, if it says so.
    pub(crate) node: Option<String>,
    /// Whether it has certainly not begun.
    pub(crate) is_unbegun: bool,
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
        let (cancelled_by, is_late) = (launch.cancelled_by.clone(), is_late(launch));
        let why = launch.reason.clone();
        let Some(row) = launch.runs.get_mut(run).filter(|row| !row.state.is_over()) else { return };
        let is_unknown = ended.state == RunState::Unknown;
        let has_begun = ended.started_at.or(row.started_at).is_some();
        row.state = match (ended.state, policy) {
            (RunState::Succeeded, _) => RunState::Succeeded,
            // As one that takes longer than its time-out.
            _ if is_late && has_begun => RunState::Failed,
            _ if cancelled_by.is_some() => RunState::Cancelled,
            (RunState::Unknown, Unknown::Fail | Unknown::Retry) => RunState::Lost,
            (state, _) => state,
        };
        row.reason = cut(&ended.reason);
        // Its begin is told now if nobody heard of it.
        let is_new = row.started_at.is_none() && ended.started_at.is_some();
        row.started_at = ended.started_at.or(row.started_at);
        // Nobody may have watched when its work ended.
        let ended_at = ended.ended_at.unwrap_or(now);
        row.ended_at = Some(ended_at);
        (row.output_bytes, row.is_cut) = (ended.output_bytes, ended.is_cut);
        row.note = cut(&ended.note);
        if let Some(node) = ended.node {
            row.node = node;
        }
        let (state, member, attempt) = (row.state, row.member, row.attempt);
        if let Some(by) = cancelled_by.as_ref().filter(|_| row.reason.is_empty()) {
            match state {
                RunState::Cancelled if !is_late => row.reason = format!("cancelled by {by}"),
                RunState::Cancelled | RunState::Failed => row.reason = why,
                _ => {}
            }
        }
        if is_new && !ended.is_unbegun {
            self.tell(id, Some(run), Event::Start);
        }
        if ended.is_unbegun && cancelled_by.is_none() && !self.record.is_leaving {
            return self.move_run(id, run);
        }
        self.record.counts.lost += u64::from(is_unknown);
        // One whose deadline passed before it began is no error: its launch is skipped.
        let is_skipped = is_late && state == RunState::Cancelled;
        if !is_skipped {
            self.count(state, ended_at);
        }
        let is_retried = matches!(state, RunState::Failed | RunState::Lost)
            && attempt <= self.record.spec.retries
            && !is_late
            && !(is_unknown && policy == Unknown::Fail);
        if is_retried {
            let at = now.after(self.pause(attempt));
            // Without a node it waits for one from its begin on, or has failed then.
            let node = self.other_node(id, member).unwrap_or_default();
            if let Some(launch) = self.active(id) {
                launch.runs.push(Run::new(member, &node, attempt + 1, RunState::Waiting(at)));
                return;
            }
        }
        self.finish(id);
    }

    /// A node for a further attempt of a member: one that no other member has and where none has
    /// failed, if there is one.
    pub(super) fn other_node(&self, id: u64, member: u32) -> Result<String, String> {
        let launch = self.record.active.iter().find(|launch| launch.id == id);
        let launch = launch.ok_or_else(|| "the launch is over".to_owned())?;
        self.choice(launch).one(|node| {
            let runs = launch.runs.iter().filter(|run| run.node == node);
            let (own, other): (Vec<&Run>, Vec<&Run>) = runs.partition(|run| run.member == member);
            (!other.is_empty(), own.iter().map(|run| (run.attempt, run.moves)).max())
        })
    }

    /// An attempt that has not begun on its node goes to another one, or has failed.
    fn move_run(&mut self, id: u64, run: usize) {
        let Some(row) = self.active(id).and_then(|launch| launch.runs.get(run)) else { return };
        let (member, attempt, moves) = (row.member, row.attempt, row.moves + 1);
        let next = match self.other_node(id, member) {
            Ok(node) => Run::new(member, &node, attempt, RunState::Running),
            Err(problem) => {
                let mut next = Run::new(member, "", attempt, RunState::Failed);
                (next.reason, next.ended_at) = (cut(&problem), Some(self.now));
                self.count(RunState::Failed, self.now);
                next
            }
        };
        let Some(launch) = self.active(id) else { return };
        let (run, is_going) = (launch.runs.len(), !next.state.is_over());
        launch.runs.push(Run { moves, ..next });
        match is_going {
            true => self.effects.push(Effect::Start { launch: id, run }),
            false => self.finish(id),
        }
    }

    fn count(&mut self, state: RunState, at: Time) {
        match state {
            RunState::Succeeded => {
                self.record.counts.success += 1;
                self.record.last_success = self.record.last_success.max(Some(at));
            }
            _ => {
                self.record.counts.error += 1;
                self.record.last_error = self.record.last_error.max(Some(at));
            }
        }
    }

    /// The pause after an attempt: twice as long as the one before it.
    fn pause(&self, attempt: u32) -> Duration {
        let backoff = self.record.spec.backoff;
        let factor = 1u32.checked_shl(attempt - 1).unwrap_or(u32::MAX);
        backoff.first.0.saturating_mul(factor).min(backoff.max.0)
    }

    /// Ends a launch if all of its runs are over. One whose outcome nobody knows waits for an
    /// answer.
    pub(super) fn finish(&mut self, id: u64) {
        self.end_launch(id, false);
    }

    pub(super) fn end_launch(&mut self, id: u64, is_told: bool) {
        let place = self.record.active.iter().position(|launch| launch.id == id);
        let Some(place) = place else { return };
        if self.record.active[place].runs.iter().any(|run| !run.state.is_over()) {
            return;
        }
        if state_of(&self.record.active[place]) == LaunchState::Unknown {
            return self.ask(place);
        }
        let mut launch = self.record.active.remove(place);
        let was_asked = launch.is_asked() || launch.answered_by.is_some();
        launch.state = state_of(&launch);
        if launch.reason.is_empty() && launch.state != LaunchState::Succeeded {
            let bad = launch.runs.iter().rfind(|run| run.state != RunState::Succeeded);
            launch.reason = bad.map(|run| run.reason.clone()).unwrap_or_default();
        }
        let is_success = launch.state == LaunchState::Succeeded;
        if is_success {
            // The end of a deadline or a cancel came too late for it.
            launch.reason.clear();
        }
        // A question ends with its answer, however long ago the work was lost.
        let ends = launch.runs.iter().filter_map(|run| run.ended_at).filter(|_| !was_asked);
        launch.ended_at = ends.max();
        let has_begun = launch.runs.iter().any(|run| run.started_at.is_some());
        // It is no author of a cancel: the launch has failed, or is skipped.
        let by_deadline = launch.cancelled_by.take_if(|by| by == DEADLINE).is_some();
        if by_deadline && !has_begun && !is_success {
            let limit = self.record.spec.deadline.unwrap_or_default();
            let why = format!("its deadline of {limit} passed before it began");
            self.leave_out(launch, LaunchState::Skipped, &why);
        } else {
            if !is_told {
                self.tell_end(id, launch.state);
            }
            self.record.status = Some(launch.state);
            self.close(launch, Some(if is_success { End::Success } else { End::Failure }));
        }
        if self.record.is_leaving {
            self.effects.push(Effect::Remove);
            return;
        }
        if is_success && self.record.spec.ephemeral {
            return self.leave("its removal", "the job was for one success, and has had it");
        }
        self.release();
    }

    pub(super) fn tell_end(&mut self, id: u64, state: LaunchState) {
        let had_failed = self.record.is_failing
            || matches!(
                self.record.status,
                Some(LaunchState::Failed | LaunchState::PartlyFailed | LaunchState::Unknown)
            );
        self.record.is_failing = match state {
            LaunchState::Succeeded => false,
            LaunchState::Cancelled => had_failed,
            _ => true,
        };
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
        let mut ready = Vec::new();
        for launch in &self.record.active {
            for (place, run) in launch.runs.iter().enumerate() {
                match run.state {
                    RunState::Waiting(at) if at <= now => {
                        ready.push((launch.id, place, run.member, run.node.clone()));
                    }
                    RunState::Waiting(at) => next = Some(next.map_or(at, |next| next.min(at))),
                    _ => {}
                }
            }
        }
        for (id, place, member, node) in ready {
            // Its node may have gone since.
            let is_there = self.nodes.iter().any(|known| known.name == node);
            match if is_there { Ok(node) } else { self.other_node(id, member) } {
                Ok(node) => self.start_run(id, place, node),
                Err(problem) if self.gives_up(id, place) => {
                    self.fail_run(id, place, &problem);
                }
                Err(_) => {
                    let look = now.after(NODE_LOOK);
                    next = Some(next.map_or(look, |next| next.min(look)));
                }
            }
        }
        next
    }

    fn start_run(&mut self, id: u64, place: usize, node: String) {
        if let Some(run) = self.active(id).and_then(|launch| launch.runs.get_mut(place)) {
            (run.state, run.node) = (RunState::Running, node);
        }
        self.effects.push(Effect::Start { launch: id, run: place });
    }

    /// Whether an attempt that no node can run waits no longer for one.
    fn gives_up(&mut self, id: u64, place: usize) -> bool {
        let limit = match self.record.spec.no_node {
            NoNode::Fail => return true,
            NoNode::Wait(limit) => limit.0,
        };
        let now = self.now;
        let row = self.active(id).and_then(|launch| launch.runs.get(place));
        row.is_none_or(|row| match row.state {
            RunState::Waiting(since) => since.after(limit) <= now,
            _ => true,
        })
    }

    fn fail_run(&mut self, id: u64, place: usize, problem: &str) {
        let now = self.now;
        if let Some(run) = self.active(id).and_then(|launch| launch.runs.get_mut(place)) {
            (run.state, run.ended_at) = (RunState::Failed, Some(now));
            run.reason = cut(problem);
        }
        self.count(RunState::Failed, self.now);
        self.finish(id);
    }

    /// Ends the launches that are over their deadline, and says when the next one is.
    pub(super) fn end_late(&mut self) -> Option<Time> {
        let limit = self.record.spec.deadline?;
        let due = |launch: &Launch| launch.decided.after(limit.0);
        let is_open = |launch: &&Launch| launch.is_under_way() && launch.cancelled_by.is_none();
        let open = self.record.active.iter().filter(is_open);
        let late: Vec<u64> =
            open.clone().filter(|launch| due(launch) <= self.now).map(|launch| launch.id).collect();
        let next = open.map(due).filter(|due| *due > self.now).min();
        for id in late {
            self.end(id, DEADLINE, &format!("its deadline of {limit} has passed"));
        }
        next
    }

    /// Ends everything that is under way or waits, for a launch that takes its place. Launches that
    /// make up for missed times stay.
    pub(super) fn end_all(&mut self, why: &str) {
        let active = self.record.active.iter();
        let all = active.filter(|launch| !launch.is_asked() && !self.is_in_turn(launch));
        let all: Vec<u64> = all.map(|launch| launch.id).collect();
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
                (RunState::Unknown, _) if by == DEADLINE => row.state = RunState::Lost,
                (RunState::Unknown, _) => row.state = RunState::Cancelled,
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

/// Whether a launch ends because its deadline has passed.
fn is_late(launch: &Launch) -> bool {
    launch.cancelled_by.as_deref() == Some(DEADLINE)
}

/// The state of a group: by the last attempt of each member. At its deadline a member has failed
/// that has not succeeded.
fn state_of(launch: &Launch) -> LaunchState {
    let mut last: Vec<&Run> = Vec::new();
    for run in &launch.runs {
        last.retain(|other| other.member != run.member);
        last.push(run);
    }
    let has = |state: RunState| last.iter().any(|run| run.state == state);
    let is_cancelled = has(RunState::Cancelled);
    let has_failed = has(RunState::Failed) || has(RunState::Lost) || is_cancelled;
    match (has(RunState::Succeeded), has_failed) {
        _ if has(RunState::Unknown) => LaunchState::Unknown,
        _ if is_cancelled && !is_late(launch) => LaunchState::Cancelled,
        (true, false) => LaunchState::Succeeded,
        (true, true) => LaunchState::PartlyFailed,
        (false, _) => LaunchState::Failed,
    }
}
