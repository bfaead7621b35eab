//! Inputs, outputs and events as they are stored: JSON text.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::PayloadError;
use crate::limits::PAYLOAD_BYTES_MAX;

/// A JSON text. Clones share it.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Arc<str>);

impl Payload {
    /// The text of `null`.
    pub fn null() -> Self {
        Self(Arc::from("null"))
    }

    /// Expresses a value.
    ///
    /// # Errors
    ///
    /// It cannot be written as JSON, or its text is longer than
    /// [`PAYLOAD_BYTES_MAX`](crate::limits::PAYLOAD_BYTES_MAX).
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, PayloadError> {
        let text = serde_json::to_string(value).map_err(PayloadError::NotSerializable)?;
        if text.len() > PAYLOAD_BYTES_MAX {
            return Err(PayloadError::TooLong { bytes: text.len() });
        }
        Ok(Self(text.into()))
    }

    /// Expresses a value around one that has passed the limit already.
    pub(crate) fn enclosing<T: Serialize>(value: &T) -> Self {
        serde_json::to_string(value).map_or_else(|_| Self::null(), |text| Self(text.into()))
    }

    /// Takes a text that is JSON already.
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
        Ok(Self(text.into()))
    }

    /// Understands it as a value of a type.
    ///
    /// # Errors
    ///
    /// The text does not describe such a value; the message says where.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, PayloadError> {
        serde_json::from_str(&self.0).map_err(PayloadError::Malformed)
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        &*self.0 == "null"
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::null()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self(text.into()))
    }
}
