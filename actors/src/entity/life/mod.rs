//! The life of one activation: its begin and end, idleness, and whether it is still its key's.

pub(crate) mod collect;
pub(crate) mod collector;
pub(crate) mod fencing;
pub(crate) mod hooks;
pub(crate) mod stuck;

pub use collect::Collect;
pub use fencing::OnConflict;
pub use hooks::{CreateContext, EntityContext};
