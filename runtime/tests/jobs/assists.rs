//! Threads of an executor that run the turn for whose answer they wait.

use std::error::Error;
use std::future::Future;
use std::pin::{pin, Pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::task::{Context as PollContext, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use turnwheel_runtime::internal::PerWorker;
use turnwheel_runtime::limits::HOSTED_TURNS_MAX;
use turnwheel_runtime::{
    Completion, Context, Failure, Group, GroupBuilder, HostedWorker, ShutdownError, Task,
};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(30);

fn builder() -> GroupBuilder {
    Group::builder("hosted").workers(1)
}

/// A group with its worker, polled once: it is parked, and the worker of this thread.
fn polled() -> Result<(Group, HostedWorker), Box<dyn Error>> {
    let (group, mut workers) = builder().build_hosted()?;
    let mut worker = workers.remove(0);
    assert!(poll(&mut worker).is_pending());
    Ok((group, worker))
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_with(future, Waker::noop())
}

fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut PollContext::from_waker(waker))
}

/// The answer, if the first poll gives it.
fn at_once<T>(mut answer: Completion<T>) -> Option<Result<T, Failure>> {
    match poll(&mut answer) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// Counts how often it wakes.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

#[test]
fn first_poll_of_an_answer_runs_the_turn_on_the_askers_thread() -> Outcome {
    let (group, worker) = polled()?;
    let task = group.spawn(0_u32)?;
    task.submit(|count, _| *count = 5)?;
    let here = thread::current().id();
    let answer = task.call(move |count, cx| {
        cx.run(|count, _| *count += 10).expect("there is room");
        (*count, thread::current().id() == here)
    });
    let (count, is_here) = at_once(answer).expect("no poll of the worker came before")?;
    assert!(count == 5 && is_here, "behind the earlier job, on this thread");
    assert_eq!(at_once(task.call(|count, _| *count)).expect("at once")?, 15);
    assert!(!group.is_current(), "the thread is a worker during turns alone");
    drop(worker);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn some_answers_are_left_to_the_executor() -> Outcome {
    const QUESTIONS: usize = 1_000;
    let (group, mut worker) = polled()?;
    let task = group.spawn(0_usize)?;
    let mut left = 0;
    for asked in 1..=QUESTIONS {
        let mut answer = task.call(|count, _| {
            *count += 1;
            *count
        });
        let answer = match poll(&mut answer) {
            Poll::Ready(answer) => answer,
            Poll::Pending => {
                left += 1;
                assert!(poll(&mut worker).is_pending());
                at_once(answer).expect("the worker was polled")
            }
        };
        assert_eq!(answer?, asked);
    }
    assert!((QUESTIONS / 100..QUESTIONS / 50).contains(&left), "{left} of {QUESTIONS}");
    drop(worker);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn turn_that_polls_an_answer_runs_no_other_turn_within_itself() -> Outcome {
    let (group, mut worker) = polled()?;
    let (inner, outer) = (group.spawn(())?, group.spawn(())?);
    let within = outer.call(move |(), _| {
        let mut answer = inner.call(|(), _| ());
        poll(&mut answer).is_pending()
    });
    assert!(at_once(within).expect("at once")?);
    assert!(poll(&mut worker).is_pending());
    drop(worker);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn job_that_panics_fails_its_task_and_not_the_asker() -> Outcome {
    let (group, worker) = polled()?;
    let task = group.spawn(())?;
    let answer = at_once(task.call(|(), _| -> u32 { panic!("on purpose") }));
    assert!(matches!(answer, Some(Err(Failure::Panicked(_)))), "{answer:?}");
    let healthy = group.spawn(7)?;
    assert_eq!(at_once(healthy.call(|state, _| *state)).expect("at once")?, 7);
    drop(worker);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn worker_dropped_inside_a_turn_that_its_thread_assists_goes_to_its_own_thread() -> Outcome {
    let (group, worker) = polled()?;
    let task = group.spawn(())?;
    let worker = Arc::new(Mutex::new(Some(worker)));
    let dropped = task.call(move |(), _| drop(worker.lock().expect("no panic").take()));
    at_once(dropped).expect("at once")?;
    let name = task.call(|(), _| thread::current().name().map(str::to_owned));
    assert!(name.wait_timeout(PATIENCE)?.expect("a name").starts_with("hosted-"));
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn poll_of_a_worker_that_is_assisted_is_made_up_for() -> Outcome {
    let (group, worker) = polled()?;
    let (task, other) = (group.spawn(())?, group.spawn(())?);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let (lend, borrowed) = mpsc::channel();
    let (give_back, got_back) = mpsc::channel();
    let poller = thread::spawn(move || {
        let mut worker: HostedWorker = borrowed.recv_timeout(PATIENCE).expect("it comes");
        assert!(poll_with(&mut worker, &waker).is_pending(), "another thread has the seat");
        give_back.send(worker).expect("the turn listens");
    });
    let submitter = other.clone();
    let polled_within = task.call(move |(), _| {
        lend.send(worker).expect("the thread listens");
        let worker = got_back.recv_timeout(PATIENCE).expect("it comes back");
        submitter.submit(|(), _| ()).expect("it is open");
        worker
    });
    let mut worker = at_once(polled_within).expect("at once")?;
    poller.join().expect("no panic");
    assert!(wakes.0.load(Ordering::Acquire) > 0, "the executor polls it again");
    assert!(poll(&mut worker).is_pending());
    assert_eq!(other.queue_len(), 0, "its job has run");
    drop(worker);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn job_offered_by_a_thread_that_ends_is_run_by_the_next_poll() -> Outcome {
    let (group, worker) = polled()?;
    let task: Task<u32> = group.spawn(0)?;
    let offering = task.clone();
    let mut worker = thread::spawn(move || {
        let mut worker = worker;
        assert!(poll(&mut worker).is_pending());
        offering.submit(|count, _| *count += 1).expect("it is open");
        worker
    })
    .join()
    .expect("no panic");
    assert!(poll(&mut worker).is_pending());
    assert_eq!(at_once(task.call(|count, _| *count)).expect("at once")?, 1);
    drop(worker);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn shutdown_waits_for_the_turn_that_a_thread_assists() -> Outcome {
    let (group, worker) = polled()?;
    let task = group.spawn(())?;
    let ending = group.clone();
    let answer = task.call(move |(), _| ending.shutdown_later(PATIENCE));
    // The workers wait for the end of this very turn, and go to a thread then.
    let ended = at_once(answer).expect("at once")?;
    assert!(ended.wait_timeout(PATIENCE)?.is_clean());
    drop(worker);
    Ok(())
}

#[test]
fn long_turn_of_a_thread_that_assists_is_reported() -> Outcome {
    let (tell, told) = mpsc::channel();
    let (group, mut workers) = builder()
        .on_long_turn(Duration::from_millis(20), move |task, _| {
            // The test may be over.
            let _ = tell.send(task.name());
        })
        .build_hosted()?;
    assert!(poll(&mut workers[0]).is_pending());
    let task = group.task(()).name("long").spawn()?;
    let reported = task.call(move |(), _| told.recv_timeout(PATIENCE));
    assert_eq!(at_once(reported).expect("at once")??, "long");
    drop(workers);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

/// Panics when it wakes.
struct BadWaker;

impl Wake for BadWaker {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

#[test]
fn waker_of_an_executor_that_panics_loses_no_worker() -> Outcome {
    /// More turns than one poll has.
    const TURNS: u32 = 2 * HOSTED_TURNS_MAX;
    fn again(turns: &mut u32, cx: &mut Context<'_, u32>) {
        *turns += 1;
        if *turns < TURNS {
            cx.submit(again).expect("there is room");
            cx.yield_now();
        }
    }
    let (group, mut worker) = polled()?;
    let task = group.spawn(0)?;
    task.submit(again)?;
    assert!(poll_with(&mut worker, &Waker::from(Arc::new(BadWaker))).is_pending());
    // A poll on a slow machine ends by its time, and has one turn at least.
    for _ in 0..TURNS {
        assert!(poll(&mut worker).is_pending());
    }
    assert_eq!(at_once(task.call(|turns, _| *turns)).expect("at once")?, TURNS);
    drop(worker);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn waker_of_an_executor_that_panics_hurts_no_thread_that_submits_a_job() -> Outcome {
    let (group, mut worker) = polled()?;
    assert!(poll_with(&mut worker, &Waker::from(Arc::new(BadWaker))).is_pending());
    let task = group.spawn(0_u32)?;
    let submitting = task.clone();
    let submitted = thread::spawn(move || submitting.submit(|count, _| *count += 1));
    assert!(submitted.join().expect("the panic is the executor's own").is_ok());
    assert!(poll(&mut worker).is_pending());
    assert_eq!(at_once(task.call(|count, _| *count)).expect("at once")?, 1);
    drop(worker);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn thread_serves_the_next_group_when_its_own_has_ended() -> Outcome {
    for _ in 0..3 {
        let (group, worker) = polled()?;
        let task = group.spawn(1)?;
        assert_eq!(at_once(task.call(|state, _| *state)).expect("at once")?, 1);
        drop(worker);
        assert!(group.shutdown()?.is_clean());
    }
    // Of two live groups it serves the first.
    let ((one, of_one), (two, mut of_two)) = (polled()?, polled()?);
    let (task, other) = (one.spawn(1)?, two.spawn(2)?);
    assert_eq!(at_once(task.call(|state, _| *state)).expect("at once")?, 1);
    let mut answer = pin!(other.call(|state, _| *state));
    assert!(poll(&mut answer).is_pending());
    assert!(poll(&mut of_two).is_pending());
    assert!(matches!(poll(&mut answer), Poll::Ready(Ok(2))));
    drop((of_one, of_two));
    assert!(one.shutdown()?.is_clean());
    assert!(two.shutdown()?.is_clean());
    Ok(())
}

/// Waits for the answer to a question when it is dropped.
struct AsksAtItsEnd {
    task: Task<u32>,
    told: mpsc::Sender<Result<u32, Failure>>,
}

impl Drop for AsksAtItsEnd {
    fn drop(&mut self) {
        let asked = self.task.call(|count, _| {
            *count += 1;
            *count
        });
        // The test may be over.
        let _ = self.told.send(asked.wait_timeout(PATIENCE));
    }
}

#[test]
fn destructor_that_asks_while_its_thread_panics_is_answered() -> Outcome {
    let (group, worker) = polled()?;
    let task = group.spawn(0)?;
    let (told, answers) = mpsc::channel();
    let asks = AsksAtItsEnd { task: task.clone(), told };
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _asks = asks;
        // A job of another task that panics meanwhile is contained, as ever.
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(answers.try_recv()??, 1);
    assert_eq!(at_once(task.call(|count, _| *count)).expect("at once")?, 1);
    drop(worker);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

thread_local! {
    static ASKS: std::cell::RefCell<Option<AsksAtItsEnd>> = const { std::cell::RefCell::new(None) };
}

#[test]
fn destructor_of_a_thread_local_that_asks_is_answered() -> Outcome {
    // The thread's own worker is a thread-local, too: it is made before the other, or after it.
    for is_first in [true, false] {
        let (group, mut workers) = builder().build_hosted()?;
        let mut worker = workers.remove(0);
        let task = group.spawn(0)?;
        let (told, answers) = mpsc::channel();
        let asks = AsksAtItsEnd { task: task.clone(), told };
        let (give_back, got_back) = mpsc::channel();
        let thread = thread::spawn(move || {
            if is_first {
                assert!(poll(&mut worker).is_pending());
            }
            ASKS.with(|place| *place.borrow_mut() = Some(asks));
            if !is_first {
                assert!(poll(&mut worker).is_pending());
            }
            give_back.send(worker).expect("the test listens");
        });
        // On a thread of its own, it answers where the other has no worker any more.
        drop(got_back.recv_timeout(PATIENCE)?);
        assert_eq!(answers.recv_timeout(PATIENCE)??, 1);
        thread.join().expect("no panic");
        assert!(group.shutdown()?.is_clean());
    }
    Ok(())
}

#[test]
fn waker_that_waits_for_an_answer_while_another_one_is_awaited_gets_it() -> Outcome {
    struct Asks(Task<u32>, AtomicUsize);
    impl Wake for Asks {
        fn wake(self: Arc<Self>) {
            let answer = at_once(self.0.call(|count, _| *count)).expect("at once");
            assert_eq!(answer.expect("it lives"), 7);
            self.1.fetch_add(1, Ordering::AcqRel);
        }
    }
    let (group, mut worker) = polled()?;
    let (asked, later) = (group.spawn(7_u32)?, group.spawn(Vec::new())?);
    let asks = Arc::new(Asks(asked, AtomicUsize::new(0)));
    // An answer that its first poll does not give: its job is kept for the next turn.
    let (completer, held) = turnwheel_runtime::completion::completion::<u32>();
    later.submit(move |_: &mut Vec<u32>, cx| {
        cx.on_completion(held, |all, _, value| all.push(value.expect("it comes")));
    })?;
    assert!(poll(&mut worker).is_pending());
    let (sender, mut receiver) = turnwheel_runtime::oneshot::channel::<u32, ()>(());
    assert!(receiver.poll(&Waker::from(Arc::clone(&asks))).is_pending());
    // Settling wakes, and the waker runs a turn inside of that.
    assert_eq!(sender.send(1), Ok(()));
    assert_eq!(asks.1.load(Ordering::Acquire), 1);
    assert!(completer.complete(3).is_ok());
    assert!(poll(&mut worker).is_pending());
    assert_eq!(at_once(later.call(|all, _| all.clone())).expect("at once")?, [3]);
    drop(worker);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn turn_that_a_thread_assists_is_a_workers_turn_in_all_it_may_do() -> Outcome {
    let (group, worker) = polled()?;
    let values = Arc::new(PerWorker::new(&group, || 0_u64));
    let task = group.spawn(())?;
    let (own, inside) = (Arc::clone(&values), group.clone());
    let seen = task.call(move |(), _| {
        let count = own.own(|count| {
            *count += 1;
            *count
        });
        (count, inside.shutdown().err(), inside.is_current())
    });
    let expected = (Some(1), Some(ShutdownError::OnWorker), true);
    assert_eq!(at_once(seen).expect("at once")?, expected);
    assert_eq!(values.own(|_| ()), None, "between turns the thread is no worker");
    assert!(!group.is_current());
    drop(worker);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn answer_that_is_forgotten_after_a_poll_leaves_its_job_and_the_worker_whole() -> Outcome {
    let (group, mut worker) = polled()?;
    let task = group.spawn(0_u32)?;
    for _ in 0..200 {
        let mut answer = task.call(|count, _| {
            *count += 1;
            vec![*count; 3]
        });
        // Most polls give the answer; both kinds are forgotten.
        let _ = std::mem::ManuallyDrop::new(poll(&mut answer));
        std::mem::forget(answer);
        std::mem::forget(task.call(|count, _| *count += 1));
    }
    assert!(poll(&mut worker).is_pending());
    assert_eq!(at_once(task.call(|count, _| *count)).expect("at once")?, 400);
    drop(worker);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn values_of_workers_are_whole_though_waiting_threads_take_them_over() -> Outcome {
    const THREADS: usize = 4;
    const QUESTIONS: u64 = 300;
    let (group, workers) = Group::builder("hosted").workers(2).build_hosted()?;
    let workers = Arc::new(Mutex::new(workers));
    let values = Arc::new(PerWorker::new(&group, || 0_u64));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (workers, values) = (Arc::clone(&workers), Arc::clone(&values));
            let task = group.spawn(()).expect("the group runs");
            thread::spawn(move || {
                for _ in 0..QUESTIONS {
                    let own = Arc::clone(&values);
                    let mut answer = task.call(move |(), _| own.own(|count| *count += 1));
                    loop {
                        match poll(&mut answer) {
                            Poll::Ready(answer) => {
                                assert_eq!(answer.expect("an answer"), Some(()));
                                break;
                            }
                            Poll::Pending => {
                                for worker in workers.lock().expect("no panic").iter_mut() {
                                    assert!(poll(worker).is_pending());
                                }
                            }
                        }
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    let mut sum = 0;
    values.visit_each(|count| sum += *count);
    assert_eq!(sum, THREADS as u64 * QUESTIONS);
    drop(workers);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}
