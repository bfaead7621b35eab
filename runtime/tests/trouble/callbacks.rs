//! A panic in each callback: the policy of its task decides, other tasks continue, nothing is lost.

use std::error::Error;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc};
use std::task::{Context as PollContext, Poll, Wake, Waker};
use std::time::Duration;

use turnwheel_channel::Channel;
use turnwheel_extras::Share;
use turnwheel_runtime::completion::{completion, Executor, InlineExecutor, Rejected};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{
    Completion, ConditionMode, Context, Failure, Flow, Group, Late, Lifecycle, OnFailure, Pinning,
    Task,
};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);
const WORKERS: [usize; 3] = [1, 2, 4];

fn group(workers: usize) -> Result<Group, Box<dyn Error>> {
    Ok(Group::builder("callbacks").workers(workers).pinning(Pinning::None).build()?)
}

/// Counts the calls of the policy, and keeps the texts of the panics.
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

fn asked(group: &Group) -> Result<(Task<u32>, mpsc::Receiver<String>), Box<dyn Error>> {
    let (ask, asked) = mpsc::channel();
    Ok((group.task(0).lifecycle(Asked(ask)).spawn()?, asked))
}

type Plant = fn(&mut Context<'_, u32>);

/// One-shot jobs of every kind, each of which panics once.
const ONE_SHOTS: [(&str, Plant); 11] = [
    ("a job", |_| panic!("planted")),
    ("a job of the fast lane", |cx| cx.run(|_, _| panic!("planted")).expect("room")),
    ("a repeated job", |cx| cx.run_again(|_, _| -> Flow { panic!("planted") }).expect("room")),
    ("a timer", |cx| drop(cx.after(Duration::ZERO, |_, _| panic!("planted")).expect("room"))),
    ("a continuation", |cx| {
        cx.on_completion(Completion::done(()), |_, _, _| panic!("planted"));
    }),
    ("a list continuation", |cx| {
        cx.on_all(vec![Completion::done(())], |_, _, _| panic!("planted"));
    }),
    ("a poll of an interleaved future", |cx| {
        cx.await_interleaved(poll_fn(|_| -> Poll<()> { panic!("planted") }), |_, _, ()| ());
    }),
    ("a poll of an exclusive future", |cx| {
        cx.await_exclusive(poll_fn(|_| -> Poll<()> { panic!("planted") }), |_, _, ()| ());
    }),
    ("what follows an exclusive future", |cx| {
        cx.await_exclusive(async {}, |_, _, ()| panic!("planted"));
    }),
    ("an interleaved future that panics in poll and in drop", |cx| {
        cx.await_interleaved(PanicsTwice { is_polled: false }, |_, _, ()| ());
    }),
    ("an exclusive future that panics in poll and in drop", |cx| {
        cx.await_exclusive(PanicsTwice { is_polled: false }, |_, _, ()| ());
    }),
];

/// Panics in poll, and in drop once it was polled.
struct PanicsTwice {
    is_polled: bool,
}

impl Future for PanicsTwice {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut PollContext<'_>) -> Poll<()> {
        self.is_polled = true;
        panic!("planted");
    }
}

impl Drop for PanicsTwice {
    fn drop(&mut self) {
        assert!(!self.is_polled, "planted in drop");
    }
}

#[test]
fn a_panic_in_a_job_of_any_kind_is_asked_for_once_and_the_task_goes_on() -> Outcome {
    for workers in WORKERS {
        let group = group(workers)?;
        for (what, plant) in ONE_SHOTS {
            let (task, asked) = asked(&group)?;
            // Jobs behind it in the lane still run, in order.
            task.submit(move |_, cx| plant(cx))?;
            for number in 0..10 {
                task.submit(move |count, _| *count = *count * 2 + number % 2)?;
            }
            assert_eq!(asked.recv_timeout(PATIENCE)?, "panicked: planted", "{what}");
            let count = task.call(|count, _| *count).wait_timeout(PATIENCE)?;
            assert_eq!(count, 0b01_0101_0101, "{what}");
            task.close().wait_timeout(PATIENCE)?;
            assert!(asked.try_recv().is_err(), "{what}: asked once");
        }
        assert!(group.shutdown()?.is_clean());
    }
    Ok(())
}

