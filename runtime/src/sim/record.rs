//! The recorder: the events of a simulation, in order.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::failure::Failure;
use crate::limits::{SIM_EVENTS_MAX, SIM_FAILURES_MAX};
use crate::sync::{Arc, AtomicBool, Mutex, Ordering};
use crate::task::{Header, Phase};
use crate::time::clock::ClockSource;

/// The task of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct EventTask {
    /// See [`Task::id`](crate::Task::id).
    pub id: u64,
    /// Name, or the class's if it has none of its own.
    pub name: Arc<str>,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Number among all events of the simulation, from 0.
    pub seq: u64,
    /// Virtual time in nanoseconds.
    pub time_ns: u64,
    /// Name of the group.
    pub group: Arc<str>,
    /// The virtual worker, if one did it.
    pub worker: Option<usize>,
    /// The task that it concerns, if it concerns one.
    pub task: Option<EventTask>,
    /// Kind of the event.
    pub kind: EventKind,
}

/// Kinds of events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the kind of an event says what its field is")]
pub enum EventKind {
    /// A job was queued for the task.
    Submit,
    /// The task came into a run queue.
    Ready,
    /// The worker took the task from a sibling.
    Steal { victim: usize },
    /// The worker begins a turn of the task.
    TurnStart,
    /// A job begins.
    Job { number: u64 },
    /// The task is in another phase.
    Phase(Phase),
    /// A job or hook of the task has failed.
    Failed { failure: String },
    /// The turn is over.
    TurnEnd { jobs: u32 },
    /// The turn has ended with work left, and the task went behind all others.
    Yield,
    /// Timers of the group have fired.
    TimersFired { count: usize },
    /// A blocking closure has run.
    Blocked,
    /// The worker finds nothing to do.
    Park,
    /// A fault was injected.
    Fault { fault: &'static str },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6} {:>14} ns  {}", self.seq, self.time_ns, self.group)?;
        if let Some(worker) = self.worker {
            write!(f, "-{worker}")?;
        }
        write!(f, "  {:?}", self.kind)?;
        if let Some(task) = &self.task {
            write!(f, "  «{}» {}", task.name, task.id)?;
        }
        Ok(())
    }
}

/// Recorded events in order; one line for each when displayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events(Vec<Event>);

impl Events {
    /// The events of tasks with this name.
    #[must_use]
    pub fn of(&self, task: &str) -> Self {
        let is_of = |event: &&Event| event.task.as_ref().is_some_and(|own| &*own.name == task);
        Self(self.0.iter().filter(is_of).cloned().collect())
    }

    /// The number of events for which `is_counted` holds.
    pub fn count(&self, mut is_counted: impl FnMut(&EventKind) -> bool) -> usize {
        self.0.iter().filter(|event| is_counted(&event.kind)).count()
    }

    /// Checks that these events occur in this order; others may lie between them.
    ///
    /// ```
    /// use turnwheel_runtime::sim::{EventKind, Sim};
    /// use turnwheel_runtime::Phase;
    ///
    /// let sim = Sim::new(1);
    /// sim.record();
    /// let task = sim.group("cpu").task(0).name("counter").spawn()?;
    /// task.submit(|count, _| *count += 1)?;
    /// sim.wait(task.close())?;
    /// sim.events().assert_order([
    ///     ("counter", EventKind::Submit),
    ///     ("counter", EventKind::TurnStart),
    ///     ("counter", EventKind::Phase(Phase::Closed)),
    /// ]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If they do not; the message names the first that is missing and shows the events.
    #[track_caller]
    pub fn assert_order<'a>(&self, expected: impl IntoIterator<Item = (&'a str, EventKind)>) {
        let mut rest = self.0.iter();
        for (task, kind) in expected {
            let is_it = |event: &Event| {
                event.kind == kind && event.task.as_ref().is_some_and(|own| &*own.name == task)
            };
            assert!(
                rest.any(is_it),
                "no event {kind:?} of task «{task}» after those before it; the events are\n{self}"
            );
        }
    }

    /// The last `count` events.
    #[must_use]
    pub fn last(&self, count: usize) -> Self {
        Self(self.0[self.0.len().saturating_sub(count)..].to_vec())
    }
}

impl Deref for Events {
    type Target = [Event];

    fn deref(&self) -> &[Event] {
        &self.0
    }
}

impl IntoIterator for Events {
    type Item = Event;
    type IntoIter = std::vec::IntoIter<Event>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|event| writeln!(f, "{event}"))
    }
}

/// A job or hook that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FailedJob {
    /// Virtual time.
    pub time: Duration,
    /// Name of the group.
    pub group: Arc<str>,
    /// The task.
    pub task: EventTask,
    /// Why.
    pub failure: Failure,
}

impl fmt::Display for FailedJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, group, task, failure } = self;
        write!(f, "task «{}» of group «{group}» at {time:?}: {failure}", task.name)
    }
}

/// The recorder that all groups of a simulation share.
#[derive(Debug)]
pub(super) struct Recorder {
    clock: Arc<ClockSource>,
    is_on: AtomicBool,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    events: Vec<Event>,
    failures: Vec<FailedJob>,
    seq: u64,
}

impl Recorder {
    pub(super) fn new(clock: Arc<ClockSource>) -> Self {
        Self { clock, is_on: AtomicBool::new(false), log: Mutex::default() }
    }

    pub(super) fn switch(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Id and name of a task that lives.
    pub(super) fn name(header: &Header) -> EventTask {
        EventTask { id: header.group.registry.id_of(header), name: header.name().into() }
    }

    /// Records an event of a task that lives.
    pub(super) fn of_task(
        &self,
        group: &Arc<str>,
        worker: Option<usize>,
        header: &Header,
        kind: EventKind,
    ) {
        if self.is_on() {
            self.add(group, worker, Some(Self::name(header)), kind);
        }
    }

    /// Records an event.
    pub(super) fn add(
        &self,
        group: &Arc<str>,
        worker: Option<usize>,
        task: Option<EventTask>,
        kind: EventKind,
    ) {
        if !self.is_on() {
            return;
        }
        let time_ns = self.clock.now_ns();
        let mut log = self.log.lock();
        let seq = log.seq;
        log.seq += 1;
        if log.events.len() < SIM_EVENTS_MAX {
            let group = Arc::clone(group);
            log.events.push(Event { seq, time_ns, group, worker, task, kind });
        }
    }

    pub(super) fn failed(&self, group: &Arc<str>, header: &Header, failure: &Failure) {
        let time = Duration::from_nanos(self.clock.now_ns());
        let failure = failure.clone();
        let failed =
            FailedJob { time, group: Arc::clone(group), task: Self::name(header), failure };
        let mut log = self.log.lock();
        if log.failures.len() < SIM_FAILURES_MAX {
            log.failures.push(failed);
        }
    }

    pub(super) fn events(&self) -> Events {
        Events(self.log.lock().events.clone())
    }

    pub(super) fn failures(&self) -> Vec<FailedJob> {
        self.log.lock().failures.clone()
    }
}
