//! The parent of `compare`: starts the processes, gathers their samples, makes the rows.

use std::collections::BTreeMap;

use indicatif::ProgressBar;
use serde::Serialize;

use super::child::{case, Line, Orders};
use super::plan::{Impl, Pattern, Shape, WORK_NS};
use super::trial::work_rounds;
use crate::error::BenchError;
use crate::load::rounded;
use crate::process;
use crate::report::{figure, maybe, median, Row};

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) patterns: Vec<String>,
    pub(crate) impls: Vec<String>,
    pub(crate) reps: usize,
    pub(crate) procs: usize,
    pub(crate) work_ns: Option<u32>,
    pub(crate) workers: usize,
    pub(crate) fails_at: Option<String>,
}

/// One pattern on one implementation, or its memory.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum CompareRow {
    /// Time a message.
    Messages {
        pattern: String,
        #[serde(rename = "impl")]
        contender: String,
        median_ns: f64,
        min_ns: f64,
        max_ns: f64,
        reps: usize,
        allocs_per_msg: f64,
        wakes_per_msg: Option<f64>,
        /// Median and best against tokio in the same run; for the table only.
        #[serde(skip)]
        ratios: Option<(f64, f64)>,
    },
    /// Bytes of an idle actor.
    Memory {
        pattern: String,
        #[serde(rename = "impl")]
        contender: String,
        bytes: f64,
        #[serde(skip)]
        ratio: Option<f64>,
    },
}

impl Row for CompareRow {
    fn heads() -> &'static [&'static str] {
        &[
            "pattern",
            "impl",
            "median ns",
            "min ns",
            "max ns",
            "reps",
            "median/tokio",
            "best ratio",
            "allocs/msg",
            "wakes/msg",
            "bytes",
        ]
    }

    fn cells(&self) -> Vec<String> {
        let none = || "-".to_owned();
        match self {
            Self::Messages {
                pattern,
                contender,
                median_ns,
                min_ns,
                max_ns,
                reps,
                allocs_per_msg,
                wakes_per_msg,
                ratios,
            } => vec![
                pattern.clone(),
                contender.clone(),
                figure(*median_ns),
                figure(*min_ns),
                figure(*max_ns),
                reps.to_string(),
                maybe(ratios.map(|(median, _)| median)),
                maybe(ratios.map(|(_, best)| best)),
                figure(*allocs_per_msg),
                maybe(*wakes_per_msg),
                none(),
            ],
            Self::Memory { pattern, contender, bytes, ratio } => {
                let mut cells = vec![pattern.clone(), contender.clone()];
                cells.extend((0..4).map(|_| none()));
                cells.push(maybe(*ratio));
                cells.extend((0..3).map(|_| none()));
                cells.push(figure(*bytes));
                cells
            }
        }
    }
}

/// The samples of one pattern on one contender, in the order taken.
#[derive(Debug, Default)]
struct Samples {
    ns: Vec<f64>,
    allocations: Vec<f64>,
    wakes: Vec<f64>,
}

#[derive(Debug, Default)]
struct Gathered {
    messages: BTreeMap<(Pattern, Impl), Samples>,
    bytes: BTreeMap<Impl, Vec<f64>>,
    /// The case that the present process has reached.
    reached: Option<(Pattern, Option<Impl>)>,
    failures: Vec<BenchError>,
}

/// Runs the comparison and returns its rows, and the failures of its processes.
pub(crate) fn run(
    options: &Options,
    bar: &ProgressBar,
) -> Result<(Vec<CompareRow>, Vec<BenchError>), BenchError> {
    let patterns = Pattern::select(&options.patterns, options.work_ns)?;
    let contenders = Impl::select(&options.impls)?;
    if options.reps == 0 || options.procs == 0 || options.workers == 0 {
        let text = "--reps, --procs and --workers are at least 1";
        return Err(BenchError::BadValue(text.to_owned()));
    }
    // Processes without a repetition would only cost time.
    let procs = options.procs.min(options.reps);
    let (memory, messages): (Vec<_>, Vec<_>) =
        patterns.iter().partition(|pattern| pattern.shape == Shape::Memory);
    let runs = messages.len() * contenders.len() * (options.reps + procs);
    bar.set_length((runs + memory.len() * contenders.len() * procs) as u64);
    let work_rounds = work_rounds(WORK_NS);
    let mut gathered = Gathered::default();
    for index in 0..procs {
        // The first processes take what does not divide evenly.
        let reps = options.reps / procs + usize::from(index < options.reps % procs);
        let orders = Orders {
            patterns: messages.clone(),
            contenders: contenders.clone(),
            reps,
            workers: options.workers,
            work_rounds,
            fails_at: options.fails_at.clone(),
        };
        children(index + 1, orders.clone(), bar, &mut gathered);
        // A process for each: freed memory of the one before would hide what the next one takes.
        for contender in contenders.iter().filter(|_| !memory.is_empty()) {
            let orders = Orders {
                patterns: memory.clone(),
                contenders: vec![*contender],
                reps: 1,
                ..orders.clone()
            };
            children(index + 1, orders, bar, &mut gathered);
        }
    }
    let rows = rows(&patterns, &contenders, &gathered);
    Ok((rows, gathered.failures))
}

