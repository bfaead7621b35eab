//! Promises of every queue: order, one-to-one, stampede, no loss, destructors once, close.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Barrier};
use std::thread;
use std::time::Duration;

use turnwheel_runtime::{limits, Context, Failure, Group, Mailbox, Pinning, SubmitErrorKind, Task};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);
const PRODUCERS: usize = if cfg!(miri) { 3 } else { 64 };
const JOBS: usize = match (cfg!(miri), cfg!(debug_assertions)) {
    (true, _) => 20,
    (_, true) => 1_000,
    _ => 10_000,
};

/// Counts how often it is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

fn group(name: &str, workers: usize) -> Result<Group, Box<dyn Error>> {
    Ok(Group::builder(name).workers(workers).pinning(Pinning::None).build()?)
}

/// Record of a task: the next job expected of each sender, and the number of jobs.
#[derive(Default)]
struct Seen {
    next: Vec<usize>,
    count: usize,
}

fn seen(group: &Group) -> Result<Task<Seen>, Box<dyn Error>> {
    let state = Seen { next: vec![0; PRODUCERS], count: 0 };
    Ok(group.task(state).mailbox(Mailbox::unbounded()).spawn()?)
}

fn note(seen: &mut Seen, producer: usize, number: usize) {
    assert_eq!(seen.next[producer], number, "lost, doubled or out of order");
    seen.next[producer] += 1;
    seen.count += 1;
}

/// All producers start at once.
fn stampede(run: impl Fn(usize) + Send + Sync + 'static) {
    let run = Arc::new(run);
    let start = Arc::new(Barrier::new(PRODUCERS));
    let threads: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let (run, start) = (Arc::clone(&run), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                run(producer);
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no producer panics");
    }
}

