//! What is wrong with a definition, and where.

use std::fmt;

use super::node::Place;

/// More problems than these are not kept: the first ones tell what to do.
const PROBLEMS_MAX: usize = 100;

/// One thing that is wrong with a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// What is wrong: what, where in the definition, and what is expected.
    pub message: String,
    /// What was meant perhaps, or what to do.
    pub suggestion: Option<String>,
    /// The line's text.
    pub snippet: String,
}

/// All that is wrong with a definition: nothing of it is loaded then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// Where the text is from.
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
            write!(f, "  | {}^", " ".repeat(column.saturating_sub(1)))?;
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
    all: Vec<Problem>,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(text: &'a str, path: &'a str) -> Self {
        Self { text, path, all: Vec::new() }
    }

    pub(crate) fn add(
        &mut self,
        at: Place,
        message: impl fmt::Display,
        suggestion: Option<String>,
    ) {
        if self.all.len() >= PROBLEMS_MAX {
            return;
        }
        let problem = self.problem(at, message, suggestion);
        if !self.all.contains(&problem) {
            self.all.push(problem);
        }
    }

    /// A problem that is not added.
    pub(crate) fn problem(
        &self,
        at: Place,
        message: impl fmt::Display,
        suggestion: Option<String>,
    ) -> Problem {
        let line = self.text.lines().nth(at.line.saturating_sub(1)).unwrap_or_default();
        let snippet: String =
            line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
        let (line, column, message) = (at.line, at.column, message.to_string());
        Problem { line, column, message, suggestion, snippet }
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
