//! Search for work beyond the worker's own queue: injector, timers, siblings with old work.

use std::time::Duration;

use super::local::taken;
use super::sleep::ParkMode;
use super::Local;
use crate::limits::{STEAL_AGE_NS, STUCK_TURN_NS, WATCH_NS};
use crate::sync::{fence, keeps, park, spin_hint, Ordering, Step};
use crate::task::TaskPtr;

/// A sibling as the last look found it.
#[derive(Clone, Copy, Debug, Default)]
struct Sibling {
    /// Turns begun, and the time since which that number is the same.
    turns: u64,
    turn_since_ns: u64,
    /// Tasks that waited, and when they were counted.
    waiting: u64,
    at_ns: u64,
}

/// State of one search about the siblings.
#[derive(Debug)]
pub(crate) struct Search {
    siblings: Vec<Sibling>,
}

/// Rounds of a search between two clock reads.
const SPINS_PER_LOOK: u32 = 16;

impl Search {
    pub(crate) fn new(workers: usize) -> Self {
        Self { siblings: vec![Sibling::default(); workers] }
    }

    /// Spins until there is work, or the spinning time is over.
    fn spin(&mut self, local: &Local) -> Option<TaskPtr> {
        let group = &local.group;
        let (start_ns, _) = group.clock.machine_and_now_ns();
        self.forget();
        loop {
            let (machine_ns, now_ns) = group.clock.machine_and_now_ns();
            if let Some(task) = self.look(local, machine_ns, now_ns) {
                return Some(task);
            }
            if machine_ns.saturating_sub(start_ns) >= group.config.spin_ns || group.is_stopping() {
                return None;
            }
            for _ in 0..SPINS_PER_LOOK {
                spin_hint();
            }
        }
    }

    pub(super) fn forget(&mut self) {
        self.siblings.fill(Sibling::default());
    }

    /// One look everywhere.
    pub(super) fn look(&mut self, local: &Local, machine_ns: u64, now_ns: u64) -> Option<TaskPtr> {
        if let Some(task) = local.pop_system().or_else(|| local.pop_injected()) {
            return Some(task);
        }
        if local.group.timers.is_due(now_ns) {
            super::run::service_timers(local, now_ns);
            if let Some(task) = local.pop() {
                return Some(task);
            }
        }
        if !local.group.config.is_stealing {
            return None;
        }
        let workers = local.group.workers.len();
        let first = local.random_below(workers);
        (0..workers)
            .map(|offset| (first + offset) % workers)
            .filter(|victim| *victim != local.index)
            .find_map(|victim| self.steal(local, victim, machine_ns))
    }

    /// Steals old work from a sibling: a task seen at an earlier look that is still there, judged
    /// by the turns begun meanwhile; or any task if the sibling is stuck in one turn.
    fn steal(&mut self, local: &Local, victim: usize, now_ns: u64) -> Option<TaskPtr> {
        let shared = &local.group.workers[victim];
        let turns = shared.stats.turns.get();
        let waiting = shared.waiting();
        let seen = &mut self.siblings[victim];
        let progress = turns.wrapping_sub(seen.turns);
        if progress > 0 || seen.turn_since_ns == 0 {
            seen.turn_since_ns = now_ns;
        }
        // A hosted sibling: between two polls, or in a turn that the keeper has seen before.
        let is_left = || {
            shared.running.load(Ordering::Relaxed).is_null()
                || shared.held.since_ns(turns).is_some()
        };
        let is_stuck = now_ns.saturating_sub(seen.turn_since_ns) >= STUCK_TURN_NS
            || local.group.config.is_hosted && is_left();
        let has_waited =
            seen.waiting > progress && now_ns.saturating_sub(seen.at_ns) >= STEAL_AGE_NS;
        if waiting == 0 || !(is_stuck || has_waited) {
            if seen.waiting <= progress {
                (seen.turns, seen.waiting, seen.at_ns) = (turns, waiting, now_ns);
            }
            return None;
        }
        *seen = Sibling::default();
        let queued = taken(|| shared.stealer.steal_batch_and_pop(local.queue()));
        let stolen = queued.or_else(|| shared.slot.steal().map(TaskPtr));
        if stolen.is_some() {
            local.shared().stats.steals.add_owner(1);
        }
        stolen
    }

    /// Finds work: spins, watches and parks according to the state of the group. `None` when the
    /// group stops.
    pub(crate) fn find(&mut self, local: &Local) -> Option<TaskPtr> {
        let group = &local.group;
        let mut is_searching = group.sleep.start_search(true);
        loop {
            if is_searching {
                if let Some(task) = self.spin(local) {
                    self.stop_searching(local);
                    return Some(task);
                }
            }
            if group.is_stopping() {
                if is_searching {
                    group.sleep.end_search();
                }
                return None;
            }
            local.flush_bytes();
            is_searching = match self.park(local, is_searching) {
                Woken::Found(task) => return Some(task),
                Woken::Search => true,
                Woken::Stop => return None,
            };
        }
    }

