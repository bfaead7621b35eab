//! Licences, third-party notices and the software bill of materials, from `cargo metadata`.

pub mod licence;
pub mod notices;
pub mod packages;
pub mod sbom;

/// A text for the reader of the terminal.
pub type Failure = Box<dyn std::error::Error>;
