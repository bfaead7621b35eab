//! A definition against recorded events: nothing is stored and nothing is sent.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use turnwheel_engine::Time;

use crate::catalogue::{Catalogue, Kept};
use crate::definition::Definition;
use crate::error::JourneyError;
use crate::event::{user_key, Event};
use crate::outbox::Sender;
use crate::row::Row;
use crate::trial::TriedMessage;
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
/// let moved = run.until("2026-01-09T00:00:00Z".parse()?);
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
}

impl DryRun {
    /// Of a definition, with no users yet.
    pub fn new(definition: &Definition) -> Self {
        let mut kept = Kept::new(1);
        kept.add(&definition.to_ancestor().to_string(), 0, "");
        let catalogue = Catalogue::only(&definition.name, kept);
        let (rows, due) = Default::default();
        Self { catalogue, rows, due, moved: Vec::new(), messages: Vec::new() }
    }

    /// Gives attributes to a user.
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
    /// No row could hold the event.
    pub fn event(&mut self, at: Time, event: Event) -> Result<(), JourneyError> {
        event.check()?;
        let key = user_key(&event.platform, &event.user)?;
        self.advance(at);
        let event = std::sync::Arc::new(event);
        self.turn(key, to_ms(at), |turn| {
            turn.event(&event);
        });
        Ok(())
    }

    /// Lets time pass, and returns all moves with their users, in their order.
    pub fn until(&mut self, at: Time) -> Vec<(String, Moved)> {
        self.advance(at);
        std::mem::take(&mut self.moved)
    }

    /// The messages that would have left, in their order.
    pub(crate) fn messages(&mut self) -> Vec<TriedMessage> {
        std::mem::take(&mut self.messages)
    }

    /// Where all users are.
    pub fn users(&self) -> Vec<UserView> {
        self.rows.iter().map(|(key, row)| view::user(&self.catalogue, key, row)).collect()
    }

    fn advance(&mut self, at: Time) {
        while self.due.first().is_some_and(|(due, _)| *due <= to_ms(at)) {
            let Some((due, key)) = self.due.pop_first() else { return };
            self.turn(key, due, |turn| turn.due());
        }
    }

    fn turn(&mut self, key: String, now: u64, decide: impl FnOnce(&mut Turn<'_>)) {
        let row = self.rows.entry(key.clone()).or_default();
        if let Some(before) = row.due() {
            self.due.remove(&(before, key.clone()));
        }
        let mut turn = Turn::new(&self.catalogue, &key, row, now);
        decide(&mut turn);
        // All messages count as sent when they may leave.
        let sender = Sender { world: 0, is_alive: &|_| false };
        while let Some((channel, message)) = turn.claim(&sender) {
            turn.sent(&message.key, &Ok(()));
            self.messages.push(TriedMessage { at: time(now), channel, message });
        }
        let moved = std::mem::take(&mut turn.moved);
        self.due.extend(row.due().map(|due| (due, key.clone())));
        self.moved.extend(moved.into_iter().map(|moved| (key.clone(), moved)));
    }
}
