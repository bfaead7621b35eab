//! Effect of dropping a handle while a task is started, and while it closes. The rule is in the
//! documentation of the crate, «Handles».

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_channel::Channel;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{ConditionMode, Failure, Group};

use crate::hooks::{held, Cx, Hooks, State};
use crate::world::everywhere;

const DELAY: Duration = Duration::from_millis(10);

type Handles = Arc<Mutex<Vec<Box<dyn Send>>>>;

/// Holds handles until the task is over, or drops them at once.
#[derive(Clone)]
struct Shelf(Option<Handles>);

impl Shelf {
    fn put(&self, handle: impl Send + 'static) {
        match &self.0 {
            Some(kept) => kept.lock().expect("nobody panics while writing").push(Box::new(handle)),
            None => drop(handle),
        }
    }
}

/// Number of «ran» notes in each world if this is armed in this phase, which is held for longer
/// than a timer's delay.
fn runs(
    phase: &'static str,
    is_kept: bool,
    arm: impl Fn(&mut State, Cx<'_, '_>, &Shelf) + Clone + Send + 'static,
) -> Vec<usize> {
    let counts = Mutex::new(Vec::new());
    everywhere(|world| {
        let shelf = Shelf(is_kept.then(Arc::default));
        let (arm, on) = (arm.clone(), shelf.clone());
        let (hook, completer) = held(move |state, cx| arm(state, cx, &on));
        let task = world.spawn(Hooks::with(phase, hook));
        let closed = (phase == "closing").then(|| task.close());
        world.until(phase);
        world.settle();
        world.advance(DELAY * 2);
        world.settle();
        world.let_go(&completer);
        world.until("released");
        world.settle();
        world.wait(closed.unwrap_or_else(|| task.close())).expect("it closes in order");
        counts.lock().expect("no case panics").push(world.count("ran"));
        drop(shelf);
    });
    counts.into_inner().expect("no case panics")
}

const PHASES: [&str; 2] = ["started", "closing"];

#[test]
fn a_dropped_timer_or_subscription_changes_nothing() {
    let after = |_: &mut State, cx: Cx<'_, '_>, shelf: &Shelf| {
        shelf.put(cx.after(DELAY, |state, _| state.note("ran")).expect("few timers"));
    };
    let ready = |_: &mut State, cx: Cx<'_, '_>, shelf: &Shelf| {
        let future = std::future::ready(());
        shelf.put(cx.await_interleaved(future, |state, _, ()| state.note("ran")));
    };
    for phase in PHASES {
        assert_eq!(runs(phase, false, after), runs(phase, true, after), "a timer, {phase}");
        let dropped = runs(phase, false, ready);
        assert!(dropped.iter().all(|times| *times == 1), "a future, {phase}: {dropped:?}");
        assert_eq!(dropped, runs(phase, true, ready), "a future, {phase}");
    }
    assert!(runs("started", false, after).iter().all(|times| *times == 1), "the timer fires");
}

#[test]
fn a_dropped_source_ends_what_waits_for_it() {
    let condition = |_: &mut State, cx: Cx<'_, '_>, shelf: &Shelf| {
        let condition = cx.condition(ConditionMode::Counting, |state, _| state.note("ran"));
        condition.signal();
        shelf.put(condition);
    };
    let completer = |_: &mut State, cx: Cx<'_, '_>, shelf: &Shelf| {
        let (completer, done) = completion::<()>();
        let _name = cx.on_completion(done, |state, _, outcome| {
            if matches!(outcome, Err(Failure::Abandoned)) {
                state.note("ran");
            }
        });
        shelf.put(completer);
    };
    assert!(runs("started", true, condition).iter().all(|times| *times == 1), "it is kept");
    for phase in PHASES {
        let ran = runs(phase, false, condition);
        assert!(ran.iter().all(|times| *times == 0), "a condition, {phase}: {ran:?}");
        let told = runs(phase, false, completer);
        assert!(told.iter().all(|times| *times == 1), "a completion, {phase}: {told:?}");
    }
}

#[test]
fn a_dropped_receiving_end_receives_no_more_and_tells_the_source() {
    for phase in PHASES {
        let channel = Channel::bounded(4);
        channel.send(()).expect("there is room");
        let items = channel.clone();
        let consume = move |_: &mut State, cx: Cx<'_, '_>, shelf: &Shelf| {
            shelf.put(items.consume(cx, |state: &mut State, _, ()| state.note("ran")));
        };
        let ran = runs(phase, false, consume);
        assert!(ran.iter().all(|times| *times == 0), "a consumer, {phase}: {ran:?}");
        assert_eq!(channel.len(), 1, "its item stays");
        let wait = |state: &mut State, _: Cx<'_, '_>, _: &Shelf| {
            let (completer, done) = completion::<()>();
            drop(done);
            if completer.is_cancelled() {
                state.note("ran");
            }
        };
        let told = runs(phase, false, wait);
        assert!(told.iter().all(|times| *times == 1), "a completion, {phase}: {told:?}");
    }
}

/// Counts logged events.
#[derive(Clone, Default)]
struct Logged(Arc<AtomicUsize>);

impl tracing::Subscriber for Logged {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        if *event.metadata().level() == tracing::Level::WARN {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn the_last_handle_of_a_group_dropped_without_a_shutdown_is_logged_once() {
    let logged = Logged::default();
    let count = || logged.0.load(Ordering::Relaxed);
    tracing::subscriber::with_default(logged.clone(), || {
        let group = Group::builder("left").workers(1).build().unwrap();
        let task = group.spawn(0_u32).unwrap();
        drop(group.clone());
        assert_eq!(count(), 0, "a handle is left");
        drop(group);
        assert_eq!(count(), 1);
        // Its task still reaches it, runs, and can end it.
        assert_eq!(task.call(|state, _| *state).wait().unwrap(), 0);
        let group = task.group();
        drop(task.group());
        assert!(group.shutdown().unwrap().is_clean());
        drop(group);
        assert_eq!(count(), 1, "said once, and not of a group that was shut down");
    });
}
