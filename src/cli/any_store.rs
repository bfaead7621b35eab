//! The store of the settings: a file, or a schema of a database.

use turnwheel::engine::store::{Members, Store, StoreKeeper, StoreReader, StoreView, StoreWriter};
use turnwheel::engine::StoreError;
#[cfg(feature = "postgres")]
use turnwheel::postgres::PostgresStore;
use turnwheel::sqlite::SqliteStore;

/// A store of one of the kinds that the settings can name.
#[derive(Clone, Debug)]
pub(crate) enum AnyStore {
    /// A file.
    File(SqliteStore),
    /// A schema of a PostgreSQL database.
    #[cfg(feature = "postgres")]
    Postgres(PostgresStore),
}

impl AnyStore {
    fn inner(&self) -> &dyn Store {
        match self {
            Self::File(store) => store,
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store,
        }
    }

    /// Looks at the store, even if another process has it.
    pub(crate) fn view(&self) -> Result<StoreView, StoreError> {
        match self {
            Self::File(store) => store.view(),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.view(),
        }
    }

    /// Says how the process that has the store can be reached.
    #[cfg(feature = "server")]
    pub(crate) fn announce(&self, address: &str) -> Result<(), StoreError> {
        match self {
            Self::File(store) => store.announce(address),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.announce(address),
        }
    }

    /// The process that has the store; nothing if none has it.
    pub(crate) fn holder(&self) -> Result<Option<String>, StoreError> {
        match self {
            Self::File(store) => store.holder(),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.holder(),
        }
    }
}

impl Store for AnyStore {
    fn open(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        self.inner().open()
    }

    fn writer(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        self.inner().writer()
    }

    fn reader(&self) -> Result<Box<dyn StoreReader>, StoreError> {
        self.inner().reader()
    }

    fn members(&self) -> Result<Option<Box<dyn Members>>, StoreError> {
        self.inner().members()
    }

    fn keeper(&self) -> Result<Box<dyn StoreKeeper>, StoreError> {
        self.inner().keeper()
    }

    fn name(&self) -> String {
        self.inner().name()
    }
}
