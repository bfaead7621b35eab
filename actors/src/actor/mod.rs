//! Actors: the trait, the handlers of its messages, its context, its address, and the state of its
//! task.

pub(crate) mod address;
pub(crate) mod cell;
pub(crate) mod children;
pub(crate) mod context;
pub(crate) mod drain;
pub mod handler;
mod lifecycle;
pub(crate) mod restart;
pub(crate) mod spawn;

pub use lifecycle::{Actor, Directive, Exit};
