//! Events of users.

use serde_json::{json, Value};
use sha2::{Digest, Sha256};

use crate::error::JourneyError;
use crate::limits::{
    EVENT_BYTES_MAX, EVENT_ID_BYTES_MAX, LEVELS_MAX, NAME_BYTES_MAX, USER_BYTES_MAX,
};

/// Something that a user did, or that happened to one.
///
/// ```
/// use turnwheel_journeys::Event;
///
/// let event = Event::new("shop", "ann", "order 17", "order.paid")
///     .data(serde_json::json!({ "total": 1_995 }));
/// assert_eq!(event.kind, "order.paid");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The platform.
    pub platform: String,
    /// The user.
    pub user: String,
    /// A second event of the user with the same id and source changes nothing.
    pub id: String,
    /// Where it comes from, if somebody said so.
    pub source: Option<String>,
    /// Its kind.
    pub kind: String,
    /// Its data.
    pub data: Value,
    /// The time that its sender has given; never used for waits, as senders' clocks may be wrong.
    pub time: Option<String>,
}

impl Event {
    /// An event without data.
    pub fn new(
        platform: impl Into<String>,
        user: impl Into<String>,
        id: impl Into<String>,
        kind: impl Into<String>,
    ) -> Self {
        let (platform, user, id, kind) = (platform.into(), user.into(), id.into(), kind.into());
        Self { platform, user, id, source: None, kind, data: Value::Null, time: None }
    }

    /// The same with data.
    #[must_use]
    pub fn data(mut self, data: Value) -> Self {
        self.data = data;
        self
    }

    /// The same from a source, without which ids of two senders may be the same.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same with the time of its sender.
    #[must_use]
    pub fn time(mut self, time: impl Into<String>) -> Self {
        self.time = Some(time.into());
        self
    }

    /// Refuses what no row can hold.
    ///
    /// # Errors
    ///
    /// The part that is too large, or empty.
    pub fn check(&self) -> Result<(), JourneyError> {
        user_key(&self.platform, &self.user)?;
        let source = self.source.iter().map(|source| ("source", source));
        for (what, text) in [("id", &self.id), ("type", &self.kind)].into_iter().chain(source) {
            if text.is_empty() || text.len() > EVENT_ID_BYTES_MAX {
                let problem = format!("it has 1 to {EVENT_ID_BYTES_MAX} bytes");
                return Err(JourneyError::Invalid { what, problem });
            }
        }
        if size(&self.data, EVENT_BYTES_MAX) > EVENT_BYTES_MAX {
            let problem = format!("it has at most {EVENT_BYTES_MAX} bytes and {LEVELS_MAX} levels");
            return Err(JourneyError::Invalid { what: "data", problem });
        }
        Ok(())
    }

    pub(crate) fn digest(&self) -> [u8; 8] {
        let digest = match &self.source {
            // Else «a» with the id «b c» would be «a b» with the id «c».
            Some(source) if source.contains(' ') => {
                Sha256::digest(format!("\0{source}\0{}", self.id))
            }
            Some(source) => Sha256::digest(format!("{source} {}", self.id)),
            None => Sha256::digest(&self.id),
        };
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        first
    }

    /// As conditions see it.
    pub(crate) fn scope(&self) -> Value {
        let Self { id, source, kind, data, time, .. } = self;
        json!({ "id": id, "source": source, "type": kind, "data": data, "time": time })
    }

    /// The text that [`contains`](crate::Rule::contains) and `equals` look at.
    pub(crate) fn text(&self) -> Option<&str> {
        self.data.get("text").unwrap_or(&self.data).as_str()
    }
}

/// About how many bytes a value has as JSON; the count ends a little after `most`. A value of more
/// than [`LEVELS_MAX`] levels has more than any limit.
pub(crate) fn size(value: &Value, most: usize) -> usize {
    let mut total = 0;
    let mut open = vec![(value, 1)];
    while let Some((value, level)) = open.pop() {
        if level > LEVELS_MAX {
            return usize::MAX;
        }
        total += match value {
            Value::String(text) => text.len() + 2,
            Value::Array(items) => {
                open.extend(items.iter().map(|item| (item, level + 1)));
                2
            }
            Value::Object(fields) => {
                open.extend(fields.values().map(|field| (field, level + 1)));
                fields.keys().map(|name| name.len() + 4).sum()
            }
            _ => 4,
        };
        if total > most {
            break;
        }
    }
    total
}

/// The key of a user's row.
pub(crate) fn user_key(platform: &str, user: &str) -> Result<String, JourneyError> {
    let is_plain = !platform.contains(['/', '\0']);
    if platform.is_empty() || platform.len() > NAME_BYTES_MAX || !is_plain {
        let problem = format!("it has 1 to {NAME_BYTES_MAX} bytes, and no slash");
        return Err(JourneyError::Invalid { what: "platform", problem });
    }
    if user.is_empty() || user.len() > USER_BYTES_MAX || user.contains('\0') {
        let problem = format!("it has 1 to {USER_BYTES_MAX} bytes, and no NUL");
        return Err(JourneyError::Invalid { what: "user", problem });
    }
    Ok(format!("{platform}/{user}"))
}
