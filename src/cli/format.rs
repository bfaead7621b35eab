//! Forms of a result: a table, the same with all columns, JSON, YAML or names.

use std::io::{self, IsTerminal as _, Write as _};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::exit::{Exit, NOTHING};
use super::paint::{print, print_json, table, tell, Colour, Paint};
use super::yaml;

/// Interval of `--watch`.
const AGAIN: Duration = Duration::from_secs(1);

/// Clears a terminal and puts the cursor at its first place.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For people, with all columns.
    Wide,
    /// One JSON value.
    Json,
    /// One YAML document.
    Yaml,
    /// One name or id a line.
    Name,
}

// Without a comment for documentation: `clap` would show it as the description of a verb.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Output {
    /// Format of the result.
    #[arg(
        short = 'o',
        long = "format",
        value_name = "FORMAT",
        value_enum,
        hide_possible_values = true,
        default_value = "table",
        help = "Format of the result: table, wide, json, yaml or name"
    )]
    format: Format,

    /// Print one JSON object, as -o json.
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// Show it again every second: until nothing more can change, or Ctrl-C.
    #[arg(long)]
    watch: bool,
}

/// Next step of `--watch` after a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    GoOn,
    End,
}

/// A list for people and for programs.
pub(crate) struct Listing<'a> {
    /// The list as programs get it.
    pub(crate) value: Value,
    /// Headings of all columns; the first column has the names.
    pub(crate) headings: &'a [&'a str],
    /// Number of the last columns, which only `-o wide` shows.
    pub(crate) wide: usize,
    pub(crate) rows: Vec<Vec<String>>,
    /// Message for people in place of an empty table.
    pub(crate) nothing: &'a str,
}

impl Output {
    pub(crate) fn format(&self) -> Format {
        if self.json {
            return Format::Json;
        }
        self.format
    }

    /// Whether people read it.
    pub(crate) fn is_for_people(&self) -> bool {
        matches!(self.format(), Format::Table | Format::Wide)
    }

    /// Shows something once, or with `--watch` until it has ended.
    pub(crate) fn repeat(&self, mut show: impl FnMut() -> Result<Watch, Exit>) -> Result<(), Exit> {
        if !self.watch {
            return show().map(drop);
        }
        loop {
            if io::stdout().is_terminal() {
                let mut screen = io::stdout().lock();
                let cleared = screen.write_all(CLEAR).and_then(|()| screen.flush());
                cleared.map_err(|error| Exit::failed(format!("the terminal: {error}")))?;
            }
            match show() {
                Ok(Watch::End) => return Ok(()),
                Ok(Watch::GoOn) => {}
                // Something may fit later.
                Err(exit) if exit.code == NOTHING => {}
                Err(exit) => return Err(exit),
            }
            thread::sleep(AGAIN);
        }
    }

    /// Prints a list.
    pub(crate) fn list(&self, colour: Colour, listing: Listing<'_>) -> Result<(), Exit> {
        let Listing { value, headings, wide, mut rows, nothing } = listing;
        let names = || rows.iter().filter_map(|row| row.first());
        match self.format() {
            Format::Json | Format::Yaml => return self.value(&value),
            Format::Name => return names().try_for_each(|name| print(&format!("{name}\n"))),
            Format::Table | Format::Wide => {}
        }
        if rows.is_empty() {
            tell!("{nothing}");
            return Ok(());
        }
        let hidden = if self.format() == Format::Wide { 0 } else { wide };
        let shown = headings.len() - hidden;
        rows.iter_mut().for_each(|row| row.truncate(shown));
        print(&table(Paint::stdout(colour), &headings[..shown], &rows))
    }

    /// Prints one thing.
    pub(crate) fn one(
        &self,
        name: &str,
        value: &Value,
        text: impl FnOnce() -> String,
    ) -> Result<(), Exit> {
        match self.format() {
            Format::Table | Format::Wide => print(&text()),
            Format::Name => print(&format!("{name}\n")),
            Format::Json | Format::Yaml => self.value(value),
        }
    }

    /// Prints one thing that people read as JSON too.
    pub(crate) fn json(&self, name: &str, value: &Value) -> Result<(), Exit> {
        self.one(name, value, || format!("{value:#}\n"))
    }

    /// Prints an answer with a list of things with names in a field; people read it as JSON too.
    pub(crate) fn json_list(&self, key: &str, value: &Value) -> Result<(), Exit> {
        if self.format() != Format::Name {
            return self.json(key, value);
        }
        let all = value[key].as_array().map(Vec::as_slice).unwrap_or_default();
        let names = all.iter().filter_map(|one| one["name"].as_str());
        names.into_iter().try_for_each(|name| print(&format!("{name}\n")))
    }

    /// Prints the field `times` of an answer, one a line for people.
    pub(crate) fn times(&self, answer: &Value) -> Result<(), Exit> {
        let times = answer["times"].as_array().map(Vec::as_slice).unwrap_or_default();
        let lines = times.iter().enumerate().filter_map(|(place, time)| {
            // Jitter lets a launch begin later than it is planned.
            let planned = answer["planned"][place].as_str().filter(|planned| planned != time);
            let planned = planned.map_or_else(String::new, |at| format!("  planned {at}"));
            Some(format!("{}{planned}\n", time.as_str()?))
        });
        match self.format() {
            Format::Json | Format::Yaml => self.value(answer),
            _ => lines.into_iter().try_for_each(|line| print(&line)),
        }
    }

    fn value(&self, value: &Value) -> Result<(), Exit> {
        match self.format() {
            Format::Yaml => print(&yaml::text(value)),
            _ => print_json(value),
        }
    }
}
