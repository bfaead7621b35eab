//! The nodes that run jobs, and the choice among them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::spec::{count_of, JobSpec};

/// Nodes that are named in the reason of a launch that none of them can run.
const NAMED_MAX: usize = 5;

/// A node with its labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

    /// Number of these labels that it has.
    fn has_of(&self, labels: &BTreeMap<String, String>) -> usize {
        labels.iter().filter(|(label, value)| self.labels.get(*label) == Some(value)).count()
    }
}

/// A choice of nodes for a launch.
pub(crate) struct Choice<'a> {
    /// The nodes that are there.
    pub(crate) nodes: &'a [Node],
    pub(crate) spec: &'a JobSpec,
    /// Draws among nodes that are equally good: each occasion has another one.
    pub(crate) draw: String,
}

impl Choice<'_> {
    /// The nodes of a launch, or why there is none.
    pub(crate) fn all(&self) -> Result<Vec<String>, String> {
        let mut fit = self.fitting()?;
        fit.sort_by_cached_key(|node| self.rank(node));
        fit.truncate(self.spec.nodes_max());
        Ok(fit.into_iter().map(|node| node.name.clone()).collect())
    }

    /// The node of one further attempt: `last` says which ones are picked after all others.
    pub(crate) fn one<R: Ord>(&self, last: impl Fn(&str) -> R) -> Result<String, String> {
        let fit = self.fitting()?;
        let best = fit.into_iter().min_by_key(|node| (last(&node.name), self.rank(node)));
        Ok(best.map(|node| node.name.clone()).unwrap_or_default())
    }

    /// The nodes that match; at least one.
    fn fitting(&self) -> Result<Vec<&Node>, String> {
        let mut problems = Vec::new();
        let mut fit = Vec::new();
        for node in self.nodes {
            match node.matches(&self.spec.targets) {
                Ok(()) => fit.push(node),
                Err(problem) => problems.push(problem),
            }
        }
        if !fit.is_empty() {
            return Ok(fit);
        }
        let rest = problems.len().saturating_sub(NAMED_MAX);
        problems.truncate(NAMED_MAX);
        if rest > 0 {
            problems.push(format!("{rest} further nodes do not match either"));
        }
        match problems.is_empty() {
            true => Err("no node runs jobs now".to_owned()),
            false => Err(problems.join("; ")),
        }
    }

    fn rank(&self, node: &Node) -> (usize, Reverse<usize>, Vec<u8>) {
        let drawn = Sha256::digest(format!("{}/{}", self.draw, node.name));
        let (avoided, preferred) = (node.has_of(&self.spec.avoid), node.has_of(&self.spec.prefer));
        (avoided, Reverse(preferred), drawn.to_vec())
    }
}
