//! A definition as users walk through it: elements by number, expressions compiled when first used.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use turnwheel_flow::internal::{duration, Expression};

use crate::check::as_expression;
use crate::definition::Definition;
use crate::element::{Element, Kind, Rule, Settings, UnderWay, Unmatched};

/// A version of a journey.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) journey: u32,
    pub(crate) version: u32,
    pub(crate) name: String,
    pub(crate) settings: Settings,
    pub(crate) nodes: Vec<Node>,
    numbers: HashMap<String, u16>,
}

/// An element.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    /// Lines of an element, or the one element behind a line.
    pub(crate) next: Vec<u16>,
    pub(crate) tests: Vec<Test>,
    /// Whether it is the line that is followed if no other is.
    pub(crate) is_default: bool,
    pub(crate) is_parallel: bool,
    pub(crate) wait: Option<Duration>,
    pub(crate) unmatched: Unmatched,
    pub(crate) send: Option<(String, Content)>,
    pub(crate) set: Option<Lazy>,
}

/// A part of a condition.
#[derive(Debug)]
pub(crate) enum Test {
    Kind(String),
    Contains(String),
    Equals(String),
    If(Lazy),
}

/// An expression that was checked, compiled when it is first used: a start with a thousand
/// definitions does not wait for a compiler.
#[derive(Debug)]
pub(crate) struct Lazy {
    text: String,
    compiled: OnceLock<Result<Expression, String>>,
}

/// Content of a message.
#[derive(Debug)]
pub(crate) enum Content {
    Value(Value),
    Expression(Lazy),
    List(Vec<Content>),
    Fields(Vec<(String, Content)>),
}

impl Lazy {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), compiled: OnceLock::new() }
    }

    pub(crate) fn run(
        &self,
        scope: &impl Deref<Target = Value>,
        now_ms: u64,
    ) -> Result<Value, String> {
        let compiled = self.compiled.get_or_init(|| Expression::compile(&self.text));
        let expression = compiled.as_ref().map_err(Clone::clone)?;
        let done = expression.run_quickly(scope, now_ms as f64 / 1_000.0);
        done.map_err(|problem| format!("{}: {problem}", self.text))
    }
}

impl Content {
    fn of(value: &Value) -> Self {
        match value {
            Value::String(text) => match as_expression(text) {
                Some(text) => Self::Expression(Lazy::new(text)),
                None => Self::Value(value.clone()),
            },
            Value::Array(items) => Self::List(items.iter().map(Self::of).collect()),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| (name.clone(), Self::of(value)));
                Self::Fields(fields.collect())
            }
            other => Self::Value(other.clone()),
        }
    }

    pub(crate) fn fill(
        &self,
        scope: &impl Deref<Target = Value>,
        now_ms: u64,
    ) -> Result<Value, String> {
        match self {
            Self::Value(value) => Ok(value.clone()),
            Self::Expression(expression) => expression.run(scope, now_ms),
            Self::List(items) => items.iter().map(|item| item.fill(scope, now_ms)).collect(),
            Self::Fields(fields) => {
                let field = |(name, content): &(String, Self)| {
                    Ok((name.clone(), content.fill(scope, now_ms)?))
                };
                fields.iter().map(field).collect()
            }
        }
    }
}

impl Chart {
    /// Of a definition that was checked.
    pub(crate) fn new(definition: &Definition, journey: u32, version: u32) -> Self {
        let elements = &definition.elements;
        let ids =
            elements.iter().zip(0..).map(|(element, number)| (element.id.to_string(), number));
        let numbers: HashMap<String, u16> = ids.collect();
        let mut nodes: Vec<Node> =
            elements.iter().map(|element| Node::new(element, &numbers)).collect();
        for number in 0..nodes.len() {
            infer_default(&mut nodes, number);
        }
        let (name, settings) = (definition.name.clone(), definition.settings.clone());
        Self { journey, version, name, settings, nodes, numbers }
    }

