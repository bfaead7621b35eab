//! A plan as its store has it.

use std::fmt;

use turnwheel_runtime::Failure;

use super::growth::Growth;
use super::{row, PlanActor};
use crate::error::StoreError;
use crate::id::PlanId;
use crate::journal::{decode, decode_plan};
use crate::plan::Plan;
use crate::store::{Loaded, PlanRow, Seq};
use crate::world::Shared;

impl PlanActor {
    /// Reads a plan with its newest entry and what came after its snapshot, if there is one; and
    /// whether its row says that it cannot be read.
    pub(crate) async fn read(
        world: &Shared,
        id: PlanId,
    ) -> Result<Option<(Plan, (Seq, Growth, bool))>, StoreError> {
        let journal = world.journal();
        let head = journal.head(id);
        let loaded = journal.read(move |reader| reader.load(id, head)).await;
        let loaded = loaded.map_err(|failure: Failure| StoreError::unanswered(&failure))??;
        let Some(loaded) = loaded else { return Ok(None) };
        let of = (loaded.head, Growth::of(&loaded), loaded.is_quarantined);
        Ok(plan_of(id, &loaded)?.map(|plan| (plan, of)))
    }
}

/// The row of a plan as its entries say.
pub(crate) fn stored_row(id: PlanId, loaded: &Loaded) -> Result<Option<PlanRow>, StoreError> {
    let plan = plan_of(id, loaded)?;
    Ok(plan.map(|plan| PlanRow { head: loaded.head, ..row(&plan) }))
}

fn plan_of(id: PlanId, loaded: &Loaded) -> Result<Option<Plan>, StoreError> {
    let mut plan = match &loaded.snapshot {
        Some(bytes) => Some(decode_plan(id, bytes)?),
        None => None,
    };
    let corrupt = |error: &dyn fmt::Display| StoreError::Corrupt(error.to_string());
    for (place, entry) in &loaded.entries {
        let after = Plan::after_entry(plan, id, *place, decode(id, entry)?);
        plan = Some(after.map_err(|error| corrupt(&error))?);
    }
    // Events left behind in stored entries were reported when these were written.
    plan.iter_mut().for_each(|plan| drop(plan.take_left_behind()));
    Ok(plan)
}
