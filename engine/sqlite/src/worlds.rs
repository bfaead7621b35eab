//! The worlds in the file.

use rusqlite::{params, Connection, Transaction};
use turnwheel_engine::store::{Owner, Slots, WorldKind, WorldRow, Worlds, WorldsWrite, SLOTS};
use turnwheel_engine::{StoreError, Time};

use crate::cell::moment;
use crate::error::failure;

const VERSION: &str = "SELECT value FROM meta WHERE name = 'worlds'";

/// A world as a row of the file.
struct Raw {
    row: WorldRow,
    kind: String,
    claims: String,
}

/// All worlds.
pub(super) fn all(connection: &Connection) -> Result<Worlds, StoreError> {
    let read = || -> rusqlite::Result<(u64, Vec<Raw>, Vec<Owner>)> {
        let version = connection.query_row(VERSION, [], |row| row.get(0))?;
        let sql = "SELECT epoch, name, kind, since, meta, claims FROM worlds ORDER BY epoch";
        let mut read = connection.prepare_cached(sql)?;
        let rows = read.query_map([], |cells| {
            let (epoch, name, kind) = (cells.get(0)?, cells.get(1)?, cells.get(2)?);
            let (since, meta, claims) = (Time(cells.get(3)?), cells.get(4)?, cells.get(5)?);
            let known = WorldKind::Client;
            let (nothing, none) = (Slots::default(), Vec::new());
            let row =
                WorldRow { epoch, name, kind: known, since, slots: nothing, meta, claims: none };
            Ok(Raw { row, kind, claims })
        })?;
        let rows = rows.collect::<Result<_, _>>()?;
        let sql = "SELECT owner, epoch FROM turnwheel_slots ORDER BY slot";
        let mut read = connection.prepare_cached(sql)?;
        let owners = read
            .query_map([], |cells| Ok(Owner { world: cells.get(0)?, epoch: cells.get(1)? }))?
            .collect::<Result<_, _>>()?;
        Ok((version, rows, owners))
    };
    let (version, raw, owners) = read().map_err(|error| failure(&error))?;
    if owners.len() != SLOTS {
        return Err(StoreError::Corrupt(format!("it has {} slots of {SLOTS}", owners.len())));
    }
    let mut rows = Vec::with_capacity(raw.len());
    for Raw { row, kind, claims } in raw {
        let kind = match kind.as_str() {
            "client" => WorldKind::Client,
            "executor" => WorldKind::Executor,
            other => return Err(StoreError::Corrupt(format!("a world is «{other}»"))),
        };
        let claims = serde_json::from_str(&claims).map_err(|error| {
            StoreError::Corrupt(format!("the claims of world {}: {error}", row.epoch))
        })?;
        rows.push(WorldRow { kind, claims, ..row });
    }
    Ok(Worlds::new(version, rows, owners))
}

/// Writes a change that is known to fit, and the owners of slots that are others by it.
pub(super) fn write(
    transaction: &Transaction<'_>,
    write: &WorldsWrite,
    before: &Worlds,
    after: &Worlds,
) -> rusqlite::Result<()> {
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
        transaction.execute(
            "INSERT OR REPLACE INTO worlds (epoch, name, kind, since, meta, claims)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![row.epoch, row.name, kind, moment(row.since), row.meta, claims],
        )?;
    }
    write_owners(transaction, before.owners(), after.owners())?;
    transaction.execute("UPDATE meta SET value = ?1 WHERE name = 'worlds'", [write.from + 1])?;
    Ok(())
}

/// Writes the owners that have changed: neighbours with one new owner in one statement.
fn write_owners(
    transaction: &Transaction<'_>,
    before: &[Owner],
    after: &[Owner],
) -> rusqlite::Result<()> {
    let sql =
        "UPDATE turnwheel_slots SET owner = ?1, epoch = epoch + 1 WHERE slot BETWEEN ?2 AND ?3";
    let mut update = transaction.prepare_cached(sql)?;
    let changed = |slot: usize| (before[slot] != after[slot]).then_some(after[slot].world);
    let mut slot = 0;
    while slot < after.len() {
        let first = slot;
        let world = changed(first);
        while slot < after.len() && changed(slot) == world {
            slot += 1;
        }
        if let Some(world) = world {
            update.execute(params![world, first, slot - 1])?;
        }
    }
    Ok(())
}
