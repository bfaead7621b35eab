//! The tables, and how those of an older format become those of this one.

use tokio_postgres::types::Type;
use turnwheel_engine::StoreError;

use crate::error::Trouble;
use crate::session::Session;

/// The format of the tables.
pub(crate) const VERSION: u32 = 5;

/// The first two words of the key of the lock that is held while tables are made: «turnwhee» as a
/// number, beside a hash of the schema.
const LOCK: &str = "SELECT pg_advisory_xact_lock(1953853038, hashtext($1))";

/// How to go from each format to the next.
const MIGRATIONS: [&[&str]; VERSION as usize] = [
    &[include_str!("sql/tables_1.sql"), include_str!("sql/functions_1.sql")],
    &[TALLIES],
    &[include_str!("sql/schedules_3.sql")],
    &[include_str!("sql/mail_4.sql")],
    &[include_str!("sql/commits_5.sql")],
];

/// Numbers of plans that have ended.
const TALLIES: &str = include_str!("sql/tallies_2.sql");

/// The beginning of the name of the row that says which cluster has the schema.
const CLUSTER: &str = "cluster ";

/// The format that is there; 0 if there are no tables. A newer one than ours is refused, and a
/// schema of another cluster.
pub(crate) fn found(session: &mut Session) -> Result<u32, Trouble> {
    let schema = session.shared.settings.schema.clone();
    // A query of the catalog: to_regclass answers from a cache, which a wait for the lock does not
    // renew.
    let is_there = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS c
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relname = 'meta')";
    let rows = session.ask(is_there, &[(&schema, Type::TEXT)])?;
    if !rows.first().is_some_and(|row| row.get(0)) {
        return Ok(0);
    }
    let sql = "SELECT value, name FROM tw.meta WHERE name = 'version' OR name LIKE 'cluster %'
        ORDER BY name = 'version' DESC, name";
    let rows = session.ask(&session.shared.sql(sql), &[])?;
    let mut names = rows.iter().filter_map(|row| row.try_get::<_, String>(1).ok());
    let has_version = names.next().is_some_and(|name| name == "version");
    let version = rows.first().filter(|_| has_version);
    let version = version.and_then(|row| row.try_get::<_, i64>(0).ok());
    let Some(version) = version.and_then(|version| u32::try_from(version).ok()) else {
        return Err(Trouble::Refused(StoreError::Failed(format!(
            "the schema {schema} belongs to another program: name another one by schema=NAME in \
             the URL"
        ))));
    };
    if version > VERSION {
        let store = session.name().to_owned();
        return Err(Trouble::Refused(StoreError::TooNew { store, found: version, known: VERSION }));
    }
    let cluster = names.find_map(|name| name.strip_prefix(CLUSTER).map(str::to_owned));
    let wanted = session.shared.settings.cluster.as_deref();
    match cluster.as_deref().filter(|cluster| wanted != Some(cluster)) {
        None => Ok(version),
        Some(cluster) => Err(Trouble::Refused(StoreError::Failed(format!(
            "the schema {schema} belongs to the cluster «{cluster}», and the URL names {}: name \
             another schema by schema=NAME in the URL, or add cluster={cluster} if this process is \
             of that cluster",
            wanted.map_or("none".to_owned(), |wanted| format!("«{wanted}»")),
        )))),
    }
}

/// Says which cluster has the schema, if the URL names one and none has it.
fn claim(session: &mut Session) -> Result<(), Trouble> {
    let Some(cluster) = session.shared.settings.cluster.clone() else { return Ok(()) };
    let schema = session.shared.settings.schema.clone();
    session.run("BEGIN")?;
    let claimed = session.ask(LOCK, &[(&schema, Type::TEXT)]).and_then(|_| found(session));
    let claimed = claimed.and_then(|_| {
        let row = format!("{CLUSTER}{cluster}");
        if !has_name(session, &row)? {
            refuse_beside_live(session, &schema, &cluster)?;
        }
        let sql = session.shared.sql("INSERT INTO tw.meta VALUES ($1, 0) ON CONFLICT DO NOTHING");
        session.ask(&sql, &[(&row, Type::TEXT)])
    });
    end(session, claimed.map(drop))
}

