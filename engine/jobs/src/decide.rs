//! Consequences for a job of the time and of the ends of its runs. Pure: it changes the record,
//! and lists the effects for when that is durable.

mod asked;
mod dependants;
mod due;
mod runs;

use turnwheel_engine::{PlanId, Time};

use crate::error::JobError;
use crate::launch::{Cause, Launch, LaunchState, Root, Run, RunState};
use crate::limits::{ACTIVE_MAX, LATE_MAX, NODE_LOOK, REASON_BYTES_MAX, RUN_KEYS_MAX};
use crate::node::{Choice, Node};
use crate::notify::{Event, Notify};
use crate::record::{End, Notice, Record, Report, RunKey};
use crate::request::JobAnswer;
use crate::schedule::Schedule;
use crate::spec::{Missed, NoNode, Overlap};

pub(crate) use due::{due_of, next_of};
pub(crate) use runs::Ended;

/// An effect of a decision, carried out when that is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Begin the plan of a run.
    Start { launch: u64, run: usize },
    /// End the plan of a run.
    Cancel { launch: u64, run: usize, plan: PlanId },
    /// Begin the notifications of an event.
    Notify(Notice),
    /// Tell the dependants what is in the outbox.
    Report,
    /// Remove the job: it was for one success.
    Remove,
}

/// A job that decides at a moment.
pub(crate) struct Turn<'a> {
    pub(crate) record: &'a mut Record,
    /// Its schedule; none if it has none, or none that can be understood.
    pub(crate) schedule: Option<&'a Schedule>,
    /// The nodes that are there.
    pub(crate) nodes: &'a [Node],
    pub(crate) now: Time,
    /// When this world began to serve: nobody launched times before it.
    pub(crate) since: Time,
    pub(crate) has_dependants: bool,
    /// Notifications of all jobs.
    pub(crate) notify: &'a [Notify],
    pub(crate) effects: Vec<Effect>,
}

