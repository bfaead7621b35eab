//! The store on PostgreSQL.

use std::fmt;
use std::sync::Arc;

use turnwheel_engine::store::{Members, Store, StoreReader, StoreView, StoreWriter};
use turnwheel_engine::StoreError;

use crate::members::Heartbeats;
use crate::reader::Reader;
use crate::schema;
use crate::session::{Session, Shared};
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
        Ok(Self { shared: Arc::new(Shared::new(Settings::parse(url)?)?) })
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
        Ok(Box::new(Writer::new(&self.shared, false)?))
    }

    fn writer(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        Ok(Box::new(Writer::new(&self.shared, true)?))
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
