//! Runs programs.

use crate::program::Program;
use crate::tasks;

/// A deliberate breach of the contract, which the model must find: the proof that it can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    /// One submission in eight is said to be accepted, and its job is nowhere.
    LosesJobs,
}

/// Runs a program; the answer says how it broke the contract, and is empty if it did not.
#[must_use]
pub fn run(program: &Program, twin: Option<Twin>) -> Vec<String> {
    tasks::run(program, twin)
}
