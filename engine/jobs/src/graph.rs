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

/// Jobs in an order in which they can be stored one after the other: each after those of its
/// ancestors that are among them. `others` are the parents of further jobs; what they say of a job
/// of the list does not count.
///
/// # Errors
///
/// Jobs would wait for each other.
pub fn in_order(
    mut jobs: Vec<JobSpec>,
    others: &BTreeMap<String, Vec<String>>,
) -> Result<Vec<JobSpec>, JobError> {
    let mut parents: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, above) in others {
        parents.insert(name, above.iter().map(String::as_str).collect());
    }
    for spec in &jobs {
        parents.insert(&spec.name, spec.after.iter().map(|after| after.job.as_str()).collect());
    }
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for spec in jobs.iter().map(|spec| spec.name.as_str()) {
        // The jobs from this one upwards, each with the number of its parents that were looked at.
        let mut path = Vec::from_iter((!places.contains_key(spec)).then_some((spec, 0)));
        let mut open = BTreeSet::from([spec]);
        while let Some((at, looked)) = path.last_mut() {
            let (at, parent) = (*at, parents.get(*at).and_then(|all| all.get(*looked)).copied());
            *looked += 1;
            match parent {
                None => {
                    places.insert(at.to_owned(), places.len());
                    open.remove(at);
                    path.pop();
                }
                Some(parent) if places.contains_key(parent) => {}
                Some(parent) if open.insert(parent) => path.push((parent, 0)),
                Some(parent) => {
                    let below = path.iter().rev().map(|(name, _)| *name);
                    let end = below.clone().position(|name| name == parent).unwrap_or(0);
                    let cycle: Vec<&str> =
                        std::iter::once(parent).chain(below.take(end + 1)).collect();
                    let job = jobs.iter().find(|spec| cycle.contains(&&*spec.name));
                    let job = job.map_or_else(String::new, |spec| spec.name.clone());
                    return Err(JobError::Cycle { job, cycle: cycle.join(" → ") });
                }
            }
        }
    }
    jobs.sort_by_key(|spec| places.get(&spec.name).copied());
    Ok(jobs)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{After, On};

    fn job(name: &str, parents: &[&str]) -> JobSpec {
        let after = parents.iter().map(|parent| After::new(*parent, On::Success)).collect();
        JobSpec { name: name.to_owned(), after, ..JobSpec::default() }
    }

    fn stored(jobs: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        jobs.iter().map(|(name, parents)| ((*name).to_owned(), owned(parents))).collect()
    }

    fn names(jobs: Vec<JobSpec>) -> Vec<String> {
        jobs.into_iter().map(|spec| spec.name).collect()
    }

    #[test]
    fn jobs_come_after_their_ancestors_also_by_way_of_others() {
        let jobs = vec![job("last", &["between"]), job("alone", &[]), job("first", &[])];
        // Stored in the other direction: «last» is first, and «first» behind it.
        let others = stored(&[("between", &["first"]), ("first", &["last"])]);
        assert_eq!(names(in_order(jobs, &others).unwrap()), ["first", "last", "alone"]);
    }

    #[test]
    fn cycles_over_changed_and_other_jobs_are_named() {
        let others = stored(&[("b", &["a"]), ("c", &["b"]), ("x", &[])]);
        let told = in_order(vec![job("x", &["c"]), job("a", &["c"])], &others).unwrap_err();
        let text = "job «a», after: the jobs would wait for each other: c → a → b → c";
        assert_eq!(told.to_string(), text);
        let own = in_order(vec![job("a", &["a"])], &BTreeMap::new()).unwrap_err();
        assert!(own.to_string().ends_with("a → a"), "{own}");
    }

    #[test]
    fn long_chains_are_put_in_order_in_one_walk() {
        let name = |number: u32| format!("j{number}");
        let chain = (0..20_000).map(|number| job(&name(number), &[&name(number + 1)]));
        let ordered = in_order(chain.collect(), &BTreeMap::new()).unwrap();
        assert_eq!((&*ordered[0].name, &*ordered[19_999].name), ("j19999", "j0"));
    }
}
