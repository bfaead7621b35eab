//! Reader of definitions from the tree of a text. All problems are collected, with their places and
//! similar valid values; unsupported parts are refused by name.
//!
//! | part | content |
//! | --- | --- |
//! | `fields` | objects with known fields, texts, numbers |
//! | `values` | expressions, templates, durations, schemas, directives |
//! | `document` | the entire document: document, use, schedule |
//! | `task` | tasks, and the fields of all of them |
//! | `call`, `mcp`, `process`, `listen`, `retry` | the parts of some tasks |
//! | `external` | schemas and functions that are elsewhere |
//! | `cycles` | endless recursion of functions |

mod a2a;
mod asyncapi;
mod call;
mod cycles;
mod document;
mod external;
mod fields;
mod grpc;
mod listen;
mod mcp;
mod process;
mod retry;
mod task;
mod values;

use std::collections::HashMap;

use super::definition::{Definition, Need};
use super::expr::Program;
use super::model::{Authentication, Extension, Retry, Span, Task, TaskId};
use super::text::{parse, Collector, Node, Problems, PROBLEMS_MAX};

use external::Pinned;
pub(crate) use external::{sha256, Missing};

/// Expressions that were compiled: by their variables and text.
pub(crate) type Programs = HashMap<(String, String), std::sync::Arc<Program>>;

/// Reads definitions.
pub(crate) struct Reader<'a> {
    text: &'a str,
    problems: Collector<'a>,
    is_loose: bool,
    tasks: Vec<Task>,
    programs: Programs,
    /// Variables of loops and handlers around what is being read.
    scope: Vec<String>,
    is_in_extension: bool,
    functions: HashMap<String, TaskId>,
    authentications: HashMap<String, Authentication>,
    errors: HashMap<String, serde_json::Value>,
    retries: HashMap<String, Retry>,
    timeouts: HashMap<String, Span>,
    extensions: Vec<Extension>,
    secrets: Vec<String>,
    needs: Vec<Need>,
    catalogs: HashMap<String, (String, Option<Authentication>)>,
    /// Resources that `document.metadata` has, by address.
    resources: HashMap<String, Pinned>,
    missing: Vec<Missing>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, path: &'a str) -> Self {
        Self {
            text,
            problems: Collector::new(text, path),
            is_loose: false,
            tasks: Vec::new(),
            programs: HashMap::new(),
            scope: Vec::new(),
            is_in_extension: false,
            functions: HashMap::new(),
            authentications: HashMap::new(),
            errors: HashMap::new(),
            retries: HashMap::new(),
            timeouts: HashMap::new(),
            extensions: Vec::new(),
            secrets: Vec::new(),
            needs: Vec::new(),
            catalogs: HashMap::new(),
            resources: HashMap::new(),
            missing: Vec::new(),
        }
    }
}

/// The definitions of a text.
pub(crate) fn read(text: &str, path: &str) -> Result<Vec<Definition>, Problems> {
    let mut problems = Collector::new(text, path);
    let nodes: Vec<Node> = parse(text, &mut problems);
    let nodes: Vec<Node> = nodes.into_iter().filter(|node| !node.is_nothing()).collect();
    if problems.is_empty() && nodes.is_empty() {
        let start = super::text::Place { line: 1, column: 1 };
        let hint = "begin with «document:», then «do:» and the tasks";
        problems.add(start, "there is no definition in it", Some(hint.to_owned()));
    }
    if !problems.is_empty() {
        return Err(problems.problems());
    }
    let mut definitions = Vec::new();
    let mut wrong = Problems { path: path.to_owned(), all: Vec::new() };
    for node in &nodes {
        if wrong.all.len() >= PROBLEMS_MAX {
            break;
        }
        match Reader::new(text, path).definition(node) {
            Ok(definition) => definitions.push(definition),
            Err(problems) => wrong.all.extend(problems.all),
        }
    }
    if wrong.all.is_empty() {
        Ok(definitions)
    } else {
        Err(wrong)
    }
}