#[test]
fn recurring_jobs_go_on_after_a_panic() {
    /// Panics at its second run.
    fn run(count: &mut u32) {
        *count += 1;
        assert_ne!(*count, 2, "planted");
    }
    type Register = fn(&mut Context<'_, u32>);
    const PERIOD: Duration = Duration::from_secs(1);
    let timers: [Register; 4] = [
        |cx| drop(cx.every_after(PERIOD, |count, _| run(count)).expect("room")),
        |cx| drop(cx.every(PERIOD, Late::Burst, |count, _| run(count)).expect("room")),
        |cx| drop(cx.every(PERIOD, Late::Skip, |count, _| run(count)).expect("room")),
        |cx| drop(cx.every(PERIOD, Late::Delay, |count, _| run(count)).expect("room")),
    ];
    for register in timers {
        let sim = Sim::fifo();
        let (task, asked) = asked(&sim.group("cpu")).expect("the group runs");
        assert!(sim.wait(task.call(move |_, cx| register(cx))).is_ok());
        sim.advance(4 * PERIOD);
        assert_eq!(sim.wait(task.call(|count, _| *count)).ok(), Some(4));
        assert_eq!(asked.try_iter().count(), 1);
    }
    for mode in [ConditionMode::Counting, ConditionMode::Coalescing] {
        let sim = Sim::fifo();
        let (task, asked) = asked(&sim.group("cpu")).expect("the group runs");
        let condition = task.call(move |_, cx| cx.condition(mode, |count, _| run(count)));
        let condition = sim.wait(condition).expect("the task runs");
        for _ in 0..4 {
            condition.signal();
            sim.run_until_idle();
        }
        assert_eq!(sim.wait(task.call(|count, _| *count)).ok(), Some(4));
        assert_eq!(asked.try_iter().count(), 1);
    }
}

#[test]
fn signals_given_before_a_panic_are_not_lost_with_it() {
    let sim = Sim::fifo();
    let (task, asked) = asked(&sim.group("cpu")).expect("the group runs");
    let condition = task.call(|_, cx| {
        cx.condition(ConditionMode::Counting, |count: &mut u32, _| {
            *count += 1;
            assert!(!count.is_multiple_of(2), "planted");
        })
    });
    let condition = sim.wait(condition).expect("the task runs");
    (0..10).for_each(|_| condition.signal());
    sim.run_until_idle();
    assert_eq!(sim.wait(task.call(|count, _| *count)).ok(), Some(10));
    assert_eq!(asked.try_iter().count(), 5);
}

#[test]
fn a_panic_of_a_consumer_costs_its_item_and_no_other() -> Outcome {
    let group = group(2)?;
    let (task, asked) = asked(&group)?;
    let channel = Channel::bounded(16);
    let items = channel.clone();
    let consumed = task.call(move |_, cx| {
        items.consume(cx, |sum: &mut u32, _, item| {
            assert_ne!(item, 3, "planted");
            *sum += item;
        })
    });
    let _consumer = consumed.wait_timeout(PATIENCE)?;
    for item in 1..=5 {
        channel.send(item)?;
    }
    channel.drained().wait_timeout(PATIENCE)?;
    assert!(asked.recv_timeout(PATIENCE)?.contains("planted"));
    assert_eq!(task.call(|sum, _| *sum).wait_timeout(PATIENCE)?, 1 + 2 + 4 + 5);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

/// Panics in the hook of this name.
struct PanicsIn(&'static str, Arc<AtomicUsize>);

impl PanicsIn {
    fn at(&self, hook: &'static str) -> Result<(), Failure> {
        assert_ne!(self.0, hook, "planted");
        Ok(())
    }
}

impl Lifecycle<()> for PanicsIn {
    fn starting(&mut self, (): &mut (), _: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.at("starting")
    }
    fn started(&mut self, (): &mut (), _: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.at("started")
    }
    fn close_requested(&mut self, (): &mut (), _: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.at("close_requested")
    }
    fn closing(&mut self, (): &mut (), _: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.at("closing")
    }
    fn closed(&mut self, (): &mut (), _: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.at("closed")
    }
    fn failed(&mut self, (): &mut (), _: &mut Context<'_, ()>, _: &Failure) {
        self.1.fetch_add(1, Ordering::AcqRel);
        assert_ne!(self.0, "failed", "planted");
    }
    fn on_failure(&mut self, (): &mut (), _: &mut Context<'_, ()>, _: &Failure) -> OnFailure {
        assert_ne!(self.0, "on_failure", "planted");
        OnFailure::Escalate
    }
}

#[test]
fn a_panic_in_a_hook_ends_its_task_only_and_cleans_up_once() -> Outcome {
    let hooks =
        ["starting", "started", "close_requested", "closing", "closed", "failed", "on_failure"];
    for workers in WORKERS {
        let group = group(workers)?;
        let other = group.spawn(0_u32)?;
        for hook in hooks {
            let cleaned = Arc::new(AtomicUsize::new(0));
            let hooks = PanicsIn(hook, Arc::clone(&cleaned));
            let task = group.task(()).lifecycle(hooks).spawn()?;
            if hook == "failed" || hook == "on_failure" {
                // The task may have ended before: then the call is answered so.
                task.call(|(), _| panic!("a job")).wait_timeout(PATIENCE).expect_err("panics");
            }
            let end = task.close().wait_timeout(PATIENCE);
            assert!(end.is_err_and(|met| matches!(met, Failure::Panicked(_))), "{hook}");
            assert!(task.phase().is_over(), "{hook}");
            // The hook of an end in order fails the future of the end and nothing else.
            let expected = usize::from(hook != "closed");
            assert_eq!(cleaned.load(Ordering::Acquire), expected, "{hook}");
            other.call(|count, _| *count += 1).wait_timeout(PATIENCE)?;
        }
        assert_eq!(other.call(|count, _| *count).wait_timeout(PATIENCE)?, hooks.len() as u32);
        assert!(group.shutdown()?.is_clean());
    }
    Ok(())
}

/// A panic payload whose destructor panics, too.
struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "the destructor of a payload");
    }
}

