//! Conditions: a signal from any thread makes a job of the task.

use super::{Source, Step};
use crate::sync::{Arc, Ordering};
use crate::task::Turn;

/// Runs of a condition's job for several signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConditionMode {
    /// Once for each signal, with other work of the task between two runs.
    Counting,
    /// At least once after the last signal.
    Coalescing,
}

/// Handle of a condition; clones share it. It is a source: dropping the last handle ends the
/// condition, since no thread can signal it any more (see [the rule](crate#handles)).
///
/// Signals before the task is started are remembered; from the close request on they do nothing.
#[derive(Clone, Debug)]
#[must_use = "the condition ends when its last handle is dropped"]
pub struct Condition(Arc<Last>);

/// Ends the subscription when the last handle is gone.
#[derive(Debug)]
struct Last(Arc<Source>);

impl Drop for Last {
    fn drop(&mut self) {
        cancel(&self.0);
    }
}

impl Condition {
    pub(crate) fn new(source: Arc<Source>) -> Self {
        Self(Arc::new(Last(source)))
    }

    /// Signals the condition, from any thread. One or two atomic operations and a short lock.
    pub fn signal(&self) {
        let source = &self.0 .0;
        // AcqRel: pairs with the take in `run_step`; the job sees the signaller's earlier writes.
        source.count.fetch_add(1, Ordering::AcqRel);
        source.ready();
    }

    /// Ends the condition, from any thread. Signals not yet run are dropped.
    pub fn cancel(&self) {
        cancel(&self.0 .0);
    }
}

fn cancel(source: &Arc<Source>) {
    source.is_cancelled.store(true, Ordering::Release);
    source.ready();
}

/// Runs a condition's job as its mode says.
pub(crate) fn run_step(
    source: &Source,
    mode: ConditionMode,
    turn: &mut Turn,
    job: &mut dyn FnMut(&mut Turn),
) -> Step {
    if source.is_cancelled.load(Ordering::Acquire) {
        return Step::Done;
    }
    let left = match mode {
        ConditionMode::Coalescing => source.count.swap(0, Ordering::AcqRel).min(1),
        // Only the runner takes signals, so the count cannot fall between the two.
        ConditionMode::Counting => match source.count.load(Ordering::Acquire) {
            0 => 0,
            _ => source.count.fetch_sub(1, Ordering::AcqRel),
        },
    };
    if left == 0 {
        return Step::Stay;
    }
    job(turn);
    if mode == ConditionMode::Counting && left > 1 {
        Step::More
    } else {
        Step::Stay
    }
}
