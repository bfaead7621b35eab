//! Commands, where there are no process groups: there are none.

use std::sync::atomic::AtomicBool;

use turnwheel_flow::{IoCall, IoError, IoErrorKind, Process, ProcessResult, ScriptLanguage};

use super::options::IoOptions;

fn nothing() -> IoError {
    IoError::new(IoErrorKind::Unsupported, "commands are run on Unix systems only")
}

pub(super) fn run(
    _: &IoOptions,
    _: &Process,
    _: &IoCall<'_>,
    _: &AtomicBool,
) -> Result<ProcessResult, IoError> {
    Err(nothing())
}

pub(super) fn detach(_: &IoOptions, _: &Process, _: &IoCall<'_>) -> Result<(), IoError> {
    Err(nothing())
}

pub(super) fn interpreter(_: ScriptLanguage) -> Result<std::path::PathBuf, IoError> {
    Err(nothing())
}
