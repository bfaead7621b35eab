//! A backlog of exclusive calls, in virtual time: timers, piped futures, watches and interleaved handlers of
//! the actor keep their time, whatever the order of turns.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use turnwheel_actors::{
    Actor, Address, AsyncContext, AsyncHandler, Context, Handler, InterleavedHandler, System,
    TimerError, Timing,
};
use turnwheel_runtime::sim::Sim;

type Outcome = Result<(), Box<dyn Error>>;

const EXCLUSIVE: Duration = Duration::from_millis(3);
const PERIOD: Duration = Duration::from_millis(10);
const SECOND: Duration = Duration::from_secs(1);

/// Number of own events, of each kind, that reached it.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    ticks: u32,
    plain_ticks: u32,
    piped: u32,
    ended: u32,
}

#[derive(Default)]
struct Busy(Seen);

impl Actor for Busy {
    type Error = TimerError;

    fn starting(&mut self, cx: &mut Context<'_, Self>) -> Result<(), TimerError> {
        cx.tell_every(PERIOD, turnwheel_runtime::Late::Skip, || PlainTick)?;
        cx.timer(Timing::every(PERIOD), || Tick).map(drop)
    }
}

struct Exclusive;

impl AsyncHandler<Exclusive> for Busy {
    type Reply = ();

    async fn handle(&mut self, _: Exclusive, cx: AsyncContext<Self>) {
        let _ = cx.sleep(EXCLUSIVE).await;
    }
}

struct Beside;

impl InterleavedHandler<Beside> for Busy {
    type Reply = ();

    fn handle(
        &mut self,
        _: Beside,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let slow = cx.group().sleep(PERIOD);
        async move {
            let _ = slow.await;
        }
    }
}

macro_rules! counted {
    ($($message:ident: $count:ident;)*) => {$(
        struct $message;
        impl Handler<$message> for Busy {
            type Reply = ();
            fn handle(&mut self, _: $message, _: &mut Context<'_, Self>) {
                self.0.$count += 1;
            }
        }
    )*};
}

counted! {
    Tick: ticks;
    PlainTick: plain_ticks;
    Piped: piped;
    Ended: ended;
}

/// Another actor, which ends.
struct Other;

impl Actor for Other {
    type Error = std::convert::Infallible;
}

struct Begin(Address<Other>);

impl Handler<Begin> for Busy {
    type Reply = ();

    fn handle(&mut self, Begin(other): Begin, cx: &mut Context<'_, Self>) {
        cx.watch(&other, |_| Ended);
        cx.pipe(cx.group().sleep(PERIOD), |_| Piped);
    }
}

/// Asks without a pause.
struct Caller(Address<Busy>);

impl Actor for Caller {
    type Error = std::convert::Infallible;
}

struct Go;

impl Handler<Go> for Caller {
    type Reply = ();

    fn handle(&mut self, _: Go, cx: &mut Context<'_, Self>) {
        cx.pipe(self.0.ask_within(Exclusive, Duration::MAX), |_| Go);
    }
}

fn under_a_backlog(sim: &Sim) -> Outcome {
    let system = System::new(&sim.group("busy"));
    let busy = system.spawn(Busy::default())?;
    let callers = [(); 3].map(|()| system.spawn(Caller(busy.clone())));
    for caller in callers {
        caller?.tell(Go)?;
    }
    let other = system.spawn(Other)?;
    busy.tell(Begin(other.clone()))?;
    let beside = busy.ask(Beside);
    sim.advance(SECOND / 10);
    drop(other.close());
    sim.advance(SECOND / 10);
    let asked = busy.with(|busy, _| busy.0);
    sim.advance(SECOND / 10);
    let seen = asked.wait()?;
    // One of each waits for the exclusive call under way.
    assert!(seen.ticks >= 10 && seen.plain_ticks >= 10, "{seen:?}");
    assert_eq!((seen.piped, seen.ended), (1, 1), "{seen:?}");
    beside.wait()?;
    Ok(())
}

#[test]
fn a_backlog_of_exclusive_calls_delays_nothing_of_the_actors_own() -> Outcome {
    under_a_backlog(&Sim::fifo())?;
    for seed in 0..20 {
        under_a_backlog(&Sim::new(seed))?;
    }
    Ok(())
}
