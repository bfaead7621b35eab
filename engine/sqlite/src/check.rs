//! Search for damage in a file.

use rusqlite::Connection;
use turnwheel_engine::StoreError;

use crate::error::failure;

/// Problems of a damaged file that are told.
const PROBLEMS: usize = 10;

/// Problems that SQLite finds in a file.
pub(super) fn quick_check(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let problems = || -> rusqlite::Result<Vec<String>> {
        let mut check = connection.prepare(&format!("PRAGMA quick_check({PROBLEMS})"))?;
        let problems = check.query_map([], |row| row.get(0))?;
        problems.collect()
    };
    match problems() {
        Ok(problems) if problems == ["ok"] => Ok(Vec::new()),
        // Damage may also be what it stumbles over.
        Err(error) if matches!(failure(&error), StoreError::Corrupt(_)) => {
            Ok(vec![error.to_string()])
        }
        problems => problems,
    }
}
