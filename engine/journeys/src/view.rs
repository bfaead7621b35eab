//! Journeys, and where users are, why, since when, and what comes next: as data.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use turnwheel_engine::Time;

use crate::catalogue::{Catalogue, Known, Version};
use crate::chart::Chart;
use crate::row::{Cause, Move, Outgoing, Pass, Row, Why};
use crate::walk::object;

/// A journey as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JourneyView {
    /// Its name.
    pub name: String,
    /// Its platform.
    pub platform: String,
    /// The version: its newest one, or that which was stored.
    pub version: u32,
    /// When that was added.
    #[serde(serialize_with = "as_text")]
    pub at: Time,
    /// The person or program that added it.
    pub by: String,
    /// The text of that version.
    pub text: String,
}

impl JourneyView {
    /// The newest version of a journey that was not removed.
    pub(crate) fn newest(catalogue: &Catalogue, name: &str) -> Option<Self> {
        let known = catalogue.journeys.get(name).filter(|known| !known.kept.is_removed)?;
        Some(Self::of(name, known, known.kept.versions.last()?))
    }

    /// A version of a journey.
    pub(crate) fn version(catalogue: &Catalogue, name: &str, version: u32) -> Option<Self> {
        let known = catalogue.journeys.get(name)?;
        let found = known.kept.versions.iter().find(|it| it.version == version)?;
        Some(Self::of(name, known, found))
    }

    fn of(name: &str, known: &Known, stored: &Version) -> Self {
        let platform = known.chart(stored.version).map(|chart| chart.settings.platform.clone());
        Self {
            name: name.to_owned(),
            platform: platform.unwrap_or_default(),
            version: stored.version,
            at: Time(stored.at),
            by: stored.by.clone(),
            text: stored.text.clone(),
        }
    }
}

/// A segment of a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Moved {
    /// The journey.
    pub journey: String,
    /// Its version.
    pub version: u32,
    /// Number of the pass, of this user.
    pub pass: u64,
    /// `event`, `timer`, `unmatched` if the wait stays because no line held or its own condition has
    /// failed, or `moved` if the wait is at the element of a newer version that has another name.
    pub cause: &'static str,
    /// Number of the wait at which it begins; none for a start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<u64>,
    /// The elements, in their order; for `moved` that of the older version and that of the newer one.
    pub path: Vec<String>,
    /// Conditions that have failed, and messages that were not made: about 1 KiB, and the number of
    /// those that are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// When it was.
    #[serde(serialize_with = "as_text")]
    pub at: Time,
}

/// Outcome of an event.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Taken {
    /// Whether an event with its id was taken before: nothing has changed.
    pub is_repeated: bool,
    /// Passes that it has moved.
    pub moved: Vec<Moved>,
    /// Problems that are in no history: conditions that have failed of starts, or of waits that have
    /// one in theirs already, and a pass that was not begun as the user has too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A user.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UserView {
    /// The platform.
    pub platform: String,
    /// The user.
    pub user: String,
    /// Attributes.
    pub attributes: Map<String, Value>,
    /// Number of changes of the attributes.
    pub revision: u64,
    /// Whether the user has opted out.
    pub has_opted_out: bool,
    /// Journeys under way.
    pub passes: Vec<PassView>,
    /// The last ones that are over.
    pub ended: Vec<PassView>,
    /// Messages that are not known to be sent.
    pub outbox: Vec<MessageView>,
    /// The last messages that were given up.
    pub lost: Vec<MessageView>,
}

/// One walk through a journey.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PassView {
    /// The journey.
    pub journey: String,
    /// Its version.
    pub version: u32,
    /// Its number, of this user.
    pub pass: u64,
    /// When it began.
    #[serde(serialize_with = "as_text")]
    pub began: Time,
    /// Its data.
    pub data: Map<String, Value>,
    /// Where it waits.
    pub waits: Vec<WaitView>,
    /// Its path, the oldest segment first.
    pub moves: Vec<Moved>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text_if")]
    pub ended: Option<Time>,
    /// Why: `end`, `no line`, `replaced`, `removed` or `opted out`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
}

/// A wait at a trigger.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WaitView {
    /// Its number, of this user: no other wait has it.
    pub wait: u64,
    /// The trigger.
    pub element: String,
    /// The kind of event that it waits for; any if it names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// Since when.
    #[serde(serialize_with = "as_text")]
    pub since: Time,
    /// When the default line is taken; never if it has none.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text_if")]
    pub due: Option<Time>,
    /// The element behind the default line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<String>,
}

