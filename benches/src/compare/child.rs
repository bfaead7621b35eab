//! One child process: some repetitions of all contenders, interleaved, told line by line.

use serde::{Deserialize, Serialize};

use super::impls;
use super::peer::Contender;
use super::plan::{Impl, Pattern, Run, Shape, MANY_ACTORS};
use crate::error::BenchError;
use crate::process::tell;

/// What a child is to do; it gets this as JSON on its command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) contenders: Vec<Impl>,
    pub(crate) reps: usize,
    pub(crate) workers: usize,
    /// Rounds that last the 100 ns, measured by the parent: the same work in all processes.
    pub(crate) work_rounds: u32,
    /// For tests: the process ends with a panic when it reaches this case.
    pub(crate) fails_at: Option<String>,
}

impl Orders {
    /// The part of one of several processes, which are numbered from 1; the first ones take the
    /// repetitions that do not divide evenly.
    pub(super) fn part(&self, index: usize, procs: usize) -> Self {
        let reps = self.reps / procs + usize::from(index <= self.reps % procs);
        Self { reps, ..self.clone() }
    }

    /// The rows that come of it, in order.
    pub(super) fn cases(&self) -> impl Iterator<Item = (Pattern, Impl)> + '_ {
        let each = |pattern: &Pattern| {
            let pattern = *pattern;
            self.contenders.iter().map(move |contender| (pattern, *contender))
        };
        self.patterns.iter().flat_map(each)
    }
}

/// One line of a child's standard output.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Line {
    /// The next pattern begins; without a contender, all of them are started.
    Begin { pattern: Pattern, contender: Option<Impl> },
    /// One repetition of one contender.
    Sample { pattern: Pattern, contender: Impl, ns: f64, allocations: f64, wakes: Option<f64> },
    /// This contender has no such thing.
    None { pattern: Pattern, contender: Impl },
    /// The weight of an actor.
    Bytes { contender: Impl, bytes: f64 },
    /// A repetition that only warmed up.
    Warm,
}

/// Runs what the parent has ordered.
pub(crate) fn run(orders: &Orders) -> Result<(), BenchError> {
    for pattern in &orders.patterns {
        // Contenders live as long as a pattern: heaps and pools are warm, and no pattern runs on
        // what another has left behind.
        begin(*pattern, None, orders);
        let mut contenders = Vec::new();
        for which in &orders.contenders {
            contenders.push(impls::start(*which, orders.workers)?);
        }
        if pattern.shape == Shape::Memory {
            weigh(*pattern, orders, &mut contenders)?;
        } else {
            interleave(*pattern, orders, &mut contenders)?;
        }
    }
    Ok(())
}

/// Says what comes next: the parent names it if the process ends there.
fn begin(pattern: Pattern, contender: Option<Impl>, orders: &Orders) {
    tell(&Line::Begin { pattern, contender });
    let case = case(pattern, contender);
    assert!(orders.fails_at.as_ref() != Some(&case), "asked to fail at {case}");
}

/// A case in the words of an error.
pub(crate) fn case(pattern: Pattern, contender: Option<Impl>) -> String {
    match contender {
        Some(contender) => format!("{pattern} on {contender}"),
        None => format!("the start of {pattern}"),
    }
}

fn interleave(
    pattern: Pattern,
    orders: &Orders,
    contenders: &mut [Box<dyn Contender>],
) -> Result<(), BenchError> {
    let mut has_none = vec![false; contenders.len()];
    // The repetition before the first warms up.
    for rep in 0..=orders.reps {
        for turn in 0..contenders.len() {
            // Everybody comes first in turn.
            let at = (turn + rep) % contenders.len();
            let contender = &mut contenders[at];
            if has_none[at] {
                continue;
            }
            let id = contender.id();
            begin(pattern, Some(id), orders);
            let run = Run::new(pattern, id, orders.work_rounds);
            let line = match contender.run(&run)? {
                None => {
                    has_none[at] = true;
                    Line::None { pattern, contender: id }
                }
                Some(_) if rep == 0 => Line::Warm,
                Some(measured) => Line::Sample {
                    pattern,
                    contender: id,
                    ns: measured.ns_per_message,
                    allocations: measured.allocations_per_message,
                    wakes: measured.wakes_per_message,
                },
            };
            tell(&line);
        }
    }
    Ok(())
}

fn weigh(
    pattern: Pattern,
    orders: &Orders,
    contenders: &mut [Box<dyn Contender>],
) -> Result<(), BenchError> {
    for contender in contenders {
        begin(pattern, Some(contender.id()), orders);
        let bytes = contender.memory(MANY_ACTORS)?;
        tell(&Line::Bytes { contender: contender.id(), bytes });
    }
    Ok(())
}