    /// Transition from searching to running: the last searcher wakes a sleeper for work in sight.
    pub(super) fn stop_searching(&self, local: &Local) {
        if local.group.sleep.end_search() {
            self.notify_if_work_waits(local);
        }
    }

    /// Wakes a sleeper when the caller goes to work, no worker searches and work waits: a batch may
    /// hold long turns, and its worker may be stuck. A caller that was the timekeeper wakes a
    /// sleeper for the next timers.
    fn notify_if_work_waits(&self, local: &Local) {
        let group = &local.group;
        // Pairs with the fence in `wake_for_batch`: we no longer search or watch, and look now.
        fence(Ordering::SeqCst);
        if group.sleep.parked() == 0 {
            return;
        }
        if group.has_shared_work() {
            return group.wake_one();
        }
        let sleeper =
            if group.config.is_stealing && group.workers.iter().any(|one| one.waiting() > 0) {
                group.sleep.wake_for_local_push()
            } else if group.timers.earliest_ns() != u64::MAX {
                group.sleep.wake_for_time()
            } else {
                None
            };
        group.notify(sleeper);
    }

    /// Parks, and returns when there may be work to search for.
    fn park(&mut self, local: &Local, was_searching: bool) -> Woken {
        let group = &local.group;
        let mut mode = group.sleep.enter(local.index, was_searching);
        local.shared().stats.parks.add_owner(1);
        self.forget();
        loop {
            // The last look, after we are booked as parked.
            let has_work = keeps(Step::LastLook) && group.has_shared_work();
            if has_work || group.is_stopping() {
                return self.unpark_to_search(local);
            }
            let limit = self.park_limit(local, mode);
            if mode == ParkMode::Watch && group.config.is_stealing {
                // A look that is remembered, so that the next one can judge ages.
                let (machine_ns, _) = group.clock.machine_and_now_ns();
                for victim in (0..group.workers.len()).filter(|victim| *victim != local.index) {
                    if let Some(task) = self.steal(local, victim, machine_ns) {
                        return self.unpark_with(local, task);
                    }
                }
            }
            if limit == Some(Duration::ZERO) {
                local.now_ns.set(group.now_ns());
            } else {
                let stats = &local.shared().stats;
                stats.parks_owner(group.now_ns());
                park(limit);
                let now_ns = group.now_ns();
                stats.unparked_owner(now_ns);
                local.now_ns.set(now_ns);
            }
            let Some(next) = group.sleep.reconsider(local.index) else {
                local.shared().stats.wakes.add_owner(1);
                group.watchdog.awake();
                return Woken::Search;
            };
            mode = next;
            if group.timers.is_due(local.now_ns.get()) {
                return self.unpark_to_search(local);
            }
        }
    }

    /// Time limit of a park: `None` without limit.
    fn park_limit(&self, local: &Local, mode: ParkMode) -> Option<Duration> {
        let group = &local.group;
        let earliest_ns = group.timers.earliest_ns();
        let keeps_time =
            mode == ParkMode::Sleep && group.sleep.keeps_time(local.index, earliest_ns);
        let until_timer = match earliest_ns {
            u64::MAX => None,
            _ if mode == ParkMode::Sleep && !keeps_time => None,
            _ => Some(Duration::from_nanos(earliest_ns.saturating_sub(group.now_ns()))),
        };
        match mode {
            ParkMode::Sleep => until_timer,
            ParkMode::Watch => {
                let watch = Duration::from_nanos(WATCH_NS);
                Some(until_timer.map_or(watch, |timer| timer.min(watch)))
            }
        }
    }

    /// Transition from parked to searching.
    fn unpark_to_search(&self, local: &Local) -> Woken {
        // The watchdog sleeps while all workers do: a timer may have woken this one.
        local.group.watchdog.awake();
        // If another thread took us off the list, it has booked the search.
        local.group.sleep.leave(local.index, true);
        if local.group.is_stopping() {
            local.group.sleep.end_search();
            return Woken::Stop;
        }
        Woken::Search
    }

    /// Transition from parked to running, with a stolen task.
    fn unpark_with(&self, local: &Local, task: TaskPtr) -> Woken {
        local.group.watchdog.awake();
        if !local.group.sleep.leave(local.index, false) {
            // Another thread booked the search meanwhile: it ends with the stolen task.
            self.stop_searching(local);
        } else {
            self.notify_if_work_waits(local);
        }
        Woken::Found(task)
    }
}

#[derive(Debug)]
enum Woken {
    Found(TaskPtr),
    Search,
    Stop,
}
