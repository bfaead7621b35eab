//! The system of actors: their group, dead letters, names, interceptors, and defaults.

mod builder;
pub(crate) mod dead_letter;
mod handle;
pub(crate) mod id;
pub mod intercept;
pub mod registry;
pub(crate) mod upkeep;

pub use builder::SystemBuilder;
pub(crate) use handle::Shared;
pub use handle::{System, ASK_LIMIT_DEFAULT};
