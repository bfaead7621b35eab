//! Code that panics, and panics again when it is dropped, ends its message and not the process.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context as PollContext, Poll};
use std::time::Duration;

use futures_core::Stream;
use turnwheel_actors::entity::EntityContext;
use turnwheel_actors::{
    Actor, Address, Answers, AsyncContext, AsyncHandler, Context, DeadLetter, Directive, Entities,
    Entity, Exit, Handler, InterleavedHandler, System,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::Failure;

type Outcome = Result<(), Box<dyn Error>>;

/// Panics when it is polled, and when it is dropped.
struct Twice<T = ()>(PhantomData<fn() -> T>);

fn twice<T>() -> Twice<T> {
    Twice(PhantomData)
}

impl<T> Future for Twice<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, _: &mut PollContext<'_>) -> Poll<T> {
        panic!("first");
    }
}

impl<T> Stream for Twice<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, _: &mut PollContext<'_>) -> Poll<Option<T>> {
        panic!("first");
    }
}

impl<T> Drop for Twice<T> {
    fn drop(&mut self) {
        panic!("second");
    }
}

/// A payload whose destructor panics.
struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic!("the payload");
    }
}

/// Continues after failures, and counts them.
#[derive(Default)]
struct Robust {
    failures: u32,
}

impl Actor for Robust {
    type Error = Infallible;

    fn on_failure(&mut self, _: &Failure, _: &mut Context<'_, Self>) -> Directive {
        self.failures += 1;
        Directive::Resume
    }
}

#[derive(Debug)]
struct Ping;

impl Handler<Ping> for Robust {
    type Reply = u32;

    fn handle(&mut self, _: Ping, _: &mut Context<'_, Self>) -> u32 {
        self.failures
    }
}

struct Exclusive;

impl AsyncHandler<Exclusive> for Robust {
    type Reply = ();

    fn handle(&mut self, _: Exclusive, _: AsyncContext<Self>) -> impl Future<Output = ()> + Send {
        twice()
    }
}

struct Interleaved;

impl InterleavedHandler<Interleaved> for Robust {
    type Reply = ();

    fn handle(
        &mut self,
        _: Interleaved,
        _: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send + 'static {
        twice()
    }
}

struct Piped;

impl Handler<Piped> for Robust {
    type Reply = ();

    fn handle(&mut self, _: Piped, cx: &mut Context<'_, Self>) {
        cx.pipe(twice(), |()| Ping);
    }
}

struct Streamed;

impl Handler<Streamed> for Robust {
    type Reply = Answers<u32>;

    fn handle(&mut self, _: Streamed, cx: &mut Context<'_, Self>) -> Answers<u32> {
        cx.answers(1, |_| twice())
    }
}

struct Raise;

impl InterleavedHandler<Raise> for Robust {
    type Reply = ();

    fn handle(
        &mut self,
        _: Raise,
        _: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let payload = Payload;
        async move { std::panic::panic_any(payload) }
    }
}

/// The actor goes on with one more failure.
fn survives(sim: &Sim, robust: &Address<Robust>, failures: u32) -> Outcome {
    sim.run_until_idle();
    let ping = robust.ask(Ping);
    sim.run_until_idle();
    assert_eq!(ping.wait()?, failures);
    Ok(())
}

#[test]
fn futures_and_streams_of_an_actor_may_panic_when_polled_and_when_dropped() -> Outcome {
    let sim = Sim::fifo();
    let robust = System::new(&sim.group("sim")).spawn(Robust::default())?;
    let exclusive = robust.ask(Exclusive);
    survives(&sim, &robust, 1)?;
    assert!(exclusive.wait().is_err());
    let interleaved = robust.ask(Interleaved);
    survives(&sim, &robust, 2)?;
    assert!(interleaved.wait().is_err());
    robust.tell(Piped)?;
    survives(&sim, &robust, 3)?;
    let attached = robust.attach(twice::<Ping>())?;
    survives(&sim, &robust, 4)?;
    assert!(attached.ended().wait().is_err());
    let streamed = robust.ask(Streamed);
    survives(&sim, &robust, 5)?;
    assert!(streamed.wait()?.wait_next().is_err());
    let raised = robust.ask(Raise);
    survives(&sim, &robust, 6)?;
    assert!(raised.wait().is_err());
    Ok(())
}

#[test]
fn handlers_with_interceptors_around_them_may_panic_twice_too() -> Outcome {
    let sim = Sim::fifo();
    let system = System::builder(&sim.group("sim"))
        .intercept(turnwheel_interceptors::Metrics::new())
        .build();
    let robust = system.spawn(Robust::default())?;
    robust.tell(Exclusive)?;
    survives(&sim, &robust, 1)?;
    robust.tell(Interleaved)?;
    survives(&sim, &robust, 2)?;
    Ok(())
}

