//! The tables, and how a file of an older version becomes one of this.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension};
use turnwheel_engine::StoreError;

use crate::error::failure;

/// The format of the file: `user_version`.
const VERSION: u32 = 5;

/// How to go from each format to the next.
const MIGRATIONS: [&str; VERSION as usize] = [FIRST, SLOTS, DUE_STATES, NO_TRIGGERS, FIGURES];

const FIRST: &str = "CREATE TABLE journal (
         seq INTEGER PRIMARY KEY,
         plan BLOB NOT NULL,
         prev INTEGER NOT NULL,
         records BLOB NOT NULL
     );
     CREATE TABLE plans (
         id BLOB PRIMARY KEY,
         head INTEGER NOT NULL,
         state TEXT NOT NULL,
         result TEXT NOT NULL,
         label TEXT NOT NULL,
         action TEXT NOT NULL,
         by TEXT NOT NULL,
         labels TEXT NOT NULL,
         created_at INTEGER NOT NULL,
         started_at INTEGER,
         ended_at INTEGER,
         wakes_at INTEGER,
         is_busy INTEGER NOT NULL,
         caller_plan BLOB,
         caller_step INTEGER,
         waits TEXT NOT NULL,
         waits_for TEXT NOT NULL
     ) WITHOUT ROWID;
     CREATE TABLE turnwheel_snapshots (
         plan BLOB PRIMARY KEY,
         seq INTEGER NOT NULL,
         bytes BLOB NOT NULL
     );
     CREATE INDEX plans_busy ON plans (id) WHERE is_busy;
     CREATE INDEX plans_wake ON plans (wakes_at) WHERE wakes_at IS NOT NULL;
     CREATE INDEX plans_state ON plans (state, id);
     CREATE INDEX plans_caller ON plans (caller_plan, id) WHERE caller_plan IS NOT NULL;
     CREATE TABLE labels (
         name TEXT NOT NULL,
         value TEXT NOT NULL,
         plan BLOB NOT NULL,
         PRIMARY KEY (name, value, plan)
     ) WITHOUT ROWID;
     CREATE TRIGGER labels_new AFTER INSERT ON plans WHEN new.labels != '{}' BEGIN
         INSERT INTO labels SELECT key, value, new.id FROM json_each(new.labels);
     END;
     CREATE TRIGGER labels_changed AFTER UPDATE OF labels ON plans WHEN new.labels != old.labels BEGIN
         DELETE FROM labels WHERE plan = old.id
             AND (name, value) IN (SELECT key, value FROM json_each(old.labels));
         INSERT INTO labels SELECT key, value, new.id FROM json_each(new.labels);
     END;
     CREATE TRIGGER labels_gone AFTER DELETE ON plans WHEN old.labels != '{}' BEGIN
         DELETE FROM labels WHERE plan = old.id
             AND (name, value) IN (SELECT key, value FROM json_each(old.labels));
     END;
     CREATE TABLE counts (
         state TEXT NOT NULL,
         result TEXT NOT NULL,
         waits TEXT NOT NULL,
         plans INTEGER NOT NULL,
         PRIMARY KEY (state, result, waits)
     ) WITHOUT ROWID;
     CREATE TRIGGER counts_new AFTER INSERT ON plans BEGIN
         INSERT INTO counts VALUES (new.state, new.result, new.waits, 1)
             ON CONFLICT DO UPDATE SET plans = plans + 1;
     END;
     CREATE TRIGGER counts_changed AFTER UPDATE OF state, result, waits ON plans
         WHEN (new.state, new.result, new.waits) != (old.state, old.result, old.waits) BEGIN
         UPDATE counts SET plans = plans - 1
             WHERE state = old.state AND result = old.result AND waits = old.waits;
         INSERT INTO counts VALUES (new.state, new.result, new.waits, 1)
             ON CONFLICT DO UPDATE SET plans = plans + 1;
     END;
     CREATE TRIGGER counts_gone AFTER DELETE ON plans BEGIN
         UPDATE counts SET plans = plans - 1
             WHERE state = old.state AND result = old.result AND waits = old.waits;
     END;
     CREATE TABLE keys (key TEXT PRIMARY KEY, plan BLOB NOT NULL) WITHOUT ROWID;
     CREATE TABLE schedules (
         name TEXT PRIMARY KEY,
         version INTEGER NOT NULL,
         data BLOB NOT NULL
     ) WITHOUT ROWID;
     CREATE TABLE locks (name TEXT PRIMARY KEY, plan BLOB NOT NULL) WITHOUT ROWID;
     CREATE TABLE turnwheel_followers (
         plan BLOB NOT NULL,
         follower BLOB NOT NULL,
         PRIMARY KEY (plan, follower)
     ) WITHOUT ROWID;
     CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
     INSERT INTO meta VALUES ('epoch', 0), ('projected', 0), ('clean', 1), ('reminder', 0);
     CREATE TABLE states (
         entity TEXT NOT NULL,
         key TEXT NOT NULL,
         bytes BLOB,
         version INTEGER NOT NULL,
         epoch INTEGER NOT NULL,
         PRIMARY KEY (entity, key)
     ) WITHOUT ROWID;
     CREATE TABLE reminders (
         entity TEXT NOT NULL,
         key TEXT NOT NULL,
         name TEXT NOT NULL,
         first_due INTEGER NOT NULL,
         delay INTEGER,
         period INTEGER,
         missed TEXT NOT NULL,
         planned INTEGER NOT NULL,
         due INTEGER NOT NULL,
         failures INTEGER NOT NULL,
         skipped INTEGER NOT NULL,
         revision INTEGER NOT NULL,
         version INTEGER NOT NULL,
         PRIMARY KEY (entity, key, name)
     ) WITHOUT ROWID;
     CREATE INDEX reminders_due ON reminders (due, entity, key, name);
     CREATE INDEX reminders_of ON reminders (entity, key, due, name);
     CREATE TABLE reminder_epochs (
         entity TEXT NOT NULL,
         key TEXT NOT NULL,
         epoch INTEGER NOT NULL,
         PRIMARY KEY (entity, key)
     ) WITHOUT ROWID;
     CREATE TABLE turnwheel_works (
         plan BLOB NOT NULL,
         step INTEGER NOT NULL,
         name TEXT NOT NULL,
         returned TEXT NOT NULL,
         PRIMARY KEY (plan, step, name)
     ) WITHOUT ROWID;
     CREATE INDEX keys_plan ON keys (plan);
     CREATE TABLE worlds (
         epoch INTEGER PRIMARY KEY,
         name TEXT NOT NULL,
         kind TEXT NOT NULL,
         since INTEGER NOT NULL,
         slots BLOB NOT NULL,
         meta TEXT NOT NULL,
         claims TEXT NOT NULL
     );
     INSERT INTO meta VALUES ('worlds', 0);
     CREATE TABLE turnwheel_values (
         plan BLOB NOT NULL,
         id BLOB NOT NULL,
         bytes BLOB NOT NULL,
         PRIMARY KEY (plan, id)
     );";

