//! References from an action's input to the output of another one.
//!
//! While a plan is made, outputs do not exist: a field of type [`Input<T>`] then holds a reference
//! to the place where its value will be. Right before the step runs, references are replaced by
//! the values. In JSON a reference is `{"$output": {"plan": …, "step": …, "path": […]}}`.

use std::fmt;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{ActionData, Plan, StepState};
use crate::error::ActionError;
use crate::id::{PlanId, StepId};
use crate::payload::Payload;

/// The only key of a reference's object.
const KEY: &str = "$output";

/// A place in the output of a run step, of type `T`; made by [`output!`](crate::output) and
/// [`ActionRef::output`](super::ActionRef::output).
pub struct OutputRef<T> {
    place: Place,
    value: PhantomData<fn() -> T>,
}

/// Target of a reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) plan: PlanId,
    pub(crate) step: StepId,
    pub(crate) path: Vec<String>,
}

impl<T> OutputRef<T> {
    pub(crate) fn new(plan: PlanId, step: StepId, path: &[&str]) -> Self {
        let path = path.iter().map(|key| (*key).to_owned()).collect();
        Self { place: Place { plan, step, path }, value: PhantomData }
    }

    /// The step whose output it names.
    pub fn step(&self) -> StepId {
        self.place.step
    }
}

impl<T> Clone for OutputRef<T> {
    fn clone(&self) -> Self {
        Self { place: self.place.clone(), value: PhantomData }
    }
}

impl<T> fmt::Debug for OutputRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "output of step {}", self.place.step)?;
        self.place.path.iter().try_for_each(|key| write!(f, ".{key}"))
    }
}

/// A field of an action's input: a value, or the place in another action's output where it will be.
///
/// In the run and finalize phases it is always a value.
#[derive(Clone, Debug)]
pub enum Input<T> {
    /// The value.
    Value(T),
    /// A reference to a future output.
    Output(OutputRef<T>),
}

impl<T> Input<T> {
    /// The value.
    ///
    /// # Errors
    ///
    /// The plan is being made and the value does not exist yet.
    pub fn get(&self) -> Result<&T, ActionError> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Output(place) => {
                let message = format!("the {place:?} is not there while the plan is made");
                Err(ActionError::new("unresolved_reference", message).and_final())
            }
        }
    }

    /// The value itself.
    ///
    /// # Errors
    ///
    /// As [`Input::get`].
    pub fn into_value(self) -> Result<T, ActionError> {
        self.get()?;
        match self {
            Self::Value(value) => Ok(value),
            Self::Output(_) => unreachable!("`get` has refused it"),
        }
    }
}

impl<T> From<T> for Input<T> {
    fn from(value: T) -> Self {
        Self::Value(value)
    }
}

impl<T> From<OutputRef<T>> for Input<T> {
    fn from(place: OutputRef<T>) -> Self {
        Self::Output(place)
    }
}

impl From<&str> for Input<String> {
    fn from(value: &str) -> Self {
        Self::Value(value.to_owned())
    }
}

impl<T: Default> Default for Input<T> {
    fn default() -> Self {
        Self::Value(T::default())
    }
}

impl<T: Serialize> Serialize for Input<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::Output(reference) => serializer.collect_map([(KEY, &reference.place)]),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Input<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if let Some(place) = place(&value) {
            return Ok(Self::Output(OutputRef { place, value: PhantomData }));
        }
        T::deserialize(value).map(Self::Value).map_err(serde::de::Error::custom)
    }
}

/// The place that a JSON value refers to, if it is a reference.
fn place(value: &Value) -> Option<Place> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    Place::deserialize(object.get(KEY)?).ok()
}

/// The places that an input refers to. Costs a search of the text if there is none.
pub(crate) fn needs_of(input: &Payload) -> Vec<Place> {
    let mut places = Vec::new();
    if input.as_str().contains(KEY) {
        if let Ok(value) = input.read::<Value>() {
            collect(&value, &mut places);
        }
    }
    places
}

fn collect(value: &Value, places: &mut Vec<Place>) {
    if let Some(place) = place(value) {
        places.push(place);
        return;
    }
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect(value, places)),
        Value::Object(object) => object.values().for_each(|value| collect(value, places)),
        _ => {}
    }
}

/// The input with the values in place of the references.
///
/// # Errors
///
/// An output has nothing at the place: the step fails, naming both.
pub(crate) fn resolve<'a>(
    action: &str,
    input: &Payload,
    output: impl Fn(StepId) -> Option<&'a Payload>,
) -> Result<Payload, ActionError> {
    let mut value: Value = input.read()?;
    replace(&mut value, &output)?;
    Payload::of(&value).map_err(|error| error.of("the input with the outputs it needs", action))
}

fn replace<'a>(
    value: &mut Value,
    output: &impl Fn(StepId) -> Option<&'a Payload>,
) -> Result<(), ActionError> {
    if let Some(place) = place(value) {
        *value = look_up(&place, output)?;
        return Ok(());
    }
    match value {
        Value::Array(values) => values.iter_mut().try_for_each(|value| replace(value, output)),
        Value::Object(object) => object.values_mut().try_for_each(|value| replace(value, output)),
        _ => Ok(()),
    }
}

fn look_up<'a>(
    place: &Place,
    output: &impl Fn(StepId) -> Option<&'a Payload>,
) -> Result<Value, ActionError> {
    let missing = |what: String| {
        let message = format!(
            "the input refers to «{}» in the output of step {}, {what}",
            place.path.join("."),
            place.step
        );
        ActionError::new("unresolved_reference", message)
    };
    let Some(output) = output(place.step) else {
        return Err(missing("which is no run step of this plan".to_owned()));
    };
    let mut value: Value = output.read()?;
    for key in &place.path {
        let next = match &mut value {
            Value::Object(object) => object.remove(key),
            Value::Array(values) => key
                .parse::<usize>()
                .ok()
                .filter(|index| *index < values.len())
                .map(|index| values.swap_remove(index)),
            _ => None,
        };
        value = next.ok_or_else(|| missing(format!("which has no «{key}»: {output}")))?;
    }
    Ok(value)
}

impl Plan {
    /// The input of an action as its steps see it: outputs of steps that are over stand in the
    /// place of the references to them. The plan keeps the references, so that a step which is run
    /// again sees the outputs of that time.
    pub fn input_seen(&self, action: &ActionData) -> Payload {
        if action.needs.is_empty() {
            return action.input.clone();
        }
        let Ok(mut value) = action.input.read::<Value>() else { return action.input.clone() };
        self.see(&mut value);
        Payload::of(&value).unwrap_or_else(|_| action.input.clone())
    }

    fn see(&self, value: &mut Value) {
        if let Some(place) = place(value) {
            let output = |id| {
                let step = self.find_step(id)?;
                let is_over = matches!(step.state, StepState::Success | StepState::Skipped);
                is_over.then(|| &self.action(step.action).output)
            };
            if let Ok(seen) = look_up(&place, &output) {
                *value = seen;
            }
            return;
        }
        match value {
            Value::Array(values) => values.iter_mut().for_each(|value| self.see(value)),
            Value::Object(object) => object.values_mut().for_each(|value| self.see(value)),
            _ => {}
        }
    }
}
