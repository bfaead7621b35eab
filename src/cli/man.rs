//! `turnwheel man`: manual pages.

use std::path::{Path, PathBuf};

use super::exit::Exit;
use super::paint::{count, print};

const AFTER_HELP: &str = "\
Examples:
  turnwheel man /usr/local/share/man/man1
  turnwheel man man1 && man ./man1/turnwheel-list.1";

/// Write the manual pages of all verbs into a folder.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The folder; it is made if it does not exist.
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Exit> {
    let folder = &arguments.folder;
    let wrong = |error: std::io::Error| Exit::failed(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(wrong)?;
    let mut command = super::command();
    command.build();
    let mut pages = 0;
    write(folder, &command, "turnwheel", &mut pages).map_err(wrong)?;
    print(&format!("{} in {}\n", count(pages, "page"), folder.display()))
}

/// Writes the page of a command and those of its subcommands.
fn write(
    folder: &Path,
    command: &clap::Command,
    name: &str,
    pages: &mut usize,
) -> std::io::Result<()> {
    let page = clap_mangen::Man::new(command.clone()).title(name);
    let mut text = Vec::new();
    page.render(&mut text)?;
    std::fs::write(folder.join(format!("{name}.1")), text)?;
    *pages += 1;
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        write(folder, verb, &format!("{name}-{}", verb.get_name()), pages)?;
    }
    Ok(())
}
