//! Nothing gets lost: jobs of destructors, charges, wake-ups, timers after the end of a group.

use std::cell::RefCell;
use std::collections::HashSet;
use std::error::Error;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc, Barrier};
use std::task::{Context as PollContext, Wake, Waker};
use std::thread;
use std::time::Duration;

use turnwheel_runtime::completion::{completion, Completer};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{
    Completion, Failure, Flow, Group, Late, Mailbox, Pinning, ShutdownError, SubmitErrorKind, Task,
    TimerError,
};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);

fn group(workers: usize) -> Result<Group, Box<dyn Error>> {
    Ok(Group::builder("lost").workers(workers).pinning(Pinning::None).build()?)
}

/// Gives its own task a job while it is dropped.
struct Own {
    task: Option<Task<Own>>,
    kept: Arc<()>,
    told: mpsc::Sender<Option<SubmitErrorKind>>,
}

impl Drop for Own {
    fn drop(&mut self) {
        let Some(task) = &self.task else { return };
        let kept = Arc::clone(&self.kept);
        let given = task.run(move |_, _| drop(kept));
        let _ = self.told.send(given.err().map(|refused| refused.kind));
    }
}

#[test]
fn a_job_that_a_destructor_makes_while_its_task_ends_is_answered() -> Outcome {
    let sim = Sim::fifo();
    let (told, answers) = mpsc::channel();
    let kept = Arc::new(());
    let task = sim.group("cpu").spawn(Own { task: None, kept: Arc::clone(&kept), told })?;
    let own = task.clone();
    task.submit(move |state, _| state.task = Some(own))?;
    sim.wait(task.close())?;
    assert_eq!(answers.try_recv()?, Some(SubmitErrorKind::Closed));
    assert_eq!(Arc::strong_count(&kept), 1, "the job came back and was dropped");
    Ok(())
}

#[test]
fn a_chain_on_a_task_whose_state_holds_the_completer_settles_when_the_task_ends() -> Outcome {
    type Holder = Option<Completer<u32>>;
    for is_killed in [false, true] {
        let sim = Sim::fifo();
        let (completer, done) = completion::<u32>();
        let task = sim.group("cpu").spawn(Some(completer) as Holder)?;
        let answer = done.then_on(task.clone(), |outcome| outcome);
        let _ = sim.wait(if is_killed { task.kill() } else { task.close() });
        assert!(matches!(sim.wait(answer), Err(Failure::Closed)));
    }
    Ok(())
}

#[test]
fn a_repeated_job_that_panics_gives_its_charge_back() -> Outcome {
    const BUDGET_BYTES: u64 = 64 << 10;
    let sim = Sim::fifo();
    let builder = Group::builder("charge").memory_budget(BUDGET_BYTES);
    let task = sim.build(builder)?.spawn(())?;
    for _ in 0..BUDGET_BYTES / 32 {
        task.submit_again(|(), _| -> Flow { resume_unwind(Box::new("as planned")) })?;
        task.submit(|(), cx| {
            cx.run_again(|(), _| -> Flow { resume_unwind(Box::new("as planned")) }).expect("room");
        })?;
        sim.run_until_idle();
    }
    Ok(())
}

#[test]
fn a_long_turn_that_a_timer_begins_in_an_idle_group_is_reported() -> Outcome {
    let (told, reported) = mpsc::channel();
    let long_turn = Duration::from_millis(20);
    let builder = Group::builder("idle").workers(1).pinning(Pinning::None);
    let builder = builder.on_long_turn(long_turn, move |task, _| {
        let _ = told.send(task.name());
    });
    let group = builder.build()?;
    let task = group.task(()).name("slow").spawn()?;
    let (release, held) = mpsc::channel::<()>();
    task.call(move |(), cx| {
        // Long enough for worker and watchdog to fall asleep before.
        cx.after(Duration::from_millis(600), move |(), _| {
            let _ = held.recv_timeout(PATIENCE);
        })
        .is_ok()
    })
    .wait()?;
    let name = reported.recv_timeout(PATIENCE / 2);
    drop(release);
    assert_eq!(name?, "slow");
    group.shutdown()?;
    Ok(())
}

fn assert_abandoned(group: &Group) -> Outcome {
    assert!(matches!(group.sleep(PATIENCE).wait(), Err(Failure::Abandoned)));
    let (_completer, never) = completion::<()>();
    let limited = turnwheel_runtime::completion::block_on(group.timeout(never, PATIENCE))?;
    assert!(matches!(limited, Err(Failure::Abandoned)), "{limited:?}");
    Ok(())
}

#[test]
fn a_sleep_in_a_group_that_has_ended_is_abandoned_at_once() -> Outcome {
    let group = group(1)?;
    group.shutdown()?;
    assert_abandoned(&group)?;
    let sim = Sim::new(1);
    let simulated = sim.group("cpu");
    simulated.shutdown()?;
    assert_abandoned(&simulated)
}

#[test]
fn a_sleep_that_meets_a_shutdown_ends() -> Outcome {
    for _ in 0..100 {
        let group = group(1)?;
        let barrier = Arc::new(Barrier::new(2));
        let sleeper = thread::spawn({
            let (group, barrier) = (group.clone(), Arc::clone(&barrier));
            move || {
                barrier.wait();
                (0..50).map(|_| group.sleep(PATIENCE * 100)).collect::<Vec<Completion<()>>>()
            }
        });
        barrier.wait();
        group.shutdown()?;
        for sleep in sleeper.join().map_err(|_| "the sleeper panicked")? {
            assert!(sleep.is_done(), "nobody will ever end it");
        }
    }
    Ok(())
}

