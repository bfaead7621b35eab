//! `compare`: the same patterns on Turnwheel and its peers, side by side.
//!
//! The parent starts one process after the other; each runs all contenders, interleaved, for its
//! share of the repetitions (speed modes are per process). Peers' patterns are written once, in
//! `patterns/`; Turnwheel's by hand, as its user would.

pub(crate) mod child;
mod impls;
mod parent;
pub(crate) mod patterns;
mod peer;
pub(crate) mod plan;
mod rows;
mod samples;
pub(crate) mod trial;

pub(crate) use self::parent::{run, run_beside, Options};
