//! Numbers and times as cells of a row.

use rusqlite::types::Value;
use turnwheel_engine::Time;

/// A number as the file keeps it: what is beyond its numbers becomes the largest that it can hold.
pub(super) fn number(number: usize) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// A time as the file keeps it: what is beyond its numbers becomes the latest that it can hold.
pub(super) fn moment(time: Time) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}
