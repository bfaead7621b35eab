//! `turnwheel store`: the format of the store, and bringing it up to date.

use turnwheel::engine::store::Store as _;
use turnwheel::engine::BuildError;
#[cfg(feature = "postgres")]
use turnwheel::postgres::{Format, PostgresStore};
use turnwheel::sqlite::SqliteStore;

use super::any_store::AnyStore;
use super::exit::Exit;
use super::paint::print;
use super::place::Place;
use super::settings::Settings;

const AFTER_HELP: &str = "\
A store is a file, or a schema of a PostgreSQL database:
  postgres://USER:PASSWORD@HOST:PORT/DATABASE?schema=turnwheel&sslmode=require
PGUSER, PGPASSWORD, PGHOST and PGDATABASE stand in for what the URL leaves out.

Examples:
  turnwheel store check --store wheel.db
  turnwheel store migrate --store postgres://turnwheel@db.example/plans

Exit codes: 0 the store can be used, 1 it cannot or has another format.";

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
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let place = Place::of(settings);
    let refused = |error| place.refused(BuildError::Store(error));
    match (place.store()?, &arguments.what) {
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
