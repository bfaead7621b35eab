//! The cases of the second reference: context, identity, options, queues, turns, units of work.

#[path = "../at_rest/mod.rs"]
mod at_rest;

mod context;
mod identity;
mod options;
mod queues;
mod turns;
mod units;
