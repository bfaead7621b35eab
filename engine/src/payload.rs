//! Inputs, outputs and events as they are stored: JSON text.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::PayloadError;
use crate::finite::is_finite;
use crate::limits::PAYLOAD_BYTES_MAX;

const NULL: &str = "null";

/// A buffer that has grown beyond this is not kept.
const BUFFER_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// The place where values become text: the text that is kept is allocated once, in its size.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A JSON text. Clones share it. A `null` is not allocated: most steps begin with one.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Payload(Option<Arc<str>>);

impl Payload {
    /// The text of `null`.
    pub const fn null() -> Self {
        Self(None)
    }

    fn from_text(text: &str) -> Self {
        Self((text != NULL).then(|| Arc::from(text)))
    }

    /// Expresses a value.
    ///
    /// # Errors
    ///
    /// It cannot be written as JSON, as NaN and infinite floats cannot, or its text is longer than
    /// [`PAYLOAD_BYTES_MAX`](crate::limits::PAYLOAD_BYTES_MAX).
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, PayloadError> {
        // A value that expresses others while it is expressed finds an empty buffer there.
        let mut buffer = BUFFER.take();
        buffer.clear();
        let payload = Self::express(value, &mut buffer);
        if buffer.capacity() <= BUFFER_BYTES_MAX {
            BUFFER.set(buffer);
        }
        payload
    }

    fn express<T: Serialize + ?Sized>(
        value: &T,
        buffer: &mut Vec<u8>,
    ) -> Result<Self, PayloadError> {
        serde_json::to_writer(&mut *buffer, value).map_err(PayloadError::NotSerializable)?;
        let text = std::str::from_utf8(buffer).expect("JSON is text");
        if text.len() > PAYLOAD_BYTES_MAX {
            return Err(PayloadError::TooLong { bytes: text.len() });
        }
        if text.contains(NULL) && !is_finite(value) {
            return Err(PayloadError::NotFinite);
        }
        Ok(Self::from_text(text))
    }

    /// Expresses a value around one that has passed the limit already.
    pub(crate) fn enclosing<T: Serialize>(value: &T) -> Self {
        serde_json::to_string(value).map_or_else(|_| Self::null(), |text| Self::from_text(&text))
    }

    /// Takes a text that is already JSON.
    ///
    /// # Errors
    ///
    /// It is not JSON, or too long.
    pub fn from_json(text: &str) -> Result<Self, PayloadError> {
        serde_json::from_str::<&serde_json::value::RawValue>(text)
            .map_err(PayloadError::Malformed)?;
        if text.len() > PAYLOAD_BYTES_MAX {
            return Err(PayloadError::TooLong { bytes: text.len() });
        }
        Ok(Self::from_text(text))
    }

    /// Understands it as a value of a type.
    ///
    /// # Errors
    ///
    /// The text does not describe such a value; the message says where, and repeats nothing of the text: it may
    /// be something that is [masked](crate::Action::present) where people look.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, PayloadError> {
        serde_json::from_str(self.as_str())
            .map_err(|error| PayloadError::Malformed(without_value(&error)))
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or(NULL)
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.0.is_none()
    }
}

/// The error of a text, without the invalid value.
fn without_value(error: &serde_json::Error) -> serde_json::Error {
    let text = error.to_string();
    let is_about_value = ["invalid type: ", "invalid value: ", "unknown variant "];
    let expected = text.find(", expected");
    let short = match (text.find(['"', '`']), expected) {
        (Some(from), Some(to))
            if from < to && is_about_value.iter().any(|it| text.starts_with(it)) =>
        {
            // A value may hold the words that come after it.
            let to = text.rfind(", expected").unwrap_or(to);
            format!("{}{}", text[..from].trim_end(), &text[to..])
        }
        _ => text,
    };
    Error::custom(short)
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self::from_text(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_is_wrong_and_where_and_not_which_value_it_is() {
        #[derive(Debug, Deserialize)]
        enum Card {
            Blue,
        }
        let read = |text: &str| {
            let payload = Payload::from_json(text).expect("it is JSON");
            [
                payload.read::<u64>().map(drop),
                payload.read::<Vec<String>>().map(drop),
                payload.read::<Card>().map(|Card::Blue| ()),
            ]
            .map(|outcome| outcome.unwrap_err().to_string())
        };
        for text in
            [r#""4111 1111, expected `nothing`""#, r#"["x", 4111]"#, "-4111", r#"{"a":4111}"#]
        {
            for message in read(text) {
                assert!(!message.contains("4111"), "{text}: {message}");
                assert!(message.contains("expected") && message.contains("line 1"), "{message}");
            }
        }
        let [message, ..] = read(r#""secret""#);
        let expected =
            "cannot be understood: invalid type: string, expected u64 at line 1 column 8";
        assert_eq!(message, expected);
    }
}
