//! Messages: decided on with the step that makes them, and sent after it is durable.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::attributes::TIMEZONE;
use crate::chart::Chart;
use crate::error::JourneyError;
use crate::limits::{ATTEMPTS_MAX, BODY_BYTES_MAX, LOST_MAX, OUTBOX_MAX, PAUSE, PAUSE_MAX};
use crate::places::Receiver;
use crate::quiet;
use crate::row::{BatchId, Lost, Outgoing, Pass, Sending};
use crate::walk::{entered, ms, object, Segment, Turn};

/// Why a message is given up that finds the outbox full.
const TOO_MANY: &str = "too many messages wait";

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

/// A message that is given to its channel once that is durable.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) receiver: Receiver,
    pub(crate) message: Message,
    /// The message as the batch keeps it.
    pub(crate) outgoing: Outgoing,
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
        let from = self.quiet_until(chart).unwrap_or(self.now);
        pass.messages += 1;
        let message = Outgoing {
            journey: chart.journey,
            version: chart.version,
            pass: pass.number,
            number: pass.messages,
            element: number,
            from,
            attempts: 0,
            channel: channel.clone(),
            body,
        };
        if self.row.outbox.len() + self.row.sending.len() >= OUTBOX_MAX {
            refuse(TOO_MANY);
            return self.give_up(message, TOO_MANY.to_owned());
        }
        if settings.cap.is_some() {
            entered(self.row, chart.journey).sent.push(self.now);
        }
        self.row.outbox.push(message);
    }

    /// Keeps a message that is not sent, with the reason.
    fn give_up(&mut self, message: Outgoing, reason: String) {
        self.row.lost.push(Lost { message, at: self.now, reason });
        let surplus = self.row.lost.len().saturating_sub(LOST_MAX);
        self.row.lost.drain(..surplus);
    }

    /// Puts messages that were given up back into the outbox, with their keys: that of a key, or
    /// all. To a user who has opted out those go whose journey was essential in the version that
    /// has made them.
    ///
    /// # Errors
    ///
    /// There is none, the user has opted out of all of them, or too many messages wait.
    pub(crate) fn resend(&mut self, key: Option<&str>) -> Result<(), JourneyError> {
        let is_meant = |lost: &Lost| key.is_none_or(|key| lost.message.key(self.key) == key);
        let of = (0..self.row.lost.len()).filter(|at| is_meant(&self.row.lost[*at]));
        let mut meant: Vec<usize> = of.collect();
        if meant.is_empty() {
            let (user, key) = (self.key.to_owned(), key.map(str::to_owned));
            return Err(JourneyError::NotLost { user, key });
        }
        let refused = |problem: &str| {
            Err(JourneyError::Invalid { what: "message", problem: problem.to_owned() })
        };
        if self.row.has_opted_out {
            meant.retain(|at| {
                let Lost { message, .. } = &self.row.lost[*at];
                let chart = self.catalogue.chart(message.journey, message.version);
                chart.is_some_and(|chart| chart.settings.essential)
            });
            if meant.is_empty() {
                return refused("the user has opted out");
            }
        }
        if self.row.outbox.len() + self.row.sending.len() + meant.len() > OUTBOX_MAX {
            return refused(TOO_MANY);
        }
        // The last one first, as each becomes the first one of the outbox.
        for at in meant.into_iter().rev() {
            let Lost { mut message, .. } = self.row.lost.remove(at);
            (message.attempts, message.from) = (0, self.now);
            self.row.take_back(message);
        }
        self.is_changed = true;
        Ok(())
    }

    /// The end of quiet hours in the user's zone, if it is within them now.
    fn quiet_until(&self, chart: &Chart) -> Option<u64> {
        let quiet = chart.settings.quiet.as_ref()?;
        let attributes = object(self.row.attributes.as_deref());
        let zone = attributes.get(TIMEZONE).and_then(Value::as_str);
        quiet::ends(quiet, zone, self.now)
    }

    /// Takes what a channel says of a message that was given to a batch. A message that was sent is
    /// written with the next change of the user: until then its batch says so by being gone.
    pub(crate) fn sent(&mut self, batch: &BatchId, of: &Outgoing, outcome: &Result<(), Unsent>) {
        let mut sending = self.row.sending.iter();
        let found = sending.position(|it| it.batch == *batch);
        let Some(at) = found else { return };
        self.row.sending.remove(at);
        let mut message = of.clone();
        message.attempts += 1;
        let reason = match outcome {
            Ok(()) => return,
            Err(Unsent::Again(_)) if message.attempts < ATTEMPTS_MAX => {
                let doubled = PAUSE.saturating_mul(1 << (message.attempts - 1).min(20));
                let pause = doubled.min(PAUSE_MAX).as_millis();
                message.from = self.now.saturating_add(u64::try_from(pause).unwrap_or(u64::MAX));
                self.is_changed = true;
                return self.row.take_back(message);
            }
            Err(Unsent::Again(reason) | Unsent::Never(reason)) => reason.clone(),
        };
        self.is_changed = true;
        self.give_up(message, reason);
    }

    /// Gives the next message that may leave now to a batch: it is sent when both are durable, and
    /// other nodes leave it alone as long as this one is alive. `place` takes a place for a message
    /// through a channel, or says for how many milliseconds there is none: then it is put off.
    pub(crate) fn claim(
        &mut self,
        batch: BatchId,
        mut place: impl FnMut(&str, &Message) -> Result<Receiver, u64>,
    ) -> Option<Claimed> {
        let ready: Vec<usize> = self.row.ready(self.now).collect();
        for at in ready {
            let outgoing = &self.row.outbox[at];
            let chart = self.catalogue.chart(outgoing.journey, outgoing.version);
            // It was decided on before quiet hours and comes back within them.
            let placed = match chart.and_then(|chart| self.quiet_until(chart)) {
                Some(until) => Err(until),
                None => {
                    let message = self.message(outgoing);
                    let placed = place(&outgoing.channel, &message);
                    placed
                        .map(|receiver| (receiver, message))
                        .map_err(|ms| self.now.saturating_add(ms))
                }
            };
            self.is_changed = true;
            match placed {
                Ok((receiver, message)) => {
                    let outgoing = self.row.outbox.remove(at);
                    self.row.sending.push(Sending { batch, pass: outgoing.pass, message: None });
                    return Some(Claimed { receiver, message, outgoing });
                }
                Err(from) => self.row.outbox[at].from = from,
            }
        }
        None
    }

    /// A message as its channel gets it.
    fn message(&self, outgoing: &Outgoing) -> Message {
        let chart = self.catalogue.chart(outgoing.journey, outgoing.version);
        let (platform, user) = self.key.split_once('/').unwrap_or((self.key, ""));
        let of = || outgoing.journey.to_string();
        Message {
            key: outgoing.key(self.key),
            platform: platform.to_owned(),
            user: user.to_owned(),
            journey: chart.map_or_else(of, |chart| chart.name.clone()),
            element: chart.map_or("?", |chart| chart.id(outgoing.element)).to_owned(),
            body: serde_json::from_str(&outgoing.body).unwrap_or_default(),
            attempt: outgoing.attempts + 1,
        }
    }
}
