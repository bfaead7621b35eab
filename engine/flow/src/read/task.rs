//! Tasks, and what all of them have.

use std::collections::HashSet;

use super::document::escape;
use super::fields::{field, list, Fields};
use super::Reader;
use crate::expr::Template;
use crate::model::{Block, Case, Directive, For, Kind, Task, TaskId, Transform, Try};
use crate::scope::Stage;
use crate::text::{nearest, Content, Node};

/// Fields of all tasks.
const COMMON: [&str; 7] = ["if", "input", "output", "export", "timeout", "then", "metadata"];

/// Field that gives the kind of a task, and the other fields of that kind.
const KINDS: [(&str, &[&str]); 12] = [
    ("call", &["with"]),
    ("do", &[]),
    ("emit", &[]),
    ("for", &["while", "do"]),
    ("fork", &[]),
    ("listen", &["foreach"]),
    ("raise", &[]),
    ("run", &[]),
    ("set", &[]),
    ("switch", &[]),
    ("try", &["catch"]),
    ("wait", &[]),
];

impl Reader<'_> {
    /// A list of tasks. Each element has one name.
    pub(super) fn block(&mut self, node: &Node, pointer: &str) -> Block {
        self.tasks_of(node, pointer, true)
    }

    /// The same; tasks that are run at once lead to none of the others.
    fn tasks_of(&mut self, node: &Node, pointer: &str, are_in_order: bool) -> Block {
        let items = self.list(node, "a list of tasks");
        let (mut named, mut names) = (Vec::new(), HashSet::new());
        for (index, item) in items.iter().enumerate() {
            if let Some((name, task)) = self.single(item, "an element of a list of tasks") {
                if !names.insert(name.clone()) {
                    let message = format!("there are two tasks «{name}» in this list");
                    self.wrong_so(item, message, "give each its own name");
                }
                named.push((index, name, task));
            }
        }
        let siblings: Vec<String> = named.iter().map(|(_, name, _)| name.clone()).collect();
        let mut siblings: Vec<&str> = siblings.iter().map(String::as_str).collect();
        if !are_in_order {
            siblings.clear();
        }
        let first = self.tasks.len();
        self.reserve(named.len());
        for (at, (index, name, task)) in named.iter().enumerate() {
            let pointer = format!("{pointer}/{index}/{}", escape(name));
            self.task_at(first + at, name, task, pointer, &siblings);
        }
        (first..first + named.len()).collect()
    }

    /// An object with one field.
    pub(super) fn single<'n>(&mut self, node: &'n Node, what: &str) -> Option<(String, &'n Node)> {
        let fields = self.map(node, what);
        match fields {
            [(name, _, value)] => Some((name.clone(), value)),
            _ => {
                if matches!(node.content, Content::Map(_)) {
                    let message = format!("{what} has {} names instead of one", fields.len());
                    self.wrong_so(node, message, "begin each task with «- name:»");
                }
                None
            }
        }
    }

    /// Places for tasks that are read next.
    pub(super) fn reserve(&mut self, tasks: usize) {
        for _ in 0..tasks {
            self.tasks.push(Task {
                pointer: String::new(),
                name: String::new(),
                definition: serde_json::Value::Null,
                condition: None,
                input: Transform::default(),
                output: Transform::default(),
                export: Transform::default(),
                timeout: None,
                then: Directive::Continue,
                kind: Kind::Do(Vec::new()),
                is_of_extension: self.is_in_extension,
            });
        }
    }

    /// Reads a task into its place.
    pub(super) fn task_at(
        &mut self,
        id: TaskId,
        name: &str,
        node: &Node,
        pointer: String,
        siblings: &[&str],
    ) {
        if self.problems.is_full() {
            return;
        }
        let what = format!("the task «{name}»");
        let fields = self.map(node, &what);
        // A loop has a list of tasks, too: «for» says what it is.
        let is_for = field(fields, "for").is_some();
        let kinds: Vec<&str> = KINDS
            .iter()
            .map(|(kind, _)| *kind)
            .filter(|kind| field(fields, kind).is_some() && !(is_for && *kind == "do"))
            .collect();
        let [kind] = kinds.as_slice() else {
            return self.no_kind(node, &what, fields, &kinds);
        };
        let own = KINDS.iter().find(|(known, _)| known == kind).map_or(&[][..], |(_, own)| own);
        let known: Vec<&str> =
            COMMON.iter().copied().chain([*kind]).chain(own.iter().copied()).collect();
        self.object(node, &what, &known, &[]);
        let is_effect = match *kind {
            "call" => true,
            "run" => field(fields, "run").is_some_and(|run| run.get("workflow").is_none()),
            _ => false,
        };
        let definition = Stage::Definition { is_effect };
        let is_plain_call = field(fields, "call").is_some_and(|call| {
            matches!(&call.content, Content::Text(name) if name == "http" || name == "openapi")
        });
        let is_effect = is_effect && (*kind == "run" || is_plain_call);
        let condition = field(fields, "if");
        let condition = condition.and_then(|n| self.expression(n, "«if»", Stage::Condition));
        let mut transform = |name: &str, with: &str, stage: Stage| {
            let node = field(fields, name);
            node.map(|node| self.transform(node, name, with, stage)).unwrap_or_default()
        };
        let input = transform("input", "from", Stage::Input { is_effect });
        let output = transform("output", "as", Stage::Output);
        let export = transform("export", "as", Stage::Export);
        let timeout = field(fields, "timeout").and_then(|node| self.timeout(node, "timeout"));
        let then = field(fields, "then").map(|node| self.directive(node, siblings));
        if let Some(metadata) = field(fields, "metadata") {
            self.map(metadata, "metadata");
        }
        let body = field(fields, kind).expect("it was found above");
        let stage = if is_effect { definition } else { Stage::Definition { is_effect: false } };
        let kind = self.kind(kind, body, fields, &pointer, siblings, stage);
        self.limit_messages(kind.as_ref(), timeout.as_ref());
        let task = &mut self.tasks[id];
        task.pointer = pointer;
        task.name = name.to_owned();
        task.definition = node.to_value();
        (task.condition, task.input, task.output, task.export) = (condition, input, output, export);
        task.timeout = timeout;
        task.then = then.unwrap_or_default();
        if let Some(kind) = kind {
            task.kind = kind;
        }
    }

    fn no_kind(&mut self, node: &Node, what: &str, fields: Fields<'_>, kinds: &[&str]) {
        if !matches!(node.content, Content::Map(_)) {
            return;
        }
        if kinds.len() > 1 {
            return self.wrong(node, format!("{what} is several things at once: {}", list(kinds)));
        }
        let names: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
        let unknown = fields.iter().find(|(name, _, _)| !COMMON.contains(&name.as_str()));
        if let Some((name, at, _)) = unknown {
            let hint = match nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean «{near}»?"),
                None => format!("a task has one of {}", list(&names)),
            };
            let message = format!("{what} has no field «{name}»");
            return self.problems.add(*at, message, Some(hint));
        }
        let hint = format!("a task has one of {}", list(&names));
        self.wrong_so(node, format!("{what} does not say what it does"), &hint);
    }

    fn kind(
        &mut self,
        kind: &str,
        body: &Node,
        fields: Fields<'_>,
        pointer: &str,
        siblings: &[&str],
        stage: Stage,
    ) -> Option<Kind> {
        match kind {
            "call" => self.call(body, field(fields, "with"), pointer, stage),
            "do" => Some(Kind::Do(self.block(body, &format!("{pointer}/do")))),
            "emit" => self.emit(body),
            "for" => self.for_(body, fields, pointer),
            "fork" => self.fork(body, pointer),
            "listen" => self.listen(body, field(fields, "foreach"), pointer),
            "raise" => self.raise(body),
            "run" => self.run(body, stage),
            "set" => self.set(body),
            "switch" => Some(self.switch(body, siblings)),
            "try" => self.try_(body, field(fields, "catch"), fields, pointer),
            "wait" => self.span(body, "«wait»", stage).map(Kind::Wait),
            _ => None,
        }
    }

    fn set(&mut self, node: &Node) -> Option<Kind> {
        let stage = Stage::Definition { is_effect: false };
        match &node.content {
            Content::Map(fields) if fields.is_empty() => {
                self.wrong(node, "«set» sets nothing");
                None
            }
            Content::Map(_) => Some(Kind::Set(self.template(node, "«set»", stage))),
            _ => {
                let text = self.expression(node, "«set»", stage)?;
                Some(Kind::Set(Template::Expression(text)))
            }
        }
    }

    fn switch(&mut self, node: &Node, siblings: &[&str]) -> Kind {
        let items = self.list(node, "«switch»");
        let mut cases = Vec::new();
        let mut has_default = false;
        for item in items {
            let Some((name, case)) = self.single(item, "a case of «switch»") else { continue };
            let what = format!("the case «{name}»");
            let fields = self.object(case, &what, &["when", "then"], &["then"]);
            let stage = Stage::Definition { is_effect: false };
            let when = field(fields, "when").and_then(|n| self.expression(n, "«when»", stage));
            if field(fields, "when").is_none() && std::mem::replace(&mut has_default, true) {
                self.wrong(case, "there are two cases without «when»");
            }
            let then = field(fields, "then").map(|node| self.directive(node, siblings));
            cases.push(Case { when, then: then.unwrap_or_default() });
        }
        if cases.is_empty() {
            self.wrong(node, "«switch» has no cases");
        }
        Kind::Switch(cases)
    }

    fn for_(&mut self, node: &Node, fields: Fields<'_>, pointer: &str) -> Option<Kind> {
        let own = self.object(node, "«for»", &["each", "in", "at"], &["in"]);
        let mut variable = |name: &str, default: &str| {
            let node = field(own, name);
            node.and_then(|node| self.variable(node)).unwrap_or_else(|| default.to_owned())
        };
        let (each, at) = (variable("each", "item"), variable("at", "index"));
        self.two_names(node, &each, &at);
        let stage = Stage::Definition { is_effect: false };
        let list = field(own, "in").and_then(|node| self.expression(node, "«for.in»", stage));
        self.scope.extend([each.clone(), at.clone()]);
        let condition = field(fields, "while");
        let condition = condition.and_then(|node| self.expression(node, "«while»", stage));
        let Some(block) = field(fields, "do") else {
            self.wrong(node, "a loop must have the field «do»");
            self.scope.truncate(self.scope.len() - 2);
            return None;
        };
        let block = self.block(block, &format!("{pointer}/do"));
        self.scope.truncate(self.scope.len() - 2);
        let list = list?;
        Some(Kind::For(Box::new(For { each, at, list, condition, block })))
    }

    /// An element and its place must not have the same name.
    pub(super) fn two_names(&mut self, node: &Node, element: &str, place: &str) {
        if element == place {
            let message = format!("the element and its place are both ${element}");
            self.wrong_so(node, message, "give one of them another name");
        }
    }

    /// The name of a variable.
    pub(super) fn variable(&mut self, node: &Node) -> Option<String> {
        let name = self.text(node, "the name of a variable")?;
        let mut characters = name.chars();
        let is_good = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && characters.all(|c| c.is_ascii_alphanumeric() || c == '_');
        let taken = [
            "context",
            "input",
            "output",
            "secrets",
            "task",
            "workflow",
            "runtime",
            "authorization",
            "ENV",
            "__loc__",
        ];
        if !is_good {
            let hint = "letters, digits and underscores, no digit first, without $";
            self.wrong_so(node, format!("a variable cannot be called «{name}»"), hint);
            return None;
        }
        if taken.contains(&name.as_str()) {
            self.wrong(node, format!("${name} is a variable of the DSL"));
            return None;
        }
        Some(name)
    }

    fn fork(&mut self, node: &Node, pointer: &str) -> Option<Kind> {
        let fields = self.object(node, "«fork»", &["branches", "compete"], &["branches"]);
        let is_race = field(fields, "compete").is_some_and(|n| self.boolean(n, "«fork.compete»"));
        let branches = field(fields, "branches")?;
        let branches = self.tasks_of(branches, &format!("{pointer}/fork/branches"), false);
        if branches.is_empty() {
            self.wrong(node, "«fork» has no branches");
        }
        Some(Kind::Fork { branches, is_race })
    }

    fn try_(
        &mut self,
        node: &Node,
        catch: Option<&Node>,
        _: Fields<'_>,
        pointer: &str,
    ) -> Option<Kind> {
        let block = self.block(node, &format!("{pointer}/try"));
        let Some(catch) = catch else {
            self.wrong(node, "«try» must have the field «catch»");
            return None;
        };
        let known = ["errors", "as", "when", "exceptWhen", "retry", "do"];
        let fields = self.object(catch, "«catch»", &known, &[]);
        let filter = field(fields, "errors").map(|node| {
            let fields = self.object(node, "«catch.errors»", &["with"], &[]);
            field(fields, "with").map(|node| {
                let known = ["type", "status", "instance", "title", "details", "detail"];
                let properties = self.object(node, "«catch.errors.with»", &known, &[]);
                properties.iter().for_each(|(name, _, value)| self.error_property(name, value));
                if properties.is_empty() && matches!(node.content, Content::Map(_)) {
                    let hint = "say which errors are caught, or remove «errors» to catch all";
                    self.wrong_so(node, "«catch.errors.with» has no properties", hint);
                }
                self.data_object(node, "«catch.errors.with»")
            })
        });
        let filter = filter.flatten().unwrap_or_default();
        let variable = field(fields, "as").and_then(|node| self.variable(node));
        let variable = variable.unwrap_or_else(|| "error".to_owned());
        self.scope.push(variable.clone());
        let stage = Stage::Definition { is_effect: false };
        let when = field(fields, "when").and_then(|n| self.expression(n, "«when»", stage));
        let except_when = field(fields, "exceptWhen");
        let except_when = except_when.and_then(|n| self.expression(n, "«exceptWhen»", stage));
        let retry = field(fields, "retry").and_then(|node| self.retry_or_name(node));
        let handler = field(fields, "do");
        let handler = handler.map(|node| self.block(node, &format!("{pointer}/catch/do")));
        self.scope.pop();
        let try_ = Try { block, filter, variable, when, except_when, retry, handler };
        Some(Kind::Try(Box::new(try_)))
    }
}
