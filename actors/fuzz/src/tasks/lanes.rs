//! The model of a task's lanes: what was accepted, what must run next, what may be dropped.

use std::collections::VecDeque;

use turnwheel_runtime::SubmitErrorKind;

use super::world::{violation, with, World};
use crate::run::Twin;

/// The lane of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Submitted { key: Option<u64> },
    Urgent,
    Fast,
}

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its submission is under way, or it is queued.
    Queued,
    Running,
    Ran,
    Panicked,
    /// Dropped unrun after it was accepted.
    Dropped,
    Refused,
}

/// One job that was submitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) task: u32,
    pub(super) lane: Lane,
    pub(super) fate: Fate,
    pub(super) since: u64,
    /// Whether a submission under way may push it out of its mailbox.
    pub(super) is_displaced: bool,
    pub(super) is_refused: bool,
    /// Whether its submission is under way.
    pub(super) is_trying: bool,
    /// Whether its task had been closed before.
    pub(super) is_too_late: bool,
    /// Whether it is a call, whose refusal drops the job.
    pub(super) is_call: bool,
    /// Whether its mailbox was full as its submission began: what a refused call drops may give a
    /// place back.
    pub(super) found_full: bool,
}

/// Policy of a mailbox beyond its bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Policy {
    #[default]
    Reject,
    DropOldest,
    Coalesce,
}

/// Contract of one task.
#[derive(Debug, Default)]
pub(super) struct TaskModel {
    pub(super) capacity: Option<usize>,
    pub(super) policy: Policy,
    pub(super) queue: VecDeque<u32>,
    pub(super) urgent: VecDeque<u32>,
    pub(super) fast: VecDeque<u32>,
    /// Where the next fast job goes.
    pub(super) insert: usize,
    pub(super) permits: usize,
    pub(super) is_running: bool,
    pub(super) is_over: bool,
    /// Whether the runtime may refuse jobs as closed.
    pub(super) may_close: bool,
    /// Whether it must.
    pub(super) must_refuse: bool,
    /// Whether accepted jobs may be dropped unrun.
    pub(super) may_drop: bool,
    /// When it was stopped, failed or killed: no job accepted before begins any more.
    pub(super) ended: Option<u64>,
    /// Whether its last hook was called.
    pub(super) is_last: bool,
    /// Futures that keep all others out.
    pub(super) exclusive: u32,
    /// Futures that hold its phase.
    pub(super) holds: u32,
    /// Whether jobs that this model does not know are in its lanes.
    pub(super) has_foreign: bool,
    /// Whether its `failed` hook was called.
    pub(super) has_failed: bool,
}

impl TaskModel {
    /// A close was asked for.
    pub(super) fn closes(&mut self) {
        self.may_close = true;
        self.must_refuse = true;
    }

    /// The task may end at any time, and what is queued is dropped.
    pub(super) fn may_end(&mut self) {
        self.may_close = true;
        self.may_drop = true;
    }

    /// Whether all places of its mailbox are taken by jobs and permits.
    fn is_full(&self) -> bool {
        self.capacity.is_some_and(|most| self.queue.len() + self.permits >= most)
    }

    /// Whether nothing but its own jobs decides what it does.
    pub(super) fn is_free(&self) -> bool {
        !self.may_close && !self.is_over && self.exclusive == 0 && self.holds == 0
    }
}

