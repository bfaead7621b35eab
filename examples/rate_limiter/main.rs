//! A limit on requests per client behind a real HTTP server; nobody gets more, nobody gets less.
//!
//! ```sh
//! cargo run --release --example rate_limiter                 # drives itself for three seconds
//! cargo run --release --example rate_limiter -- --serve 8080
//! curl -i -H 'x-client: me' http://127.0.0.1:8080/
//! ```
//!
//! What it shows: a client's token bucket is an *entity*, found by the client's name and made by its
//! first request. The handler of the server, which runs in tokio, awaits the answer of the entity as
//! any other future. No lock, no table of clients, and none that grows: a client that stays away is
//! passivated and costs nothing, but never before its bucket is full, since a new one begins full.
//!
//! The clients are threads that speak HTTP over loopback: `greedy` ones that never pause, a `crowd` on
//! many connections with one name, `polite` ones that wait as told, `sparse` ones that stay below the
//! rate, ones that are `back` after they were forgotten, and passers-by that come once. Each knows from
//! its own clock how much it must have got at least and at most.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

mod bucket;
mod client;
mod server;

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use turnwheel_actors::{Entities, System};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Group;

use crate::bucket::{Bucket, Limit};
use crate::client::{check, Drive, PATIENCE};
use crate::server::{Server, Service, CLIENT};

/// A burst that takes longer to be saved up is for `--serve`: the run waits until all is forgotten.
const FULL_MAX: Duration = Duration::from_secs(30);
/// The exit code after an interrupt, as shells have it.
const INTERRUPTED: u8 = 130;

/// Limits requests per client behind an HTTP server, and checks that the limit is exact.
#[derive(Parser, Debug)]
#[command(name = "rate_limiter")]
struct Options {
    /// Requests a second that a client may make
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rate: u32,
    /// Requests that a client may make at once when it has made none for a while
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    burst: u32,
    /// Clients of each kind
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=50))]
    clients: u64,
    /// How long they make requests
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Stay up at this port until you interrupt, without clients; 0 takes a free one
    #[arg(long, value_name = "PORT")]
    serve: Option<u16>,
}

/// Drives the server; answers whether it ran its time.
fn drive(options: &Options, service: &Service, drive: &Drive) -> Result<bool, Box<dyn Error>> {
    let style = ProgressStyle::with_template("{bar:40} {elapsed}, {msg} live buckets")?;
    let progress = ProgressBar::new(options.seconds * 1_000).with_style(style);
    let (begun, most) = (Instant::now(), AtomicU64::new(0));
    let look = || {
        let live = service.entities.active::<Bucket>() as u64;
        most.fetch_max(live, Ordering::Relaxed);
        progress.set_position(begun.elapsed().as_millis() as u64);
        progress.set_message(live.to_string());
    };
    let ran = drive.run(options.clients, look);
    progress.finish_and_clear();
    let (tallies, passers_by) = ran?;
    check(&tallies, drive.limit)?;
    let ours: u64 = tallies.iter().map(|(_, tally)| tally.requests).sum::<u64>() + passers_by;
    let (admitted, refused) = service.counts.both();
    if ours != admitted + refused {
        return Err(format!("{ours} requests, {} answers", admitted + refused).into());
    }
    let left = Instant::now();
    while service.entities.active::<Bucket>() > 0 {
        if left.elapsed() > PATIENCE {
            return Err(format!("{} after {PATIENCE:?} without a request", service.stats()).into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    println!(
        "  {} clients with a name, at most {} live buckets; all passivated {:.1} s after the last",
        tallies.len() as u64 + passers_by,
        most.load(Ordering::Relaxed),
        left.elapsed().as_secs_f64()
    );
    Ok(!drive.is_interrupted.load(Ordering::Relaxed))
}

/// Answers whether it ran its time: no if it was interrupted.
fn run(options: &Options) -> Result<bool, Box<dyn Error>> {
    let limit = Limit { period: Duration::from_secs(1) / options.rate, burst: options.burst };
    if options.serve.is_none() && limit.full() > FULL_MAX {
        let full = limit.full();
        return Err(format!(
            "a burst of {} takes {full:?} to be saved up at a rate of {}; \
             that is at most {FULL_MAX:?} unless you --serve: lower --burst or raise --rate",
            options.burst, options.rate
        )
        .into());
    }
    let group = Group::builder("buckets").build()?;
    let entities = Entities::new(&System::new(&group));
    let service = Service { entities, limit, counts: Arc::default() };
    let (stop, stopped) = completion();
    let server = Server::start(service.clone(), options.serve.unwrap_or(0), stopped)?;
    let (interrupt, interrupted) = completion();
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_interrupted);
    ctrlc::set_handler(move || {
        flag.store(true, Ordering::Relaxed);
        // The second interrupt finds it done.
        let _ = interrupt.complete(());
    })?;
    let address = server.address;
    println!("http://{address}/: {} requests a second, {} at once", options.rate, limit.burst);
    let outcome = if options.serve.is_some() {
        println!(
            "  try: curl -i -H '{CLIENT}: me' http://{address}/   and: curl http://{address}/stats"
        );
        interrupted.wait().map(|()| true).map_err(Into::into)
    } else {
        let until = Instant::now() + Duration::from_secs(options.seconds);
        drive(options, &service, &Drive { address, limit, until, is_interrupted })
    };
    // The server has had its last request, or is told to take no other.
    let _ = stop.complete(());
    let joined = server.join();
    let stats = service.stats();
    drop(service);
    let report = group.shutdown()?;
    let has_run_its_time = outcome?;
    joined?;
    if !report.is_clean() {
        return Err("the group did not end in order".into());
    }
    println!("ok: {stats}; every request was answered before the end");
    Ok(has_run_its_time)
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("rate_limiter: interrupted; what had been answered was checked");
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => {
            eprintln!("rate_limiter: {error}");
            ExitCode::FAILURE
        }
    }
}
