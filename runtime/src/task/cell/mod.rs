//! The memory of a task: header and state, the rarely used part, the reference count.

pub(super) mod extra;
pub(super) mod layout;
pub(super) mod reference;
pub(crate) mod refs;
