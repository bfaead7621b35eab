//! The elastic pool for closures that block: bounded threads, bounded queue, nothing when idle.

use std::collections::VecDeque;
use std::time::Duration;

use crate::failure::{contain, Failure};
use crate::sync::{Arc, Condvar, Mutex, ThreadBuilder};

/// Threads of one pool, at most: enough to keep a disk or a data base busy, few enough to fit any
/// machine's memory with 2 MiB stacks.
const THREADS_MAX: usize = 128;
/// Closures that wait for a thread, at most; one more is refused.
const QUEUE_MAX: usize = 16_384;
/// Time that a thread waits for the next closure before it ends.
const IDLE_MAX: Duration = Duration::from_secs(5);

type Closure = Box<dyn FnOnce() + Send>;

pub(crate) struct BlockingPool(Arc<Inner>);

struct Inner {
    name: String,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Closure>,
    threads: usize,
    idle: usize,
    made: u64,
    is_closed: bool,
}

impl BlockingPool {
    pub(crate) fn new(group: &str) -> Self {
        Self(Arc::new(Inner {
            name: format!("{group}-blocking"),
            state: Mutex::default(),
            work: Condvar::new(),
        }))
    }

    /// Runs a closure on a thread of the pool.
    pub(crate) fn run(&self, job: Closure) -> Result<(), Failure> {
        let mut state = self.0.state.lock();
        if state.is_closed {
            return Err(Failure::Closed);
        }
        if state.queue.len() >= QUEUE_MAX {
            return Err(Failure::Refused("the queue of the blocking pool is full"));
        }
        state.queue.push_back(job);
        if state.idle >= state.queue.len() {
            drop(state);
            self.0.work.notify_one();
            return Ok(());
        }
        if state.threads < THREADS_MAX {
            let name = format!("{}-{}", self.0.name, state.made);
            let shared = Arc::clone(&self.0);
            let spawned = ThreadBuilder::new().name(name).spawn(move || work(&shared));
            if spawned.is_ok() {
                state.threads += 1;
                state.made += 1;
            } else if state.threads == 0 {
                state.queue.pop_back();
                return Err(Failure::Refused("the system refused a thread to the blocking pool"));
            }
        }
        Ok(())
    }

    /// Refuses further closures; queued ones are dropped, running ones finish.
    pub(crate) fn close(&self) {
        let dropped = {
            let mut state = self.0.state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.queue)
        };
        self.0.work.notify_all();
        for job in dropped {
            contain("dropping a blocking closure", || drop(job));
        }
    }

    /// Threads alive now.
    pub(crate) fn threads(&self) -> usize {
        self.0.state.lock().threads
    }
}

fn work(shared: &Inner) {
    let mut state = shared.state.lock();
    loop {
        if let Some(job) = state.queue.pop_front() {
            drop(state);
            // The closure catches its own panics; `contain` covers the destructors of its
            // leftovers.
            contain("a blocking closure", job);
            state = shared.state.lock();
            continue;
        }
        if state.is_closed {
            break;
        }
        state.idle += 1;
        let timed_out = shared.work.wait_for(&mut state, IDLE_MAX).timed_out();
        state.idle -= 1;
        if timed_out && state.queue.is_empty() {
            break;
        }
    }
    state.threads -= 1;
}
