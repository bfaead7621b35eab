//! The durable workflow engine on `turnwheel-actors`. Nothing is implemented here yet.
//!
//! This crate holds the place of the engine in the workspace: actions, plans, the journal with its
//! stores, recovery and schedules come here.
#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]