/// Owners of slots as rows with an epoch, in place of a set of slots for each world; and for each writer
/// how far its entries are in the rows, in place of one place for all. The bits of a set were found by
/// the digits of its bytes: the lower digit has the first four slots. Snapshots of plans are of an older
/// layout, and are made again from the entries.
const SLOTS: &str = "CREATE TABLE turnwheel_slots (
         slot INTEGER PRIMARY KEY,
         owner INTEGER NOT NULL,
         epoch INTEGER NOT NULL
     );
     WITH RECURSIVE every (slot) AS (SELECT 0 UNION ALL SELECT slot + 1 FROM every WHERE slot < 1023)
     INSERT INTO turnwheel_slots SELECT slot, owner, owner > 0 FROM (
         SELECT slot, coalesce((SELECT worlds.epoch FROM worlds WHERE (instr('0123456789ABCDEF',
             substr(hex(substr(worlds.slots, slot / 8 + 1, 1)), 2 - slot % 8 / 4, 1)) - 1) >> slot % 4 & 1
         ), 0) AS owner FROM every
     );
     ALTER TABLE worlds DROP COLUMN slots;
     CREATE TABLE turnwheel_marks (writer INTEGER PRIMARY KEY, projected INTEGER NOT NULL);
     INSERT INTO meta VALUES ('fence', 0);
     DELETE FROM turnwheel_snapshots;";

