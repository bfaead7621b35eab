//! The items of active loops, so that a round does not evaluate their list again.
//!
//! They are kept in memory only: their inputs are in the store, and give the same list each time.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use turnwheel_engine::{PlanId, StepId};

/// Loops whose items are kept; those of others are evaluated again in each round.
const LOOPS_MAX: usize = 1_024;

/// Items of all of them together.
const ITEMS_MAX: usize = 1_000_000;

#[derive(Debug, Default)]
pub(crate) struct Loops(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_step: HashMap<(PlanId, StepId), Arc<Vec<Value>>>,
    items: usize,
}

impl Loops {
    /// The items of a loop, for its turn.
    pub(crate) fn take(&self, plan: PlanId, step: StepId) -> Option<Arc<Vec<Value>>> {
        let mut kept = self.0.lock();
        let items = kept.by_step.remove(&(plan, step))?;
        kept.items -= items.len();
        Some(items)
    }

    /// Keeps them for its next turn, if there is room.
    pub(crate) fn keep(&self, plan: PlanId, step: StepId, items: Arc<Vec<Value>>) {
        let mut kept = self.0.lock();
        if items.len() > ITEMS_MAX {
            return;
        }
        while kept.by_step.len() >= LOOPS_MAX || kept.items + items.len() > ITEMS_MAX {
            // An active plan evaluates it again; a cancelled plan does not need it.
            let Some(old) = kept.by_step.keys().next().copied() else { break };
            if let Some(old) = kept.by_step.remove(&old) {
                kept.items -= old.len();
            }
        }
        kept.items += items.len();
        kept.by_step.insert((plan, step), items);
    }
}
