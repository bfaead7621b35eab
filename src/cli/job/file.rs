//! Files of jobs, in YAML or JSON, and `turnwheel job apply`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::time::{Duration, SystemTime};

use serde_json::{json, Value};
use turnwheel::flow::documents;
use turnwheel::jobs::dkron::{self, Backup};
use turnwheel::jobs::{check, cycle_of, disable_spent, show, JobSpec, Jobs};

use super::{all, ask_of, done, path, with_flows, Remote, Settings};
use crate::cli::confirm;
use crate::cli::exit::Exit;
use crate::cli::paint::{one_line, print, Paint};

/// Bytes of the answer of a server of Dkron.
const ANSWER_MAX: u64 = 256 * 1_024 * 1_024;

/// Time limit of that answer.
const ANSWER: Duration = Duration::from_secs(60);

/// The jobs of a server of Dkron.
fn of_server(address: &str) -> Result<Value, Exit> {
    let address = address.trim_end_matches('/');
    let address = match address.ends_with("/v1") || address.ends_with("/jobs") {
        true => address.trim_end_matches("/jobs").to_owned(),
        false => format!("{address}/v1"),
    };
    let told = |error: ureq::Error| Exit::failed(format!("{address}/jobs: {error}"));
    let config = ureq::Agent::config_builder().timeout_global(Some(ANSWER));
    let agent: ureq::Agent = config.build().into();
    let mut answer = agent.get(format!("{address}/jobs")).call().map_err(told)?;
    let text = answer.body_mut().with_config().limit(ANSWER_MAX).read_to_string().map_err(told)?;
    serde_json::from_str(&text).map_err(|error| Exit::failed(format!("{address}/jobs: {error}")))
}

/// A backup of Dkron: a file, or the address of a server.
pub(super) fn read_backup(source: &str) -> Result<Value, Exit> {
    match source.starts_with("http://") || source.starts_with("https://") {
        true => of_server(source),
        false => read_one(source),
    }
}

/// Reads a file in JSON or YAML, or standard input: its documents.
pub(super) fn read(file: &str) -> Result<Vec<Value>, Exit> {
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().read_to_string(&mut text).map(drop),
        file => std::fs::read_to_string(file).map(|found| text = found),
    };
    read.map_err(|error| Exit::usage(format!("{file}: {error}")))?;
    let json = serde_json::from_str(&text);
    match json {
        Ok(value) => Ok(vec![value]),
        Err(error) if text.trim_start().starts_with(['{', '[']) => {
            Err(Exit::usage(format!("{file}: {error}")))
        }
        Err(_) => documents(&text, file).map_err(|problems| Exit::usage(problems.to_string())),
    }
}

/// The one document of a file.
pub(super) fn read_one(file: &str) -> Result<Value, Exit> {
    let mut all = read(file)?;
    match all.len() {
        1 => Ok(all.remove(0)),
        number => Err(Exit::usage(format!("{file} has {number} documents, and one is wanted"))),
    }
}

/// The jobs of files: each document is a job, or a list of jobs.
pub(super) fn specs(files: &[String]) -> Result<Vec<JobSpec>, Exit> {
    let mut specs: Vec<JobSpec> = Vec::new();
    for file in files {
        let mut values = Vec::new();
        for document in read(file)? {
            match document {
                Value::Array(list) => values.extend(list),
                Value::Null => {}
                one => values.push(one),
            }
        }
        for value in values {
            let name = value["name"].as_str().unwrap_or_default().to_owned();
            let spec: JobSpec = serde_json::from_value(value)
                .map_err(|error| Exit::usage(format!("{file}: job «{name}»: {error}")))?;
            if specs.iter().any(|other| other.name == spec.name) {
                return Err(Exit::usage(format!("{file}: the job «{name}» is there twice")));
            }
            specs.push(spec);
        }
    }
    match cycle_of(&specs) {
        Some(cycle) => Err(Exit::usage(format!("{}: {cycle}", files.join(", ")))),
        None => Ok(in_order(specs)),
    }
}

/// Parents before the jobs that run after them.
fn in_order(mut open: Vec<JobSpec>) -> Vec<JobSpec> {
    let mut ordered: Vec<JobSpec> = Vec::new();
    while !open.is_empty() {
        let names: Vec<String> = open.iter().map(|spec| spec.name.clone()).collect();
        let is_ready = |spec: &JobSpec| !spec.after.iter().any(|it| names.contains(&it.job));
        let (ready, waiting): (Vec<_>, Vec<_>) = open.into_iter().partition(is_ready);
        let is_stuck = ready.is_empty();
        ordered.extend(ready);
        open = waiting;
        if is_stuck {
            ordered.append(&mut open);
        }
    }
    ordered
}

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
    let stored = all(settings)?;
    let stored: BTreeMap<&str, &Value> =
        stored.iter().map(|job| (job["spec"]["name"].as_str().unwrap_or_default(), job)).collect();
    let total = specs.len();
    let changes: Vec<Change> = specs
        .into_iter()
        .map(|spec| {
            let found = stored.get(spec.name.as_str()).copied();
            change(spec, found)
        })
        .filter(|change| change.is_new() || !change.fields.is_empty())
        .collect();
    let paint = Paint::stdout(settings.colour());
    changes.iter().try_for_each(|change| print(&change.text(paint)))?;
    let new = changes.iter().filter(|change| change.is_new()).count();
    let (changed, same) = (changes.len() - new, total - changes.len());
    print(&format!("{new} to add, {changed} to change, {same} as they are\n"))?;
    if changes.is_empty() || is_dry {
        return Ok(());
    }
    if !is_agreed && !agreed()? {
        return Err(Exit::failed("nothing was changed"));
    }
    store(settings, &changes)
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

/// Makes the jobs of a file or of a server of Dkron, each for itself.
pub(super) fn import(settings: &Settings, file: &str, is_dkron: bool) -> Result<(), Exit> {
    let Backup { jobs, refused } = match is_dkron {
        true => dkron::read_backup(&read_backup(file)?)
            .map_err(|e| Exit::usage(format!("{file}: {e}")))?,
        false => {
            let specs = specs(&[file.to_owned()])?.into_iter();
            Backup { jobs: specs.map(|spec| (spec, Vec::new())).collect(), refused: Vec::new() }
        }
    };
    let jobs = jobs.into_iter().map(|(mut spec, mut notes)| {
        notes.extend(disable_spent(&mut spec, SystemTime::now().into()));
        (spec, notes)
    });
    let jobs: Vec<(JobSpec, Vec<String>)> = jobs.collect();
    let outcomes = super::store(settings, jobs.iter().map(|(spec, _)| spec.clone()).collect())?;
    let mut failed = refused.len();
    for (name, error) in &refused {
        print(&format!("fail create {}: {error}\n", one_line(name)))?;
    }
    for ((spec, notes), outcome) in jobs.iter().zip(outcomes) {
        match outcome {
            Ok(_) => print(&format!("success create {}\n", spec.name))?,
            Err(exit) => {
                failed += 1;
                print(&format!("fail create {}: {}\n", spec.name, exit.message))?;
            }
        }
        for note in notes {
            print(&format!("  {note}\n"))?;
        }
    }
    match failed {
        0 => Ok(()),
        failed => {
            let all = jobs.len() + refused.len();
            Err(Exit::failed(format!("{failed} of {all} jobs were refused")))
        }
    }
}
