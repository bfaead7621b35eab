//! States and reminders of entities, in the file.

use rusqlite::{params, Connection, OptionalExtension, Row, Transaction};
use turnwheel_actors::entity::{DueRange, MissedTicks, Record, ReminderId, ReminderRow};
use turnwheel_engine::internal::admit;
use turnwheel_engine::store::{Change, StateRow, StateScan, Verdict, Worked, OF_PLAN};
use turnwheel_engine::{PlanId, Time};

const COLUMNS: &str = "entity, key, name, first_due, delay, period, missed, planned, due, failures,
    skipped, revision, version";

/// Makes a change, or says why not.
pub(super) fn change(transaction: &Transaction<'_>, change: &Change) -> rusqlite::Result<Verdict> {
    match change {
        Change::State { entity, key, bytes, due, expected, epoch } => {
            // No row has a version past the greatest number here: it is a conflict then.
            let version = expected.saturating_add(1);
            let due = due.map(|due| number(due.0));
            // Nearly all writes find what they expect: one search of the tree for each.
            let write = match expected {
                0 => {
                    "INSERT INTO states (entity, key, bytes, version, epoch, due)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING"
                }
                _ => {
                    "UPDATE states SET bytes = ?3, version = ?4, epoch = ?5, due = ?6
                     WHERE entity = ?1 AND key = ?2 AND version = ?4 - 1 AND epoch <= ?5"
                }
            };
            let values = params![entity, key, bytes, number(version), number(*epoch), due];
            if transaction.prepare_cached(write)?.execute(values)? == 1 {
                return Ok(Verdict::Changed(version));
            }
            let read = "SELECT version, epoch FROM states WHERE entity = ?1 AND key = ?2";
            let mut read = transaction.prepare_cached(read)?;
            let known = read.query_row([entity, key], |row| Ok((row.get(0)?, row.get(1)?)));
            let known: (u64, u64) = known.optional()?.unwrap_or((0, 0));
            let refused = admit(known, *expected, *epoch).err();
            Ok(refused.unwrap_or(Verdict::Conflict { found: known.0 }))
        }
        Change::StateGone { entity, key } => {
            let remove = "DELETE FROM states WHERE entity = ?1 AND key = ?2";
            transaction.prepare_cached(remove)?.execute([entity, key])?;
            Ok(Verdict::Changed(0))
        }
        Change::Reminder { row, epoch } => {
            if let Some(refused) = refuse(transaction, &row.id, row.version, *epoch)? {
                return Ok(refused);
            }
            upsert(transaction, row).map(Verdict::Changed)
        }
        Change::ReminderGone { id, expected, epoch } => {
            if let Some(refused) = refuse(transaction, id, *expected, *epoch)? {
                return Ok(refused);
            }
            let remove = "DELETE FROM reminders WHERE entity = ?1 AND key = ?2 AND name = ?3";
            transaction.prepare_cached(remove)?.execute([&*id.entity, &*id.key, &*id.name])?;
            Ok(Verdict::Changed(*expected))
        }
        Change::Work(_) | Change::Under { .. } => Ok(Verdict::Worked(Worked::Unsupported)),
    }
}

/// The states that were kept for a plan go with it.
pub(super) fn forget(transaction: &Transaction<'_>, plan: PlanId) -> rusqlite::Result<()> {
    let remove = "DELETE FROM states WHERE entity = ?1 AND key > ?2 AND key < ?3";
    // What comes after the slash of all keys that begin with it is the digit 0.
    let range = params![OF_PLAN, format!("{plan}/"), format!("{plan}0")];
    transaction.prepare_cached(remove)?.execute(range).map(drop)
}

