//! A definition against recorded events: nothing is stored and nothing is sent.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use turnwheel_engine::Time;

use crate::catalogue::{Catalogue, Kept};
use crate::definition::Definition;
use crate::error::JourneyError;
use crate::event::{user_key, Event};
use crate::row::Row;
use crate::view::{to_ms, Moved};
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
    moved: Vec<(String, Moved)>,
}

impl DryRun {
    /// Of a definition, with no users yet.
    pub fn new(definition: &Definition) -> Self {
        let mut kept = Kept { number: 1, versions: Vec::new(), is_removed: false };
        kept.add(&definition.to_ancestor().to_string(), 0, "");
        let mut catalogue = Catalogue::default();
        catalogue.set(&definition.name, kept, 1);
        Self { catalogue, rows: BTreeMap::new(), moved: Vec::new() }
    }

    /// Gives attributes to a user.
    ///
    /// # Errors
    ///
    /// The names cannot be those of a user.
    pub fn user(
        &mut self,
        platform: &str,
        user: &str,
        attributes: Map<String, Value>,
    ) -> Result<(), JourneyError> {
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

    fn advance(&mut self, at: Time) {
        loop {
            let waits = self.rows.iter().filter_map(|(key, row)| Some((row.due()?, key)));
            let next = waits.min().filter(|(due, _)| *due <= to_ms(at));
            let Some((due, key)) = next.map(|(due, key)| (due, key.clone())) else { return };
            self.turn(key, due, |turn| turn.due());
        }
    }

    fn turn(&mut self, key: String, now: u64, decide: impl FnOnce(&mut Turn<'_>)) {
        let row = self.rows.entry(key.clone()).or_default();
        let mut turn = Turn::new(&self.catalogue, &key, row, now);
        decide(&mut turn);
        let moved = std::mem::take(&mut turn.moved);
        // All messages count as sent.
        row.outbox.clear();
        self.moved.extend(moved.into_iter().map(|moved| (key.clone(), moved)));
    }
}