/// Its activation panics.
struct Unborn;

impl Actor for Unborn {
    type Error = Infallible;
}

impl Entity for Unborn {
    type Key = u64;

    fn create(_: &u64) -> Self {
        Unborn
    }

    fn activate(
        &mut self,
        _: EntityContext<Self>,
    ) -> impl Future<Output = Result<(), Infallible>> + Send {
        twice()
    }
}

impl Handler<Ping> for Unborn {
    type Reply = ();

    fn handle(&mut self, _: Ping, _: &mut Context<'_, Self>) {}
}

#[test]
fn an_activation_that_panics_twice_fails_and_its_callers_are_told() {
    let sim = Sim::fifo();
    let entities = Entities::new(&System::new(&sim.group("sim")));
    let ping = entities.get::<Unborn>(1_u64).ask(Ping);
    sim.run_until_idle();
    assert!(ping.wait().is_err_and(|error| error.to_string().contains("first")));
}

/// Panics in its last hook, and when it is dropped.
struct Last;

impl Actor for Last {
    type Error = Infallible;

    fn ended(&mut self, _: &Exit) {
        panic!("first");
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        panic!("second");
    }
}

#[test]
fn an_actor_may_panic_in_its_end_and_when_it_is_dropped() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    for end in [Address::<Last>::close, Address::<Last>::stop, Address::<Last>::kill] {
        let last = system.spawn(Last)?;
        sim.run_until_idle();
        drop(end(&last));
        sim.run_until_idle();
        assert!(last.closed().is_done());
    }
    Ok(())
}

/// A message that panics when it is dropped.
struct Mine;

impl Drop for Mine {
    fn drop(&mut self) {
        panic!("a message");
    }
}

impl Handler<Mine> for Robust {
    type Reply = ();

    fn handle(&mut self, mine: Mine, _: &mut Context<'_, Self>) {
        std::mem::forget(mine);
    }
}

static HOOKED: AtomicU32 = AtomicU32::new(0);

fn panicking_hook(_: &DeadLetter) {
    HOOKED.fetch_add(1, Ordering::Relaxed);
    panic!("the hook");
}

#[test]
fn lost_messages_and_the_hook_that_is_told_of_them_may_panic() -> Outcome {
    let sim = Sim::fifo();
    let system = System::builder(&sim.group("sim")).on_dead_letter(panicking_hook).build();
    let robust = system.spawn(Robust::default())?;
    sim.run_until_idle();
    for _ in 0..3 {
        robust.tell(Mine)?;
    }
    let closed = robust.kill();
    sim.run_until_idle();
    assert!(closed.is_done());
    assert_eq!(HOOKED.load(Ordering::Relaxed), 3);
    assert_eq!(system.dead_letters(), 3);
    Ok(())
}

/// An error that counts its copies.
#[derive(Clone, Debug)]
struct Counted(Arc<()>);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no activation; there are {} copies", Arc::strong_count(&self.0))
    }
}

impl Error for Counted {}

static COUNTED: LazyLock<Arc<()>> = LazyLock::new(Arc::default);

/// Its activation fails.
struct Failing;

impl Actor for Failing {
    type Error = Counted;
}

impl Entity for Failing {
    type Key = u64;
    const ACTIVATION_ATTEMPTS: u32 = 1;

    fn create(_: &u64) -> Self {
        Self
    }

    async fn activate(&mut self, _: EntityContext<Self>) -> Result<(), Counted> {
        Err(Counted(Arc::clone(&COUNTED)))
    }
}

impl Handler<Mine> for Failing {
    type Reply = ();

    fn handle(&mut self, _: Mine, _: &mut Context<'_, Self>) {}
}

impl Handler<Ping> for Failing {
    type Reply = ();

    fn handle(&mut self, _: Ping, _: &mut Context<'_, Self>) {}
}

#[test]
fn a_refused_call_whose_message_panics_leaves_no_failure_behind() {
    let sim = Sim::fifo();
    let entities = Entities::new(&System::new(&sim.group("sim")));
    let failing = entities.get::<Failing>(1_u64);
    let ping = failing.ask(Ping);
    sim.run_until_idle();
    assert!(ping.wait().is_err());
    let refused = catch_unwind(AssertUnwindSafe(|| drop(failing.ask(Mine))));
    assert!(refused.is_err(), "the message panics in the call");
    drop((failing, entities));
    sim.shutdown(Duration::from_secs(1));
    drop(sim);
    assert_eq!(Arc::strong_count(&COUNTED), 1);
}
