//! Dkron's JSON of jobs and executions.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde_json::{json, Map, Value};
use turnwheel_engine::Time;

use crate::error::JobError;
use crate::graph::cycle_of;
use crate::launch::{Launch, LaunchState, Run, RunState};
use crate::moment;
use crate::schedule::Hash;
use crate::spec::{After, JobSpec, Nodes, On, Overlap, Settings};
use crate::view::JobView;

/// Fields that the server computes; they are not taken from a client.
const COMPUTED: [&str; 9] = [
    "id",
    "success_count",
    "error_count",
    "last_success",
    "last_error",
    "dependent_jobs",
    "status",
    "next",
    "turnwheel",
];

/// Processors of Dkron that a server has.
const PROCESSORS: [&str; 4] = ["log", "files", "syslog", "fluent"];

/// Settings of its executor `shell`.
const SHELL: [&str; 9] =
    ["command", "shell", "env", "cwd", "timeout", "mem_limit", "su", "payload", "debug"];

/// A job read from Dkron's JSON.
#[derive(Clone, Debug)]
pub struct Read {
    /// The settings.
    pub spec: JobSpec,
    /// Fields that were left out because nothing here has them.
    pub unknown: Vec<String>,
}

/// The kind of value that a field takes, for the message about another kind.
fn wanted(field: &str) -> Option<&'static str> {
    match field {
        "executor_config" | "tags" | "metadata" => {
            Some("an object whose values are texts in quotes")
        }
        "processors" => Some("an object of objects whose values are texts in quotes"),
        "retries" => Some("a whole number from 0 on"),
        "disabled" | "ephemeral" => Some("true or false"),
        _ => None,
    }
}

struct Fields<'a> {
    name: &'a str,
    map: Map<String, Value>,
}

impl Fields<'_> {
    /// Takes a field; null is as good as none.
    fn take<T: DeserializeOwned + Default>(&mut self, field: &'static str) -> Result<T, JobError> {
        match self.map.remove(field) {
            None | Some(Value::Null) => Ok(T::default()),
            Some(value) => serde_json::from_value(value).map_err(|error| {
                let problem = match wanted(field) {
                    Some(wanted) => format!("{error}: give {wanted}"),
                    None => error.to_string(),
                };
                JobError::setting(self.name, field, problem)
            }),
        }
    }

    fn time(&mut self, field: &'static str) -> Result<Option<Time>, JobError> {
        let text: Option<String> = self.take(field)?;
        // Go's time of nothing.
        let text = text.filter(|text| !text.is_empty() && !text.starts_with("0001-01-01T00:00:00"));
        let time = text.map(|text| moment::parse(&text)).transpose();
        time.map_err(|problem| JobError::setting(self.name, field, problem))
    }
}

/// Reads a job. Fields that are not sent have their defaults.
///
/// # Errors
///
/// A field has a value that it cannot have.
pub fn read(value: &Value) -> Result<Read, JobError> {
    let Some(map) = value.as_object() else {
        return Err(JobError::setting("", "body", "a job is a JSON object"));
    };
    let named = |field: &str| map.get(field).and_then(Value::as_str).unwrap_or_default();
    let name = if named("name").is_empty() { named("id") } else { named("name") };
    let mut fields = Fields { name, map: map.clone() };
    fields.map.remove("name");
    COMPUTED.iter().for_each(|field| drop(fields.map.remove(*field)));
    let overlap = match fields.take::<String>("concurrency")?.as_str() {
        "" | "allow" => Overlap::Allow,
        "forbid" => Overlap::Forbid,
        other => {
            let problem = format!("«{other}» is none of allow and forbid");
            return Err(JobError::setting(name, "concurrency", problem));
        }
    };
    let parent: String = fields.take("parent_job")?;
    let schedule: String = fields.take("schedule")?;
    // Dkron gives no job with a parent to its clock.
    let schedule = if parent.is_empty() { schedule } else { String::new() };
    let after = (!parent.is_empty()).then_some(After::new(parent, On::Success));
    let executor: String = fields.take("executor")?;
    let targets: BTreeMap<String, String> = fields.take("tags")?;
    let has_count = targets.values().any(|value| value.contains(':'));
    let spec = JobSpec {
        name: name.to_owned(),
        display_name: fields.take("displayname")?,
        schedule,
        timezone: fields.take("timezone")?,
        owner: fields.take("owner")?,
        owner_email: fields.take("owner_email")?,
        disabled: fields.take("disabled")?,
        // As there: without a count all nodes with the tags run it.
        nodes: (!targets.is_empty() && !has_count).then_some(Nodes::All),
        targets,
        metadata: fields.take("metadata")?,
        retries: fields.take("retries")?,
        after: after.into_iter().collect(),
        processors: fields.take::<BTreeMap<String, Settings>>("processors")?,
        overlap,
        executor: if executor.is_empty() { "shell".to_owned() } else { executor },
        config: fields.take::<Settings>("executor_config")?,
        ephemeral: fields.take("ephemeral")?,
        starts_at: fields.time("starts_at")?,
        expires_at: fields.time("expires_at")?,
        ..JobSpec::default()
    };
    Ok(Read { spec, unknown: fields.map.into_iter().map(|(name, _)| name).collect() })
}

