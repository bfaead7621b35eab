//! A thousand orders with payment, stock and shipping over HTTP, by a service that fails at random.
//!
//! ```sh
//! cargo run --release --example order                          # 1,000 orders, every fifth request fails
//! cargo run --release --example order -- --fail 50             # every second one
//! cargo run --release --example order -- --folder /tmp/orders  # kill it, and run it again
//! ```
//!
//! What it shows: an order is a *plan*. Payment and stock are asked at the same time, then shipping,
//! which needs both receipts. A request that fails is made again, with the same *idempotency key*: the
//! service may have done it before it failed. If the card is declined, the item out of stock or the
//! address unknown, what was done so far is *taken back*, the last step first. If the service fails too
//! often, the plan is *paused*: the example then resumes it, as an operator would.
//!
//! Plans lie in a SQLite file, each step is durable before the next one begins. In the end the books
//! of the service must agree with the plans: no card was charged twice, each order is either complete
//! or taken back, and what is missing on the shelves is what was sent.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

mod actions;
mod books;
mod report;
mod service;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use turnwheel_engine::{PlanHandle, PlanState, PlanView, World};
use turnwheel_runtime::completion::block_on_timeout;
use turnwheel_runtime::Failure;
use turnwheel_sqlite::SqliteStore;

use crate::actions::{Client, Order, Pay, PlaceOrder, Reserve, Ship};
use crate::books::{Books, ITEMS};
use crate::report::Report;
use crate::service::Server;

const ORDERS_DEFAULT: u64 = 1_000;
/// Orders that are placed before the first of them is waited for.
const PLACED_AT_ONCE: u64 = 256;
/// How long one look at a plan takes at most.
const LOOK: Duration = Duration::from_millis(100);
/// An operator that has resumed a plan so often would look for the cause.
const RESUMES_MAX: u64 = 1_000;
/// The exit code after an interrupt, as shells have it.
const INTERRUPTED: u8 = 130;

/// Places orders with a service that fails at random, and checks its books.
#[derive(Parser, Debug)]
#[command(name = "order")]
struct Options {
    /// Orders; 1,000 if nothing is said
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    orders: Option<u64>,
    /// Requests of a hundred that fail, half of them after the service has done what it was asked
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=90))]
    fail: u64,
    /// Where plans and books are kept; a run that was ended goes on. A temporary folder if nothing
    /// is said, which is removed at the end
    #[arg(long, value_name = "PATH")]
    folder: Option<PathBuf>,
    /// Histories of orders to print
    #[arg(long, value_name = "N", default_value_t = 3)]
    histories: usize,
}

/// What a folder keeps of the run that made it.
#[derive(Debug, Serialize, Deserialize)]
struct Shop {
    orders: u64,
}

impl Shop {
    /// The shop in this folder, or a new one.
    fn open(folder: &Path, orders: Option<u64>) -> Result<Self, Box<dyn Error>> {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("folder {}: {error}; choose another", folder.display()))?;
        let file = folder.join("shop.json");
        if !file.exists() {
            let shop = Self { orders: orders.unwrap_or(ORDERS_DEFAULT) };
            std::fs::write(&file, serde_json::to_string(&shop)?)?;
            return Ok(shop);
        }
        let shop: Self = serde_json::from_str(&std::fs::read_to_string(&file)?)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        match orders {
            Some(orders) if orders != shop.orders => Err(format!(
                "folder {} belongs to a run with {} orders: leave --orders out, or take another",
                folder.display(),
                shop.orders
            )
            .into()),
            _ => Ok(shop),
        }
    }

    /// What is on each shelf in the beginning: a little less than is ordered.
    fn pieces(&self) -> u64 {
        self.orders * 19 / (10 * ITEMS) + 1
    }
}