thread_local! {
    static LAST: RefCell<Option<ShutsDown>> = const { RefCell::new(None) };
}

/// Shuts its group down while the thread's locals are dropped.
struct ShutsDown(Group, mpsc::Sender<Option<ShutdownError>>);

impl Drop for ShutsDown {
    fn drop(&mut self) {
        let _ = self.1.send(self.0.shutdown().err());
    }
}

#[test]
fn a_shutdown_by_a_worker_that_ends_is_refused() -> Outcome {
    let (told, answers) = mpsc::channel();
    // Taken out by the hook: a group in its own hook would keep itself.
    let slot = Arc::new(std::sync::Mutex::new(None::<Group>));
    let of_hook = Arc::clone(&slot);
    let by_hook = told.clone();
    let builder = Group::builder("ending").workers(1).pinning(Pinning::None);
    let group = builder
        .on_worker_stop(move |_| {
            let group = of_hook.lock().expect("no panic").take();
            let _ = by_hook.send(group.and_then(|group| group.shutdown().err()));
        })
        .build()?;
    *slot.lock().expect("no panic") = Some(group.clone());
    let last = ShutsDown(group.clone(), told);
    group.spawn(())?.submit(move |(), _| LAST.set(Some(last)))?;
    // On a thread of its own: a shutdown that waits for itself fails the test and does not hang it.
    let ended = group.shutdown_later(PATIENCE).wait_timeout(PATIENCE)?;
    assert!(ended.is_clean());
    for _ in 0..2 {
        assert_eq!(answers.recv_timeout(PATIENCE)?, Some(ShutdownError::OnWorker));
    }
    Ok(())
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn a_waiter_that_gives_up_after_its_wake_up_passes_it_on() -> Outcome {
    let sim = Sim::fifo();
    let task = sim.group("cpu").task(()).mailbox(Mailbox::bounded(2)).spawn()?;
    // The first job is consumed, the second stays: one place is free.
    task.submit(|(), cx| cx.run_exclusive(std::future::pending::<()>(), |(), _, ()| ()))?;
    task.submit(|(), _| ())?;
    let flags: Vec<_> = (0..8).map(|_| Arc::new(Flag::default())).collect();
    let mut waiting = Vec::new();
    for flag in &flags {
        let mut reserve = Box::pin(task.reserve());
        let waker = Waker::from(Arc::clone(flag));
        assert!(reserve.as_mut().poll(&mut PollContext::from_waker(&waker)).is_pending());
        waiting.push((reserve, flag));
    }
    sim.run_until_idle();
    assert!(!flags[7].0.load(Ordering::Acquire), "there is no place for all");
    while waiting.len() > 1 {
        let (reserve, flag) = waiting.remove(0);
        assert!(flag.0.load(Ordering::Acquire), "{} wait, and a place is free", waiting.len() + 1);
        drop(reserve);
        sim.run_until_idle();
    }
    let (mut last, flag) = waiting.remove(0);
    assert!(flag.0.load(Ordering::Acquire), "a place is free");
    let polled = last.as_mut().poll(&mut PollContext::from_waker(Waker::noop()));
    assert!(polled.is_ready());
    drop(task.kill());
    Ok(())
}

#[test]
fn a_waiter_that_gives_up_leaves_no_waker_behind() -> Outcome {
    let sim = Sim::fifo();
    let task = sim.group("cpu").task(()).mailbox(Mailbox::bounded(1)).spawn()?;
    task.submit(|(), _| ())?;
    let flag = Arc::new(Flag::default());
    for _ in 0..10 {
        let waker = Waker::from(Arc::clone(&flag));
        let mut reserve = pin!(task.reserve());
        assert!(reserve.as_mut().poll(&mut PollContext::from_waker(&waker)).is_pending());
    }
    assert_eq!(Arc::strong_count(&flag), 1);
    Ok(())
}

#[test]
fn a_peek_leaves_the_outcome_where_it_is() -> Outcome {
    let (completer, mut answer) = completion();
    assert_eq!(answer.peek(Result::is_ok), None);
    completer.complete(3)?;
    for _ in 0..2 {
        assert_eq!(answer.peek(|outcome| outcome.as_ref().ok().copied()), Some(Some(3)));
    }
    let panics = std::panic::AssertUnwindSafe(|| {
        answer.peek(|_| -> () { resume_unwind(Box::new("as planned")) });
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    assert_eq!(answer.wait()?, 3);
    Ok(())
}

#[test]
fn a_recurring_timer_with_a_period_of_zero_is_refused() -> Outcome {
    let sim = Sim::fifo();
    let task = sim.group("cpu").spawn(0_u64)?;
    let armed = task.call(|_, cx| {
        let rates = [Late::Burst, Late::Skip, Late::Delay];
        let mut armed = rates.map(|late| cx.every(Duration::ZERO, late, |_, _| ())).to_vec();
        armed.push(cx.every_after(Duration::ZERO, |_, _| ()));
        armed.into_iter().map(|armed| armed.err()).collect::<Vec<_>>()
    });
    assert_eq!(sim.wait(armed)?, [Some(TimerError::ZeroPeriod); 4]);
    Ok(())
}

#[test]
fn handles_of_a_task_are_one_key() -> Outcome {
    let sim = Sim::fifo();
    let group = sim.group("cpu");
    let (one, other) = (group.spawn(())?, group.spawn(())?);
    let handles: HashSet<_> = [one.clone(), one, other].into_iter().collect();
    assert_eq!(handles.len(), 2);
    Ok(())
}
