//! The statements of a commit: entries with what they take, rows, removals.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rusqlite::{params, OptionalExtension, Transaction};

use turnwheel_engine::store::{Append, PlanRow, Seq, Verdict};
use turnwheel_engine::PlanId;

use crate::cell::moment;
use crate::{states, values};

/// Removes a stopped plan if its newest entry is this one.
pub(super) fn remove(
    transaction: &Transaction<'_>,
    plan: PlanId,
    head: Seq,
) -> rusqlite::Result<bool> {
    let remove = "DELETE FROM plans WHERE id = ?1 AND head = ?2 AND state = 'stopped'";
    let mut remove = transaction.prepare_cached(remove)?;
    if remove.execute(params![plan.to_bytes(), head])? == 0 {
        return Ok(false);
    }
    let mut entry =
        transaction.prepare_cached("DELETE FROM journal WHERE seq = ?1 RETURNING prev")?;
    let mut seq = Some(head);
    while let Some(at) = seq {
        seq = entry.query_row([at], |row| row.get(0)).optional()?;
    }
    transaction.prepare_cached("DELETE FROM keys WHERE plan = ?1")?.execute([plan.to_bytes()])?;
    let snapshots = "DELETE FROM turnwheel_snapshots WHERE plan = ?1";
    transaction.prepare_cached(snapshots)?.execute([plan.to_bytes()])?;
    let works = "DELETE FROM turnwheel_works WHERE plan = ?1";
    transaction.prepare_cached(works)?.execute([plan.to_bytes()])?;
    values::remove(transaction, plan)?;
    states::forget(transaction, plan)?;
    Ok(true)
}

/// Takes and gives back the locks of an entry; the verdict if one is taken.
fn lock(transaction: &Transaction<'_>, append: &Append) -> rusqlite::Result<Option<Verdict>> {
    let plan = append.plan.to_bytes();
    for name in &append.take {
        let mut read = transaction.prepare_cached("SELECT plan FROM locks WHERE name = ?1")?;
        let holder: Option<[u8; 16]> = read.query_row([name], |row| row.get(0)).optional()?;
        if let Some(holder) = holder.filter(|holder| *holder != plan) {
            let holder = PlanId::from_bytes(holder);
            return Ok(Some(Verdict::LockTaken { name: name.clone(), holder }));
        }
    }
    for name in &append.take {
        let write = "INSERT OR REPLACE INTO locks (name, plan) VALUES (?1, ?2)";
        transaction.prepare_cached(write)?.execute(params![name, plan])?;
    }
    append.release.iter().try_for_each(|name| free(transaction, name, append.plan))?;
    Ok(None)
}

/// A lock is free, if it is of this plan.
pub(super) fn free(
    transaction: &Transaction<'_>,
    name: &str,
    plan: PlanId,
) -> rusqlite::Result<()> {
    let write = "DELETE FROM locks WHERE name = ?1 AND plan = ?2";
    transaction.prepare_cached(write)?.execute(params![name, plan.to_bytes()]).map(|_| ())
}

/// Keeps which plans the plan of an entry waits for.
fn follow(transaction: &Transaction<'_>, append: &Append) -> rusqlite::Result<()> {
    let plan = append.plan.to_bytes();
    for before in &append.follow {
        let write = "INSERT OR IGNORE INTO turnwheel_followers (plan, follower) VALUES (?1, ?2)";
        transaction.prepare_cached(write)?.execute(params![before.to_bytes(), plan])?;
    }
    for before in &append.unfollow {
        let write = "DELETE FROM turnwheel_followers WHERE plan = ?1 AND follower = ?2";
        transaction.prepare_cached(write)?.execute(params![before.to_bytes(), plan])?;
    }
    Ok(())
}

pub(super) fn write_append(
    transaction: &Transaction<'_>,
    append: &Append,
    last: &mut Seq,
) -> rusqlite::Result<Verdict> {
    if let Some(key) = &append.key {
        let mut read = transaction.prepare_cached("SELECT plan FROM keys WHERE key = ?1")?;
        let holder: Option<[u8; 16]> = read.query_row([key], |row| row.get(0)).optional()?;
        if let Some(holder) = holder {
            return Ok(Verdict::KeyTaken(PlanId::from_bytes(holder)));
        }
    }
    if let Some(taken) = lock(transaction, append)? {
        return Ok(taken);
    }
    if let Some(key) = &append.key {
        let write = "INSERT INTO keys (key, plan) VALUES (?1, ?2)";
        transaction.prepare_cached(write)?.execute(params![key, append.plan.to_bytes()])?;
    }
    follow(transaction, append)?;
    let seq = *last + 1;
    let write = "INSERT INTO journal (seq, plan, prev, records) VALUES (?1, ?2, ?3, ?4)";
    transaction.prepare_cached(write)?.execute(params![
        seq,
        append.plan.to_bytes(),
        append.prev,
        values::keep(transaction, append.plan, &append.records)?
    ])?;
    *last = seq;
    Ok(Verdict::Written(seq))
}

/// Whether a plan has a row.
pub(super) fn has_row(transaction: &Transaction<'_>, plan: PlanId) -> rusqlite::Result<bool> {
    let read = "SELECT EXISTS (SELECT 1 FROM plans WHERE id = ?1)";
    transaction.prepare_cached(read)?.query_row([plan.to_bytes()], |read| read.get(0))
}

pub(super) fn write_row(transaction: &Transaction<'_>, row: &PlanRow) -> rusqlite::Result<()> {
    if let Some((seq, bytes)) = &row.snapshot {
        let write =
            "INSERT OR REPLACE INTO turnwheel_snapshots (plan, seq, bytes) VALUES (?1, ?2, ?3)";
        let bytes = values::keep(transaction, row.id, bytes)?;
        transaction.prepare_cached(write)?.execute(params![row.id.to_bytes(), seq, bytes])?;
    }
    let write =
        "INSERT INTO plans (id, head, state, result, label, created_at, started_at, ended_at,
             wakes_at, is_busy, caller_plan, caller_step, waits_for, action, by, labels, waits)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
         ON CONFLICT (id) DO UPDATE SET head = excluded.head, state = excluded.state,
             result = excluded.result, label = excluded.label, started_at = excluded.started_at,
             ended_at = excluded.ended_at, wakes_at = excluded.wakes_at, is_busy = excluded.is_busy,
             waits_for = excluded.waits_for, labels = excluded.labels, waits = excluded.waits";
    transaction.prepare_cached(write)?.execute(params![
        row.id.to_bytes(),
        row.head,
        row.state.name(),
        row.result.name(),
        row.label,
        moment(row.created_at),
        row.started_at.map(moment),
        row.ended_at.map(moment),
        row.wakes_at.map(moment),
        row.is_busy,
        row.caller.map(|(plan, _)| plan.to_bytes()),
        row.caller.map(|(_, step)| step.0),
        row.waits_for,
        row.action,
        row.by,
        labels(&row.labels),
        row.waits.name(),
    ])?;
    Ok(())
}

/// Labels as the file keeps them: an object of JSON.
fn labels(labels: &BTreeMap<String, String>) -> Cow<'static, str> {
    if labels.is_empty() {
        return Cow::Borrowed("{}");
    }
    Cow::Owned(serde_json::to_string(labels).expect("texts are JSON"))
}
