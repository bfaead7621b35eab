//! Errors of calls outside.

use std::fmt;

/// Why nothing came of a call outside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct IoError {
    /// Kind of the error.
    pub kind: IoErrorKind,
    /// Description and place, for people. It must not contain secrets.
    pub message: String,
}

/// Kind of an error of an outside call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IoErrorKind {
    /// Nobody answered, or not sensibly.
    Communication,
    /// It took longer than its limit.
    TimedOut,
    /// It was ended because nobody waits for it.
    Cancelled,
    /// More came than may.
    TooLarge,
    /// Missing.
    NotFound,
    /// Not allowed here.
    Forbidden,
    /// Data that do not have the shape which the service describes.
    Invalid,
    /// This host cannot do it at all.
    Unsupported,
}

impl IoErrorKind {
    /// Its name, for figures and traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Communication => "communication",
            Self::TimedOut => "timeout",
            Self::Cancelled => "cancelled",
            Self::TooLarge => "too_large",
            Self::NotFound => "not_found",
            Self::Forbidden => "forbidden",
            Self::Invalid => "invalid",
            Self::Unsupported => "unsupported",
        }
    }
}

impl IoError {
    /// An error with a message.
    pub fn new(kind: IoErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string() }
    }
}
