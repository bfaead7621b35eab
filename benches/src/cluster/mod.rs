//! `cluster`: nodes on one PostgreSQL: how fast they are, and what their ends and begins cost.

mod calls;
mod cases;
pub(crate) mod node;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use turnwheel_engine::{SharedStore, World};
use turnwheel_postgres::PostgresStore;

use self::node::{Node, Start};
use crate::engine::{failed, Database, SceneRow};
use crate::error::BenchError;
use crate::load;

const CASES: [&str; 7] = ["throughput", "kill", "drain", "takeover", "join", "idle", "calls"];

/// Time for something that takes seconds.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at the table of nodes.
const LOOK: Duration = Duration::from_millis(2);

/// Cases and sizes of a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) cases: Vec<String>,
    pub(crate) store: String,
    pub(crate) lease: Duration,
    pub(crate) repetitions: u32,
    pub(crate) seconds: u64,
    pub(crate) sleepers: u64,
}

/// Measures the cases.
pub(crate) fn run(options: &Options, bar: &ProgressBar) -> Result<Vec<SceneRow>, BenchError> {
    let database = Database::of(&options.store)?;
    let mut rows = Vec::new();
    for case in &options.cases {
        bar.set_message(case.clone());
        let stage = Stage::new(&database, options);
        let figures = match case.as_str() {
            "calls" => {
                rows.extend(calls::rows(&stage)?);
                continue;
            }
            "throughput" => cases::throughput(&stage)?,
            "kill" => cases::kill(&stage)?,
            "drain" => cases::drain(&stage)?,
            "takeover" => cases::takeover(&stage)?,
            "join" => cases::join(&stage)?,
            "idle" => cases::idle(&stage)?,
            name => {
                let (what, known) = ("case of cluster", CASES.join(", "));
                return Err(BenchError::UnknownName { what, name: name.to_owned(), known });
            }
        };
        rows.extend(figures.into_iter().map(|(metric, value)| SceneRow {
            workload: format!("cluster_{case}"),
            metric,
            value: load::rounded(value),
        }));
    }
    Ok(rows)
}

/// A schema of a database, for one case.
struct Stage<'a> {
    database: &'a Database,
    options: &'a Options,
    schema: String,
    nodes: AtomicU32,
}

impl<'a> Stage<'a> {
    fn new(database: &'a Database, options: &'a Options) -> Self {
        static SCHEMAS: AtomicU32 = AtomicU32::new(0);
        let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
        let schema = format!("cluster_{}_{number}", std::process::id());
        Self { database, options, schema, nodes: AtomicU32::new(0) }
    }

    fn url(&self) -> String {
        self.database.url(&self.schema)
    }

    /// Starts a node with a name of its own.
    fn node(&self) -> Result<Node, BenchError> {
        let number = self.nodes.fetch_add(1, Ordering::Relaxed);
        let lease_ms = u64::try_from(self.options.lease.as_millis()).unwrap_or(u64::MAX);
        Node::start(&Start { url: self.url(), name: format!("node-{number}"), lease_ms })
    }

    fn nodes(&self, count: usize) -> Result<Vec<Node>, BenchError> {
        (0..count).map(|_| self.node()).collect()
    }

    fn client(&self) -> Result<Client, BenchError> {
        let store = PostgresStore::new(&self.url()).map_err(|error| failed(&error))?;
        let store = SharedStore::node(store, self.options.lease).map_err(|error| failed(&error))?;
        let builder = node::actions(World::builder().client().name("client"));
        let world = builder.join(&store).map_err(|error| failed(&error))?;
        Ok(Client { world, store })
    }
}

/// A world that runs no plans.
struct Client {
    world: World,
    store: SharedStore,
}

impl Client {
    fn slots_of(&self, world: u64) -> Option<usize> {
        self.world.worlds().iter().find(|row| row.id == world).map(|row| row.slots)
    }

    /// Waits until each of so many nodes has its share.
    fn are_even(&self, count: usize) -> Result<(), BenchError> {
        let least = 1_024 / count;
        until("equal shares", || {
            let worlds = self.world.worlds();
            worlds.iter().filter(|row| (least..=least + 1).contains(&row.slots)).count() == count
        })
    }

    fn end(self) -> Result<(), BenchError> {
        self.world.shutdown().map_err(|error| failed(&error))?;
        self.store.close().map_err(|error| failed(&error))
    }
}

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), BenchError> {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() > PATIENCE {
            return Err(BenchError::Failed(format!("not after {PATIENCE:?}: {what}")));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
