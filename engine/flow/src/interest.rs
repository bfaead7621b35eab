//! Answers of a listening task's filters about an event, without the data of a flow.
//!
//! A filter has parts that are the same for all plans of the flow (fixed values, expressions that
//! look at the event alone, the value that an event correlates by) and parts that only the task can
//! judge (expressions with variables). An event that the first kind refuses is not delivered. The
//! second kind leaves it open: the event is delivered and counted as undecided.

use std::sync::Arc;

use serde_json::Value;

use crate::definition::Definition;
use crate::event::CloudEvent;
use crate::expr::{Program, Template};
use crate::life::TYPES;
use crate::model::{Filter, Strategy, Until};
use crate::pattern::Pattern;

/// Whether an event is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Meant {
    /// Only the task can say.
    Open,
    Yes,
}

/// Answer of one filter about an event.
#[derive(Debug)]
pub(super) struct Judged {
    /// The number of the filter.
    pub(super) filter: usize,
    pub(super) meant: Meant,
    /// The value for each correlation; nothing if it cannot be told here.
    pub(super) correlated: Vec<Option<Value>>,
}

/// The filters of one listening task, compiled.
#[derive(Debug)]
pub(super) struct Interests {
    filters: Vec<Interest>,
}

/// The parts of a filter that are the same for all plans.
#[derive(Debug, Default)]
struct Interest {
    /// Attributes with the values that they must have.
    fixed: Vec<(String, Pattern)>,
    /// Pattern of the data.
    data: Option<Pattern>,
    /// Expressions that see nothing but an attribute.
    tests: Vec<(String, Arc<Program>)>,
    /// Expression for each correlation's value; none if it reads more than the event.
    correlations: Vec<Option<Arc<Program>>>,
    /// Whether the task decides by more than that.
    is_open: bool,
}

/// All filters of a strategy, those of «until» first. Their places are the numbers of the filters.
pub(super) fn filters_of(strategy: &Strategy) -> Vec<&Filter> {
    match strategy {
        Strategy::One(filter) => vec![filter],
        Strategy::All(filters) => filters.iter().collect(),
        Strategy::Any { filters, until } => {
            let until = match until {
                Some(Until::Events(strategy)) => filters_of(strategy),
                _ => Vec::new(),
            };
            until.into_iter().chain(filters).collect()
        }
    }
}

impl Interests {
    pub(super) fn new(definition: &Definition, strategy: &Strategy) -> Self {
        let mut filters: Vec<Interest> =
            filters_of(strategy).into_iter().map(|it| Interest::of(definition, it)).collect();
        let mut parts = vec![strategy];
        if let Strategy::Any { filters: any, until } = strategy {
            if any.is_empty() {
                // Every event is meant.
                filters.push(Interest::default());
            }
            if let Some(Until::Events(until)) = until {
                parts.push(until);
            }
        }
        // A task that needs several events may have some already.
        let needs_several = |it: &&Strategy| matches!(it, Strategy::All(all) if all.len() > 1);
        if parts.iter().any(needs_several) {
            filters.iter_mut().for_each(|interest| interest.is_open = true);
        }
        Self { filters }
    }

    /// Number of filters.
    pub(super) fn len(&self) -> usize {
        self.filters.len()
    }

    /// The types of events that may be meant; nothing if they cannot be listed.
    pub(super) fn types(&self) -> Option<Vec<&str>> {
        let mut types = Vec::new();
        for interest in &self.filters {
            let (_, kind) = interest.fixed.iter().find(|(name, _)| name == "type")?;
            types.push(kind.only_text()?);
        }
        types.sort_unstable();
        types.dedup();
        Some(types)
    }

    /// The filters that may mean an event.
    pub(super) fn judge(&self, event: &CloudEvent, fields: &Value) -> Vec<Judged> {
        let all = self.filters.iter().enumerate();
        all.filter_map(|(filter, interest)| interest.judge(filter, event, fields)).collect()
    }
}

impl Interest {
    fn of(definition: &Definition, filter: &Filter) -> Self {
        let mut interest = Self::default();
        for (name, wanted) in &filter.with {
            match wanted {
                Template::Fixed(value) if name != "data" => {
                    interest.fixed.push((name.clone(), Pattern::new(value)));
                }
                Template::Fixed(value) => interest.data = Some(Pattern::new(value)),
                Template::Expression(text) if is_of_event(text) => {
                    match definition.program(text, &[]) {
                        Ok(program) => interest.tests.push((name.clone(), program)),
                        Err(_) => interest.is_open = true,
                    }
                }
                _ => interest.is_open = true,
            }
        }
        let program =
            |text: &str| is_of_event(text).then(|| definition.program(text, &[]).ok()).flatten();
        interest.correlations =
            filter.correlate.iter().map(|correlation| program(&correlation.from)).collect();
        interest
    }

    fn judge(&self, filter: usize, event: &CloudEvent, fields: &Value) -> Option<Judged> {
        // Life-cycle events are for listeners that name their types.
        let is_named = !event.kind.starts_with(TYPES) || self.fixed.iter().any(|it| it.0 == "type");
        let has = |(name, wanted): &(String, Pattern)| {
            fields.get(name).is_some_and(|value| wanted.fits(value))
        };
        if !is_named || !self.fixed.iter().all(has) {
            return None;
        }
        if self.data.as_ref().is_some_and(|wanted| !wanted.fits(&event.content())) {
            return None;
        }
        let mut meant = if self.is_open { Meant::Open } else { Meant::Yes };
        for (name, program) in &self.tests {
            let value = match name.as_str() {
                "data" => event.content(),
                name => fields.get(name)?.clone(),
            };
            match program.run(&value, &[], 0.0) {
                Ok(answer) if agrees(&answer, &value) => {}
                Ok(_) => return None,
                // The task says in its history what is wrong.
                Err(_) => meant = Meant::Open,
            }
        }
        let mut correlated = Vec::with_capacity(self.correlations.len());
        for program in &self.correlations {
            let value = program.as_ref().and_then(|program| correlation(program, event, fields));
            if value == Some(Value::Null) {
                return None;
            }
            correlated.push(value);
        }
        Some(Judged { filter, meant, correlated })
    }
}

/// Correlation value of an event, as the task finds it: from its attributes, or else from its data.
/// `None` if it cannot be evaluated: the history of the task then has the reason.
fn correlation(program: &Program, event: &CloudEvent, fields: &Value) -> Option<Value> {
    let of_event = program.run(fields, &[], 0.0);
    match of_event {
        Ok(value) if !value.is_null() => Some(value),
        of_event => match program.run(&event.content(), &[], 0.0) {
            Ok(value) => Some(value),
            Err(_) => of_event.ok(),
        },
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

/// Whether an expression has the same value for as long as a task listens: it looks neither at the
/// clock nor at the context, which the task itself may change.
pub(super) fn is_steady(text: &str) -> bool {
    !text.contains("$context") && !text.contains("now") && !text.contains("time")
}
