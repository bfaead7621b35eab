//! Pools and routers: routing, and the ends of members.

#[path = "../workers/mod.rs"]
mod workers;

mod ends;
mod members;
mod routers;
