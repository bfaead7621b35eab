//! One server for all tests of a program, each with a schema of its own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::LazyLock;

use tokio_postgres::{NoTls, SimpleQueryMessage};
use turnwheel_postgres::{LocalServer, PostgresStore};

use crate::suite::place::Place;

/// It ends with the process.
static SERVER: LazyLock<LocalServer> = LazyLock::new(|| start(&[]));

/// A server for one test, which stops it or changes its settings.
pub(crate) fn start(settings: &[&str]) -> LocalServer {
    LocalServer::start(settings).unwrap_or_else(|error| panic!("{error}"))
}

/// The URL of an empty schema.
pub(crate) fn url() -> String {
    format!("{}?schema={}", SERVER.url("postgres"), name())
}

/// A name that no other test has.
pub(crate) fn name() -> String {
    static NAMES: AtomicU32 = AtomicU32::new(0);
    format!("s{}", NAMES.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn store() -> PostgresStore {
    store_of(&url())
}

pub(crate) fn store_of(url: &str) -> PostgresStore {
    PostgresStore::new(url).expect("a URL")
}

pub(crate) fn place() -> Place {
    Place::new(store(), ())
}

/// The first column of what a statement answers.
pub(crate) fn sql(url: &str, text: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        let base = url.split('?').next().expect("a text has a beginning");
        let (client, connection) = tokio_postgres::connect(base, NoTls).await.expect("it answers");
        tokio::spawn(connection);
        let rows = client.simple_query(text).await.expect("a statement");
        let cell = |message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        };
        rows.into_iter().filter_map(cell).collect()
    })
}
