//! Programs without `unsafe` that try to reach memory that is not theirs.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::{Poll, Waker};

use turnwheel_runtime::oneshot::{channel, channel_shared, Metadata, Received};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{current_task, Context, Failure, Lifecycle, OnFailure};

type Outcome = Result<(), Box<dyn Error>>;

/// Runs a closure when it is dropped.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    fn new(run: F) -> Self {
        Self(Some(run))
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run();
        }
    }
}

/// More submissions than nodes that the discarded jobs have given back.
const SUBMISSIONS: usize = 8;

#[test]
fn own_job_of_a_discarded_closure_does_not_land_in_another_tasks_lane() -> Outcome {
    let sim = Sim::fifo();
    let group = sim.group("memory");
    let words = group.spawn(String::new())?;
    let number = group.spawn(7_u64)?;
    let seen = Arc::new(AtomicU64::new(7));
    number.submit(|_, cx| {
        cx.run(|_, _| ()).expect("the fast lane has room");
        cx.stop();
    })?;
    let bait = OnDrop::new({
        let (words, number, seen) = (words.clone(), number.clone(), Arc::clone(&seen));
        move || {
            for _ in 0..SUBMISSIONS {
                // Into the node that the discarded job of the fast lane has left.
                words.submit(|text, _| text.push('w')).expect("the mailbox has room");
            }
            // Closed or run: both are fine, on this task alone.
            let _ = number.run(move |number, _| seen.store(*number, Ordering::Release));
        }
    });
    number.submit(move |_, _| drop(bait))?;
    let text = words.call(|text, _| text.clone());
    sim.run_until_idle();
    assert_eq!(seen.load(Ordering::Acquire), 7, "a job of one task ran on another's state");
    assert!(text.is_done());
    let whole = words.call(|text, _| text.clone());
    sim.run_until_idle();
    assert_eq!(whole.wait()?, "w".repeat(SUBMISSIONS));
    assert!(number.phase().is_over());
    Ok(())
}

#[test]
fn own_job_of_a_discarded_fast_job_stays_in_its_task() -> Outcome {
    let sim = Sim::fifo();
    let group = sim.group("memory");
    let words = group.spawn(String::new())?;
    let number = group.spawn(7_u64)?;
    let seen = Arc::new(AtomicU64::new(7));
    let is_gone = Arc::new(AtomicBool::new(false));
    let bait = OnDrop::new({
        let (words, number) = (words.clone(), number.clone());
        let (seen, gone) = (Arc::clone(&seen), Arc::clone(&is_gone));
        move || {
            for _ in 0..SUBMISSIONS {
                words.submit(|text, _| text.push('w')).expect("the mailbox has room");
            }
            let marked = OnDrop::new(move || gone.store(true, Ordering::Release));
            let _ = number.run(move |number, _| {
                let _marked = marked;
                seen.store(*number, Ordering::Release);
            });
        }
    });
    number.submit(move |_, cx| {
        cx.run(|_, _| ()).expect("the fast lane has room");
        cx.run(move |_, _| drop(bait)).expect("the fast lane has room");
        cx.run(|_, _| ()).expect("the fast lane has room");
        cx.stop();
    })?;
    sim.run_until_idle();
    assert_eq!(seen.load(Ordering::Acquire), 7, "a job of one task ran on another's state");
    assert!(is_gone.load(Ordering::Acquire), "the job was neither run nor dropped");
    let whole = words.call(|text, _| text.clone());
    sim.run_until_idle();
    assert_eq!(whole.wait()?, "w".repeat(SUBMISSIONS));
    Ok(())
}

/// Set in the process that is to be aborted: which handles it forgets.
const FORGETS: &str = "TURNWHEEL_TEST_FORGETS";

/// Forgets more handles of an exchange than its count holds, even after panics.
fn forget_handles(kind: &str) {
    let (_giver, _taker, shared) = channel_shared::<u8, ()>(());
    let weak = shared.downgrade();
    for _ in 0..(1_u32 << 24) {
        // A panic that is caught must not be a way to go on counting.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match kind {
            "shared" => std::mem::forget(shared.clone()),
            "weak" => std::mem::forget(weak.clone()),
            _ => std::mem::forget(weak.upgrade()),
        }));
    }
}

#[test]
fn forgotten_handles_of_a_channel_abort_before_the_count_is_round() -> Outcome {
    if let Ok(kind) = std::env::var(FORGETS) {
        std::panic::set_hook(Box::new(|_| ()));
        forget_handles(&kind);
        return Ok(());
    }
    let name = "memory::forgotten_handles_of_a_channel_abort_before_the_count_is_round";
    let program = std::env::current_exe()?;
    for kind in ["shared", "weak", "upgraded"] {
        let mut child = std::process::Command::new(&program);
        let ended = child.args(["--exact", name, "--nocapture"]).env(FORGETS, kind).output()?;
        assert!(!ended.status.success(), "{kind}: {ended:?}");
        assert!(!String::from_utf8_lossy(&ended.stdout).contains("test result"), "{kind}");
    }
    Ok(())
}

