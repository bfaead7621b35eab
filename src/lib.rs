//! Turnwheel runs one thing at a time per entity and everything else at once.
//!
//! This package is the facade and the binary `turnwheel`. A program that embeds Turnwheel depends on
//! the crate it needs: [`turnwheel-runtime`](runtime) for groups, tasks, timers and completions,
//! [`turnwheel-actors`](actors) for typed actors and entities, [`turnwheel-engine`](engine) for durable
//! workflows.
//!
//! * [`runtime`]: the scheduler.
//! * [`actors`]: typed actors and keyed entities.
//! * [`engine`]: durable workflows.
//! * [`flow`]: flows in the Serverless Workflow DSL, for a world of the engine.
//! * [`jobs`]: distributed cron.
//! * [`journeys`]: event-triggered flows, one for each user.
//! * `http` (feature `server`): a world over HTTP, as a router for any application.
//! * `incident` (feature `server` or `cli`): records of processes that did not end in order.
//! * `io` (feature `io`): input and output of flows, on this host.
//! * `work` (feature `server`): steps that run in programs in other languages.
//! * `shape` (feature `server` or `client`): plans of the engine in the shapes of the API.
//! * `otlp` (feature `otlp`): spans of steps for a collector of traces.
//! * `client` (feature `client`): a world over HTTP, from another process.
//! * [`doctor`]: measurements of this machine, as printed by `turnwheel doctor`.
#![forbid(unsafe_code)]

#[cfg(any(feature = "server", feature = "client"))]
pub mod api;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
mod console;
pub mod doctor;
#[cfg(feature = "server")]
pub mod http;
#[cfg(any(feature = "server", feature = "cli"))]
pub mod incident;
#[cfg(feature = "io")]
pub mod io;
#[cfg(any(feature = "server", feature = "cli"))]
pub mod key;
#[cfg(feature = "otlp")]
pub mod otlp;
#[cfg(any(feature = "server", feature = "client"))]
pub mod shape;
#[cfg(feature = "server")]
pub mod work;

pub use turnwheel_channel as channel;
pub use turnwheel_engine as engine;
pub use turnwheel_flow as flow;
pub use turnwheel_jobs as jobs;
pub use turnwheel_journeys as journeys;
pub use turnwheel_runtime as runtime;
pub use turnwheel_sqlite as sqlite;

/// The store on PostgreSQL: [`turnwheel-postgres`](turnwheel_postgres).
#[cfg(feature = "postgres")]
pub use turnwheel_postgres as postgres;

/// Typed actors and keyed entities: [`turnwheel-actors`](turnwheel_actors), its test kit and
/// ready-made interceptors.
pub mod actors {
    pub use turnwheel_actors::*;
    pub use turnwheel_actors_testkit as testkit;
    pub use turnwheel_interceptors as interceptors;
}

/// README.md and the pages of the guide, whose Rust blocks are tests; `tests/guide` checks the
/// others.
#[cfg(all(doctest, feature = "server"))]
mod guide {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[doc = include_str!("../docs/actions.md")]
    mod actions {}
    #[doc = include_str!("../docs/embed.md")]
    mod embed {}
    #[doc = include_str!("../docs/http.md")]
    mod http {}
    #[doc = include_str!("../docs/libraries.md")]
    mod libraries {}
}
