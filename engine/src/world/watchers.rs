//! Waiters for plans. Waiters do not keep sleeping plans in memory.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use turnwheel_runtime::Completer;

use crate::error::PlanError;
use crate::id::{PlanId, StepId};
use crate::plan::Plan;

pub(crate) type Watcher = Completer<Result<Arc<Plan>, PlanError>>;

/// Steps that wait for unreadable sub-plans, by sub-plan, as they have reported in this life of the
/// world. The stored data of a damaged plan may not name them.
#[derive(Debug, Default)]
pub(crate) struct Callers(Mutex<HashMap<PlanId, (PlanId, StepId)>>);

impl Callers {
    pub(crate) fn note(&self, plan: PlanId, caller: (PlanId, StepId)) {
        self.0.lock().insert(plan, caller);
    }

    pub(crate) fn of(&self, plan: PlanId) -> Option<(PlanId, StepId)> {
        self.0.lock().get(&plan).copied()
    }
}

/// Watchers up to which nobody looks for those that have given up.
const FEW: usize = 64;

/// Waiters, by plan.
#[derive(Default)]
pub(crate) struct Watchers(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    plans: HashMap<PlanId, Vec<Watcher>>,
    /// Watchers at the last look, and since then.
    count: usize,
    /// At so many, those that have given up are dropped.
    next_look: usize,
}

impl Waiting {
    /// Cost: a look at all of them each time that they have doubled.
    fn add(&mut self, plan: PlanId, watcher: Watcher) {
        self.plans.entry(plan).or_default().push(watcher);
        self.count += 1;
        if self.count > self.next_look.max(FEW) {
            self.plans.retain(|_, watchers| {
                watchers.retain(|watcher| !watcher.is_cancelled());
                !watchers.is_empty()
            });
            self.count = self.plans.values().map(Vec::len).sum();
            self.next_look = self.count * 2;
        }
    }
}

impl Watchers {
    pub(crate) fn add(&self, plan: PlanId, watcher: Watcher) {
        self.0.lock().add(plan, watcher);
    }

    /// Takes the waiters for plans that do not stay.
    pub(crate) fn leave(&self, stays: impl Fn(PlanId) -> bool) -> Vec<(PlanId, Vec<Watcher>)> {
        let plans = &mut self.0.lock().plans;
        let leaving: Vec<PlanId> = plans.keys().copied().filter(|plan| !stays(*plan)).collect();
        leaving.into_iter().filter_map(|plan| plans.remove_entry(&plan)).collect()
    }

    /// Tells all who wait for a plan; the outcome is made only if somebody does.
    pub(crate) fn tell(
        &self,
        plan: PlanId,
        outcome: impl FnOnce() -> Result<Arc<Plan>, PlanError>,
    ) {
        let Some(watchers) = self.0.lock().plans.remove(&plan) else { return };
        let outcome = outcome();
        for watcher in watchers {
            // A waiter that has given up is gone.
            let _gone = watcher.complete(outcome.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use turnwheel_runtime::completion::completion;

    use super::*;

    #[test]
    fn watchers_that_have_given_up_are_dropped_and_others_are_told() {
        let watchers = Watchers::default();
        let plan = |number: u128| PlanId::from_bytes(number.to_be_bytes());
        let (watcher, waits) = completion();
        watchers.add(plan(0), watcher);
        for number in 0..10_000 {
            let (watcher, gives_up) = completion();
            drop(gives_up);
            watchers.add(plan(number % 100), watcher);
        }
        let kept: usize = watchers.0.lock().plans.values().map(Vec::len).sum();
        assert!(kept <= 2 * FEW, "{kept}");
        watchers.tell(plan(0), || Err(PlanError::Unknown(plan(0))));
        assert!(waits.is_done());
    }
}
