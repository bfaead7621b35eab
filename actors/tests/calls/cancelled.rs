//! A call that its caller gives up before its handler begins is skipped and counted, wherever it waits.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_actors::{
    Actor, Address, Admits, AsyncContext, AsyncHandler, Context, Entities, Entity, Handler,
    InterleavedHandler, ReplyHandler, ReplyTo, Restart, System,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Backoff, Completion, Group};

type Outcome = Result<(), Box<dyn Error>>;

const SECOND: Duration = Duration::from_secs(1);

/// Notes the handled messages, in order.
#[derive(Default)]
struct Clerk(Vec<&'static str>);

impl Actor for Clerk {
    type Error = Infallible;
}

impl Entity for Clerk {
    type Key = u64;

    fn create(_: &u64) -> Self {
        Self::default()
    }
}

struct Plain(&'static str);
struct Exclusive(&'static str);
struct Interleaved(&'static str);
struct Replying(&'static str);

impl Handler<Plain> for Clerk {
    type Reply = ();

    fn handle(&mut self, Plain(name): Plain, _: &mut Context<'_, Self>) {
        self.0.push(name);
    }
}

impl AsyncHandler<Exclusive> for Clerk {
    type Reply = ();

    async fn handle(&mut self, Exclusive(name): Exclusive, _: AsyncContext<Self>) {
        self.0.push(name);
    }
}

impl InterleavedHandler<Interleaved> for Clerk {
    type Reply = ();

    fn handle(
        &mut self,
        Interleaved(name): Interleaved,
        _: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send + 'static {
        self.0.push(name);
        async {}
    }
}

impl ReplyHandler<Replying> for Clerk {
    type Reply = ();

    fn handle(&mut self, Replying(name): Replying, reply: ReplyTo<()>, _: &mut Context<'_, Self>) {
        self.0.push(name);
        reply.send(());
    }
}

/// Holds the clerk until the test lets it go on.
struct Wait(Completion<()>);

impl AsyncHandler<Wait> for Clerk {
    type Reply = bool;

    async fn handle(&mut self, Wait(gate): Wait, cx: AsyncContext<Self>) -> bool {
        self.0.push("waits");
        let _ = gate.await;
        cx.is_abandoned()
    }
}

/// Reads until the test lets it go on.
struct Read(Completion<()>);

impl InterleavedHandler<Read> for Clerk {
    type Reply = ();
    const ADMITS: Admits = Admits::Readers;

    fn handle(
        &mut self,
        Read(gate): Read,
        _: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send + 'static {
        self.0.push("read");
        async move {
            let _ = gate.await;
        }
    }
}

/// Every dead letter, by its reason.
fn watched(sim: &Sim) -> (System, Arc<Mutex<Vec<String>>>) {
    let letters = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&letters);
    let system = System::builder(&sim.group("sim")).on_dead_letter(move |letter| {
        seen.lock().expect("nobody panics with it").push(format!("{:?}", letter.reason));
    });
    (system.build(), letters)
}

fn reasons(letters: &Mutex<Vec<String>>) -> Vec<String> {
    std::mem::take(&mut *letters.lock().expect("nobody panics with it"))
}

fn log(sim: &Sim, clerk: &Address<Clerk>) -> Vec<&'static str> {
    let asked = clerk.with(|clerk, _| std::mem::take(&mut clerk.0));
    sim.run_until_idle();
    asked.wait().expect("it is there")
}

#[test]
fn a_dropped_call_in_the_mailbox_is_skipped_by_handlers_of_all_kinds() -> Outcome {
    let sim = Sim::fifo();
    let (system, letters) = watched(&sim);
    let clerk = system.spawn(Clerk::default())?;
    clerk.tell(Plain("first"))?;
    drop(clerk.ask(Plain("plain")));
    drop(clerk.ask(Exclusive("exclusive")));
    drop(clerk.ask(Interleaved("interleaved")));
    drop(clerk.ask(Replying("replying")));
    drop(clerk.with(|clerk, _| clerk.0.push("closure")));
    clerk.tell(Plain("last"))?;
    sim.run_until_idle();
    assert_eq!(log(&sim, &clerk), ["first", "last"]);
    assert_eq!(reasons(&letters), ["Cancelled"; 5]);
    assert_eq!(system.dead_letters(), 5);
    assert_eq!(system.cancelled_calls(), 5);
    Ok(())
}

#[test]
fn a_cancelled_call_says_whether_its_handler_ever_runs() -> Outcome {
    let sim = Sim::fifo();
    let (system, letters) = watched(&sim);
    let clerk = system.spawn(Clerk::default())?;
    let (release, gate) = completion();
    let waits = clerk.ask(Wait(gate));
    let queued = clerk.ask(Plain("queued"));
    sim.run_until_idle();
    assert!(queued.cancel(), "it waits for the other one");
    assert!(!waits.cancel(), "it has begun");
    let _ = release.complete(());
    sim.run_until_idle();
    assert_eq!(log(&sim, &clerk), ["waits"]);
    assert_eq!(reasons(&letters), ["Cancelled"]);
    let answered = clerk.ask(Plain("answered"));
    sim.run_until_idle();
    assert!(!answered.cancel(), "its answer is there");
    drop(clerk.close());
    sim.run_until_idle();
    assert!(clerk.ask(Plain("refused")).cancel(), "it was never sent");
    Ok(())
}

#[test]
fn a_running_handler_sees_that_its_call_was_cancelled_and_goes_on() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let clerk = system.spawn(Clerk::default())?;
    let (release, gate) = completion();
    let waits = clerk.ask(Wait(gate));
    sim.run_until_idle();
    assert!(!waits.cancel());
    clerk.tell(Plain("behind"))?;
    sim.run_until_idle();
    let _ = release.complete(());
    assert_eq!(log(&sim, &clerk), ["waits", "behind"]);
    assert_eq!(system.dead_letters(), 0);
    Ok(())
}

#[test]
fn a_dropped_writer_at_the_gate_makes_way_for_the_readers_behind_it() -> Outcome {
    let sim = Sim::fifo();
    let (system, letters) = watched(&sim);
    let clerk = system.actor(Clerk::default()).spawn()?;
    let (first, gate) = completion();
    clerk.tell(Read(gate))?;
    sim.run_until_idle();
    // Without a deadline, too.
    let writer = clerk.ask_within(Plain("writer"), Duration::MAX);
    let (second, gate) = completion();
    clerk.tell(Read(gate))?;
    sim.run_until_idle();
    drop(writer);
    sim.run_until_idle();
    assert_eq!(reasons(&letters), ["Cancelled"], "at once");
    let _ = (first.complete(()), second.complete(()));
    sim.run_until_idle();
    assert_eq!(log(&sim, &clerk), ["read", "read"]);
    Ok(())
}

#[test]
fn calls_that_were_dropped_at_the_gate_leave_room_for_others() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let mailbox = turnwheel_runtime::Mailbox::unbounded();
    let clerk = system.actor(Clerk::default()).mailbox(mailbox).spawn()?;
    let (release, gate) = completion();
    clerk.tell(Read(gate))?;
    sim.run_until_idle();
    // The first has no caller: the gate does not watch the calls behind it.
    clerk.tell(Plain("told"))?;
    let given_up: Vec<_> =
        (1..turnwheel_actors::WAITING_MAX).map(|_| clerk.ask(Plain("given up"))).collect();
    sim.run_until_idle();
    drop(given_up);
    let kept = clerk.ask(Plain("kept"));
    sim.run_until_idle();
    let _ = release.complete(());
    sim.run_until_idle();
    kept.wait()?;
    assert_eq!(log(&sim, &clerk), ["read", "told", "kept"]);
    Ok(())
}

/// Passes calls on to another clerk.
struct Passes(Address<Clerk>);

impl Actor for Passes {
    type Error = Infallible;
}

impl ReplyHandler<Plain> for Passes {
    type Reply = ();

    fn handle(&mut self, message: Plain, reply: ReplyTo<()>, _: &mut Context<'_, Self>) {
        let _ = self.0.forward(message, reply);
    }
}

/// Asks the other clerk and handles the answer itself.
struct Pipe;
struct Piped;

impl Handler<Pipe> for Passes {
    type Reply = ();

    fn handle(&mut self, _: Pipe, cx: &mut Context<'_, Self>) {
        cx.pipe(self.0.ask(Plain("piped")), |_| Piped);
    }
}

impl Handler<Piped> for Passes {
    type Reply = ();

    fn handle(&mut self, _: Piped, _: &mut Context<'_, Self>) {}
}

#[test]
fn a_forwarded_call_and_a_piped_one_are_skipped_where_they_wait() -> Outcome {
    let sim = Sim::fifo();
    let (system, letters) = watched(&sim);
    let clerk = system.spawn(Clerk::default())?;
    let passes = system.spawn(Passes(clerk.clone()))?;
    let (release, gate) = completion();
    clerk.tell(Wait(gate))?;
    let forwarded = passes.ask(Plain("forwarded"));
    passes.tell(Pipe)?;
    sim.run_until_idle();
    assert!(forwarded.cancel(), "the first handler has passed it on, the second has not begun");
    drop(passes.kill());
    sim.run_until_idle();
    let _ = release.complete(());
    sim.run_until_idle();
    assert_eq!(log(&sim, &clerk), ["waits"]);
    assert_eq!(reasons(&letters), ["Cancelled"; 2]);
    Ok(())
}

#[test]
fn a_dropped_call_to_an_entity_or_a_pool_is_skipped() -> Outcome {
    let sim = Sim::fifo();
    let (system, letters) = watched(&sim);
    let entities = Entities::new(&system);
    drop(entities.get::<Clerk>(1_u64).ask(Plain("entity")));
    let asked = entities.get::<Clerk>(1_u64).ask(Plain("later"));
    sim.run_until_idle();
    asked.wait().map_err(|error| error.to_string())?;
    let pool = system.pool(Clerk::default).growing(1, 1).build()?;
    drop(pool.ask(Plain("pool")));
    let asked = pool.ask(Plain("later"));
    sim.run_until_idle();
    asked.wait()?;
    assert_eq!(reasons(&letters), ["Cancelled"; 2]);
    Ok(())
}

#[test]
fn a_call_past_its_deadline_is_expired_and_not_cancelled() -> Outcome {
    let sim = Sim::fifo();
    let (system, letters) = watched(&sim);
    let clerk = system.spawn(Clerk::default())?;
    let (release, gate) = completion();
    clerk.tell(Wait(gate))?;
    let late = clerk.ask_within(Plain("late"), SECOND);
    sim.run_until_idle();
    sim.advance(SECOND * 2);
    let _ = release.complete(());
    sim.run_until_idle();
    assert!(late.wait().is_err());
    assert_eq!(reasons(&letters), ["Expired"]);
    assert_eq!(system.cancelled_calls(), 0);
    Ok(())
}

/// Counts its messages for all.
struct Count(Arc<AtomicU32>);

impl Actor for Count {
    type Error = Infallible;
}

impl Handler<Plain> for Count {
    type Reply = ();

    fn handle(&mut self, _: Plain, _: &mut Context<'_, Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn the_begin_of_a_handler_and_its_cancellation_are_decided_once() -> Outcome {
    let group = Group::builder("races").workers(1).build()?;
    let system = System::new(&group);
    let handled = Arc::new(AtomicU32::new(0));
    // Also where the worker has no processor for a while, no call is refused.
    let mailbox = turnwheel_runtime::Mailbox::unbounded();
    let count = system.actor(Count(Arc::clone(&handled))).mailbox(mailbox).spawn()?;
    let mut begun = 0;
    for round in 0..20_000_u32 {
        let ask = count.ask(Plain("race"));
        // A different moment each time.
        (0..round % 200).for_each(|_| std::hint::spin_loop());
        begun += u32::from(!ask.cancel());
    }
    count.ask(Plain("last")).wait()?;
    assert_eq!(handled.load(Ordering::Relaxed), begun + 1);
    assert_eq!(system.cancelled_calls(), u64::from(20_000 - begun));
    group.shutdown()?;
    Ok(())
}

/// Ends the clerk, so that its successor begins after a pause.
struct Crash;

impl Handler<Crash> for Clerk {
    type Reply = ();

    fn handle(&mut self, _: Crash, _: &mut Context<'_, Self>) {
        panic!("on purpose");
    }
}

#[test]
fn call_cancelled_in_the_pause_of_a_restart_never_begins() -> Outcome {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let (system, letters) = watched(&sim);
        let policy = Restart::limited(2, SECOND * 60).backoff(Backoff::constant(SECOND));
        let clerk = system.actor(Clerk::default()).restart(policy, Clerk::default).spawn()?;
        let crash = clerk.ask(Crash);
        sim.run_until_idle();
        let kept = clerk.ask(Plain("kept"));
        let cancelled = clerk.ask(Exclusive("cancelled"));
        let dropped = clerk.ask(Interleaved("dropped"));
        sim.run_until_idle();
        assert!(cancelled.cancel(), "it waits for the fresh actor; seed {seed}");
        drop((dropped, crash));
        sim.advance(SECOND * 2);
        sim.block_on(kept)??;
        assert_eq!(log(&sim, &clerk), ["kept"], "seed {seed}");
        let skipped = reasons(&letters).iter().filter(|reason| *reason == "Cancelled").count();
        assert_eq!((skipped, system.cancelled_calls()), (2, 2), "seed {seed}");
    }
    Ok(())
}
