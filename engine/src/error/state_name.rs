//! The name of a state in an error is one of those that are known.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

use crate::plan::PlanState;

pub(super) fn serialize<S: Serializer>(name: &&str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(name)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<&'static str, D::Error> {
    let name = String::deserialize(from)?;
    let state = PlanState::from_name(&name);
    state.map(PlanState::name).ok_or_else(|| D::Error::custom(format!("no state «{name}»")))
}