fn throw_payload() -> ! {
    std::panic::panic_any(Payload)
}

#[test]
fn hooks_of_workers_and_groups_may_panic_with_anything() -> Outcome {
    for workers in WORKERS {
        let (tell, told) = mpsc::channel();
        let (started, stopped) = (tell.clone(), tell.clone());
        let builder = Group::builder("hooks").workers(workers).pinning(Pinning::None);
        let group = builder
            .on_worker_start(move |worker| {
                started.send(("start", worker)).unwrap_or_default();
                throw_payload()
            })
            .on_worker_stop(move |worker| {
                stopped.send(("stop", worker)).unwrap_or_default();
                throw_payload()
            })
            .on_escalate(move |_, _| {
                tell.send(("escalate", 0)).unwrap_or_default();
                throw_payload()
            })
            .build()?;
        let hooks = PanicsIn("nowhere", Arc::default());
        let task = group.task(()).lifecycle(hooks).spawn()?;
        let answer = task.call(|(), _| -> () { throw_payload() });
        assert!(matches!(answer.wait_timeout(PATIENCE), Err(Failure::Panicked(_))));
        assert!(task.closed().wait_timeout(PATIENCE).is_err());
        // Every worker is alive: all of them meet in one place.
        let barrier = Arc::new(std::sync::Barrier::new(workers));
        let meetings: Vec<_> = (0..workers)
            .map(|_| {
                let barrier = Arc::clone(&barrier);
                Ok(group.spawn(())?.call(move |(), _| barrier.wait().is_leader()))
            })
            .collect::<Result<_, Box<dyn Error>>>()?;
        for met in meetings {
            met.wait_timeout(PATIENCE)?;
        }
        assert!(group.shutdown()?.is_clean());
        let mut told: Vec<_> = told.try_iter().collect();
        told.sort_unstable();
        let each = |what| (0..workers).map(move |worker| (what, worker));
        assert!(told
            .into_iter()
            .eq([("escalate", 0)].into_iter().chain(each("start")).chain(each("stop"))));
    }
    Ok(())
}

/// A waker that panics.
struct BadWaker;

impl Wake for BadWaker {
    fn wake(self: Arc<Self>) {
        throw_payload()
    }
}

fn polled<T>(answer: &mut Completion<T>) -> bool {
    let waker = Waker::from(Arc::new(BadWaker));
    Pin::new(answer).poll(&mut PollContext::from_waker(&waker)).is_ready()
}

