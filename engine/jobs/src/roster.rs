//! The task that keeps the jobs of a store and launches them.
//!
//! A launch goes in three steps, so that a crash between any two of them neither loses nor doubles
//! it:
//!
//! 1. The decision is written with the job: a launch with its planned time.
//! 2. When that is durable the plan of each run begins, with a key made of the job and that time.
//!    An existing plan with the key is the answer.
//! 3. The end of the plan is written with the job.
//!
//! Dependants are told in the same way: a report is written with the parent's end, and stays in its
//! outbox until each dependant has written what follows.

mod begun;
mod edit;
mod effects;
mod elsewhere;
mod notices;
mod requests;
mod resting;
mod serving;
mod write;

pub(crate) use begun::hear_begins;
pub use edit::{check, disable_spent};
pub(crate) use edit::{preview, Edit};
pub(crate) use elsewhere::{copy, show_live};
pub(crate) use resting::Rest;
pub(crate) use serving::{all_nodes, introduce, keep, look, take_keyed, Stopped, Term};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::tz::TimeZone;
use turnwheel_engine::internal::WeakWorld;
use turnwheel_engine::Time;
use turnwheel_runtime::{Context, Group, Timer};

use crate::decide::{due_of, next_of, Effect, Turn};
use crate::error::JobError;
use crate::graph::Graph;
use crate::launch::Launch;
use crate::limits::{AGAIN, CLOCK_CHECK};
use crate::node::Node;
use crate::notify::Notify;
use crate::record::Record;
use crate::registry::Executors;
use crate::request::{JobRequest, Reply};
use crate::schedule::{Schedule, Terms};
use crate::spec::JobSpec;
use crate::store::JobStore;
use crate::view::JobView;

/// Told when a change is durable, or is not.
pub(crate) type Answer = Box<dyn FnOnce(Result<JobView, JobError>) + Send>;

/// State of the task.
pub(crate) struct Roster {
    pub(crate) world: WeakWorld,
    pub(crate) group: Group,
    pub(crate) store: JobStore,
    pub(crate) node: Node,
    /// The nodes that run jobs, this one first, and the worlds of all.
    pub(crate) nodes: Vec<Node>,
    pub(crate) worlds: BTreeMap<String, u64>,
    pub(crate) term: Term,
    /// Requests that wait until the jobs were read.
    pub(crate) waiting: Vec<(JobRequest, Reply)>,
    /// Zone of schedules that name none.
    pub(crate) zone: TimeZone,
    pub(crate) executors: Executors,
    /// Notifications of all jobs.
    pub(crate) notify: Vec<Notify>,
    /// Whether jobs are only edited here.
    pub(crate) is_at_rest: bool,
    /// Number of jobs up to which each is read at the start.
    pub(crate) read_at_start: usize,
    /// The jobs to which something happens, or soon does.
    pub(crate) entries: BTreeMap<String, Entry>,
    /// The others.
    pub(crate) rest: Rest,
    pub(crate) graph: Graph,
    /// The user that has paused changes.
    pub(crate) paused_by: Option<String>,
    pub(crate) paused_version: u64,
    pub(crate) due: BTreeSet<(Time, Arc<str>)>,
    pub(crate) armed: Option<(Time, Timer)>,
    /// When the clock was last read.
    pub(crate) seen: Time,
    /// When this world began to serve the jobs.
    pub(crate) since: Time,
}

impl fmt::Debug for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Roster").field("jobs", &self.jobs()).finish_non_exhaustive()
    }
}

/// A job in memory.
pub(crate) struct Entry {
    pub(crate) record: Record,
    pub(crate) schedule: Option<Schedule>,
    /// Why it has no schedule although it should.
    pub(crate) problem: Option<String>,
    /// The stored record, and its version; 0 if there was none.
    pub(crate) stored: Option<Record>,
    pub(crate) version: u64,
    pub(crate) is_removed: bool,
    is_dirty: bool,
    is_writing: bool,
    pub(crate) effects: Vec<Effect>,
    pub(crate) answers: Vec<Answer>,
    /// Reports of parents that the next write takes.
    acks: Vec<(String, u64)>,
    /// Runs whose plans begin or are watched: launch and place in it.
    going: BTreeSet<(u64, usize)>,
    /// Dependants that have not taken a report, by its launch.
    untold: BTreeMap<u64, BTreeSet<String>>,
    wakes_at: Option<Time>,
    again: Option<Time>,
}

