//! Problems of a definition, and their places.

use std::fmt;

use super::node::Place;

/// More problems than these are not kept: the first ones tell what to do.
pub(crate) const PROBLEMS_MAX: usize = 100;

/// Characters of a line that are shown.
const SNIPPET_MAX: usize = 160;

/// One thing that is wrong with a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The problem, its place in the definition, and the expected value.
    pub message: String,
    /// A similar valid value, or a hint.
    pub suggestion: Option<String>,
    /// The line's text; of a long line what is around the column.
    pub snippet: String,
}

/// Characters of what is said about one thing: it may quote what was written.
const MESSAGE_MAX: usize = 1_000;

/// A text that quotes what was written, however long that is.
fn shortened(text: String) -> String {
    match text.char_indices().nth(MESSAGE_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Begin of the part of a line that is shown for a column, and the mark for the omitted part.
fn window(column: usize) -> (usize, &'static str) {
    if column <= SNIPPET_MAX {
        (0, "")
    } else {
        (column - SNIPPET_MAX / 2, "… ")
    }
}

/// All that is wrong with a definition: nothing of it is loaded then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// Source of the text.
    pub path: String,
    /// In the order of the text; never empty.
    pub all: Vec<Problem>,
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.all.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            let Problem { line, column, message, suggestion, snippet } = problem;
            writeln!(f, "{}:{line}:{column}: {message}", self.path)?;
            writeln!(f, "  | {snippet}")?;
            let (begin, left_out) = window(*column);
            let before = left_out.chars().count() + column.saturating_sub(1 + begin);
            write!(f, "  | {}^", " ".repeat(before))?;
            if let Some(suggestion) = suggestion {
                write!(f, "\n  = {suggestion}")?;
            }
        }
        Ok(())
    }
}

/// Collects problems while a text is read.
#[derive(Debug)]
pub(crate) struct Collector<'a> {
    text: &'a str,
    path: &'a str,
    /// The begin of the messages: the resource that is read.
    within: Option<String>,
    all: Vec<Problem>,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(text: &'a str, path: &'a str) -> Self {
        Self { text, path, within: None, all: Vec::new() }
    }

    pub(crate) fn add(
        &mut self,
        at: Place,
        message: impl fmt::Display,
        suggestion: Option<String>,
    ) {
        let within = self.within.as_deref().unwrap_or_default();
        let message = shortened(format!("{within}{message}"));
        // A problem repeated by an alias is reported once.
        let is_same = |known: &Problem| {
            (known.line, known.column, &known.message) == (at.line, at.column, &message)
        };
        if self.is_full() || self.all.iter().any(is_same) {
            return;
        }
        let problem = self.problem(at, message, suggestion);
        self.all.push(problem);
    }

    /// Sets the begin of the messages from now on; the one before.
    pub(crate) fn within(&mut self, begin: Option<String>) -> Option<String> {
        std::mem::replace(&mut self.within, begin)
    }

    /// Whether more problems are not kept: looking for them is of no use.
    pub(crate) fn is_full(&self) -> bool {
        self.all.len() >= PROBLEMS_MAX
    }

    /// A problem that is not added.
    pub(crate) fn problem(
        &self,
        at: Place,
        message: impl fmt::Display,
        suggestion: Option<String>,
    ) -> Problem {
        let text = self.text.lines().nth(at.line.saturating_sub(1)).unwrap_or_default();
        let (begin, left_out) = window(at.column);
        let shown = text.chars().skip(begin).take(SNIPPET_MAX);
        let shown = shown.map(|sign| if sign.is_control() { ' ' } else { sign });
        let snippet = left_out.chars().chain(shown).collect();
        let (message, suggestion) = (shortened(message.to_string()), suggestion.map(shortened));
        Problem { line: at.line, column: at.column, message, suggestion, snippet }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All of them, in the order of the text.
    pub(crate) fn problems(mut self) -> Problems {
        self.all.sort_by_key(|problem| (problem.line, problem.column));
        Problems { path: self.path.to_owned(), all: self.all }
    }
}
