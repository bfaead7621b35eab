//! Numbers of plans that have ended, by the minute.

use rusqlite::{params, Connection, Transaction};
use turnwheel_engine::limits::TALLY_KEPT;
use turnwheel_engine::store::{Tallies, Tally};
use turnwheel_engine::{PlanResult, Time};

use crate::cell::{moment, named};

/// Stands for the duration of a plan that never began.
const NEVER: i64 = -1;

/// Adds what a batch has noted, and removes what is older than is kept.
pub(super) fn write(transaction: &Transaction<'_>, tallies: Tallies) -> rusqlite::Result<()> {
    let tallies = tallies.into_rows();
    let Some(newest) = tallies.iter().map(|tally| tally.minute).max() else { return Ok(()) };
    let write = "INSERT INTO turnwheel_tallies VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT DO UPDATE SET plans = plans + excluded.plans";
    for tally in tallies {
        transaction.prepare_cached(write)?.execute(params![
            moment(tally.minute),
            tally.name,
            tally.result.name(),
            tally.took.map_or(NEVER, |took| took as i64),
            tally.plans,
        ])?;
    }
    let kept_us = u64::try_from(TALLY_KEPT.as_micros()).unwrap_or(u64::MAX);
    let oldest = Time(newest.0.saturating_sub(kept_us));
    let remove = "DELETE FROM turnwheel_tallies WHERE minute < ?1";
    transaction.prepare_cached(remove)?.execute([moment(oldest)])?;
    Ok(())
}

/// The numbers of the minutes since a time.
pub(super) fn since(connection: &Connection, from: Time) -> rusqlite::Result<Vec<Tally>> {
    let read = "SELECT minute, name, result, took, plans FROM turnwheel_tallies
        WHERE minute >= ?1";
    let mut read = connection.prepare_cached(read)?;
    let rows = read.query_map([moment(Tally::minute_of(from))], |row| {
        let took: i64 = row.get(3)?;
        Ok(Tally {
            minute: Time(row.get(0)?),
            name: row.get(1)?,
            result: named(row, 2, PlanResult::from_name)?,
            took: usize::try_from(took).ok(),
            plans: row.get(4)?,
        })
    })?;
    rows.collect()
}
