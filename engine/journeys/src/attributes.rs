//! Declared types of users' attributes, by platform.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use turnwheel_engine::Time;

use crate::element::Settings;
use crate::error::JourneyError;

/// Type of an attribute of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AttributeType {
    /// `true` or `false`.
    Boolean,
    /// A number without a fraction.
    Integer,
    /// A number.
    Number,
    /// A text.
    String,
    /// A moment as RFC 3339, such as `2026-01-05T12:00:00Z`.
    Time,
    /// A list.
    Array,
    /// An object.
    Object,
}

impl AttributeType {
    fn has(self, value: &Value) -> bool {
        match self {
            Self::Boolean => value.is_boolean(),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::String => value.is_string(),
            Self::Time => value.as_str().is_some_and(|text| text.parse::<Time>().is_ok()),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }
}

impl fmt::Display for AttributeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "a boolean",
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Time => "a time (RFC 3339)",
            Self::Array => "an array",
            Self::Object => "an object",
        })
    }
}

/// A declared type, and the journey that declares it.
type Declared = (AttributeType, String);

/// The attribute that quiet hours look at. It is a zone on every platform: a journey with quiet hours
/// may come later than the users.
pub(crate) const TIMEZONE: &str = "timezone";

/// The declared types of all platforms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    platforms: HashMap<String, BTreeMap<String, Declared>>,
}

impl Attributes {
    /// Adds the types that a journey declares; of two that differ the first one stays.
    pub(crate) fn add(&mut self, journey: &str, settings: &Settings) {
        for (name, kind) in &settings.attributes {
            let of = self.platforms.entry(settings.platform.clone()).or_default();
            of.entry(name.clone()).or_insert_with(|| (*kind, journey.to_owned()));
        }
    }

    /// Refuses types that other journeys of the platform declare otherwise, and zones that are no text.
    pub(crate) fn admit(&self, journey: &str, settings: &Settings) -> Result<(), JourneyError> {
        let zone = settings.attributes.get(TIMEZONE);
        if let Some(kind) = zone.filter(|kind| **kind != AttributeType::String) {
            let problem = format!(
                "«{TIMEZONE}» is the name of a time zone: declare it as string, and not as {kind}"
            );
            return Err(JourneyError::Invalid { what: "attributes", problem });
        }
        let Some(of) = self.platforms.get(&settings.platform) else { return Ok(()) };
        let problem = settings.attributes.iter().find_map(|(name, kind)| {
            let (known, by) = of.get(name)?;
            (known != kind && by != journey)
                .then(|| format!("«{name}» is {known} in the journey «{by}», and {kind} here"))
        });
        match problem {
            Some(problem) => Err(JourneyError::Invalid { what: "attributes", problem }),
            None => Ok(()),
        }
    }

    /// Refuses values of other types than the declared ones, and unknown time zones. Other attributes
    /// that no journey declares may be anything.
    pub(crate) fn check(
        &self,
        platform: &str,
        values: &Map<String, Value>,
    ) -> Result<(), JourneyError> {
        let shown = |value: &Value| value.to_string().chars().take(SHOWN_CHARS).collect::<String>();
        let of = self.platforms.get(platform);
        let wrong = values.iter().filter_map(|(name, value)| {
            let (kind, journey) = of?.get(name)?;
            let is_wrong = !value.is_null() && !kind.has(value);
            is_wrong.then(|| {
                let shown = shown(value);
                format!("«{name}» is {kind}, and not {shown} (declared by journey «{journey}»)")
            })
        });
        let mut wrong: Vec<String> = wrong.collect();
        if let Some(value) = values.get(TIMEZONE).filter(|value| !value.is_null()) {
            if value.as_str().is_none_or(|name| TimeZone::get(name).is_err()) {
                let shown = shown(value);
                wrong.push(format!(
                    "«{TIMEZONE}» is a time zone such as Europe/Berlin, and not {shown}"
                ));
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(JourneyError::Invalid { what: "attributes", problem: wrong.join("; ") })
    }
}

/// Characters of a wrong value that its error shows.
const SHOWN_CHARS: usize = 40;