    pub(crate) fn node(&self, number: u16) -> Option<&Node> {
        self.nodes.get(usize::from(number))
    }

    pub(crate) fn number(&self, id: &str) -> Option<u16> {
        self.numbers.get(id).copied()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.id.as_str())
    }

    /// Starts, in their order.
    pub(crate) fn starts(&self) -> impl Iterator<Item = (u16, &Node)> {
        (0..).zip(&self.nodes).filter(|(_, node)| node.kind == Kind::Start)
    }

    /// Whether users under way on older versions move to this one.
    pub(crate) fn moves_users(&self) -> bool {
        self.settings.under_way == UnderWay::Move
    }

    /// The trigger for a user who waits at an element of the version before.
    pub(crate) fn place_of(&self, id: &str) -> Option<u16> {
        let number = self.number(self.settings.moves.get(id).map_or(id, String::as_str))?;
        (self.node(number)?.kind == Kind::Trigger).then_some(number)
    }

    /// The line that is taken when a wait is over.
    pub(crate) fn default_line(&self, node: &Node) -> Option<u16> {
        let is_default = |line: &&u16| self.node(**line).is_some_and(|line| line.is_default);
        node.next.iter().find(is_default).copied()
    }

    pub(crate) fn id(&self, number: u16) -> &str {
        self.node(number).map_or("?", |node| node.id.as_str())
    }
}

/// Of several lines the only one without a condition is the default one, unless one is marked.
fn infer_default(nodes: &mut [Node], number: usize) {
    let node = &nodes[number];
    let lines: Vec<usize> = node.next.iter().copied().map(usize::from).collect();
    let is_choice = matches!(node.kind, Kind::Trigger | Kind::Rule | Kind::Start | Kind::Action);
    if !is_choice || node.is_parallel || lines.len() < 2 {
        return;
    }
    if lines.iter().any(|line| nodes[*line].is_default) {
        return;
    }
    let mut free = lines.into_iter().filter(|line| nodes[*line].tests.is_empty());
    if let (Some(line), None) = (free.next(), free.next()) {
        nodes[line].is_default = true;
    }
}

impl Node {
    fn new(element: &Element, numbers: &HashMap<String, u16>) -> Self {
        let extensions = &element.extensions;
        let next = element.outgoings.iter().filter_map(|id| numbers.get(&id.to_string()));
        let send = element.channel().map(|channel| {
            let content = match &extensions.send {
                Some(send) => Content::of(&send.with),
                None => {
                    let rules = serde_json::to_value(&element.properties).unwrap_or_default();
                    let body = serde_json::json!({ "element": element.id, "properties": rules });
                    Content::Value(body)
                }
            };
            (channel.to_owned(), content)
        });
        Self {
            id: element.id.to_string(),
            kind: element.kind,
            next: next.copied().collect(),
            tests: element.properties.iter().flat_map(tests).collect(),
            is_default: extensions.default,
            is_parallel: extensions.parallel,
            wait: extensions.wait.as_deref().and_then(|text| duration(text).ok()),
            unmatched: extensions.unmatched.unwrap_or_default(),
            send,
            set: extensions.set.as_deref().map(Lazy::new),
        }
    }

    /// When a wait that begins here at a time is over; never if it has no end.
    pub(crate) fn due(&self, since_ms: u64) -> Option<u64> {
        let wait = self.wait?.as_millis();
        Some(since_ms.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    /// The kind of event that it names.
    pub(crate) fn event(&self) -> Option<&str> {
        self.tests.iter().find_map(|test| match test {
            Test::Kind(kind) => Some(kind.as_str()),
            _ => None,
        })
    }
}

fn tests(rule: &Rule) -> Vec<Test> {
    let texts = [
        rule.event.clone().map(Test::Kind),
        rule.contains.clone().map(Test::Contains),
        rule.equals.clone().map(Test::Equals),
        rule.condition.as_deref().map(|text| Test::If(Lazy::new(text))),
    ];
    texts.into_iter().flatten().collect()
}
