//! Handles that rest on unsafe code, used in ways that such code tends to forget: dropped inside
//! their own callbacks, forgotten, called again from within, and with closures that panic.

use std::error::Error;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use turnwheel_runtime::internal::{Lender, PerWorker, Scoped};
use turnwheel_runtime::oneshot::{channel, channel_shared, Metadata, Received, Receiver, Sender};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{current_task, Failure, Group, Pinning, Task};

type Outcome = Result<(), Box<dyn Error>>;

/// Counts its end.
#[derive(Clone, Default)]
struct Ends(Arc<AtomicUsize>);

impl Ends {
    fn one(&self) -> End {
        End(Arc::clone(&self.0))
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

#[derive(Debug)]
struct End(Arc<AtomicUsize>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Runs a closure each time that it wakes.
struct OnWake<F>(F);

impl<F: Fn() + Send + Sync> Wake for OnWake<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn on_wake(run: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(OnWake(run)))
}

// --- tasks ---

#[test]
fn last_handle_dropped_in_its_own_job_ends_the_task_once() -> Outcome {
    let sim = Sim::fifo();
    let ends = Ends::default();
    let task = sim.group("misuse").spawn(ends.one())?;
    let own = Arc::new(Mutex::new(None::<Task<End>>));
    let kept = Arc::clone(&own);
    task.submit(move |_, cx| {
        let last = kept.lock().expect("no panic").take();
        drop(last);
        assert_eq!(cx.name(), cx.task().name(), "the turn keeps its task");
    })?;
    *own.lock().expect("no panic") = Some(task);
    sim.run_until_idle();
    assert_eq!(ends.count(), 1);
    sim.assert_no_leaks();
    Ok(())
}

#[test]
fn forgotten_handle_keeps_its_task_until_it_is_closed() -> Outcome {
    let sim = Sim::fifo();
    let ends = Ends::default();
    let task = sim.group("misuse").spawn(ends.one())?;
    std::mem::forget(task.clone());
    let weak = task.downgrade();
    std::mem::forget(weak.clone());
    drop(task);
    sim.run_until_idle();
    assert_eq!(ends.count(), 0);
    drop(weak.upgrade().ok_or("it lives")?.close());
    sim.run_until_idle();
    assert_eq!(ends.count(), 1);
    assert!(weak.upgrade().is_none());
    Ok(())
}

#[test]
fn own_jobs_of_a_task_whose_job_runs_a_simulation_stay_its_own() -> Outcome {
    let sim = Sim::fifo();
    let outer = sim.group("misuse").spawn(Vec::<u32>::new())?;
    let own = outer.clone();
    outer.submit(move |order, cx| {
        order.push(1);
        cx.run(|order, _| order.push(2)).expect("room");
        let inner = Sim::fifo();
        let task = inner.group("inner").spawn(String::new()).expect("it runs");
        let text = task.call(move |text, inside| {
            inside.run(|text, _| text.push('b')).expect("room");
            // Not in its turn, so the job goes through the mailbox.
            own.run(|order, _| order.push(4)).expect("room");
            text.push('a');
        });
        inner.run_until_idle();
        assert!(text.is_done());
        assert!(current_task().is_some_and(|task| task.id() == cx.task().id()));
        cx.run(|order, _| order.push(3)).expect("room");
        let text = task.call(|text, _| text.clone());
        inner.run_until_idle();
        assert_eq!(inner.wait(text).expect("it runs"), "ab");
    })?;
    let order = outer.call(|order, _| order.clone());
    sim.run_until_idle();
    sim.assert_no_failures();
    let late = outer.call(|order, _| order.clone());
    sim.run_until_idle();
    drop(order);
    assert_eq!(late.wait()?, [1, 2, 3, 4]);
    Ok(())
}

#[test]
fn waker_of_a_future_may_outlive_its_task_and_be_forgotten() -> Outcome {
    let sim = Sim::fifo();
    let ends = Ends::default();
    let task = sim.group("misuse").spawn(ends.one())?;
    let kept: Arc<Mutex<Vec<Waker>>> = Arc::default();
    let wakers = Arc::clone(&kept);
    task.submit(move |_, cx| {
        let pending = std::future::poll_fn(move |poll: &mut Context<'_>| -> Poll<()> {
            wakers.lock().expect("no panic").push(poll.waker().clone());
            Poll::Pending
        });
        cx.run_exclusive(pending, |_, _, ()| ());
    })?;
    sim.run_until_idle();
    drop(task.kill());
    drop(task);
    sim.run_until_idle();
    assert_eq!(ends.count(), 1);
    drop(sim);
    let wakers = std::mem::take(&mut *kept.lock().expect("no panic"));
    for waker in wakers {
        waker.wake_by_ref();
        std::mem::forget(waker.clone());
        waker.wake();
    }
    Ok(())
}

#[test]
fn subscription_dropped_inside_its_own_poll_does_not_run_on() -> Outcome {
    let sim = Sim::fifo();
    let ends = Ends::default();
    let end = ends.one();
    let task = sim.group("misuse").spawn(0_u32)?;
    task.submit(move |_, cx| {
        let handle = Arc::new(Mutex::new(None));
        let own = Arc::clone(&handle);
        let future = std::future::poll_fn(move |poll: &mut Context<'_>| -> Poll<()> {
            let _end = &end;
            poll.waker().wake_by_ref();
            if let Some(subscription) = own.lock().expect("no panic").take() {
                turnwheel_runtime::Subscription::cancel(&subscription);
            }
            Poll::Pending
        });
        let subscription = cx.await_interleaved(future, |_, _, ()| unreachable!("cancelled"));
        *handle.lock().expect("no panic") = Some(subscription);
    })?;
    sim.run_until_idle();
    assert_eq!(ends.count(), 1, "the future is dropped once");
    Ok(())
}

