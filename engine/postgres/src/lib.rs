#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod batch;
mod cell;
mod driver;
mod error;
mod holding;
mod list;
#[cfg(unix)]
mod local;
mod members;
mod reader;
mod reminders;
mod rows;
mod schema;
mod seen;
mod session;
mod settings;
mod store;
mod tls;
mod wait;
mod worlds;
mod writer;

#[cfg(unix)]
pub use local::LocalServer;
pub use store::{Format, PostgresStore};