impl Entry {
    pub(crate) fn new(record: Record) -> Self {
        Self {
            record,
            schedule: None,
            problem: None,
            stored: None,
            version: 0,
            is_removed: false,
            is_dirty: false,
            is_writing: false,
            effects: Vec::new(),
            answers: Vec::new(),
            acks: Vec::new(),
            going: BTreeSet::new(),
            untold: BTreeMap::new(),
            wakes_at: None,
            again: None,
        }
    }

    /// Whether nothing is under way, and all is written.
    fn is_quiet(&self) -> bool {
        let is_written = !self.is_dirty && !self.is_writing && self.version > 0;
        let awaits_nothing =
            self.going.is_empty() && self.untold.is_empty() && self.acks.is_empty();
        let owes_nothing = self.effects.is_empty() && self.answers.is_empty();
        is_written
            && awaits_nothing
            && owes_nothing
            && self.again.is_none()
            && !self.is_removed
            && self.record.is_at_rest()
    }
}

/// Reads the schedule of a job; nothing if it has none.
pub(crate) fn schedule_of(
    spec: &JobSpec,
    anchor: Time,
    usual: &TimeZone,
) -> Result<Option<Schedule>, String> {
    if spec.schedule.trim().is_empty() {
        return Ok(None);
    }
    let terms = Terms {
        job: &spec.name,
        zone: &spec.timezone,
        usual,
        dialect: spec.dialect,
        hash: spec.hash,
        gap: spec.daylight_saving,
        anchor,
    };
    Schedule::parse(&spec.schedule, &terms).map(Some)
}

impl Roster {
    pub(crate) fn now(&self) -> Time {
        self.group.wall().into()
    }

    pub(crate) fn found(&self, name: &str) -> Result<&Entry, JobError> {
        let entry = self.entries.get(name).filter(|entry| !entry.is_removed);
        entry.ok_or_else(|| JobError::Unknown(name.to_owned()))
    }

    /// Number of jobs.
    pub(crate) fn jobs(&self) -> usize {
        self.entries.len() + self.rest.len()
    }

    /// Understands the schedule of a job anew.
    pub(crate) fn read_schedule(&mut self, name: &str) {
        let Some(mut entry) = self.entries.remove(name) else { return };
        self.set_schedule(name, &mut entry);
        if let Some(problem) = &entry.problem {
            tracing::error!(job = name, problem, "a job has no times here");
        }
        self.entries.insert(name.to_owned(), entry);
    }

    fn set_schedule(&self, name: &str, entry: &mut Entry) {
        debug_assert_eq!(name, entry.record.spec.name, "the key is the name");
        let record = &entry.record;
        match schedule_of(&record.spec, record.anchor, &self.zone) {
            Ok(schedule) => (entry.schedule, entry.problem) = (schedule, None),
            Err(problem) => {
                (entry.schedule, entry.problem) = (None, Some(format!("schedule: {problem}")));
            }
        }
    }

    /// Changes a job, decides what follows, and writes that.
    pub(crate) fn turn<T>(
        &mut self,
        name: &str,
        cx: &mut Context<'_, Self>,
        change: impl FnOnce(&mut Turn<'_>) -> T,
    ) -> Option<T> {
        let value = self.decide(name, change);
        self.write(name, cx);
        value
    }

    /// Changes a job in memory, and decides what follows. The next write takes it.
    pub(crate) fn decide<T>(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut Turn<'_>) -> T,
    ) -> Option<T> {
        let now = self.now();
        self.rouse(name);
        let has_dependants = self.graph.has_children(name);
        let entry = self.entries.get_mut(name).filter(|entry| !entry.is_removed)?;
        let before = entry.record.clone();
        let mut turn = Turn {
            record: &mut entry.record,
            schedule: entry.schedule.as_ref(),
            nodes: &self.nodes,
            now,
            since: self.since,
            has_dependants,
            notify: &self.notify,
            effects: Vec::new(),
        };
        let value = change(&mut turn);
        let wakes_at = if self.is_at_rest { None } else { turn.advance() };
        let effects = std::mem::take(&mut turn.effects);
        entry.effects.extend(effects);
        let again = entry.again;
        entry.record.prune(now);
        // The time up to which nothing was due is not worth a write.
        let decided = std::mem::replace(&mut entry.record.decided, before.decided);
        entry.is_dirty |= entry.record != before || !entry.effects.is_empty();
        entry.record.decided = decided;
        self.wake(name, wakes_at.into_iter().chain(again).min());
        Some(value)
    }

    /// Decides what a job does next.
    pub(crate) fn advance(&mut self, name: &str, cx: &mut Context<'_, Self>) {
        self.turn(name, cx, |_| ());
    }

    fn wake(&mut self, name: &str, at: Option<Time>) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        if entry.wakes_at == at {
            return;
        }
        let name: Arc<str> = Arc::from(name);
        if let Some(before) = std::mem::replace(&mut entry.wakes_at, at) {
            self.due.remove(&(before, Arc::clone(&name)));
        }
        if let Some(at) = at {
            self.due.insert((at, name));
        }
    }

