//! Location of the plans: a store file, and the process that has it.

use std::path::PathBuf;

use turnwheel::engine::store::StoreView;
use turnwheel::engine::{BuildError, Opening, StoreError, World, WorldBuilder};
use turnwheel::incident;
use turnwheel::runtime::completion::block_on;
use turnwheel::sqlite::{SqliteStore, SqliteSync};

use super::any_store::AnyStore;
use super::exit::{Exit, IN_USE};
use super::paint::tell;
use super::remote::Remote;
use super::settings::Settings;

/// The process that changes plans: this one, or the server of the store.
pub(crate) enum Hands {
    /// This process: nothing of a plan runs in it.
    Own(World),
    /// A server.
    Server(Remote),
}

/// The store that the settings name.
pub(crate) struct Place {
    file: PathBuf,
    sync: SqliteSync,
    database: Option<String>,
}

/// Schemes of databases; other names are files.
const DATABASES: [&str; 2] = ["postgres://", "postgresql://"];

impl Place {
    pub(crate) fn of(settings: &Settings) -> Self {
        Self { file: settings.store(), ..Self::named(settings, settings.get("store").0) }
    }

    /// The same, for verbs that work on the store itself. They refuse while a server is named.
    pub(crate) fn itself(settings: &Settings) -> Result<Self, Exit> {
        if settings.asks_server() {
            return Err(no_server_can(settings.get("server").0));
        }
        Ok(Self::of(settings))
    }

    /// The store of a name: the URL of a database, or a file, with `sqlite:` before it or without.
    pub(crate) fn named(settings: &Settings, name: &str) -> Self {
        let name = name.strip_prefix("sqlite:").unwrap_or(name);
        let is_database = DATABASES.iter().any(|scheme| name.starts_with(scheme));
        let database = is_database.then(|| name.to_owned());
        Self { file: PathBuf::from(name), sync: settings.sync(), database }
    }

    /// The store for running plans, according to the settings.
    pub(crate) fn writable(settings: &Settings) -> Result<AnyStore, Exit> {
        let store = Self::of(settings).store()?;
        if let AnyStore::File(store) = &store {
            if settings.text("store-max").is_some() {
                store.set_bytes_max(settings.bytes("store-max") as u64);
            }
            store.set_reserve(settings.bytes("store-reserve") as u64);
            store.set_ballast(settings.bytes("store-ballast") as u64);
        }
        Ok(store)
    }

    /// Its name, without a password.
    pub(crate) fn name(&self) -> String {
        match &self.database {
            Some(url) => without_password(url),
            None => self.file.display().to_string(),
        }
    }

    pub(crate) fn store(&self) -> Result<AnyStore, Exit> {
        match &self.database {
            #[cfg(feature = "postgres")]
            Some(url) => Ok(AnyStore::Postgres(turnwheel::postgres::PostgresStore::new(url)?)),
            #[cfg(not(feature = "postgres"))]
            Some(_) => Err(Exit::failed("this binary has no store on PostgreSQL")
                .advice("build it with the feature postgres, or name a file with --store FILE")),
            None => Ok(AnyStore::File(self.file_store())),
        }
    }

    fn file_store(&self) -> SqliteStore {
        SqliteStore::new(&self.file).sync(self.sync)
    }

    /// The file of the store.
    pub(crate) fn file(&self) -> Result<SqliteStore, Exit> {
        if self.database.is_none() {
            return Ok(self.file_store());
        }
        Err(Exit::failed(format!("the store {} is no file", self.name()))
            .advice("a database has backups of its own: pg_dump, or those of its operator"))
    }

    /// The store, if the file exists.
    pub(crate) fn existing(&self) -> Result<AnyStore, Exit> {
        if self.database.is_some() || self.file.is_file() {
            return self.store();
        }
        let problem = if self.file.exists() { "is no file" } else { "does not exist" };
        Err(Exit::not_found(format!("the store {} {problem}", self.name())).advice(
            "name the file with --store FILE or TURNWHEEL_STORE; turnwheel run and serve make a new one",
        ))
    }

    /// A read-only view of the store, even if another process has it.
    pub(crate) fn view(&self) -> Result<StoreView, Exit> {
        self.existing()?.view().map_err(|error| self.refused(BuildError::Store(error)))
    }

    /// The error for an unusable store, with its name and advice.
    pub(crate) fn refused(&self, error: BuildError) -> Exit {
        if self.database.is_some() {
            // Errors of a database name it, and say what to do.
            return error.into();
        }
        let folder = self.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        match &error {
            BuildError::Store(StoreError::Corrupt(problem)) => {
                let message = format!("the store {} is damaged: {problem}", self.name());
                Exit::failed(message).advice(
                    "if it is a store of Turnwheel, turnwheel restore makes one from a backup; else \
                     name another file with --store FILE",
                )
            }
            _ if folder.is_some_and(|folder| !folder.is_dir()) => {
                let folder = folder.map(|folder| folder.display().to_string()).unwrap_or_default();
                Exit::failed(format!("the store {}: there is no folder {folder}", self.name()))
                    .advice("make the folder, or name another file with --store FILE")
            }
            BuildError::Store(StoreError::Failed(problem)) => {
                let message = format!("the store {} failed: {problem}", self.name());
                Exit::failed(message).advice("look whether this user may read and write the file")
            }
            _ => error.into(),
        }
    }