#[test]
fn context_that_drops_all_subscriptions_in_one_of_them_ends_each_once() -> Outcome {
    let sim = Sim::fifo();
    let ends = Ends::default();
    let task = sim.group("misuse").spawn(0_u32)?;
    let (first, second) = (ends.one(), ends.one());
    task.submit(move |_, cx| {
        let job = move |_: &mut u32, cx: &mut turnwheel_runtime::Context<'_, u32>| {
            let _end = &first;
            cx.cancel_subscriptions();
            // Into the place that has just become free.
            let again = cx.after(Duration::from_secs(1), |count, _| *count += 1);
            again.expect("room for a timer");
        };
        cx.every_after(Duration::from_secs(1), job).expect("room for a timer");
        let other = move |_: &mut u32, _: &mut turnwheel_runtime::Context<'_, u32>| {
            let _end = &second;
        };
        cx.every_after(Duration::from_secs(2), other).expect("room for a timer");
    })?;
    sim.run_until_idle();
    sim.advance(Duration::from_secs(3));
    let count = task.call(|count, _| *count);
    sim.run_until_idle();
    assert_eq!((count.wait()?, ends.count()), (1, 2));
    Ok(())
}

// --- oneshot channels ---

/// Drops its sender when the value is given up.
struct Keeps(Mutex<Option<Sender<End, Keeps>>>, #[expect(dead_code, reason = "it is counted")] End);

impl Metadata for Keeps {
    fn abandoned(&self) {
        drop(self.0.lock().expect("no panic").take());
    }
}

#[test]
fn sender_dropped_inside_the_callback_of_its_own_channel_ends_it_once() {
    let ends = Ends::default();
    let (sender, receiver) = channel::<End, _>(Keeps(Mutex::new(None), ends.one()));
    assert!(receiver.state().watch());
    let shared = receiver.share();
    *shared.metadata().0.lock().expect("no panic") = Some(sender);
    drop(shared);
    assert_eq!(ends.count(), 0);
    drop(receiver);
    assert_eq!(ends.count(), 1, "the metadata is dropped once");
}

#[test]
fn last_handle_takes_the_metadata_and_no_other_does() {
    let ends = Ends::default();
    let (sender, receiver) = channel::<End, _>(Keeps(Mutex::new(None), ends.one()));
    let (first, last) = (receiver.share(), sender.share());
    drop((sender, receiver));
    assert!(first.into_metadata().is_none());
    let metadata = last.into_metadata();
    assert_eq!((metadata.is_some(), ends.count()), (true, 0));
    drop(metadata);
    assert_eq!(ends.count(), 1);
}

#[test]
fn receiver_dropped_by_the_waker_that_its_sender_calls_drops_the_value_once() {
    let ends = Ends::default();
    let (sender, mut receiver) = channel::<End, ()>(());
    let slot: Arc<Mutex<Option<Receiver<End, ()>>>> = Arc::default();
    let kept = Arc::clone(&slot);
    let waker = on_wake(move || drop(kept.lock().expect("no panic").take()));
    assert!(receiver.poll(&waker).is_pending());
    *slot.lock().expect("no panic") = Some(receiver);
    assert!(sender.send(ends.one()).is_ok());
    assert_eq!(ends.count(), 1);
}

#[test]
fn forgotten_sides_of_a_channel_leak_and_free_nothing_twice() {
    let ends = Ends::default();
    let (sender, receiver, shared) = channel_shared::<End, ()>(());
    std::mem::forget(receiver);
    assert!(sender.send(ends.one()).is_ok());
    drop(shared);
    let (sender, mut receiver) = channel::<End, ()>(());
    std::mem::forget(sender);
    assert!(receiver.poll(Waker::noop()).is_pending());
    drop(receiver);
    assert_eq!(ends.count(), 0, "a value that nobody receives is leaked with its receiver");
}

/// Panics when it is woken, and when it is dropped.
struct Panicking;

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        panic!("planted in a waker");
    }
}

