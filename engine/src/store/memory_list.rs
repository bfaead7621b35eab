//! Lists of plans in memory.

use super::memory::Data;
use super::{Filter, Order, PlanRow};

/// The rows that fit a filter, without their snapshots.
pub(super) fn list(data: &Data, filter: &Filter) -> Vec<PlanRow> {
    let key = filter.key.as_ref().map(|key| data.keys.get(key));
    let fits = |row: &&PlanRow| {
        filter.fits(row)
            && key.is_none_or(|holder| holder == Some(&row.id))
            && !(filter.is_unneeded && data.is_needed(row))
    };
    let all = data.rows.values();
    let rows: Box<dyn Iterator<Item = &PlanRow>> = match filter.order {
        Order::NewestFirst => Box::new(all.rev()),
        Order::OldestFirst => Box::new(all),
    };
    let rows = rows.filter(fits).take(filter.limit).cloned();
    rows.map(|row| PlanRow { snapshot: None, ..row }).collect()
}
