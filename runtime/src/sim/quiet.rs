//! Work and tasks that are left in a simulation.

use std::fmt;
use std::time::Duration;

use super::state::{Sim, SimState};
use crate::task::{Header, Phase};

/// A live task, as [`Sim::leaks`] reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leak {
    /// Name of its group.
    pub group: String,
    /// Name of the task, or of its class.
    pub task: String,
    /// See [`Task::id`](crate::Task::id).
    pub id: u64,
    /// Phase of the task's life.
    pub phase: Phase,
    /// Submitted jobs not yet run.
    pub queued: u64,
    /// Futures and completions that it waits for.
    pub awaits: usize,
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, task, id, phase, queued, awaits } = self;
        write!(
            f,
            "task «{task}» ({id}) of group «{group}» is {phase:?}, has {queued} jobs queued and \
             waits for {awaits} futures"
        )
    }
}

/// Work that is ready, and work for later; see [`Sim::quiescence`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quiescence {
    /// Virtual time of this look.
    pub now: Duration,
    /// Tasks that are ready to run.
    pub ready: usize,
    /// Groups that have due timers.
    pub due: usize,
    /// Timers that are pending.
    pub timers: usize,
    /// When the next timer or blocking closure is due, or somewhat earlier.
    pub next: Option<Duration>,
    /// Blocking closures under way.
    pub blocking: usize,
    /// The live tasks.
    pub tasks: Vec<Leak>,
}

impl Quiescence {
    /// Whether nothing can happen at the present time, unless from another thread.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.ready == 0 && self.due == 0
    }

    /// Whether nothing is under way at all: no ready task, no due timer, no blocking closure, no
    /// task that waits for a future. Timers that lie ahead and idle tasks do not count.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.is_idle() && self.blocking == 0 && self.tasks.iter().all(|task| task.awaits == 0)
    }
}

impl fmt::Display for Quiescence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { now, ready, timers, blocking, tasks, .. } = self;
        write!(
            f,
            "at {now:?}: {ready} tasks are ready, {timers} timers and {blocking} blocking closures \
             lie ahead"
        )?;
        tasks.iter().try_for_each(|task| write!(f, "; {task}"))
    }
}

impl Sim {
    /// Returns the work that is left.
    ///
    /// ```
    /// use std::time::Duration;
    /// use turnwheel_runtime::sim::Sim;
    ///
    /// let sim = Sim::new(1);
    /// let task = sim.group("cpu").spawn(())?;
    /// let sleep = sim.group("cpu").sleep(Duration::from_secs(1));
    /// task.submit(|_, cx| drop(cx.on_completion(sleep, |_, _, _| ())))?;
    /// assert_eq!(sim.quiescence().ready, 1);
    /// sim.run_until_idle();
    /// assert!(sim.quiescence().is_idle() && !sim.quiescence().is_quiet());
    /// sim.advance(Duration::from_secs(1));
    /// assert!(sim.quiescence().is_quiet());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn quiescence(&self) -> Quiescence {
        let groups = self.state.all();
        let now_ns = self.state.common.clock.now_ns();
        let due = groups.iter().filter(|group| {
            let timers = &group.shared.timers;
            (timers.pending() > 0 && timers.is_due(now_ns)) || group.hub.is_blocking_over(now_ns)
        });
        Quiescence {
            now: self.now(),
            ready: self.pending(),
            due: due.count(),
            timers: groups.iter().map(|group| group.shared.timers.pending()).sum(),
            next: self.state.next_deadline_ns().map(Duration::from_nanos),
            blocking: groups.iter().map(|group| group.hub.blocking_count()).sum(),
            tasks: self.leaks(),
        }
    }

    /// Returns the live tasks. At the end of a test these were never closed and still have a
    /// handle, or wait for an event that never happens.
    #[must_use]
    pub fn leaks(&self) -> Vec<Leak> {
        let mut leaks = Vec::new();
        for group in self.state.all().iter() {
            for task in group.shared.registry.all() {
                let header = task.header();
                leaks.push(Leak {
                    group: group.shared.config.name.clone(),
                    task: task.name(),
                    id: group.shared.registry.id_of(header),
                    phase: task.phase(),
                    queued: header.inbox.queued(),
                    awaits: self.state.awaits(header),
                });
            }
        }
        leaks
    }

    /// Checks that no task lives.
    ///
    /// # Panics
    ///
    /// If one does; the message names all.
    #[track_caller]
    pub fn assert_no_leaks(&self) {
        let leaks: Vec<_> = self.leaks().iter().map(ToString::to_string).collect();
        assert!(leaks.is_empty(), "tasks are left: {}", leaks.join("; "));
    }
}

impl SimState {
    /// Futures of the task; 0 during a turn, which may be a turn of this task.
    fn awaits(&self, header: &Header) -> usize {
        if self.is_driving.get() {
            return 0;
        }
        // SAFETY: this thread is the only runner of the simulation's tasks, and no turn is under
        // way on it; the borrow ends here.
        header.extra().map_or(0, |extra| unsafe { extra.subscriptions_owner() }.futures())
    }
}
