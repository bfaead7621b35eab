//! `turnwheel store`: the format of the store, and bringing it up to date.

use std::sync::Arc;

use turnwheel::engine::store::{CopyError, Store as _};
use turnwheel::engine::BuildError;
#[cfg(feature = "postgres")]
use turnwheel::postgres::{Format, PostgresStore};
use turnwheel::sqlite::SqliteStore;

use super::any_store::AnyStore;
use super::exit::Exit;
use super::paint::{print, tell};
use super::place::Place;
use super::settings::Settings;

const AFTER_HELP: &str = "\
A store is a file, or a schema of a PostgreSQL database:
  postgres://USER:PASSWORD@HOST:PORT/DATABASE?schema=turnwheel&sslmode=require
PGUSER, PGPASSWORD, PGHOST and PGDATABASE stand in for what the URL leaves out.

Examples:
  turnwheel store check --store wheel.db
  turnwheel store migrate --store postgres://turnwheel@db.example/plans
  turnwheel store copy --from sqlite:wheel.db --to postgres://turnwheel@db.example/plans

Exit codes: 0 the store can be used, or is copied; 1 it cannot, or has another format; 4 a process has
the store that is copied.";

/// Check the store, or bring it up to date.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Look whether the store can be reached and has the format of this version.
    Check,
    /// Make the tables of the store, or bring them up to date.
    Migrate,
    /// Copy a store that no process has into an empty one, and compare them. An interrupted copy
    /// goes on with the same command.
    Copy {
        /// The store to copy: sqlite:FILE, or postgres://…
        #[arg(long, value_name = "STORE")]
        from: String,
        /// The new store, likewise.
        #[arg(long, value_name = "STORE")]
        to: String,
    },
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    if let What::Copy { from, to } = &arguments.what {
        return copy(settings, from, to);
    }
    let place = Place::itself(settings)?;
    let refused = |error| place.refused(BuildError::Store(error));
    match (place.store()?, &arguments.what) {
        (_, What::Copy { .. }) => Ok(()),
        (AnyStore::File(_), What::Check) => {
            place.view()?;
            print(&format!("{}: it has the format of this version\n", place.name()))
        }
        (AnyStore::File(store), What::Migrate) => migrate_file(&place, &store),
        #[cfg(feature = "postgres")]
        (AnyStore::Postgres(store), What::Check) => {
            let format = store.format().map_err(refused)?;
            told(&store, format)
        }
        #[cfg(feature = "postgres")]
        (AnyStore::Postgres(store), What::Migrate) => {
            let Format { found, known } = store.migrate().map_err(refused)?;
            let name = store.name();
            print(&match found {
                found if found == known => format!("{name}: it has format {known} already\n"),
                0 => format!("{name}: its tables are made, in format {known}\n"),
                found => format!("{name}: it had format {found}, and has {known} now\n"),
            })
        }
    }
}

fn copy(settings: &Settings, from: &str, to: &str) -> Result<(), Exit> {
    let (source, target) = (Place::named(settings, from), Place::named(settings, to));
    let told = |error| match error {
        CopyError::Store(error) => source.refused(BuildError::Store(error)),
        CopyError::Open(error) => source.refused(error),
        error => Exit::failed(error),
    };
    let (has, gets) = (source.existing()?, target.store()?);
    let mut progress = |plans| {
        if plans % (1 << 14) == 0 {
            tell!("{plans} plans");
        }
    };
    let copied = turnwheel::engine::store::copy(Arc::new(has), Arc::new(gets), &mut progress);
    let copied = copied.map_err(|error| told(error).advice(COPY_ADVICE))?;
    print(&format!(
        "{}: it is what {} is\n{} plans with {} entries, {} schedules, {} states, {} reminders\n\
         SHA-256 of both {}\n",
        target.name(),
        source.name(),
        copied.plans,
        copied.entries,
        copied.schedules,
        copied.states,
        copied.reminders,
        copied.checksum
    ))
}

const COPY_ADVICE: &str = "stop what uses one of the stores; the same command goes on with a copy \
                           that was interrupted";

fn migrate_file(place: &Place, store: &SqliteStore) -> Result<(), Exit> {
    let refused = |error| place.refused(BuildError::Store(error));
    drop(store.open().map_err(refused)?);
    print(&format!("{}: it has the format of this version\n", place.name()))
}

#[cfg(feature = "postgres")]
fn told(store: &PostgresStore, format: Format) -> Result<(), Exit> {
    let (name, Format { found, known }) = (store.name(), format);
    if found == known {
        return print(&format!("{name}: it has format {known}, that of this version\n"));
    }
    let message = match found {
        0 => format!("{name} has no tables of Turnwheel"),
        found => format!("{name} has format {found}, and this version works with {known}"),
    };
    Err(Exit::failed(message)
        .advice("turnwheel store migrate makes the tables or brings them up to date"))
}