impl World {
    /// A submission begins: the job is queued unless `settle` says otherwise.
    pub(super) fn queue(&mut self, task: u32, lane: Lane) -> u32 {
        let job = self.jobs.len() as u32;
        let since = self.next();
        let fate = Fate::Queued;
        let found_full = self.tasks[task as usize].is_full();
        self.jobs.push(Job {
            task,
            lane,
            fate,
            since,
            is_displaced: false,
            is_refused: false,
            is_trying: true,
            is_call: false,
            found_full,
            is_too_late: self.tasks[task as usize].must_refuse,
        });
        let model = &mut self.tasks[task as usize];
        match lane {
            Lane::Urgent => model.urgent.push_back(job),
            Lane::Fast => {
                let at = model.insert.min(model.fast.len());
                model.fast.insert(at, job);
                model.insert = at + 1;
            }
            Lane::Submitted { key } => {
                let keyed = key.filter(|_| model.policy == Policy::Coalesce);
                let jobs = &mut self.jobs;
                let same = keyed.and_then(|key| {
                    let has_key = |job: &&u32| {
                        let lane = jobs[**job as usize].lane;
                        matches!(lane, Lane::Submitted { key: Some(own) } if own == key)
                    };
                    model.queue.iter().find(has_key).copied()
                });
                let is_full = model.capacity.is_some_and(|most| model.queue.len() >= most);
                if let Some(same) = same {
                    let at = model.queue.iter().position(|job| *job == same).unwrap_or(0);
                    jobs[same as usize].is_displaced = true;
                    model.queue.insert(at, job);
                } else {
                    if is_full && model.policy == Policy::DropOldest {
                        jobs[model.queue[0] as usize].is_displaced = true;
                    }
                    model.queue.push_back(job);
                }
            }
        }
        job
    }

    /// A submission has returned.
    pub(super) fn settle(&mut self, job: u32, refused: Option<SubmitErrorKind>) {
        let Job { task, lane, fate, is_call, found_full, .. } = self.jobs[job as usize];
        self.job(job).is_trying = false;
        let displaced: Vec<u32> = {
            let queue = &self.tasks[task as usize].queue;
            let is_displaced = |job: &u32| self.jobs[*job as usize].is_displaced;
            queue.iter().copied().filter(is_displaced).collect()
        };
        for old in &displaced {
            self.jobs[*old as usize].is_displaced = false;
        }
        let Some(kind) = refused else {
            let own_gone = fate != Fate::Queued;
            if !displaced.is_empty() && !own_gone && !self.tasks[task as usize].has_foreign {
                self.violation(format!("job {job} did not push out {displaced:?}"));
            }
            self.accepted(job, task, lane);
            return;
        };
        if fate != Fate::Queued && !(is_call && fate == Fate::Refused) {
            self.violation(format!("job {job} was refused ({kind:?}) and is {fate:?}"));
        }
        self.unqueue(job);
        self.job(job).fate = Fate::Refused;
        self.job(job).is_refused = !is_call;
        let is_tight = self.is_tight;
        let model = &self.tasks[task as usize];
        let queued = model.queue.len() + model.permits;
        let is_right = match kind {
            SubmitErrorKind::Closed => model.may_close,
            SubmitErrorKind::GroupMemory => is_tight,
            SubmitErrorKind::Full => {
                let is_full = model.is_full() || found_full;
                matches!(lane, Lane::Submitted { .. }) && (is_full || model.has_foreign)
            }
            _ => false,
        };
        // The fast lane takes jobs in every phase but after the end.
        let is_over = kind == SubmitErrorKind::Closed && model.may_close;
        if !is_right || (lane == Lane::Fast && !is_over) {
            let why = format!("{queued} are queued, {:?} fit", model.capacity);
            self.violation(format!("job {job} of task {task} was refused: {kind:?}; {why}"));
        }
    }

    fn accepted(&mut self, job: u32, task: u32, lane: Lane) {
        if self.jobs[job as usize].is_too_late && lane != Lane::Fast {
            self.violation(format!("job {job} was accepted by the closed task {task}"));
        }
        let model = &self.tasks[task as usize];
        let Lane::Submitted { .. } = lane else { return };
        let queued = model.queue.len() + model.permits;
        if model.capacity.is_some_and(|most| queued > most) {
            let most = model.capacity;
            self.violation(format!("task {task} has {queued} jobs queued, {most:?} fit"));
        }
    }

