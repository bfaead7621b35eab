//! `turnwheel serve` as a process of its own.
#![cfg(all(feature = "server", feature = "cli", unix))]

#[path = "../serve_common/mod.rs"]
mod serve_common;

mod access;
mod database;
#[cfg(all(feature = "kafka", feature = "nats", feature = "rabbitmq"))]
mod flow_messages;
mod full;
#[cfg(feature = "grpc")]
#[path = "../io/grpc_server.rs"]
#[expect(dead_code, reason = "it has more for the tests of calls themselves")]
mod grpc_server;
mod job_clients;
mod job_files;
#[cfg(feature = "grpc")]
mod job_grpc;
mod job_kinds;
mod job_live;
mod job_memory;
#[cfg(all(feature = "kafka", feature = "nats", feature = "rabbitmq"))]
mod job_messages;
mod job_notices;
mod job_outputs;
mod job_plugins;
mod job_requests;
mod jobs;
mod journeys;
mod remote;
mod restart;
mod schedule_inputs;
mod sinks;
mod supervised;
mod trouble;
mod verbs;
#[cfg(feature = "client")]
mod workers;
