#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod along;
mod ballast;
mod cell;
mod check;
mod counts;
mod error;
mod head;
mod identity;
mod keeper;
mod list;
mod lock;
mod path;
mod reader;
mod room;
mod rows;
mod schedules;
mod schema;
mod statements;
mod states;
mod store;
mod tallies;
mod transact;
mod values;
mod work;
mod worlds;
mod writer;

pub use head::Missing;
/// Types passed to the code of [`Transact::transaction`].
pub use rusqlite;
pub use store::{SqliteCheck, SqliteStore, SqliteSync};
pub use transact::Transact;
