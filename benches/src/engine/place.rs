//! Where plans are kept while they are measured: in a file, or in a PostgreSQL database. And what
//! that does by itself.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls};
use turnwheel_engine::store::Store;
use turnwheel_postgres::{LocalServer, PostgresStore};
use turnwheel_sqlite::{SqliteStore, SqliteSync};

use super::disk::Disk;
use super::failed;
use crate::error::BenchError;

/// Settings of a server of this process, beside `fsync` and `synchronous_commit`, which are on.
const SETTINGS: [&str; 2] = ["shared_buffers = 256MB", "max_wal_size = 4GB"];
/// Commits of one row, one after the other.
const COMMITS: u32 = 500;
/// Connections that insert batches at the same time: a writer has as many under way.
const LANES: usize = 2;
/// How long batches are inserted.
const RAW: Duration = Duration::from_secs(1);

/// Where stores are made.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In files, with this wait for the disk.
    Files(SqliteSync),
    /// In schemas of a database.
    Database(Arc<Database>),
}

/// A database, perhaps of a server of this process.
#[derive(Debug)]
pub(crate) struct Database {
    url: String,
    /// It ends with this value.
    _server: Option<LocalServer>,
}

/// Cost of a place by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor {
    /// A synced append to a file, or a commit of one row: the median.
    pub(crate) sync_us: f64,
}

impl Place {
    /// The place of `--store`: `sqlite`, `postgres` for a server of this process, or a URL.
    pub(crate) fn of(store: &str, sync: SqliteSync) -> Result<Self, BenchError> {
        match store {
            "sqlite" => Ok(Self::Files(sync)),
            _ => Ok(Self::Database(Arc::new(Database::of(store)?))),
        }
    }

    /// The store of a path; in a database a schema of that name.
    pub(crate) fn store(&self, path: &Path) -> Result<Arc<dyn Store>, BenchError> {
        Ok(match self {
            Self::Files(sync) => Arc::new(SqliteStore::new(path).sync(*sync)),
            Self::Database(database) => {
                let store = PostgresStore::new(&database.url(&schema(path)));
                Arc::new(store.map_err(|error| failed(&error))?)
            }
        })
    }

    pub(super) fn floor(&self, folder: &Path) -> Result<Floor, BenchError> {
        match self {
            Self::Files(_) => Ok(Floor { sync_us: Disk::measure(folder)?.sync_us }),
            Self::Database(database) => Ok(Floor { sync_us: database.commit_us()? }),
        }
    }

    /// Rows a second that a database takes if they are inserted without any logic, so many a commit
    /// and as large as the entries of the store of this path. Nothing for files.
    pub(super) fn raw_per_s(&self, path: &Path, batch: u32) -> Result<Option<f64>, BenchError> {
        let Self::Database(database) = self else { return Ok(None) };
        let bytes = database.entry_bytes(&schema(path))?;
        database.raw_per_s(batch as usize, bytes).map(Some)
    }
}

/// The schema of a path.
fn schema(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    format!("bench_{}_{}", std::process::id(), stem.chars().map(plain).collect::<String>())
}

impl Database {
    /// `postgres` for a server of this process, or the URL of a database.
    pub(crate) fn of(store: &str) -> Result<Self, BenchError> {
        if store == "postgres" {
            let server = LocalServer::start(&SETTINGS).map_err(|error| failed(&error))?;
            return Ok(Self { url: server.url("postgres"), _server: Some(server) });
        }
        if store.starts_with("postgres://") || store.starts_with("postgresql://") {
            return Ok(Self { url: store.to_owned(), _server: None });
        }
        let problem = format!("--store is sqlite, postgres or a URL postgres://…, not «{store}»");
        Err(BenchError::BadValue(problem))
    }

    /// The URL of a store in a schema.
    pub(crate) fn url(&self, schema: &str) -> String {
        let more = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{more}schema={schema}", self.url)
    }

    fn connected<T>(
        &self,
        clients: usize,
        work: impl AsyncFnOnce(Vec<Client>) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, BenchError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime: Runtime = runtime.map_err(|error| failed(&error))?;
        let done = runtime.block_on(async {
            let mut connected = Vec::new();
            for _ in 0..clients {
                let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
                tokio::spawn(connection);
                connected.push(client);
            }
            work(connected).await
        });
        done.map_err(|error| failed(&error))
    }

    /// The first value of what a statement answers.
    pub(crate) fn number(&self, sql: &str) -> Result<i64, BenchError> {
        self.connected(1, async |clients| Ok(clients[0].query_one(sql, &[]).await?.get(0)))
    }

    /// The median of the time of a commit of one row.
    fn commit_us(&self) -> Result<f64, BenchError> {
        self.connected(1, async |clients| {
            let client = &clients[0];
            client
                .batch_execute("DROP TABLE IF EXISTS raw_one; CREATE TABLE raw_one (bytes bytea)")
                .await?;
            let (bytes, mut us) = (vec![7_u8; 200], Vec::new());
            for _ in 0..COMMITS {
                let begin = Instant::now();
                let insert = "INSERT INTO raw_one VALUES ($1)";
                client.query_typed(insert, &[(&bytes, Type::BYTEA)]).await?;
                us.push(begin.elapsed().as_secs_f64() * 1e6);
            }
            us.sort_unstable_by(f64::total_cmp);
            Ok(us[us.len() / 2])
        })
    }

    /// Mean size of the entries of a store.
    pub(crate) fn entry_bytes(&self, schema: &str) -> Result<usize, BenchError> {
        let sql = format!(
            "SELECT coalesce(avg(octet_length(records)), 200)::bigint FROM {schema}.journal"
        );
        Ok(usize::try_from(self.number(&sql)?).unwrap_or(200))
    }

    /// Rows a second of batched inserts of this size.
    pub(crate) fn raw_per_s(&self, batch: usize, bytes: usize) -> Result<f64, BenchError> {
        let made = "DROP TABLE IF EXISTS raw_many;
            CREATE TABLE raw_many (seq bigserial PRIMARY KEY, plan uuid, prev bigint, bytes bytea)";
        let insert = "INSERT INTO raw_many (plan, prev, bytes)
            SELECT gen_random_uuid(), u.prev, u.bytes FROM unnest($1, $2) u (prev, bytes)";
        let prev: Vec<i64> = (0..batch as i64).collect();
        let rows = vec![vec![7_u8; bytes]; batch];
        self.connected(LANES, async |clients| {
            clients[0].batch_execute(made).await?;
            let begin = Instant::now();
            let (mut batches, mut lanes) = (0_usize, tokio::task::JoinSet::new());
            for client in clients {
                let (prev, rows) = (prev.clone(), rows.clone());
                lanes.spawn(async move {
                    let mut batches = 0;
                    while begin.elapsed() < RAW {
                        let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
                            [(&prev, Type::INT8_ARRAY), (&rows, Type::BYTEA_ARRAY)];
                        client.query_typed(insert, &values).await?;
                        batches += 1;
                    }
                    Ok::<usize, tokio_postgres::Error>(batches)
                });
            }
            while let Some(lane) = lanes.join_next().await {
                batches += lane.expect("a lane does not panic")?;
            }
            Ok((batches * batch) as f64 / begin.elapsed().as_secs_f64())
        })
    }
}