    /// Looks at a job again soon, because of what was refused.
    pub(crate) fn try_again(&mut self, name: &str, cx: &mut Context<'_, Self>) {
        let again = self.now().after(AGAIN);
        let Some(entry) = self.entries.get_mut(name) else { return };
        entry.again = Some(again);
        let at = entry.wakes_at.map_or(again, |at| at.min(again));
        self.wake(name, Some(at));
        self.arm(cx);
    }

    /// Arms the one timer for the earliest time, or for the next look at the clock.
    pub(crate) fn arm(&mut self, cx: &mut Context<'_, Self>) {
        let Some((at, _)) = self.due.first().filter(|_| !self.is_at_rest) else { return };
        let at = (*at).min(self.seen.after(CLOCK_CHECK));
        if self.armed.as_ref().is_some_and(|(armed, _)| *armed <= at) {
            return;
        }
        if let Some((_, timer)) = self.armed.take() {
            timer.cancel();
        }
        match cx.after(at.since(self.now()), |roster: &mut Self, cx| roster.fire(cx)) {
            Ok(timer) => self.armed = Some((at, timer)),
            Err(error) => tracing::error!(%error, "jobs stop: there are no timers"),
        }
    }

    fn fire(&mut self, cx: &mut Context<'_, Self>) {
        self.armed = None;
        let now = self.now();
        let is_back = now < self.seen;
        self.seen = now;
        let due: Vec<Arc<str>> = if is_back {
            self.names()
        } else {
            let due = self.due.iter().take_while(|(at, _)| *at <= now);
            due.map(|(_, name)| Arc::clone(name)).collect()
        };
        for name in due {
            let again = self
                .entries
                .get_mut(&*name)
                .and_then(|entry| entry.again.take_if(|again| *again <= now || is_back));
            if again.is_some() {
                self.resume(&name, cx);
            }
            self.advance(&name, cx);
            self.lay_down(&name);
        }
        self.check_some(now, cx);
        self.arm(cx);
    }

    /// A job as people see it.
    pub(crate) fn view(&self, name: &str, entry: &Entry) -> JobView {
        let record = &entry.record;
        let next = entry.schedule.as_ref().filter(|_| record.fires()).and_then(|schedule| {
            let next = next_of(&record.spec, schedule, record.decided)?;
            Some(due_of(&record.spec, next))
        });
        let is_silent = entry.schedule.as_ref().is_some_and(|schedule| {
            let can_fire = next.is_some() || schedule.is_manual() || !record.fires();
            !can_fire && record.counts == Default::default() && record.active.is_empty()
        });
        let never =
            is_silent.then(|| "schedule: it has no time to come, so it never fires".to_owned());
        let absent = self.executors.find(&record.spec.executor).err().or_else(|| {
            let spec = &record.spec;
            let processors = self.executors.check_processors(&spec.processors);
            processors.and_then(|()| self.executors.check_notify(&spec.notify)).err()
        });
        let leaving = record.is_leaving.then(|| {
            "it is being removed: it goes when its runs, which were cancelled, have ended"
                .to_owned()
        });
        let gone = record.spec.after.iter().filter(|after| !self.has(&after.job));
        let gone: Vec<String> = gone.map(|after| after.job.clone()).collect();
        let is_gone = gone.first().map(|job| format!("after: there is no job «{job}» any more"));
        let mut active = record.active.clone();
        active.iter_mut().for_each(Launch::show_waiting);
        JobView {
            spec: JobSpec::clone(&record.spec),
            revision: record.revision,
            created_at: record.created_at,
            changed_at: record.changed_at,
            changed_by: record.changed_by.clone(),
            next,
            problem: leaving.or(entry.problem.clone()).or(absent).or(is_gone).or(never),
            gone,
            active,
            last: record.ended.back().map(|last| Launch::clone(last)),
            counts: record.counts,
            last_success: record.last_success,
            last_error: record.last_error,
            status: record.status,
            dependants: self.graph.children(name),
        }
    }
}