/// Why a launch is refused, in words for its row.
fn cut(text: &str) -> String {
    let mut end = text.len().min(REASON_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

impl Turn<'_> {
    /// Decides all that is due. Returns when to decide again.
    pub(crate) fn advance(&mut self) -> Option<Time> {
        let next = self.take_due();
        self.release();
        let retry = self.start_waiting();
        let deadline = self.end_late();
        let is_waiting = self.record.active.iter().any(Launch::waits_for_node);
        let look = is_waiting.then(|| self.now.after(NODE_LOOK));
        [next, retry, deadline, look].into_iter().flatten().min()
    }

    /// Launches by hand.
    pub(crate) fn by_hand(&mut self, by: &str, is_forced: bool) -> Result<u64, JobError> {
        if self.record.is_leaving {
            return Err(JobError::Leaving(self.record.spec.name.clone()));
        }
        let launch = self.new_launch(self.now, Cause::Manual { by: by.to_owned() }, None);
        let id = launch.id;
        if is_forced {
            self.begin(launch);
            return Ok(id);
        }
        self.admit(launch);
        let refused = self.record.ended.back().filter(|last| last.id == id);
        match refused.filter(|last| last.state == LaunchState::Skipped) {
            Some(last) => Err(JobError::Overlaps {
                job: self.record.spec.name.clone(),
                problem: last.reason.clone(),
            }),
            None => Ok(id),
        }
    }

    /// Launches it by hand, unless an earlier request with this key has done so: then that launch
    /// is the answer. A refused request uses no key.
    pub(crate) fn by_hand_once(
        &mut self,
        by: &str,
        is_forced: bool,
        key: String,
    ) -> Result<JobAnswer, JobError> {
        if let Some(known) = self.record.run_keys.iter().find(|known| known.key == key) {
            if known.is_forced != is_forced {
                let job = self.record.spec.name.clone();
                return Err(JobError::KeyReused { job, launch: known.launch });
            }
            return Ok(JobAnswer::Repeated(known.launch));
        }
        let launch = self.by_hand(by, is_forced)?;
        if self.record.run_keys.len() >= RUN_KEYS_MAX {
            self.record.run_keys.pop_front();
        }
        self.record.run_keys.push_back(RunKey { key, launch, is_forced });
        Ok(JobAnswer::Launch(launch))
    }

    fn new_launch(&mut self, planned: Time, cause: Cause, root: Option<Root>) -> Launch {
        let id = self.record.next_launch;
        self.record.next_launch += 1;
        Launch {
            id,
            planned,
            decided: self.now,
            cause,
            state: LaunchState::Queued,
            reason: String::new(),
            times: 1,
            until: None,
            ended_at: None,
            cancelled_by: None,
            answered_by: None,
            root,
            runs: Vec::new(),
        }
    }

    /// Begins, queues or skips a launch, by the overlap policy.
    fn admit(&mut self, launch: Launch) {
        if self.record.is_leaving {
            return self.leave_out(launch, LaunchState::Skipped, "the job is being removed");
        }
        let busy = self.record.active.iter().find(|other| other.is_under_way());
        let busy = busy.map(|other| (other.id, other.planned));
        let queued = self.record.active.iter().filter(|l| l.state == LaunchState::Queued).count();
        let open = self.record.active.iter().filter(|launch| !launch.is_asked()).count();
        if open >= ACTIVE_MAX {
            let why = format!("{ACTIVE_MAX} launches of the job are under way or wait");
            return self.leave_out(launch, LaunchState::Skipped, &why);
        }
        // Missed times are made up for one after the other unless the job allows overlaps.
        let is_made_up = launch.cause == Cause::CatchUp;
        match (self.overlap(), busy) {
            (Overlap::Allow, _) => self.begin(launch),
            (_, None) if queued == 0 => self.begin(launch),
            (Overlap::Forbid, Some((id, planned))) if !is_made_up => {
                let why = format!("launch {id} of {planned} is under way");
                self.leave_out(launch, LaunchState::Skipped, &why);
            }
            (Overlap::Forbid, None) if !is_made_up => {
                self.leave_out(launch, LaunchState::Skipped, "a launch before it waits");
            }
            (Overlap::QueueOne, _) if queued > 0 && !is_made_up => {
                let why = "one launch waits for its turn already";
                self.leave_out(launch, LaunchState::Skipped, why);
            }
            (Overlap::Replace, _) if !self.is_in_turn(&launch) => {
                let why = format!("launch {} of {} replaces it", launch.id, launch.planned);
                self.end_all(&why);
                self.queue(launch);
            }
            _ => self.queue(launch),
        }
    }

    /// Its overlap policy. A job for one success has one launch under way at a time: none may have
    /// begun when another one succeeds.
    pub(super) fn overlap(&self) -> Overlap {
        match self.record.spec.overlap {
            Overlap::Allow if self.record.spec.ephemeral => Overlap::QueueAll,
            overlap => overlap,
        }
    }

    /// The job is to be removed: what waits does not begin, and what runs is cancelled. It goes
    /// when that has ended.
    pub(crate) fn leave(&mut self, by: &str, why: &str) {
        self.record.is_leaving = true;
        let open: Vec<u64> = self.record.active.iter().map(|launch| launch.id).collect();
        for id in open {
            self.end(id, by, why);
        }
        self.effects.push(Effect::Remove);
    }

    /// Whether a launch makes up for one of several missed times: these run one after the other,
    /// and no later launch replaces them.
    pub(super) fn is_in_turn(&self, launch: &Launch) -> bool {
        launch.cause == Cause::CatchUp && matches!(self.record.spec.missed, Missed::All(_))
    }

    fn queue(&mut self, launch: Launch) {
        self.record.active.push(launch);
        self.release();
    }

    /// Begins the queued launches that nothing is in the way of.
    pub(crate) fn release(&mut self) {
        loop {
            let is_busy = self.record.active.iter().any(Launch::is_under_way);
            if is_busy && self.overlap() != Overlap::Allow {
                return;
            }
            let queued = self.record.active.iter().position(|l| l.state == LaunchState::Queued);
            let Some(place) = queued else { return };
            let launch = self.record.active.remove(place);
            let id = launch.id;
            let late = self.too_late(launch.planned).filter(|_| launch.is_scheduled());
            match (late, self.over_deadline(&launch)) {
                (Some(why), _) => self.leave_out(launch, LaunchState::Missed, &why),
                (None, Some(why)) => self.leave_out(launch, LaunchState::Skipped, &why),
                (None, None) => self.begin(launch),
            }
            let is_it = |launch: &Launch| launch.id == id && launch.waits_for_node();
            if self.record.active.iter().any(is_it) {
                return;
            }
        }
    }

    /// Why a launch that has waited for its turn does not begin, if its deadline has passed.
    fn over_deadline(&self, launch: &Launch) -> Option<String> {
        let limit = self.record.spec.deadline?;
        let is_over = launch.decided.after(limit.0) <= self.now && !launch.waits_for_node();
        is_over.then(|| format!("its deadline of {limit} passed while it waited for its turn"))
    }

    fn choice(&self, launch: &Launch) -> Choice<'_> {
        let spec = &self.record.spec;
        let draw = format!("{}/{}/{}", spec.name, launch.planned, launch.id);
        Choice { nodes: self.nodes, spec, draw }
    }

    /// Begins a launch: one run for each targeted node, or the reason why there is none.
    fn begin(&mut self, mut launch: Launch) {
        let picked = match self.choice(&launch).all() {
            Ok(picked) => picked,
            Err(problem) => return self.without_node(launch, &problem),
        };
        if launch.is_scheduled()
            && self.now.since(due_of(&self.record.spec, launch.planned)) > LATE_MAX
        {
            self.tell(launch.id, None, Event::Late);
        }
        (launch.state, launch.reason) = (LaunchState::Running, String::new());
        launch.runs.reserve_exact(picked.len());
        for (run, node) in picked.iter().enumerate() {
            let member = u32::try_from(run).unwrap_or(u32::MAX);
            launch.runs.push(Run::new(member, node, 1, RunState::Running));
            self.effects.push(Effect::Start { launch: launch.id, run });
        }
        self.record.active.push(launch);
    }

    /// No node can run a launch: it waits for one, or has failed.
    fn without_node(&mut self, mut launch: Launch, problem: &str) {
        if let NoNode::Wait(limit) = self.record.spec.no_node {
            if self.now < launch.decided.after(limit.0) {
                launch.reason = cut(problem);
                // In its place: launches begin in their order.
                let active = &mut self.record.active;
                let place = active.iter().position(|other| other.id > launch.id);
                active.insert(place.unwrap_or(active.len()), launch);
                return;
            }
        }
        self.record.counts.error += 1;
        self.record.last_error = Some(self.now);
        self.leave_out(launch, LaunchState::Failed, problem);
    }

    /// Ends a launch that did not run.
    fn leave_out(&mut self, mut launch: Launch, state: LaunchState, why: &str) {
        (launch.state, launch.reason) = (state, cut(why));
        match state {
            LaunchState::Skipped => {
                self.record.counts.skipped += 1;
                self.tell(launch.id, None, Event::Skipped);
            }
            LaunchState::Missed => {
                self.record.counts.missed += launch.times;
                self.tell(launch.id, None, Event::Missed);
            }
            _ => self.tell(launch.id, None, Event::Failure),
        }
        let end = if state == LaunchState::Failed { End::Failure } else { End::Skipped };
        if state == LaunchState::Failed {
            self.record.status = Some(state);
        }
        // A chain that ends here is told only to those that may wait for others as well.
        let is_told = launch.root.is_some() || end == End::Failure;
        self.close(launch, is_told.then_some(end));
    }

    /// Has everybody told of an event who wants to know.
    pub(crate) fn tell(&mut self, launch: u64, run: Option<usize>, event: Event) {
        let mut all = self.record.spec.notify.iter().chain(self.notify);
        if all.any(|notify| notify.on.contains(&event)) {
            let notice = Notice { launch, run, event };
            self.record.note(notice.clone());
            self.effects.push(Effect::Notify(notice));
        }
    }

    /// Moves a launch to the ended ones, and has its dependants told.
    fn close(&mut self, mut launch: Launch, end: Option<End>) {
        launch.ended_at.get_or_insert(self.now);
        if let Some(end) = end.filter(|_| self.has_dependants) {
            let own = Root { job: self.record.spec.name.clone(), launch: launch.id };
            let root = launch.root.clone().unwrap_or(own);
            let job = self.record.spec.name.clone();
            self.record.outbox.push(Report { job, launch: launch.id, end, root });
            self.effects.push(Effect::Report);
        }
        self.record.ended.push_back(launch.kept());
    }
}
