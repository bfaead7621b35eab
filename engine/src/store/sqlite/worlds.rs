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
    claims: String,
}

/// All worlds.
pub(super) fn all(connection: &Connection) -> Result<Worlds, StoreError> {
    let read = || -> rusqlite::Result<(u64, Vec<Raw>)> {
        let version = connection.query_row(VERSION, [], |row| row.get(0))?;
        let sql = "SELECT epoch, name, kind, since, slots, meta, claims FROM worlds ORDER BY epoch";
        let mut read = connection.prepare_cached(sql)?;
        let rows = read.query_map([], |cells| {
            let (epoch, name, kind) = (cells.get(0)?, cells.get(1)?, cells.get(2)?);
            let (since, slots, meta) = (Time(cells.get(3)?), cells.get(4)?, cells.get(5)?);
            let known = WorldKind::Client;
            let (nothing, none) = (Slots::default(), Vec::new());
            let row =
                WorldRow { epoch, name, kind: known, since, slots: nothing, meta, claims: none };
            Ok(Raw { row, kind, slots, claims: cells.get(6)? })
        })?;
        Ok((version, rows.collect::<Result<_, _>>()?))
    };
    let (version, raw) = read().map_err(|error| failure(&error))?;
    let mut rows = Vec::with_capacity(raw.len());
    for Raw { row, kind, slots, claims } in raw {
        let kind = match kind.as_str() {
            "client" => WorldKind::Client,
            "executor" => WorldKind::Executor,
            other => return Err(StoreError::Corrupt(format!("a world is «{other}»"))),
        };
        let claims = serde_json::from_str(&claims).map_err(|error| {
            StoreError::Corrupt(format!("the claims of world {}: {error}", row.epoch))
        })?;
        rows.push(WorldRow { kind, slots: Slots::from_bytes(&slots)?, claims, ..row });
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
        let claims = serde_json::to_string(&row.claims)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        let (since, slots) = (moment(row.since), row.slots.to_bytes());
        transaction.execute(
            "INSERT OR REPLACE INTO worlds (epoch, name, kind, since, slots, meta, claims)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![row.epoch, row.name, kind, since, slots, row.meta, claims],
        )?;
    }
    transaction.execute("UPDATE meta SET value = ?1 WHERE name = 'worlds'", [write.from + 1])?;
    Ok(())
}
