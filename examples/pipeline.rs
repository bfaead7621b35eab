//! A supervised pipeline with back-pressure: a stage keeps failing, is started again, and nothing
//! is lost or counted twice.
//!
//! ```sh
//! cargo run --release --example pipeline             # 20,000 orders
//! cargo run --release --example pipeline -- 500000
//! ```
//!
//! What it shows: three tasks in a row. The *feeder* takes orders from an endless source, the
//! *stage* prices them with a service that fails now and then, the *sink* adds them up.
//!
//! * Back-pressure: every mailbox is small, and who sends first awaits a permit (`reserve`). The
//!   stage awaits exclusively, so that it takes no further order while the sink is full; then its
//!   own mailbox fills, and the feeder waits too.
//! * Supervision: the feeder is told when the stage ends, starts a new one, at most so many times,
//!   and sends again what has not been confirmed. The sink knows a number that it has had.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::collections::VecDeque;
use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use turnwheel::runtime::completion::completion;
use turnwheel::runtime::{
    Completer, Context, Failure, Group, Lifecycle, Mailbox, OnFailure, Permit, Task,
};

/// Orders, unless the command line says otherwise.
const ORDERS_DEFAULT: u64 = 20_000;
/// Orders that may wait for a stage: small, so that back-pressure is at work all the time.
const QUEUED_MAX: u64 = 8;
/// Orders that may be on their way: sent, not yet confirmed.
const UNCONFIRMED_MAX: usize = 64;
/// The service fails at each call whose number is a multiple of this.
const CALLS_PER_FAILURE: u64 = 997;
/// New stages, at most, before the feeder gives up: a stage that fails at every order.
const RESTARTS_MAX: u64 = 1_000_000;
/// All orders take seconds at worst; beyond this something is broken.
const PATIENCE: Duration = Duration::from_secs(120);

/// What an order costs. Any function will do.
fn price(order: u64) -> u64 {
    order.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44
}

/// The outside service; it survives the stages that use it.
#[derive(Default)]
struct Service {
    calls: AtomicU64,
}

impl Service {
    fn price(&self, order: u64) -> Result<u64, Failure> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if call % CALLS_PER_FAILURE == 0 {
            return Err(Failure::message("the service has hung up"));
        }
        Ok(price(order))
    }
}

/// Sends orders, keeps what is not confirmed, and starts the stage again when it ends.
struct Feeder {
    group: Group,
    service: Arc<Service>,
    sink: Task<Sink>,
    stage: Task<Stage>,
    /// Orders not yet taken from the source.
    source: std::ops::Range<u64>,
    /// Orders that are not confirmed, oldest first; the first `sent` of them are with the stage.
    unconfirmed: VecDeque<u64>,
    sent: usize,
    /// A permit is awaited.
    is_waiting: bool,
    restarts: u64,
    sent_again: u64,
    done: Completer<Summary>,
}

/// What the feeder says at the end.
struct Summary {
    restarts: u64,
    sent_again: u64,
}

impl Feeder {
    /// Awaits a permit for the next order, if there is one to be sent.
    fn pump(&mut self, cx: &mut Context<'_, Self>) {
        if self.unconfirmed.len() < UNCONFIRMED_MAX {
            self.unconfirmed.extend(self.source.next());
        }
        if self.is_waiting || self.sent == self.unconfirmed.len() {
            return;
        }
        self.is_waiting = true;
        let asked = self.stage.clone();
        cx.await_interleaved(asked.reserve(), move |feeder: &mut Self, cx, permit| {
            feeder.is_waiting = false;
            let has_ended = permit.is_err();
            if let Ok(permit) = permit {
                feeder.send(permit);
            }
            // After an end its successor is asked, now or when it is there.
            if !has_ended || feeder.stage != asked {
                feeder.pump(cx);
            }
        });
    }

    fn send(&mut self, permit: Permit<Stage>) {
        let Some(order) = self.unconfirmed.get(self.sent).copied() else { return };
        // A stage that has ended meanwhile gives it back; it is sent again to the next one.
        if permit.submit(move |stage, cx| stage.take(cx, order)).is_ok() {
            self.sent += 1;
        }
    }

    /// The sink has all orders below `next`.
    fn confirm(&mut self, cx: &mut Context<'_, Self>, next: u64) {
        while self.unconfirmed.front().is_some_and(|order| *order < next) {
            self.unconfirmed.pop_front();
            self.sent = self.sent.saturating_sub(1);
        }
        self.pump(cx);
        if self.unconfirmed.is_empty() && self.source.is_empty() {
            let summary = Summary { restarts: self.restarts, sent_again: self.sent_again };
            // An order that was sent twice is confirmed twice: told already.
            let _ = self.done.complete(summary);
        }
    }

    /// Is told when the stage ends, whatever the reason.
    fn supervise(&mut self, cx: &mut Context<'_, Self>) {
        cx.on_completion(self.stage.closed(), |feeder: &mut Self, cx, ended| {
            if let Err(failure) = feeder.restart(cx, ended) {
                // Already completed if the last order came through.
                let _ = feeder.done.fail(failure);
            }
        });
    }

