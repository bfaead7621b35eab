//! Who waits for plans. Plans that sleep are not kept in memory by those who wait for them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use turnwheel_runtime::Completer;

use crate::error::PlanError;
use crate::id::PlanId;
use crate::plan::Plan;

pub(crate) type Watcher = Completer<Result<Arc<Plan>, PlanError>>;

/// Those who wait, by plan.
#[derive(Default)]
pub(crate) struct Watchers(Mutex<HashMap<PlanId, Vec<Watcher>>>);

impl Watchers {
    pub(crate) fn add(&self, plan: PlanId, watcher: Watcher) {
        self.0.lock().entry(plan).or_default().push(watcher);
    }

    /// Those who wait for plans that do not stay.
    pub(crate) fn leave(&self, stays: impl Fn(PlanId) -> bool) -> Vec<(PlanId, Vec<Watcher>)> {
        let mut watchers = self.0.lock();
        let leaving: Vec<PlanId> = watchers.keys().copied().filter(|plan| !stays(*plan)).collect();
        leaving.into_iter().filter_map(|plan| watchers.remove_entry(&plan)).collect()
    }

    /// Tells all who wait for a plan; the outcome is made only if somebody does.
    pub(crate) fn tell(
        &self,
        plan: PlanId,
        outcome: impl FnOnce() -> Result<Arc<Plan>, PlanError>,
    ) {
        let Some(watchers) = self.0.lock().remove(&plan) else { return };
        let outcome = outcome();
        for watcher in watchers {
            // One that has given up is not there any more.
            let _gone = watcher.complete(outcome.clone());
        }
    }
}
