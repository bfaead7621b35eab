//! Questions on the terminal before changes.

use std::io::{BufRead as _, IsTerminal as _};

use super::exit::Exit;
use super::paint::tell_line;

/// Whether somebody can be asked.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal()
}

/// Asks a question on the terminal; anything but yes is no.
pub(crate) fn agreed(question: &str) -> Result<bool, Exit> {
    tell_line(format_args!("{question} [y/N]"));
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Exit::failed(format!("standard input: {error}")))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
