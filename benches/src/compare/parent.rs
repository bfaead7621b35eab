//! The parent of `compare`: starts the processes and gathers their samples.

use std::path::Path;

use indicatif::ProgressBar;

use super::child::{case, Line, Orders};
use super::plan::{Impl, Pattern, Shape, WORK_NS};
use super::rows::{self, BesideRow, CompareRow};
use super::samples::Gathered;
use super::trial::work_rounds;
use crate::error::BenchError;
use crate::process;
use crate::report::figure;

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

/// The options, checked, as the orders of all processes together.
fn orders(options: &Options) -> Result<Orders, BenchError> {
    if options.reps == 0 || options.procs == 0 || options.workers == 0 {
        let text = "--reps, --procs and --workers are at least 1";
        return Err(BenchError::BadValue(text.to_owned()));
    }
    Ok(Orders {
        patterns: Pattern::select(&options.patterns, options.work_ns)?,
        contenders: Impl::select(&options.impls)?,
        reps: options.reps,
        workers: options.workers,
        work_rounds: work_rounds(WORK_NS),
        fails_at: options.fails_at.clone(),
    })
}

/// Lines that processes tell while they carry out these orders.
fn lines(orders: &Orders, procs: usize) -> u64 {
    let each = |pattern: &Pattern| match pattern.shape {
        Shape::Memory => procs,
        _ => orders.reps + procs,
    };
    (orders.patterns.iter().map(each).sum::<usize>() * orders.contenders.len()) as u64
}

/// Runs the comparison and returns its rows, and the failures of its processes.
pub(crate) fn run(
    options: &Options,
    bar: &ProgressBar,
) -> Result<(Vec<CompareRow>, Vec<BenchError>), BenchError> {
    let orders = orders(options)?;
    // Processes without a repetition would only cost time.
    let procs = options.procs.min(options.reps);
    bar.set_length(lines(&orders, procs));
    let mut gathered = Gathered::default();
    for index in 1..=procs {
        share(None, index, &orders.part(index, procs), bar, &mut gathered);
    }
    let rows = orders.cases().filter_map(|(pattern, who)| rows::row(pattern, who, &gathered));
    Ok((rows.collect(), gathered.failures))
}

/// Runs the processes of this binary and of another one in turn, pattern by pattern, and returns the
/// rows that compare them. Who comes first changes from process to process.
pub(crate) fn run_beside(
    options: &Options,
    other: &Path,
    bar: &ProgressBar,
) -> Result<(Vec<BesideRow>, Vec<BenchError>), BenchError> {
    let mut orders = orders(options)?;
    if options.impls.is_empty() {
        orders.contenders = vec![Impl::Turnwheel, Impl::TurnwheelActors];
    }
    let procs = options.procs.min(options.reps);
    bar.set_length(2 * lines(&orders, procs));
    let mut both = [(None, Gathered::default()), (Some(other), Gathered::default())];
    for pattern in &orders.patterns {
        let lone = Orders { patterns: vec![*pattern], ..orders.clone() };
        for index in 1..=procs {
            for (program, gathered) in &mut both {
                share(*program, index, &lone.part(index, procs), bar, gathered);
            }
            both.reverse();
        }
    }
    both.sort_by_key(|(program, _)| program.is_some());
    let [(_, mut ours), (_, mut theirs)] = both;
    let sides = (&ours, &theirs);
    let rows = orders.cases().filter_map(|(of, who)| rows::beside_row(of, who, sides)).collect();
    ours.failures.append(&mut theirs.failures);
    Ok((rows, ours.failures))
}

/// Runs the processes of one share of the repetitions.
fn share(
    program: Option<&Path>,
    index: usize,
    orders: &Orders,
    bar: &ProgressBar,
    gathered: &mut Gathered,
) {
    let (memory, messages): (Vec<_>, Vec<_>) =
        orders.patterns.iter().partition(|pattern| pattern.shape == Shape::Memory);
    children(program, index, Orders { patterns: messages, ..orders.clone() }, bar, gathered);
    // A process for each: freed memory of the one before would hide what the next one takes.
    let is_weighed = |contender: &&Impl| !contender.is_hosted();
    for contender in orders.contenders.iter().filter(is_weighed) {
        let contenders = vec![*contender];
        let orders = Orders { patterns: memory.clone(), contenders, reps: 1, ..orders.clone() };
        children(program, index, orders, bar, gathered);
    }
}

/// Runs a process; if it fails, another one goes on with the patterns after the one it reached.
fn children(
    program: Option<&Path>,
    index: usize,
    mut orders: Orders,
    bar: &ProgressBar,
    gathered: &mut Gathered,
) {
    while !orders.patterns.is_empty() {
        gathered.reached = None;
        let each = |line: Line| gather(index, line, bar, gathered);
        let run = process::run_in(program, "compare-child", &orders, each);
        let Err(failure) = run else { return };
        let reached = gathered.reached;
        let at = reached.map_or_else(|| "its start".to_owned(), |(of, who)| case(of, who));
        let of = program.map(|program| format!(" of {}", program.display()));
        gathered.failures.push(failure.at(index, at + &of.unwrap_or_default()));
        // A process that does not even begin would not begin the next time either.
        let Some((last, _)) = reached else { return };
        let left = orders.patterns.iter().skip_while(|pattern| **pattern != last).skip(1);
        orders.patterns = left.copied().collect();
    }
}

fn gather(process: usize, line: Line, bar: &ProgressBar, gathered: &mut Gathered) {
    bar.inc(u64::from(!matches!(line, Line::Begin { .. })));
    match line {
        Line::Begin { pattern, contender } => gathered.reached = Some((pattern, contender)),
        Line::Sample { pattern, contender, ns, allocations, wakes } => {
            bar.set_message(format!("{pattern} {contender} {} ns", figure(ns)));
            let samples = gathered.take(process, (pattern, contender), ns);
            samples.allocations.push(allocations);
            samples.wakes.extend(wakes);
        }
        Line::Bytes { contender, bytes } => {
            bar.set_message(format!("memory {contender} {} bytes", figure(bytes)));
            gathered.take(process, (Pattern::MEMORY, contender), bytes);
        }
        Line::None { .. } | Line::Warm => {}
    }
}
