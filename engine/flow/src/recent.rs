//! The events that were published lately in this world, with the tasks that got each.
//!
//! They are for people who look: in memory only, and lost at its end.

use std::collections::{BTreeSet, VecDeque};

use turnwheel_engine::{PlanId, StepId, Time};

use crate::event::CloudEvent;
use crate::limits::{RECENT_ATTRIBUTE_BYTES, RECENT_EVENTS};

/// A task that has got an event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taker {
    /// Its plan.
    pub plan: PlanId,
    /// Its step.
    pub step: StepId,
    /// Id of its flow.
    pub flow: String,
    /// Place of the task in the definition: a JSON pointer.
    pub task: String,
}

impl Taker {
    pub(crate) fn new((plan, step): (PlanId, StepId), flow: String, task: String) -> Self {
        Self { plan, step, flow, task }
    }
}

/// Outcome of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// Steps that got it: those whose filter means it, and those that decide by more than the event
    /// whether it does.
    pub delivered: usize,
    /// Number of those that decide themselves: by a variable, a correlation, earlier events, or
    /// because an expression fails on this event (the history of their plan then says so).
    pub undecided: usize,
    /// Steps that still wait for events and had got it before, and plans that had begun with it
    /// before, by its source and id: nothing has changed for them. If a world went away meanwhile,
    /// some of them may have got it by this publication.
    pub repeated: usize,
    /// Plans that began with it, by this publication or by an earlier one.
    pub started: Vec<PlanId>,
    /// Those of them that began by this publication.
    pub(crate) begun: BTreeSet<PlanId>,
    /// Steps of this world that got it: the first [`RECENT_TAKERS`](crate::limits::RECENT_TAKERS).
    pub takers: Vec<Taker>,
}

impl Published {
    /// Whether everybody who takes it had got it before: nothing has changed.
    pub fn is_repeated(&self) -> bool {
        self.repeated > 0 && self.delivered == 0 && self.begun.is_empty()
    }

    /// Whether nobody takes it, or had got it before.
    pub(crate) fn is_unheard(&self) -> bool {
        self.delivered == 0 && self.repeated == 0 && self.started.is_empty()
    }
}

/// An event that was published, and who has got it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecentEvent {
    /// When it was durable with all its takers.
    pub at: Time,
    /// Its type, cut off if it is long; its source, subject and id likewise.
    pub kind: String,
    /// Its source.
    pub source: String,
    /// Its subject.
    pub subject: Option<String>,
    /// Its id.
    pub id: String,
    /// Outcome of its publication.
    pub published: Published,
}

/// The newest published events.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    events: VecDeque<RecentEvent>,
}

impl Recent {
    pub(crate) fn add(&mut self, at: Time, event: &CloudEvent, published: &Published) {
        if self.events.len() == RECENT_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(RecentEvent {
            at,
            kind: cut(&event.kind),
            source: cut(&event.source),
            subject: event.subject.as_deref().map(cut),
            id: cut(&event.id),
            published: published.clone(),
        });
    }

    /// The newest ones, newest first.
    pub(crate) fn newest(&self, limit: usize) -> Vec<RecentEvent> {
        self.events.iter().rev().take(limit).cloned().collect()
    }
}

/// A text that is cut off if it is long.
fn cut(text: &str) -> String {
    let is_near = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=text.len().min(RECENT_ATTRIBUTE_BYTES)).rev().find(is_near).unwrap_or(0);
    let dots = if end < text.len() { "…" } else { "" };
    format!("{}{dots}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_attributes_are_cut_between_characters() {
        assert_eq!(cut("/shop"), "/shop");
        let long = "ä".repeat(RECENT_ATTRIBUTE_BYTES);
        assert_eq!(cut(&long), format!("{}…", "ä".repeat(RECENT_ATTRIBUTE_BYTES / 2)));
    }
}