impl Drop for Panicking {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "planted in the end of a waker");
    }
}

#[test]
fn wakers_that_panic_leave_the_channel_whole() {
    let ends = Ends::default();
    let (sender, mut receiver) = channel::<End, ()>(());
    let panics = Waker::from(Arc::new(Panicking));
    assert!(receiver.poll(&panics).is_pending());
    std::mem::forget(panics);
    // The former waker is dropped here, or by the sender: both contain a panic or pass it on.
    let polled = catch_unwind(AssertUnwindSafe(|| receiver.poll(Waker::noop()).is_pending()));
    drop(polled);
    assert!(sender.send(ends.one()).is_ok());
    assert!(matches!(receiver.poll(Waker::noop()), Poll::Ready(Received::Value(_))));
    assert_eq!(ends.count(), 1);
}

// --- lending, places of threads, values of workers ---

#[test]
fn forgotten_loan_leaks_and_the_lender_lends_on() {
    let ends = Ends::default();
    let mut lender = Lender::new();
    std::mem::forget(lender.lend(ends.one()));
    assert!(lender.fetch().is_none());
    drop(lender.lend(ends.one()));
    assert_eq!(ends.count(), 0, "it was given back");
    assert!(lender.fetch().is_some());
    assert_eq!(ends.count(), 1);
    drop(lender);
    assert_eq!(ends.count(), 1);
}

/// Panics at its end.
struct Bomb(#[expect(dead_code, reason = "it is counted")] End);

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "planted in a destructor");
    }
}

#[test]
fn loan_whose_value_panics_at_its_end_is_freed_once() {
    let ends = Ends::default();
    let mut lender = Lender::new();
    let lent = lender.lend(Bomb(ends.one()));
    drop(lender);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(lent))).is_err());
    assert_eq!(ends.count(), 1);
    let mut lender = Lender::new();
    drop(lender.lend(Bomb(ends.one())));
    // The returned value is still in the cell: the new value replaces it, and the old cell is
    // freed.
    assert!(catch_unwind(AssertUnwindSafe(|| lender.lend(Bomb(ends.one())))).is_err());
    drop(lender);
    assert_eq!(ends.count(), 3);
}

#[test]
fn place_of_a_thread_is_restored_after_a_panic_within_itself() {
    let place = Scoped::new();
    place.enter(&1, || {
        let nested = AssertUnwindSafe(|| place.enter(&2, || panic!("planted")));
        assert!(catch_unwind(nested).is_err());
        assert_eq!(place.look(|value| *value), Some(1));
        // A look from within a look, and an entry from within one.
        let seen = place.look(|outer| place.enter(&3, || place.look(|inner| *outer + *inner)));
        assert_eq!(seen, Some(Some(4)));
    });
    assert!(!place.is_entered());
}

