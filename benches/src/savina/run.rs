//! Runs programs on groups of several sizes and makes the rows.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde::Serialize;
use turnwheel_runtime::Group;

use super::{Program, Size, PROGRAMS, PROGRAM_TIME_MAX};
use crate::error::BenchError;
use crate::load::rounded;
use crate::report::{figure, maybe, median, percentile, Row};

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) size: Size,
    pub(crate) programs: Vec<String>,
    pub(crate) workers: Vec<usize>,
    pub(crate) has_no_steal: bool,
    pub(crate) reps: usize,
}

/// One program on one group.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SavinaRow {
    program: &'static str,
    workers: usize,
    stealing: bool,
    median_ms: f64,
    p5_ms: f64,
    p95_ms: f64,
    reps: usize,
    messages: u64,
    /// Times a worker took tasks of another, and times one was woken, in a run.
    steals: f64,
    wakes: f64,
    /// Time against one worker in the same run.
    vs_1_worker: Option<f64>,
    note: String,
}

impl Row for SavinaRow {
    fn heads() -> &'static [&'static str] {
        &[
            "program",
            "workers",
            "stealing",
            "median ms",
            "p5 ms",
            "p95 ms",
            "messages",
            "steals",
            "wakes",
            "vs 1 worker",
            "note",
        ]
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.program.to_owned(),
            self.workers.to_string(),
            if self.stealing { "on" } else { "off" }.to_owned(),
            figure(self.median_ms),
            figure(self.p5_ms),
            figure(self.p95_ms),
            self.messages.to_string(),
            figure(self.steals),
            figure(self.wakes),
            maybe(self.vs_1_worker),
            self.note.clone(),
        ]
    }
}

/// Runs the programs asked for, all if none is named.
pub(crate) fn run(options: &Options, bar: &ProgressBar) -> Result<Vec<SavinaRow>, BenchError> {
    if options.reps == 0 || options.workers.is_empty() || options.workers.contains(&0) {
        return Err(BenchError::BadValue("--reps and --workers are at least 1".to_owned()));
    }
    for name in &options.programs {
        if !PROGRAMS.iter().any(|program| program.name == name) {
            let known: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
            return Err(BenchError::UnknownName {
                what: "program",
                name: name.clone(),
                known: known.join(", "),
            });
        }
    }
    let chosen: Vec<_> = PROGRAMS
        .iter()
        .filter(|one| options.programs.is_empty() || options.programs.iter().any(|p| p == one.name))
        .collect();
    let mut groups: Vec<(usize, bool)> = options.workers.iter().map(|n| (*n, true)).collect();
    if options.has_no_steal {
        let most = options.workers.iter().copied().max().unwrap_or(1);
        groups.push((most, false));
    }
    bar.set_length((chosen.len() * groups.len()) as u64);
    let mut rows = Vec::new();
    for program in chosen {
        let mut alone = None;
        for (workers, stealing) in &groups {
            bar.set_message(format!("{} on {workers}", program.name));
            let mut row = measure(program, options, *workers, *stealing)?;
            if *workers == 1 {
                alone = Some(row.median_ms);
            } else {
                row.vs_1_worker = alone.map(|alone| rounded(row.median_ms / alone));
            }
            rows.push(row);
            bar.inc(1);
        }
    }
    Ok(rows)
}

fn measure(
    program: &Program,
    options: &Options,
    workers: usize,
    stealing: bool,
) -> Result<SavinaRow, BenchError> {
    let builder = Group::builder("savina").workers(workers);
    let builder = if stealing { builder } else { builder.without_stealing() };
    let group = builder
        .build()
        .map_err(|error| BenchError::Start { what: "a group".into(), why: error.to_string() })?;
    let mut times_ms = Vec::new();
    let mut outcome = super::Outcome::default();
    let (mut steals, mut wakes) = (0, 0);
    // A first run warms up, unless it is only about being correct.
    let warm = options.size.pick(0, 1);
    for rep in 0..warm + options.reps {
        let before = counts(&group);
        let begin = Instant::now();
        outcome = (program.run)(&group, options.size)?;
        let elapsed = begin.elapsed();
        let after = counts(&group);
        clear(&group, program.name)?;
        if rep >= warm {
            times_ms.push(elapsed.as_secs_f64() * 1_000.0);
            steals += after.0 - before.0;
            wakes += after.1 - before.1;
        }
    }
    // It holds no task any more.
    let _ = group.shutdown();
    times_ms.sort_by(f64::total_cmp);
    let reps = options.reps as f64;
    Ok(SavinaRow {
        program: program.name,
        workers,
        stealing,
        median_ms: rounded(median(&times_ms)),
        p5_ms: rounded(percentile(&times_ms, 0.05)),
        p95_ms: rounded(percentile(&times_ms, 0.95)),
        reps: times_ms.len(),
        messages: outcome.messages,
        steals: rounded(steals as f64 / reps),
        wakes: rounded(wakes as f64 / reps),
        vs_1_worker: None,
        note: outcome.note,
    })
}

fn counts(group: &Group) -> (u64, u64) {
    let metrics = group.metrics();
    let sum = |read: fn(&turnwheel_runtime::WorkerMetrics) -> u64| {
        metrics.workers.iter().map(read).sum::<u64>()
    };
    (sum(|worker| worker.steals), sum(|worker| worker.wakes))
}

/// Ends what a program has left (actors that hold each other), and waits until it is gone.
fn clear(group: &Group, program: &str) -> Result<(), BenchError> {
    let begin = Instant::now();
    loop {
        let left = group.metrics().tasks;
        if left == 0 {
            return Ok(());
        }
        for task in group.handles() {
            drop(task.stop());
        }
        if begin.elapsed() > PROGRAM_TIME_MAX {
            return Err(BenchError::Unfinished {
                what: format!("{program}: tear-down"),
                seconds: PROGRAM_TIME_MAX.as_secs(),
                left: left as u64,
            });
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}
