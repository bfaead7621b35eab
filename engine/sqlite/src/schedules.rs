//! Schedules: a small table beside the plans.

use rusqlite::{params, Connection, OptionalExtension, Row, Transaction};
use turnwheel_engine::store::{ScheduleRow, ScheduleWrite, Swap};

/// Makes a change if the schedule is as it was read.
pub(super) fn write(
    transaction: &Transaction<'_>,
    write: &ScheduleWrite,
) -> rusqlite::Result<Swap> {
    let version = "SELECT version FROM schedules WHERE name = ?1";
    let mut read = transaction.prepare_cached(version)?;
    let version: Option<u64> = read.query_row([&write.name], |row| row.get(0)).optional()?;
    let version = version.unwrap_or(0);
    if version != write.from {
        return Ok(Swap::Changed { version });
    }
    match &write.data {
        Some(data) => {
            let put = "INSERT INTO schedules (name, version, data) VALUES (?1, ?2, ?3)
                ON CONFLICT (name) DO UPDATE SET version = excluded.version, data = excluded.data";
            transaction.prepare_cached(put)?.execute(params![write.name, version + 1, data])?;
        }
        None => {
            let remove = "DELETE FROM schedules WHERE name = ?1";
            transaction.prepare_cached(remove)?.execute([&write.name])?;
        }
    }
    Ok(Swap::Done)
}

/// One of them.
pub(super) fn one(connection: &Connection, name: &str) -> rusqlite::Result<Option<ScheduleRow>> {
    let read = "SELECT name, version, data FROM schedules WHERE name = ?1";
    connection.prepare_cached(read)?.query_row([name], row).optional()
}

/// Those after a name.
pub(super) fn page(
    connection: &Connection,
    after: &str,
    limit: usize,
) -> rusqlite::Result<Vec<ScheduleRow>> {
    let read = "SELECT name, version, data FROM schedules WHERE name > ?1 ORDER BY name LIMIT ?2";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut read = connection.prepare_cached(read)?;
    let rows = read.query_map(params![after, limit], row)?;
    rows.collect()
}

fn row(row: &Row<'_>) -> rusqlite::Result<ScheduleRow> {
    Ok(ScheduleRow { name: row.get(0)?, version: row.get(1)?, data: row.get(2)? })
}
