//! Objects with known fields, texts, numbers.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::Reader;
use crate::text::{nearest, Content, Node, Place};

/// The fields of an object.
pub(super) type Fields<'n> = &'n [(String, Place, Node)];

impl Reader<'_> {
    /// Says what is wrong.
    pub(super) fn wrong(&mut self, at: &Node, message: impl std::fmt::Display) {
        self.problems.add(at.at, message, None);
    }

    /// Says what is wrong, and what to do.
    pub(super) fn wrong_so(&mut self, at: &Node, message: impl std::fmt::Display, hint: &str) {
        self.problems.add(at.at, message, Some(hint.to_owned()));
    }

    /// The fields of an object, whatever their names are.
    pub(super) fn map<'n>(&mut self, node: &'n Node, what: &str) -> Fields<'n> {
        match &node.content {
            Content::Map(fields) => fields,
            _ => {
                self.wrong(node, format!("{what} must be an object and is {}", node.kind()));
                &[]
            }
        }
    }

    /// An object that has only fields with these names, and all that are required.
    pub(super) fn object<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        known: &[&str],
        required: &[&str],
    ) -> Fields<'n> {
        let is_object = matches!(node.content, Content::Map(_));
        let fields = self.map(node, what);
        for (name, at, _) in fields {
            if !known.contains(&name.as_str()) && !self.problems.is_full() {
                let hint = match nearest(name, known.iter().copied()) {
                    Some(near) => format!("did you mean «{near}»?"),
                    None => format!("it may have {}", list(known)),
                };
                self.problems.add(*at, format!("{what} has no field «{name}»"), Some(hint));
            }
        }
        for name in required {
            if is_object && !fields.iter().any(|(known, _, _)| known == name) {
                self.wrong(node, format!("{what} must have the field «{name}»"));
            }
        }
        fields
    }

    /// A text.
    pub(super) fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        match &node.content {
            Content::Text(text) => Some(text.clone()),
            Content::Number(_) | Content::Bool(_) => {
                let written = node.to_value();
                let hint = format!("put it into quotes: '{written}'");
                self.wrong_so(node, format!("{what} must be a text and is {}", node.kind()), &hint);
                None
            }
            _ => {
                self.wrong(node, format!("{what} must be a text and is {}", node.kind()));
                None
            }
        }
    }

    pub(super) fn boolean(&mut self, node: &Node, what: &str) -> bool {
        match node.content {
            Content::Bool(value) => value,
            _ => {
                self.wrong(node, format!("{what} must be true or false and is {}", node.kind()));
                false
            }
        }
    }

    pub(super) fn integer(&mut self, node: &Node, what: &str) -> Option<u64> {
        let number = match &node.content {
            Content::Number(number) => number.as_u64(),
            _ => None,
        };
        if number.is_none() {
            self.wrong(node, format!("{what} must be a whole number that is not negative"));
        }
        number
    }

    pub(super) fn list<'n>(&mut self, node: &'n Node, what: &str) -> &'n [Node] {
        match &node.content {
            Content::List(elements) => elements,
            _ => {
                self.wrong(node, format!("{what} must be a list and is {}", node.kind()));
                &[]
            }
        }
    }

    /// One of some texts.
    pub(super) fn choice<T: Copy>(
        &mut self,
        node: &Node,
        what: &str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let text = self.text(node, what)?;
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
            return Some(*value);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let hint = match nearest(&text, names.iter().copied()) {
            Some(near) => format!("did you mean «{near}»?"),
            None => format!("it can be {}", list(&names)),
        };
        self.wrong_so(node, format!("{what} cannot be «{text}»"), &hint);
        None
    }

    /// Data of any kind, an object.
    pub(super) fn data_object(&mut self, node: &Node, what: &str) -> Map<String, Value> {
        self.map(node, what);
        match node.to_value() {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }

    /// Something that flows can say and this engine cannot do.
    pub(super) fn unsupported(&mut self, at: &Node, what: &str, instead: &str) {
        self.wrong_so(at, format!("{what} is not supported"), instead);
    }

    /// The same, at the name of a field.
    pub(super) fn unsupported_field(
        &mut self,
        fields: Fields<'_>,
        name: &str,
        what: &str,
        instead: &str,
    ) {
        for (_, at, _) in fields.iter().filter(|(known, _, _)| known == name) {
            self.problems.add(*at, format!("{what} is not supported"), Some(instead.to_owned()));
        }
    }

    /// The value of a name, or an error for an unknown one.
    pub(super) fn known<T: Clone>(
        &mut self,
        node: &Node,
        name: &str,
        what: &str,
        names: fn(&Self) -> &HashMap<String, T>,
    ) -> Option<T> {
        if let Some(found) = names(self).get(name) {
            return Some(found.clone());
        }
        let message = format!("there is no {what} «{name}» in «use»");
        let near = nearest(name, names(self).keys().map(String::as_str)).map(str::to_owned);
        match near {
            Some(near) => self.wrong_so(node, message, &format!("did you mean «{near}»?")),
            None => self.wrong(node, message),
        }
        None
    }
}

/// Names for people.
pub(super) fn list(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("«{name}»")).collect();
    names.join(", ")
}

/// A field by its name.
pub(super) fn field<'n>(fields: Fields<'n>, name: &str) -> Option<&'n Node> {
    fields.iter().find(|(known, _, _)| known == name).map(|(_, _, node)| node)
}