    fn restart(
        &mut self,
        cx: &mut Context<'_, Self>,
        ended: Result<(), Failure>,
    ) -> Result<(), Failure> {
        let why = ended.err().unwrap_or(Failure::Closed);
        if self.restarts == RESTARTS_MAX {
            return Err(why);
        }
        self.restarts += 1;
        self.sent_again += self.sent as u64;
        self.sent = 0;
        self.stage = Stage::start(&self.group, &self.service, &self.sink)?;
        self.supervise(cx);
        self.pump(cx);
        Ok(())
    }
}

/// Prices one order after the other; ends at the first failure.
struct Stage {
    service: Arc<Service>,
    sink: Task<Sink>,
}

/// A failing stage is not to be trusted with the next order.
struct FailsForGood;

impl Lifecycle<Stage> for FailsForGood {
    fn on_failure(&mut self, _: &mut Stage, _: &mut Context<'_, Stage>, _: &Failure) -> OnFailure {
        OnFailure::Escalate
    }
}

impl Stage {
    fn start(
        group: &Group,
        service: &Arc<Service>,
        sink: &Task<Sink>,
    ) -> Result<Task<Self>, Failure> {
        let stage = Self { service: Arc::clone(service), sink: sink.clone() };
        let stage = group.task(stage).name("stage").lifecycle(FailsForGood);
        Ok(stage.mailbox(Mailbox::bounded(QUEUED_MAX)).spawn()?)
    }

    fn take(&mut self, cx: &mut Context<'_, Self>, order: u64) {
        let cost = match self.service.price(order) {
            Ok(cost) => cost,
            Err(failure) => return cx.fail(failure),
        };
        // Exclusively: no further order is taken while the sink has no room.
        cx.await_exclusive(self.sink.reserve(), move |_, cx, permit| {
            let sent = permit.and_then(|permit| {
                permit.submit(move |sink, _| sink.take(order, cost)).map_err(Failure::from)
            });
            if let Err(failure) = sent {
                cx.fail(failure);
            }
        });
    }
}

/// Adds up what comes, each order once.
#[derive(Default)]
struct Sink {
    feeder: Option<Task<Feeder>>,
    next: u64,
    total: u64,
    had_before: u64,
    missing: u64,
}

impl Sink {
    fn take(&mut self, order: u64, cost: u64) {
        if order < self.next {
            self.had_before += 1;
        } else {
            self.missing += order - self.next;
            self.next = order + 1;
            self.total += cost;
        }
        let next = self.next;
        if let Some(feeder) = &self.feeder {
            // There are never more confirmations under way than orders, which are few.
            let confirmed = feeder.submit(move |feeder, cx| feeder.confirm(cx, next));
            confirmed.expect("the feeder has room and is open");
        }
    }
}

fn run(orders: u64) -> Result<(), Box<dyn Error>> {
    let group = Group::builder("pipeline").build()?;
    let begun = Instant::now();
    let service = Arc::new(Service::default());
    let mailbox = Mailbox::bounded(QUEUED_MAX);
    let sink = group.task(Sink::default()).name("sink").mailbox(mailbox).spawn()?;
    let (done, summary) = completion();
    let feeder = Feeder {
        group: group.clone(),
        service: Arc::clone(&service),
        sink: sink.clone(),
        stage: Stage::start(&group, &service, &sink)?,
        source: 0..orders,
        unconfirmed: VecDeque::new(),
        sent: 0,
        is_waiting: false,
        restarts: 0,
        sent_again: 0,
        done,
    };
    let feeder = group.task(feeder).name("feeder").spawn()?;
    let to_confirm = feeder.clone();
    sink.call(|sink, _| sink.feeder = Some(to_confirm)).wait()?;
    feeder.submit(|feeder, cx| {
        feeder.supervise(cx);
        feeder.confirm(cx, 0);
    })?;
    let Summary { restarts, sent_again } = summary.wait_timeout(PATIENCE)?;
    let took = begun.elapsed();
    let (next, total, had_before, missing) =
        sink.call(|sink, _| (sink.next, sink.total, sink.had_before, sink.missing)).wait()?;
    if !group.shutdown()?.is_clean() {
        return Err("a task did not close in order".into());
    }
    let expected: u64 = (0..orders).map(price).sum();
    println!(
        "{orders} orders in {:.1} ms on {} workers",
        took.as_secs_f64() * 1e3,
        group.workers()
    );
    println!("  the stage failed and was started again {restarts} times");
    println!("  {sent_again} orders were sent again, {had_before} of them the sink had already");
    if (next, total, missing) != (orders, expected, 0) {
        let found = format!("{next} orders of {total} with {missing} missing");
        return Err(format!("the sink has {found}, not {orders} of {expected}").into());
    }
    println!("ok: nothing lost, nothing counted twice; the total of {total} equals the loop's");
    Ok(())
}

fn main() -> ExitCode {
    let argument = std::env::args().nth(1);
    let orders = argument.as_deref().map_or(Ok(ORDERS_DEFAULT), str::parse);
    let Ok(orders) = orders else {
        eprintln!("pipeline: «{}» is no number of orders", argument.unwrap_or_default());
        return ExitCode::from(2);
    };
    match run(orders) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pipeline: {error}");
            ExitCode::FAILURE
        }
    }
}