#[test]
fn value_of_a_worker_used_within_itself_panics_and_is_whole_after() -> Outcome {
    let group = Group::builder("misuse").workers(1).pinning(Pinning::None).build()?;
    let values = Arc::new(PerWorker::new(&group, || 0));
    let task = group.spawn(())?;
    let own = Arc::clone(&values);
    let nested = task.call(move |(), _| {
        own.own(|outer| {
            *outer += 1;
            own.own(|inner| *inner += 1);
        })
    });
    assert!(matches!(nested.wait(), Err(Failure::Panicked(_))));
    let own = Arc::clone(&values);
    let visiting = task.call(move |(), _| own.own(|_| own.visit_each(|value| *value += 1)));
    assert!(matches!(visiting.wait(), Err(Failure::Panicked(_))));
    let own = Arc::clone(&values);
    let visited = task.call(move |(), _| {
        own.visit_each(|_| own.own(|value| *value += 1).unwrap_or_default());
    });
    assert!(matches!(visited.wait(), Err(Failure::Panicked(_))));
    let again = catch_unwind(AssertUnwindSafe(|| {
        values.visit_each(|_| values.visit_each(|value| *value += 1));
    }));
    assert!(again.is_err());
    let mut seen = Vec::new();
    values.visit_each(|value| seen.push(*value));
    assert_eq!(seen, [1]);
    group.shutdown()?;
    Ok(())
}

#[test]
fn visit_within_a_visit_panics_also_through_another_visit() -> Outcome {
    let group = Group::builder("misuse").workers(1).pinning(Pinning::None).build()?;
    let one = Arc::new(PerWorker::new(&group, || 0));
    let other = Arc::new(PerWorker::new(&group, || 0));
    let (tell, told) = mpsc::channel();
    let (inner, between) = (Arc::clone(&one), other);
    // On a thread of its own: a lock taken twice fails the test and does not hang it.
    std::thread::spawn(move || {
        let nested = || inner.visit_each(|_| between.visit_each(|_| inner.visit_each(|_| ())));
        let panicked = catch_unwind(AssertUnwindSafe(nested)).is_err();
        between.visit_each(|value| *value += 1);
        let _ = tell.send(panicked);
    });
    assert!(told.recv_timeout(Duration::from_secs(10))?, "both had the value");
    one.visit_each(|value| assert_eq!(*value, 0));
    group.shutdown()?;
    Ok(())
}

/// Panics when the last count of it is dropped.
struct Spiteful;

impl Wake for Spiteful {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Spiteful {
    fn drop(&mut self) {
        panic!("planted in a waker");
    }
}

/// Counts that the answer is not awaited any more.
struct Watched(Arc<AtomicUsize>);

impl Metadata for Watched {
    fn abandoned(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// A channel that keeps the last count of a waker which panics when it is dropped.
fn spiteful_channel(
    abandoned: &Arc<AtomicUsize>,
) -> (Sender<u32, Watched>, Receiver<u32, Watched>) {
    let (sender, mut receiver) = channel(Watched(Arc::clone(abandoned)));
    assert!(sender.state().watch());
    let waker = Waker::from(Arc::new(Spiteful));
    assert!(receiver.poll(&waker).is_pending());
    // Only the channel is left to drop it.
    drop(waker);
    (sender, receiver)
}

#[test]
fn waker_that_panics_when_it_is_dropped_keeps_no_channel_from_its_end() {
    let abandoned = Arc::default();
    let (sender, receiver) = spiteful_channel(&abandoned);
    drop(receiver);
    assert_eq!(abandoned.load(Ordering::Acquire), 1, "the producer is told");
    assert_eq!(sender.send(1), Err(1));
    let (sender, mut receiver) = spiteful_channel(&abandoned);
    assert!(receiver.poll(Waker::noop()).is_pending());
    assert_eq!(sender.send(2), Ok(()));
    assert_eq!(receiver.poll(Waker::noop()), Poll::Ready(Received::Value(2)));
    assert_eq!(abandoned.load(Ordering::Acquire), 1);
}