    /// Takes the store to change it, or finds the server that has it.
    pub(crate) fn hands(&self, settings: &Settings) -> Result<Hands, Exit> {
        self.hands_with(settings, World::builder())
    }

    /// The same, with actions for commands that need some.
    pub(crate) fn hands_with(
        &self,
        settings: &Settings,
        builder: WorldBuilder,
    ) -> Result<Hands, Exit> {
        if settings.asks_server() {
            return Remote::new("", settings).map(Hands::Server);
        }
        // A file that is no store must not become one by this.
        self.view()?;
        match builder.opening(Opening::AtRest).build(self.store()?) {
            Ok(world) => {
                note(&world);
                Ok(Hands::Own(world))
            }
            Err(BuildError::Store(StoreError::InUse { holder, .. })) => {
                self.server(&holder, settings).map(Hands::Server)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a server is named, or has the store.
    pub(crate) fn is_served_as(&self, settings: &Settings) -> Result<bool, Exit> {
        Ok(settings.asks_server() || self.is_served()?)
    }

    /// Whether a server has the store.
    pub(crate) fn is_served(&self) -> Result<bool, Exit> {
        Ok(self.existing()?.holder()?.is_some_and(|holder| holder.contains(" serving ")))
    }

    /// The server that is named, or the one that has the store, if there is one.
    pub(crate) fn served_by(&self, settings: &Settings) -> Result<Option<Remote>, Exit> {
        if settings.asks_server() {
            return Remote::new("", settings).map(Some);
        }
        let holder = self.existing()?.holder()?.filter(|holder| holder.contains(" serving "));
        holder.map(|holder| self.server(&holder, settings)).transpose()
    }

    /// The server that is named or has the store; without one, an error with this message.
    pub(crate) fn server_of(&self, settings: &Settings, without: &str) -> Result<Remote, Exit> {
        self.served_by(settings)?.ok_or_else(|| no_server(without))
    }

    /// The server that has the store, as the lock file says.
    pub(crate) fn server(&self, holder: &str, settings: &Settings) -> Result<Remote, Exit> {
        match holder.split_once(" serving ") {
            Some((_, address)) => Remote::new(address, settings),
            None => Err(Exit::new(
                IN_USE,
                format!("the store {} is in use by {holder}, which does not serve it", self.name()),
            )
            .advice(
                "wait for that process, stop it, or have it serve the store (turnwheel serve)",
            )),
        }
    }
}

/// The error where only a server can do something.
pub(crate) fn no_server(message: &str) -> Exit {
    Exit::failed(message).advice("start one (turnwheel serve), or name one with --server URL")
}

/// A URL with dots in the place of its password.
pub(crate) fn without_password(url: &str) -> String {
    let parts = url.split_once("://").and_then(|(scheme, rest)| {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let at = rest[..end].rfind('@')?;
        let (user, _) = rest[..at].split_once(':')?;
        Some(format!("{scheme}://{user}:…{}", &rest[at..]))
    });
    let shown = parts.unwrap_or_else(|| url.to_owned());
    match shown.split_once("password=") {
        Some((before, after)) => {
            let rest = after.find('&').map_or("", |end| &after[end..]);
            format!("{before}password=…{rest}")
        }
        None => shown,
    }
}

/// Reports that the previous process ended without closing, and stores the incident.
pub(crate) fn note(world: &World) {
    match block_on(incident::note(world)) {
        Ok(Ok(found)) => found.iter().for_each(|incident| tell!("turnwheel: {incident}")),
        Ok(Err(error)) => {
            tell!("turnwheel: that a process did not end in order is not noted: {error}")
        }
        // Only on threads that must not block, unlike this one.
        Err(refused) => tell!("turnwheel: what was before is not looked at: {refused}"),
    }
}

/// The refusal of a verb that works on the store itself, while a server is named.
pub(crate) fn no_server_can(server: &str) -> Exit {
    Exit::usage(format!("this works on the store itself, and a server is named: {server}"))
        .advice("name the store with --store FILE, on the machine that has it")
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn passwords_of_databases_are_not_shown() {
        let shown = [
            (
                "postgres://ann:secret@db:5432/plans?schema=a",
                "postgres://ann:…@db:5432/plans?schema=a",
            ),
            ("postgres://ann:se@cret@db/plans", "postgres://ann:…@db/plans"),
            ("postgres://ann@db/plans", "postgres://ann@db/plans"),
            (
                "postgres:///plans?host=/run&user=ann&password=secret&schema=a",
                "postgres:///plans?host=/run&user=ann&password=…&schema=a",
            ),
            ("postgres://db/plans?password=secret", "postgres://db/plans?password=…"),
            ("folder/wheel.db", "folder/wheel.db"),
        ];
        for (url, expected) in shown {
            assert_eq!(without_password(url), expected);
        }
    }
}
