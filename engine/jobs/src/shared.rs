//! Compact forms of stored jobs: settings and launches that copies of a record share.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::launch::Launch;
use crate::spec::JobSpec;

/// Settings of a job with their text. Clones share both: a record is copied at each change, and its
/// settings seldom change.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    spec: JobSpec,
    /// The text that is stored.
    text: Box<RawValue>,
}

impl Shared {
    pub(crate) fn new(spec: JobSpec) -> Self {
        let mut fields = fields_of(&spec);
        static DEFAULTS: OnceLock<Map<String, Value>> = OnceLock::new();
        let defaults = DEFAULTS.get_or_init(|| fields_of(&JobSpec::default()));
        fields.retain(|name, value| defaults.get(name) != Some(value));
        let text = serde_json::value::to_raw_value(&fields).expect("it is made of texts and lists");
        Self(Arc::new(Inner { spec, text }))
    }
}

fn fields_of(spec: &JobSpec) -> Map<String, Value> {
    match serde_json::to_value(spec) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

impl Deref for Shared {
    type Target = JobSpec;

    fn deref(&self) -> &JobSpec {
        &self.0.spec
    }
}

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.spec == other.0.spec
    }
}

impl Eq for Shared {}

impl Serialize for Shared {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Shared {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let spec = serde_json::from_str(text.get()).map_err(serde::de::Error::custom)?;
        Ok(Self(Arc::new(Inner { spec, text })))
    }
}

/// Ended launches, which are shared with copies of their record.
pub(crate) mod launches {
    use super::{Arc, Deserialize, Deserializer, Launch, Serializer, VecDeque};

    pub(crate) fn serialize<S: Serializer>(
        launches: &VecDeque<Arc<Launch>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(launches.iter().map(Arc::as_ref))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<VecDeque<Arc<Launch>>, D::Error> {
        let launches = Vec::<Launch>::deserialize(deserializer)?;
        Ok(launches.into_iter().map(Launch::kept).collect())
    }
}
