//! `turnwheel job apply`: what files of jobs would change, and its change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use serde_json::{json, Value};
use turnwheel::jobs::{check, in_order, show, JobError, JobSpec, Jobs};

use super::file::specs;
use super::{all, ask_of, done, path, with_flows, Remote, Settings};
use crate::cli::confirm;
use crate::cli::exit::Exit;
use crate::cli::paint::{one_line, print, Paint};

/// Jobs that are checked by one request: what a server takes.
const JOBS_AT_ONCE: usize = 200;

/// Bytes of jobs that are checked by one request, within the limit of a body.
const BYTES_AT_ONCE: usize = 1_024 * 1_024;

/// A job of a file beside the stored one.
struct Change {
    spec: JobSpec,
    /// The revision that is changed; 0 for a new job.
    revision: u64,
    /// Differences, by field: before and after.
    fields: Vec<(String, Option<String>, String)>,
}

/// Compares a job with the stored one, or with the defaults.
fn change(spec: JobSpec, stored: Option<&Value>) -> Change {
    let default = serde_json::to_value(JobSpec::default()).unwrap_or_default();
    let (before, revision) = match stored {
        Some(job) => (&job["spec"], job["revision"].as_u64().unwrap_or(0)),
        None => (&default, 0),
    };
    let mut after = serde_json::to_value(&spec).unwrap_or_default();
    for parent in after["after"].as_array_mut().into_iter().flatten() {
        // It says something about the export, and is not stored.
        parent.as_object_mut().map(|parent| parent.remove("missing"));
    }
    let mut fields = Vec::new();
    for (field, value) in after.as_object().into_iter().flatten() {
        if before[field] != *value && field != "name" {
            let old = stored.map(|_| before[field].to_string());
            fields.push((field.clone(), old, value.to_string()));
        }
    }
    Change { spec, revision, fields }
}

impl Change {
    fn is_new(&self) -> bool {
        self.revision == 0
    }

    fn text(&self, paint: Paint) -> String {
        let name = one_line(&self.spec.name);
        let mut text = match self.is_new() {
            true => paint.good(&format!("+ {name}\n")),
            false => paint.warn(&format!("~ {name}\n")),
        };
        for (field, old, new) in &self.fields {
            let old = old.as_ref().map_or(String::new(), |old| format!("{} → ", one_line(old)));
            text.push_str(&format!("    {field}: {old}{}\n", one_line(new)));
        }
        text
    }
}

/// Shows what files would change, and changes it when that is agreed to.
pub(super) fn apply(
    settings: &Settings,
    files: &[String],
    is_agreed: bool,
    is_dry: bool,
) -> Result<(), Exit> {
    let specs = specs(files)?;
    // Before anything is written. What only the server knows is its part.
    for spec in &specs {
        let checked = check(spec, SystemTime::now().into());
        checked.map_err(|problem| Exit::usage(format!("{}: {problem}", files.join(", "))))?;
    }
    let stored = Stored(all(settings)?);
    let (specs, cycle) = match in_order(specs.clone(), &stored.parents()) {
        Ok(ordered) => (ordered, None),
        Err(cycle) => (specs, Some(cycle)),
    };
    let (total, jobs) = (specs.len(), stored.by_name());
    let changes = specs.into_iter().map(|spec| {
        let found = jobs.get(spec.name.as_str()).copied();
        change(spec, found)
    });
    let changes: Vec<Change> =
        changes.filter(|change| change.is_new() || !change.fields.is_empty()).collect();
    let paint = Paint::stdout(settings.colour());
    changes.iter().try_for_each(|change| print(&change.text(paint)))?;
    let new = changes.iter().filter(|change| change.is_new()).count();
    let (changed, same) = (changes.len() - new, total - changes.len());
    print(&format!("{new} to add, {changed} to change, {same} as they are\n"))?;
    let mut problems: Vec<String> = cycle.iter().map(JobError::to_string).collect();
    problems.extend(without_parents(&changes, &jobs));
    problems.extend(refused(settings, &changes)?);
    problems.iter().try_for_each(|problem| print(&format!("fail {}\n", one_line(problem))))?;
    if !problems.is_empty() {
        return Err(Exit::failed("jobs would be refused: nothing was changed"));
    }
    if changes.is_empty() || is_dry {
        return Ok(());
    }
    if !is_agreed && !agreed()? {
        return Err(Exit::failed("nothing was changed"));
    }
    store(settings, &changes)
}

/// The jobs that are stored, as the API shows them.
struct Stored(Vec<Value>);

impl Stored {
    fn by_name(&self) -> BTreeMap<&str, &Value> {
        self.0.iter().map(|job| (job["spec"]["name"].as_str().unwrap_or_default(), job)).collect()
    }

