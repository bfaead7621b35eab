//! The nodes that run jobs: today this one.

use std::collections::BTreeMap;

use crate::spec::count_of;

/// A node with its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name, in the rows of runs.
    pub name: String,
    /// Its labels, for the targets of jobs.
    pub labels: BTreeMap<String, String>,
}

impl Node {
    /// A node without labels.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), labels: BTreeMap::new() }
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Whether it has all these labels; the error names the first that it lacks.
    pub(crate) fn matches(&self, targets: &BTreeMap<String, String>) -> Result<(), String> {
        for (label, wanted) in targets {
            let wanted = count_of(wanted).map_or(wanted.as_str(), |(value, _)| value);
            let found = self.labels.get(label).map(String::as_str);
            if found != Some(wanted) {
                let found =
                    found.map_or("has no such label".to_owned(), |is| format!("has «{is}»"));
                let node = &self.name;
                return Err(format!("no node has {label}={wanted}: {node} {found}"));
            }
        }
        Ok(())
    }
}