/// Whether the schema has the name already.
fn has_name(session: &mut Session, row: &str) -> Result<bool, Trouble> {
    let sql = session.shared.sql("SELECT FROM tw.meta WHERE name = $1");
    Ok(!session.ask(&sql, &[(&row, Type::TEXT)])?.is_empty())
}

/// Refuses to name a schema that worlds without the name use: their next start, and each command
/// with their URL, would be refused.
fn refuse_beside_live(session: &mut Session, schema: &str, cluster: &str) -> Result<(), Trouble> {
    let sql = session.shared.sql(
        "SELECT (SELECT count(*) FROM tw.leases l JOIN tw.worlds w ON w.number = l.world
                WHERE l.ends > clock_timestamp())
            + (SELECT count(*) FROM tw.holder WHERE ends > clock_timestamp())",
    );
    let rows = session.ask(&sql, &[])?;
    match rows.first().map_or(0, |row| row.get::<_, i64>(0)) {
        0 => Ok(()),
        live => Err(Trouble::Refused(StoreError::Failed(format!(
            "the schema {schema} has no name, and {live} worlds that name none use it: take \
             cluster={cluster} out of the URL, name another schema by schema=NAME, or stop all \
             of them and then start the first one with the name"
        )))),
    }
}

/// Commits what was done, or takes it back.
fn end(session: &mut Session, done: Result<(), Trouble>) -> Result<(), Trouble> {
    if done.is_err() {
        // A lost connection has rolled it back by itself.
        let _rolled_back = session.run("ROLLBACK");
        return done;
    }
    session.run("COMMIT")
}

/// Refuses a schema that has not this format.
pub(crate) fn check(session: &mut Session) -> Result<(), Trouble> {
    let schema = session.shared.settings.schema.clone();
    match found(session)? {
        VERSION => Ok(()),
        0 => Err(Trouble::Refused(StoreError::Failed(format!(
            "the schema {schema} has no tables of Turnwheel: a world makes them when it opens the \
             store, and «turnwheel store migrate» does"
        )))),
        found => Err(Trouble::Refused(StoreError::Failed(format!(
            "the schema {schema} has format {found} and this version works with {VERSION}: \
             «turnwheel store migrate» brings it up to date"
        )))),
    }
}

/// A migration waits for another one, and reads all plans.
const PATIENCE: &str = "SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0";

/// Makes the tables, or brings them up to date. Returns the format that was there.
///
/// One transaction under a lock: of two processes that start together, the second one finds tables.
pub(crate) fn migrate(session: &mut Session) -> Result<u32, Trouble> {
    let before = found(session)?;
    if before != VERSION {
        session.run("BEGIN")?;
        // As long as it takes: others wait for it, and a statement may read all plans.
        session.wait_for_migration(true);
        let migrated = session.run(PATIENCE).and_then(|()| within(session));
        let ended = end(session, migrated);
        session.wait_for_migration(false);
        ended?;
    }
    claim(session)?;
    Ok(before)
}

fn within(session: &mut Session) -> Result<(), Trouble> {
    let schema = session.shared.settings.schema.clone();
    session.ask(LOCK, &[(&schema, Type::TEXT)])?;
    let before = found(session)?;
    let exists = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1";
    if session.ask(exists, &[(&schema, Type::TEXT)])?.is_empty() {
        session.run(&format!("CREATE SCHEMA {schema}"))?;
    }
    for texts in MIGRATIONS.iter().skip(before as usize) {
        for text in *texts {
            let sql = session.shared.sql(text);
            session.run(&sql)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use turnwheel_engine::limits::{TALLY_KEPT, TALLY_TOOK_MS};

    use super::TALLIES;

    #[test]
    fn classes_of_durations_and_the_time_they_are_kept_are_those_of_the_engine() {
        let (_, rest) = TALLIES.split_once("ARRAY[").expect("the limits");
        let (limits, _) = rest.split_once(']').expect("their end");
        let limits: Vec<u64> =
            limits.split(',').map(|limit| limit.trim().parse().expect("a number")).collect();
        assert_eq!(limits, TALLY_TOOK_MS);
        let kept = format!("SELECT {} $$", TALLY_KEPT.as_micros());
        assert!(TALLIES.contains(&kept), "{kept}");
    }
}
