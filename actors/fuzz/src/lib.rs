//! Random programs over the public API of `turnwheel-runtime` and `turnwheel-actors`.
//!
//! A program is data ([`program`]): a tree of acts that a seed decides ([`generate`]). An interpreter
//! performs it in a simulation, on one thread and in virtual time, and a plain model of the contract
//! watches: what is accepted runs once or is dropped once, in order, one job of a task at a time;
//! timers are never early; each failure is reported once; nothing is left over. A program that
//! breaks the model is made smaller ([`shrink`]) and printed.

#![forbid(unsafe_code)]

pub mod generate;
pub mod kind;
pub mod program;
mod random;
pub mod run;
pub mod shrink;
mod tasks;
mod theme;

pub use random::Random;
