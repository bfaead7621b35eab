//! Recorded events of users, to be tried on a definition.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use turnwheel_engine::Time;
use turnwheel_flow::CloudEvent;

use crate::definition::Definition;
use crate::dry::DryRun;
use crate::error::JourneyError;
use crate::event::Event;
use crate::limits::{TRIED_EVENTS_MAX, TRIED_TIME_MAX};
use crate::outbox::Message;
use crate::view::{Moved, UserView};

/// Recorded events.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Recording {
    /// CloudEvents with the user as subject and a time each.
    #[serde(default)]
    pub events: Vec<Value>,
    /// Attributes of users.
    #[serde(default)]
    pub users: BTreeMap<String, Map<String, Value>>,
    /// Until when time passes: later events are left out.
    #[serde(default)]
    pub until: Option<String>,
}

/// Outcome of recorded events.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Tried {
    /// Moves, in the order of time.
    pub moved: Vec<TriedMove>,
    /// Messages that would have left, in their order.
    pub messages: Vec<TriedMessage>,
    /// Conditions that have failed, and that no move tells: such as those of starts.
    pub problems: Vec<TriedProblem>,
    /// Where the users are then.
    pub users: Vec<UserView>,
}

/// A move of a user.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TriedMove {
    /// The user.
    pub user: String,
    /// The move.
    #[serde(flatten)]
    pub moved: Moved,
}

/// A message that would have left.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TriedMessage {
    /// When it would have left.
    #[serde(serialize_with = "crate::view::as_text")]
    pub at: Time,
    /// Its channel.
    pub channel: String,
    /// The message.
    #[serde(flatten)]
    pub message: Message,
}

/// Conditions that failed at an event, and that no move tells.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TriedProblem {
    /// When it was.
    #[serde(serialize_with = "crate::view::as_text")]
    pub at: Time,
    /// The user.
    pub user: String,
    /// The problem.
    pub problem: String,
}

impl Recording {
    /// Those events.
    pub fn new(events: Vec<Value>) -> Self {
        Self { events, ..Self::default() }
    }

    /// Tries the events on a definition: nothing is stored and nothing is sent.
    ///
    /// # Errors
    ///
    /// An event, an attribute or a time cannot be read, or too much comes of them, see
    /// [`TRIED_STEPS_MAX`](crate::limits::TRIED_STEPS_MAX).
    pub fn on(self, definition: &Definition) -> Result<Tried, JourneyError> {
        if self.events.len() > TRIED_EVENTS_MAX {
            let problem = format!("there are at most {TRIED_EVENTS_MAX}");
            return Err(JourneyError::Invalid { what: "events", problem });
        }
        let platform = &definition.settings.platform;
        let mut run = DryRun::new(definition).within(TRIED_TIME_MAX);
        for (user, attributes) in self.users {
            run.user(platform, &user, attributes)?;
        }
        let events = self.events.into_iter().map(|event| recorded(platform, event));
        let mut events = events.collect::<Result<Vec<(Time, Event)>, JourneyError>>()?;
        events.sort_by_key(|(time, _)| *time);
        let mut end = events.last().map(|(time, _)| *time).unwrap_or_default();
        if let Some(until) = self.until {
            end = time("until", &until)?;
        }
        for (time, event) in events.into_iter().take_while(|(time, _)| *time <= end) {
            run.event(time, event)?;
        }
        let moved = run.until(end)?.into_iter().map(|(key, moved)| {
            let user = key.split_once('/').map_or(key.as_str(), |(_, user)| user).to_owned();
            TriedMove { user, moved }
        });
        let moved = moved.collect();
        let (messages, problems) = (run.messages(), run.problems());
        Ok(Tried { moved, messages, problems, users: run.users() })
    }
}

/// Reads a time span such as `P1D`, as definitions have them.
///
/// # Errors
///
/// It is none.
pub fn duration(text: &str) -> Result<std::time::Duration, String> {
    turnwheel_flow::internal::duration(text)
}

fn time(what: &'static str, text: &str) -> Result<Time, JourneyError> {
    text.parse()
        .map_err(|error| JourneyError::Invalid { what, problem: format!("«{text}»: {error}") })
}

fn recorded(platform: &str, mut value: Value) -> Result<(Time, Event), JourneyError> {
    let wrong = |problem: String| JourneyError::Invalid { what: "events", problem };
    // A recording is written by hand, too: it need not say the version for each event.
    if let Some(fields) = value.as_object_mut() {
        fields.entry("specversion").or_insert_with(|| Value::from("1.0"));
    }
    let event = CloudEvent::from_value(value).map_err(|error| wrong(error.to_string()))?;
    let lacks = |field: &str| wrong(format!("event «{}» has no «{field}»", event.id));
    let at = event.time.as_deref().ok_or_else(|| lacks("time"))?;
    let user = event.subject.as_deref().ok_or_else(|| lacks("subject"))?;
    let data = event.data.clone().unwrap_or_default();
    let made = Event::new(platform, user, &event.id, &event.kind).data(data).source(&event.source);
    Ok((time("events", at)?, made))
}
