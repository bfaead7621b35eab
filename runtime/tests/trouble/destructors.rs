//! A panic in each destructor that the runtime calls: contained where no job is to blame for it.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::time::ManualClock;
use turnwheel_runtime::{
    current_task, AnyTask, Completion, Context, Failure, Group, Lifecycle, Mailbox, OnFailure,
    Overflow, Pinning, Task,
};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn group(workers: usize) -> Result<Group, Box<dyn Error>> {
    Ok(Group::builder("destructors").workers(workers).pinning(Pinning::None).build()?)
}

/// Counts its end, and panics.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
        // Also while another panic is under way, where it ends the whole process.
        panic!("planted in a destructor");
    }
}

/// Makes bombs and knows how many went off.
#[derive(Clone, Default)]
struct Bombs {
    made: Arc<AtomicUsize>,
    gone: Arc<AtomicUsize>,
}

impl Bombs {
    fn one(&self) -> Bomb {
        self.made.fetch_add(1, Ordering::AcqRel);
        Bomb(Arc::clone(&self.gone))
    }

    fn all_gone(&self, expected: usize) {
        assert_eq!(self.made.load(Ordering::Acquire), expected);
        assert_eq!(self.gone.load(Ordering::Acquire), expected, "each goes off once");
    }
}

/// Every worker of the group still runs tasks.
fn all_workers_live(group: &Group) -> Outcome {
    let barrier = Arc::new(std::sync::Barrier::new(group.workers()));
    let meetings: Vec<_> = (0..group.workers())
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            Ok(group.spawn(())?.call(move |(), _| barrier.wait().is_leader()))
        })
        .collect::<Result<_, Box<dyn Error>>>()?;
    for met in meetings {
        met.wait_timeout(PATIENCE)?;
    }
    Ok(())
}

/// Blocks the task's worker until the sender is used or dropped.
fn gate<S: Send + 'static>(task: &Task<S>) -> Result<mpsc::Sender<()>, Box<dyn Error>> {
    let (release, held) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    task.submit(move |_, _| {
        begin.send(()).unwrap_or_default();
        held.recv_timeout(PATIENCE).unwrap_or_default();
    })?;
    begun.recv_timeout(PATIENCE)?;
    Ok(release)
}

#[test]
fn jobs_that_are_dropped_unrun_may_panic_and_their_task_ends_in_order() -> Outcome {
    for workers in [1, 2, 4] {
        let group = group(workers)?;
        let bombs = Bombs::default();
        let task = group.spawn(())?;
        let release = gate(&task)?;
        for _ in 0..10 {
            let bomb = bombs.one();
            task.submit(move |(), _| drop(bomb))?;
        }
        let called = {
            let bomb = bombs.one();
            task.call(move |(), _| drop(bomb))
        };
        let end = task.stop();
        release.send(())?;
        end.wait_timeout(PATIENCE)?;
        // Its job is dropped, by a panic; the caller gets that failure.
        let told = called.wait_timeout(PATIENCE);
        assert!(told.is_err_and(|met| matches!(met, Failure::Panicked(_))));
        bombs.all_gone(11);
        all_workers_live(&group)?;
        assert!(group.shutdown()?.is_clean());
    }
    Ok(())
}

