//! The life of one activation: its begin and end, idleness, and whether it is still its key's.

pub(crate) mod collector;
pub(crate) mod hooks;
pub(crate) mod standing;
pub(crate) mod stuck;

pub use hooks::EntityContext;
pub use standing::OnConflict;