    /// Takes a job out of its lane in the model.
    fn unqueue(&mut self, job: u32) {
        let Job { task, .. } = self.jobs[job as usize];
        let model = &mut self.tasks[task as usize];
        if let Some(at) = model.fast.iter().position(|queued| *queued == job) {
            model.fast.remove(at);
            model.insert -= usize::from(at < model.insert);
        }
        model.urgent.retain(|queued| *queued != job);
        model.queue.retain(|queued| *queued != job);
    }

    /// A job begins, or goes on.
    pub(super) fn job_begins(&mut self, job: u32) {
        let Job { task, lane, fate, since, .. } = self.jobs[job as usize];
        if fate != Fate::Queued {
            self.violation(format!("job {job} begins and is {fate:?} already"));
        }
        let model = &self.tasks[task as usize];
        let is_fast = model.fast.front() == Some(&job);
        let is_next = match (model.fast.is_empty(), model.urgent.front()) {
            (false, _) => is_fast,
            (true, Some(urgent)) => *urgent == job,
            (true, None) => model.queue.front() == Some(&job),
        };
        // Jobs that a job leaves in the fast lane belong to it.
        let is_late = !is_fast && model.ended.is_some_and(|ended| since < ended);
        let is_kept_out = !is_fast && model.exclusive > 0;
        let lanes = format!("{:?} {:?} {:?}", model.fast, model.urgent, model.queue);
        if !is_next {
            self.violation(format!("job {job} ({lane:?}) of task {task} overtakes {lanes}"));
        }
        if is_late {
            self.violation(format!("job {job} begins after the end of task {task}"));
        }
        if is_kept_out {
            self.violation(format!("job {job} begins beside an exclusive future of {task}"));
        }
        self.unqueue(job);
        self.job(job).fate = Fate::Running;
    }

    /// A job has returned; one that goes on is the next one of its task.
    pub(super) fn job_ends(&mut self, job: u32, goes_on: bool) {
        let task = self.jobs[job as usize].task;
        self.job(job).fate = if goes_on { Fate::Queued } else { Fate::Ran };
        if goes_on {
            self.task(task).fast.push_front(job);
            self.task(task).insert = 0;
        }
    }

    /// The values that a job holds are dropped.
    pub(super) fn job_dropped(&mut self, job: u32) {
        let Job { task, fate, is_displaced, is_refused, is_trying, is_call, .. } =
            self.jobs[job as usize];
        match fate {
            Fate::Queued if is_trying && is_call && !is_displaced => {
                self.unqueue(job);
                self.job(job).fate = Fate::Refused;
            }
            Fate::Running => self.job(job).fate = Fate::Panicked,
            Fate::Queued => {
                self.unqueue(job);
                self.job(job).fate = Fate::Dropped;
                let model = self.task(task);
                let is_pushed_out = model.has_foreign && model.policy != Policy::Reject;
                let is_legal = model.may_drop || is_displaced || is_pushed_out;
                if !is_legal {
                    self.violation(format!("job {job} of task {task} was dropped unrun"));
                }
            }
            Fate::Refused if is_refused => self.job(job).is_refused = false,
            Fate::Ran => {}
            _ => self.violation(format!("job {job} was dropped twice: {fate:?}")),
        }
    }
}

/// Tells the model of a submission and performs it.
pub(super) fn submitted<E>(
    task: u32,
    lane: Lane,
    submit: impl FnOnce(u32) -> Result<(), (SubmitErrorKind, E)>,
) -> u32 {
    let (job, is_lost) = with(|world| {
        let job = world.queue(task, lane);
        (job, world.twin == Some(Twin::LosesJobs) && job % 8 == 7)
    });
    if is_lost {
        // The broken twin: this job is said to be accepted, and nobody has it.
        return job;
    }
    let refused = submit(job);
    let kind = refused.as_ref().err().map(|(kind, _)| *kind);
    with(|world| world.settle(job, kind));
    if let Err((_, given_back)) = refused {
        drop(given_back);
        let is_back = with(|world| !world.job(job).is_refused);
        if !is_back {
            violation(format!("job {job} was refused and did not come back"));
        }
    }
    job
}
