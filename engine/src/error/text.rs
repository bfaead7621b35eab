//! Texts that are too long to be stored.

use serde::{Deserialize, Serialize};

/// A text that is to be stored is too long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error(
    "the {what} has {bytes} bytes, and {limit} are the limit: use a shorter one, such as its hash"
)]
#[non_exhaustive]
pub struct TextTooLong {
    /// Its name in words.
    pub what: String,
    /// Its number of bytes.
    pub bytes: usize,
    /// The maximum.
    pub limit: usize,
}

impl TextTooLong {
    /// Whether a text may be stored.
    pub(crate) fn check(what: &str, text: &str, limit: usize) -> Result<(), Self> {
        Self::of(what, text.len(), limit)
    }

    /// Whether texts of so many bytes may be stored.
    pub(crate) fn of(what: &str, bytes: usize, limit: usize) -> Result<(), Self> {
        if bytes > limit {
            Err(Self { what: what.to_owned(), bytes, limit })
        } else {
            Ok(())
        }
    }
}

/// A text that is no longer than a limit: its begin, if it is too long, and how long it was.
pub(crate) fn cut(text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let end = format!("… ({} bytes in all)", text.len());
    let mut at = limit.saturating_sub(end.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    format!("{}{end}", &text[..at])
}
