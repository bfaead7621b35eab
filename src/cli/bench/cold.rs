//! `turnwheel bench cold`: from the start of a process to the end of its flow, or to a healthy server.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use super::figures::{ends, Figures, Wanted};
use super::scratch::Scratch;
use super::served::{own, program, Served};
use super::starts::ONE_STEP;
use super::{failed, Common, Patience};
use crate::cli::exit::Exit;
use crate::cli::paint::tell;
use crate::cli::settings::Settings;

/// Milliseconds that `run` of a flow with one step should take.
const RUN_WANTED_MS: f64 = 30.0;

/// Milliseconds until `serve` should answer that it is healthy.
const SERVE_WANTED_MS: f64 = 200.0;

/// MiB that the binary should have.
const BINARY_WANTED_MIB: f64 = 40.0;

/// Plans of the old store before the first run.
const OLD_RUNS: u32 = 10;

const AFTER_HELP: &str = "\
Each run is a process of its own: `turnwheel run` of a flow with one step, from its start to its end, once
with a new store each and once always with the same one; and `turnwheel serve`, from its start until
/health answers that a commit was durable. The files of the program are in memory from the second run on.

Examples:
  turnwheel bench cold
  turnwheel bench cold --runs 101 --dir /var/lib/turnwheel --json

Exit codes: 0 measured; 1 a measurement failed; 2 wrong usage; 130 interrupted.";

/// The time of a cold start, and the size of the binary.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    #[command(flatten)]
    common: Common,

    /// Number of runs of each kind.
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
}

pub(super) fn run(
    settings: &Settings,
    arguments: &Arguments,
    patience: &Patience,
) -> Result<(), Exit> {
    let scratch = Scratch::new(&arguments.common.dir)?;
    let flow = scratch.write("one-step.yaml", ONE_STEP)?;
    let mut figures = Figures::new("bench cold");
    tell!("measuring the disk …");
    let floor = scratch.append_floor(patience)?;
    figures.add("append + fdatasync", floor.p50, "ms");
    let wanted = Wanted::Below(RUN_WANTED_MS);

    tell!("run, {} times with a new store …", arguments.runs);
    let fresh = repeat(arguments.runs, patience, |number| {
        let store = scratch.join(&format!("new-{number}.db"));
        let took = flow_run(&scratch, settings, &flow, &store);
        // So that the next run finds a folder without many files.
        let _ = fs::remove_file(&store);
        took
    })?;
    add(&mut figures, "run, new store", fresh, wanted);

    tell!("run, {} times with an old store …", arguments.runs);
    let old = scratch.join("old.db");
    for _ in 0..OLD_RUNS {
        if patience.is_over() {
            break;
        }
        flow_run(&scratch, settings, &flow, &old)?;
    }
    let again = repeat(arguments.runs, patience, |_| flow_run(&scratch, settings, &flow, &old))?;
    add(&mut figures, "run, old store", again, wanted);

    tell!("serve, {} times …", arguments.runs);
    let mut listening = Vec::new();
    let healthy = repeat(arguments.runs, patience, |_| {
        let served = Served::start(&scratch, settings, &old)?;
        listening.push(served.listening_after.as_secs_f64() * 1_000.0);
        let took = healthy(&served)?;
        served.end()?;
        Ok(took)
    })?;
    add(&mut figures, "serve, listening", listening, Wanted::Below(SERVE_WANTED_MS));
    add(&mut figures, "serve, healthy", healthy, Wanted::Below(SERVE_WANTED_MS));

    let file = own()?;
    let bytes = fs::metadata(&file).map_err(|error| failed(format!("{}: {error}", file.display())));
    let mib = bytes?.len() as f64 / 1_048_576.0;
    figures.add_wanted("binary", mib, "MiB", Wanted::AtMost(BINARY_WANTED_MIB));
    figures.print(arguments.common.json, patience)
}

fn add(figures: &mut Figures, name: &str, mut ms: Vec<f64>, wanted: Wanted) {
    let Some(ends) = ends(&mut ms) else { return };
    figures.add_wanted(format!("{name}, median"), ends.median, "ms", wanted);
    figures.add(format!("{name}, min"), ends.min, "ms");
    figures.add(format!("{name}, max"), ends.max, "ms");
}

/// Milliseconds of each run, until all are done or the user interrupts.
fn repeat(
    runs: u32,
    patience: &Patience,
    mut run: impl FnMut(u32) -> Result<f64, Exit>,
) -> Result<Vec<f64>, Exit> {
    let mut all = Vec::new();
    for number in 0..runs {
        if patience.is_over() {
            break;
        }
        all.push(run(number)?);
    }
    Ok(all)
}

/// Milliseconds of `turnwheel run` of a flow.
fn flow_run(
    scratch: &Scratch,
    settings: &Settings,
    flow: &Path,
    store: &Path,
) -> Result<f64, Exit> {
    let mut command = program(scratch, settings)?;
    command.arg("run").arg(flow).arg("--quiet").arg("--store").arg(store).stdout(Stdio::null());
    let begin = Instant::now();
    let ended = command.status().map_err(|error| failed(format!("run: {error}")))?;
    let took = begin.elapsed().as_secs_f64() * 1_000.0;
    if !ended.success() {
        return Err(failed(format!("turnwheel run ended with {ended}")));
    }
    Ok(took)
}

/// Milliseconds from the start of a server until it says that it is healthy.
fn healthy(served: &Served) -> Result<f64, Exit> {
    let config = ureq::Agent::config_builder().proxy(None).build();
    let agent: ureq::Agent = config.into();
    let asked = agent.get(format!("{}/health", served.url())).call();
    let took = served.elapsed().as_secs_f64() * 1_000.0;
    asked.map_err(|error| failed(format!("the server is not healthy: {error}")))?;
    Ok(took)
}
