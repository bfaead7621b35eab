//! The only module that names atomics, locks, cells and thread parking.
//!
//! Everything concurrent in this crate imports from here, so that `cfg(turnwheel_loom)` can put the
//! model checker's types under the same code.

#[cfg(not(turnwheel_loom))]
mod std;
#[cfg(not(turnwheel_loom))]
pub(crate) use self::std::*;

#[cfg(turnwheel_loom)]
mod model;
#[cfg(turnwheel_loom)]
pub(crate) use self::model::*;