#[test]
fn a_waker_that_panics_hurts_neither_the_completer_nor_other_waiters() -> Outcome {
    for workers in WORKERS {
        let group = group(workers)?;
        let (task, asked) = asked(&group)?;
        // A task completes for the bad waker, and is none the worse.
        let (completer, mut answer) = completion();
        assert!(!polled(&mut answer));
        task.submit(move |count, _| *count += u32::from(completer.complete(7).is_ok()))?;
        assert_eq!(task.call(|count, _| *count).wait_timeout(PATIENCE)?, 1);
        assert_eq!(answer.wait_timeout(PATIENCE)?, 7);
        // A timer of the group fires for it.
        let mut sleep = group.sleep(Duration::from_millis(1));
        assert!(!polled(&mut sleep) || sleep.is_done());
        drop(sleep);
        group.sleep(Duration::from_millis(2)).wait_timeout(PATIENCE)?;
        // Clones of the shared completion still get the outcome.
        let (completer, answer) = completion();
        let mut bad = answer.shared();
        let good = bad.subscribe();
        let waker = Waker::from(Arc::new(BadWaker));
        let first = Pin::new(&mut bad).poll(&mut PollContext::from_waker(&waker));
        assert!(first.is_pending());
        let other = bad.subscribe();
        completer.complete(8)?;
        assert_eq!((good.wait_timeout(PATIENCE)?, other.wait_timeout(PATIENCE)?), (8, 8));
        // A panicking cancel callback does no harm.
        let (completer, answer) = completion::<()>();
        completer.on_cancel(Waker::from(Arc::new(BadWaker)));
        assert!(answer.cancel() && completer.is_cancelled());
        assert!(asked.try_recv().is_err(), "no job has failed");
        assert!(group.shutdown()?.is_clean());
    }
    Ok(())
}

/// Panics in place of running anything.
struct BadExecutor;

impl Executor for BadExecutor {
    fn execute(&self, _: Box<dyn FnOnce() + Send>) -> Result<(), Rejected> {
        throw_payload()
    }
}

#[test]
fn an_executor_that_panics_fails_its_chain_and_not_the_completer() {
    let (completer, source) = completion();
    let chain = source.then_on(BadExecutor, |outcome: Result<u32, _>| outcome);
    let longer = chain.then_on(InlineExecutor, |outcome| Ok(outcome.is_err()));
    assert!(completer.complete(1).is_ok());
    assert!(matches!(longer.wait_timeout(PATIENCE), Ok(true)));
}

/// Passes every failure on to the group.
struct Escalates;

impl Lifecycle<u32> for Escalates {
    fn on_failure(&mut self, _: &mut u32, _: &mut Context<'_, u32>, _: &Failure) -> OnFailure {
        OnFailure::Escalate
    }
}

#[test]
fn escalation_hook_that_panics_and_uses_its_group_is_called_once_for_each_failure() -> Outcome {
    const TASKS: usize = 200;
    for workers in WORKERS {
        let (tell, told) = mpsc::channel();
        let known = Arc::new(std::sync::Mutex::new(None::<Group>));
        let own = Arc::clone(&known);
        let hook = move |task: &turnwheel_runtime::AnyTask, _: &Failure| {
            let group = own.lock().expect("no panic with it").clone().expect("it is known");
            let seen = group.tasks().iter().any(|info| info.id == task.id());
            group.spawn(0_u32).expect("the group is open").close().detach();
            tell.send((task.id(), seen)).expect("the test listens");
            panic!("planted");
        };
        let builder = Group::builder("escalates").workers(workers).pinning(Pinning::None);
        let group = builder.on_escalate(hook).build()?;
        *known.lock().expect("no panic with it") = Some(group.clone());
        let tasks = (0..TASKS).map(|_| group.task(0).lifecycle(Escalates).spawn());
        let tasks = tasks.collect::<Result<Vec<_>, _>>()?;
        let mut ids: Vec<_> = tasks.iter().map(Task::id).collect();
        for task in &tasks {
            task.submit(|_, _| panic!("planted"))?;
        }
        for task in &tasks {
            assert!(matches!(task.closed().wait_timeout(PATIENCE), Err(Failure::Panicked(_))));
        }
        let mut told: Vec<_> = told.try_iter().collect();
        assert!(told.iter().all(|(_, seen)| *seen), "its task is listed while it is told of");
        told.sort_unstable();
        ids.sort_unstable();
        assert_eq!(told.into_iter().map(|(id, _)| id).collect::<Vec<_>>(), ids);
        assert!(group.shutdown()?.is_clean());
        known.lock().expect("no panic with it").take();
    }
    Ok(())
}
