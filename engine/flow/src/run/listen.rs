//! Listening: which events are meant, and what becomes of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::env::check;
use super::gathered::Gathered;
use super::machine::{Machine, Turn};
use super::state::Listening;
use super::unclear::Unclear;
use crate::event::CloudEvent;
use crate::expr::Template;
use crate::fault::Fault;
use crate::interest::{agrees, filters_of, is_steady};
use crate::model::{Filter, ForEach, Kind, Listen, ReadAs, Strategy, Until};
use crate::pattern::Pattern;
use crate::scope::Stage;

/// Events that a task may take.
const EVENTS_MAX: usize = 10_000;

const STAGE: Stage = Stage::Definition { is_effect: false };

impl Machine<'_> {
    fn listen_task(&self) -> Result<&Listen, Fault> {
        match self.env.task.map(|task| &task.kind) {
            Some(Kind::Listen(it)) => Ok(it),
            _ => Err(Fault::runtime("it does not listen")),
        }
    }

    pub(super) fn is_busy_with_event(&self) -> bool {
        self.cursor.listening.as_ref().is_some_and(|listening| listening.is_busy)
    }

    pub(super) fn start_listening(&mut self) -> Result<Turn, Fault> {
        let expected = self.expected()?;
        self.cursor.listening = Some(Listening { expected, ..Listening::default() });
        // A condition that holds from the begin ends it at once.
        if self.condition_holds()? {
            return self.listened();
        }
        Ok(self.wait())
    }

    /// For each filter, what its correlations must be: as far as that is known before an event
    /// comes, and does not change while the task listens. Events are looked up by it.
    fn expected(&self) -> Result<Vec<Map<String, Value>>, Fault> {
        let of = |filter: &&Filter| {
            let mut values = Map::new();
            for correlation in &filter.correlate {
                let expect = correlation.expect.as_ref();
                let is_steady = |it: &&Template| it.expressions().into_iter().all(is_steady);
                if let Some(template) = expect.filter(is_steady) {
                    // A filter that cannot be evaluated is reported when an event comes.
                    if let Ok(value) = self.env.fill_own(template) {
                        values.insert(correlation.name.clone(), value);
                    }
                }
            }
            values
        };
        let all: Vec<_> = filters_of(&self.listen_task()?.strategy).iter().map(of).collect();
        Ok(if all.iter().all(Map::is_empty) { Vec::new() } else { all })
    }

    /// An event has come that may be meant.
    pub(super) fn heard(&mut self, event: &CloudEvent) -> Result<Turn, Fault> {
        let Some(mut listening) = self.cursor.listening.take() else { return Ok(self.wait()) };
        let outcome = self.take(event, &mut listening);
        self.cursor.listening = Some(listening);
        outcome?;
        self.go_on_listening()
    }

    /// Whether it is over, or processes the next event.
    fn go_on_listening(&mut self) -> Result<Turn, Fault> {
        let has_block = !self.block().is_empty();
        let Some(listening) = &mut self.cursor.listening else { return Ok(self.wait()) };
        if has_block && !listening.is_busy && !listening.queue.is_empty() {
            listening.is_busy = true;
            // The event is the variable of the iterator; the input is that of the task.
            self.env.begun()?;
            self.cursor.value = self.env.input.clone();
            return self.go_to(0);
        }
        if listening.is_over && !listening.is_busy && listening.queue.is_empty() {
            return self.listened();
        }
        Ok(self.wait())
    }

    pub(super) fn listened(&mut self) -> Result<Turn, Fault> {
        let Listening { got, keys, .. } = self.cursor.listening.take().unwrap_or_default();
        let mut turn = self.done(Value::Array(got.all()))?;
        if let Turn::Done(outcome) = &mut turn {
            outcome.keys = keys;
        }
        Ok(turn)
    }

    fn take(&mut self, event: &CloudEvent, listening: &mut Listening) -> Result<(), Fault> {
        if listening.is_over {
            return Ok(());
        }
        let it = match self.env.task.map(|task| &task.kind) {
            Some(Kind::Listen(it)) => it,
            _ => return Ok(()),
        };
        let read = |event: &CloudEvent| match it.read {
            ReadAs::Data => event.content(),
            ReadAs::Raw => event.raw(),
            ReadAs::Envelope => event.to_value(),
        };
        match &it.strategy {
            Strategy::One(filter) => {
                if self.fits(filter, event, &mut listening.keys)? {
                    self.keep(read(event), listening)?;
                    listening.is_over = true;
                }
            }
            Strategy::All(filters) => {
                for (index, filter) in filters.iter().enumerate() {
                    if !listening.filled.contains_key(&index)
                        && self.fits(filter, event, &mut listening.keys)?
                    {
                        listening.filled.insert(index, Value::Null);
                        self.keep(read(event), listening)?;
                        break;
                    }
                }
                listening.is_over = listening.filled.len() == filters.len();
            }
            Strategy::Any { filters, until } => {
                if let Some(Until::Events(strategy)) = until {
                    if self.ends(strategy, event, listening)? {
                        listening.is_over = true;
                        return Ok(());
                    }
                }
                let mut is_meant = filters.is_empty();
                for filter in filters {
                    is_meant = is_meant || self.fits(filter, event, &mut listening.keys)?;
                }
                if is_meant {
                    self.keep(read(event), listening)?;
                    listening.is_over = match until {
                        None => true,
                        Some(Until::Condition(text)) => self.until_holds(text, listening)?,
                        Some(Until::Events(_)) => false,
                    };
                }
            }
        }
        Ok(())
    }

    /// Keeps an event as output, or processes it first.
    fn keep(&mut self, value: Value, listening: &mut Listening) -> Result<(), Fault> {
        if listening.got.len() + listening.queue.len() >= EVENTS_MAX {
            return Err(Fault::runtime(format!("it has {EVENTS_MAX} events, which is the limit")));
        }
        let Some(each) = self.each() else {
            listening.got.push(value);
            return Ok(());
        };
        if each.block.is_empty() {
            // Only its output is another one.
            let output = self.iterated(each, &value, listening.count, &value)?;
            listening.got.push(output);
            listening.count += 1;
            return Ok(());
        }
        listening.queue.push(value);
        Ok(())
    }

    /// An event was processed.
    pub(super) fn event_processed(&mut self) -> Result<Turn, Fault> {
        let value = self.cursor.value.clone();
        let each = self.each();
        let listening = self.cursor.listening.as_ref();
        let item = listening.and_then(|listening| listening.queue.first());
        let count = listening.map_or(0, |listening| listening.count);
        let output = match each {
            Some(each) => self.iterated(each, &item.unwrap_or_default(), count, &value)?,
            None => value,
        };
        if let Some(listening) = &mut self.cursor.listening {
            listening.queue.remove_first();
            listening.got.push(output);
            listening.count += 1;
            listening.is_busy = false;
        }
        if let Some(Kind::Consume(it)) = self.env.task.map(|task| &task.kind) {
            return self.message_processed(it);
        }
        if self.condition_holds()? {
            if let Some(listening) = &mut self.cursor.listening {
                listening.is_over = true;
                listening.queue = Gathered::default();
            }
        }
        self.go_on_listening()
    }

    /// Handles an event: its output, checked, and its export.
    fn iterated(
        &mut self,
        each: &ForEach,
        item: &Value,
        count: u32,
        value: &Value,
    ) -> Result<Value, Fault> {
        self.with_item(item, count, |machine| {
            let output = machine.env.transformed(&each.output, value, Stage::Output)?;
            check(&each.output, &output, "the output of an event")?;
            if let Some(template) = &each.export.with {
                machine.env.output.clone_from(&output);
                let context = machine.env.exported(template, &output)?;
                check(&each.export, &context, "the context")?;
                machine.env.context.clone_from(&context);
                machine.cursor.context = Some(context);
            }
            Ok(output)
        })
    }

    /// Evaluates with the variables of the iterator.
    fn with_item<T>(
        &mut self,
        item: &Value,
        count: u32,
        evaluate: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let before = self.env.vars.clone();
        if let Some(each) = self.each() {
            self.env.vars.insert(each.item.clone(), item.clone());
            self.env.vars.insert(each.at.clone(), count.into());
        }
        let outcome = evaluate(self);
        self.env.vars = before;
        outcome
    }

    /// Whether the condition of «until» holds now.
    fn condition_holds(&self) -> Result<bool, Fault> {
        let it = self.listen_task()?;
        let Strategy::Any { until: Some(Until::Condition(text)), .. } = &it.strategy else {
            return Ok(false);
        };
        match &self.cursor.listening {
            Some(listening) if !listening.got.is_empty() => self.until_holds(text, listening),
            _ => Ok(false),
        }
    }

    /// The condition sees all events so far.
    fn until_holds(&self, text: &str, listening: &Listening) -> Result<bool, Fault> {
        self.env.holds(text, &Value::Array(listening.got.all()), STAGE)
    }

    /// Whether an event completes those of «until».
    fn ends(
        &mut self,
        strategy: &Strategy,
        event: &CloudEvent,
        listening: &mut Listening,
    ) -> Result<bool, Fault> {
        let filters: Vec<&Filter> = match strategy {
            Strategy::One(filter) => vec![filter],
            Strategy::All(filters) | Strategy::Any { filters, .. } => filters.iter().collect(),
        };
        for (index, filter) in filters.iter().enumerate() {
            if self.fits(filter, event, &mut listening.keys)? {
                listening.until.insert(index, Value::Null);
            }
        }
        Ok(match strategy {
            Strategy::All(filters) => listening.until.len() == filters.len(),
            _ => !listening.until.is_empty(),
        })
    }

    /// Whether a filter matches an event; if so, its correlation value is kept. Conditions that may
    /// fail come last: an expression for the data of some events cannot be evaluated on those of
    /// others.
    fn fits(
        &mut self,
        filter: &Filter,
        event: &CloudEvent,
        keys: &mut Map<String, Value>,
    ) -> Result<bool, Fault> {
        let is_last = |template: &Template| matches!(template, Template::Expression(_));
        let (last, first): (Vec<_>, Vec<_>) = filter.with.iter().partition(|it| is_last(&it.1));
        for (name, wanted) in first.into_iter().chain(last) {
            let Some(value) = event.attribute(name) else { return Ok(false) };
            if !self.attribute_fits(name, wanted, &value)? {
                return Ok(false);
            }
        }
        let mut found = BTreeMap::new();
        for correlation in &filter.correlate {
            let value = self.correlation_value(&correlation.from, event)?;
            if value.is_null() {
                return Ok(false);
            }
            let expected = match &correlation.expect {
                Some(template) => Some(self.env.fill_own(template)?),
                None => keys.get(&correlation.name).cloned(),
            };
            if expected.is_some_and(|expected| expected != value) {
                return Ok(false);
            }
            found.insert(correlation.name.clone(), value);
        }
        keys.extend(found);
        Ok(true)
    }

    /// A correlation looks at the attributes of the event, or else at its data.
    fn correlation_value(&mut self, from: &str, event: &CloudEvent) -> Result<Value, Fault> {
        let of_event = self.env.evaluate(from, &event.to_value(), STAGE);
        match of_event {
            Ok(value) if !value.is_null() => Ok(value),
            of_event => match self.env.evaluate(from, &event.content(), STAGE) {
                Ok(value) => Ok(value),
                // An event without data has nothing that could be looked at.
                Err(_) if of_event.is_ok() => Ok(Value::Null),
                Err(fault) => {
                    self.asks.unclear.push(Unclear::new("correlate", from, &fault));
                    Ok(Value::Null)
                }
            },
        }
    }

    fn attribute_fits(
        &mut self,
        name: &str,
        wanted: &Template,
        value: &Value,
    ) -> Result<bool, Fault> {
        match wanted {
            // An expression sees the attribute and matches if it is true. An expression that fails
            // on this event does not match, and is reported.
            Template::Expression(text) => match self.env.evaluate(text, value, STAGE) {
                Ok(answer) => Ok(agrees(&answer, value)),
                Err(fault) => {
                    self.asks.unclear.push(Unclear::new(name, text, &fault));
                    Ok(false)
                }
            },
            template => {
                let wanted = self.env.fill_own(template)?;
                Ok(Pattern::new(&wanted).fits(value))
            }
        }
    }
}