    /// The parents of each.
    fn parents(&self) -> BTreeMap<String, Vec<String>> {
        let all = self.by_name().into_iter();
        all.map(|(name, job)| (name.to_owned(), parents_of(job))).collect()
    }
}

fn parents_of(job: &Value) -> Vec<String> {
    let after = job["spec"]["after"].as_array().into_iter().flatten();
    after.filter_map(|after| after["job"].as_str()).map(str::to_owned).collect()
}

/// The problems of jobs with a parent that is neither stored nor among them. One that the stored
/// job has, or that was gone when it was exported, may be missing.
fn without_parents(changes: &[Change], stored: &BTreeMap<&str, &Value>) -> Vec<String> {
    let names: BTreeSet<&str> = changes.iter().map(|change| change.spec.name.as_str()).collect();
    let problems = changes.iter().flat_map(|Change { spec, .. }| {
        let known = stored.get(spec.name.as_str()).map_or_else(Vec::new, |job| parents_of(job));
        let parents = spec.after.iter().filter(|after| !after.missing).map(|after| &after.job);
        let lacks = parents.filter(|parent| {
            let parent = parent.as_str();
            !names.contains(parent) && !stored.contains_key(parent)
        });
        let lacks: Vec<&String> = lacks.filter(|parent| !known.contains(parent)).collect();
        lacks.into_iter().map(|parent| {
            let (job, parent) = (spec.name.clone(), parent.clone());
            JobError::UnknownParent { job, parent }.to_string()
        })
    });
    problems.collect()
}

/// Why the server would refuse changes, or this process in its place.
fn refused(settings: &Settings, changes: &[Change]) -> Result<Vec<String>, Exit> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let here = |jobs: &Jobs, _: &str| {
        let edits = changes.iter().map(|change| (change.spec.clone(), Some(change.revision)));
        let problems = done(jobs.check(edits.collect()))?;
        Ok(problems.iter().map(ToString::to_string).collect())
    };
    let there = |server: &Remote| {
        let edits = changes.iter().map(|it| json!({ "spec": it.spec, "revision": it.revision }));
        let (mut problems, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut check = |batch: &mut Vec<Value>| {
            let answer = server.ask(|client| client.check_jobs(&std::mem::take(batch)))?;
            problems.extend(answer["problems"].as_array().into_iter().flatten().cloned());
            Ok::<(), Exit>(())
        };
        for edit in edits {
            bytes += edit.to_string().len();
            batch.push(edit);
            if batch.len() == JOBS_AT_ONCE || bytes >= BYTES_AT_ONCE {
                check(&mut batch)?;
                bytes = 0;
            }
        }
        if !batch.is_empty() {
            check(&mut batch)?;
        }
        Ok(Value::from(problems))
    };
    let problems = ask_of(with_flows(settings), settings, here, there)?;
    let problems = problems.as_array().into_iter().flatten();
    Ok(problems.filter_map(|problem| problem.as_str().map(str::to_owned)).collect())
}

/// Asks on the terminal.
fn agreed() -> Result<bool, Exit> {
    if !confirm::can_ask() {
        let problem = "nobody can be asked here whether to apply this: nothing was changed";
        return Err(Exit::usage(problem).advice("say --yes to apply it, or --dry-run to look"));
    }
    confirm::agreed("Apply?")
}

/// Stores changes, each only if nobody has edited the job since it was compared.
fn store(settings: &Settings, changes: &[Change]) -> Result<(), Exit> {
    let mut failed: Vec<String> = Vec::new();
    let mut others: Vec<String> = Vec::new();
    let told = |change: &Change, outcome: Result<Value, Exit>| match outcome {
        Ok(_) => None,
        Err(exit) => Some(format!("{}: {}", change.spec.name, exit.message)),
    };
    let here = |jobs: &Jobs, by: &str| {
        for change in changes {
            let put = done(jobs.put(change.spec.clone(), Some(change.revision), by));
            failed.extend(told(change, put.map(|view| show::job(&view))));
        }
        Ok(json!(null))
    };
    let there = |server: &Remote| {
        for change in changes {
            let body = serde_json::to_value(&change.spec).unwrap_or_default();
            let path = path(&change.spec.name, &format!("?revision={}", change.revision));
            others.extend(told(change, server.send("PUT", &path, Some(&body))));
        }
        Ok(json!(null))
    };
    ask_of(with_flows(settings), settings, here, there)?;
    failed.append(&mut others);
    print(&format!("{} applied\n", changes.len() - failed.len()))?;
    failed.iter().try_for_each(|line| print(&format!("fail {line}\n")))?;
    match failed.len() {
        0 => Ok(()),
        number => Err(Exit::failed(format!("{number} of {} jobs were refused", changes.len()))),
    }
}