/// Waits for the end of a plan; resumes it when it is paused. None if it is interrupted before.
fn see_through(
    plan: &PlanHandle,
    report: &mut Report,
    is_interrupted: &AtomicBool,
) -> Result<Option<PlanView>, Box<dyn Error>> {
    let mut resumes = 0;
    let mut finished = plan.finished();
    loop {
        let view = match block_on_timeout(&mut finished, LOOK) {
            Ok(view) => view?,
            Err(Failure::TimedOut(_)) if is_interrupted.load(Ordering::Relaxed) => return Ok(None),
            Err(Failure::TimedOut(_)) => continue,
            Err(failure) => return Err(failure.into()),
        };
        if view.state == PlanState::Stopped {
            return Ok(Some(view));
        }
        if resumes == RESUMES_MAX {
            return Err(format!(
                "{} was resumed {resumes} times: {}",
                view.label,
                view.waits_for()
            )
            .into());
        }
        resumes += 1;
        report.resumed += 1;
        plan.resume("the operator").wait()??;
        finished = plan.finished();
    }
}

/// Places the orders and sees them through.
fn work(world: &World, orders: u64, is_interrupted: &AtomicBool) -> Result<Report, Box<dyn Error>> {
    let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} orders, {msg}")?;
    let progress = ProgressBar::new(orders).with_style(style);
    let mut report = Report::default();
    let mut plans = Vec::new();
    let mut placing = Vec::new();
    for number in 1..=orders {
        if is_interrupted.load(Ordering::Relaxed) {
            break;
        }
        // The key makes a second run find the plans of the first one.
        let key = format!("order {number}");
        placing.push(world.trigger_once::<PlaceOrder>(key, Order::by_number(number)));
        if number % PLACED_AT_ONCE == 0 || number == orders {
            for placed in placing.drain(..) {
                plans.push(placed.wait()?);
            }
            progress.set_message(format!("{} placed", plans.len()));
            progress.tick();
        }
    }
    for (plan, number) in plans.iter().zip(1..) {
        let Some(view) = see_through(plan, &mut report, is_interrupted)? else { break };
        report.add(number, view);
        progress.set_message(report.line());
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(report)
}

/// Works in a folder; answers whether all orders came to their end: no if it was interrupted.
fn run_in(folder: &Path, options: &Options) -> Result<bool, Box<dyn Error>> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    let shop = Shop::open(folder, options.orders)?;
    let books = folder.join("books.jsonl");
    let seed = u64::from(std::process::id());
    let server = Server::start(&books, shop.pieces(), options.fail, seed)?;
    let client = Client::new(server.address);
    let store = SqliteStore::new(folder.join("plans.db"));
    println!("plans and books: {}", folder.display());
    println!("the service: http://{}, {} % of its requests fail", server.address, options.fail);
    let world = World::builder()
        .action(PlaceOrder)
        .action(Pay(Arc::clone(&client)))
        .action(Reserve(Arc::clone(&client)))
        .action(Ship(client))
        .build(store)?;
    let begun = Instant::now();
    let worked = work(&world, shop.orders, &is_interrupted);
    let took = begun.elapsed();
    // Steps that are under way end before this returns; the rest is in the file.
    world.shutdown()?;
    let counts = Arc::clone(&server.counts);
    server.stop()?;
    let report = worked?;
    report.print(took, &counts);
    if report.seen() < shop.orders {
        println!("{} orders are still to be seen through", shop.orders - report.seen());
        return Ok(false);
    }
    report.histories(options.histories);
    report.audit(&Books::open(&books, shop.pieces())?, shop.pieces() * ITEMS)?;
    Ok(true)
}

fn run(options: &Options) -> Result<bool, Box<dyn Error>> {
    if let Some(folder) = &options.folder {
        return run_in(folder, options);
    }
    let folder = tempfile::Builder::new().prefix("turnwheel-order-").tempdir()?;
    let ran = run_in(folder.path(), options);
    if !matches!(ran, Ok(true)) {
        // It is needed to go on, or to see what is wrong.
        println!("go on with --folder {}", folder.keep().display());
    }
    ran
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("order: interrupted; nothing is lost");
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => {
            eprintln!("order: {error}");
            ExitCode::FAILURE
        }
    }
}
