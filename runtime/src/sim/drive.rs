//! Running: one step, one turn, everything that is ready.

use std::cell::Cell;
use std::collections::HashMap;

use super::queues::Picked;
use super::random::Random;
use super::record::{EventKind, Recorder};
use super::state::{Sim, SimGroup, SimState};
use crate::failure::contain;
use crate::group::Budget;
use crate::handoff::hidden;
use crate::sync::Ordering;
use crate::task::{run_simulated_turn, After};

/// Kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A turn of a task.
    Turn,
    /// Timers fired, a blocking closure ended, a shutdown was reported.
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
    /// Work that waits for a later time, a permit or another thread is left.
    ///
    /// # Panics
    ///
    /// After a million steps (see [`SimBuilder::turns_max`](super::SimBuilder::turns_max)): tasks
    /// then make each other ready without end, and the message names the busiest one.
    pub fn run_until_idle(&self) -> usize {
        self.state.run_until_idle()
    }

    /// Runs one turn of one task, after the events that are due before it. Returns whether there
    /// was a turn.
    ///
    /// # Panics
    ///
    /// As [`Sim::run_until_idle`], if timers and blocking closures create each other without end.
    pub fn run_one(&self) -> bool {
        let mut busy = Busy::new(self.state.config.turns_max);
        loop {
            match self.state.step() {
                Step::Turn => return true,
                Step::Other => busy.count(&self.state),
                Step::Idle => return false,
            }
        }
    }

    /// Tasks that are ready to run now.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.state.all().iter().map(|group| group.hub.ready_count()).sum()
    }
}

