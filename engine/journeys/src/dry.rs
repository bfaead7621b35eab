//! A definition against recorded events: nothing is stored and nothing is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use turnwheel_engine::Time;

use crate::catalogue::{Catalogue, Kept};
use crate::definition::Definition;
use crate::error::JourneyError;
use crate::event::{size, user_key, Event};
use crate::limits::{TRIED_MESSAGE_BYTES, TRIED_STEPS_MAX};
use crate::outbox::{Claimed, Message};
use crate::row::{BatchId, Row};
use crate::trial::{TriedMessage, TriedProblem};
use crate::view::{self, time, to_ms, Moved, UserView};
use crate::walk::Turn;

/// A dry run of a definition.
///
/// ```
/// use turnwheel_journeys::{Definition, DryRun, Event};
///
/// let text = "
/// journey: welcome
/// platform: shop
/// elements:
///   hello: { start: { on: customer.created }, then: answer }
///   answer: { wait: { on: order.paid, for: P3D }, then: end, otherwise: end }
/// ";
/// let definition = Definition::read(text, "welcome.yaml")?;
/// let mut run = DryRun::new(&definition);
/// let at = "2026-01-05T12:00:00Z".parse()?;
/// run.event(at, Event::new("shop", "ann", "1", "customer.created"))?;
/// let moved = run.until("2026-01-09T00:00:00Z".parse()?)?;
/// assert_eq!(moved[0].1.path, ["hello", "hello.1", "answer"]);
/// assert_eq!(moved[1].1.path, ["answer", "answer.otherwise", "end"]);
/// assert_eq!(moved[1].1.at.to_string(), "2026-01-08T12:00:00Z");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DryRun {
    catalogue: Catalogue,
    rows: BTreeMap<String, Row>,
    /// When which row is due.
    due: BTreeSet<(u64, String)>,
    moved: Vec<(String, Moved)>,
    messages: Vec<TriedMessage>,
    problems: Vec<TriedProblem>,
    /// Elements and messages that may still come, see [`TRIED_STEPS_MAX`].
    steps_left: usize,
    /// When it has to be over.
    ends: Option<Instant>,
}

impl DryRun {
    /// Of a definition, with no users yet.
    pub fn new(definition: &Definition) -> Self {
        let mut kept = Kept::new(1);
        kept.add(&definition.to_ancestor().to_string(), 0, "");
        let catalogue = Catalogue::only(&definition.name, kept);
        let (rows, due) = Default::default();
        let (moved, messages, problems) = Default::default();
        let steps_left = TRIED_STEPS_MAX;
        Self { catalogue, rows, due, moved, messages, problems, steps_left, ends: None }
    }

    /// Gives attributes to a user, in place of the ones before: what comes after sees them.
    ///
    /// # Errors
    ///
    /// The names cannot be those of a user, or an attribute has another type than the declared one.
    pub fn user(
        &mut self,
        platform: &str,
        user: &str,
        attributes: Map<String, Value>,
    ) -> Result<(), JourneyError> {
        self.catalogue.attributes.check(platform, &attributes)?;
        let row = self.rows.entry(user_key(platform, user)?).or_default();
        row.attributes = Some(Value::Object(attributes).to_string());
        Ok(())
    }

    /// Takes an event at its time, after all that is due before. Events come in the order of time.
    ///
    /// # Errors
    ///
    /// No row could hold the event, or too much has come of the events before.
    pub fn event(&mut self, at: Time, event: Event) -> Result<(), JourneyError> {
        event.check()?;
        let key = user_key(&event.platform, &event.user)?;
        self.advance(at)?;
        let event = std::sync::Arc::new(event);
        self.turn(key, to_ms(at), |turn| {
            turn.event(&event);
        });
        Ok(())
    }

    /// Lets time pass, and takes the moves since the last call with their users, in their order.
    ///
    /// # Errors
    ///
    /// Too much comes of it: more than [`TRIED_STEPS_MAX`] in all.
    pub fn until(&mut self, at: Time) -> Result<Vec<(String, Moved)>, JourneyError> {
        self.advance(at)?;
        Ok(std::mem::take(&mut self.moved))
    }

    /// The same, if it takes no longer than this.
    #[must_use]
    pub(crate) fn within(self, limit: Duration) -> Self {
        Self { ends: Some(instant() + limit), ..self }
    }

    /// Takes the messages that would have left since the last call, in their order.
    pub fn messages(&mut self) -> Vec<TriedMessage> {
        std::mem::take(&mut self.messages)
    }

    /// Takes the failures since the last call that no move tells, in their order.
    pub fn problems(&mut self) -> Vec<TriedProblem> {
        std::mem::take(&mut self.problems)
    }

    /// Where all users are.
    pub fn users(&self) -> Vec<UserView> {
        self.rows.iter().map(|(key, row)| view::user(&self.catalogue, key, row)).collect()
    }

    fn advance(&mut self, at: Time) -> Result<(), JourneyError> {
        while self.due.first().is_some_and(|(due, _)| *due <= to_ms(at)) {
            let Some((due, key)) = self.due.pop_first() else { break };
            self.check_limits(due)?;
            self.turn(key, due, |turn| turn.due());
        }
        self.check_limits(to_ms(at))
    }

    fn check_limits(&self, now: u64) -> Result<(), JourneyError> {
        let what = match self.ends {
            _ if self.steps_left == 0 => "so much comes of the events",
            Some(ends) if instant() >= ends => "the events take so long",
            _ => return Ok(()),
        };
        let problem =
            format!("{what} that it ends at {}: let it go on to an earlier time", time(now));
        Err(JourneyError::Invalid { what: "until", problem })
    }

    fn turn(&mut self, key: String, now: u64, decide: impl FnOnce(&mut Turn<'_>)) {
        let row = self.rows.entry(key.clone()).or_default();
        if let Some(before) = row.due(now) {
            self.due.remove(&(before, key.clone()));
        }
        let mut turn = Turn::new(&self.catalogue, &key, row, now);
        decide(&mut turn);
        // All messages count as sent when they may leave.
        let batch = BatchId::default();
        let place = |channel: &str, _: &Message| Ok((channel.to_owned(), String::new()));
        while let Some(claimed) = turn.claim(batch, place) {
            let Claimed { receiver: (channel, _), message, outgoing } = claimed;
            turn.sent(&batch, &outgoing, &Ok(()));
            let bytes = size(&message.body, usize::MAX);
            self.steps_left = self.steps_left.saturating_sub(1 + bytes / TRIED_MESSAGE_BYTES);
            self.messages.push(TriedMessage { at: time(now), channel, message });
        }
        let moved = std::mem::take(&mut turn.moved);
        if let Some(problem) = turn.notes.text() {
            self.steps_left =
                self.steps_left.saturating_sub(1 + problem.len() / TRIED_MESSAGE_BYTES);
            let user = key.split_once('/').map_or(key.as_str(), |(_, user)| user).to_owned();
            self.problems.push(TriedProblem { at: time(now), user, problem });
        }
        let steps: usize = moved.iter().map(|moved| moved.path.len()).sum();
        self.steps_left = self.steps_left.saturating_sub(steps);
        self.due.extend(row.due(now).map(|due| (due, key.clone())));
        self.moved.extend(moved.into_iter().map(|moved| (key.clone(), moved)));
    }
}

#[expect(clippy::disallowed_methods, reason = "a dry run has no group, and its limit is real time")]
fn instant() -> Instant {
    Instant::now()
}
