//! Why a measurement did not happen.

use std::io;
use std::path::PathBuf;

/// Why the doctor could not measure something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoctorError {
    /// The directory for the scratch file does not exist, is no directory, or cannot be written.
    #[error("cannot create a scratch file in directory '{}': {source}", directory.display())]
    Directory {
        /// The requested directory.
        directory: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Writing or syncing the scratch file failed after it had been created.
    #[error("cannot {operation} the scratch file '{}': {source}", path.display())]
    Disk {
        /// The operation that failed: append, sync or remove.
        operation: &'static str,
        /// The scratch file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A measuring thread could not be started.
    #[error("cannot start a measuring thread: {0}")]
    Thread(io::Error),
    /// The caller asked to end before the measurement was complete.
    #[error("interrupted")]
    Interrupted,
}
