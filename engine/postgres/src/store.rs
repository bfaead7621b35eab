//! The store on PostgreSQL.

use std::fmt;
use std::sync::Arc;

use tokio_postgres::types::Type;
use turnwheel_engine::store::{Members, Store, StoreReader, StoreView, StoreWriter};
use turnwheel_engine::StoreError;

use crate::cell;
use crate::holding::{self, OwnLease};
use crate::members::Heartbeats;
use crate::reader::Reader;
use crate::schema;
use crate::session::{Session, Shared, Value};
use crate::settings::Settings;
use crate::writer::Writer;

/// A store in a schema of a PostgreSQL database. Clones share a thread, which drives their
/// connections.
///
/// ```no_run
/// use turnwheel_engine::World;
/// use turnwheel_postgres::PostgresStore;
///
/// let store = PostgresStore::new("postgres://turnwheel:secret@db.example/plans")?;
/// let world = World::builder().build(store)?;
/// # world.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PostgresStore {
    shared: Arc<Shared>,
    held: Arc<OwnLease>,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("name", &self.name()).finish()
    }
}

/// The format of the tables of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The format that was found; 0 if there are no tables.
    pub found: u32,
    /// The format of this version.
    pub known: u32,
}

impl PostgresStore {
    /// The store of a URL:
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE?schema=turnwheel&sslmode=require`. Nothing is
    /// opened yet. The README of the crate lists the settings.
    ///
    /// # Errors
    ///
    /// The URL cannot be understood, a file that it names cannot be read, or no thread can be
    /// started.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared::new(Settings::parse(url)?)?);
        Ok(Self { shared, held: Arc::default() })
    }

    /// Makes the tables, or brings them up to date. Opening the store does the same.
    ///
    /// # Errors
    ///
    /// The database cannot be used, or its tables are of a newer version.
    pub fn migrate(&self) -> Result<Format, StoreError> {
        let mut session = Session::new(Arc::clone(&self.shared));
        let found = session.open().and_then(|()| schema::migrate(&mut session));
        let found = found.map_err(|trouble| trouble.told(&self.name(), 0))?;
        Ok(Format { found, known: schema::VERSION })
    }

    /// The format of the tables that are there, without a change.
    ///
    /// # Errors
    ///
    /// The database cannot be used, or its tables are of a newer version.
    pub fn format(&self) -> Result<Format, StoreError> {
        let mut session = Session::new(Arc::clone(&self.shared));
        let found = session.open().and_then(|()| schema::found(&mut session));
        let found = found.map_err(|trouble| trouble.told(&self.name(), 0))?;
        Ok(Format { found, known: schema::VERSION })
    }

    /// Says how the process that has the store can be reached: others who try to take it are told
    /// so, in [`StoreError::InUse`].
    ///
    /// # Errors
    ///
    /// The store is not open for writing by this process alone, or the database cannot be used.
    pub fn announce(&self, address: &str) -> Result<(), StoreError> {
        let said = format!("{} serving {address}", holding::said());
        let (instance, lease) = (self.shared.instance, holding::lease_us());
        let values: [Value<'_>; 3] =
            [(&instance, Type::UUID), (&said, Type::TEXT), (&lease, Type::INT8)];
        let mut session = Session::new(Arc::clone(&self.shared));
        let rows = session.read("SELECT tw.keep_1($1, $2, $3)", &values)?;
        if rows.first().is_some_and(|row| row.get(0)) {
            return Ok(());
        }
        Err(StoreError::Failed(format!("{}: it is not open for writing", self.name())))
    }

    /// The process that has the store for itself, or a node that shares it, in the words of
    /// [`StoreError::InUse`]; nothing if none has it.
    ///
    /// # Errors
    ///
    /// The database cannot be used.
    pub fn holder(&self) -> Result<Option<String>, StoreError> {
        let mut session = Session::new(Arc::clone(&self.shared));
        let sql = "SELECT coalesce(
            (SELECT said FROM tw.holder WHERE ends > clock_timestamp()), tw.node_1())";
        let rows = session.read(sql, &[])?;
        let said: Option<String> = rows.first().map_or(Ok(None), |row| cell::cell(row, 0))?;
        Ok(said.map(cell::plain))
    }

    /// Looks at the store without opening it for writing.
    ///
    /// # Errors
    ///
    /// The database cannot be used, or there are no tables of this version.
    pub fn view(&self) -> Result<StoreView, StoreError> {
        StoreView::of(self)
    }
}

impl Store for PostgresStore {
    fn open(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        Ok(Box::new(Writer::new(&self.shared, None)?))
    }

    fn writer(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        Ok(Box::new(Writer::new(&self.shared, Some(&self.held))?))
    }

    fn reader(&self) -> Result<Box<dyn StoreReader>, StoreError> {
        Ok(Box::new(Reader::new(&self.shared)?))
    }

    fn members(&self) -> Result<Option<Box<dyn Members>>, StoreError> {
        Ok(Some(Box::new(Heartbeats::new(&self.shared))))
    }

    fn name(&self) -> String {
        self.shared.settings.name.clone()
    }
}
