//! Messages: decided on with the step that makes them, and sent after it is durable.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chart::Chart;
use crate::limits::{
    ATTEMPTS_MAX, BODY_BYTES_MAX, LOST_MAX, OUTBOX_MAX, PAUSE, PAUSE_MAX, SENDING_MS,
};
use crate::quiet;
use crate::row::{Lost, Outgoing, Pass};
use crate::walk::{entered, ms, object, Segment, Turn};

/// A message that a channel has to send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Message {
    /// The same for all attempts, and for no other message: a receiver drops what it has seen.
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
    /// Number of this attempt, from 1.
    pub attempt: u32,
}

/// Why a message was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsent {
    /// It is tried again later.
    Again(String),
    /// It is given up.
    Never(String),
}

impl Turn<'_> {
    /// Puts the message of an action into the outbox, unless the user or a cap forbids it.
    pub(crate) fn send(
        &mut self,
        chart: &Chart,
        pass: &mut Pass,
        number: u16,
        segment: &mut Segment,
    ) {
        let Some(node) = chart.node(number) else { return };
        let Some((channel, content)) = &node.send else { return };
        let settings = &chart.settings;
        let mut refuse = |why: &str| segment.note(format!("«{}» was not sent: {why}", node.id));
        if self.row.has_opted_out && !settings.essential {
            return refuse("the user has opted out");
        }
        if let Some(cap) = &settings.cap {
            let now = self.now;
            let per = ms(&cap.per).unwrap_or(0);
            let sent = &mut entered(self.row, chart.journey).sent;
            sent.retain(|at| at.saturating_add(per) > now);
            if sent.len() as u64 >= u64::from(cap.messages) {
                return refuse("the cap of the journey is reached");
            }
        }
        let body = match content.fill(&self.scope(&pass.data), self.now) {
            Ok(body) => body.to_string(),
            Err(problem) => return refuse(&problem),
        };
        if body.len() > BODY_BYTES_MAX {
            return refuse("its content is too large");
        }
        if self.row.outbox.len() >= OUTBOX_MAX {
            return refuse("too many messages wait");
        }
        let from = self.from(chart);
        if settings.cap.is_some() {
            entered(self.row, chart.journey).sent.push(self.now);
        }
        pass.messages += 1;
        self.row.outbox.push(Outgoing {
            journey: chart.journey,
            version: chart.version,
            pass: pass.number,
            number: pass.messages,
            element: number,
            from,
            attempts: 0,
            channel: channel.clone(),
            body,
        });
    }

    /// When a message may leave: after quiet hours of the user's zone.
    fn from(&self, chart: &Chart) -> u64 {
        let Some(quiet) = &chart.settings.quiet else { return self.now };
        let attributes = object(self.row.attributes.as_deref());
        let zone = attributes.get("timezone").and_then(Value::as_str);
        quiet::ends(quiet, zone, self.now).unwrap_or(self.now)
    }

    /// Takes what a channel says of a message.
    pub(crate) fn sent(&mut self, key: &str, outcome: &Result<(), Unsent>) {
        let found = self.row.outbox.iter().position(|message| message.key(self.key) == key);
        let Some(at) = found else { return };
        self.is_changed = true;
        let message = &mut self.row.outbox[at];
        message.attempts += 1;
        let reason = match outcome {
            Ok(()) => return drop(self.row.outbox.remove(at)),
            Err(Unsent::Again(_)) if message.attempts < ATTEMPTS_MAX => {
                let doubled = PAUSE.saturating_mul(1 << message.attempts.min(20));
                let pause = doubled.min(PAUSE_MAX).as_millis();
                message.from = self.now.saturating_add(u64::try_from(pause).unwrap_or(u64::MAX));
                return;
            }
            Err(Unsent::Again(reason) | Unsent::Never(reason)) => reason.clone(),
        };
        let message = self.row.outbox.remove(at);
        self.row.lost.push(Lost { message, at: self.now, reason });
        let surplus = self.row.lost.len().saturating_sub(LOST_MAX);
        self.row.lost.drain(..surplus);
    }

    /// Claims the next message that may leave now: it is sent when the claim is durable, and other
    /// nodes leave it alone for some time. Returns it with the name of its channel.
    pub(crate) fn claim(&mut self) -> Option<(String, Message)> {
        let ready = |message: &&Outgoing| message.from <= self.now;
        let number = self.row.heads().find(ready).map(|message| (message.pass, message.number))?;
        let is_it = |message: &&mut Outgoing| (message.pass, message.number) == number;
        let message = self.row.outbox.iter_mut().find(is_it)?;
        message.from = self.now.saturating_add(SENDING_MS);
        self.is_changed = true;
        let chart = self.catalogue.chart(message.journey, message.version);
        let (platform, user) = self.key.split_once('/').unwrap_or((self.key, ""));
        let claimed = Message {
            key: message.key(self.key),
            platform: platform.to_owned(),
            user: user.to_owned(),
            journey: chart.map_or_else(|| message.journey.to_string(), |chart| chart.name.clone()),
            element: chart.map_or("?", |chart| chart.id(message.element)).to_owned(),
            body: serde_json::from_str(&message.body).unwrap_or_default(),
            attempt: message.attempts + 1,
        };
        Some((message.channel.clone(), claimed))
    }
}
