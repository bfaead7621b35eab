//! Containers, where there are no process groups: there are none.

use std::marker::PhantomData;
use std::sync::atomic::AtomicBool;

use turnwheel_flow::{Container, IoCall, IoError, IoErrorKind, ProcessResult};

use super::options::IoOptions;

pub(super) struct Engine<'a>(PhantomData<&'a ()>);

pub(super) struct Remover;

fn nothing() -> IoError {
    IoError::new(IoErrorKind::Unsupported, "containers are run on Unix systems only")
}

impl<'a> Engine<'a> {
    pub(super) fn find(_: &'a IoOptions, _: &'a AtomicBool) -> Result<Self, IoError> {
        Err(nothing())
    }
}

impl Remover {
    pub(super) fn begin(_: &Engine<'_>) -> Self {
        Self
    }
}

pub(super) fn run(
    _: &Engine<'_>,
    _: &Container,
    _: &IoCall<'_>,
    _: &Remover,
) -> Result<ProcessResult, IoError> {
    Err(nothing())
}

pub(super) fn detach(
    _: &Engine<'_>,
    _: &Container,
    _: &IoCall<'_>,
    _: &Remover,
) -> Result<(), IoError> {
    Err(nothing())
}
