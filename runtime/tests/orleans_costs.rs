//! Costs of tasks: memory, allocations, turns, threads; in simulation for exact numbers and on 1, 2
//! and 4 workers for threads.

mod at_rest;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::task::{Poll, Waker};

use at_rest::{build, is_at_rest, on_workers, wait_until, work_done, PATIENCE};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::{EventKind, Sim};
use turnwheel_runtime::{Condition, ConditionMode, Context, Group, Pinning, Task};

// --- memory ---

thread_local! {
    /// Whether the allocations of this thread count.
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
    /// Allocations of this thread, and bytes.
    static MINE: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Allocations of all threads that count.
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// Counts, and leaves the work to the system's allocator.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(bytes: usize) {
    // A thread whose locals are dropped does not count.
    if IS_COUNTED.try_with(Cell::get).unwrap_or(false) {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
    }
    let _ = MINE.try_with(|mine| mine.set((mine.get().0 + 1, mine.get().1 + bytes)));
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Bytes of a cell without its state, as documented at `Group::spawn`.
const CELL_BYTES: usize = 128;
/// Bytes to which a cell is rounded up.
const LINE_BYTES: usize = 64;
/// Bytes that an idle task may cost besides its cell: its place in the list of tasks, which grows
/// by doubling.
const LISTED_BYTES_MAX: usize = 112;

/// A state of a size that no other test has, so that no used memory is at hand.
struct Rare(#[expect(dead_code, reason = "its size is what counts")] [u64; 40]);
const RARE_BYTES: usize = 320;

fn cell_bytes<S: Send + 'static>(group: &Group, state: S) -> usize {
    let task = group.spawn(state).expect("the group runs");
    let listed = group.tasks().into_iter().find(|info| info.id == task.id());
    listed.expect("it lives").bytes
}

// O-004
#[test]
fn an_idle_task_is_one_small_cell_and_nothing_else() {
    if cfg!(turnwheel_checked) {
        // There it has a mark in it, and its memory is not reused.
        return;
    }
    let sim = Sim::fifo();
    let group = sim.group("cpu");
    let rounded = |state: usize| (CELL_BYTES + state).next_multiple_of(LINE_BYTES);
    assert_eq!(cell_bytes(&group, ()), rounded(0));
    assert_eq!(cell_bytes(&group, [0_u64; 6]), rounded(48));
    assert_eq!(cell_bytes(&group, [0_u64; 7]), rounded(56));
    assert_eq!(cell_bytes(&group, [0_u8; 1_000]), rounded(1_000));
    let group = build("cells", 1);
    let mut tasks = Vec::with_capacity(IDLE_TASKS);
    let before = MINE.get().1;
    for _ in 0..IDLE_TASKS {
        tasks.push(group.spawn(Rare([0; 40])).unwrap());
    }
    let bytes = (MINE.get().1 - before) / IDLE_TASKS;
    let most = rounded(RARE_BYTES) + LISTED_BYTES_MAX;
    assert!((rounded(RARE_BYTES)..=most).contains(&bytes), "{bytes} bytes a task");
    drop(tasks);
    assert!(group.shutdown().unwrap().is_clean());
}

// --- waking ---

/// Wakes before the count begins: the first ones make histograms and queues.
const WARM_UP: usize = 5_000;
/// Wakes at the end of which the count ends.
const TOTAL: usize = 15_000;
/// Tasks in one block of the queue for outside submissions and used-up turns.
const BLOCK_TASKS: usize = 63;
/// Allocations of a worker when it first steals, or first waits for a lock.
const ONCE_PER_WORKER: usize = 4;

/// Checks that the workers have allocated no more than the queue's blocks and their own first use,
/// which is small against ten thousand wakes.
fn assert_free(group: &Group, hits: &Hits, what: &str) {
    let requeues: u64 = group.metrics().workers.iter().map(|worker| worker.requeues).sum();
    let blocks = requeues as usize / BLOCK_TASKS + 1;
    let (most, seen) = (blocks + ONCE_PER_WORKER * group.workers(), hits.allocations());
    assert!(most < 1_000, "{requeues} requeues: the bound says nothing");
    assert!(seen <= most, "{what}: {seen} allocations, at most {most} for {blocks} blocks");
}

/// Hits of two tasks that wake each other, and how many allocations there were by the first and by
/// the last hit that count.
#[derive(Default)]
struct Hits {
    count: AtomicUsize,
    marks: [AtomicUsize; 2],
}

impl Hits {
    /// One hit; answers whether it was the last one, or came after it.
    fn hit(&self) -> bool {
        let hits = self.count.fetch_add(1, Ordering::SeqCst);
        for (mark, at) in self.marks.iter().zip([WARM_UP, TOTAL]) {
            if hits == at {
                mark.store(ALLOCATIONS.load(Ordering::SeqCst), Ordering::SeqCst);
            }
        }
        hits >= TOTAL
    }

    fn allocations(&self) -> usize {
        let [start, end] = [0, 1].map(|mark: usize| self.marks[mark].load(Ordering::SeqCst));
        assert!(start > 0, "making the tasks allocates");
        end - start
    }
}

/// A future that hits in its turn and wakes the other one.
async fn player(me: usize, hits: Arc<Hits>, wakers: Arc<[Mutex<Option<Waker>>; 2]>) {
    poll_fn(|poll| {
        let own = || wakers[me].lock().expect("nobody panics while writing");
        let is_known = own().as_ref().is_some_and(|waker| waker.will_wake(poll.waker()));
        if !is_known {
            *own() = Some(poll.waker().clone());
        }
        let so_far = hits.count.load(Ordering::SeqCst);
        if so_far < TOTAL && so_far % 2 != me {
            return Poll::Pending;
        }
        let is_over = hits.hit();
        let other = wakers[1 - me].lock().expect("nobody panics while writing");
        if let Some(waker) = &*other {
            waker.wake_by_ref();
        }
        if is_over {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Two futures in two tasks, or in the same one.
fn wake_futures(group: &Group, is_same: bool) -> Arc<Hits> {
    let (hits, wakers) = (Arc::<Hits>::default(), Arc::default());
    let first = group.spawn(()).expect("the group runs");
    let second = if is_same { first.clone() } else { group.spawn(()).expect("the group runs") };
    let over = [first, second].into_iter().enumerate().map(|(me, task)| {
        let (completer, over) = completion();
        let future = player(me, Arc::clone(&hits), Arc::clone(&wakers));
        let start = move |(): &mut (), cx: &mut Context<'_, ()>| {
            let then = move |(): &mut (), cx: &mut Context<'_, ()>, ()| {
                assert!(completer.complete(cx.task()).is_ok());
            };
            cx.await_interleaved(future, then);
        };
        assert!(task.submit(start).is_ok(), "room");
        over
    });
    for over in over.collect::<Vec<_>>() {
        over.wait_timeout(PATIENCE).expect("it ends");
    }
    hits
}

type Conditions = Arc<[OnceLock<Condition>; 2]>;

/// Two tasks that signal each other.
fn wake_conditions(group: &Group) -> Arc<Hits> {
    let (hits, conditions) = (Arc::<Hits>::default(), Conditions::default());
    let tasks = [0, 1].map(|me| {
        let task = group.spawn(()).expect("the group runs");
        let (hits, conditions) = (Arc::clone(&hits), Arc::clone(&conditions));
        let registered = task.call(move |(), cx| {
            let others = Arc::clone(&conditions);
            let condition = cx.condition(ConditionMode::Counting, move |(), _| {
                if !hits.hit() {
                    others[1 - me].get().expect("both are registered").signal();
                }
            });
            assert!(conditions[me].set(condition).is_ok());
        });
        registered.wait_timeout(PATIENCE).expect("it lives");
        task
    });
    conditions[0].get().expect("it was registered").signal();
    wait_until("all signals", || hits.count.load(Ordering::SeqCst) > TOTAL);
    drop(tasks);
    hits
}

/// A future that this thread wakes; answers the allocations of this thread.
fn wake_from_outside(group: &Group) -> (Arc<Hits>, usize) {
    let (hits, slot) = (Arc::<Hits>::default(), Arc::new(OnceLock::<Waker>::new()));
    let (task, (completer, over)) = (group.spawn(()).expect("the group runs"), completion());
    let (counted, waker) = (Arc::clone(&hits), Arc::clone(&slot));
    let future = poll_fn(move |poll| {
        let _ = waker.set(poll.waker().clone());
        if counted.hit() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    });
    let start = move |(): &mut (), cx: &mut Context<'_, ()>| {
        cx.await_interleaved(future, move |(), _, ()| assert!(completer.complete(()).is_ok()));
    };
    assert!(task.submit(start).is_ok(), "room");
    wait_until("the first poll", || hits.count.load(Ordering::SeqCst) > 0);
    let waker = slot.get().expect("it was polled");
    let before = MINE.get().0;
    for hit in 1..=TOTAL {
        waker.wake_by_ref();
        wait_until("the next poll", || hits.count.load(Ordering::SeqCst) > hit);
    }
    let allocations = MINE.get().0 - before;
    over.wait_timeout(PATIENCE).expect("it ends");
    (hits, allocations)
}

// O-027
#[test]
fn a_wake_allocates_nothing() {
    for workers in [1, 2, 4] {
        let group = Group::builder("wakes").workers(workers).pinning(Pinning::None);
        // Only workers of this test count.
        let group = group.on_worker_start(|_| IS_COUNTED.set(true)).build().unwrap();
        assert_free(&group, &wake_futures(&group, false), "from task to task");
        assert_free(&group, &wake_conditions(&group), "by a condition");
        let (hits, outside) = wake_from_outside(&group);
        assert_free(&group, &hits, "woken from outside");
        assert!(
            outside <= TOTAL / BLOCK_TASKS + ONCE_PER_WORKER,
            "{outside} by the thread outside"
        );
        assert_free(&group, &wake_futures(&group, true), "within a task");
        assert!(group.shutdown().unwrap().is_clean());
    }
}

// --- idle tasks ---

const IDLE_TASKS: usize = 100_000;

/// Tasks that have run once and wait for more.
fn idle_tasks(group: &Group, count: usize) -> Vec<Task<u32>> {
    let tasks: Vec<_> =
        (0..count).map(|_| group.task(0).class("idle").spawn().expect("the group runs")).collect();
    for task in &tasks {
        assert!(task.submit(|count, _| *count += 1).is_ok(), "room");
    }
    tasks
}

// O-010
#[test]
fn the_cost_of_a_job_does_not_depend_on_the_number_of_idle_tasks() {
    let run = |idle| {
        let sim = Sim::builder().seed(10).workers(3).build();
        let group = sim.group("cpu");
        let idle = idle_tasks(&group, idle);
        sim.run_until_idle();
        let tasks: Vec<_> = (0..10).map(|_| group.spawn(0).unwrap()).collect();
        sim.record();
        for number in 0..200 {
            tasks[number % 10].submit(|count, _| *count += 1).unwrap();
        }
        let turns = sim.run_until_idle();
        let events = sim.events();
        drop(idle);
        let jobs = events.count(|kind| matches!(kind, EventKind::Job { .. }));
        (jobs, events.count(|kind| *kind == EventKind::Ready), turns)
    };
    let (jobs, ready, turns) = run(IDLE_TASKS);
    assert_eq!((jobs, ready), (200, 10));
    // The length of turns is random; but an idle task has no turns.
    assert!(turns <= 200, "{turns}");
    assert_eq!(run(0).0, jobs);
    on_workers("costs", |group| {
        let idle = idle_tasks(group, IDLE_TASKS);
        wait_until("all idle", || is_at_rest(group));
        let task = group.spawn(()).unwrap();
        let before = work_done(group);
        for _ in 0..1_000 {
            task.call(|(), _| ()).wait_timeout(PATIENCE).unwrap();
        }
        wait_until("all idle again", || is_at_rest(group));
        let after = work_done(group);
        assert_eq!(after.1 - before.1, 1_000, "jobs");
        assert!(after.0 - before.0 <= 1_000, "{} turns", after.0 - before.0);
        assert_eq!(idle.len(), IDLE_TASKS);
    });
}

// --- threads ---

/// Threads of this process by the beginning of their name, without those of its blocking pool.
#[cfg(target_os = "linux")]
fn threads(group: &str) -> Option<usize> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux has it").flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let (own, blocking) = (format!("{group}-"), format!("{group}-b"));
    Some(names.filter(|name| name.starts_with(&own) && !name.starts_with(&blocking)).count())
}

/// Not available.
#[cfg(not(target_os = "linux"))]
fn threads(_: &str) -> Option<usize> {
    None
}

// O-009
#[test]
fn a_storm_of_blocking_work_changes_the_number_of_workers_never() {
    const STORM: usize = 1_000;
    for workers in [1, 2, 4] {
        let (name, started) = (format!("storm{workers}"), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&started);
        let group = Group::builder(&name).workers(workers).pinning(Pinning::None);
        let group = group.on_worker_start(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let group = group.build().unwrap();
        // The workers and the watchdog; each names itself when it begins.
        let is_whole = || threads(&name).is_none_or(|count| count == workers + 1);
        wait_until("all threads begun", is_whole);
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock().unwrap();
        let storm: Vec<_> = (0..STORM)
            .map(|_| {
                let gate = Arc::clone(&gate);
                group.run_blocking(move || drop(gate.lock()), None)
            })
            .collect();
        wait_until("threads that block", || group.metrics().blocking_threads > workers);
        assert!(is_whole(), "{:?} threads", threads(&name));
        // The workers block too, all at the same time, and no further thread replaces them.
        let meeting = Arc::new(Barrier::new(workers + 1));
        for _ in 0..workers {
            let meeting = Arc::clone(&meeting);
            let meet = move |(): &mut (), _: &mut Context<'_, ()>| {
                meeting.wait();
                meeting.wait();
            };
            group.spawn(()).unwrap().submit(meet).unwrap();
        }
        meeting.wait();
        assert!(is_whole(), "{:?} threads", threads(&name));
        meeting.wait();
        drop(closed);
        for blocked in storm {
            blocked.wait_timeout(PATIENCE).unwrap();
        }
        assert!(is_whole(), "{:?} threads", threads(&name));
        assert_eq!(started.load(Ordering::SeqCst), workers, "no worker was ever added");
        assert!(group.shutdown().unwrap().is_clean());
    }
}
