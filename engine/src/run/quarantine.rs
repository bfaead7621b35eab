//! Plans that cannot be read: their rows say so and why, and a start reads nothing else for them.

use std::sync::Arc;

use crate::id::PlanId;
use crate::plan::{PlanResult, PlanState, Waiting};
use crate::store::{Filter, Order, PlanRow};
use crate::time::Time;
use crate::world::Shared;

/// Characters of a reason that people are shown.
const REASON_MAX: usize = 500;

/// Brings the row of a plan that cannot be read to its newest entry, with the reason. Without that
/// every start would look through the journal for what is behind. A later world tries to read it
/// again. `epoch` is that of the plan's slot when it was read.
pub(super) async fn quarantine(world: Arc<Shared>, id: PlanId, epoch: u64, error: String) {
    let newest = world.journal().head(id);
    let found = world.journal().read(move |reader| reader.list(&only(id))).await;
    let Ok(Ok(rows)) = found else { return };
    let known = rows.into_iter().find(|row| row.id == id);
    let Some(head) = newest.or(known.as_ref().map(|row| row.head)) else { return };
    let reason: String = error.chars().take(REASON_MAX).collect();
    let waits_for = format!("nobody can read it: {reason}");
    let is_told = |row: &PlanRow| row.head == head && row.waits_for == waits_for;
    if known.as_ref().is_some_and(is_told) {
        return;
    }
    let row = known.unwrap_or_else(|| unknown(id));
    let (is_busy, wakes_at, waits) = (true, None, Waiting::Unreadable);
    let row = PlanRow { head, is_busy, wakes_at, waits, waits_for, snapshot: None, ..row };
    world.journal().update(row, epoch);
}

/// The row of this plan, if there is one: the newest one that is not newer.
fn only(id: PlanId) -> Filter {
    let next = u128::from_be_bytes(id.to_bytes()).saturating_add(1);
    let before = Some(PlanId::from_bytes(next.to_be_bytes()));
    Filter { before, limit: 1, order: Order::NewestFirst, ..Filter::default() }
}

/// The row of a plan whose beginning was never read.
fn unknown(id: PlanId) -> PlanRow {
    // The first 48 bits of an id are milliseconds.
    let ms = u128::from_be_bytes(id.to_bytes()) >> 80;
    PlanRow {
        id,
        head: 0,
        state: PlanState::Paused,
        result: PlanResult::Pending,
        label: "".into(),
        action: "".into(),
        by: "".into(),
        labels: std::collections::BTreeMap::new(),
        created_at: Time(u64::try_from(ms).unwrap_or(0).saturating_mul(1_000)),
        started_at: None,
        ended_at: None,
        wakes_at: None,
        is_busy: true,
        caller: None,
        waits: Waiting::Unreadable,
        waits_for: String::new(),
        snapshot: None,
    }
}
