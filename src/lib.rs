//! Turnwheel runs one thing at a time per entity and everything else at once.
//!
//! This package is the facade and the binary `turnwheel`. A program that embeds Turnwheel depends on
//! the crate it needs: [`turnwheel-runtime`](runtime) for groups, tasks, timers and completions.
//! `turnwheel-actors` (typed actors, entities) and `turnwheel-engine` (durable workflows) exist as
//! places in the workspace and are empty so far, so they are not re-exported yet.
//!
//! * [`runtime`]: the scheduler.
//! * [`doctor`]: what this machine can do; the numbers behind `turnwheel doctor`.
#![forbid(unsafe_code)]

pub mod doctor;

pub use turnwheel_runtime as runtime;

/// The example of the README, so that it stays true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[derive(Debug)]
pub struct ReadmeExample;
