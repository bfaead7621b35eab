//! The rows of `compare`.

use serde::Serialize;

use super::plan::{Impl, Pattern, Shape};
use super::samples::{Gathered, Spread};
use crate::load::rounded;
use crate::report::{figure, maybe, median, Row};

/// One pattern on one implementation, or its memory.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum CompareRow {
    /// Time a message.
    Messages(Box<MessageRow>),
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

/// Time a message.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MessageRow {
    pattern: String,
    #[serde(rename = "impl")]
    contender: String,
    median_ns: f64,
    min_ns: f64,
    max_ns: f64,
    reps: usize,
    allocs_per_msg: f64,
    wakes_per_msg: Option<f64>,
    /// The time of the worst process to that of the best, by their medians.
    worst_to_best: Option<f64>,
    /// Against tokio in the same processes; the least and the most of a process.
    to_tokio: Option<f64>,
    to_tokio_min: Option<f64>,
    to_tokio_max: Option<f64>,
    to_ractor: Option<f64>,
    to_kameo: Option<f64>,
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
            "worst/best",
            "/tokio",
            "min",
            "max",
            "/ractor",
            "/kameo",
            "allocs/msg",
            "wakes/msg",
            "bytes",
        ]
    }

    fn cells(&self) -> Vec<String> {
        let none = || "-".to_owned();
        match self {
            Self::Messages(row) => vec![
                row.pattern.clone(),
                row.contender.clone(),
                figure(row.median_ns),
                figure(row.min_ns),
                figure(row.max_ns),
                row.reps.to_string(),
                maybe(row.worst_to_best),
                maybe(row.to_tokio),
                maybe(row.to_tokio_min),
                maybe(row.to_tokio_max),
                maybe(row.to_ractor),
                maybe(row.to_kameo),
                figure(row.allocs_per_msg),
                maybe(row.wakes_per_msg),
                none(),
            ],
            Self::Memory { pattern, contender, bytes, ratio } => {
                let mut cells = vec![pattern.clone(), contender.clone()];
                cells.extend((0..5).map(|_| none()));
                cells.push(maybe(*ratio));
                cells.extend((0..6).map(|_| none()));
                cells.push(figure(*bytes));
                cells
            }
        }
    }
}

/// The row of a pattern on a contender, if there are samples of it.
pub(super) fn row(pattern: Pattern, contender: Impl, gathered: &Gathered) -> Option<CompareRow> {
    if pattern.shape == Shape::Memory {
        return memory_row(pattern, contender, gathered);
    }
    let samples = gathered.samples(pattern, contender)?;
    let to = |peer| samples.against(gathered.samples(pattern, peer)?);
    let (ns, tokio) = (samples.all(), to(Impl::Tokio));
    let wakes = (!samples.wakes.is_empty()).then(|| median(&samples.wakes));
    Some(CompareRow::Messages(Box::new(MessageRow {
        pattern: pattern.to_string(),
        contender: contender.to_string(),
        median_ns: rounded(median(&ns)),
        min_ns: rounded(ns.iter().copied().fold(f64::INFINITY, f64::min)),
        max_ns: rounded(ns.iter().copied().fold(0.0, f64::max)),
        reps: ns.len(),
        // Finer: «none» and «one in ten thousand» are not the same.
        allocs_per_msg: rounded(median(&samples.allocations) * 1_000.0) / 1_000.0,
        wakes_per_msg: wakes.map(|wakes| rounded(wakes * 1_000.0) / 1_000.0),
        worst_to_best: samples.spread().map(|times| rounded(times.max / times.min)),
        to_tokio: tokio.map(|ratio| rounded(ratio.median)),
        to_tokio_min: tokio.map(|ratio| rounded(ratio.min)),
        to_tokio_max: tokio.map(|ratio| rounded(ratio.max)),
        to_ractor: to(Impl::Ractor).map(|ratio| rounded(ratio.median)),
        to_kameo: to(Impl::Kameo).map(|ratio| rounded(ratio.median)),
    })))
}

fn memory_row(pattern: Pattern, contender: Impl, gathered: &Gathered) -> Option<CompareRow> {
    let bytes = median(&gathered.samples(pattern, contender)?.all());
    let tokio = gathered.samples(pattern, Impl::Tokio).map(|tokio| median(&tokio.all()));
    Some(CompareRow::Memory {
        pattern: pattern.to_string(),
        contender: contender.to_string(),
        bytes: bytes.round(),
        ratio: tokio.map(|tokio| bytes / tokio),
    })
}

/// One pattern on one implementation in this binary and in another one.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BesideRow {
    pattern: String,
    #[serde(rename = "impl")]
    contender: String,
    /// Nanoseconds a message, for memory bytes.
    this: f64,
    other: f64,
    /// Of the medians; the least and the most of a process to the one beside it.
    ratio: f64,
    ratio_min: f64,
    ratio_max: f64,
    reps: usize,
}

impl Row for BesideRow {
    fn heads() -> &'static [&'static str] {
        &["pattern", "impl", "this", "other", "this/other", "min", "max", "reps"]
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.pattern.clone(),
            self.contender.clone(),
            figure(self.this),
            figure(self.other),
            format!("{:.3}", self.ratio),
            format!("{:.3}", self.ratio_min),
            format!("{:.3}", self.ratio_max),
            self.reps.to_string(),
        ]
    }
}

/// The row of a pattern on a contender, if both binaries have samples of it.
pub(super) fn beside_row(
    pattern: Pattern,
    contender: Impl,
    (this, other): (&Gathered, &Gathered),
) -> Option<BesideRow> {
    let (this, other) = (this.samples(pattern, contender)?, other.samples(pattern, contender)?);
    let Spread { median: ratio, min, max } = this.beside(other)?;
    let (own, theirs) = (this.all(), other.all());
    Some(BesideRow {
        pattern: pattern.to_string(),
        contender: contender.to_string(),
        this: rounded(median(&own)),
        other: rounded(median(&theirs)),
        ratio: rounded(ratio),
        ratio_min: rounded(min),
        ratio_max: rounded(max),
        reps: own.len(),
    })
}
