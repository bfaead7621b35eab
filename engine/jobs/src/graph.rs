//! The graph of jobs and their dependants.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::JobError;
use crate::spec::JobSpec;

/// Returns the error of jobs that wait for each other, if there are any among these.
pub fn cycle_of<'a>(specs: impl IntoIterator<Item = &'a JobSpec>) -> Option<JobError> {
    let mut graph = Graph::default();
    for spec in specs {
        let parents: Vec<String> = spec.after.iter().map(|after| after.job.clone()).collect();
        if let Some(cycle) = graph.cycle(&spec.name, &parents) {
            return Some(JobError::Cycle { job: spec.name.clone(), cycle: cycle.join(" → ") });
        }
        graph.set(&spec.name, parents);
    }
    None
}

/// The jobs that run after each job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    children: BTreeMap<String, BTreeSet<String>>,
    parents: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Sets the parents of a job; none removes it.
    pub(crate) fn set(&mut self, job: &str, parents: impl IntoIterator<Item = String>) {
        for parent in self.parents.remove(job).unwrap_or_default() {
            if let Some(children) = self.children.get_mut(&parent) {
                children.remove(job);
                if children.is_empty() {
                    self.children.remove(&parent);
                }
            }
        }
        let parents: BTreeSet<String> = parents.into_iter().collect();
        for parent in &parents {
            self.children.entry(parent.clone()).or_default().insert(job.to_owned());
        }
        if !parents.is_empty() {
            self.parents.insert(job.to_owned(), parents);
        }
    }

    /// The jobs that run after one, by name.
    pub(crate) fn children(&self, job: &str) -> Vec<String> {
        self.children.get(job).into_iter().flatten().cloned().collect()
    }

    pub(crate) fn has_children(&self, job: &str) -> bool {
        self.children.contains_key(job)
    }

    /// The cycle that these parents of a job would make, as names in order.
    pub(crate) fn cycle(&self, job: &str, parents: &[String]) -> Option<Vec<String>> {
        let mut from: BTreeMap<String, String> = BTreeMap::new();
        let mut open: Vec<String> = Vec::new();
        for parent in parents {
            from.insert(parent.clone(), job.to_owned());
            open.push(parent.clone());
        }
        while let Some(at) = open.pop() {
            if at == job {
                let mut path = vec![at];
                while let Some(next) = from.get(&path[path.len() - 1]).cloned() {
                    let is_end = next == job;
                    path.push(next);
                    if is_end {
                        break;
                    }
                }
                return Some(path);
            }
            for next in self.parents.get(&at).into_iter().flatten() {
                if !from.contains_key(next) {
                    from.insert(next.clone(), at.clone());
                    open.push(next.clone());
                }
            }
        }
        None
    }

    /// The parents of a job that a chain from a root reaches: it waits for all of them.
    pub(crate) fn expected(&self, job: &str, root: &str) -> Vec<String> {
        let mut reached: BTreeSet<&str> = BTreeSet::from([root]);
        let mut open = vec![root];
        while let Some(at) = open.pop() {
            for child in self.children.get(at).into_iter().flatten() {
                if reached.insert(child) {
                    open.push(child);
                }
            }
        }
        let parents = self.parents.get(job).into_iter().flatten();
        parents.filter(|parent| reached.contains(parent.as_str())).cloned().collect()
    }
}
