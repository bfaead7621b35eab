//! Events: emitting and listening.

use super::fields::{field, Fields};
use super::Reader;
use crate::expr::{strip, Template};
use crate::model::{Correlation, Filter, ForEach, Kind, Listen, ReadAs, Strategy, Until};
use crate::scope::Stage;
use crate::text::{Content, Node};

const STAGE: Stage = Stage::Definition { is_effect: false };

impl Reader<'_> {
    pub(super) fn emit(&mut self, node: &Node) -> Option<Kind> {
        let fields = self.object(node, "«emit»", &["event"], &["event"]);
        let event = field(fields, "event")?;
        let fields = self.object(event, "«emit.event»", &["with"], &["with"]);
        let with = field(fields, "with")?;
        let properties = self.map(with, "«emit.event.with»");
        for name in ["source", "type"] {
            if field(properties, name).is_none() {
                self.wrong(with, format!("«emit.event.with» must have the field «{name}»"));
            }
        }
        self.attribute_names(properties);
        Some(Kind::Emit(self.template(with, "«emit.event.with»", STAGE)))
    }

    /// CloudEvents has rules for the names of attributes.
    fn attribute_names(&mut self, properties: Fields<'_>) {
        for (name, at, _) in properties {
            let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            if !name.chars().all(is_good) || name.is_empty() {
                let hint = "lower case letters and digits, by CloudEvents 1.0".to_owned();
                let message = format!("an event has no attribute «{name}»");
                self.problems.add(*at, message, Some(hint));
            }
        }
    }

    pub(super) fn listen(
        &mut self,
        node: &Node,
        each: Option<&Node>,
        pointer: &str,
    ) -> Option<Kind> {
        let fields = self.object(node, "«listen»", &["to", "read"], &["to"]);
        let reads = [("data", ReadAs::Data), ("envelope", ReadAs::Envelope), ("raw", ReadAs::Raw)];
        let read = field(fields, "read").and_then(|n| self.choice(n, "«listen.read»", &reads));
        let strategy = field(fields, "to").and_then(|n| self.strategy(n, "«listen.to»", true));
        let each = each.map(|node| self.for_each(node, pointer));
        let (strategy, read) = (strategy?, read.unwrap_or_default());
        Some(Kind::Listen(Box::new(Listen { strategy, read, each })))
    }

    pub(super) fn for_each(&mut self, node: &Node, pointer: &str) -> ForEach {
        let known = ["item", "at", "do", "output", "export"];
        let fields = self.object(node, "«foreach»", &known, &[]);
        let mut variable = |name: &str, default: &str| {
            let node = field(fields, name);
            node.and_then(|node| self.variable(node)).unwrap_or_else(|| default.to_owned())
        };
        let (item, at) = (variable("item", "item"), variable("at", "index"));
        self.two_names(node, &item, &at);
        self.scope.extend([item.clone(), at.clone()]);
        let block = field(fields, "do");
        let block = block.map(|node| self.block(node, &format!("{pointer}/foreach/do")));
        let mut transform = |name: &str, stage: Stage| {
            let node = field(fields, name);
            node.map(|node| self.transform(node, name, "as", stage)).unwrap_or_default()
        };
        let (output, export) =
            (transform("output", Stage::Output), transform("export", Stage::Export));
        self.scope.truncate(self.scope.len() - 2);
        ForEach { item, at, block: block.unwrap_or_default(), output, export }
    }

    /// Events to wait for.
    pub(super) fn strategy(
        &mut self,
        node: &Node,
        what: &str,
        may_until: bool,
    ) -> Option<Strategy> {
        let fields = self.object(node, what, &["one", "any", "all", "until"], &[]);
        let ways: Vec<&str> =
            ["one", "any", "all"].into_iter().filter(|way| field(fields, way).is_some()).collect();
        let [way] = ways.as_slice() else {
            if matches!(node.content, Content::Map(_)) {
                self.wrong(node, format!("{what} must have one of «one», «any» and «all»"));
            }
            return None;
        };
        let until = field(fields, "until");
        if let Some(until) = until.filter(|_| *way != "any" || !may_until) {
            self.wrong(until, "«until» goes with «any» only, and not into another «until»");
        }
        let filters = field(fields, way).expect("it was found above");
        match *way {
            "one" => self.filter(filters).map(Strategy::One),
            "all" => {
                let filters = self.filters(filters, "«all»");
                if filters.is_empty() {
                    self.wrong(node, "«all» has no events");
                }
                Some(Strategy::All(filters))
            }
            _ => {
                let filters = self.filters(filters, "«any»");
                let until = until.and_then(|node| self.until(node));
                Some(Strategy::Any { filters, until })
            }
        }
    }

    fn until(&mut self, node: &Node) -> Option<Until> {
        match &node.content {
            Content::Text(_) | Content::Bool(_) => {
                self.expression(node, "«until»", STAGE).map(Until::Condition)
            }
            _ => {
                let strategy = self.strategy(node, "«until»", false)?;
                Some(Until::Events(Box::new(strategy)))
            }
        }
    }

    fn filters(&mut self, node: &Node, what: &str) -> Vec<Filter> {
        let items = self.list(node, what);
        items.iter().filter_map(|item| self.filter(item)).collect()
    }

    fn filter(&mut self, node: &Node) -> Option<Filter> {
        let fields = self.object(node, "an event filter", &["with", "correlate"], &["with"]);
        let with = field(fields, "with")?;
        let properties = self.map(with, "the «with» of an event filter");
        if properties.is_empty() {
            self.wrong(with, "an event filter must have an attribute at least");
        }
        self.attribute_names(properties);
        let with = properties
            .iter()
            .map(|(name, _, node)| {
                let what = format!("the filter of «{name}»");
                (name.clone(), self.template(node, &what, STAGE))
            })
            .collect();
        let mut correlate = Vec::new();
        if let Some(correlations) = field(fields, "correlate") {
            for (name, _, node) in self.map(correlations, "«correlate»") {
                correlate.extend(self.correlation(name, node));
            }
        }
        Some(Filter { with, correlate })
    }

    fn correlation(&mut self, name: &str, node: &Node) -> Option<Correlation> {
        let what = format!("the correlation «{name}»");
        let fields = self.object(node, &what, &["from", "expect"], &["from"]);
        let from = field(fields, "from").and_then(|n| self.expression(n, "«from»", STAGE));
        let expect = field(fields, "expect").map(|node| match &node.content {
            // A constant or an expression: no constant begins like a path.
            Content::Text(text) if strip(text).is_none() && text.starts_with(['.', '$']) => {
                let text = self.expression(node, "«expect»", STAGE).unwrap_or_default();
                Template::Expression(text)
            }
            _ => self.template(node, "«expect»", STAGE),
        });
        Some(Correlation { name: name.to_owned(), from: from?, expect })
    }
}