#[test]
fn one_producer_keeps_its_order() -> Outcome {
    let group = group("one", 2)?;
    let task = seen(&group)?;
    for number in 0..JOBS {
        task.submit(move |seen, _| note(seen, 0, number))?;
    }
    assert_eq!(task.call(|seen, _| seen.count).wait()?, JOBS);
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_stampede_loses_and_doubles_nothing_and_keeps_each_producers_order() -> Outcome {
    let group = group("stampede", 2)?;
    let task = seen(&group)?;
    let submitter = task.clone();
    stampede(move |producer| {
        for number in 0..JOBS / 10 {
            submitter.submit(move |seen, _| note(seen, producer, number)).expect("it is open");
        }
    });
    assert_eq!(task.call(|seen, _| seen.count).wait()?, PRODUCERS * (JOBS / 10));
    group.shutdown()?;
    // Exact only when the turn is over.
    assert_eq!(task.queue_len(), 0);
    Ok(())
}

#[test]
fn a_ball_between_two_tasks_comes_back_every_time() -> Outcome {
    fn hit(from: Task<usize>, to: Task<usize>, done: mpsc::Sender<usize>) {
        let next = from.clone();
        let target = to.clone();
        let job = move |hits: &mut usize, _: &mut turnwheel_runtime::Context<'_, usize>| {
            *hits += 1;
            if *hits == JOBS {
                done.send(*hits).expect("the test listens");
            } else {
                hit(to, next, done);
            }
        };
        target.submit(job).map_err(|error| error.kind).expect("it is open");
    }
    let group = group("ball", 2)?;
    let (one, two) = (group.spawn(0)?, group.spawn(0)?);
    let (done, wait) = mpsc::channel();
    hit(one, two, done);
    assert_eq!(wait.recv_timeout(PATIENCE)?, JOBS);
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_bounded_mailbox_never_holds_more_and_admits_what_it_answers() -> Outcome {
    const BOUND: u64 = 8;
    let group = group("bounded", 2)?;
    let task = group.task(0_usize).mailbox(Mailbox::bounded(BOUND)).spawn()?;
    let accepted = Arc::new(AtomicUsize::new(0));
    let (submitter, count) = (task.clone(), Arc::clone(&accepted));
    stampede(move |_| {
        for _ in 0..JOBS / 10 {
            match submitter.submit(|ran, _| *ran += 1) {
                Ok(()) => {
                    count.fetch_add(1, Ordering::AcqRel);
                }
                Err(error) => assert_eq!(error.kind, SubmitErrorKind::Full),
            }
        }
    });
    // The mailbox may still be full.
    let ran = loop {
        match task.call(|ran, _| *ran).wait() {
            Err(Failure::Refused(_)) => std::thread::yield_now(),
            answer => break answer?,
        }
    };
    assert_eq!(ran, accepted.load(Ordering::Acquire));
    group.shutdown()?;
    Ok(())
}

#[test]
fn waiting_for_room_ends_for_everybody() -> Outcome {
    let group = group("room", 2)?;
    let task = group.task(0_usize).mailbox(Mailbox::bounded(1)).spawn()?;
    let submitter = task.clone();
    let jobs = (JOBS / 100).max(4);
    stampede(move |producer| {
        for number in 0..jobs {
            if number % 3 == producer % 3 {
                // A refused admission must not hide the room from the waiters.
                if let Err(refused) = submitter.submit(|ran, _| *ran += 1) {
                    submitter.submit_wait(refused.job, PATIENCE).expect("room comes in time");
                }
            } else {
                submitter.submit_wait(|ran, _| *ran += 1, PATIENCE).expect("room comes in time");
            }
        }
    });
    let done = task.closed();
    let (tell, ran) = mpsc::channel();
    task.submit_wait(move |ran, _| tell.send(*ran).expect("the test listens"), PATIENCE)?;
    assert_eq!(ran.recv_timeout(PATIENCE)?, PRODUCERS * jobs);
    task.close();
    done.wait_timeout(PATIENCE)?;
    group.shutdown()?;
    Ok(())
}

/// A way to end a task while producers continue.
type End = fn(&Task<Arc<AtomicUsize>>);

/// Ends a task in the middle of a stampede; answers accepted, run and dropped jobs.
fn ended_in_a_stampede(end: End) -> Result<(usize, usize, usize), Box<dyn Error>> {
    let group = group("end", 2)?;
    let ran = Arc::new(AtomicUsize::new(0));
    let task = group.task(Arc::clone(&ran)).mailbox(Mailbox::unbounded()).spawn()?;
    let closed = task.closed();
    let (made, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let accepted = Arc::new(AtomicUsize::new(0));
    let counters = (Arc::clone(&made), Arc::clone(&dropped), Arc::clone(&accepted));
    let submitter = task.clone();
    stampede(move |producer| {
        let (made, dropped, accepted) = &counters;
        for number in 0..JOBS / 20 + 2 {
            if producer == 0 && number == 1 {
                end(&submitter);
            }
            made.fetch_add(1, Ordering::AcqRel);
            let counted = Dropped(Arc::clone(dropped));
            let submitted = submitter.submit(move |ran, _| {
                let _counted = &counted;
                ran.fetch_add(1, Ordering::AcqRel);
            });
            match submitted {
                Ok(()) => {
                    accepted.fetch_add(1, Ordering::AcqRel);
                }
                Err(error) => assert_eq!(error.kind, SubmitErrorKind::Closed),
            }
        }
    });
    // A killed task closes as failed.
    let _ = closed.wait_timeout(PATIENCE);
    assert!(task.phase().is_over(), "it ended");
    drop(task);
    group.shutdown()?;
    assert_eq!(
        made.load(Ordering::Acquire),
        dropped.load(Ordering::Acquire),
        "each job is dropped once, run or not"
    );
    let count = |of: &AtomicUsize| of.load(Ordering::Acquire);
    Ok((count(&accepted), count(&ran), count(&dropped)))
}

#[test]
fn close_runs_all_that_was_admitted() -> Outcome {
    let (accepted, ran, _) = ended_in_a_stampede(|task| drop(task.close()))?;
    assert_eq!(accepted, ran, "admitted and run");
    Ok(())
}

#[test]
fn stop_and_kill_discard_what_they_do_not_run_and_drop_it_once() -> Outcome {
    for end in [(|task| drop(task.stop())) as End, |task| drop(task.kill())] {
        let (accepted, ran, dropped) = ended_in_a_stampede(end)?;
        assert!(ran <= accepted, "nothing runs that was refused");
        assert!(accepted <= dropped, "discarded jobs are dropped");
    }
    Ok(())
}

/// Turns of the count in the state word: it has 20 bits.
const LONG: u64 = limits::MAILBOX_JOBS_MAX + 1;

#[test]
fn a_queue_longer_than_its_word_can_count_keeps_its_length_and_its_jobs() -> Outcome {
    let group = group("long", 1)?;
    let gate = Arc::new(Barrier::new(2));
    let task = group.task(0_u64).mailbox(Mailbox::unbounded()).spawn()?;
    let held = Arc::clone(&gate);
    task.submit(move |_, _| {
        held.wait();
    })?;
    for _ in 0..LONG + 5 {
        task.submit(|count, _| *count += 1)?;
    }
    let queued = task.queue_len();
    assert!((LONG + 5..=LONG + 6).contains(&queued), "{queued} queued");
    gate.wait();
    let count = task.call(|count, _| *count).wait_timeout(PATIENCE)?;
    assert_eq!(count, LONG + 5);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_bound_holds_when_the_count_in_the_word_begins_anew() -> Outcome {
    let group = group("anew", 1)?;
    let task = group.task(0_u64).mailbox(Mailbox::bounded(4)).spawn()?;
    for _ in 0..LONG + 100 {
        while let Err(error) = task.submit(|count, _| *count += 1) {
            assert_eq!(error.kind, SubmitErrorKind::Full);
            thread::yield_now();
        }
        assert!(task.queue_len() <= 4);
    }
    let (tell, told) = mpsc::channel();
    let ask = move |count: &mut u64, _: &mut Context<'_, u64>| {
        tell.send(*count).expect("the test waits for it");
    };
    assert!(task.submit_wait(ask, PATIENCE).is_ok());
    assert_eq!(told.recv_timeout(PATIENCE)?, LONG + 100);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}
