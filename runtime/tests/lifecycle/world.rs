//! The worlds in which each case runs: simulation, and groups with threads.
//!
//! A case waits for the events that must happen and logs all events. The absence of an event is
//! checked after `settle`, by the order of the log.

use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::Duration;

use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::time::ManualClock;
use turnwheel_runtime::{Completer, Completion, Failure, Group, Pinning, Task};

use crate::hooks::{Hooks, State};

/// Long enough for any machine; no test waits for it unless it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Seeds of the simulations, after the run without random choices.
const SEEDS: u64 = 4;

/// Workers of the groups with threads.
const WORKERS: [usize; 3] = [1, 2, 4];

/// Rounds in which every worker is seen between two turns: in the first one a task may still wait
/// behind the probes.
const ROUNDS: usize = 2;

/// The events, in order.
#[derive(Debug, Default)]
pub(crate) struct Log {
    notes: Mutex<Vec<String>>,
    changed: Condvar,
}

impl Log {
    pub(crate) fn note(&self, what: &str) {
        self.notes.lock().expect("nobody panics while writing").push(what.to_owned());
        self.changed.notify_all();
    }

    fn read(&self) -> Vec<String> {
        self.notes.lock().expect("nobody panics while writing").clone()
    }

    /// Waits until this was noted.
    fn wait_for(&self, what: &str) {
        let notes = self.notes.lock().expect("nobody panics while writing");
        let is_missing = |notes: &mut Vec<String>| !notes.iter().any(|noted| noted == what);
        let waited = self.changed.wait_timeout_while(notes, PATIENCE, is_missing);
        let (notes, waited) = waited.expect("nobody panics while writing");
        assert!(!waited.timed_out(), "{what} never happened; what did: {notes:?}");
    }
}

enum Kind {
    Simulated(Sim),
    Threads(ManualClock),
}

/// A world: a group, a clock that only the test moves, and a log.
pub(crate) struct World {
    name: String,
    kind: Kind,
    pub(crate) group: Group,
    log: Arc<Log>,
}

impl World {
    fn simulated(name: String, sim: Sim) -> Self {
        let group = sim.group("cpu");
        Self { name, kind: Kind::Simulated(sim), group, log: Arc::default() }
    }

    fn threads(workers: usize) -> Self {
        let clock = ManualClock::new();
        let group = Group::builder("cpu")
            .workers(workers)
            .pinning(Pinning::None)
            .clock(Arc::new(clock.clone()))
            .build()
            .expect("a group with few workers");
        let name = format!("{workers} workers");
        Self { name, kind: Kind::Threads(clock), group, log: Arc::default() }
    }

    pub(crate) fn spawn(&self, hooks: Hooks) -> Task<State> {
        let state = State(Arc::clone(&self.log));
        self.group.task(state).lifecycle(hooks).spawn().expect("the group is open")
    }

    /// The outcome of a completion that must end without moving the time.
    pub(crate) fn wait<T>(&self, completion: Completion<T>) -> Result<T, Failure> {
        match &self.kind {
            Kind::Simulated(sim) => sim.wait(completion),
            Kind::Threads(_) => completion.wait_timeout(PATIENCE),
        }
    }

    /// Waits until this was noted.
    pub(crate) fn until(&self, what: &str) {
        if let Kind::Simulated(sim) = &self.kind {
            sim.run_until_idle();
            assert!(self.count(what) > 0, "{what} never happened; what did: {:?}", self.log());
        }
        self.log.wait_for(what);
    }

    /// Lets all that can happen now happen: in simulation exactly that; with threads every worker
    /// is brought between two turns, all at the same moment, so no turn begun before is under way.
    pub(crate) fn settle(&self) {
        match &self.kind {
            Kind::Simulated(sim) => {
                sim.run_until_idle();
            }
            Kind::Threads(_) => (0..ROUNDS).for_each(|_| self.gather()),
        }
    }

    /// Every worker at once runs a job that waits for all the others.
    fn gather(&self) {
        let barrier = Arc::new(Barrier::new(self.group.workers()));
        let probe = |_| {
            let barrier = Arc::clone(&barrier);
            let task = self.group.spawn(()).expect("the group is open");
            task.call(move |(), _| barrier.wait().is_leader())
        };
        let probes: Vec<_> = (0..self.group.workers()).map(probe).collect();
        for probe in probes {
            probe.wait_timeout(PATIENCE).expect("idle workers take what a busy one has queued");
        }
    }

    pub(crate) fn advance(&self, duration: Duration) {
        match &self.kind {
            Kind::Simulated(sim) => drop(sim.advance(duration)),
            Kind::Threads(clock) => clock.advance(duration),
        }
        self.settle();
    }

    /// Completes the completion that holds a phase; the log shows the events before.
    pub(crate) fn let_go(&self, completer: &Completer<()>) {
        self.log.note("let go");
        completer.complete(()).expect("the task waits for it");
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.log.read()
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.log.read().iter().filter(|noted| *noted == what).count()
    }

    fn end(&self) {
        let report = self.group.shutdown().expect("not on a worker");
        assert!(report.is_clean(), "{report:?}");
        if let Kind::Simulated(sim) = &self.kind {
            sim.assert_no_leaks();
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with {}; what happened: {:?}", self.name, self.log());
        }
    }
}

fn run(world: &World, case: &impl Fn(&World)) {
    case(world);
    world.end();
}

/// Runs a case in simulation and on threads.
pub(crate) fn everywhere(case: impl Fn(&World)) {
    run(&World::simulated("simulation in order".into(), Sim::fifo()), &case);
    for seed in 0..SEEDS {
        run(&World::simulated(format!("simulation of seed {seed}"), Sim::new(seed)), &case);
    }
    for workers in WORKERS {
        run(&World::threads(workers), &case);
    }
}