/// A message that is not sent, or not known to be.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MessageView {
    /// Its key.
    pub key: String,
    /// The channel.
    pub channel: String,
    /// The action that sends it.
    pub element: String,
    /// When it may leave next, or was given up.
    #[serde(serialize_with = "as_text")]
    pub at: Time,
    /// Attempts that have failed.
    pub attempts: u32,
    /// Why it was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Writes a time as all times of the API are written: as RFC 3339.
pub(crate) fn as_text<S: Serializer>(time: &Time, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(time)
}

fn as_text_if<S: Serializer>(time: &Option<Time>, to: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => as_text(time, to),
        None => to.serialize_none(),
    }
}

/// A time of a row.
pub(crate) fn time(ms: u64) -> Time {
    Time(ms.saturating_mul(1_000))
}

/// A time for a row.
pub(crate) fn to_ms(time: Time) -> u64 {
    time.0 / 1_000
}

impl Moved {
    pub(crate) fn new(catalogue: &Catalogue, chart: &Chart, pass: &Pass, made: &Move) -> Self {
        let from = match made.cause {
            Cause::Moved { version, element } => {
                let old = catalogue.chart(pass.journey, version);
                Some(old.map_or("?", |old| old.id(element)))
            }
            _ => None,
        };
        let path = from.into_iter().chain(made.path.iter().map(|number| chart.id(*number)));
        Self {
            journey: chart.name.clone(),
            version: made.version,
            pass: pass.number,
            cause: match made.cause {
                Cause::Event => "event",
                Cause::Timer => "timer",
                Cause::Unmatched => "unmatched",
                Cause::Moved { .. } => "moved",
            },
            wait: (made.wait > 0).then_some(made.wait),
            path: path.map(str::to_owned).collect(),
            problem: made.problem.clone(),
            at: time(pass.began.saturating_add(made.after)),
        }
    }
}

fn pass_view(catalogue: &Catalogue, pass: &Pass, over: Option<(u64, Why)>) -> PassView {
    let chart = catalogue.chart(pass.journey, pass.version);
    let wait = |wait: &crate::row::Wait| {
        let node = chart.and_then(|chart| chart.node(wait.element));
        let otherwise = chart.zip(node).and_then(|(chart, node)| {
            let line = chart.node(chart.default_line(node)?)?;
            Some(chart.id(*line.next.first()?).to_owned())
        });
        WaitView {
            wait: wait.number,
            element: node.map_or("?", |node| &node.id).to_owned(),
            on: node.and_then(|node| node.event()).map(str::to_owned),
            since: time(wait.since),
            due: wait.due.map(time),
            otherwise,
        }
    };
    let moved = |made: &Move| {
        let chart = catalogue.chart(pass.journey, made.version)?;
        Some(Moved::new(catalogue, chart, pass, made))
    };
    PassView {
        journey: chart.map_or_else(|| pass.journey.to_string(), |chart| chart.name.clone()),
        version: pass.version,
        pass: pass.number,
        began: time(pass.began),
        data: object(pass.data.as_deref()),
        waits: pass.waits.iter().map(wait).collect(),
        moves: pass.moves.iter().filter_map(moved).collect(),
        ended: over.map(|(at, _)| time(at)),
        why: over.map(|(_, why)| match why {
            Why::End => "end",
            Why::NoLine => "no line",
            Why::Replaced => "replaced",
            Why::Removed => "removed",
            Why::OptedOut => "opted out",
        }),
    }
}

/// A user as the row says.
pub(crate) fn user(catalogue: &Catalogue, key: &str, row: &Row) -> UserView {
    let (platform, name) = key.split_once('/').unwrap_or((key, ""));
    let message = |message: &Outgoing, at: u64, reason: Option<&String>| {
        let chart = catalogue.chart(message.journey, message.version);
        MessageView {
            key: message.key(key),
            channel: message.channel.clone(),
            element: chart.map_or("?", |chart| chart.id(message.element)).to_owned(),
            at: time(at),
            attempts: message.attempts,
            reason: reason.cloned(),
        }
    };
    let ended = row.ended.iter();
    let sending = row.sending.iter().filter_map(|it| it.message.as_ref());
    UserView {
        platform: platform.to_owned(),
        user: name.to_owned(),
        attributes: object(row.attributes.as_deref()),
        revision: row.revision,
        has_opted_out: row.has_opted_out,
        passes: row.passes.iter().map(|pass| pass_view(catalogue, pass, None)).collect(),
        ended: ended.map(|it| pass_view(catalogue, &it.pass, Some((it.at, it.why)))).collect(),
        outbox: sending.chain(&row.outbox).map(|it| message(it, it.from, None)).collect(),
        lost: row.lost.iter().map(|it| message(&it.message, it.at, Some(&it.reason))).collect(),
    }
}
