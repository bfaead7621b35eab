//! Numbers of plans by state, result and reason for waiting.
//!
//! Rows of plans change the numbers. A transaction sums the changes up and writes each number once:
//! a batch of rows has a handful of kinds.

use rusqlite::{params, Connection, Row, Transaction};
use turnwheel_engine::store::{Count, PlanRow};
use turnwheel_engine::{PlanResult, PlanState, Waiting};

use crate::cell::named;

/// The numbers of all plans.
pub(super) fn all(connection: &Connection) -> rusqlite::Result<Vec<Count>> {
    let sql = "SELECT state, result, waits, plans FROM counts WHERE plans > 0";
    let mut read = connection.prepare_cached(sql)?;
    let counts = read.query_map([], count)?;
    counts.collect()
}

/// A number and what it counts, from four columns.
pub(super) fn count(row: &Row<'_>) -> rusqlite::Result<Count> {
    Ok(Count {
        state: named(row, 0, PlanState::from_name)?,
        result: named(row, 1, PlanResult::from_name)?,
        waits: named(row, 2, Waiting::from_name)?,
        plans: row.get(3)?,
    })
}

/// The kind of a plan, by which plans are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) state: PlanState,
    result: PlanResult,
    waits: Waiting,
}

impl Kind {
    pub(super) fn of(row: &PlanRow) -> Self {
        Self { state: row.state, result: row.result, waits: row.waits }
    }

    /// That of a stored row, from its first three columns.
    pub(super) fn stored(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            state: named(row, 0, PlanState::from_name)?,
            result: named(row, 1, PlanResult::from_name)?,
            waits: named(row, 2, Waiting::from_name)?,
        })
    }
}

/// Changes that a transaction has made so far.
#[derive(Debug, Default)]
pub(super) struct Counts(Vec<(Kind, i64)>);

impl Counts {
    pub(super) fn add(&mut self, kind: Kind, plans: i64) {
        match self.0.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += plans,
            None => self.0.push((kind, plans)),
        }
    }

    /// Writes the changes: the last thing that a transaction does.
    pub(super) fn write(self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let write = "INSERT INTO counts VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT DO UPDATE SET plans = plans + excluded.plans";
        let changed = self.0.into_iter().filter(|(_, plans)| *plans != 0);
        for (Kind { state, result, waits }, plans) in changed {
            let names = params![state.name(), result.name(), waits.name(), plans];
            transaction.prepare_cached(write)?.execute(names)?;
        }
        Ok(())
    }
}
