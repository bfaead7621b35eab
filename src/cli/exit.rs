//! Exit codes and their messages.

use std::borrow::Cow;
use std::fmt;
use std::process::ExitCode;

use turnwheel::engine::{BuildError, PlanError, ScheduleError, StoreError};

use super::paint::tell;

/// Success; also if the reader of the output stops early.
pub(crate) const DONE: u8 = 0;

/// It was tried and failed.
pub(crate) const FAILED: u8 = 1;

/// Invalid arguments or configuration; `clap` uses the same code.
pub(crate) const WRONG_USAGE: u8 = 2;

/// There is no such store, plan, step or schedule.
pub(crate) const NOT_FOUND: u8 = 3;

/// Another process has the store, and has no server.
pub(crate) const IN_USE: u8 = 4;

/// Nothing fits what was said.
pub(crate) const NOTHING: u8 = 5;

/// Terminated: 128 and the number of that signal, likewise.
#[cfg(all(unix, feature = "server"))]
pub(crate) const TERMINATED: u8 = 143;

/// Interrupted: 128 and the number of the interrupt signal, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;

/// The exit codes, as the help shows them.
pub(crate) const CODES: &str = "\
Exit codes:
  0    done
  1    it was tried and failed; the message says what and where
  2    the command line or the configuration asks for something that cannot be
  3    there is no such store, plan, step or schedule
  4    another process has the store and does not serve it
  5    no plan fits what was said (list, and orders for plans)
  130  interrupted (Ctrl-C)
  143  terminated (SIGTERM)";

/// Why the command ends without success.
#[derive(Debug)]
pub(crate) struct Exit {
    /// The exit code.
    pub(crate) code: u8,
    /// The error and its subject.
    pub(crate) message: String,
    /// Advice for the user; may be empty.
    pub(crate) advice: Cow<'static, str>,
}

impl Exit {
    /// Something went wrong.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self::new(FAILED, message)
    }

    /// The command line is wrong.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(WRONG_USAGE, message)
    }

    /// Something that was named is not there.
    pub(crate) fn not_found(message: impl fmt::Display) -> Self {
        Self::new(NOT_FOUND, message)
    }

    pub(crate) fn new(code: u8, message: impl fmt::Display) -> Self {
        Self { code, message: said(&message.to_string()), advice: Cow::Borrowed("") }
    }

    /// Adds advice for the user.
    pub(crate) fn advice(mut self, advice: impl Into<Cow<'static, str>>) -> Self {
        self.advice = advice.into();
        self
    }

    /// Prints the message to standard error and returns the code.
    pub(crate) fn report(self) -> ExitCode {
        if !self.message.is_empty() {
            tell!("turnwheel: {}", self.message);
        }
        if !self.advice.is_empty() {
            tell!("  {}", self.advice);
        }
        self.into()
    }
}

/// The message without what is for programmers: numbers of the system's errors.
fn said(message: &str) -> String {
    let mut said = message.replace(": io: ", ": ");
    while let Some(begin) = said.find(" (os error ") {
        let Some(length) = said[begin..].find(')') else { break };
        said.replace_range(begin..=begin + length, "");
    }
    said
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code)
    }
}

impl From<StoreError> for Exit {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::InUse { .. } => Self::new(IN_USE, error),
            StoreError::Corrupt(_) => Self::failed(error)
                .advice("turnwheel restore makes a store from a backup (turnwheel help restore)"),
            error => Self::failed(error),
        }
    }
}

impl From<BuildError> for Exit {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Store(error) => error.into(),
            error => Self::failed(error),
        }
    }
}

impl From<PlanError> for Exit {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Unknown(_) => {
                Self::not_found(error).advice("turnwheel list shows the plans of the store")
            }
            PlanError::Store(error) => error.into(),
            error => Self::failed(error),
        }
    }
}

impl From<ScheduleError> for Exit {
    fn from(error: ScheduleError) -> Self {
        match error {
            ScheduleError::Unknown(_) => Self::not_found(error)
                .advice("turnwheel schedule list shows the schedules of the store"),
            ScheduleError::Store(error) => error.into(),
            ScheduleError::Pattern { .. }
            | ScheduleError::UnknownZone { .. }
            | ScheduleError::NeedlessZone { .. }
            | ScheduleError::NoPeriod
            | ScheduleError::Name { .. }
            | ScheduleError::NeverFires { .. } => Self::usage(error),
            error => Self::failed(error),
        }
    }
}
