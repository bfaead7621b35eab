//! `journeys`: events of users who wait, moves in process and over HTTP, defaults that are due
//! together, the cost of a user who waits, and a month of many users.

mod cases;
mod http;
mod month;
mod nodes;
mod stage;

use std::path::PathBuf;

use indicatif::ProgressBar;
use turnwheel_sqlite::SqliteSync;

use crate::engine::SceneRow;
use crate::error::BenchError;

/// Names of the cases, for `--case`.
const CASES: [&str; 6] = ["idle", "moves", "http", "waiting", "due", "month"];

/// Names of the stores, for `--store`.
const STORES: [&str; 2] = ["sqlite", "postgres"];

/// Cases and sizes of a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) folder: Option<PathBuf>,
    pub(crate) cases: Vec<String>,
    pub(crate) users: u64,
    pub(crate) definitions: usize,
    pub(crate) events: u64,
    pub(crate) at_once: usize,
    pub(crate) connections: usize,
    pub(crate) desks: usize,
    pub(crate) sync: SqliteSync,
    pub(crate) store: String,
}

/// Runs the named cases, or all.
pub(crate) fn run(options: &Options, bar: &ProgressBar) -> Result<Vec<SceneRow>, BenchError> {
    if let Some(name) = options.cases.iter().find(|name| !CASES.contains(&name.as_str())) {
        let (name, known) = (name.clone(), CASES.join(", "));
        return Err(BenchError::UnknownName { what: "case", name, known });
    }
    if !STORES.contains(&options.store.as_str()) {
        let (name, known) = (options.store.clone(), STORES.join(", "));
        return Err(BenchError::UnknownName { what: "store", name, known });
    }
    if options.store == "postgres" {
        return nodes::moves(options, bar);
    }
    let mut rows = Vec::new();
    for name in CASES {
        if !options.cases.is_empty() && !options.cases.iter().any(|it| it == name) {
            continue;
        }
        bar.set_message(name);
        rows.extend(match name {
            "idle" => cases::idle(options, bar),
            "moves" => cases::moves(options, bar),
            "http" => http::moves(options, bar),
            "waiting" => cases::waiting(options, bar),
            "month" => month::month(options, bar),
            _ => cases::due(options, bar),
        }?);
    }
    Ok(rows)
}
