//! One server for all tests of a program, each with a schema of its own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::LazyLock;

use turnwheel_postgres::{LocalServer, PostgresStore};

use crate::suite::place::Place;

/// It ends with the process.
static SERVER: LazyLock<LocalServer> =
    LazyLock::new(|| LocalServer::start(&[]).unwrap_or_else(|error| panic!("{error}")));

/// The URL of an empty schema.
pub(crate) fn url() -> String {
    static SCHEMAS: AtomicU32 = AtomicU32::new(0);
    let schema = SCHEMAS.fetch_add(1, Ordering::Relaxed);
    format!("{}?schema=s{schema}", SERVER.url("postgres"))
}

pub(crate) fn store() -> PostgresStore {
    PostgresStore::new(&url()).expect("a URL")
}

pub(crate) fn place() -> Place {
    Place::new(store(), ())
}