/// Says that a step is under way, until it is dropped.
struct Driving<'a>(&'a Cell<bool>);

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl SimState {
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

    /// Takes one step, if one is due now.
    pub(super) fn step(&self) -> Step {
        assert!(!self.is_driving.get(), "the simulation runs already: a job must not run it");
        self.is_driving.set(true);
        let driving = Driving(&self.is_driving);
        let groups = self.all();
        let choice = match &self.random {
            Some(random) => self.choose(&groups, random),
            None => self.first(&groups),
        };
        if let Some(choice) = choice {
            return hidden(|| self.carry_out(&groups, choice));
        }
        drop(driving);
        if self.report_endings(&groups) {
            return Step::Other;
        }
        self.park(&groups);
        Step::Idle
    }

    /// Chooses due timers first, in the order of the groups, then the oldest ready task.
    fn first(&self, groups: &[SimGroup]) -> Option<Choice> {
        let now_ns = self.common.clock.now_ns();
        let all = || groups.iter().enumerate();
        if let Some((group, _)) = all().find(|(_, group)| group.shared.timers.is_due(now_ns)) {
            return Some(Choice::Timers { group });
        }
        if let Some((group, _)) = all().find(|(_, group)| group.hub.is_blocking_over(now_ns)) {
            return Some(Choice::Blocking { group });
        }
        let oldest = all().filter_map(|(index, group)| Some((group.hub.oldest()?, index))).min();
        oldest.map(|(_, group)| Choice::Worker { group, worker: 0 })
    }

    /// Anything that could happen next on a real machine, by chance.
    fn choose(&self, groups: &[SimGroup], random: &Random) -> Option<Choice> {
        let now_ns = self.common.clock.now_ns();
        let mut choices = Vec::new();
        for (group, simulated) in groups.iter().enumerate() {
            if simulated.shared.timers.is_due(now_ns) {
                choices.push(Choice::Timers { group });
            }
            if simulated.hub.is_blocking_over(now_ns) {
                choices.push(Choice::Blocking { group });
            }
            simulated.hub.able(|worker| choices.push(Choice::Worker { group, worker }));
        }
        while choices.len() > 1 {
            let index = random.below(choices.len());
            let Choice::Worker { group, worker } = choices[index] else {
                return Some(choices[index]);
            };
            let name = &groups[group].hub.group;
            if !self.common.faults.is_passed_over(name, worker, random) {
                return Some(choices[index]);
            }
            choices.swap_remove(index);
        }
        choices.pop()
    }

    fn carry_out(&self, groups: &[SimGroup], choice: Choice) -> Step {
        let now_ns = self.common.clock.now_ns();
        let recorder = &self.common.recorder;
        match choice {
            Choice::Timers { group } => {
                let SimGroup { shared, hub, .. } = &groups[group];
                let fired = shared.timers.service(now_ns, || {});
                if fired > 0 {
                    shared.workers[0].stats.timers.add_owner(fired as u64);
                    recorder.add(&hub.group, None, None, EventKind::TimersFired { count: fired });
                }
                Step::Other
            }
            Choice::Blocking { group } => {
                let hub = &groups[group].hub;
                if let Some(run) = hub.take_blocking(now_ns) {
                    contain("a blocking closure", run);
                    recorder.add(&hub.group, None, None, EventKind::Blocked);
                }
                Step::Other
            }
            Choice::Worker { group, worker } => {
                let picked = groups[group].hub.pick(worker, self.random.as_ref());
                let Some(picked) = picked else { return Step::Other };
                self.run_turn(&groups[group], picked);
                Step::Turn
            }
        }
    }

    fn run_turn(&self, group: &SimGroup, picked: Picked) {
        let SimGroup { shared, hub, is_parked } = group;
        let worker = &shared.workers[picked.worker];
        let recorder = &self.common.recorder;
        // SAFETY: the task was taken out of its queue by us and has not run yet.
        let header = unsafe { picked.task.header() };
        let task = recorder.is_on().then(|| Recorder::name(header));
        let tell = |kind| recorder.add(&hub.group, Some(picked.worker), task.clone(), kind);
        if is_parked[picked.worker].replace(false) {
            worker.stats.wakes.add_owner(1);
        }
        if let Some(victim) = picked.victim {
            worker.stats.steals.add_owner(1);
            tell(EventKind::Steal { victim });
        }
        let start_ns = shared.now_ns();
        let waited_ns = start_ns.saturating_sub(header.scheduled_ns.swap(0, Ordering::Relaxed));
        let class = shared.class_of(header);
        let own = header.extra().and_then(|extra| extra.budget);
        let mut budget = own.unwrap_or(shared.config.budget);
        if let Some(random) = &self.random {
            budget = Budget { jobs: random.up_to(budget.jobs), ..budget };
        }
        tell(EventKind::TurnStart);
        worker.stats.turns.add_owner(1);
        worker.running.store(picked.task.0.as_ptr(), Ordering::Release);
        let entered = hub.enter(picked.worker);
        // SAFETY: the task was taken out of its queue by us, and a task is in one queue, once.
        let report = unsafe { run_simulated_turn(picked.task, budget, start_ns) };
        drop(entered);
        worker.running.store(std::ptr::null_mut(), Ordering::Release);
        worker.stats.jobs.add_owner(u64::from(report.jobs));
        worker.stats.failures.add_owner(u64::from(report.failures));
        shared.memory.add(-report.bytes);
        let turn = self.common.faults.turn_time(&hub.group, picked.worker);
        if !turn.is_zero() {
            self.clock.advance(turn);
        }
        class.sample(waited_ns, shared.now_ns().saturating_sub(start_ns), report.jobs);
        tell(EventKind::TurnEnd { jobs: report.jobs });
        if report.after == After::Requeue {
            worker.stats.requeues.add_owner(1);
            tell(EventKind::Yield);
            hub.requeue(picked);
        }
    }

    /// The workers find nothing.
    fn park(&self, groups: &[SimGroup]) {
        for group in groups {
            for (worker, is_parked) in group.is_parked.iter().enumerate() {
                if !is_parked.replace(true) {
                    group.shared.workers[worker].stats.parks.add_owner(1);
                    let recorder = &self.common.recorder;
                    recorder.add(&group.hub.group, Some(worker), None, EventKind::Park);
                }
            }
        }
    }
}

/// Notices work without end.
#[derive(Debug)]
struct Busy {
    steps: u64,
    steps_max: u64,
    /// Occurrences of each name among the ready tasks, counted near the limit.
    names: HashMap<String, u64>,
}

/// Steps before the limit in which the busy tasks are counted.
const COUNTED_STEPS: u64 = 1_000;

impl Busy {
    fn new(steps_max: u64) -> Self {
        Self { steps: 0, steps_max, names: HashMap::new() }
    }

    fn count(&mut self, state: &SimState) {
        self.steps += 1;
        if self.steps + COUNTED_STEPS < self.steps_max {
            return;
        }
        for group in state.all().iter() {
            group.hub.each_ready(|name| *self.names.entry(name.to_owned()).or_default() += 1);
        }
        if self.steps < self.steps_max {
            return;
        }
        let busiest = self.names.iter().max_by_key(|(name, count)| (**count, name.as_str()));
        let busiest = busiest.map_or("none", |(name, _)| name.as_str());
        panic!(
            "the simulation is not idle after {} steps; the busiest task is «{busiest}». Does it \
             submit work to itself without end? `SimBuilder::turns_max` moves the limit",
            self.steps
        );
    }
}
