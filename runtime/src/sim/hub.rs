//! The run queues of one simulated group.
//!
//! A hub stands where threads stand in a real group: each virtual worker has a queue and a run-next
//! slot, and there are an injector and a system queue for all. Any thread may make a task ready;
//! only the simulation's thread takes one out. Invariant: a task is in one queue, once.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr;

use super::random::Random;
use crate::group::Simulated;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::task::TaskPtr;

/// A ready task, or a closure, and when it became ready among all others.
#[derive(Clone, Copy, Debug)]
struct Entry {
    task: TaskPtr,
    order: u64,
}

/// What one virtual worker has.
#[derive(Debug, Default)]
struct Own {
    /// The task made ready last by the worker's own turn.
    slot: Option<Entry>,
    queue: VecDeque<Entry>,
}

impl Own {
    fn len(&self) -> usize {
        self.queue.len() + usize::from(self.slot.is_some())
    }
}

/// A closure that blocks for a virtual time.
struct Blocking {
    end_ns: u64,
    run: Box<dyn FnOnce() + Send>,
}

#[derive(Default)]
struct Queues {
    system: VecDeque<Entry>,
    injector: VecDeque<Entry>,
    workers: Vec<Own>,
    blocking: VecDeque<Blocking>,
    is_over: bool,
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

/// See the module's documentation.
pub(super) struct Hub {
    queues: Mutex<Queues>,
    /// Counts what became ready, over all groups of the simulation.
    order: Arc<AtomicU64>,
    /// Whether the choices are random; else everything goes in order.
    is_random: bool,
    is_stealing: bool,
    /// Clock reading of the simulation, for closures that block.
    now_ns: AtomicU64,
    block_ns: AtomicU64,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("is_random", &self.is_random).finish_non_exhaustive()
    }
}

/// The virtual worker whose turn runs on this thread.
#[derive(Clone, Copy, Debug)]
struct Place {
    hub: *const Hub,
    worker: usize,
}

thread_local! {
    static PLACE: Cell<Option<Place>> = const { Cell::new(None) };
}

/// Makes a virtual worker the one of this thread until it is dropped.
#[derive(Debug)]
pub(super) struct Entered(Option<Place>);

impl Drop for Entered {
    fn drop(&mut self) {
        PLACE.set(self.0);
    }
}

impl Hub {
    pub(super) fn new(
        workers: usize,
        order: Arc<AtomicU64>,
        is_random: bool,
        is_stealing: bool,
    ) -> Self {
        let queues =
            Queues { workers: (0..workers).map(|_| Own::default()).collect(), ..Queues::default() };
        Self {
            queues: Mutex::new(queues),
            order,
            is_random,
            is_stealing,
            now_ns: AtomicU64::new(0),
            block_ns: AtomicU64::new(0),
        }
    }

    /// Begins a turn of a virtual worker on this thread.
    pub(super) fn enter(&self, worker: usize) -> Entered {
        Entered(PLACE.replace(Some(Place { hub: ptr::from_ref(self), worker })))
    }

    /// The virtual worker of this thread, if it is one of this group.
    fn worker(&self) -> Option<usize> {
        let place = PLACE.try_with(Cell::get).ok().flatten()?;
        ptr::eq(place.hub, self).then_some(place.worker)
    }

    /// Ready tasks.
    pub(super) fn ready_count(&self) -> usize {
        let queues = self.queues.lock();
        let own: usize = queues.workers.iter().map(Own::len).sum();
        own + queues.system.len() + queues.injector.len()
    }

    /// Calls `look` with the name of each ready task.
    pub(super) fn each_ready(&self, mut look: impl FnMut(&str)) {
        let queues = self.queues.lock();
        let own = queues.workers.iter().flat_map(|own| own.queue.iter().chain(&own.slot));
        for entry in own.chain(&queues.system).chain(&queues.injector) {
            // SAFETY: a task in a queue is alive.
            look(unsafe { entry.task.header() }.name());
        }
    }

    /// How long closures that block from now on take.
    pub(super) fn set_block_ns(&self, block_ns: u64) {
        self.block_ns.store(block_ns, Ordering::Relaxed);
    }

    /// Tells the hub the time.
    pub(super) fn set_now_ns(&self, now_ns: u64) {
        self.now_ns.store(now_ns, Ordering::Relaxed);
    }

    /// When the next blocking closure ends.
    pub(super) fn next_end_ns(&self) -> Option<u64> {
        self.queues.lock().blocking.iter().map(|blocking| blocking.end_ns).min()
    }

    /// Blocking closures under way.
    pub(super) fn blocking_count(&self) -> usize {
        self.queues.lock().blocking.len()
    }

    /// Takes the blocking closure that ends first, if its time has come.
    pub(super) fn take_blocking(&self, now_ns: u64) -> Option<Box<dyn FnOnce() + Send>> {
        let mut queues = self.queues.lock();
        let ends = queues.blocking.iter().enumerate();
        let (index, end_ns) = ends.map(|(index, b)| (index, b.end_ns)).min_by_key(|b| b.1)?;
        if end_ns > now_ns {
            return None;
        }
        queues.blocking.remove(index).map(|blocking| blocking.run)
    }

    /// Virtual workers that could take a task now.
    pub(super) fn able(&self, mut tell: impl FnMut(usize)) {
        let queues = self.queues.lock();
        let is_any = !queues.system.is_empty() || !queues.injector.is_empty();
        let is_shared =
            is_any || (self.is_stealing && queues.workers.iter().any(|own| own.len() > 0));
        for (index, own) in queues.workers.iter().enumerate() {
            if is_shared || own.len() > 0 {
                tell(index);
            }
        }
    }

