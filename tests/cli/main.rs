//! The command line, as people and scripts meet it.
#![cfg(feature = "cli")]

#[path = "../cli_common/mod.rs"]
mod cli_common;

mod again;
mod change;
mod delete;
mod doctor;
mod flow;
mod flows;
mod format;
mod help;
mod look;
#[cfg(feature = "server")]
mod operations;
mod otlp;
mod pipes;
mod run;
mod settings;
mod terminal;