/// Why a reminder may not be written; else the epoch is noted.
fn refuse(
    transaction: &Transaction<'_>,
    id: &ReminderId,
    expected: u64,
    epoch: u64,
) -> rusqlite::Result<Option<Verdict>> {
    let read = "SELECT epoch FROM reminder_epochs WHERE entity = ?1 AND key = ?2";
    let mut read = transaction.prepare_cached(read)?;
    let newest = read.query_row([&*id.entity, &*id.key], |row| row.get(0)).optional()?;
    let read = "SELECT version FROM reminders WHERE entity = ?1 AND key = ?2 AND name = ?3";
    let mut read = transaction.prepare_cached(read)?;
    let names = [&*id.entity, &*id.key, &*id.name];
    let version = read.query_row(names, |row| row.get(0)).optional()?;
    if let Err(refused) = admit((version.unwrap_or(0), newest.unwrap_or(0)), expected, epoch) {
        return Ok(Some(refused));
    }
    // The first epoch needs no row: nearly all entities have no other.
    if epoch > newest.unwrap_or(1) {
        let write = "INSERT INTO reminder_epochs (entity, key, epoch) VALUES (?1, ?2, ?3)
             ON CONFLICT (entity, key) DO UPDATE SET epoch = excluded.epoch";
        let values = params![&*id.entity, &*id.key, number(epoch)];
        transaction.prepare_cached(write)?.execute(values)?;
    }
    Ok(None)
}

fn upsert(transaction: &Transaction<'_>, row: &ReminderRow) -> rusqlite::Result<u64> {
    let next = "UPDATE meta SET value = value + 1 WHERE name = 'reminder' RETURNING value";
    let version: u64 = transaction.prepare_cached(next)?.query_row([], |row| row.get(0))?;
    let write = format!(
        "INSERT OR REPLACE INTO reminders ({COLUMNS})
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
    );
    transaction.prepare_cached(&write)?.execute(params![
        &*row.id.entity,
        &*row.id.key,
        &*row.id.name,
        number(row.first_due_ms),
        row.delay_ms.map(number),
        row.period_ms.map(number),
        missed_name(row.missed),
        number(row.planned_ms),
        number(row.due_ms),
        row.failures,
        number(row.skipped),
        if row.revision == 0 { version } else { row.revision },
        version,
    ])?;
    Ok(version)
}

pub(super) fn state(connection: &Connection, entity: &str, key: &str) -> rusqlite::Result<Record> {
    let read = "SELECT bytes, version FROM states WHERE entity = ?1 AND key = ?2";
    let mut read = connection.prepare_cached(read)?;
    let record = |row: &Row<'_>| Ok(Record { bytes: row.get(0)?, version: row.get(1)? });
    Ok(read.query_row([entity, key], record).optional()?.unwrap_or_default())
}

/// States by name and key, all as of one moment: what one search has read of the tree the next
/// ones find in memory, whatever is written meanwhile.
pub(super) fn states_by_key(
    connection: &Connection,
    of: &[(String, String)],
) -> rusqlite::Result<Vec<Record>> {
    let transaction = connection.unchecked_transaction()?;
    let records = of.iter().map(|(entity, key)| state(&transaction, entity, key));
    let records = records.collect::<rusqlite::Result<Vec<Record>>>()?;
    transaction.commit()?;
    Ok(records)
}

pub(super) fn states_of(
    connection: &Connection,
    entity: &str,
    scan: &StateScan,
    limit: usize,
) -> rusqlite::Result<Vec<StateRow>> {
    let found = |row: &Row<'_>| {
        let record = Record { bytes: row.get(2)?, version: row.get(3)? };
        Ok(StateRow { key: row.get(0)?, due: row.get::<_, Option<u64>>(1)?.map(Time), record })
    };
    let limit = number(limit as u64);
    match scan {
        StateScan::Due(until) => {
            let read = "SELECT key, due, bytes, version FROM states INDEXED BY states_due
                 WHERE entity = ?1 AND due <= ?2 ORDER BY due, key LIMIT ?3";
            let mut read = connection.prepare_cached(read)?;
            let rows = read.query_map(params![entity, number(until.0), limit], found)?;
            rows.collect()
        }
        StateScan::After(key) => {
            let read = "SELECT key, due, bytes, version FROM states
                 WHERE entity = ?1 AND key > ?2 AND bytes IS NOT NULL ORDER BY key LIMIT ?3";
            let mut read = connection.prepare_cached(read)?;
            let rows = read.query_map(params![entity, key, limit], found)?;
            rows.collect()
        }
    }
}

pub(super) fn entities_with_states(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let read = "SELECT DISTINCT entity FROM states WHERE bytes IS NOT NULL";
    let mut read = connection.prepare_cached(read)?;
    let names = read.query_map([], |row| row.get(0))?;
    names.collect()
}

