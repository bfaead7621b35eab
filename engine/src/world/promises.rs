//! Promises are completed by name and key.

use serde::Serialize;

use super::{Asking, World};
use crate::error::{unanswered, PlanError, StoreError};
use crate::id::PlanId;
use crate::payload::Payload;
use crate::plan::label_of;
use crate::run::OrderKind;
use crate::store::Filter;

/// Why a promise was not completed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromiseError {
    /// No step waits for it: not yet, or not any more.
    #[error("nothing waits for the promise «{name}» of «{key}»: not yet, or it is completed")]
    NobodyWaits {
        /// Its name.
        name: String,
        /// Its key.
        key: String,
    },
    /// More than one plan waits for it.
    #[error("plans {} and {} wait for the promise «{name}» of «{key}»", plans[0], plans[1])]
    Several {
        /// Its name.
        name: String,
        /// Its key.
        key: String,
        /// Two of them.
        plans: [PlanId; 2],
    },
    /// The value cannot be written as JSON.
    #[error("the value {0}")]
    Value(String),
    /// The plan has not taken it, as when somebody was faster; or it is not known whether it has.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl From<StoreError> for PromiseError {
    fn from(error: StoreError) -> Self {
        Self::Plan(error.into())
    }
}

impl World {
    /// Completes the promise that a step [waits for](crate::StepContext::wait_for_promise) by this
    /// name and key, and returns the plan. It is found through the store, also when another process
    /// has made it wait. The value is durable then, and the promise completed: a second completion
    /// finds nothing that waits. A completion is not kept for a step that will wait later: repeat
    /// it after [`NobodyWaits`](PromiseError::NobodyWaits). While the store takes no writes, nobody
    /// knows who waits: that is an error of the store.
    ///
    /// ```no_run
    /// # fn of(world: turnwheel_engine::World) -> Result<(), turnwheel_engine::PromiseError> {
    /// world.complete_named("approval", "42", &true, "ann").wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn complete_named<T: Serialize + ?Sized>(
        &self,
        name: &str,
        key: &str,
        value: &T,
        by: &str,
    ) -> Asking<PlanId, PromiseError> {
        let (name, key, by) = (name.to_owned(), key.to_owned(), by.to_owned());
        let (world, value) = (self.clone(), Payload::of(value));
        Asking::new(async move {
            let value = value.map_err(|error| PromiseError::Value(error.to_string()))?;
            let labels = vec![(label_of(&name, &key), None)];
            let found = world.list_now(Filter { labels, limit: 2, ..Filter::default() }).await?;
            let plan = match &found[..] {
                [] => return Err(PromiseError::NobodyWaits { name, key }),
                [one] => one.id,
                [one, other, ..] => {
                    let plans = [one.id, other.id];
                    return Err(PromiseError::Several { name, key, plans });
                }
            };
            let order = OrderKind::Complete { name, key, value };
            let done = world.plan(plan).order(order, &by).await;
            done.map_err(|failure| PlanError::Refused { plan, problem: unanswered(&failure) })??;
            Ok(plan)
        })
    }
}
