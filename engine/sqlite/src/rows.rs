//! Rows of plans as a commit writes them, with their labels and the numbers that follow from them.
//!
//! No trigger does that: of a table with triggers SQLite keeps a copy of each page that a statement
//! changes, and runs a program for each row.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rusqlite::{params, CachedStatement, OptionalExtension, Row, Transaction};
use turnwheel_engine::store::{PlanRow, Tallies};
use turnwheel_engine::{PlanId, PlanState};

use crate::cell::moment;
use crate::counts::{Counts, Kind};
use crate::values;

/// The columns of a stored row that its change needs.
pub(super) struct Listed {
    pub(super) kind: Kind,
    /// As JSON.
    pub(super) labels: String,
}

impl Listed {
    /// From the columns state, result, waits and labels.
    pub(super) fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { kind: Kind::stored(row)?, labels: row.get(3)? })
    }
}

/// The statements that write rows, prepared once for each batch.
pub(super) struct RowWriter<'a> {
    transaction: &'a Transaction<'a>,
    find: CachedStatement<'a>,
    insert: CachedStatement<'a>,
    update: CachedStatement<'a>,
}

impl<'a> RowWriter<'a> {
    pub(super) fn new(transaction: &'a Transaction<'_>) -> rusqlite::Result<Self> {
        let find = "SELECT state, result, waits, labels FROM plans WHERE id = ?1";
        let insert =
            "INSERT INTO plans (id, head, state, result, label, started_at, ended_at, wakes_at,
                 is_busy, waits_for, waits, created_at, caller_plan, caller_step, action, by,
                 labels)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
        let update = "UPDATE plans SET head = ?2, state = ?3, result = ?4, label = ?5,
                 started_at = ?6, ended_at = ?7, wakes_at = ?8, is_busy = ?9, waits_for = ?10,
                 waits = ?11
             WHERE id = ?1";
        Ok(Self {
            transaction,
            find: transaction.prepare_cached(find)?,
            insert: transaction.prepare_cached(insert)?,
            update: transaction.prepare_cached(update)?,
        })
    }

    /// Writes a row; one that only brings a row up to date is left out if that is gone.
    pub(super) fn write(
        &mut self,
        row: &PlanRow,
        is_refresh: bool,
        (counts, ended): (&mut Counts, &mut Tallies),
    ) -> rusqlite::Result<()> {
        let before = self.find.query_row([row.id.to_bytes()], Listed::of).optional()?;
        if before.is_none() && is_refresh {
            return Ok(());
        }
        if let Some((seq, bytes)) = &row.snapshot {
            let write =
                "INSERT OR REPLACE INTO turnwheel_snapshots (plan, seq, bytes) VALUES (?1, ?2, ?3)";
            let bytes = values::keep(self.transaction, row.id, bytes)?;
            let values = params![row.id.to_bytes(), seq, bytes];
            self.transaction.prepare_cached(write)?.execute(values)?;
        }
        // Rows of a plan that is over are written again, with a snapshot say.
        if before.as_ref().is_none_or(|before| before.kind.state != PlanState::Stopped) {
            ended.add(row);
        }
        match before {
            None => self.insert(row)?,
            Some(before) => {
                self.update(row, &before.labels)?;
                counts.add(before.kind, -1);
            }
        }
        counts.add(Kind::of(row), 1);
        Ok(())
    }

    fn insert(&mut self, row: &PlanRow) -> rusqlite::Result<()> {
        self.insert.execute(params![
            row.id.to_bytes(),
            row.head,
            row.state.name(),
            row.result.name(),
            row.label,
            row.started_at.map(moment),
            row.ended_at.map(moment),
            row.wakes_at.map(moment),
            row.is_busy,
            row.waits_for,
            row.waits.name(),
            moment(row.created_at),
            row.caller.map(|(plan, _)| plan.to_bytes()),
            row.caller.map(|(_, step)| step.0),
            row.action,
            row.by,
            labels(&row.labels),
        ])?;
        add_labels(self.transaction, row)
    }

    fn update(&mut self, row: &PlanRow, labels_before: &str) -> rusqlite::Result<()> {
        self.update.execute(params![
            row.id.to_bytes(),
            row.head,
            row.state.name(),
            row.result.name(),
            row.label,
            row.started_at.map(moment),
            row.ended_at.map(moment),
            row.wakes_at.map(moment),
            row.is_busy,
            row.waits_for,
            row.waits.name(),
        ])?;
        let now = labels(&row.labels);
        if now == labels_before {
            return Ok(());
        }
        let write = "UPDATE plans SET labels = ?2 WHERE id = ?1";
        self.transaction.prepare_cached(write)?.execute(params![row.id.to_bytes(), now])?;
        forget_labels(self.transaction, row.id, labels_before)?;
        add_labels(self.transaction, row)
    }
}

/// Labels as the file keeps them: an object of JSON.
fn labels(labels: &BTreeMap<String, String>) -> Cow<'static, str> {
    if labels.is_empty() {
        return Cow::Borrowed("{}");
    }
    Cow::Owned(serde_json::to_string(labels).expect("texts are JSON"))
}

fn add_labels(transaction: &Transaction<'_>, row: &PlanRow) -> rusqlite::Result<()> {
    for (name, value) in &row.labels {
        let write = "INSERT INTO labels (name, value, plan) VALUES (?1, ?2, ?3)";
        transaction.prepare_cached(write)?.execute(params![name, value, row.id.to_bytes()])?;
    }
    Ok(())
}

/// Removes the labels of a plan, by what its row says.
pub(super) fn forget_labels(
    transaction: &Transaction<'_>,
    plan: PlanId,
    labels: &str,
) -> rusqlite::Result<()> {
    if labels == "{}" {
        return Ok(());
    }
    let write = "DELETE FROM labels WHERE plan = ?1
        AND (name, value) IN (SELECT key, value FROM json_each(?2))";
    transaction.prepare_cached(write)?.execute(params![plan.to_bytes(), labels])?;
    Ok(())
}
