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
}

/// One line of a child's standard output.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Line {
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
        let mut contenders = Vec::new();
        for which in &orders.contenders {
            contenders.push(impls::start(*which, orders.workers)?);
        }
        if pattern.shape == Shape::Memory {
            weigh(&mut contenders)?;
        } else {
            interleave(*pattern, orders, &mut contenders)?;
        }
    }
    Ok(())
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

fn weigh(contenders: &mut [Box<dyn Contender>]) -> Result<(), BenchError> {
    for contender in contenders {
        let bytes = contender.memory(MANY_ACTORS)?;
        tell(&Line::Bytes { contender: contender.id(), bytes });
    }
    Ok(())
}
