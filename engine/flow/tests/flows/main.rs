//! Flows: what is read, what runs, and what is refused.
//!
//! Nothing in this program changes its process; what does has a program of its own.

#[path = "../../../tests/common/mod.rs"]
mod common;

mod a2a;
mod brokers;
mod calls;
mod cases;
mod dropped;
mod ends;
mod events;
mod expressions;
mod flow_common;
mod full;
mod grpc;
mod hundred;
mod life;
mod listeners;
mod loops;
mod malformed;
mod mcp;
mod namespaces;
mod problems;
mod requests;
mod resources;
mod retries;
mod secrets;
mod services;
mod sinks;
mod sizes;
mod stand_ins;
mod starts;
mod subscriptions;
mod tasks;
mod time;
mod variations;
mod workers;
mod worlds;