#[test]
fn jobs_that_are_displaced_may_panic_and_their_producer_is_none_the_worse() -> Outcome {
    let group = group(1)?;
    let bombs = Bombs::default();
    for overflow in [Overflow::DropOldest, Overflow::CoalesceByKey] {
        let mailbox = Mailbox::bounded(1).overflow(overflow);
        let task = group.task(0_u32).mailbox(mailbox).spawn()?;
        let release = gate(&task)?;
        for number in 1..=10 {
            // The last one is no bomb: it runs.
            let bomb = (number < 10).then(|| bombs.one());
            task.submit_keyed(7, move |last, _| {
                *last = number;
                drop(bomb);
            })?;
        }
        release.send(())?;
        task.close().wait_timeout(PATIENCE)?;
    }
    bombs.all_gone(18);
    all_workers_live(&group)?;
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn subscriptions_that_end_with_their_task_may_panic() -> Outcome {
    for workers in [1, 2] {
        let group = group(workers)?;
        let bombs = Bombs::default();
        let (_never, pending) = completion::<()>();
        let task = group.spawn(())?;
        let planted = bombs.clone();
        let registered = task.call(move |(), cx| {
            let (one, two, three) = (planted.one(), planted.one(), planted.one());
            cx.on_completion(pending, move |(), _, _| drop(one));
            cx.await_interleaved(std::future::pending(), move |(), _, ()| drop(two));
            cx.after(HOUR, move |(), _| drop(three)).is_ok()
        });
        assert!(registered.wait_timeout(PATIENCE)?);
        task.close().wait_timeout(PATIENCE)?;
        bombs.all_gone(3);
        all_workers_live(&group)?;
        assert!(group.shutdown()?.is_clean());
    }
    Ok(())
}

/// Hooks that go off when they are dropped.
struct BadHooks(#[expect(dead_code, reason = "only its end matters")] Bomb);

impl Lifecycle<Bomb> for BadHooks {}

#[test]
fn state_and_hooks_may_both_panic_when_they_are_dropped() -> Outcome {
    for workers in [1, 2] {
        let group = group(workers)?;
        let bombs = Bombs::default();
        let task = group.task(bombs.one()).lifecycle(BadHooks(bombs.one())).spawn()?;
        task.close().wait_timeout(PATIENCE)?;
        bombs.all_gone(2);
        // Also without any receiver.
        drop(group.task(bombs.one()).lifecycle(BadHooks(bombs.one())).spawn()?);
        all_workers_live(&group)?;
        assert!(group.shutdown()?.is_clean());
        bombs.all_gone(4);
    }
    Ok(())
}

/// Reports each failure.
struct Asked(mpsc::Sender<String>);

impl Lifecycle<u32> for Asked {
    fn on_failure(
        &mut self,
        _: &mut u32,
        _: &mut Context<'_, u32>,
        failure: &Failure,
    ) -> OnFailure {
        self.0.send(failure.to_string()).map_or(OnFailure::Stop, |()| OnFailure::Resume)
    }
}

#[test]
fn values_that_a_job_leaves_are_part_of_the_job() -> Outcome {
    let group = group(2)?;
    let bombs = Bombs::default();
    let (ask, asked) = mpsc::channel();
    let task = group.task(0).lifecycle(Asked(ask)).spawn()?;
    // A capture that is dropped at the end of the job.
    let bomb = bombs.one();
    task.submit(move |count, _| {
        *count += 1;
        drop(bomb);
    })?;
    assert!(asked.recv_timeout(PATIENCE)?.contains("planted"));
    // A value without a waiter.
    let release = gate(&task)?;
    let planted = bombs.clone();
    drop(task.call(move |_, _| planted.one()));
    release.send(())?;
    assert!(asked.recv_timeout(PATIENCE)?.contains("planted"));
    // A continuation that was given up.
    let bomb = bombs.one();
    task.submit(move |_, cx| {
        cx.on_completion(Completion::done(()), move |_, _, _| drop(bomb)).cancel();
    })?;
    assert!(asked.recv_timeout(PATIENCE)?.contains("planted"));
    // A continuation whose future panics first: two panics at once would abort.
    let bomb = bombs.one();
    task.submit(move |_, cx| {
        let future = std::future::poll_fn(|_| -> std::task::Poll<()> { panic!("the future") });
        cx.await_interleaved(future, move |_, _, ()| drop(bomb));
    })?;
    assert_eq!(asked.recv_timeout(PATIENCE)?, "panicked: the future");
    assert_eq!(task.call(|count, _| *count).wait_timeout(PATIENCE)?, 1);
    bombs.all_gone(4);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn late_results_of_blocking_closures_may_panic_and_cost_the_pool_no_thread() -> Outcome {
    /// More than the pool has threads.
    const CLOSURES: usize = 200;
    let clock = ManualClock::new();
    let builder = Group::builder("late").workers(1).pinning(Pinning::None);
    let group = builder.clock(Arc::new(clock.clone())).build()?;
    let bombs = Bombs::default();
    for _ in 0..CLOSURES {
        let (release, held) = mpsc::channel::<()>();
        let planted = bombs.clone();
        let late = group.run_blocking(
            move || {
                held.recv_timeout(PATIENCE).unwrap_or_default();
                planted.one()
            },
            Some(HOUR),
        );
        clock.advance(HOUR);
        assert!(late.wait_timeout(PATIENCE).map(drop).is_err_and(|met| met.is_timed_out()));
        release.send(())?;
    }
    let more = group.run_blocking(|| 7, None);
    assert_eq!(more.wait_timeout(PATIENCE)?, 7);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_value_that_no_caller_takes_may_panic_without_ending_a_worker() -> Outcome {
    for workers in [1, 2] {
        let clock = ManualClock::new();
        let builder = Group::builder("held").workers(workers).pinning(Pinning::None);
        let group = builder.clock(Arc::new(clock.clone())).build()?;
        let bombs = Bombs::default();
        let planted = bombs.clone();
        let (tell, told) = mpsc::channel();
        let done = group.run_blocking(
            move || {
                tell.send(()).unwrap_or_default();
                planted.one()
            },
            Some(HOUR),
        );
        told.recv_timeout(PATIENCE)?;
        while !done.is_done() {
            std::thread::yield_now();
        }
        // No caller takes the value: it goes with the last reference, here or in the pool.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(done)));
        let later = group.sleep(2 * HOUR);
        clock.advance(2 * HOUR);
        later.wait_timeout(PATIENCE)?;
        all_workers_live(&group)?;
        assert!(group.shutdown()?.is_clean());
        bombs.all_gone(1);
    }
    Ok(())
}

#[test]
fn closures_that_are_dropped_at_the_end_of_the_pool_may_panic() -> Outcome {
    /// More than the pool has threads, so that some are queued when it ends.
    const CLOSURES: usize = 200;
    let group = group(1)?;
    let bombs = Bombs::default();
    let door = Door::default();
    for _ in 0..CLOSURES {
        let (bomb, door) = (bombs.one(), door.clone());
        drop(group.run_blocking(
            move || {
                door.wait();
                drop(bomb);
            },
            None,
        ));
    }
    assert!(group.shutdown()?.is_clean());
    door.open();
    Ok(())
}

/// A door that many wait at.
#[derive(Clone, Default)]
struct Door(Arc<(std::sync::Mutex<bool>, std::sync::Condvar)>);

impl Door {
    fn wait(&self) {
        let mut is_open = self.0 .0.lock().expect("nobody panics at the door");
        while !*is_open {
            is_open = self.0 .1.wait(is_open).expect("nobody panics at the door");
        }
    }

    fn open(&self) {
        *self.0 .0.lock().expect("nobody panics at the door") = true;
        self.0 .1.notify_all();
    }
}

/// An error that tells at its end which task's turn runs.
#[derive(Debug)]
struct Farewell(mpsc::Sender<Option<AnyTask>>);

impl std::fmt::Display for Farewell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("planted in a hook")
    }
}

impl Error for Farewell {}

impl Drop for Farewell {
    fn drop(&mut self) {
        let _ = self.0.send(current_task());
    }
}

/// Fails at the start, once the last handle is gone.
struct FailsAlone(mpsc::Receiver<()>, mpsc::Sender<Option<AnyTask>>);

impl Lifecycle<()> for FailsAlone {
    fn starting(&mut self, (): &mut (), _: &mut Context<'_, ()>) -> Result<(), Failure> {
        let _ = self.0.recv_timeout(PATIENCE);
        Err(Failure::error(Farewell(self.1.clone())))
    }
}

#[test]
fn destructors_get_no_handle_to_a_task_whose_memory_is_freed() -> Outcome {
    let group = group(1)?;
    let (released, held) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    drop(group.task(()).lifecycle(FailsAlone(held, tell)).spawn()?);
    released.send(())?;
    // The error is the failure of the task, whose memory goes with its last turn.
    let current = told.recv_timeout(PATIENCE)?;
    assert!(current.is_none(), "a handle to freed memory");
    all_workers_live(&group)?;
    assert!(group.shutdown()?.is_clean());
    Ok(())
}
