//! A tree of data that knows where each part of it was written.

use serde_json::{Map, Number, Value};

/// A place in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// From 1.
    pub(crate) line: usize,
    /// From 1, in characters.
    pub(crate) column: usize,
}

/// A part of a text.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) at: Place,
    pub(crate) content: Content,
}

/// Content of a part of a text.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    /// In the order of the text, with the places of the keys.
    Map(Vec<(String, Place, Node)>),
}

impl Node {
    /// Its kind, for people.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.content {
            Content::Null => "nothing",
            Content::Bool(_) => "a boolean",
            Content::Number(_) => "a number",
            Content::Text(_) => "a text",
            Content::List(_) => "a list",
            Content::Map(_) => "an object",
        }
    }

    /// Whether nothing was written.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self.content, Content::Null)
    }

    /// Without the places.
    pub(crate) fn to_value(&self) -> Value {
        match &self.content {
            Content::Null => Value::Null,
            Content::Bool(value) => Value::Bool(*value),
            Content::Number(number) => Value::Number(number.clone()),
            Content::Text(text) => Value::String(text.clone()),
            Content::List(elements) => elements.iter().map(Self::to_value).collect(),
            Content::Map(fields) => {
                let fields = fields.iter().map(|(key, _, value)| (key.clone(), value.to_value()));
                Value::Object(fields.collect::<Map<_, _>>())
            }
        }
    }

    /// A field of an object.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        let Content::Map(fields) = &self.content else { return None };
        fields.iter().find(|(key, _, _)| key == name).map(|(_, _, value)| value)
    }

    /// Parts of it, itself included, and the bytes of their texts.
    pub(crate) fn size(&self) -> (usize, usize) {
        let sum = |all: (usize, usize), one: (usize, usize)| (all.0 + one.0, all.1 + one.1);
        match &self.content {
            Content::Text(text) => (1, text.len()),
            Content::List(elements) => elements.iter().map(Self::size).fold((1, 0), sum),
            Content::Map(fields) => {
                let sizes = fields.iter().map(|(key, _, value)| sum(value.size(), (0, key.len())));
                sizes.fold((1, 0), sum)
            }
            _ => (1, 0),
        }
    }
}
