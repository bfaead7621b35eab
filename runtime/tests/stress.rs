//! Storms on real threads: short-lived handles, timers cancelled as they fire, groups that end
//! under load. Each ends without leftovers.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use turnwheel_runtime::{Cancelled, Completion, Group, Pinning, SpawnErrorKind, Task};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);
const ROUNDS: usize = match (cfg!(miri), cfg!(debug_assertions)) {
    (true, _) => 10,
    (_, true) => 2_000,
    _ => 20_000,
};
const THREADS: usize = if cfg!(miri) { 2 } else { 4 };

/// Counts the living.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn group(name: &str, workers: usize) -> Result<Group, Box<dyn Error>> {
    Ok(Group::builder(name).workers(workers).pinning(Pinning::None).build()?)
}

fn on_threads(run: impl Fn(usize) + Send + Sync + 'static) {
    let run = Arc::new(run);
    let start = Arc::new(Barrier::new(THREADS));
    let threads: Vec<_> = (0..THREADS)
        .map(|index| {
            let (run, start) = (Arc::clone(&run), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                run(index);
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no thread panics");
    }
}

#[test]
fn tasks_whose_handles_are_dropped_at_once_all_end() -> Outcome {
    let group = group("orphans", 2)?;
    let alive = Arc::new(AtomicUsize::new(0));
    let (spawner, count) = (group.clone(), Arc::clone(&alive));
    on_threads(move |_| {
        for round in 0..ROUNDS {
            let task = spawner.spawn(Alive::new(&count)).expect("the group is open");
            let other = task.clone();
            if round % 2 == 0 {
                task.submit(move |_, cx| drop(cx.task())).expect("the task is open");
            }
            drop(task);
            if round % 3 == 0 {
                other.submit(|_, _| {}).expect("a handle is left");
            }
        }
    });
    assert!(group.shutdown()?.is_clean());
    assert_eq!(alive.load(Ordering::Acquire), 0, "every state was dropped once");
    assert_eq!(group.metrics().tasks, 0);
    Ok(())
}

#[test]
fn the_last_two_handles_may_go_on_different_threads() -> Outcome {
    let group = group("pairs", 2)?;
    let alive = Arc::new(AtomicUsize::new(0));
    let tasks: Arc<Vec<Task<Alive>>> = Arc::new(
        (0..ROUNDS).map(|_| group.spawn(Alive::new(&alive))).collect::<Result<Vec<_>, _>>()?,
    );
    let closed: Vec<Completion<()>> = tasks.iter().map(Task::closed).collect();
    let copies: Vec<Vec<Task<Alive>>> = (0..THREADS).map(|_| tasks.to_vec()).collect();
    drop(tasks);
    let threads: Vec<_> = copies.into_iter().map(|copy| thread::spawn(|| drop(copy))).collect();
    for thread in threads {
        thread.join().expect("no thread panics");
    }
    for end in closed {
        end.wait_timeout(PATIENCE)?;
    }
    assert_eq!(alive.load(Ordering::Acquire), 0);
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_timer_cancelled_as_it_fires_runs_or_is_cancelled_and_never_both() -> Outcome {
    let group = group("timers", 2)?;
    let ran = Arc::new(AtomicUsize::new(0));
    let task = group.spawn(())?;
    let (armer, count) = (task.clone(), Arc::clone(&ran));
    let cancelled = Arc::new(AtomicUsize::new(0));
    let won = Arc::clone(&cancelled);
    let rounds = ROUNDS / 10;
    on_threads(move |thread| {
        for round in 0..rounds {
            let count = Arc::clone(&count);
            let delay = Duration::from_micros(((round + thread) % 50) as u64);
            let timer = armer
                .call(move |(), cx| {
                    cx.after(delay, move |(), _| {
                        count.fetch_add(1, Ordering::AcqRel);
                    })
                })
                .wait()
                .expect("the task lives")
                .expect("few timers are pending");
            let met = timer.cancel();
            if matches!(met, Cancelled::BeforeFiring | Cancelled::BeforeRunning) {
                won.fetch_add(1, Ordering::AcqRel);
            }
            assert_eq!(timer.cancel(), Cancelled::TooLate, "there is one winner");
        }
    });
    task.close().wait_timeout(PATIENCE)?;
    let total = ran.load(Ordering::Acquire) + cancelled.load(Ordering::Acquire);
    assert_eq!(total, THREADS * rounds, "each timer had exactly one end");
    assert_eq!(group.metrics().timers, 0);
    group.shutdown()?;
    Ok(())
}

#[test]
fn threads_that_submit_and_end_leave_their_nodes_usable() -> Outcome {
    let group = group("exits", 2)?;
    let task = group.spawn(0_usize)?;
    let threads = if cfg!(miri) { 4 } else { 200 };
    let jobs = if cfg!(miri) { 5 } else { 300 };
    for _ in 0..threads {
        let task = task.clone();
        let submitter = thread::spawn(move || {
            for _ in 0..jobs {
                task.submit_wait(|count, _| *count += 1, PATIENCE)
                    .map_err(|error| error.kind)
                    .expect("room comes in time");
            }
        });
        submitter.join().expect("the submitter does not panic");
    }
    assert_eq!(task.call(|count, _| *count).wait()?, threads * jobs);
    group.shutdown()?;
    Ok(())
}

/// Spawns and submits until the group refuses; answers whether anything else went wrong.
fn load(group: &Group, alive: &Arc<AtomicUsize>, is_loaded: &AtomicBool) {
    let mut tasks = Vec::new();
    loop {
        match group.spawn(Alive::new(alive)) {
            Ok(task) => tasks.push(task),
            Err(refused) => {
                assert_eq!(refused.kind, SpawnErrorKind::GroupClosed);
                return;
            }
        }
        for task in tasks.iter().rev().take(8) {
            // Full or closed: both are answers.
            let _ = task.submit(|_, cx| {
                let _ = cx.run(|_, cx| cx.yield_now());
            });
        }
        tasks.truncate(512);
        is_loaded.store(true, Ordering::Release);
    }
}

#[test]
fn a_group_that_ends_under_load_leaves_no_task_behind() -> Outcome {
    for _ in 0..(ROUNDS / 400).max(2) {
        let group = group("load", 2)?;
        let alive = Arc::new(AtomicUsize::new(0));
        let is_loaded = Arc::new(AtomicBool::new(false));
        let loaders: Vec<_> = (0..THREADS)
            .map(|_| {
                let (group, alive) = (group.clone(), Arc::clone(&alive));
                let is_loaded = Arc::clone(&is_loaded);
                thread::spawn(move || load(&group, &alive, &is_loaded))
            })
            .collect();
        while !is_loaded.load(Ordering::Acquire) {
            thread::yield_now();
        }
        assert!(group.shutdown()?.is_clean());
        for loader in loaders {
            loader.join().expect("a loader meets refusals only");
        }
        assert_eq!(alive.load(Ordering::Acquire), 0, "every state was dropped once");
    }
    Ok(())
}

#[test]
fn many_groups_come_and_go_side_by_side() -> Outcome {
    on_threads(|thread| {
        for round in 0..(ROUNDS / 100).max(2) {
            let name = format!("many-{thread}-{round}");
            let group = group(&name, 1 + round % 3).expect("there are threads");
            let tasks: Vec<_> =
                (0..8).map(|_| group.spawn(0_u32).expect("the group is open")).collect();
            for task in &tasks {
                task.submit(|count, _| *count += 1).expect("the task is open");
            }
            let sum: u32 = tasks
                .iter()
                .map(|task| task.call(|count, _| *count).wait())
                .fold(0, |sum, count| sum + count.expect("the task lives"));
            assert_eq!(sum, 8);
            assert!(group.shutdown().expect("we are not on a worker").is_clean());
        }
    });
    Ok(())
}
