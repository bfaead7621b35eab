//! Errors of SQLite as errors of stores.

use std::fmt;

use rusqlite::{Connection, ErrorCode};
use turnwheel_engine::StoreError;

/// The store's error for an error of SQLite.
pub(crate) fn failure(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(error.to_string()),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt(error.to_string())
        }
        None => match error {
            rusqlite::Error::IntegralValueOutOfRange(column, value) => damaged(*column, &value),
            rusqlite::Error::InvalidColumnType(column, name, _) => damaged(*column, &name),
            rusqlite::Error::FromSqlConversionFailure(column, _, problem) => {
                damaged(*column, &problem)
            }
            other => StoreError::Failed(other.to_string()),
        },
        _ if error.to_string().contains("no such table") => StoreError::Failed(format!(
            "{error}: the file is no store of Turnwheel, or no world has opened it yet"
        )),
        _ => StoreError::Failed(error.to_string()),
    }
}

/// The same, with the file.
pub(crate) fn failure_in(connection: &Connection, error: &rusqlite::Error) -> StoreError {
    let path = connection.path().unwrap_or_default();
    match failure(error) {
        StoreError::Failed(problem) => StoreError::Failed(format!("{path}: {problem}")),
        StoreError::Corrupt(problem) => StoreError::Corrupt(format!("{path}: {problem}")),
        other => other,
    }
}

/// A row says something that this program has never written.
fn damaged(column: usize, what: &dyn fmt::Display) -> StoreError {
    StoreError::Corrupt(format!(
        "column {column} of a row has the value {what}, which no world writes: was the file changed by \
         another program? Restore it from a backup"
    ))
}
