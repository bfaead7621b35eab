//! Numbers and times as cells of a row.

use rusqlite::types::{Type, Value};
use rusqlite::Row;
use turnwheel_engine::Time;

/// A number as the file keeps it: what is beyond its numbers becomes the largest that it can hold.
pub(super) fn number(number: usize) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// A time as the file keeps it: what is beyond its numbers becomes the latest that it can hold.
pub(super) fn moment(time: Time) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

/// A column that names one of ours.
pub(super) fn named<T>(
    row: &Row<'_>,
    column: usize,
    from_name: fn(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let name = row.get_ref(column)?.as_str()?;
    from_name(name).ok_or_else(|| unfit(column, format!("«{name}» is unknown")))
}

/// The error of a cell that is none of ours.
pub(super) fn unfit(column: usize, problem: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, problem.into())
}
