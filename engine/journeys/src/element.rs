//! Elements as they are stored and exchanged: the ancestor's JSON.
//!
//! Definitions of ours are translated into it, so that there is one model, and one export.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Number, Value};

use crate::attributes::AttributeType;

/// Id of an element: a text, or a number as in older definitions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// A number.
    Number(Number),
    /// A text.
    Text(String),
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Stored type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of the ancestor")]
pub enum Kind {
    Start,
    Trigger,
    Action,
    Rule,
    Case,
    RuleCase,
    TriggerCase,
    Line,
    End,
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "Start",
            Self::Trigger => "Trigger",
            Self::Action => "Action",
            Self::Rule => "Rule",
            Self::Case => "Case",
            Self::RuleCase => "RuleCase",
            Self::TriggerCase => "TriggerCase",
            Self::Line => "Line",
            Self::End => "End",
        }
    }
}

/// An element of a journey.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Element {
    /// Its id, unique in the journey.
    pub id: Id,
    /// The journey.
    #[serde(rename = "workFlowId")]
    pub journey: Id,
    /// Its effect.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Elements before it.
    #[serde(default, deserialize_with = "null_as_default")]
    pub incomings: Vec<Id>,
    /// Elements after it, in their order.
    #[serde(default, deserialize_with = "null_as_default")]
    pub outgoings: Vec<Id>,
    /// Conditions, all of which must hold.
    #[serde(default, deserialize_with = "null_as_default")]
    pub properties: Vec<Rule>,
    /// The rest of what it says.
    #[serde(default, deserialize_with = "null_as_default")]
    pub extensions: Extensions,
    /// Fields that are not known here.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Reads `null` as if the field were not there: the ancestor writes it for an empty list.
fn null_as_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Name of the channel of an action that names none.
const USUAL_CHANNEL: &str = "message";

impl Element {
    /// The channel through which it sends a message, if it sends one.
    pub fn channel(&self) -> Option<&str> {
        match (&self.extensions.send, self.kind) {
            (Some(send), _) => Some(&send.channel),
            (None, Kind::Action) if self.extensions.set.is_none() => Some(USUAL_CHANNEL),
            (None, _) => None,
        }
    }
}

/// A condition: all of its parts must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// The kind of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// A part of the event's text: the field `text` of its data, or the data itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// The whole of the event's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<String>,
    /// An expression of jq over `event`, `user` and `data`.
    #[serde(rename = "if", default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Fields that are not known here.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Settings of an element beside its conditions.
///
/// A field whose value has another type than the one here, such as `default: "yes"`, belongs to the
/// program that wrote the list: it is kept in `extra` and has no effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct Extensions {
    /// Settings of the whole journey, at its first start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
    /// Time after which a trigger takes its default line, as `P1D`; it waits for ever without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// Effect of an event that a trigger accepts and none of its lines does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmatched: Option<Unmatched>,
    /// Whether a line is the default of its element.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
    /// Whether all lines that hold are followed, and not the first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub parallel: bool,
    /// Message of an action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<Send>,
    /// An expression of jq whose object is added to the data of the pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// Fields that are not known here, or have another type than above.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl TryFrom<Map<String, Value>> for Extensions {
    type Error = serde_json::Error;

    fn try_from(mut fields: Map<String, Value>) -> Result<Self, Self::Error> {
        let of = &mut fields;
        Ok(Self {
            settings: taken(of, "settings", Value::is_object)?,
            wait: taken(of, "wait", Value::is_string)?,
            unmatched: taken(of, "unmatched", Value::is_string)?,
            default: taken(of, "default", Value::is_boolean)?.unwrap_or_default(),
            parallel: taken(of, "parallel", Value::is_boolean)?.unwrap_or_default(),
            send: taken(of, "send", Value::is_object)?,
            set: taken(of, "set", Value::is_string)?,
            extra: fields,
        })
    }
}

/// Takes a field out of an object if its value has the right type.
fn taken<T: DeserializeOwned>(
    fields: &mut Map<String, Value>,
    name: &str,
    has_type: fn(&Value) -> bool,
) -> Result<Option<T>, serde_json::Error> {
    match fields.get(name).is_some_and(has_type) {
        true => fields.remove(name).map(serde_json::from_value).transpose(),
        false => Ok(None),
    }
}

/// Effect of an event that a trigger accepts and none of its lines does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unmatched {
    /// The wait stays, and the history has the event.
    #[default]
    Stay,
    /// The default line is taken.
    Otherwise,
}

/// A message that leaves through a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// Name of the channel.
    pub channel: String,
    /// Content; texts of the form `${ .. }` are expressions of jq.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub with: Value,
}

/// Settings of a journey.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The platform whose users take it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub platform: String,
    /// Whether a user may take it again.
    #[serde(skip_serializing_if = "is_usual")]
    pub entry: Entry,
    /// Least time between two begins for one user, as `P7D`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// Journeys of a higher priority are looked at first.
    #[serde(skip_serializing_if = "is_usual")]
    pub priority: i32,
    /// Whether it also goes to users who have opted out, such as the bill of an order.
    #[serde(skip_serializing_if = "is_usual")]
    pub essential: bool,
    /// Most messages to one user in some time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<Cap>,
    /// Hours of the user's day in which nothing is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Quiet>,
    /// Rule for users under way when there is a newer version.
    #[serde(skip_serializing_if = "is_usual")]
    pub under_way: UnderWay,
    /// Types of users' attributes on its platform: other values are refused.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, AttributeType>,
    /// For those who move: the element of the newer version for one of an older version.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub moves: BTreeMap<String, String>,
}

fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Whether a user may take a journey again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entry {
    /// As soon as the pass before has ended.
    #[default]
    Again,
    /// Never.
    Once,
    /// At any time: the pass under way ends.
    Replace,
    /// At any time, beside the passes under way.
    Parallel,
}

/// Most messages in some time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cap {
    /// Number of messages.
    pub messages: u32,
    /// The time, as `P1D`.
    pub per: String,
}

/// Hours in which nothing is sent: messages wait for their end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quiet {
    /// Begin, as `22:00`.
    pub from: String,
    /// End, as `08:00`.
    pub to: String,
    /// Zone of users without an attribute `timezone`; UTC if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// Rule for users under way when there is a newer version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnderWay {
    /// They finish on theirs.
    #[default]
    Finish,
    /// They go on with the newer version, at the element of the same id or that of the map.
    Move,
}
