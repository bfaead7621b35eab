//! The worlds in the file.

use rusqlite::{params, Connection, Transaction};

use super::failure;
use super::writer::moment;
use crate::error::StoreError;
use crate::store::{Slots, WorldKind, WorldRow, Worlds, WorldsWrite};
use crate::time::Time;

const VERSION: &str = "SELECT value FROM meta WHERE name = 'worlds'";

/// What the file says of one world.
struct Raw {
    row: WorldRow,
    kind: String,
    slots: Vec<u8>,
}

/// All worlds.
pub(super) fn all(connection: &Connection) -> Result<Worlds, StoreError> {
    let read = || -> rusqlite::Result<(u64, Vec<Raw>)> {
        let version = connection.query_row(VERSION, [], |row| row.get(0))?;
        let sql = "SELECT epoch, name, kind, since, slots, meta FROM worlds ORDER BY epoch";
        let mut read = connection.prepare_cached(sql)?;
        let rows = read.query_map([], |row| {
            let (epoch, name, kind) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let (since, slots, meta) = (Time(row.get(3)?), row.get(4)?, row.get(5)?);
            let known = WorldKind::Client;
            let row = WorldRow { epoch, name, kind: known, since, slots: Slots::default(), meta };
            Ok(Raw { row, kind, slots })
        })?;
        Ok((version, rows.collect::<Result<_, _>>()?))
    };
    let (version, raw) = read().map_err(|error| failure(&error))?;
    let mut rows = Vec::with_capacity(raw.len());
    for Raw { row, kind, slots } in raw {
        let kind = match kind.as_str() {
            "client" => WorldKind::Client,
            "executor" => WorldKind::Executor,
            other => return Err(StoreError::Corrupt(format!("a world is «{other}»"))),
        };
        rows.push(WorldRow { kind, slots: Slots::from_bytes(&slots)?, ..row });
    }
    Ok(Worlds::new(version, rows))
}

/// Writes a change that is known to fit.
pub(super) fn write(transaction: &Transaction<'_>, write: &WorldsWrite) -> rusqlite::Result<()> {
    for epoch in &write.gone {
        transaction.execute("DELETE FROM worlds WHERE epoch = ?1", [epoch])?;
    }
    for row in &write.put {
        let kind = match row.kind {
            WorldKind::Client => "client",
            WorldKind::Executor => "executor",
        };
        transaction.execute(
            "INSERT OR REPLACE INTO worlds (epoch, name, kind, since, slots, meta)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![row.epoch, row.name, kind, moment(row.since), row.slots.to_bytes(), row.meta],
        )?;
    }
    transaction.execute("UPDATE meta SET value = ?1 WHERE name = 'worlds'", [write.from + 1])?;
    Ok(())
}
