//! Parts of flows that the crate of journeys needs beside the public interface: conditions, and
//! definitions with places. Not for users: it changes without notice.

use serde_json::Value;

use crate::expr::{quickly, strip, Program};
pub use crate::text::nearest;
use crate::text::{parse, Collector, Content, Node, Place, Problem, Problems};

/// A condition or another expression of jq, compiled, within the limits of flows.
#[derive(Debug)]
pub struct Expression(Program);

impl Expression {
    /// Compiles a text, with or without `${ }` around it.
    ///
    /// # Errors
    ///
    /// The problem with it.
    pub fn compile(text: &str) -> Result<Self, String> {
        Program::compile(strip(text).unwrap_or(text), &[])
            .map(Self)
            .map_err(|problem| problem.message)
    }

    /// Evaluates it. No result is `null`; several are an array.
    ///
    /// # Errors
    ///
    /// It has failed, or exceeds its limits.
    pub fn run(&self, input: &Value, now: f64) -> Result<Value, String> {
        self.0.run(input, &[], now).map_err(|failure| failure.to_string())
    }

    /// The same, within some milliseconds of work: for a task that others wait for.
    ///
    /// # Errors
    ///
    /// As [`Expression::run`], or it takes longer than that.
    pub fn run_quickly(&self, input: &Value, now: f64) -> Result<Value, String> {
        let done = quickly(|| self.run(input, now));
        done.unwrap_or_else(|| Err("it takes too many steps".to_owned()))
    }
}

/// Text of a definition in YAML or JSON, with the places of its parts.
#[derive(Debug)]
pub struct Source<'a> {
    text: &'a str,
    path: &'a str,
    root: Node,
}

/// A problem of a part of a definition.
#[derive(Clone, Debug)]
pub struct Complaint {
    /// The names and numbers that lead to the part.
    pub at: Vec<String>,
    /// The problem.
    pub message: String,
    /// The remedy.
    pub suggestion: Option<String>,
}

impl<'a> Source<'a> {
    /// Reads a text with one document.
    ///
    /// # Errors
    ///
    /// It is neither YAML nor JSON.
    pub fn read(text: &'a str, path: &'a str) -> Result<Self, Problems> {
        let mut problems = Collector::new(text, path);
        let mut documents = parse(text, &mut problems);
        if problems.is_empty() && documents.len() != 1 {
            let found = documents.len();
            let message = format!("the text must have one document and has {found}");
            problems.add(Place { line: 1, column: 1 }, message, None);
        }
        match problems.is_empty() {
            true => Ok(Self { text, path, root: documents.remove(0) }),
            false => Err(problems.problems()),
        }
    }

    /// Its data.
    pub fn value(&self) -> Value {
        self.root.to_value()
    }

    /// Names of an object, in the order of the text.
    pub fn names(&self, at: &[&str]) -> Vec<String> {
        let mut node = &self.root;
        for step in at {
            match node.get(step) {
                Some(part) => node = part,
                None => return Vec::new(),
            }
        }
        match &node.content {
            Content::Map(fields) => fields.iter().map(|(name, _, _)| name.clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// The problems with their places.
    pub fn problems(&self, complaints: Vec<Complaint>) -> Problems {
        let mut problems = Collector::new(self.text, self.path);
        for Complaint { at, message, suggestion } in complaints {
            problems.add(self.place(&at), message, suggestion);
        }
        problems.problems()
    }

    /// A problem of the whole.
    pub fn problem(&self, message: impl std::fmt::Display) -> Problem {
        Collector::new(self.text, self.path).problem(self.root.at, message, None)
    }

    /// The place of a part, or of the part that should have it.
    fn place(&self, at: &[String]) -> Place {
        let (mut node, mut place) = (&self.root, self.root.at);
        for step in at {
            let next = match &node.content {
                Content::Map(fields) => {
                    fields.iter().find(|(name, _, _)| name == step).map(|it| (it.1, &it.2))
                }
                Content::List(items) => {
                    step.parse().ok().and_then(|i: usize| items.get(i)).map(|it| (it.at, it))
                }
                _ => None,
            };
            match next {
                Some((at, part)) => (node, place) = (part, at),
                None => break,
            }
        }
        place
    }
}

/// Reads a duration of ISO 8601, such as `PT1H30M`.
///
/// # Errors
///
/// The text to write instead.
pub fn duration(text: &str) -> Result<std::time::Duration, String> {
    crate::duration::parse(text)
}
