//! The tables, and how those of an older format become those of this one.

use tokio_postgres::types::Type;
use turnwheel_engine::StoreError;

use crate::error::Trouble;
use crate::session::Session;

/// The format of the tables.
pub(crate) const VERSION: u32 = 1;

/// The first two words of the key of the lock that is held while tables are made: «turnwhee» as a
/// number, beside a hash of the schema.
const LOCK: &str = "SELECT pg_advisory_xact_lock(1953853038, hashtext($1))";

/// How to go from each format to the next.
const MIGRATIONS: [&[&str]; VERSION as usize] =
    [&[include_str!("sql/tables_1.sql"), include_str!("sql/functions_1.sql")]];

/// The format that is there; 0 if there are no tables. A newer one than ours is refused.
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
    let sql = session.shared.sql("SELECT value FROM tw.meta WHERE name = 'version'");
    let rows = session.ask(&sql, &[])?;
    let version = rows.first().and_then(|row| row.try_get::<_, i64>(0).ok());
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
    Ok(version)
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

/// Makes the tables, or brings them up to date. Returns the format that was there.
///
/// One transaction under a lock: of two processes that start together, the second one finds tables.
pub(crate) fn migrate(session: &mut Session) -> Result<u32, Trouble> {
    let before = found(session)?;
    if before == VERSION {
        return Ok(before);
    }
    session.run("BEGIN")?;
    let migrated = within(session);
    match migrated {
        Ok(()) => session.run("COMMIT")?,
        Err(trouble) => {
            // A lost connection has rolled it back by itself.
            let _rolled_back = session.run("ROLLBACK");
            return Err(trouble);
        }
    }
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
