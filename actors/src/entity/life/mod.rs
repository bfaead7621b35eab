//! The life of one activation: its begin and end, idleness, and whether it is still its key's.

mod collector;
mod fencing;
mod hooks;
mod stuck;

pub use collector::Collect;
pub(crate) use collector::Collector;
pub use fencing::OnConflict;
pub(crate) use fencing::{Activation, Fencing};
pub use hooks::{CreateContext, EntityContext};
pub(crate) use hooks::{EntityHooks, HELD_NS};
pub(crate) use stuck::Suspects;
