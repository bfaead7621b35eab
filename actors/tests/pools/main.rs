//! Pools and routers: who gets a message, and what becomes of members.

#[path = "../workers/mod.rs"]
mod workers;

mod ends;
mod members;
mod routers;
