//! A definition: read from our form or from the ancestor's, and written in the ancestor's.

use serde_json::{Map, Number, Value};
use turnwheel_flow::internal::{Complaint, Source};
use turnwheel_flow::Problems;

use crate::check::{check, check_settings, check_stored, Offered};
use crate::element::{Element, Settings};
use crate::{ours, settings};

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

/// A problem of a definition that can be read.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) at: At,
    pub(crate) message: String,
    pub(crate) suggestion: Option<String>,
}

/// The part that a problem is in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At {
    /// An element, by its number.
    Element(usize),
    /// A setting, or a part of it.
    Setting(&'static [&'static str]),
    /// A field of the definition.
    Field(&'static str),
}

/// Places of the parts of a definition in its text.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) elements: Vec<Vec<String>>,
    /// The object that has the settings.
    pub(crate) settings: Vec<String>,
}

/// A definition as it was read, maybe with parts left out.
pub(crate) struct Placed {
    pub(crate) definition: Definition,
    pub(crate) places: Places,
    /// Problems of the parts that were left out.
    pub(crate) wrong: Vec<Complaint>,
    /// Whether no element was left out.
    pub(crate) is_whole: bool,
}

impl Places {
    fn of(&self, at: At) -> Vec<String> {
        let below = |of: &[String], steps: &[&str]| {
            of.iter().cloned().chain(steps.iter().map(|step| (*step).to_owned())).collect()
        };
        match at {
            At::Element(number) => self.elements[number].clone(),
            At::Setting(steps) => below(&self.settings, steps),
            At::Field(name) => below(&[], &[name]),
        }
    }
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

    /// The same for a server with these channels: messages that they could never send are wrong.
    pub(crate) fn read_for(
        text: &str,
        path: &str,
        channels: &dyn Offered,
    ) -> Result<Self, Problems> {
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
        let read = match (&value, value.get("elements")) {
            (Value::Array(elements), _) => ancestor(elements, &[]),
            (_, Some(Value::Array(elements))) if !is_ours => ancestor(elements, &["elements"]),
            _ => ours::read(&source, &value),
        };
        let placed = read.map_err(|wrong| source.problems(wrong))?;
        let Placed { definition, places, wrong: mut complaints, is_whole } = placed;
        complaints.extend(check_value(&value));
        // Elements that lack would make others wrong.
        let found = if is_whole { check(&definition) } else { check_settings(&definition) };
        complaints.extend(found.into_iter().map(|Wrong { at, message, suggestion }| Complaint {
            at: places.of(at),
            message,
            suggestion,
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
fn ancestor(list: &[Value], before: &[&str]) -> Result<Placed, Vec<Complaint>> {
    let (mut elements, mut places, mut wrong) = (Vec::<Element>::new(), Vec::new(), Vec::new());
    let mut is_whole = true;
    for (number, value) in list.iter().enumerate() {
        let at: Vec<String> =
            before.iter().map(|it| (*it).to_owned()).chain([number.to_string()]).collect();
        let mut value = value.clone();
        wrong.extend(take_wrong_settings(&mut value, &at));
        match serde_json::from_value(value) {
            Ok(element) => {
                elements.push(element);
                places.push(at);
            }
            Err(error) => {
                is_whole = false;
                wrong.push(Complaint {
                    at,
                    message: format!("this is no element: {error}"),
                    suggestion: Some(format!("an element has {}", FIELDS.join(", "))),
                });
            }
        }
    }
    let name = elements.first().map(|element| element.journey.to_string()).unwrap_or_default();
    let said = elements.iter().position(|element| element.extensions.settings.is_some());
    let settings = said.and_then(|number| elements[number].extensions.settings.clone());
    let settings = settings.unwrap_or_default();
    let has_settings = said.and_then(|number| places.get(number)).cloned().unwrap_or_default();
    let settings_at = has_settings.into_iter().chain(SETTINGS_AT.map(str::to_owned)).collect();
    let written = list.to_vec();
    let definition = Definition { name, settings, elements, written };
    let places = Places { elements: places, settings: settings_at };
    Ok(Placed { definition, places, wrong, is_whole })
}

/// The way from an element of the ancestor's list to the settings of its journey.
const SETTINGS_AT: [&str; 2] = ["extensions", "settings"];

/// Leaves wrong settings of an element out, and returns their problems.
fn take_wrong_settings(element: &mut Value, at: &[String]) -> Vec<Complaint> {
    let found = element.get_mut(SETTINGS_AT[0]).and_then(|part| part.get_mut(SETTINGS_AT[1]));
    let Some(Value::Object(fields)) = found else { return Vec::new() };
    let (_, mut wrong) = settings::read(fields);
    for complaint in &mut wrong {
        fields.remove(&complaint.at[0]);
        let within = SETTINGS_AT.into_iter().map(str::to_owned).chain(complaint.at.drain(..));
        complaint.at = at.iter().cloned().chain(within).collect();
    }
    wrong
}

const FIELDS: [&str; 7] =
    ["id", "workFlowId", "type", "incomings", "outgoings", "properties", "extensions"];

/// Elements of one key each, as the ancestor stores them: `platform_id` to element.
pub fn keyed(definition: &Definition) -> Map<String, Value> {
    let key = |element: &Element| format!("{}_{}", definition.settings.platform, element.id);
    definition.elements.iter().map(key).zip(definition.exported()).collect()
}
