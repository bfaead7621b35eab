//! A definition that was read and checked, and what evaluates its expressions.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::expr::Program;
use crate::fault::Fault;
use crate::io::{Broker, Io, ScriptLanguage};
use crate::model::{Block, Extension, Span, Start, Task, TaskId, Transform};
use crate::read::{read, Missing, Programs};
use crate::schema::Schema;
use crate::text::{Problem, Problems};

/// A flow that was read and checked. Clones share it.
#[derive(Clone)]
pub struct Flow {
    definition: Arc<Definition>,
}

/// The parsed content of a text.
pub(crate) struct Definition {
    pub(crate) hash: String,
    pub(crate) source: Value,
    /// The text that it was read from, with its comments; nothing if that is not known.
    pub(crate) text: Option<String>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) title: Option<String>,
    pub(crate) input: Transform,
    pub(crate) output: Transform,
    pub(crate) timeout: Option<Span>,
    pub(crate) schedule: Option<Start>,
    pub(crate) main: Block,
    pub(crate) tasks: Vec<Task>,
    pub(crate) by_pointer: HashMap<String, TaskId>,
    pub(crate) extensions: Vec<Extension>,
    pub(crate) secrets: Vec<String>,
    pub(crate) needs: Vec<Need>,
    pub(crate) missing: Vec<Missing>,
    pub(crate) programs: Arc<Mutex<Programs>>,
}

/// Something that a host must have.
#[derive(Clone, Debug)]
pub(crate) struct Need {
    pub(crate) what: Needed,
    /// Place of the request, without a message.
    pub(crate) place: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    Script(ScriptLanguage),
    Container,
    Shell,
    Grpc,
    Broker(Broker),
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Flow").field(&self.id()).finish()
    }
}

impl Flow {
    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.definition.namespace
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Its version, a semantic one.
    pub fn version(&self) -> &str {
        &self.definition.version
    }

    /// Its title for people, if it has one.
    pub fn title(&self) -> Option<&str> {
        self.definition.title.as_deref()
    }

    /// Its id: `namespace/name:version`.
    pub fn id(&self) -> String {
        format!("{}/{}:{}", self.namespace(), self.name(), self.version())
    }

    /// The hash of its content: equal for the same content in YAML and JSON.
    pub fn hash(&self) -> &str {
        &self.definition.hash
    }

    /// The definition as data, as it was written.
    pub fn source(&self) -> &Value {
        &self.definition.source
    }

    /// The text that it was read from, with comments and in its order; nothing if it was read together
    /// with others. A flow of a store was read from its data: [`Flows::text`](crate::Flows::text).
    pub fn text(&self) -> Option<&str> {
        self.definition.text.as_deref()
    }

    /// The JSON schema of its input, if it has one, for forms.
    pub fn input_schema(&self) -> Option<&Value> {
        self.definition.input.schema.as_ref().map(Schema::document)
    }

    /// Checks an input against the schema of its input, as each start does at first.
    ///
    /// # Errors
    ///
    /// Which part of the input is not as the schema says, and why.
    pub fn check_input(&self, input: &Value) -> Result<(), String> {
        self.definition.check_input(input)
    }

    /// The names of the secrets that it uses.
    pub fn secrets(&self) -> &[String] {
        &self.definition.secrets
    }

    /// Its tasks: the JSON pointer of each, and what the DSL calls it.
    pub fn tasks(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let tasks = self.definition.tasks.iter().filter(|task| task.pointer != crate::run::STARTS);
        tasks.map(|task| (task.pointer.as_str(), task.kind.name()))
    }

    /// Requirements that a host with these effects does not meet, for instance an interpreter for a
    /// script or an engine for a container, each with its place in the text and a hint what to
    /// install; `None` if all are met. `path` names the source of the text.
    pub fn unmet(&self, io: &dyn Io, path: &str) -> Option<Problems> {
        let unmet = self.definition.needs.iter().filter_map(|need| {
            let problem = match need.what {
                Needed::Script(language) => io.script_problem(language),
                Needed::Container => io.container_problem(),
                Needed::Shell => io.command_problem(),
                Needed::Grpc => io.grpc_problem(),
                Needed::Broker(protocol) => io.broker_problem(protocol),
            };
            Some(Problem { message: problem?, ..need.place.clone() })
        });
        let all: Vec<Problem> = unmet.collect();
        (!all.is_empty()).then(|| Problems { path: path.to_owned(), all })
    }

    pub(crate) fn definition(&self) -> &Arc<Definition> {
        &self.definition
    }
}

/// Reads a text with one definition, YAML or JSON. `path` is what people are told where it is from.
///
/// # Errors
///
/// All that is wrong with it, each with line, column and a suggestion; also what is right and not
/// supported here, and a text with more than one definition.
///
/// ```
/// use turnwheel_flow as flow;
///
/// let text = "
/// document: { dsl: '1.0.3', namespace: shop, name: greet, version: '1.0.0' }
/// do:
///   - greet: { set: { text: '${ \"hello \\(.name)\" }' } }
/// ";
/// let greet = flow::load(text, "greet.yaml")?;
/// assert_eq!(greet.id(), "shop/greet:1.0.0");
///
/// let wrong = flow::load(&text.replace("set:", "sett:"), "greet.yaml").unwrap_err();
/// assert_eq!((wrong.all[0].line, wrong.all[0].column), (4, 14));
/// assert!(wrong.to_string().contains("did you mean «set»?"));
/// # Ok::<(), flow::Problems>(())
/// ```
pub fn load(text: &str, path: &str) -> Result<Flow, Problems> {
    let mut flows = load_all(text, path)?;
    if flows.len() > 1 {
        let problem = Problem {
            line: 1,
            column: 1,
            message: format!("there are {} definitions in it, and one is expected", flows.len()),
            suggestion: Some("put each into a file of its own".to_owned()),
            snippet: text.lines().next().unwrap_or_default().to_owned(),
        };
        return Err(Problems { path: path.to_owned(), all: vec![problem] });
    }
    let mut flow = flows.remove(0);
    // It was made just now, so nobody shares it.
    if let Some(definition) = Arc::get_mut(&mut flow.definition) {
        definition.text = Some(text.to_owned());
    }
    Ok(flow)
}

/// Reads a text with one definition or several, YAML documents one after the other.
///
/// # Errors
///
/// As [`load`].
pub fn load_all(text: &str, path: &str) -> Result<Vec<Flow>, Problems> {
    let definitions = read(text, path)?;
    Ok(definitions.into_iter().map(|it| Flow { definition: Arc::new(it) }).collect())
}

impl Definition {
    pub(crate) fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id]
    }

    /// Whether the schema of its input takes an input.
    pub(crate) fn check_input(&self, input: &Value) -> Result<(), String> {
        self.input.schema.as_ref().map_or(Ok(()), |schema| schema.validate(input))
    }

    /// A compiled expression.
    pub(crate) fn program(&self, text: &str, names: &[String]) -> Result<Arc<Program>, Fault> {
        let key = (names.join(","), text.to_owned());
        if let Some(program) = self.programs.lock().get(&key) {
            return Ok(Arc::clone(program));
        }
        let list: Vec<&str> = names.iter().map(String::as_str).collect();
        let program = Program::compile(text, &list);
        let program = Arc::new(program.map_err(|error| Fault::expression(error.message))?);
        self.programs.lock().insert(key, Arc::clone(&program));
        Ok(program)
    }
}
