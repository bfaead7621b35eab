//! Jobs in processes of their own, polled by an engine that is killed in the middle.
//!
//! ```sh
//! cargo run --release --example long_poll                       # three jobs of two seconds, one kill
//! cargo run --release --example long_poll -- --seconds 10 --kill-after 4000
//! ```
//!
//! What it shows: a step starts something outside and asks how it is, again and again, with pauses that
//! grow. No thread is held between two polls. The example starts itself as the engine, kills that with
//! SIGKILL in the middle, and starts the next one: it goes on polling the jobs that are there, and starts
//! none twice. One more job is cancelled: it is told to end, and ends.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

mod job;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use turnwheel_engine::{PlanHandle, PlanResult, PlanState, World};
use turnwheel_sqlite::SqliteStore;

use crate::job::{Job, RunJob};

/// The job that is cancelled would take so long.
const ENDLESS_MS: u64 = 600_000;
/// How often the plans are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// A job that was told to end does so with its next tick; beyond this something is broken.
const PATIENCE: Duration = Duration::from_secs(60);
/// The exit code after an interrupt, as shells have it.
const INTERRUPTED: u8 = 130;

/// Polls jobs in other processes, by an engine that is killed in the middle.
#[derive(Parser, Debug)]
#[command(name = "long_poll")]
struct Options {
    /// How long a job takes
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Jobs that run to their end
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=64))]
    jobs: u64,
    /// Kill the engine after so many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    kill_after: u64,
    /// Where the plans are kept; an earlier run goes on. A temporary folder if nothing is said,
    /// which is removed at the end
    #[arg(long, value_name = "PATH")]
    folder: Option<PathBuf>,
    /// Be the engine
    #[arg(long, hide = true, requires = "folder")]
    engine: bool,
    /// Be a job
    #[arg(long, hide = true, requires = "folder")]
    job_ms: Option<u64>,
}

