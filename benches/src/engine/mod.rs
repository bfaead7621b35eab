//! `engine`: durable steps a second, and what they wait for.

mod disk;
mod events;
mod faults;
mod listeners;
mod place;
pub(crate) mod plans;
mod scenes;

use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use serde::Serialize;
use turnwheel_sqlite::SqliteSync;

pub(crate) use self::disk::{Disk, Usage};
pub(crate) use self::faults::faults;
pub(crate) use self::place::{Database, Place};
pub(crate) use self::scenes::{failed, row, rows, SceneRow};
use crate::error::BenchError;
use crate::report::{figure, Row};

/// Names of the cases, for `--case`.
pub(crate) const CASES: [&str; 8] =
    ["suspended", "timers", "first_step", "fan_out", "sub_plans", "large", "events", "listeners"];

const MIB: f64 = 1_048_576.0;

/// Plans below one.
const FAN_OUT: u32 = 10_000;

/// Cases and sizes of a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) folder: Option<PathBuf>,
    pub(crate) steps: Vec<u32>,
    pub(crate) concurrency: Vec<u32>,
    pub(crate) seconds: u64,
    pub(crate) place: Place,
}

/// Sequential plans at one concurrency.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ThroughputRow {
    pub(crate) workload: String,
    pub(crate) concurrency: u32,
    pub(crate) steps_per_s: f64,
    /// From a step's call to that of the next one, which waits until the first is durable.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// A raw 4 KiB append with `fdatasync` in the same folder; a commit of one row in a database.
    pub(crate) sync_us: f64,
    /// Commits, each of which is one sync.
    pub(crate) syncs_per_step: f64,
    /// The greatest size of the write-ahead log.
    pub(crate) log_mib: f64,
    pub(crate) bytes_per_step: f64,
    /// Processor time of 1,000 steps, in milliseconds.
    pub(crate) cpu_ms_per_1000: f64,
    /// N / (F + N·C): what the disk and the processors allow; in a database raw rows of that size,
    /// so many a commit.
    pub(crate) ceiling_per_s: f64,
}

impl Row for ThroughputRow {
    fn heads() -> &'static [&'static str] {
        &[
            "workload",
            "plans",
            "steps/s",
            "p50 us",
            "p99 us",
            "sync us",
            "syncs/step",
            "log MiB",
            "B/step",
            "cpu ms/1000",
            "ceiling/s",
        ]
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.workload.clone(),
            self.concurrency.to_string(),
            figure(self.steps_per_s),
            time(self.p50_us),
            time(self.p99_us),
            figure(self.sync_us),
            figure(self.syncs_per_step),
            figure(self.log_mib),
            figure(self.bytes_per_step),
            figure(self.cpu_ms_per_1000),
            figure(self.ceiling_per_s),
        ]
    }
}

/// A time, if there is one: a plan of one step has no second call.
fn time(us: f64) -> String {
    if us.is_nan() {
        "-".to_owned()
    } else {
        figure(us)
    }
}

/// When the store waits for the disk, by name.
pub(crate) fn sync(name: &str) -> Result<SqliteSync, BenchError> {
    match name {
        "full" => Ok(SqliteSync::Full),
        "normal" => Ok(SqliteSync::Normal),
        "off" => Ok(SqliteSync::Off),
        other => Err(BenchError::BadValue(format!("--sync is full, normal or off, not «{other}»"))),
    }
}

/// Runs all combinations, each in a store of its own.
pub(crate) fn run(options: &Options, bar: &ProgressBar) -> Result<Vec<ThroughputRow>, BenchError> {
    let scratch = Scratch::new(options.folder.as_deref())?;
    let floor = options.place.floor(&scratch.0)?;
    bar.set_length((options.steps.len() * options.concurrency.len()) as u64);
    let mut rows = Vec::new();
    for steps in &options.steps {
        for concurrency in &options.concurrency {
            bar.set_message(format!("{steps} steps, {concurrency} plans"));
            let store = scratch.0.join(format!("plans-{steps}-{concurrency}.db"));
            rows.push(plans::run(&store, options, *steps, *concurrency, &floor)?);
            bar.inc(1);
        }
    }
    Ok(rows)
}

/// Runs the cases that are no throughput.
pub(crate) fn run_scenes(
    options: &Options,
    cases: &[String],
    plans: usize,
    bar: &ProgressBar,
) -> Result<Vec<SceneRow>, BenchError> {
    let scratch = Scratch::new(options.folder.as_deref())?;
    let mut rows = Vec::new();
    for case in cases {
        bar.set_message(case.clone());
        rows.extend(match case.as_str() {
            "suspended" => scenes::suspended(&scratch.0, options, plans, bar)?,
            "timers" => scenes::timers(&scratch.0, options, plans, bar)?,
            "first_step" => scenes::first_step(&scratch.0, options)?,
            "fan_out" => scenes::fan_out(&scratch.0, options, FAN_OUT)?,
            "sub_plans" => {
                scenes::fan_out(&scratch.0, options, u32::try_from(plans).unwrap_or(u32::MAX))?
            }
            "large" => scenes::large(&scratch.0, options)?,
            "events" => events::to_one_plan(&scratch.0, options, plans, bar)?,
            "listeners" => listeners::correlated(&scratch.0, options, plans, bar)?,
            other => {
                return Err(BenchError::UnknownName {
                    what: "case",
                    name: other.to_owned(),
                    known: CASES.join(", "),
                })
            }
        });
    }
    Ok(rows)
}

/// A folder that goes with its owner.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: Option<&Path>) -> Result<Self, BenchError> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let path = parent.join(format!("turnwheel-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .map_err(|source| BenchError::File { path: path.display().to_string(), source })?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}: remove it by hand", self.0.display());
        }
    }
}
