//! A definition: read from our form or from the ancestor's, and written in the ancestor's.

use serde_json::{Map, Number, Value};
use turnwheel_flow::internal::{Complaint, Source};
use turnwheel_flow::Problems;

use crate::check::{check, check_stored};
use crate::element::{Element, Settings};
use crate::ours;

/// A journey as it was read, and checked. Two are equal if name, settings and elements are.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub settings: Settings,
    /// Its elements.
    pub elements: Vec<Element>,
    /// The elements as they were written, if it was read from the ancestor's list.
    pub(crate) written: Vec<Value>,
}

impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        let Self { name, settings, elements, written: _ } = self;
        *name == other.name && *settings == other.settings && *elements == other.elements
    }
}

/// A problem of an element, or of the whole if it names none.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) element: Option<usize>,
    pub(crate) field: &'static str,
    pub(crate) message: String,
    pub(crate) suggestion: Option<String>,
}

impl Definition {
    /// Reads a definition in YAML or JSON: ours, an object with the field `journey`, or the
    /// ancestor's, a list of elements.
    ///
    /// ```
    /// use turnwheel_journeys::Definition;
    ///
    /// let text = "
    /// journey: welcome
    /// platform: shop
    /// elements:
    ///   hello: { start: { on: customer.created }, then: greet }
    ///   greet: { send: { channel: mail, with: { template: welcome } }, then: end }
    /// ";
    /// let welcome = Definition::read(text, "welcome.yaml")?;
    /// let exported = welcome.to_ancestor().to_string();
    /// assert_eq!(Definition::read(&exported, "welcome.json")?, welcome);
    /// # Ok::<(), turnwheel_flow::Problems>(())
    /// ```
    ///
    /// # Errors
    ///
    /// All that is wrong, each with its place.
    pub fn read(text: &str, path: &str) -> Result<Self, Problems> {
        Self::checked(text, path, large_numbers, |definition| check(definition, None))
    }

    /// The same for a server with these channels: messages through others are wrong.
    ///
    /// # Errors
    ///
    /// All that is wrong, each with its place.
    pub fn read_for(text: &str, path: &str, channels: &[&str]) -> Result<Self, Problems> {
        Self::checked(text, path, large_numbers, |definition| check(definition, Some(channels)))
    }

    /// The same of one that was stored, maybe by an older program: what has no effect, and is
    /// refused in new ones, is left in it.
    ///
    /// # Errors
    ///
    /// All that is wrong, each with its place.
    pub fn read_stored(text: &str, path: &str) -> Result<Self, Problems> {
        Self::checked(text, path, |_| Vec::new(), check_stored)
    }

    fn checked(
        text: &str,
        path: &str,
        check_value: impl FnOnce(&Value) -> Vec<Complaint>,
        check: impl FnOnce(&Self) -> Vec<Wrong>,
    ) -> Result<Self, Problems> {
        let source = Source::read(text, path)?;
        let value = source.value();
        let is_ours = value.get("journey").is_some() || value.get("elements").is_none();
        let (definition, places) = match &value {
            Value::Object(_) if is_ours => ours::read(&source, &value)?,
            Value::Array(elements) => ancestor(&source, elements, &[])?,
            Value::Object(fields) => match fields.get("elements") {
                Some(Value::Array(elements)) => ancestor(&source, elements, &["elements"])?,
                _ => ours::read(&source, &value)?,
            },
            _ => ours::read(&source, &value)?,
        };
        let mut complaints = check_value(&value);
        complaints.extend(check(&definition).into_iter().map(|wrong| {
            let mut at = wrong.element.map(|element| places[element].clone()).unwrap_or_default();
            if !wrong.field.is_empty() {
                at.push(wrong.field.to_owned());
            }
            Complaint { at, message: wrong.message, suggestion: wrong.suggestion }
        }));
        match complaints.is_empty() {
            true => Ok(definition),
            false => Err(source.problems(complaints)),
        }
    }

    /// Its elements in the ancestor's JSON. An element that was read from it is as it was written, unless
    /// it was changed since.
    pub fn to_ancestor(&self) -> Value {
        Value::Array(self.exported().collect())
    }

    fn exported(&self) -> impl Iterator<Item = Value> + '_ {
        self.elements.iter().enumerate().map(|(number, element)| {
            let written = self.written.get(number);
            let is_it = |value: &&Value| {
                serde_json::from_value::<Element>((*value).clone()).is_ok_and(|it| it == *element)
            };
            match written.filter(is_it) {
                Some(value) => value.clone(),
                None => serde_json::to_value(element).unwrap_or_default(),
            }
        })
    }
}

/// Numbers that JSON has as floating-point ones because they exceed 64 bits: their last digits are lost.
fn large_numbers(value: &Value) -> Vec<Complaint> {
    let (mut found, mut open) = (Vec::new(), vec![(Vec::new(), value)]);
    let below = |at: &[String], step: String| [at, &[step]].concat();
    while let Some((at, value)) = open.pop() {
        match value {
            Value::Array(items) => {
                let items = items.iter().enumerate();
                open.extend(items.map(|(step, item)| (below(&at, step.to_string()), item)));
            }
            Value::Object(fields) => {
                open.extend(fields.iter().map(|(name, field)| (below(&at, name.clone()), field)));
            }
            Value::Number(number) if number.is_f64() && is_large(number) => {
                let message = format!("a number as large as {number} is not kept exactly");
                let suggestion = Some("put it in quotes: it is kept as a text".to_owned());
                found.push(Complaint { at, message, suggestion });
            }
            _ => {}
        }
    }
    found
}

/// Whether a number is beyond whole numbers of 64 bits, which are exact.
fn is_large(number: &Number) -> bool {
    number.as_f64().is_some_and(|number| number.abs() >= 9_223_372_036_854_775_808.0)
}

/// Reads the ancestor's list of elements.
fn ancestor(
    source: &Source<'_>,
    list: &[Value],
    before: &[&str],
) -> Result<(Definition, Vec<Vec<String>>), Problems> {
    let (mut elements, mut places, mut wrong) = (Vec::<Element>::new(), Vec::new(), Vec::new());
    for (number, value) in list.iter().enumerate() {
        let at: Vec<String> =
            before.iter().map(|it| (*it).to_owned()).chain([number.to_string()]).collect();
        match serde_json::from_value(value.clone()) {
            Ok(element) => {
                elements.push(element);
                places.push(at);
            }
            Err(error) => wrong.push(Complaint {
                at,
                message: format!("this is no element: {error}"),
                suggestion: Some(format!("an element has {}", FIELDS.join(", "))),
            }),
        }
    }
    if !wrong.is_empty() {
        return Err(source.problems(wrong));
    }
    let name = elements.first().map(|element| element.journey.to_string()).unwrap_or_default();
    let settings = elements.iter().find_map(|element| element.extensions.settings.clone());
    let settings = settings.unwrap_or_default();
    let written = list.to_vec();
    Ok((Definition { name, settings, elements, written }, places))
}

const FIELDS: [&str; 7] =
    ["id", "workFlowId", "type", "incomings", "outgoings", "properties", "extensions"];

/// Elements of one key each, as the ancestor stores them: `platform_id` to element.
pub fn keyed(definition: &Definition) -> Map<String, Value> {
    let key = |element: &Element| format!("{}_{}", definition.settings.platform, element.id);
    definition.elements.iter().map(key).zip(definition.exported()).collect()
}
