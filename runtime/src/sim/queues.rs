//! The run queues of one simulated group, and the ways to take a task out of them.
//!
//! Invariant: a task is in one queue, once.

use std::collections::VecDeque;

use super::random::Random;
use crate::task::TaskPtr;

/// Steps after which a worker on watch finds a task whose hint was lost, if others keep it busy.
/// Long enough for a few turns of everybody else in a small test.
const LOST_STEPS: u32 = 32;

/// A ready task, and when it became ready among all others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) task: TaskPtr,
    pub(super) order: u64,
}

/// What one virtual worker has.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// The task made ready last by the worker's own turn.
    slot: Option<Entry>,
    queue: VecDeque<Entry>,
}

/// A ready task that nobody was told of.
#[derive(Debug)]
struct Lost {
    entry: Entry,
    is_system: bool,
    steps_left: u32,
}

/// All queues of a group.
#[derive(Debug, Default)]
pub(super) struct Queues {
    system: VecDeque<Entry>,
    injector: VecDeque<Entry>,
    workers: Vec<Own>,
    lost: Vec<Lost>,
}

/// Where a task was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// In the system queue.
    System,
    /// In the worker's own slot or queue.
    Own,
    /// In the injector.
    Injected,
    /// With a sibling.
    Stolen {
        /// From whom.
        victim: usize,
    },
}

/// A task taken out of its queue: its turn is the taker's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picked {
    pub(super) task: TaskPtr,
    pub(super) worker: usize,
    pub(super) found: Found,
}

impl Own {
    fn len(&self) -> usize {
        self.queue.len() + usize::from(self.slot.is_some())
    }

    fn take(&mut self, random: &Random) -> Option<Entry> {
        let index = random.below(self.len());
        if index == self.queue.len() {
            return self.slot.take();
        }
        self.queue.remove(index)
    }
}

impl Queues {
    pub(super) fn new(workers: usize) -> Self {
        Self { workers: (0..workers).map(|_| Own::default()).collect(), ..Self::default() }
    }

    /// Queues a task that a worker's turn has made ready: into its run-next slot if it has one.
    pub(super) fn push_own(&mut self, worker: usize, entry: Entry, has_slot: bool) {
        let own = &mut self.workers[worker];
        if has_slot {
            own.queue.extend(own.slot.replace(entry));
        } else {
            own.queue.push_back(entry);
        }
    }

    /// Queues a task for all workers.
    pub(super) fn push_shared(&mut self, entry: Entry, is_system: bool) {
        if is_system {
            self.system.push_back(entry);
        } else {
            self.injector.push_back(entry);
        }
    }

    /// Keeps a task from the workers for a while.
    pub(super) fn lose(&mut self, entry: Entry, is_system: bool) {
        self.lost.push(Lost { entry, is_system, steps_left: LOST_STEPS });
    }

    /// The worker on watch comes by: finds what was lost long ago, or first if nothing else is
    /// left.
    pub(super) fn watch(&mut self) {
        let mut is_wanted = self.len() == self.lost.len();
        let mut found = Vec::new();
        self.lost.retain_mut(|lost| {
            lost.steps_left = lost.steps_left.saturating_sub(1);
            if !is_wanted && lost.steps_left > 0 {
                return true;
            }
            is_wanted = false;
            found.push((lost.entry, lost.is_system));
            false
        });
        for (entry, is_system) in found {
            self.push_shared(entry, is_system);
        }
    }

    /// Ready tasks.
    pub(super) fn len(&self) -> usize {
        let own: usize = self.workers.iter().map(Own::len).sum();
        own + self.system.len() + self.injector.len() + self.lost.len()
    }

    pub(super) fn each(&self, look: impl FnMut(&Entry)) {
        let own = self.workers.iter().flat_map(|own| own.queue.iter().chain(&own.slot));
        let lost = self.lost.iter().map(|lost| &lost.entry);
        own.chain(&self.system).chain(&self.injector).chain(lost).for_each(look);
    }

    /// Virtual workers that could take a task now.
    pub(super) fn able(&self, is_stealing: bool, mut tell: impl FnMut(usize)) {
        let is_shared = !self.system.is_empty()
            || !self.injector.is_empty()
            || (is_stealing && self.workers.iter().any(|own| own.len() > 0));
        for (index, own) in self.workers.iter().enumerate() {
            if is_shared || own.len() > 0 {
                tell(index);
            }
        }
    }

    /// When the oldest ready task became ready; the system class first.
    pub(super) fn oldest(&self) -> Option<u64> {
        if let Some(entry) = self.system.front() {
            return Some(entry.order);
        }
        let own = self.workers.iter().filter_map(|own| own.queue.front());
        own.chain(self.injector.front()).map(|entry| entry.order).min()
    }

    /// Takes the oldest ready task; the system class first.
    pub(super) fn pick_oldest(&mut self) -> Option<Picked> {
        if let Some(entry) = self.system.pop_front() {
            return Some(Picked { task: entry.task, worker: 0, found: Found::System });
        }
        let injected = self.injector.front().map(|entry| entry.order);
        let own = self.workers.iter().enumerate();
        let own = own.filter_map(|(index, own)| Some((own.queue.front()?.order, index))).min();
        match (injected, own) {
            (injected, Some((order, worker))) if injected.is_none_or(|other| order < other) => {
                let task = self.workers[worker].queue.pop_front()?.task;
                Some(Picked { task, worker, found: Found::Own })
            }
            (Some(_), _) => {
                let entry = self.injector.pop_front()?;
                // All workers get their share, by turns.
                let worker = (entry.order % self.workers.len() as u64) as usize;
                Some(Picked { task: entry.task, worker, found: Found::Injected })
            }
            (None, _) => None,
        }
    }

    /// Takes a task as this worker might, by chance: from any place it could look at, and from
    /// anywhere in that place. The system class still goes first.
    pub(super) fn pick_random(
        &mut self,
        worker: usize,
        is_stealing: bool,
        random: &Random,
    ) -> Option<Picked> {
        let take = |queue: &mut VecDeque<Entry>| queue.remove(random.below(queue.len()));
        if let Some(entry) = take(&mut self.system) {
            return Some(Picked { task: entry.task, worker, found: Found::System });
        }
        let mut places = Vec::with_capacity(self.workers.len() + 1);
        if !self.injector.is_empty() {
            places.push(Found::Injected);
        }
        for (victim, own) in self.workers.iter().enumerate() {
            if own.len() > 0 && victim == worker {
                places.push(Found::Own);
            } else if own.len() > 0 && is_stealing {
                places.push(Found::Stolen { victim });
            }
        }
        let found = *places.get(random.below(places.len()))?;
        let entry = match found {
            Found::System | Found::Injected => take(&mut self.injector),
            Found::Own => self.workers[worker].take(random),
            Found::Stolen { victim } => self.steal(victim, worker, random),
        };
        Some(Picked { task: entry?.task, worker, found })
    }

    /// One task for the thief's turn, and by chance up to half of the others for its queue.
    fn steal(&mut self, victim: usize, thief: usize, random: &Random) -> Option<Entry> {
        let entry = self.workers[victim].take(random)?;
        let more = random.extra(self.workers[victim].queue.len() / 2);
        for _ in 0..more {
            let moved = self.workers[victim].queue.pop_front()?;
            self.workers[thief].queue.push_back(moved);
        }
        Some(entry)
    }
}
