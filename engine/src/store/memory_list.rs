//! Lists of plans in memory, and schedules.

use std::collections::BTreeMap;

use super::memory::Data;
use super::{Filter, Order, PlanRow, ScheduleRow, ScheduleWrite, Swap};

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

/// Changes a schedule if it has the version that was read.
pub(super) fn swap(schedules: &mut BTreeMap<String, ScheduleRow>, write: &ScheduleWrite) -> Swap {
    let version = schedules.get(&write.name).map_or(0, |row| row.version);
    if version != write.from {
        return Swap::Changed { version };
    }
    match write.data.clone() {
        Some(data) => {
            let row = ScheduleRow { name: write.name.clone(), version: version + 1, data };
            schedules.insert(write.name.clone(), row);
        }
        None => {
            schedules.remove(&write.name);
        }
    }
    Swap::Done
}
