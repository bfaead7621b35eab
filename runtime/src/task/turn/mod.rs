//! One turn of a task: its rounds, its phases and its end.

pub(crate) mod current;
pub(super) mod leave;
pub(super) mod lifecycle;
pub(super) mod phases;
mod ready;
pub(super) mod run;
mod submitted;
