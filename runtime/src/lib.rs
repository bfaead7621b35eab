//! Work-stealing groups of threads and tasks that take one turn at a time.

pub mod completion;
mod failure;
mod sync;
pub mod time;

pub use failure::Failure;
