//! The activation of each key, or its waiting messages: a table for each type.

mod directories;
mod ending;
mod last_use;
mod overview;
mod stats;
mod table;
mod typed;

pub(crate) use directories::{Directories, Handle};
pub(crate) use last_use::{age_ns, begun_at, LastUse};
pub(crate) use overview::Listed;
pub use overview::{EntityLook, EntityState, EntityType, LookError};
pub(crate) use stats::Counters;
pub use stats::EntityStats;
pub(crate) use table::{Locked, Table};
pub(crate) use typed::{
    name_of, not_owner, Active, Directory, Entry, Failures, Inactive, Leaving, Queue, Refusal,
};
