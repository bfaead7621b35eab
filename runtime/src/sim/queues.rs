//! The run queues of one simulated group, and the ways to take a task out of them.
//!
//! Invariant: a task is in one queue, once.

use std::collections::VecDeque;

use super::random::Random;
use crate::task::TaskPtr;

/// Steps after which a worker on watch finds a task whose hint was lost, if others keep it busy.
/// Enough for a few turns of all other tasks in a small test.
const LOST_STEPS: u32 = 32;

/// A ready task, and when it became ready among all others.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadyTask {
    pub(super) task: TaskPtr,
    pub(super) order: u64,
    pub(super) is_system: bool,
}

/// All queues of a group.
#[derive(Debug, Default)]
pub(super) struct Queues {
    system: VecDeque<ReadyTask>,
    injector: VecDeque<ReadyTask>,
    workers: Vec<VecDeque<ReadyTask>>,
    /// Ready tasks without a wake-up, each with the steps until a worker finds it.
    lost: Vec<(ReadyTask, u32)>,
}

/// A task taken out of its queue: its turn is the taker's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picked {
    pub(super) task: TaskPtr,
    pub(super) worker: usize,
    /// The worker that it was stolen from.
    pub(super) victim: Option<usize>,
}

impl Queues {
    pub(super) fn new(workers: usize) -> Self {
        Self { workers: vec![VecDeque::new(); workers], ..Self::default() }
    }

    /// Queues a task that a worker's turn has made ready.
    pub(super) fn push_own(&mut self, worker: usize, entry: ReadyTask) {
        self.workers[worker].push_back(entry);
    }

    /// Queues a task for all workers.
    pub(super) fn push_shared(&mut self, entry: ReadyTask) {
        let queue = if entry.is_system { &mut self.system } else { &mut self.injector };
        queue.push_back(entry);
    }

    /// Keeps a task from the workers for a while.
    pub(super) fn lose(&mut self, entry: ReadyTask) {
        self.lost.push((entry, LOST_STEPS));
    }

    /// Look of the worker on watch: finds tasks that were lost long ago, or the first one if no
    /// other work is left.
    pub(super) fn watch(&mut self) {
        let mut is_wanted = self.len() == self.lost.len();
        let mut found = Vec::new();
        self.lost.retain_mut(|(entry, steps_left)| {
            *steps_left = steps_left.saturating_sub(1);
            if !is_wanted && *steps_left > 0 {
                return true;
            }
            is_wanted = false;
            found.push(*entry);
            false
        });
        found.into_iter().for_each(|entry| self.push_shared(entry));
    }

    /// Number of ready tasks.
    pub(super) fn len(&self) -> usize {
        let own: usize = self.workers.iter().map(VecDeque::len).sum();
        own + self.system.len() + self.injector.len() + self.lost.len()
    }

    pub(super) fn each(&self, look: impl FnMut(&ReadyTask)) {
        let lost = self.lost.iter().map(|(entry, _)| entry);
        let shared = self.system.iter().chain(&self.injector);
        self.workers.iter().flatten().chain(shared).chain(lost).for_each(look);
    }

    /// Calls `tell` with each virtual worker that could take a task now.
    pub(super) fn able(&self, is_stealing: bool, mut tell: impl FnMut(usize)) {
        let is_shared = !self.system.is_empty()
            || !self.injector.is_empty()
            || (is_stealing && self.workers.iter().any(|own| !own.is_empty()));
        for (index, own) in self.workers.iter().enumerate() {
            if is_shared || !own.is_empty() {
                tell(index);
            }
        }
    }

    /// Time at which the first ready task of the shared queues became ready; the system class goes
    /// first.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.system.front().or(self.injector.front()).map(|entry| entry.order)
    }

    /// Takes the first ready task of the shared queues, for the workers by turns.
    pub(super) fn pick_oldest(&mut self) -> Option<Picked> {
        let entry = self.system.pop_front().or_else(|| self.injector.pop_front())?;
        let worker = (entry.order % self.workers.len() as u64) as usize;
        Some(Picked { task: entry.task, worker, victim: None })
    }

    /// Takes a random task that this worker could reach: from any queue that it may look at, and
    /// from any position in it. The system class still goes first.
    pub(super) fn pick_random(
        &mut self,
        worker: usize,
        is_stealing: bool,
        random: &Random,
    ) -> Option<Picked> {
        if let Some(entry) = take(&mut self.system, random) {
            return Some(Picked { task: entry.task, worker, victim: None });
        }
        let injector = (!self.injector.is_empty()).then_some(None);
        let own = self.workers.iter().enumerate().filter(|(_, own)| !own.is_empty());
        let own = own.map(|(owner, _)| owner).filter(|owner| is_stealing || *owner == worker);
        let places: Vec<_> = injector.into_iter().chain(own.map(Some)).collect();
        let place = *places.get(random.below(places.len()))?;
        let entry = take(place.map_or(&mut self.injector, |own| &mut self.workers[own]), random)?;
        let victim = place.filter(|owner| *owner != worker);
        if let Some(victim) = victim {
            // At random, up to half of the others move along.
            for _ in 0..random.extra(self.workers[victim].len() / 2) {
                let moved = self.workers[victim].pop_front()?;
                self.workers[worker].push_back(moved);
            }
        }
        Some(Picked { task: entry.task, worker, victim })
    }
}

fn take(queue: &mut VecDeque<ReadyTask>, random: &Random) -> Option<ReadyTask> {
    queue.remove(random.below(queue.len()))
}