/// Waits until a plan is stopped, and shows how far it is. None if it is interrupted before.
fn watch(
    plans: &[(PlanHandle, ProgressBar)],
    is_interrupted: &AtomicBool,
) -> Result<Option<()>, Box<dyn Error>> {
    loop {
        let mut open = 0;
        for (plan, bar) in plans {
            let view = plan.view().wait()?;
            bar.set_position((view.progress() * 100.0) as u64);
            bar.set_message(view.waits_for());
            match view.state {
                PlanState::Stopped => bar.finish_with_message(view.result().name()),
                PlanState::Paused => {
                    return Err(format!("{}: {}", view.label, view.waits_for()).into())
                }
                _ => open += 1,
            }
        }
        if open == 0 {
            return Ok(Some(()));
        }
        if is_interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

/// The engine: runs the jobs that are not over; answers whether it came to its end.
fn engine(folder: &Path, options: &Options) -> Result<bool, Box<dyn Error>> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    let store = SqliteStore::new(folder.join("plans.db"));
    let world = World::builder().action(RunJob { folder: folder.to_owned() }).build(store)?;
    let trigger = |name: String, time_ms: u64| {
        // A later engine finds the plan of the earlier one.
        world.trigger_once::<RunJob>(name.clone(), Job { name, time_ms }).wait()
    };
    let bars = MultiProgress::new();
    let style = ProgressStyle::with_template("{prefix:>8} {bar:40} {percent:>3} %, {msg}")?;
    let mut plans = Vec::new();
    for number in 1..=options.jobs {
        let plan = trigger(format!("job {number}"), options.seconds * 1_000)?;
        let bar =
            ProgressBar::new(100).with_style(style.clone()).with_prefix(format!("job {number}"));
        plans.push((plan, bars.add(bar)));
    }
    let endless = trigger("endless".to_owned(), ENDLESS_MS)?;
    let watched = watch(&plans, &is_interrupted)?;
    bars.clear()?;
    if watched.is_none() {
        world.shutdown()?;
        return Ok(false);
    }
    for (plan, _) in &plans {
        let view = plan.view().wait()?;
        let polled = view.output::<RunJob>()?.polled;
        let took = view.real_time().as_secs_f64();
        println!(
            "  {}: {} after {took:.1} s and {} polls",
            plan.id(),
            view.result().name(),
            polled.polls
        );
        if view.result() != PlanResult::Success {
            return Err("a job did not end well".into());
        }
    }
    cancel(&endless)?;
    world.shutdown()?;
    Ok(true)
}

/// Cancels a plan, and sees that the job itself ends.
fn cancel(plan: &PlanHandle) -> Result<(), Box<dyn Error>> {
    if plan.view().wait()?.state != PlanState::Stopped {
        plan.cancel("the example").wait()??;
    }
    let view = plan.finished().wait()?;
    if view.result() != PlanResult::Cancelled {
        return Err(format!("the endless job is {}", view.result().name()).into());
    }
    let state = view.output::<RunJob>()?.polled.task.ok_or("it was never started")?;
    let begun = Instant::now();
    while std::fs::read_to_string(&state)? != "stopped" {
        if begun.elapsed() > PATIENCE {
            return Err("the endless job did not end".into());
        }
        std::thread::sleep(LOOK);
    }
    println!("  {}: cancelled, and the process has ended", plan.id());
    Ok(())
}

/// Starts the engine, kills it, and starts the next one; answers whether that came to its end.
fn run_in(folder: &Path, options: &Options) -> Result<bool, Box<dyn Error>> {
    // The terminal interrupts the engine too, which ends in order; this process only waits for it.
    ctrlc::set_handler(|| {})?;
    println!("plans and jobs: {}", folder.display());
    let start = || {
        let (seconds, jobs) = (options.seconds.to_string(), options.jobs.to_string());
        Command::new(std::env::current_exe()?)
            .args(["--engine", "--seconds", &seconds, "--jobs", &jobs, "--folder"])
            .arg(folder)
            .spawn()
    };
    let mut first = start()?;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(options.kill_after) && first.try_wait()?.is_none()
    {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut status = first.try_wait()?;
    if status.is_none() {
        // SIGKILL: nothing of it runs after this. The jobs are processes of their own, and go on.
        first.kill()?;
        first.wait()?;
        println!("the engine was killed after {:.1} s", begun.elapsed().as_secs_f64());
        status = Some(start()?.wait()?);
    }
    match status.and_then(|status| status.code()) {
        Some(0) => {}
        Some(code) if code == i32::from(INTERRUPTED) => return Ok(false),
        code => return Err(format!("the engine ended with code {code:?}").into()),
    }
    let starts = std::fs::read_to_string(job::starts(&folder.join("job"))?)?;
    let mut started: Vec<&str> = starts.lines().collect();
    started.sort_unstable();
    started.dedup();
    let (count, distinct) = (starts.lines().count() as u64, started.len() as u64);
    if (count, distinct) != (options.jobs + 1, options.jobs + 1) {
        return Err(format!("{count} starts of {distinct} jobs, of {}", options.jobs + 1).into());
    }
    println!("ok: {} jobs ended, one was cancelled, each was started once", options.jobs);
    Ok(true)
}

fn run(options: &Options) -> Result<bool, Box<dyn Error>> {
    let Some(folder) = &options.folder else {
        let folder = tempfile::Builder::new().prefix("turnwheel-poll-").tempdir()?;
        let ran = run_in(folder.path(), options);
        if !matches!(ran, Ok(true)) {
            // It is needed to go on, or to see what is wrong.
            println!("go on with --folder {}", folder.keep().display());
        }
        return ran;
    };
    if let Some(job_ms) = options.job_ms {
        return job::work(folder, Duration::from_millis(job_ms)).map(|()| true);
    }
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("folder {}: {error}; choose another", folder.display()))?;
    if options.engine {
        return engine(folder, options);
    }
    run_in(folder, options)
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("long_poll: interrupted; the jobs go on, and so do the plans when it is started again");
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => {
            eprintln!("long_poll: {error}");
            ExitCode::FAILURE
        }
    }
}
