//! The store on PostgreSQL, over a server of this program on a temporary folder: what every store
//! promises, worlds over it, and trouble with the server.

#[path = "../../../tests/stores/suite.rs"]
#[macro_use]
mod suite;

mod copies;
#[path = "../../../tests/stores/copying.rs"]
mod copying;
mod jobs;
mod journeys;
mod migrations;
mod nodes;
mod pooler;
mod refusals;
mod server;
mod tls;
mod trouble;
mod worlds;

promises!(promises, crate::server::place());
