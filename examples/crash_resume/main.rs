//! Ten thousand plans in a process that is killed again and again; every plan ends once.
//!
//! ```sh
//! cargo run --release --example crash_resume                     # 10,000 plans, 5 kills
//! cargo run --release --example crash_resume -- --kills 20
//! ```
//!
//! What it shows: the example starts itself as a child that triggers the plans and runs them, and kills
//! it with SIGKILL at a random moment, several times. The next child opens the same SQLite file: what
//! was done stays done, sleeps go on, and steps whose code was under way are called again, because
//! nobody can know whether they had their effect. How many these were is counted from a file that the
//! steps write to, which the engine knows nothing of.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

mod audit;
mod work;

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

use crate::audit::audit;
use crate::work::{label, world, Chain, Log, CALLS};

/// Plans that a child triggers before it waits for the first of them.
const TRIGGERED_AT_ONCE: u64 = 512;
/// The exit code after an interrupt, as shells have it.
const INTERRUPTED: u8 = 130;

/// Runs plans in a process that is killed again and again, and checks that each of them ends once.
#[derive(Parser, Debug)]
#[command(name = "crash_resume")]
struct Options {
    /// Plans
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    plans: u64,
    /// How often the process is killed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=1_000))]
    kills: u64,
    /// Decides the moments of the kills; by chance if nothing is said
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Where the plans are kept; an earlier run goes on. A temporary folder if nothing is said, which
    /// is removed at the end
    #[arg(long, value_name = "PATH")]
    folder: Option<PathBuf>,
    /// Be the process that is killed
    #[arg(long, hide = true, requires = "folder")]
    child: bool,
}

/// The child: triggers what is not triggered, and waits for all.
fn live(folder: &Path, plans: u64) -> Result<(), Box<dyn Error>> {
    let log = Log::open(folder, true)?;
    let world = world(folder, &log)?;
    let (mut triggering, mut handles) = (Vec::new(), Vec::new());
    for number in 0..plans {
        // A second trigger with the same key finds the plan of the first one.
        triggering.push(world.trigger_once::<Chain>(label(number), number));
        if triggering.len() as u64 == TRIGGERED_AT_ONCE || number + 1 == plans {
            for triggered in triggering.drain(..) {
                handles.push(triggered.wait()?);
            }
        }
    }
    for plan in handles {
        let view = plan.finished().wait()?;
        log.write("end", &view.id.to_string())?;
    }
    world.shutdown()?;
    Ok(())
}

/// How a life of the child ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Done,
    Killed,
    Interrupted,
}

/// One life of the child, which is killed after so many lines if they come.
fn life(
    folder: &Path,
    plans: u64,
    lines_max: Option<u64>,
    progress: &ProgressBar,
    is_interrupted: &AtomicBool,
) -> Result<End, Box<dyn Error>> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--child", "--plans", &plans.to_string(), "--folder"])
        .arg(folder)
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(child.stdout.take().ok_or("the child has no output")?).lines();
    let mut end = End::Done;
    for (line, count) in lines.zip(1..) {
        line?;
        progress.inc(1);
        if is_interrupted.load(Ordering::Relaxed) {
            end = End::Interrupted;
        } else if lines_max == Some(count) {
            end = End::Killed;
        }
        if end != End::Done {
            // SIGKILL: nothing of it runs after this.
            child.kill()?;
            break;
        }
    }
    let status = child.wait()?;
    if is_interrupted.load(Ordering::Relaxed) {
        // The terminal has interrupted both.
        return Ok(End::Interrupted);
    }
    if end == End::Done && !status.success() {
        return Err(format!("the child ended by itself with {status}").into());
    }
    Ok(end)
}

/// A random number: SplitMix64 (Steele, Lea and Flood 2014).
fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*random ^ (*random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Answers whether it came to its end: no if it was interrupted.
fn run_in(folder: &Path, options: &Options) -> Result<bool, Box<dyn Error>> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    let seed = options.seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("plans and calls: {}, seed {seed}", folder.display());
    let begun = Instant::now();
    // A call says one line, and so does the end of a plan.
    let lines = options.plans * (CALLS + 1);
    let style = ProgressStyle::with_template("{bar:40} {human_pos} calls and ends, {msg}")?;
    let progress = ProgressBar::new(lines).with_style(style);
    let mut random = seed;
    let mut kills = 0;
    loop {
        progress.set_message(format!("{kills} kills"));
        // On average all kills together come before the end.
        let share = lines / (options.kills + 1);
        let lines_max = (kills < options.kills).then(|| 1 + next(&mut random) % (2 * share).max(1));
        match life(folder, options.plans, lines_max, &progress, &is_interrupted)? {
            End::Done => break,
            End::Interrupted => {
                progress.finish_and_clear();
                return Ok(false);
            }
            End::Killed => kills += 1,
        }
    }
    progress.finish_and_clear();
    let took = begun.elapsed().as_secs_f64();
    println!("{kills} kills in {took:.1} s, {} lives", kills + 1);
    println!("ok: {}", audit(folder, options.plans)?);
    Ok(true)
}

fn run(options: &Options) -> Result<bool, Box<dyn Error>> {
    let Some(folder) = &options.folder else {
        let folder = tempfile::Builder::new().prefix("turnwheel-crash-").tempdir()?;
        let ran = run_in(folder.path(), options);
        if !matches!(ran, Ok(true)) {
            // It is needed to go on, or to see what is wrong.
            println!("go on with --folder {}", folder.keep().display());
        }
        return ran;
    };
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("folder {}: {error}; choose another", folder.display()))?;
    if options.child {
        return live(folder, options.plans).map(|()| true);
    }
    run_in(folder, options)
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("crash_resume: interrupted; nothing is lost");
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => {
            eprintln!("crash_resume: {error}");
            ExitCode::FAILURE
        }
    }
}
