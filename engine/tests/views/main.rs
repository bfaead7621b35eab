//! What is seen of plans, from outside and afterwards.

#[path = "../common/mod.rs"]
mod common;

mod bulk;
mod chunks;
mod hooks;
mod pictures;
mod present;
mod search;
mod stats;
mod traces;
mod watch;
