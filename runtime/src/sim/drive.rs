//! Running: one step, one turn, everything that is ready.

use std::collections::HashMap;

use super::hub::{Found, Picked};
use super::random::Random;
use super::world::{Sim, Simulated, World};
use crate::group::Budget;
use crate::sync::Ordering;
use crate::task::{run_turn, After};

/// What a step was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A turn of a task.
    Turn,
    /// Timers fired, or a blocking closure ended.
    Other,
    /// There was nothing to do.
    Idle,
}

/// Something that can be done now.
#[derive(Clone, Copy, Debug)]
enum Choice {
    Timers { group: usize },
    Blocking { group: usize },
    Worker { group: usize, worker: usize },
}

impl Sim {
    /// Runs until nothing is left to do at the present time. Returns the number of turns.
    ///
    /// What waits for a later time, for a permit or for another thread is no reason to go on.
    ///
    /// # Panics
    ///
    /// After a million turns (see [`SimBuilder::turns_max`](super::SimBuilder::turns_max)): tasks
    /// then make each other ready without end, and the message names the busiest one.
    pub fn run_until_idle(&self) -> usize {
        self.world.run_until_idle()
    }

    /// Runs one turn of one task, after whatever has to happen before it. Returns whether there was
    /// one.
    pub fn run_one(&self) -> bool {
        loop {
            match self.world.step() {
                Step::Turn => return true,
                Step::Other => {}
                Step::Idle => return false,
            }
        }
    }

    /// Tasks that are ready to run now.
    pub fn pending(&self) -> usize {
        self.world.all().iter().map(|group| group.hub.ready_count()).sum()
    }
}

impl World {
    pub(super) fn run_until_idle(&self) -> usize {
        let mut turns = 0;
        let mut busy = Busy::new(self.config.turns_max);
        loop {
            match self.step() {
                Step::Turn => turns += 1,
                Step::Other => {}
                Step::Idle => return turns,
            }
            busy.count(self);
        }
    }

    /// Does one thing, if there is one to be done now.
    pub(super) fn step(&self) -> Step {
        assert!(!self.is_driving.get(), "the simulation runs already: a job must not run it");
        self.is_driving.set(true);
        let groups = self.all();
        let choice = match &self.random {
            Some(random) => self.choose(&groups, random),
            None => self.first(&groups),
        };
        let step = match choice {
            None => Step::Idle,
            Some(choice) => self.carry_out(&groups, choice),
        };
        self.is_driving.set(false);
        step
    }

    /// What is due goes first, in the order of the groups, then the oldest ready task.
    fn first(&self, groups: &[std::rc::Rc<Simulated>]) -> Option<Choice> {
        let now_ns = self.source.now_ns();
        let all = || groups.iter().enumerate();
        if let Some((group, _)) = all().find(|(_, group)| group.shared.timers.is_due(now_ns)) {
            return Some(Choice::Timers { group });
        }
        let is_over = |end_ns: Option<u64>| end_ns.is_some_and(|end_ns| end_ns <= now_ns);
        if let Some((group, _)) = all().find(|(_, group)| is_over(group.hub.next_end_ns())) {
            return Some(Choice::Blocking { group });
        }
        let oldest = all().filter_map(|(index, group)| Some((group.hub.oldest()?, index))).min();
        oldest.map(|(_, group)| Choice::Worker { group, worker: 0 })
    }

    /// Anything that could happen next on a real machine, by chance.
    fn choose(&self, groups: &[std::rc::Rc<Simulated>], random: &Random) -> Option<Choice> {
        let now_ns = self.source.now_ns();
        let mut choices = Vec::new();
        for (group, simulated) in groups.iter().enumerate() {
            if simulated.shared.timers.is_due(now_ns) {
                choices.push(Choice::Timers { group });
            }
            if simulated.hub.next_end_ns().is_some_and(|end_ns| end_ns <= now_ns) {
                choices.push(Choice::Blocking { group });
            }
            simulated.hub.able(|worker| choices.push(Choice::Worker { group, worker }));
        }
        choices.get(random.below(choices.len())).copied()
    }

    fn carry_out(&self, groups: &[std::rc::Rc<Simulated>], choice: Choice) -> Step {
        let now_ns = self.source.now_ns();
        match choice {
            Choice::Timers { group } => {
                let shared = &groups[group].shared;
                let fired = shared.timers.service(now_ns);
                shared.workers[0].stats.timers.add_owner(fired as u64);
                Step::Other
            }
            Choice::Blocking { group } => {
                if let Some(run) = groups[group].hub.take_blocking(now_ns) {
                    run();
                }
                Step::Other
            }
            Choice::Worker { group, worker } => {
                let hub = &groups[group].hub;
                let picked = match &self.random {
                    Some(random) => hub.pick_random(worker, random),
                    None => hub.pick_oldest(),
                };
                let Some(picked) = picked else { return Step::Other };
                self.run_turn(&groups[group], picked);
                Step::Turn
            }
        }
    }

    fn run_turn(&self, group: &Simulated, picked: Picked) {
        let shared = &group.shared;
        let worker = &shared.workers[picked.worker];
        worker.stats.turns.add_owner(1);
        if matches!(picked.found, Found::Stolen { .. }) {
            worker.stats.steals.add_owner(1);
        }
        worker.running.store(picked.task.0.as_ptr(), Ordering::Release);
        let mut budget = shared.config.budget;
        if let Some(random) = &self.random {
            budget = Budget { jobs: random.up_to(budget.jobs), ..budget };
        }
        let entered = group.hub.enter(picked.worker);
        // SAFETY: the task was taken out of its queue by us, and a task is in one queue, once.
        let report = unsafe { run_turn(picked.task, budget, shared.now_ns()) };
        drop(entered);
        worker.running.store(std::ptr::null_mut(), Ordering::Release);
        worker.stats.jobs.add_owner(u64::from(report.jobs));
        worker.stats.failures.add_owner(u64::from(report.failures));
        shared.memory.add(-report.bytes);
        if report.after == After::Requeue {
            worker.stats.requeues.add_owner(1);
            group.hub.requeue(picked);
        }
    }
}

/// Notices work without end.
#[derive(Debug)]
struct Busy {
    steps: u64,
    steps_max: u64,
    /// Live tasks by name, counted when the end is near.
    names: HashMap<String, u64>,
}

/// Steps before the limit in which the busy tasks are counted.
const COUNTED_STEPS: u64 = 1_000;

impl Busy {
    fn new(steps_max: u64) -> Self {
        Self { steps: 0, steps_max, names: HashMap::new() }
    }

    fn count(&mut self, world: &World) {
        self.steps += 1;
        if self.steps + COUNTED_STEPS < self.steps_max {
            return;
        }
        for group in world.all() {
            group.hub.each_ready(|name| *self.names.entry(name.to_owned()).or_default() += 1);
        }
        if self.steps < self.steps_max {
            return;
        }
        let busiest = self.names.iter().max_by_key(|(name, count)| (**count, name.as_str()));
        let busiest = busiest.map_or("none", |(name, _)| name.as_str());
        panic!(
            "the simulation is not idle after {} turns; the busiest task is «{busiest}». Does it \
             submit work to itself without end? `SimBuilder::turns_max` moves the limit",
            self.steps
        );
    }
}