/// Formats all that is logged, as a subscriber that writes does; panics the first times itself.
struct Formats(AtomicUsize);

impl Formats {
    fn new(panics: usize) -> Self {
        Self(AtomicUsize::new(panics))
    }
}

/// Formatted text is discarded.
struct Nowhere;

impl tracing::field::Visit for Nowhere {
    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        let _ = format!("{value:?}");
    }
}

impl tracing::Subscriber for Formats {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut Nowhere);
        assert!(!is_left(&self.0), "planted in a subscriber");
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// Takes one from `left`; false if none is left.
fn is_left(left: &AtomicUsize) -> bool {
    let less = |left: usize| left.checked_sub(1);
    left.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok()
}

/// Runs a simulation under a subscriber whose first events panic.
fn run_logged(sim: &Sim, panics: usize) -> Outcome {
    let run = std::panic::AssertUnwindSafe(|| sim.run_until_idle());
    tracing::subscriber::with_default(Formats::new(panics), || std::panic::catch_unwind(run))
        .map_err(|_| "a panic left the turn")?;
    assert!(current_task().is_none(), "no turn is under way");
    Ok(())
}

/// Number of panics of the text, and of the subscriber.
const PANICS: [(usize, usize); 8] =
    [(0, 1), (0, 2), (0, 3), (0, usize::MAX), (1, 0), (2, 0), (3, 1), (usize::MAX, usize::MAX)];

/// An error whose text panics the first times.
#[derive(Debug)]
struct Unspeakable(AtomicUsize);

impl Unspeakable {
    fn failure(times: usize) -> Failure {
        Failure::error(Self(AtomicUsize::new(times)))
    }
}

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        assert!(!is_left(&self.0), "planted in a text");
        Ok(())
    }
}

impl Error for Unspeakable {}

/// Counts its end, which fails without words.
struct Stubborn {
    ends: Arc<AtomicUsize>,
    times: usize,
}

impl Drop for Stubborn {
    fn drop(&mut self) {
        self.ends.fetch_add(1, Ordering::AcqRel);
        Unspeakable::failure(self.times).raise();
    }
}

/// Hooks that must not be called once they are dropped.
struct Guarded {
    hooks: Stubborn,
}

impl Lifecycle<Stubborn> for Guarded {
    fn on_failure(
        &mut self,
        state: &mut Stubborn,
        _: &mut Context<'_, Stubborn>,
        _: &Failure,
    ) -> OnFailure {
        assert_eq!(self.hooks.ends.load(Ordering::Acquire), 0, "called after its end");
        assert_eq!(state.ends.load(Ordering::Acquire), 0, "called after the state's end");
        OnFailure::Resume
    }
}

#[test]
fn state_and_hooks_end_once_though_their_failures_cannot_be_logged() -> Outcome {
    for (times, panics) in PANICS {
        let sim = Sim::fifo();
        let (state, hooks) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let guarded = Guarded { hooks: Stubborn { ends: Arc::clone(&hooks), times } };
        let stubborn = Stubborn { ends: Arc::clone(&state), times };
        let task = sim.group("memory").task(stubborn).lifecycle(guarded).spawn()?;
        let mut closed = task.close();
        run_logged(&sim, panics)?;
        assert_eq!(state.load(Ordering::Acquire), 1);
        assert_eq!(hooks.load(Ordering::Acquire), 1);
        assert!(matches!(closed.try_take(), Some(Ok(()))), "the end is told");
    }
    Ok(())
}

#[test]
fn job_whose_failure_cannot_be_logged_leaves_the_turn_whole() -> Outcome {
    for (times, panics) in PANICS {
        let sim = Sim::fifo();
        let task = sim.group("memory").spawn(0_u64)?;
        task.submit(move |_, _| Unspeakable::failure(times).raise())?;
        let after = task.call(|count, _| {
            *count += 1;
            *count
        });
        run_logged(&sim, panics)?;
        assert_eq!(after.wait()?, 1);
    }
    Ok(())
}

/// An error whose destructor panics.
#[derive(Debug)]
struct Parting;

impl fmt::Display for Parting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("parting")
    }
}

impl Error for Parting {}

impl Drop for Parting {
    fn drop(&mut self) {
        panic!("planted in the end of an error");
    }
}

#[test]
fn task_that_ends_alone_with_a_failure_whose_drop_panics_is_not_touched_again() -> Outcome {
    let sim = Sim::fifo();
    for _ in 0..3 {
        let task = sim.group("memory").spawn(String::from("state"))?;
        task.fail(Failure::error(Parting)).detach();
        drop(task);
        run_logged(&sim, 0)?;
    }
    sim.assert_no_leaks();
    let other = sim.group("memory").spawn(1)?;
    let answer = other.call(|number, _| *number);
    sim.run_until_idle();
    assert_eq!(answer.wait()?, 1);
    Ok(())
}

/// A stack of the default size.
fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run);
    thread.expect("a thread").join().expect("it ends in order");
}

