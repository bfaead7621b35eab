//! `entities`: what keyed entities cost: messages, activation, passivation, look-up, bytes at rest.
//!
//! The parent starts a process for each case and number of keys; a process runs its share of the
//! repetitions. Every entity counts its messages and reports when it has had its share.

mod account;
mod plan;
mod run;
mod senders;

use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use self::plan::Case;
use crate::error::BenchError;
use crate::load::rounded;
use crate::process;
use crate::report::{maybe, median, Row};

/// More would not fit the memory of any machine that this was run on.
const KEYS_MAX: u32 = 100_000_000;

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) cases: Vec<String>,
    pub(crate) keys: Vec<u32>,
    pub(crate) reps: usize,
    pub(crate) procs: usize,
    pub(crate) workers: usize,
}

/// What a child is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    case: Case,
    keys: u32,
    reps: usize,
    workers: usize,
}

/// One line of a child's standard output.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Line {
    /// One repetition: nanoseconds and heap allocations an operation.
    Sample { ns: f64, allocations: f64 },
    /// Bytes of an entity beside its state: as asked for, and as the system sees them.
    Bytes { heap: f64, resident: f64 },
}

/// One case with one number of keys.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum EntityRow {
    /// Time of an operation.
    Time {
        case: String,
        keys: u32,
        median_ns: f64,
        min_ns: f64,
        max_ns: f64,
        reps: usize,
        /// Millions a second, by the median.
        millions_per_s: f64,
        allocs_per_op: f64,
    },
    /// Bytes of an idle entity beside its state.
    Bytes { case: String, keys: u32, heap_bytes: f64, resident_bytes: f64 },
    /// One throughput to another.
    Ratio { case: String, keys: u32, ratio: f64 },
}

impl Row for EntityRow {
    fn heads() -> &'static [&'static str] {
        &[
            "case",
            "keys",
            "reps",
            "median ns",
            "min ns",
            "max ns",
            "millions/s",
            "allocs/op",
            "heap bytes",
            "resident",
            "ratio",
        ]
    }

    fn cells(&self) -> Vec<String> {
        let (case, keys, reps, figures) = match self {
            Self::Time {
                case,
                keys,
                median_ns,
                min_ns,
                max_ns,
                reps,
                millions_per_s,
                allocs_per_op,
            } => {
                let times = [*median_ns, *min_ns, *max_ns, *millions_per_s, *allocs_per_op];
                (case, keys, reps.to_string(), [times.map(Some).as_slice(), &[None; 3]].concat())
            }
            Self::Bytes { case, keys, heap_bytes, resident_bytes } => {
                let bytes = [Some(*heap_bytes), Some(*resident_bytes), None];
                (case, keys, maybe(None), [[None; 5].as_slice(), &bytes].concat())
            }
            Self::Ratio { case, keys, ratio } => {
                (case, keys, maybe(None), [[None; 7].as_slice(), &[Some(*ratio)]].concat())
            }
        };
        let mut cells = vec![case.clone(), keys.to_string(), reps];
        cells.extend(figures.into_iter().map(maybe));
        cells
    }
}

/// Runs the cases asked for and returns their rows, and the failures of their processes.
pub(crate) fn run(
    options: &Options,
    bar: &ProgressBar,
) -> Result<(Vec<EntityRow>, Vec<BenchError>), BenchError> {
    let cases = Case::select(&options.cases)?;
    if options.reps == 0 || options.procs == 0 || options.workers == 0 {
        let text = "--reps, --procs and --workers are at least 1";
        return Err(BenchError::BadValue(text.to_owned()));
    }
    if options.keys.is_empty() || options.keys.iter().any(|keys| !(1..=KEYS_MAX).contains(keys)) {
        return Err(BenchError::BadValue(format!("--keys are from 1 to {KEYS_MAX}")));
    }
    let mut runs: Vec<Run> = Vec::new();
    for case in cases {
        let sizes = if case.is_lone() { &[1][..] } else { &options.keys };
        runs.extend(sizes.iter().map(|keys| Run { case, keys: *keys, lines: Vec::new() }));
    }
    // Processes without a repetition would only cost time.
    let procs = options.procs.min(options.reps);
    bar.set_length((runs.len() * procs) as u64);
    let mut failures = Vec::new();
    // One round after the other, so that a slow minute of the machine meets all cases alike.
    for index in 0..procs {
        for run in &mut runs {
            let case = format!("{} of {} keys", run.case, run.keys);
            bar.set_message(case.clone());
            // The first processes take what does not divide evenly.
            let reps = options.reps / procs + usize::from(index < options.reps % procs);
            let orders = Orders { case: run.case, keys: run.keys, reps, workers: options.workers };
            let ended = process::run("entities-child", &orders, |line| run.lines.push(line));
            failures.extend(ended.err().map(|failure| failure.at(index + 1, case)));
            bar.inc(1);
        }
    }
    // All processes of a case may have failed.
    runs.retain(|run| !run.lines.is_empty());
    let mut rows: Vec<EntityRow> = runs.iter().map(Run::row).collect();
    rows.extend(crowding(&runs));
    Ok((rows, failures))
}

/// One process.
pub(crate) fn child(orders: &Orders) -> Result<(), BenchError> {
    run::run(orders)
}

/// A case, and what its processes have told.
struct Run {
    case: Case,
    keys: u32,
    lines: Vec<Line>,
}

impl Run {
    fn gather(&self, figure: impl Fn(&Line) -> Option<f64>) -> Vec<f64> {
        self.lines.iter().filter_map(figure).collect()
    }

    fn times(&self) -> Vec<f64> {
        self.gather(|line| match line {
            Line::Sample { ns, .. } => Some(*ns),
            Line::Bytes { .. } => None,
        })
    }

    fn row(&self) -> EntityRow {
        let (case, keys) = (self.case.to_string(), self.keys);
        if self.case.is_weight() {
            let bytes = |which: fn(f64, f64) -> f64| {
                median(&self.gather(|line| match line {
                    Line::Bytes { heap, resident } => Some(which(*heap, *resident)),
                    Line::Sample { .. } => None,
                }))
                .round()
            };
            let (heap_bytes, resident_bytes) = (bytes(|heap, _| heap), bytes(|_, seen| seen));
            return EntityRow::Bytes { case, keys, heap_bytes, resident_bytes };
        }
        let times = self.times();
        let allocations = self.gather(|line| match line {
            Line::Sample { allocations, .. } => Some(*allocations),
            Line::Bytes { .. } => None,
        });
        let median_ns = median(&times);
        EntityRow::Time {
            case,
            keys,
            median_ns: rounded(median_ns),
            min_ns: rounded(times.iter().copied().fold(f64::INFINITY, f64::min)),
            max_ns: rounded(times.iter().copied().fold(0.0, f64::max)),
            reps: times.len(),
            millions_per_s: rounded(1_000.0 / median_ns),
            allocs_per_op: rounded(median(&allocations)),
        }
    }
}

/// The throughput of the crowd's entity to that of the pair's, if both were run.
fn crowding(runs: &[Run]) -> Option<EntityRow> {
    let times = |case| runs.iter().find(|run| run.case == case).map(Run::times);
    let (crowd, pair) = times(Case::Hot).zip(times(Case::HotPair))?;
    let ratio = rounded(median(&pair) / median(&crowd));
    Some(EntityRow::Ratio { case: "hot_to_hot_pair".to_owned(), keys: 1, ratio })
}
