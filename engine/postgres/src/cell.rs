//! Values as cells of a row: what PostgreSQL cannot hold is kept in a form that it can.

use std::borrow::Cow;

use sha2::{Digest, Sha256};
use tokio_postgres::types::FromSql;
use tokio_postgres::Row;
use turnwheel_engine::{PlanId, StoreError, Time};
use uuid::Uuid;

/// A number: what is beyond `bigint` becomes its largest.
pub(crate) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The epoch that a writer names. No slot ever has one that is beyond `bigint`.
pub(crate) fn epoch(epoch: u64) -> i64 {
    i64::try_from(epoch).unwrap_or(-1)
}

pub(crate) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(crate) fn moment(time: Time) -> i64 {
    number(time.0)
}

/// Escapes U+0000, which PostgreSQL does not take, and U+0001, which escapes it. The order of texts
/// by their bytes stays the same.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    if text.contains(['\0', '\u{1}']) {
        Cow::Owned(text.replace('\u{1}', "\u{1}\u{2}").replace('\0', "\u{1}\u{1}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The text as it was before [`text`].
pub(crate) fn plain(text: String) -> String {
    if text.contains('\u{1}') {
        let text = text.replace("\u{1}\u{1}", "\0");
        text.replace("\u{1}\u{2}", "\u{1}")
    } else {
        text
    }
}

/// The key of a row for texts of any length.
pub(crate) fn digest(parts: &[&str]) -> Vec<u8> {
    let mut sum = Sha256::new();
    for part in parts {
        sum.update((part.len() as u64).to_le_bytes());
        sum.update(part.as_bytes());
    }
    sum.finalize().to_vec()
}

/// A column of a row.
pub(crate) fn cell<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(|error| damaged(row, column, &error.to_string()))
}

/// A number that no world writes negative.
pub(crate) fn count(row: &Row, column: usize) -> Result<u64, StoreError> {
    let value: i64 = cell(row, column)?;
    u64::try_from(value).map_err(|_| damaged(row, column, &format!("the value {value}")))
}

/// The same, where there may be none.
pub(crate) fn count_if_any(row: &Row, column: usize) -> Result<Option<u64>, StoreError> {
    let value: Option<i64> = cell(row, column)?;
    value.map(|_| count(row, column)).transpose()
}

pub(crate) fn plan(row: &Row, column: usize) -> Result<PlanId, StoreError> {
    Ok(PlanId::new(cell::<Uuid>(row, column)?))
}

pub(crate) fn string(row: &Row, column: usize) -> Result<String, StoreError> {
    Ok(plain(cell(row, column)?))
}

/// A name of ours in a row.
pub(crate) fn named<T>(
    row: &Row,
    column: usize,
    from_name: impl Fn(&str) -> Option<T>,
) -> Result<T, StoreError> {
    let name: &str = cell(row, column)?;
    from_name(name).ok_or_else(|| damaged(row, column, &format!("the value «{name}»")))
}

/// A row says something that this program has never written.
pub(crate) fn damaged(row: &Row, column: usize, what: &str) -> StoreError {
    let name = row.columns().get(column).map_or("?", |column| column.name());
    StoreError::Corrupt(format!(
        "the column {name} of a row has {what}, which no world writes: was it changed by another \
         program? Restore it from a backup"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_as_they_were_and_keep_their_order() {
        let texts =
            ["", "\0", "\0\0", "\0\u{1}", "\0z", "\u{1}", "\u{1}\0", "\u{1}\u{1}", "\u{2}", "a"];
        let kept = texts.map(|each| text(each).into_owned());
        assert!(kept.windows(2).all(|pair| pair[0] < pair[1]), "{kept:?}");
        assert!(kept.iter().all(|each| !each.contains('\0')));
        assert_eq!(kept.map(plain), texts);
    }

    #[test]
    fn digests_of_different_parts_differ() {
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_ne!(digest(&["a"]), digest(&["a", ""]));
    }
}