#[test]
fn large_jobs_fit_a_small_stack_and_come_back_when_refused() -> Outcome {
    const BYTES: usize = 128 * 1024;
    let group = turnwheel_runtime::Group::builder("large").workers(1).build()?;
    let task = group.spawn(0_u8)?;
    let to = task.clone();
    on_a_small_stack(move || {
        let bytes = [1_u8; BYTES];
        to.submit(move |sum, _| *sum += bytes[BYTES - 1]).expect("there is room");
    });
    let to = task.clone();
    on_a_small_stack(move || {
        let bytes = [2_u8; BYTES];
        to.run(move |sum, _| *sum += bytes[BYTES - 1]).expect("there is room");
    });
    assert_eq!(task.call(|sum, _| *sum).wait()?, 3);
    task.close().wait()?;
    on_a_small_stack(move || {
        let bytes = [3_u8; BYTES];
        let refused = task.submit(move |sum, _| *sum += bytes[BYTES - 1]);
        assert!(refused.is_err(), "it is closed");
    });
    group.shutdown()?;
    Ok(())
}

#[test]
fn boxed_values_of_a_oneshot_are_received_dropped_or_given_back_once() {
    use std::task::{Poll, Waker};
    use turnwheel_runtime::oneshot::{channel, Received};
    let value = Arc::new(());
    let boxed = || Box::new((Arc::clone(&value), [7_u8; 64]));
    let (sender, mut receiver) = channel::<_, ()>(());
    assert!(receiver.poll_boxed(Waker::noop()).is_pending());
    assert!(sender.send_boxed(boxed()).is_ok());
    let Poll::Ready(Received::Value(received)) = receiver.poll_boxed(Waker::noop()) else {
        panic!("it was sent");
    };
    assert_eq!((received.1[63], Arc::strong_count(&value)), (7, 2));
    assert!(matches!(receiver.poll_boxed(Waker::noop()), Poll::Ready(Received::AlreadyReceived)));
    drop((received, receiver));
    let (sender, receiver) = channel::<_, ()>(());
    assert!(sender.send_boxed(boxed()).is_ok());
    drop(receiver);
    assert_eq!(Arc::strong_count(&value), 1, "dropped with the receiver, once");
    let (sender, receiver) = channel::<_, ()>(());
    drop(receiver);
    assert!(sender.send_boxed(boxed()).is_err(), "given back");
    assert_eq!(Arc::strong_count(&value), 1);
}

/// Values that lie at multiples of so many bytes; the second is of size zero.
macro_rules! aligned {
    ($($large:ident, $empty:ident: $bytes:literal;)+) => {$(
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[repr(align($bytes))]
        struct $large(u8);
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[repr(align($bytes))]
        struct $empty;
    )+};
}

aligned! {
    By16, EmptyBy16: 16;
    By64, EmptyBy64: 64;
    By128, EmptyBy128: 128;
    By4096, EmptyBy4096: 4096;
}

fn lies_well<T>(value: &T) -> bool {
    std::ptr::from_ref(value) as usize % std::mem::align_of::<T>() == 0
}

/// A state, jobs of all lanes, answers and metadata of a type.
fn all_places_of<T>(sim: &Sim, value: T) -> Outcome
where
    T: Copy + fmt::Debug + PartialEq + Send + Sync + 'static,
{
    struct Meta<T>(T);
    impl<T> Metadata for Meta<T> {}
    let group = sim.group("aligned");
    let task = group.spawn((value, 0_u32))?;
    let job = move |state: &mut (T, u32), cx: &mut Context<'_, (T, u32)>| {
        assert!(lies_well(&value) && lies_well(&state.0));
        cx.run(move |state, _| {
            assert!(lies_well(&value));
            state.1 += 1;
        })
        .expect("there is room");
        state.1 += 1;
    };
    task.submit(job)?;
    task.submit_urgent(job)?;
    drop(task.call(move |_, _| value));
    let (sender, mut receiver) = channel(Meta(value));
    assert!(lies_well(&receiver.state().metadata().0));
    assert!(sender.send(value).is_ok());
    let received = receiver.poll(Waker::noop());
    assert_eq!(received, Poll::Ready(Received::Value(value)));
    sim.run_until_idle();
    let count = task.call(|state, _| (state.0, state.1));
    sim.run_until_idle();
    assert_eq!(count.wait()?, (value, 4));
    Ok(())
}

#[test]
fn over_aligned_states_jobs_and_answers_lie_where_their_types_ask() -> Outcome {
    let sim = Sim::fifo();
    all_places_of(&sim, By16(1))?;
    all_places_of(&sim, By64(1))?;
    all_places_of(&sim, By128(1))?;
    all_places_of(&sim, By4096(1))?;
    all_places_of(&sim, EmptyBy16)?;
    all_places_of(&sim, EmptyBy64)?;
    all_places_of(&sim, EmptyBy128)?;
    all_places_of(&sim, EmptyBy4096)?;
    Ok(())
}