/// States of entities that are looked at when their time has come.
const DUE_STATES: &str = "ALTER TABLE states ADD COLUMN due INTEGER;
     CREATE INDEX states_due ON states (entity, due, key) WHERE due IS NOT NULL;";

/// The writer of rows writes labels and numbers itself.
const NO_TRIGGERS: &str = "DROP TRIGGER IF EXISTS labels_new;
     DROP TRIGGER IF EXISTS labels_changed;
     DROP TRIGGER IF EXISTS labels_gone;
     DROP TRIGGER IF EXISTS counts_new;
     DROP TRIGGER IF EXISTS counts_changed;
     DROP TRIGGER IF EXISTS counts_gone;";

/// An index over plans that did not end well, and numbers of plans that have ended by the minute.
const FIGURES: &str = "CREATE INDEX plans_faults ON plans (result, id)
         WHERE result NOT IN ('pending', 'success');
     CREATE TABLE turnwheel_tallies (
         minute INTEGER NOT NULL,
         name TEXT NOT NULL,
         result TEXT NOT NULL,
         took INTEGER NOT NULL,
         plans INTEGER NOT NULL,
         PRIMARY KEY (minute, name, result, took)
     ) WITHOUT ROWID;";

/// The names of all tables, indices and triggers of the store.
pub(super) fn objects() -> HashSet<&'static str> {
    let words = MIGRATIONS.iter().flat_map(|migration| migration.split_whitespace());
    let words: Vec<&str> = words.collect();
    let is_object = |kind: &str| matches!(kind, "TABLE" | "INDEX" | "TRIGGER");
    let named = words.windows(3).filter(|it| it[0] == "CREATE" && is_object(it[1]));
    named.map(|it| it[2]).collect()
}

/// The format of a file; 0 if it has no tables. A newer one than ours is refused.
pub(super) fn check(connection: &Connection, store: &str) -> Result<u32, StoreError> {
    let found: u32 = connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(|error| failure(&error))?;
    if found > VERSION {
        return Err(StoreError::TooNew { store: store.to_owned(), found, known: VERSION });
    }
    let own = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'turnwheel_works'";
    let own = connection.query_row(own, [], |_| Ok(())).optional();
    if found > 0 && own.map_err(|error| failure(&error))?.is_none() {
        return Err(StoreError::Failed(format!(
            "{store} is no store: it is a database of another program; take another file"
        )));
    }
    Ok(found)
}

/// Refuses a file that is not of this version, without changing it.
pub(super) fn check_whole(connection: &Connection, store: &str) -> Result<(), StoreError> {
    match check(connection, store)? {
        VERSION => Ok(()),
        0 => Err(StoreError::Failed(format!("{store} is no store: it has no tables of one"))),
        found => Err(StoreError::Failed(format!(
            "{store} has format {found} and this version works with {VERSION}: open it once for \
             writing, which brings it up to date"
        ))),
    }
}

/// Makes or brings up to date the tables of a file.
pub(super) fn prepare(connection: &Connection, store: &str) -> Result<(), StoreError> {
    let found = check(connection, store)?;
    for (from, migration) in MIGRATIONS.iter().enumerate().skip(found as usize) {
        let to = from + 1;
        connection
            .execute_batch(&format!("BEGIN; {migration} PRAGMA user_version = {to}; COMMIT;"))
            .map_err(|error| failure(&error))?;
    }
    Ok(())
}