/// Changes settings by the fields of Dkron's JSON that are sent, and leaves the others.
///
/// # Errors
///
/// A field has a value that it cannot have.
pub fn merge(view: &JobView, sent: &Map<String, Value>) -> Result<JobSpec, JobError> {
    let mut whole = job(view);
    for (field, value) in sent {
        whole[field] = value.clone();
    }
    let (new, mut spec) = (read(&whole)?.spec, view.spec.clone());
    for field in sent.keys() {
        match field.as_str() {
            "displayname" => spec.display_name.clone_from(&new.display_name),
            // A child that has its own times too keeps them.
            "schedule" if sent[field] != spec.schedule.as_str() => {
                spec.schedule.clone_from(&new.schedule);
            }
            "timezone" => spec.timezone.clone_from(&new.timezone),
            "owner" => spec.owner.clone_from(&new.owner),
            "owner_email" => spec.owner_email.clone_from(&new.owner_email),
            "disabled" => spec.disabled = new.disabled,
            "tags" if spec.targets != new.targets => {
                (spec.targets, spec.nodes) = (new.targets.clone(), new.nodes)
            }
            "metadata" => spec.metadata.clone_from(&new.metadata),
            "retries" => spec.retries = new.retries,
            // Dkron knows one parent, and only its success.
            "parent_job"
                if spec.after.first().map(|it| &it.job) != new.after.first().map(|it| &it.job) =>
            {
                spec.after.clone_from(&new.after);
                spec.schedule.clone_from(&new.schedule);
            }
            "processors" => spec.processors.clone_from(&new.processors),
            // One of the policies that Dkron has no word for stays if it is shown as sent.
            "concurrency"
                if (spec.overlap == Overlap::Allow) != (new.overlap == Overlap::Allow) =>
            {
                spec.overlap = new.overlap;
            }
            "executor" => spec.executor.clone_from(&new.executor),
            "executor_config" => spec.config.clone_from(&new.config),
            "ephemeral" => spec.ephemeral = new.ephemeral,
            "starts_at" => spec.starts_at = new.starts_at,
            "expires_at" => spec.expires_at = new.expires_at,
            _ => {}
        }
    }
    Ok(spec)
}

/// Settings of a job whose JSON is sent whole: fields that are not sent have their defaults, and
/// what Dkron has no words for stays as it is.
///
/// # Errors
///
/// A field has a value that it cannot have.
pub fn replace(view: &JobView, sent: &Map<String, Value>) -> Result<JobSpec, JobError> {
    let mut whole = job(view);
    let fields = whole.as_object_mut().into_iter().flat_map(|fields| fields.iter_mut());
    let mut fields: Map<String, Value> = fields
        .filter(|(field, _)| *field != "name" && !COMPUTED.contains(&field.as_str()))
        .map(|(field, _)| (field.clone(), Value::Null))
        .collect();
    fields.extend(sent.clone());
    merge(view, &fields)
}

/// Jobs of a backup.
#[derive(Debug, Default)]
pub struct Backup {
    /// Jobs that can be stored, parents first, with notes about what differs.
    pub jobs: Vec<(JobSpec, Vec<String>)>,
    /// The names of the others, and why they are left out.
    pub refused: Vec<(String, JobError)>,
}

