//! Colours, on a terminal only, and tables.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, Write};

use turnwheel::engine::{PlanResult, PlanState, StepState};

use super::exit::{Exit, DONE};

/// Whether output is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Colour {
    /// If it goes to a terminal and `NO_COLOR` is not set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Colour {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "always" => Some(Self::Always),
            "never" => Some(Self::Never),
            _ => None,
        }
    }
}

/// Colours text, or does not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    is_on: bool,
}

impl Paint {
    /// For standard output.
    pub(crate) fn stdout(colour: Colour) -> Self {
        Self::of(colour, io::stdout().is_terminal())
    }

    fn of(colour: Colour, is_terminal: bool) -> Self {
        let says_no = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_on = match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => is_terminal && !says_no,
        };
        Self { is_on }
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.is_on && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.with("31", text)
    }

    pub(crate) fn warn(self, text: &str) -> String {
        self.with("33", text)
    }

    pub(crate) fn live(self, text: &str) -> String {
        self.with("36", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// The state of a plan, by its name.
    pub(crate) fn plan(self, state: &str) -> String {
        match PlanState::from_name(state) {
            Some(PlanState::Paused) => self.warn(state),
            Some(PlanState::Stopped) => self.dim(state),
            _ => self.live(state),
        }
    }

    /// The result of a plan, by its name.
    pub(crate) fn result(self, result: &str) -> String {
        match PlanResult::from_name(result) {
            Some(PlanResult::Success) => self.good(result),
            Some(PlanResult::Error) => self.bad(result),
            Some(PlanResult::Pending) => self.dim(result),
            _ => self.warn(result),
        }
    }

    /// The state of a step, by its name.
    pub(crate) fn step(self, state: &str) -> String {
        match StepState::from_name(state) {
            Some(StepState::Success) => self.good(state),
            Some(StepState::Error | StepState::RevertFailed) => self.bad(state),
            Some(StepState::Pending | StepState::Scheduling) => self.dim(state),
            Some(known) if known.is_live() => self.live(state),
            _ => self.warn(state),
        }
    }
}

/// Rows under headings; the last column is as long as it likes.
pub(crate) fn table(paint: Paint, headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = headings.iter().map(|heading| width(heading)).collect();
    for row in rows {
        for (place, cell) in row.iter().enumerate() {
            widths[place] = widths[place].max(width(cell));
        }
    }
    let line = |cells: &[String]| {
        let mut line = String::new();
        for (place, cell) in cells.iter().enumerate() {
            line.push_str(cell);
            if place + 1 < cells.len() {
                line.push_str(&" ".repeat(widths[place] - width(cell) + 2));
            }
        }
        format!("{}\n", line.trim_end())
    };
    let headings: Vec<String> = headings.iter().map(|heading| paint.bold(heading)).collect();
    rows.iter().fold(line(&headings), |text, row| text + &line(row))
}

/// Columns of a text, without its colours.
fn width(text: &str) -> usize {
    let (mut columns, mut is_code) = (0, false);
    for sign in text.chars() {
        match sign {
            '\x1b' => is_code = true,
            'm' if is_code => is_code = false,
            _ if is_code => {}
            _ => columns += 1,
        }
    }
    columns
}

/// So many of them: «1 plan», «2 plans».
pub(crate) fn count(number: usize, of: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {of}{plural}")
}

/// A text on one line without control characters, even from hostile input.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|sign| if is_command(sign) { ' ' } else { sign }).collect()
}

/// Whether a terminal may do something else with it than show it: control characters, also those of
/// eight bits, and marks that change the direction of what is around them.
fn is_command(sign: char) -> bool {
    sign.is_control()
        || matches!(sign, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The colours that [`Paint`] gives.
const COLOURS: [&str; 7] =
    ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"];

/// A text as a terminal may get it: commands are escaped as in JSON, but for line feeds, tabs and our
/// own colours. What a flow has read elsewhere must not move the cursor or rename the window.
fn harmless(text: &str) -> Cow<'_, str> {
    let is_kept = |sign: char| matches!(sign, '\n' | '\t') || !is_command(sign);
    if text.chars().all(is_kept) {
        return Cow::Borrowed(text);
    }
    let (mut safe, mut rest) = (String::with_capacity(text.len() + 16), text);
    while let Some(sign) = rest.chars().next() {
        let colour = COLOURS.iter().find(|colour| rest.starts_with(**colour));
        let length = colour.map_or(sign.len_utf8(), |colour| colour.len());
        if colour.is_some() || is_kept(sign) {
            safe.push_str(&rest[..length]);
        } else {
            safe.push_str(&format!("\\u{:04x}", u32::from(sign)));
        }
        rest = &rest[length..];
    }
    Cow::Owned(safe)
}

/// Prints a result.
///
/// A reader that stops early (`
///  head`) is no failure, and ends the output.
pub(crate) fn print(text: &str) -> Result<(), Exit> {
    let mut output = io::stdout().lock();
    let text = if output.is_terminal() { harmless(text) } else { Cow::Borrowed(text) };
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Exit::new(DONE, "")),
        Err(error) => Err(Exit::failed(format!("cannot write to standard output: {error}"))),
    }
}

/// Writes a line to standard error; a closed one is no failure.
macro_rules! tell {
    ($($said:tt)*) => { $crate::cli::paint::tell_line(format_args!($($said)*)) };
}

/// Writes a line to standard error, without commands if that is a terminal.
pub(crate) fn tell_line(said: fmt::Arguments<'_>) {
    let (line, mut error) = (format!("{said}\n"), io::stderr().lock());
    let line = if error.is_terminal() { harmless(&line) } else { Cow::Borrowed(&*line) };
    let _unread = error.write_all(line.as_bytes());
}

pub(crate) use tell;

/// Prints a value as JSON.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<(), Exit> {
    print(&format!("{value:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_seen() {
        let paint = Paint { is_on: true };
        let rows = [vec![paint.good("ok"), "1".into()], vec!["longer".into(), "2".into()]];
        let text = table(paint, &["state", "n"], &rows);
        let plain: Vec<usize> = text.lines().map(width).collect();
        assert_eq!(plain, [9, 9, 9]);
    }

    #[test]
    fn control_characters_are_not_shown() {
        assert_eq!(one_line("a\x1b[31m\nb\u{9b}\u{202e}"), "a [31m b  ");
        assert_eq!(harmless("two\n\tlines \x1b[31mred\x1b[0m"), "two\n\tlines \x1b[31mred\x1b[0m");
        assert_eq!(
            harmless("\x1b]0;x\x07\r\u{9b}A\u{202e}"),
            r"\u001b]0;x\u0007\u000d\u009bA\u202e"
        );
        assert_eq!(harmless("\x1b[8m\x1b[2J"), r"\u001b[8m\u001b[2J");
        assert_eq!(Paint::of(Colour::Never, true).good("x"), "x");
        assert_eq!(Paint::of(Colour::Always, false).good("x"), "\x1b[32mx\x1b[0m");
    }
}
