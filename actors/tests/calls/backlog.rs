//! A backlog of calls: timers and interleaved handlers of the actor still have their turn.

use std::error::Error;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::Duration;

use turnwheel_actors::{
    Actor, Address, AsyncContext, AsyncHandler, Context, Handler, InterleavedHandler, System,
    TimerError, Timing,
};
use turnwheel_runtime::{Group, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);

const EXCLUSIVE: Duration = Duration::from_millis(3);
const SLOW: Duration = Duration::from_millis(10);

struct Busy {
    ticks: mpsc::Sender<()>,
}

impl Actor for Busy {
    type Error = TimerError;

    fn starting(&mut self, cx: &mut Context<'_, Self>) -> Result<(), TimerError> {
        cx.timer(Timing::every(SLOW), || Tick).map(drop)
    }
}

struct Tick;

impl Handler<Tick> for Busy {
    type Reply = ();

    fn handle(&mut self, _: Tick, _: &mut Context<'_, Self>) {
        // The test may have seen enough.
        let _ = self.ticks.send(());
    }
}

struct Alone;

impl AsyncHandler<Alone> for Busy {
    type Reply = ();

    async fn handle(&mut self, _: Alone, cx: AsyncContext<Self>) {
        cx.sleep(EXCLUSIVE).await.expect("there is room for a timer");
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
        let slow = cx.group().sleep(SLOW);
        async move { slow.await.expect("there is room for a timer") }
    }
}

/// Calls the actor without a pause until told to stop.
fn call_without_pause(busy: &Address<Busy>, is_over: &Arc<AtomicBool>) -> thread::JoinHandle<()> {
    let (busy, is_over) = (busy.clone(), Arc::clone(is_over));
    thread::spawn(move || {
        while !is_over.load(Ordering::Acquire) {
            busy.ask(Alone).wait().expect("the actor answers");
        }
    })
}

#[test]
fn exclusive_calls_without_a_pause_starve_no_timer_and_no_interleaved_handler() -> Outcome {
    for workers in [1, 2] {
        let group = Group::builder("busy").workers(workers).pinning(Pinning::None).build()?;
        let (ticks, ticked) = mpsc::channel();
        let busy = System::builder(&group).ask_limit(PATIENCE).build().spawn(Busy { ticks })?;
        let is_over = Arc::new(AtomicBool::new(false));
        let callers = [(); 3].map(|()| call_without_pause(&busy, &is_over));
        for _ in 0..5 {
            ticked.recv_timeout(PATIENCE)?;
            busy.ask(Beside).wait()?;
        }
        is_over.store(true, Ordering::Release);
        for caller in callers {
            caller.join().map_err(|_| "a caller panicked")?;
        }
        group.shutdown()?;
    }
    Ok(())
}
