//! What is known of those who listen without asking them: most events that are not meant wake nobody.
//!
//! A filter has parts that say the same of an event whoever listens (fixed values, expressions that look at
//! the event alone) and parts that only the task itself can judge (expressions with variables,
//! correlations). An event that the first kind refuses is not delivered; one that the second kind may
//! refuse is delivered and counted as undecided.

use std::sync::Arc;

use serde_json::Value;

use super::definition::Definition;
use super::event::CloudEvent;
use super::expr::{Program, Template};
use super::life::TYPES;
use super::model::{Filter, Strategy, Until};
use super::run::is_like;

/// Whether an event is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Meant {
    No,
    /// Only the task can say.
    Open,
    Yes,
}

/// One who listens.
#[derive(Debug)]
pub(super) struct Listener {
    interests: Vec<Interest>,
}

/// What of a filter is known without the data of a flow.
#[derive(Debug, Default)]
struct Interest {
    /// Attributes with the values that they must have.
    fixed: Vec<(String, Value)>,
    /// What the data must have.
    data: Option<Value>,
    /// Expressions that see nothing but an attribute.
    tests: Vec<(String, Arc<Program>)>,
    /// Whether that is not all.
    is_open: bool,
}

impl Listener {
    pub(super) fn new(definition: &Definition, strategy: &Strategy) -> Self {
        let mut interests = Vec::new();
        collect(definition, strategy, &mut interests);
        Self { interests }
    }

    /// A first look, at fixed values only: it costs nothing worth speaking of.
    pub(super) fn may_mean(&self, event: &CloudEvent, fields: &Value) -> bool {
        self.interests.iter().any(|interest| interest.may_mean(event, fields))
    }

    /// Evaluates what can be evaluated here.
    pub(super) fn means(&self, event: &CloudEvent, fields: &Value) -> Meant {
        let may = self.interests.iter().filter(|interest| interest.may_mean(event, fields));
        may.map(|interest| interest.means(event, fields)).max().unwrap_or(Meant::No)
    }
}

impl Interest {
    fn of(definition: &Definition, filter: &Filter) -> Self {
        let mut interest = Self { is_open: !filter.correlate.is_empty(), ..Self::default() };
        for (name, wanted) in &filter.with {
            match wanted {
                Template::Fixed(value) if name != "data" => {
                    interest.fixed.push((name.clone(), value.clone()));
                }
                Template::Fixed(value) => interest.data = Some(value.clone()),
                Template::Expression(text) if is_of_event(text) => {
                    match definition.program(text, &[]) {
                        Ok(program) => interest.tests.push((name.clone(), program)),
                        Err(_) => interest.is_open = true,
                    }
                }
                _ => interest.is_open = true,
            }
        }
        interest
    }

    fn may_mean(&self, event: &CloudEvent, fields: &Value) -> bool {
        // Life-cycle events are for those who name them.
        let is_named = !event.kind.starts_with(TYPES) || self.fixed.iter().any(|it| it.0 == "type");
        let has = |(name, wanted): &(String, Value)| {
            fields.get(name).is_some_and(|value| is_like(wanted, value))
        };
        is_named && self.fixed.iter().all(has)
    }

    fn means(&self, event: &CloudEvent, fields: &Value) -> Meant {
        let mut meant = if self.is_open { Meant::Open } else { Meant::Yes };
        if self.data.as_ref().is_some_and(|wanted| !is_like(wanted, &event.content())) {
            return Meant::No;
        }
        for (name, program) in &self.tests {
            let value = match name.as_str() {
                "data" => Some(event.content()),
                name => fields.get(name).cloned(),
            };
            let Some(value) = value else { return Meant::No };
            match program.run(&value, &[], 0.0) {
                Ok(answer) if agrees(&answer, &value) => {}
                Ok(_) => return Meant::No,
                // The task says in its history what is wrong.
                Err(_) => meant = Meant::Open,
            }
        }
        meant
    }
}

/// Whether an expression means an attribute by what it answers: it says so, or it is what is wanted.
pub(super) fn agrees(answer: &Value, value: &Value) -> bool {
    match answer {
        Value::Bool(is_meant) => *is_meant,
        wanted => wanted == value,
    }
}

/// Whether an expression looks at nothing but its input: no variable, no clock.
fn is_of_event(text: &str) -> bool {
    !text.contains('$') && !text.contains("now") && !text.contains("time")
}

fn collect(definition: &Definition, strategy: &Strategy, interests: &mut Vec<Interest>) {
    let filters = match strategy {
        Strategy::One(filter) => std::slice::from_ref(filter),
        Strategy::All(filters) => filters.as_slice(),
        Strategy::Any { filters, until } => {
            if let Some(Until::Events(strategy)) = until {
                collect(definition, strategy, interests);
            }
            if filters.is_empty() {
                interests.push(Interest::default());
            }
            filters.as_slice()
        }
    };
    // Of several that are all needed it may have some already.
    let may_be_there = matches!(strategy, Strategy::All(filters) if filters.len() > 1);
    let of = |filter: &Filter| {
        let interest = Interest::of(definition, filter);
        Interest { is_open: interest.is_open || may_be_there, ..interest }
    };
    interests.extend(filters.iter().map(of));
}