    /// When the oldest ready task became ready; the system class first.
    pub(super) fn oldest(&self) -> Option<u64> {
        let queues = self.queues.lock();
        if let Some(entry) = queues.system.front() {
            return Some(entry.order);
        }
        let own = queues.workers.iter().filter_map(|own| own.queue.front());
        own.chain(queues.injector.front()).map(|entry| entry.order).min()
    }

    /// Takes the oldest ready task; the system class first.
    pub(super) fn pick_oldest(&self) -> Option<Picked> {
        let mut queues = self.queues.lock();
        if let Some(entry) = queues.system.pop_front() {
            return Some(Picked { task: entry.task, worker: 0, found: Found::System });
        }
        let injected = queues.injector.front().map(|entry| entry.order);
        let own = queues.workers.iter().enumerate();
        let own = own.filter_map(|(index, own)| Some((own.queue.front()?.order, index))).min();
        match (injected, own) {
            (injected, Some((order, worker))) if injected.is_none_or(|other| order < other) => {
                let task = queues.workers[worker].queue.pop_front()?.task;
                Some(Picked { task, worker, found: Found::Own })
            }
            (Some(_), _) => {
                let task = queues.injector.pop_front()?.task;
                Some(Picked { task, worker: 0, found: Found::Injected })
            }
            (None, _) => None,
        }
    }

    /// Takes a task as this worker might, by chance: from any place it could look at, and from
    /// anywhere in that place. The system class still goes first.
    pub(super) fn pick_random(&self, worker: usize, random: &Random) -> Option<Picked> {
        let mut queues = self.queues.lock();
        let take = |queue: &mut VecDeque<Entry>| queue.remove(random.below(queue.len()));
        if let Some(entry) = take(&mut queues.system) {
            return Some(Picked { task: entry.task, worker, found: Found::System });
        }
        let mut places = Vec::with_capacity(queues.workers.len() + 1);
        if !queues.injector.is_empty() {
            places.push(Found::Injected);
        }
        for (victim, own) in queues.workers.iter().enumerate() {
            if own.len() > 0 && victim == worker {
                places.push(Found::Own);
            } else if own.len() > 0 && self.is_stealing {
                places.push(Found::Stolen { victim });
            }
        }
        let found = *places.get(random.below(places.len()))?;
        let entry = match found {
            Found::System | Found::Injected => take(&mut queues.injector),
            Found::Own => queues.workers[worker].take(random),
            Found::Stolen { victim } => queues.steal(victim, worker, random),
        };
        Some(Picked { task: entry?.task, worker, found })
    }

    /// Puts a task whose turn is used up behind all others.
    pub(super) fn requeue(&self, picked: Picked) {
        let mut queues = self.queues.lock();
        let entry = Entry { task: picked.task, order: self.order.fetch_add(1, Ordering::Relaxed) };
        match picked.found {
            Found::System => queues.system.push_back(entry),
            _ => queues.injector.push_back(entry),
        }
    }

    /// No task is run any more.
    pub(super) fn end(&self) {
        let mut queues = self.queues.lock();
        queues.is_over = true;
        let dropped = std::mem::take(&mut queues.blocking);
        drop(queues);
        drop(dropped);
    }
}

impl Own {
    fn take(&mut self, random: &Random) -> Option<Entry> {
        let index = random.below(self.len());
        if index == self.queue.len() {
            return self.slot.take();
        }
        self.queue.remove(index)
    }
}

impl Queues {
    /// One task for the thief's turn, and by chance up to half of the others for its queue.
    fn steal(&mut self, victim: usize, thief: usize, random: &Random) -> Option<Entry> {
        let entry = self.workers[victim].take(random)?;
        let more = random.below(self.workers[victim].queue.len() / 2 + 1);
        for _ in 0..more {
            let moved = self.workers[victim].queue.pop_front()?;
            self.workers[thief].queue.push_back(moved);
        }
        Some(entry)
    }
}

impl Simulated for Hub {
    fn ready(&self, task: TaskPtr) {
        // SAFETY: the task is scheduled, by the caller.
        let is_system = unsafe { task.header() }.system;
        let worker = self.worker();
        let mut queues = self.queues.lock();
        // Relaxed: the lock orders the numbers of one group.
        let entry = Entry { task, order: self.order.fetch_add(1, Ordering::Relaxed) };
        match worker {
            // Nobody runs tasks any more: the entry is forgotten, its task's memory with it.
            _ if queues.is_over => {}
            _ if is_system => queues.system.push_back(entry),
            Some(worker) if self.is_random => {
                let own = &mut queues.workers[worker];
                own.queue.extend(own.slot.replace(entry));
            }
            Some(worker) => queues.workers[worker].queue.push_back(entry),
            None => queues.injector.push_back(entry),
        }
    }

    fn block(&self, run: Box<dyn FnOnce() + Send>) {
        let now_ns = self.now_ns.load(Ordering::Relaxed);
        let end_ns = now_ns.saturating_add(self.block_ns.load(Ordering::Relaxed));
        let mut queues = self.queues.lock();
        if queues.is_over {
            drop(queues);
            return drop(run);
        }
        queues.blocking.push_back(Blocking { end_ns, run });
    }
}
