//! Journeys and their users.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A page of journeys, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct JourneyPage {
    /// The journeys.
    pub journeys: Vec<JourneyInfo>,
    /// The `cursor` of the next page, if there is one.
    pub next: Option<String>,
}

/// A journey.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct JourneyInfo {
    /// Its name.
    pub name: String,
    /// Its platform.
    pub platform: String,
    /// Its newest version.
    pub version: u32,
    /// When that was added.
    pub at: String,
    /// Who has added it.
    pub by: String,
    /// The text of that version.
    pub text: String,
}

/// An element of a journey, in the form of the ancestor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct JourneyElement {
    /// Its id, unique in the journey: a text, or a number as in older definitions.
    pub id: Value,
    /// The journey.
    #[serde(rename = "workFlowId")]
    pub journey: Value,
    /// Its type: `Start`, `Trigger`, `Action`, `Rule`, `Case`, `RuleCase`, `TriggerCase`, `Line` or
    /// `End`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Elements before it. This and the fields after it may be `null` or lack in a list that was imported.
    #[serde(default, deserialize_with = "null_as_default")]
    #[cfg_attr(feature = "server", schema(required = false, nullable = true))]
    pub incomings: Vec<Value>,
    /// Elements after it, in their order.
    #[serde(default, deserialize_with = "null_as_default")]
    #[cfg_attr(feature = "server", schema(required = false, nullable = true))]
    pub outgoings: Vec<Value>,
    /// Conditions, all of which must hold.
    #[serde(default, deserialize_with = "null_as_default")]
    #[cfg_attr(feature = "server", schema(required = false, nullable = true))]
    pub properties: Vec<Value>,
    /// Its wait, message and settings.
    #[serde(default, deserialize_with = "null_as_default")]
    #[cfg_attr(feature = "server", schema(required = false, nullable = true))]
    pub extensions: Map<String, Value>,
}

/// Reads `null` as if the field were not there.
fn null_as_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A user, and where it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct UserInfo {
    /// The platform.
    pub platform: String,
    /// The user.
    pub user: String,
    /// Attributes.
    pub attributes: Map<String, Value>,
    /// Number of changes of the attributes.
    pub revision: u64,
    /// Whether the user wants no messages.
    pub has_opted_out: bool,
    /// Journeys under way.
    pub passes: Vec<PassInfo>,
    /// The last ones that are over.
    pub ended: Vec<PassInfo>,
    /// Messages that are not known to be sent.
    pub outbox: Vec<MessageInfo>,
    /// The last messages that were given up.
    pub lost: Vec<MessageInfo>,
}

/// One walk of a user through a journey.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct PassInfo {
    /// The journey.
    pub journey: String,
    /// Its version.
    pub version: u32,
    /// Its number, of this user.
    pub pass: u64,
    /// When it began.
    pub began: String,
    /// Its data.
    pub data: Map<String, Value>,
    /// Where it waits.
    pub waits: Vec<WaitInfo>,
    /// Its path, the oldest segment first.
    pub moves: Vec<MoveInfo>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Why: `end`, `no line`, `replaced`, `removed` or `opted out`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A wait at a trigger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct WaitInfo {
    /// Its number, of this user.
    pub wait: u64,
    /// The trigger.
    pub element: String,
    /// The kind of event that it waits for; any if it names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// Since when.
    pub since: String,
    /// When the default line is taken; never if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
    /// The element behind the default line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<String>,
}

/// A segment of the path of a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct MoveInfo {
    /// The journey.
    pub journey: String,
    /// Its version.
    pub version: u32,
    /// Number of the pass, of this user.
    pub pass: u64,
    /// `event`, `timer`, `unmatched` if the wait stays because no line held or its own condition has
    /// failed, or `moved` if the wait is at the element of a newer version that has another name.
    pub cause: String,
    /// Number of the wait at which it begins; none for a start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<u64>,
    /// The elements, in their order; for `moved` that of the older version and that of the newer one.
    pub path: Vec<String>,
    /// Conditions that have failed, and messages that were not made: about 1 KiB, and the number of
    /// those that are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// When it was.
    pub at: String,
}

/// A message that is not sent, or not known to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct MessageInfo {
    /// Its key.
    pub key: String,
    /// The channel.
    pub channel: String,
    /// The action that sends it.
    pub element: String,
    /// When it may leave next, or was given up.
    pub at: String,
    /// Attempts that have failed.
    pub attempts: u32,
    /// Why it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A user whose state was removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct UserForgotten {
    /// The platform.
    pub platform: String,
    /// The user.
    pub user: String,
}

/// What became of events of users, in their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct UserEventsDone {
    /// Each event.
    pub events: Vec<UserEventDone>,
}

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct UserEventDone {
    /// Whether an event with its id was taken before: nothing has changed.
    pub is_repeated: bool,
    /// Passes that it has moved.
    pub moved: Vec<MoveInfo>,
    /// Problems that are in no history: conditions that have failed of starts, or of waits that have
    /// one in theirs already, and a pass that was not begun as the user has too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Numbers of a journey.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct JourneyCounts {
    /// The journey.
    pub journey: String,
    /// Its newest version, whose elements are counted.
    pub version: u32,
    /// Users of its platform that were looked at.
    pub users: u64,
    /// Whether those are all.
    pub is_complete: bool,
    /// Passes under way.
    pub under_way: u64,
    /// Passes that are over.
    pub ended: u64,
    /// The elements, in the order of the definition.
    pub elements: Vec<ElementCounts>,
}

/// Numbers of an element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct ElementCounts {
    /// The element.
    pub element: String,
    /// Its type.
    pub kind: String,
    /// Users who wait there now.
    pub here: u64,
    /// Visits in all paths.
    pub visits: u64,
    /// Passes that were over there before an end.
    pub dropped: u64,
    /// For a line: its part of the visits of the element before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversion: Option<f64>,
}

/// What a definition would have done with recorded events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct JourneyTried {
    /// Moves, in the order of time.
    pub moved: Vec<TriedMove>,
    /// Messages that would have left, in their order.
    pub messages: Vec<TriedMessage>,
    /// Conditions that have failed, and that no move tells: such as those of starts.
    pub problems: Vec<TriedProblem>,
    /// Where the users are then.
    pub users: Vec<UserInfo>,
}

/// Conditions that failed at an event, and that no move tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct TriedProblem {
    /// When it was.
    pub at: String,
    /// The user.
    pub user: String,
    /// The problem.
    pub problem: String,
}

/// A move of a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct TriedMove {
    /// The user.
    pub user: String,
    /// The move.
    #[serde(flatten)]
    pub moved: MoveInfo,
}

/// A message that would have left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct TriedMessage {
    /// When it would have left.
    pub at: String,
    /// Its channel.
    pub channel: String,
    /// The same for all attempts, and for no other message.
    pub key: String,
    /// The platform.
    pub platform: String,
    /// The user.
    pub user: String,
    /// The journey.
    pub journey: String,
    /// The action that sends it.
    pub element: String,
    /// Its content.
    pub body: Value,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}
