//! Exit codes and the message that goes with each.

use std::process::ExitCode;

/// It was tried and failed.
pub(crate) const FAILED: u8 = 1;

/// The command line asks for something that cannot be; `clap` uses the same code.
pub(crate) const WRONG_USAGE: u8 = 2;

/// Interrupted: 128 and the number of the interrupt signal, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;

/// Why the command ends without success.
#[derive(Debug)]
pub(crate) struct Exit {
    /// The exit code.
    pub(crate) code: u8,
    /// What happened and to what.
    pub(crate) message: String,
    /// What the user can do about it; empty if nothing.
    pub(crate) advice: &'static str,
}

impl Exit {
    /// Prints the message to standard error and returns the code.
    pub(crate) fn report(self) -> ExitCode {
        eprintln!("turnwheel: {}", self.message);
        if !self.advice.is_empty() {
            eprintln!("  {}", self.advice);
        }
        self.into()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code)
    }
}
