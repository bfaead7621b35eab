//! `turnwheel backup`, `restore` and `export`: the store as a copy, and its plans as text.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use serde_json::json;
use turnwheel::engine::store::Order;
use turnwheel::sqlite::SqliteStore;

use super::exit::Exit;
use super::find::Which;
use super::paint::{count, tell};
use super::place::Place;
use super::settings::Settings;
use super::source::Source;

/// Plans that are read at once for an export.
const PAGE: usize = 256;

const BACKUP_HELP: &str = "\
The copy is one state of the store, also while a server works on it. It is whole when its name is
there: what was begun and not ended is named FILE.part.

Examples:
  turnwheel backup /backups/flows-$(date +%F).db
  turnwheel backup --store /var/lib/turnwheel/flows.db /backups/flows.db

Exit codes: 0 done; 1 it failed, for instance because there is such a file; 3 there is no such store.";

const RESTORE_HELP: &str = "\
The backup is checked before it becomes the store that --store names; a store that is there already is
left as it is. Move it away first.

Examples:
  mv turnwheel.db damaged.db; turnwheel restore /backups/flows.db

Exit codes: 0 done; 1 the backup is damaged, or there is such a store; 3 there is no such backup.";

const EXPORT_HELP: &str = "\
Each line is one plan with all its records, oldest plan first.

Examples:
  turnwheel export --output plans.jsonl
  turnwheel export --state stopped --ended-until 30d | gzip > old.jsonl.gz

Exit codes: 0 done; 1 it failed; 2 wrong usage; 3 there is no such store.";

/// Copy the store into a new file.
#[derive(Debug, clap::Args)]
#[command(after_help = BACKUP_HELP)]
pub(crate) struct Backup {
    /// The new file.
    file: PathBuf,
}

/// Make a store from a backup.
#[derive(Debug, clap::Args)]
#[command(after_help = RESTORE_HELP)]
pub(crate) struct Restore {
    /// The backup.
    file: PathBuf,
}

/// Write plans with all that happened to them, one JSON object a line.
#[derive(Debug, clap::Args)]
#[command(after_help = EXPORT_HELP)]
pub(crate) struct Export {
    #[command(flatten)]
    which: Which,

    /// The file to write, instead of standard output; an existing one is replaced.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn backup(settings: &Settings, arguments: &Backup) -> Result<(), Exit> {
    let place = Place::itself(settings)?;
    let file = place.file()?;
    place.view()?;
    file.backup(&arguments.file)?;
    tell!("{} is a copy of {}", arguments.file.display(), place.name());
    Ok(())
}

pub(crate) fn restore(settings: &Settings, arguments: &Restore) -> Result<(), Exit> {
    let place = Place::itself(settings)?;
    if !arguments.file.is_file() {
        return Err(Exit::not_found(format!("there is no backup {}", arguments.file.display()))
            .advice("name the file that turnwheel backup has made"));
    }
    place.file()?;
    SqliteStore::restore(&arguments.file, place.name())?;
    tell!("{} is what {} says", place.name(), arguments.file.display());
    Ok(())
}

pub(crate) fn export(settings: &Settings, arguments: &Export) -> Result<(), Exit> {
    let mut source = Source::of(settings)?;
    let target = arguments
        .output
        .as_ref()
        .map_or_else(|| "standard output".to_owned(), |file| file.display().to_string());
    let failed = |error: io::Error| Exit::failed(format!("cannot write to {target}: {error}"));
    let mut output: Box<dyn Write> = match &arguments.output {
        Some(file) => Box::new(BufWriter::new(create(file).map_err(failed)?)),
        None => Box::new(BufWriter::new(io::stdout().lock())),
    };
    let mut filter = arguments.which.filter_in(&mut source, settings, PAGE)?;
    let view = source.store()?;
    filter.order = Order::OldestFirst;
    let mut plans = 0;
    loop {
        let rows = view.list(&filter)?;
        for row in &rows {
            let line = json!({
                "plan": row.id.to_string(),
                "label": &*row.label,
                "labels": row.labels,
                "state": row.state.name(),
                "result": row.result.name(),
                "created_at_us": row.created_at.0,
                "ended_at_us": row.ended_at.map(|at| at.0),
                "records": view.records_of(row)?,
            });
            match writeln!(output, "{line}") {
                // A reader that has seen enough (`| head`) is no failure.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                written => written.map_err(failed)?,
            }
            plans += 1;
        }
        match rows.last() {
            Some(last) if rows.len() == PAGE => filter = filter.next_page(last.id),
            _ => break,
        }
    }
    output.flush().map_err(failed)?;
    if arguments.output.is_some() {
        tell!("{target} has {}", count(plans, "plan"));
    }
    Ok(())
}

/// Makes or replaces a file that only its owner may read: inputs of plans may be secret.
fn create(file: &std::path::Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(file)
}
