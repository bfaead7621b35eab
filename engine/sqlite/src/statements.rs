//! The statements of a commit: entries with what they take, rows, removals.

use rusqlite::{params, CachedStatement, OptionalExtension, Transaction};

use turnwheel_engine::store::{Append, Seq, Verdict};
use turnwheel_engine::PlanId;

use crate::counts::Counts;
use crate::rows::{forget_labels, Listed};
use crate::{states, values};

/// State that other writers may have changed: whether this one is refused, the version of the
/// worlds, and the newest place that is taken. The newest entries may have been removed: places up
/// to the mark of a writer, and up to the newest entry that was removed, are never taken again.
pub(super) const NOW: &str = "SELECT (SELECT value FROM meta WHERE name = 'fence'),
    (SELECT value FROM meta WHERE name = 'worlds'),
    max(coalesce((SELECT max(seq) FROM journal), 0),
        coalesce((SELECT value FROM meta WHERE name = 'removed'), 0),
        (SELECT value FROM meta WHERE name = 'projected'),
        coalesce((SELECT max(projected) FROM turnwheel_marks), 0))";

/// Removes a stopped plan if its newest entry is this one.
pub(super) fn remove(
    transaction: &Transaction<'_>,
    plan: PlanId,
    head: Seq,
    counts: &mut Counts,
) -> rusqlite::Result<bool> {
    let remove = "DELETE FROM plans WHERE id = ?1 AND head = ?2 AND state = 'stopped'
        RETURNING state, result, waits, labels";
    let mut remove = transaction.prepare_cached(remove)?;
    let key = params![plan.to_bytes(), head];
    let Some(gone) = remove.query_row(key, Listed::of).optional()? else { return Ok(false) };
    let highest = "INSERT INTO meta (name, value) VALUES ('removed', ?1)
        ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)";
    transaction.prepare_cached(highest)?.execute([head])?;
    counts.add(gone.kind, -1);
    forget_labels(transaction, plan, &gone.labels)?;
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

/// The statement that writes an entry. It is prepared once for each batch: a look into the cache of
/// statements copies the text.
pub(super) fn entry_writer<'a>(
    transaction: &'a Transaction<'_>,
) -> rusqlite::Result<CachedStatement<'a>> {
    transaction
        .prepare_cached("INSERT INTO journal (seq, plan, prev, records) VALUES (?1, ?2, ?3, ?4)")
}

pub(super) fn write_append(
    transaction: &Transaction<'_>,
    writer: &mut CachedStatement<'_>,
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
    writer.execute(params![
        seq,
        append.plan.to_bytes(),
        append.prev,
        values::keep(transaction, append.plan, &append.records)?
    ])?;
    *last = seq;
    Ok(Verdict::Written(seq))
}
