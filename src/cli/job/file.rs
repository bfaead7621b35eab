//! Files of jobs, in YAML or JSON, and `turnwheel job import`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use turnwheel::flow::documents;
use turnwheel::jobs::dkron::{self, Backup};
use turnwheel::jobs::{disable_spent, in_order, JobSpec};

use super::Settings;
use crate::cli::exit::Exit;
use crate::cli::paint::{one_line, print};

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
    let refused = |cycle| Exit::usage(format!("{}: {cycle}", files.join(", ")));
    in_order(specs, &BTreeMap::new()).map_err(refused)
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