/// Reads a backup: a list of jobs. A `~` keeps the value that it has in Dkron. A job that cannot be
/// read, whose parent is not there or left out, or that is there twice, is left out.
///
/// # Errors
///
/// It is no list of jobs.
pub fn read_backup(value: &Value) -> Result<Backup, JobError> {
    let Some(list) = value.as_array() else {
        return Err(JobError::setting("", "body", "a backup is a JSON list of jobs"));
    };
    let mut open: Vec<(JobSpec, Vec<String>)> = Vec::with_capacity(list.len());
    let (mut refused, mut names) = (Vec::new(), BTreeSet::new());
    for value in list {
        let Read { mut spec, unknown } = match read(value) {
            Ok(read) => read,
            Err(error) => {
                let name = value["name"].as_str().or(value["id"].as_str());
                refused.push((name.unwrap_or_default().to_owned(), error));
                continue;
            }
        };
        if !names.insert(spec.name.clone()) {
            let problem = "it is there twice, and the first is taken";
            refused.push((spec.name.clone(), JobError::setting(&spec.name, "name", problem)));
            continue;
        }
        let notes = notes_of(&mut spec, value, unknown);
        open.push((spec, notes));
    }
    let mut placed = BTreeSet::new();
    let mut ordered: Vec<(JobSpec, Vec<String>)> = Vec::with_capacity(open.len());
    while !open.is_empty() {
        let is_ready = |(spec, _): &(JobSpec, _)| {
            let is_there = |after: &After| placed.contains(&after.job);
            spec.after.iter().all(|after| after.missing || is_there(after))
        };
        let (ready, waiting): (Vec<_>, Vec<_>) = open.into_iter().partition(is_ready);
        let is_stuck = ready.is_empty();
        placed.extend(ready.iter().map(|(spec, _)| spec.name.clone()));
        ordered.extend(ready);
        open = waiting;
        if is_stuck {
            // None of these is ever ready: it waits for one that is not stored.
            let (first, error) = stuck(open.iter().map(|(spec, _)| spec));
            refused.push((first.clone(), error));
            for (spec, _) in std::mem::take(&mut open).into_iter().filter(|it| it.0.name != first) {
                let parent = spec.after.iter().find(|it| !it.missing).map(|it| it.job.clone());
                let (job, parent) = (spec.name.clone(), parent.unwrap_or_default());
                refused.push((spec.name, JobError::UnknownParent { job, parent }));
            }
        }
    }
    Ok(Backup { jobs: ordered, refused })
}

/// Makes the settings of a backup those of here, and says what differs.
fn notes_of(spec: &mut JobSpec, value: &Value, unknown: Vec<String>) -> Vec<String> {
    // A backup of this server says that the parent was gone.
    let is_gone = value["turnwheel"]["parent_is_gone"] == true;
    spec.after.iter_mut().for_each(|after| after.missing = is_gone);
    let mut notes: Vec<String> =
        unknown.iter().map(|field| format!("the field {field} is left out")).collect();
    let schedule = value["schedule"].as_str().unwrap_or_default();
    let is_dropped = spec.schedule.is_empty() && !["", "@manually"].contains(&schedule);
    if let Some(after) = spec.after.first().filter(|_| is_dropped) {
        notes.push(format!("its schedule {schedule} is left out: it runs after {}", after.job));
    }
    if spec.schedule.contains('~') {
        spec.hash = Hash::Legacy;
        notes.push("~ keeps its value in Dkron (hash: legacy)".to_owned());
    }
    for name in spec.processors.keys().filter(|name| !PROCESSORS.contains(&name.as_str())) {
        notes.push(format!("the processor {name} is kept; without a plugin nothing runs it"));
    }
    if spec.executor == "shell" {
        let others: Vec<String> = spec.config.keys().cloned().collect();
        for name in others.iter().filter(|name| !SHELL.contains(&name.as_str())) {
            spec.config.remove(name);
            notes.push(format!("the setting {name} of shell is left out: Dkron has none"));
        }
    }
    let is_named = spec.schedule.starts_with('@') && !spec.schedule.starts_with("@every");
    if is_named && !spec.timezone.is_empty() && spec.schedule != "@manually" {
        let (schedule, zone) = (&spec.schedule, &spec.timezone);
        notes.push(format!("{schedule} is of the zone {zone}, and in Dkron of its server's"));
    }
    if !spec.targets.is_empty() {
        let labels = spec
            .targets
            .iter()
            .map(|(name, value)| format!("{name}={}", value.split(':').next().unwrap_or_default()));
        let labels = labels.collect::<Vec<_>>().join(",");
        notes.push(format!("it needs nodes with the labels {labels} (jobs.labels, --label)"));
    }
    if spec.targets.is_empty() {
        notes.push("without tags it runs on one node, and in Dkron on all".to_owned());
    }
    notes
}

/// Why none of these jobs can be the next one: a parent is missing, or they wait for each other.
/// With the name of one of them.
fn stuck<'a>(waiting: impl Iterator<Item = &'a JobSpec> + Clone) -> (String, JobError) {
    if let Some(cycle) = cycle_of(waiting.clone()) {
        let name = match &cycle {
            JobError::Cycle { job, .. } => job.clone(),
            _ => String::new(),
        };
        return (name, cycle);
    }
    let is_missing = |parent: &&After| !waiting.clone().any(|spec| spec.name == parent.job);
    let missing =
        waiting.clone().find_map(|spec| Some((spec, spec.after.iter().find(is_missing)?)));
    let (job, parent) = missing
        .map_or_else(Default::default, |(spec, parent)| (spec.name.clone(), parent.job.clone()));
    (job.clone(), JobError::UnknownParent { job, parent })
}

