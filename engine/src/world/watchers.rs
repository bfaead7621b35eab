//! Who waits for plans. Plans that sleep are not kept in memory by those who wait for them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use turnwheel_runtime::Completer;

use crate::error::PlanError;
use crate::id::PlanId;
use crate::plan::Plan;

type Watcher = Completer<Result<Arc<Plan>, PlanError>>;

/// Those who wait, by plan.
#[derive(Default)]
pub(crate) struct Watchers(Mutex<HashMap<PlanId, Vec<Watcher>>>);

impl Watchers {
    pub(crate) fn add(&self, plan: PlanId, watcher: Watcher) {
        self.0.lock().entry(plan).or_default().push(watcher);
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
