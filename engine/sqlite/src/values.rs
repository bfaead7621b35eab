//! Large values: a row for each in its plan.

use std::borrow::Cow;

use rusqlite::{params, Connection, OptionalExtension, Transaction};
use turnwheel_engine::store::aside::{parts, whole_again};
use turnwheel_engine::{PlanId, StoreError};

use crate::error::failure;

/// Writes the large values of an entry or a snapshot that are not there. What is to be written in
/// its place.
pub(super) fn keep<'a>(
    transaction: &Transaction<'_>,
    plan: PlanId,
    bytes: &'a [u8],
) -> rusqlite::Result<Cow<'a, [u8]>> {
    let Some(parts) = parts(bytes) else { return Ok(Cow::Borrowed(bytes)) };
    let write = "INSERT OR IGNORE INTO turnwheel_values (plan, id, bytes) VALUES (?1, ?2, ?3)";
    let mut write = transaction.prepare_cached(write)?;
    for (id, value) in &parts.values {
        write.execute(params![plan.to_bytes(), id, value])?;
    }
    Ok(Cow::Owned(parts.rest()))
}

/// An entry or a snapshot with its large values.
pub(super) fn whole(
    connection: &Connection,
    plan: PlanId,
    kept: Vec<u8>,
) -> Result<Vec<u8>, StoreError> {
    whole_again(plan, kept, |id| {
        let read = "SELECT bytes FROM turnwheel_values WHERE plan = ?1 AND id = ?2";
        let read = connection.prepare_cached(read);
        let value = read.and_then(|mut read| {
            read.query_row(params![plan.to_bytes(), id], |row| row.get(0)).optional()
        });
        value.map_err(|error| failure(&error))
    })
}

/// Removes those of a plan.
pub(super) fn remove(transaction: &Transaction<'_>, plan: PlanId) -> rusqlite::Result<()> {
    let remove = "DELETE FROM turnwheel_values WHERE plan = ?1";
    transaction.prepare_cached(remove)?.execute([plan.to_bytes()])?;
    Ok(())
}