pub(super) fn reminder(
    connection: &Connection,
    id: &ReminderId,
) -> rusqlite::Result<Option<ReminderRow>> {
    let read =
        format!("SELECT {COLUMNS} FROM reminders WHERE entity = ?1 AND key = ?2 AND name = ?3");
    let mut read = connection.prepare_cached(&read)?;
    read.query_row([&*id.entity, &*id.key, &*id.name], row).optional()
}

pub(super) fn reminders_of(
    connection: &Connection,
    entity: &str,
    key: &str,
    limit: usize,
) -> rusqlite::Result<Vec<ReminderRow>> {
    let read = format!(
        "SELECT {COLUMNS} FROM reminders WHERE entity = ?1 AND key = ?2 ORDER BY name LIMIT ?3"
    );
    let mut read = connection.prepare_cached(&read)?;
    let rows = read.query_map(params![entity, key, number(limit as u64)], row)?;
    rows.collect()
}

pub(super) fn reminders_due(
    connection: &Connection,
    range: &DueRange,
) -> rusqlite::Result<Vec<ReminderRow>> {
    let (until, limit) = (number(range.until_ms), number(range.limit as u64));
    if let Some((entity, of)) = &range.of {
        let read = format!(
            "SELECT {COLUMNS} FROM reminders
             WHERE entity = ?1 AND key = ?2 AND due <= ?3 AND (due, name) > (?4, ?5)
             ORDER BY due, name LIMIT ?6"
        );
        let mut read = connection.prepare_cached(&read)?;
        let (due, name) = match &range.after {
            Some((due, id)) => (number(*due), &*id.name),
            None => (-1, ""),
        };
        let values = params![&**entity, &**of, until, due, name, limit];
        let rows = read.query_map(values, row)?;
        return rows.collect();
    }
    let Some((due, id)) = &range.after else {
        let read = format!(
            "SELECT {COLUMNS} FROM reminders WHERE due <= ?1
             ORDER BY due, entity, key, name LIMIT ?2"
        );
        let mut read = connection.prepare_cached(&read)?;
        let rows = read.query_map([until, limit], row)?;
        return rows.collect();
    };
    let read = format!(
        "SELECT {COLUMNS} FROM reminders
         WHERE (due, entity, key, name) > (?1, ?2, ?3, ?4) AND due <= ?5
         ORDER BY due, entity, key, name LIMIT ?6"
    );
    let mut read = connection.prepare_cached(&read)?;
    let values = params![number(*due), &*id.entity, &*id.key, &*id.name, until, limit];
    let rows = read.query_map(values, row)?;
    rows.collect()
}

fn row(row: &Row<'_>) -> rusqlite::Result<ReminderRow> {
    let text = |column| row.get::<_, String>(column);
    let id = ReminderId::new(&text(0)?, &text(1)?, &text(2)?);
    let missed = text(6)?;
    let mut reminder = ReminderRow::new(id);
    reminder.first_due_ms = row.get(3)?;
    reminder.delay_ms = row.get(4)?;
    reminder.period_ms = row.get(5)?;
    reminder.missed = missed_of(&missed).ok_or_else(|| {
        let error = format!("«{missed}» is unknown").into();
        rusqlite::Error::FromSqlConversionFailure(6, rusqlite::types::Type::Text, error)
    })?;
    reminder.planned_ms = row.get(7)?;
    reminder.due_ms = row.get(8)?;
    reminder.failures = row.get(9)?;
    reminder.skipped = row.get(10)?;
    reminder.revision = row.get(11)?;
    reminder.version = row.get(12)?;
    Ok(reminder)
}

/// A number as the file keeps it; what is beyond becomes the greatest.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn missed_name(missed: MissedTicks) -> &'static str {
    match missed {
        MissedTicks::Once => "once",
        MissedTicks::Every => "every",
        _ => "skip",
    }
}

fn missed_of(name: &str) -> Option<MissedTicks> {
    match name {
        "skip" => Some(MissedTicks::Skip),
        "once" => Some(MissedTicks::Once),
        "every" => Some(MissedTicks::Every),
        _ => None,
    }
}
