//! The HTTP API and the console, in one process with whoever asks.
#![cfg(feature = "server")]

#[path = "../http_common/mod.rs"]
mod http_common;

mod access;
mod both;
mod client;
mod console;
mod dashboard;
mod edits;
mod events;
mod flows;
mod fuzz;
mod hostile;
mod live;
mod openapi;
mod pages;
mod plans;
mod runtime;
mod session;
mod shapes;
mod snapshot;
mod tls;
mod trouble;
mod two;
mod work;
