//! The live tasks of a group: for listings, ids and an orderly shutdown.

use std::ptr::NonNull;

use crate::sync::{fence, keeps, AtomicU32, AtomicUsize, Condvar, Mutex, Ordering, Step};
use crate::task::{AnyTask, Header, TaskPtr};

/// Independent parts of the list, so that workers rarely meet. A power of two.
const SHARDS: usize = 16;
/// Bits of a place that name its shard.
const SHARD_BITS: u32 = SHARDS.trailing_zeros();

#[derive(Debug)]
pub(crate) struct Registry {
    shards: Box<[crossbeam_utils::CachePadded<Mutex<Shard>>]>,
    next: AtomicUsize,
    /// Tasks that have not ended.
    live: AtomicUsize,
    /// Number of waiters in `wait_empty` to notify.
    waiters: AtomicU32,
    empty: (Mutex<()>, Condvar),
}

#[derive(Debug, Default)]
struct Shard {
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// Tasks of each class, by class index: counted under the shard's lock.
    by_class: Vec<u32>,
    is_closed: bool,
}

#[derive(Debug)]
struct Entry {
    /// Only dereferenced under the shard's lock, which a task takes before it ends.
    task: Option<TaskPtr>,
    generation: u32,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Default::default()).collect(),
            next: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
            waiters: AtomicU32::new(0),
            empty: (Mutex::new(()), Condvar::new()),
        }
    }

    /// Registers a task, unless the list is closed.
    pub(crate) fn add(&self, header: &Header, shard: Option<usize>) -> Result<(), Closed> {
        let shard = shard.unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed));
        let shard = shard % SHARDS;
        let mut list = self.shards[shard].lock();
        if list.is_closed {
            return Err(Closed);
        }
        let task = Some(TaskPtr(NonNull::from(header)));
        let index = if let Some(index) = list.free.pop() {
            list.entries[index as usize].task = task;
            index
        } else {
            list.entries.push(Entry { task, generation: 0 });
            (list.entries.len() - 1) as u32
        };
        let class = header.class().index();
        if list.by_class.len() <= class {
            list.by_class.resize(class + 1, 0);
        }
        list.by_class[class] += 1;
        self.live.fetch_add(1, Ordering::Relaxed);
        header.registered.store((index << SHARD_BITS) | shard as u32, Ordering::Release);
        Ok(())
    }

    /// Removes a task that is about to end; from then on it is not found here.
    pub(crate) fn remove(&self, header: &Header) {
        let place = header.registered.load(Ordering::Relaxed);
        let mut list = self.shards[place as usize % SHARDS].lock();
        let index = place >> SHARD_BITS;
        let entry = &mut list.entries[index as usize];
        debug_assert!(entry.task.is_some(), "a task is removed once");
        entry.task = None;
        entry.generation = entry.generation.wrapping_add(1);
        list.free.push(index);
        list.by_class[header.class().index()] -= 1;
    }

    /// Counts a removed task as ended, after its futures are settled.
    pub(crate) fn ended(&self) {
        let before = self.live.fetch_sub(1, Ordering::AcqRel);
        if before > 1 {
            return;
        }
        // Pairs with the fence in `wait_empty`: either we see the waiter, or it sees us ended.
        fence(Ordering::SeqCst);
        if self.waiters.load(Ordering::Relaxed) > 0 {
            let _lock = keeps(Step::EndedLock).then(|| self.empty.0.lock());
            self.empty.1.notify_all();
        }
    }

    /// Waits until every task has ended. Returns whether that happened in time.
    pub(crate) fn wait_empty(&self, limit: std::time::Duration) -> bool {
        let deadline = crate::sync::deadline(limit);
        self.waiters.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `ended`.
        fence(Ordering::SeqCst);
        let mut lock = self.empty.0.lock();
        while self.live.load(Ordering::SeqCst) > 0 {
            if self.empty.1.wait_until(&mut lock, deadline).timed_out() {
                break;
            }
        }
        drop(lock);
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        self.live() == 0
    }

    /// No task is added from now on.
    pub(crate) fn close(&self) {
        for shard in &self.shards {
            shard.lock().is_closed = true;
        }
    }

    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::SeqCst)
    }

    /// How many tasks each class has, by its index; at most so many classes. One shard is locked at
    /// a time.
    pub(crate) fn by_class(&self, classes: usize) -> Vec<usize> {
        let mut counts = vec![0; classes];
        for shard in &self.shards {
            for (count, live) in counts.iter_mut().zip(&shard.lock().by_class) {
                *count += *live as usize;
            }
        }
        counts
    }

    /// A number for a task: place and generation.
    pub(crate) fn id_of(&self, header: &Header) -> u64 {
        let place = header.registered.load(Ordering::Acquire);
        let list = self.shards[place as usize % SHARDS].lock();
        let generation = list.entries.get((place >> SHARD_BITS) as usize);
        (u64::from(generation.map_or(0, |entry| entry.generation)) << 32) | u64::from(place)
    }

    /// References to all live tasks; one shard is locked at a time.
    pub(crate) fn all(&self) -> Vec<AnyTask> {
        let mut tasks = Vec::new();
        for shard in &self.shards {
            let list = shard.lock();
            let live = list.entries.iter().filter_map(|entry| entry.task.as_ref());
            // SAFETY: registered, and the lock is held.
            tasks.extend(live.map(|task| unsafe { AnyTask::registered(task.0) }));
        }
        tasks
    }

    /// A reference to the task with this header if it is registered.
    pub(crate) fn find(&self, header: *const Header) -> Option<AnyTask> {
        for shard in &self.shards {
            let list = shard.lock();
            let mut live = list.entries.iter().filter_map(|entry| entry.task.as_ref());
            if let Some(task) = live.find(|task| std::ptr::eq(task.0.as_ptr(), header)) {
                // SAFETY: registered, and the lock is held.
                return Some(unsafe { AnyTask::registered(task.0) });
            }
        }
        None
    }
}

/// The group takes no more tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closed;

#[cfg(test)]
#[path = "../../tests/unit/registry.rs"]
mod tests;
