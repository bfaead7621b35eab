//! Names the task that holds a worker too long, while it does. Sleeps while all workers do.

use std::time::Duration;

use super::GroupShared;
use crate::failure::contain;
use crate::limits::{KEEPER_PERIOD, WATCHDOG_PERIOD};
use crate::sync::{
    current_thread, fence, keeps, park, Arc, AtomicBool, AtomicU64, Mutex, Ordering, Step, Thread,
};
use crate::worker::Remote;

#[derive(Debug)]
pub(crate) struct Watchdog {
    is_asleep: AtomicBool,
    thread: Mutex<Option<Thread>>,
    /// Turns found to last too long.
    long_turns: AtomicU64,
}

impl Watchdog {
    pub(crate) fn new() -> Self {
        Self {
            is_asleep: AtomicBool::new(false),
            thread: Mutex::new(None),
            long_turns: AtomicU64::new(0),
        }
    }

    /// Turns found to last too long since the start.
    pub(crate) fn long_turns(&self) -> u64 {
        self.long_turns.load(Ordering::Relaxed)
    }

    /// A worker has been woken: the watchdog ticks again. A fence and a load unless it sleeps.
    #[inline(always)]
    pub(crate) fn awake(&self) {
        // Pairs with the fence in `sleep`: either we see it asleep, or it sees us awake.
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) {
            self.unpark();
        }
    }

    pub(crate) fn unpark(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
        if let Some(thread) = &*self.thread.lock() {
            thread.unpark();
        }
    }

    /// The calling thread is the watchdog's.
    pub(crate) fn begin(&self) {
        *self.thread.lock() = Some(current_thread());
    }

    /// Sleeps while all workers do.
    pub(crate) fn sleep(group: &GroupShared) {
        if !group.sleep.is_everybody_parked() {
            return;
        }
        group.watchdog.is_asleep.store(true, Ordering::SeqCst);
        // Pairs with the fence in `awake`.
        fence(Ordering::SeqCst);
        let is_everybody_parked = !keeps(Step::WatchdogLook) || group.sleep.is_everybody_parked();
        if is_everybody_parked && !group.is_stopping() {
            park(group.keeper_limit());
        }
        group.watchdog.is_asleep.store(false, Ordering::SeqCst);
    }

    /// The watchdog's thread.
    pub(crate) fn run(group: &Arc<GroupShared>) {
        group.watchdog.begin();
        let mut are_reported = vec![false; group.workers.len()];
        while !group.is_stopping() {
            Self::sleep(group);
            if group.is_stopping() {
                // The stop signal may have ended the sleep above, and no other follows.
                return;
            }
            park(Some(group.keep(false)));
            group.keep(true);
            let now_ns = group.now_ns();
            for (index, is_reported) in are_reported.iter_mut().enumerate() {
                look(group, index, is_reported, now_ns);
            }
        }
    }
}

impl GroupShared {
    /// Time until the next timer, where the keeper is responsible for it.
    fn keeper_limit(&self) -> Option<Duration> {
        let earliest_ns = self.timers.earliest_ns();
        let is_mine = self.config.is_hosted && earliest_ns != u64::MAX;
        is_mine.then(|| Duration::from_nanos(earliest_ns.saturating_sub(self.now_ns())))
    }

    /// Wakes a hosted worker for due timers, and for work that `has_waited` since the last look.
    /// Returns the time until the next look.
    fn keep(&self, has_waited: bool) -> Duration {
        if !self.config.is_hosted {
            return WATCHDOG_PERIOD;
        }
        let now_ns = self.now_ns();
        self.workers.iter().for_each(|one| one.clock_read(now_ns));
        let is_stuck = |one: &Arc<Remote>| {
            one.waiting() > 0 && one.held.since_ns(one.stats.turns.get()).is_some()
        };
        let has_work = || self.has_shared_work() || self.workers.iter().any(is_stuck);
        if self.timers.is_due(now_ns) || (has_waited && has_work()) {
            // Also while a worker counts as searching: it may wait behind a task that blocks.
            self.notify(self.sleep.for_earlier_timer());
        }
        let period = if self.sleep.parked() == 0 { WATCHDOG_PERIOD } else { KEEPER_PERIOD };
        self.keeper_limit().map_or(period, |timer| timer.clamp(KEEPER_PERIOD / 4, period))
    }
}

/// Reports the turn of a worker once, if it lasts too long.
fn look(group: &Arc<GroupShared>, index: usize, is_reported: &mut bool, now_ns: u64) {
    let worker = &group.workers[index];
    let turns = worker.stats.turns.get();
    let running = worker.running.load(Ordering::Acquire);
    let since_ns = worker.held.since_ns(turns).filter(|_| !running.is_null());
    let Some(since_ns) = since_ns else {
        *is_reported = false;
        return worker.held.see_owner(turns, now_ns);
    };
    let held = Duration::from_nanos(now_ns.saturating_sub(since_ns));
    if held < group.config.long_turn || *is_reported {
        return;
    }
    // A task ends inside its turn, and leaves the list first: found and still the same turn means
    // that it is this task.
    let Some(task) = group.registry.find(running) else { return };
    if worker.stats.turns.get() != turns {
        return;
    }
    *is_reported = true;
    group.watchdog.long_turns.fetch_add(1, Ordering::Relaxed);
    match &group.config.on_long_turn {
        Some(hook) => contain("the long-turn hook of a group", || hook(&task, held)),
        None => tracing::warn!(
            task = task.name(),
            worker = index,
            held_ms = held.as_millis() as u64,
            "a turn holds its worker"
        ),
    }
}
