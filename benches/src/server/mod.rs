//! `server`: the binary beside this one: starts of a flow over HTTP, cold starts, and requests of the pages of
//! the console.

mod cold;
mod crowd;
mod pages;
mod starts;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use indicatif::ProgressBar;

use crate::engine::{failed, row, Disk, SceneRow};
use crate::error::BenchError;
use crate::serve_common::{binary, Place, Serve};

/// Names of the cases, for `--case`.
const CASES: [&str; 3] = ["starts", "cold", "pages"];

/// A flow of one step.
const ONE_STEP: &str = "\
document: { dsl: '1.0.3', namespace: bench, name: one-step, version: '1.0.0' }
do:
  - greet: { set: { text: hello } }
";

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Cases and sizes of a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) folder: Option<PathBuf>,
    pub(crate) cases: Vec<String>,
    pub(crate) connections: usize,
    pub(crate) seconds: u64,
    pub(crate) runs: u32,
    pub(crate) plans: u64,
    pub(crate) steps: u32,
    pub(crate) keep: Option<PathBuf>,
}

/// Runs the named cases, or all. Ctrl-C ends them early; [`is_complete`] tells so afterwards.
pub(crate) fn run(options: &Options, bar: &ProgressBar) -> Result<Vec<SceneRow>, BenchError> {
    if let Some(name) = options.cases.iter().find(|name| !CASES.contains(&name.as_str())) {
        let (name, known) = (name.clone(), CASES.join(", "));
        return Err(BenchError::UnknownName { what: "case", name, known });
    }
    if !binary().is_file() {
        let (what, why) = (binary().display().to_string(), "it is not there: build it too".into());
        return Err(BenchError::Start { what, why });
    }
    ctrlc::set_handler(|| IS_INTERRUPTED.store(true, Ordering::Relaxed))
        .map_err(|error| failed(&error))?;
    let folder = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    let sync_us = Disk::measure(&folder)?.sync_us;
    let mut rows = vec![row("disk", "append_sync_us", sync_us)];
    for name in CASES {
        if is_interrupted()
            || !options.cases.is_empty() && !options.cases.iter().any(|it| it == name)
        {
            continue;
        }
        bar.set_message(name);
        let place = Place::within(&folder)
            .map_err(|source| BenchError::File { path: folder.display().to_string(), source })?;
        rows.extend(match name {
            "starts" => starts::starts(&place, options, sync_us),
            "cold" => cold::cold(&place, options, bar),
            _ => pages::pages(&place, options, bar),
        }?);
    }
    Ok(rows)
}

/// Whether all was measured.
pub(crate) fn is_complete() -> Result<(), BenchError> {
    match is_interrupted() {
        true => Err(failed(&"interrupted: the rows are of what was measured until then")),
        false => Ok(()),
    }
}

fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}

/// A command that Ctrl-C at the terminal does not reach: this program ends it.
fn apart(mut command: Command) -> Command {
    command.process_group(0);
    command
}

/// A server with a setting of `sync`.
fn serve(place: &Place, arguments: &[&str], sync: &str) -> Serve {
    place.serve_by(apart(Command::new(binary())), arguments, &[("TURNWHEEL_SYNC", sync)])
}

/// Adds a flow.
fn add(server: &Serve, flow: &str) {
    let headers = [("content-type", "application/yaml")];
    server.send("POST", "/api/v1/flows", &headers, Some(flow)).ok();
}

fn ms_since(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1_000.0
}

/// The middle and the ends of some times; nothing if there are none.
fn times(workload: &str, mut ms: Vec<f64>) -> Vec<SceneRow> {
    ms.sort_unstable_by(f64::total_cmp);
    let (Some(min), Some(max)) = (ms.first(), ms.last()) else { return Vec::new() };
    let median = crate::report::median(&ms);
    [("median_ms", median), ("min_ms", *min), ("max_ms", *max)]
        .map(|(metric, value)| row(workload, metric, value))
        .to_vec()
}
