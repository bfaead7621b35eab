//! Schedules: when they launch, what they launch, and what goes wrong.

#[path = "../common/mod.rs"]
mod common;

mod damaged;
mod launches;
mod times;
mod trouble;