fn text(time: Option<Time>) -> Value {
    time.map_or(Value::Null, |time| Value::from(time.to_string()))
}

/// The status of a job in Dkron's words; empty if it never ran.
pub fn status(view: &JobView) -> &'static str {
    match view.status {
        None => "",
        Some(LaunchState::Succeeded) => "success",
        Some(LaunchState::PartlyFailed) => "partially_failed",
        Some(_) => "failed",
    }
}

/// A job in Dkron's JSON. What Dkron does not know is under `turnwheel`.
pub fn job(view: &JobView) -> Value {
    let spec = &view.spec;
    let concurrency = if spec.overlap == Overlap::Allow { "allow" } else { "forbid" };
    json!({
        "id": spec.name,
        "name": spec.name,
        "displayname": spec.display_name,
        "timezone": spec.timezone,
        "schedule": spec.schedule,
        "owner": spec.owner,
        "owner_email": spec.owner_email,
        "success_count": view.counts.success,
        "error_count": view.counts.error,
        "last_success": text(view.last_success),
        "last_error": text(view.last_error),
        "disabled": spec.disabled,
        "tags": spec.targets,
        "metadata": spec.metadata,
        "retries": spec.retries,
        "dependent_jobs": view.dependants,
        "parent_job": spec.after.first().map_or("", |after| after.job.as_str()),
        "processors": spec.processors,
        "concurrency": concurrency,
        "executor": spec.executor,
        "executor_config": spec.config,
        "status": status(view),
        "next": text(view.next),
        "ephemeral": spec.ephemeral,
        "starts_at": text(spec.starts_at),
        "expires_at": text(spec.expires_at),
        "turnwheel": {
            "revision": view.revision, "problem": view.problem, "overlap": spec.overlap,
            "parent_is_gone": spec.after.first().is_some_and(|it| view.gone.contains(&it.job)),
        },
    })
}

/// The id of a run in Dkron's API.
pub fn execution_id(launch: &Launch, run: usize) -> String {
    let node = launch.runs.get(run).map_or("", |run| run.node.as_str());
    format!("{}-{}-{node}", launch.id, run + 1)
}

/// The launch and the run that an id names.
pub fn execution_of(id: &str) -> Option<(u64, usize)> {
    let mut parts = id.splitn(3, '-');
    let launch = parts.next()?.parse().ok()?;
    let run: usize = parts.next()?.parse().ok()?;
    Some((launch, run.checked_sub(1)?))
}

/// A run in Dkron's JSON, with at most `limit` last bytes of its output.
pub fn execution(
    job: &str,
    launch: &Launch,
    run: usize,
    output: &str,
    limit: Option<usize>,
) -> Value {
    let Some(row) = launch.runs.get(run) else { return without_run(job, launch, run) };
    let from = limit.map_or(0, |limit| output.len().saturating_sub(limit));
    let from = (from..=output.len()).find(|at| output.is_char_boundary(*at)).unwrap_or(0);
    json!({
        "id": execution_id(launch, run),
        "job_name": job,
        "started_at": text(row.started_at.or(Some(launch.decided))),
        "finished_at": text(row.ended_at),
        "success": row.state == RunState::Succeeded,
        "output": said(row, &output[from..]),
        "output_truncated": from > 0 || row.is_cut,
        "node_name": row.node,
        "group": launch.planned.0.saturating_mul(1_000),
        "attempt": row.attempt,
        "planned_at": launch.planned.to_string(),
    })
}

/// A launch that no node could run: one execution with the reason.
fn without_run(job: &str, launch: &Launch, run: usize) -> Value {
    json!({
        "id": execution_id(launch, run),
        "job_name": job,
        "started_at": text(Some(launch.decided)),
        "finished_at": text(launch.ended_at),
        "success": false,
        "output": launch.reason,
        "output_truncated": false,
        "node_name": "",
        "group": launch.planned.0.saturating_mul(1_000),
        "attempt": 1,
        "planned_at": launch.planned.to_string(),
    })
}

/// The output, or the reason if there is none.
fn said(run: &Run, output: &str) -> String {
    match output.is_empty() {
        true => run.reason.clone(),
        false => output.to_owned(),
    }
}