/// Runs a process; if it fails, another one goes on with the patterns after the one it reached.
fn children(index: usize, mut orders: Orders, bar: &ProgressBar, gathered: &mut Gathered) {
    while !orders.patterns.is_empty() {
        gathered.reached = None;
        let run = process::run("compare-child", &orders, |line: Line| gather(line, bar, gathered));
        let Err(failure) = run else { return };
        let reached = gathered.reached;
        let at = reached.map_or_else(|| "its start".to_owned(), |(of, who)| case(of, who));
        gathered.failures.push(failure.at(index, at));
        // A process that does not even begin would not begin the next time either.
        let Some((last, _)) = reached else { return };
        let left = orders.patterns.iter().skip_while(|pattern| **pattern != last).skip(1);
        orders.patterns = left.copied().collect();
    }
}

fn gather(line: Line, bar: &ProgressBar, gathered: &mut Gathered) {
    bar.inc(u64::from(!matches!(line, Line::Begin { .. })));
    match line {
        Line::Begin { pattern, contender } => gathered.reached = Some((pattern, contender)),
        Line::Sample { pattern, contender, ns, allocations, wakes } => {
            bar.set_message(format!("{pattern} {contender} {} ns", figure(ns)));
            let samples = gathered.messages.entry((pattern, contender)).or_default();
            samples.ns.push(ns);
            samples.allocations.push(allocations);
            samples.wakes.extend(wakes);
        }
        Line::Bytes { contender, bytes } => {
            bar.set_message(format!("memory {contender} {} bytes", figure(bytes)));
            gathered.bytes.entry(contender).or_default().push(bytes);
        }
        Line::None { .. } | Line::Warm => {}
    }
}

fn rows(patterns: &[Pattern], contenders: &[Impl], gathered: &Gathered) -> Vec<CompareRow> {
    let mut rows = Vec::new();
    for pattern in patterns {
        for contender in contenders {
            if pattern.shape == Shape::Memory {
                rows.extend(memory_row(*pattern, *contender, gathered));
            } else {
                rows.extend(message_row(*pattern, *contender, gathered));
            }
        }
    }
    rows
}

fn message_row(pattern: Pattern, contender: Impl, gathered: &Gathered) -> Option<CompareRow> {
    let samples = gathered.messages.get(&(pattern, contender))?;
    let tokio = gathered.messages.get(&(pattern, Impl::Tokio));
    // Samples of the same number were taken side by side.
    let ratios = tokio.map(|tokio| {
        let each: Vec<f64> =
            samples.ns.iter().zip(&tokio.ns).map(|(mine, theirs)| mine / theirs).collect();
        (median(&each), each.iter().copied().fold(f64::INFINITY, f64::min))
    });
    let wakes = (!samples.wakes.is_empty()).then(|| median(&samples.wakes));
    Some(CompareRow::Messages {
        pattern: pattern.to_string(),
        contender: contender.to_string(),
        median_ns: rounded(median(&samples.ns)),
        min_ns: rounded(samples.ns.iter().copied().fold(f64::INFINITY, f64::min)),
        max_ns: rounded(samples.ns.iter().copied().fold(0.0, f64::max)),
        reps: samples.ns.len(),
        // Finer: «none» and «one in ten thousand» are not the same.
        allocs_per_msg: rounded(median(&samples.allocations) * 1_000.0) / 1_000.0,
        wakes_per_msg: wakes.map(|wakes| rounded(wakes * 1_000.0) / 1_000.0),
        ratios,
    })
}

fn memory_row(pattern: Pattern, contender: Impl, gathered: &Gathered) -> Option<CompareRow> {
    let bytes = median(gathered.bytes.get(&contender)?);
    let ratio = gathered.bytes.get(&Impl::Tokio).map(|tokio| bytes / median(tokio));
    Some(CompareRow::Memory {
        pattern: pattern.to_string(),
        contender: contender.to_string(),
        bytes: bytes.round(),
        ratio,
    })
}
