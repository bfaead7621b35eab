//! A job as its owner describes it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use turnwheel_engine::Time;

use crate::error::JobError;
use crate::limits::CONCURRENCY_KEY_BYTES_MAX;
use crate::limits::{KEEP_DEFAULT, KEEP_MAX, NAME_BYTES_MAX, OUTPUT_DEFAULT, OUTPUT_MAX};
use crate::limits::{RETRIES_MAX, SPEC_BYTES_MAX};
use crate::notify::{self, Notify};
use crate::schedule::{Dialect, Gap, Hash, Span};
use crate::small::is_default;

/// Settings of an executor or processor: names and texts, as in Dkron.
pub type Settings = BTreeMap<String, String>;

/// Policy for a launch while another one of the job is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Both run at the same time.
    #[default]
    Allow,
    /// The new one is skipped.
    Forbid,
    /// One waits for its turn; further ones are skipped.
    QueueOne,
    /// All wait for their turn, up to a limit.
    QueueAll,
    /// The one under way is cancelled, and the new one begins when it has ended.
    Replace,
}

/// Policy for times that passed while nothing launched jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// They are not made up for.
    None,
    /// One launch makes up for all of them: that of the last one.
    #[default]
    Latest,
    /// Those within this window are made up for, the oldest first, one after the other.
    All(Span),
}

/// Policy for a run of which nobody knows whether it has happened, as after a crash of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// It counts as failed, and is not retried.
    #[default]
    Fail,
    /// It is retried as a failure is.
    Retry,
    /// It ends as unknown, for a person to look at.
    Ask,
}

/// End of a parent after which a job runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// After a success.
    #[default]
    Success,
    /// After a failure.
    Failure,
    /// After either.
    Always,
}

/// Number of nodes that run a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nodes {
    /// All that match.
    All,
    /// So many of those that match, or all of them if there are fewer.
    #[serde(untagged)]
    Count(u32),
}

/// Policy for a launch that no node can run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoNode {
    /// It has failed.
    #[default]
    Fail,
    /// It waits so long for one, and has failed then.
    Wait(Span),
}

/// A parent of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// The parent.
    pub job: String,
    /// After which of its ends.
    #[serde(default)]
    pub on: On,
    /// In an export: there was no such job, and none is needed. A stored job has none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub missing: bool,
}

impl After {
    /// A parent, and the ends of it.
    pub fn new(job: impl Into<String>, on: On) -> Self {
        Self { job: job.into(), on, missing: false }
    }
}

/// Pauses between attempts: each twice as long as the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Backoff {
    /// The first pause.
    pub first: Span,
    /// The longest one.
    pub max: Span,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Span::seconds(1), max: Span::seconds(300) }
    }
}

/// A job: what runs, when, where, and by which rules. It is data; every field but the name has a
/// default.
///
/// ```
/// use turnwheel_jobs::{JobSpec, Overlap};
///
/// let text = r#"{"name": "backup", "schedule": "0 30 2 * * *", "timezone": "Europe/Madrid",
///     "executor": "shell", "config": {"command": "/usr/local/bin/backup"}, "overlap": "forbid"}"#;
/// let spec: JobSpec = serde_json::from_str(text)?;
/// assert_eq!((spec.overlap, spec.retries), (Overlap::Forbid, 0));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JobSpec {
    /// Its key: lower-case letters of any script, digits, `_` and `-`.
    pub name: String,
    /// A name for people.
    pub display_name: String,
    /// When it fires; may be empty if it runs after others.
    pub schedule: String,
    /// The IANA zone of the schedule; empty for that of the server.
    pub timezone: String,
    /// Number of fields of the schedule.
    pub dialect: Dialect,
    /// Hash for `~`.
    pub hash: Hash,
    /// Policy for times left out in spring.
    pub daylight_saving: Gap,
    /// It does not fire before.
    #[serde(with = "crate::moment")]
    pub starts_at: Option<Time>,
    /// It does not fire after.
    #[serde(with = "crate::moment")]
    pub expires_at: Option<Time>,
    /// Longest random delay of a launch; zero for none.
    pub jitter: Span,
    /// Whether it does not fire.
    pub disabled: bool,
    /// Its executor, such as `shell`, `http` or `flow`.
    pub executor: String,
    /// Settings of the executor.
    pub config: Settings,
    /// Policy for overlapping launches.
    pub overlap: Overlap,
    /// Policy for missed times.
    pub missed: Missed,
    /// A launch that would begin later than this after its time is left out; also allows a schedule
    /// `@at` whose time has just passed.
    pub start_within: Option<Span>,
    /// Further attempts after a failure.
    pub retries: u32,
    /// Pauses before them.
    pub backoff: Backoff,
    /// Policy for runs with unknown outcome.
    pub unknown: Unknown,
    /// Time limit of an attempt; its processes are ended.
    pub timeout: Option<Span>,
    /// Time limit of a launch with all its attempts.
    pub deadline: Option<Span>,
    /// Whether the job is removed after its first success.
    pub ephemeral: bool,
    /// Jobs after which it runs, once for each group.
    pub after: Vec<After>,
    /// Jobs with the same key run one at a time.
    pub concurrency_key: String,
    /// Runs with higher ones get places before others.
    pub priority: i32,
    /// Labels that a node must have, each with an optional `:count` of nodes.
    pub targets: BTreeMap<String, String>,
    /// Number of nodes that run a launch; one, or the smallest `:count` of the targets, if nothing
    /// is said.
    pub nodes: Option<Nodes>,
    /// Labels of nodes that are picked first.
    pub prefer: BTreeMap<String, String>,
    /// Labels of nodes that are picked last.
    pub avoid: BTreeMap<String, String>,
    /// Policy for launches that no node can run.
    pub no_node: NoNode,
    /// Launches that are kept.
    pub keep: u32,
    /// Launches that ended longer ago are not kept; but the newest is.
    pub keep_for: Option<Span>,
    /// Bytes of output of all launches that are kept: older launches are not; but the newest is.
    pub keep_bytes: Option<u64>,
    /// Bytes of output that a run keeps.
    pub output_max: u64,
    /// Its owner, for people.
    pub owner: String,
    /// The address of the owner.
    pub owner_email: String,
    /// Labels for searches.
    pub metadata: BTreeMap<String, String>,
    /// Processors of the output, with their settings. Each may have `forward`, for the output to go
    /// on as it is, and `order`: the lower one is first.
    pub processors: BTreeMap<String, Settings>,
    /// Receivers of its events.
    pub notify: Vec<Notify>,
}

impl Default for JobSpec {
    fn default() -> Self {
        Self {
            name: String::new(),
            display_name: String::new(),
            schedule: String::new(),
            timezone: String::new(),
            dialect: Dialect::default(),
            hash: Hash::default(),
            daylight_saving: Gap::default(),
            starts_at: None,
            expires_at: None,
            jitter: Span::default(),
            disabled: false,
            executor: "shell".to_owned(),
            config: Settings::new(),
            overlap: Overlap::default(),
            missed: Missed::default(),
            start_within: None,
            retries: 0,
            backoff: Backoff::default(),
            unknown: Unknown::default(),
            timeout: None,
            deadline: None,
            ephemeral: false,
            after: Vec::new(),
            concurrency_key: String::new(),
            priority: 0,
            targets: BTreeMap::new(),
            nodes: None,
            prefer: BTreeMap::new(),
            avoid: BTreeMap::new(),
            no_node: NoNode::default(),
            keep: KEEP_DEFAULT,
            keep_for: None,
            keep_bytes: None,
            output_max: OUTPUT_DEFAULT,
            owner: String::new(),
            owner_email: String::new(),
            metadata: BTreeMap::new(),
            processors: BTreeMap::new(),
            notify: Vec::new(),
        }
    }
}

impl JobSpec {
    /// Checks all that needs neither other jobs nor executors.
    pub(crate) fn check(&self) -> Result<(), JobError> {
        let wrong = |setting, problem: String| Err(JobError::setting(&self.name, setting, problem));
        check_name(&self.name)?;
        if self.schedule.trim().is_empty() && self.after.is_empty() {
            let advice = "give one, such as @daily or @manually, or a job that it runs after";
            return wrong("schedule", format!("it is empty: {advice}"));
        }
        if self.retries > RETRIES_MAX {
            return wrong("retries", format!("{RETRIES_MAX} are the limit"));
        }
        if self.concurrency_key.len() > CONCURRENCY_KEY_BYTES_MAX {
            let problem = format!("{CONCURRENCY_KEY_BYTES_MAX} bytes are the limit");
            return wrong("concurrency_key", problem);
        }
        if !(1..=KEEP_MAX).contains(&self.keep) {
            return wrong("keep", format!("give a number from 1 to {KEEP_MAX}"));
        }
        if self.keep_for.is_some_and(|limit| limit.is_zero()) {
            return wrong("keep_for", "0 keeps nothing: leave it out".to_owned());
        }
        if self.keep_bytes == Some(0) {
            return wrong("keep_bytes", "0 keeps nothing: leave it out".to_owned());
        }
        if self.output_max > OUTPUT_MAX {
            return wrong("output_max", format!("{OUTPUT_MAX} bytes are the limit"));
        }
        if self.timeout.is_some_and(|limit| limit.is_zero()) {
            return wrong("timeout", "0 ends each attempt at once: leave it out".to_owned());
        }
        if self.deadline.is_some_and(|limit| limit.is_zero()) {
            return wrong("deadline", "0 ends each launch at once: leave it out".to_owned());
        }
        if let (Some(starts), Some(expires)) = (self.starts_at, self.expires_at) {
            if expires < starts {
                return wrong("expires_at", format!("{expires} is before starts_at, {starts}"));
            }
        }
        if let Some(own) = self.after.iter().find(|after| after.job == self.name) {
            return wrong("after", format!("«{}» cannot run after itself", own.job));
        }
        let is_twice = |(n, it): &(usize, &After)| self.after[..*n].iter().any(|o| o.job == it.job);
        if let Some((_, twice)) = self.after.iter().enumerate().find(is_twice) {
            return wrong("after", format!("it names «{}» twice: leave one out", twice.job));
        }
        for (label, value) in &self.targets {
            if let Err(problem) = count_of(value) {
                return wrong("targets", format!("{label}: {problem}"));
            }
        }
        if self.nodes == Some(Nodes::Count(0)) {
            return wrong("nodes", "give 1 or more, or all".to_owned());
        }
        notify::check(&self.notify)
            .map_err(|problem| JobError::setting(&self.name, "notify", problem))?;
        let bytes = serde_json::to_string(self).map_or(0, |text| text.len());
        if bytes > SPEC_BYTES_MAX {
            return wrong("config", format!("the job has {bytes} bytes of {SPEC_BYTES_MAX}"));
        }
        Ok(())
    }
}

impl JobSpec {
    /// Number of nodes that run a launch of it at most.
    pub(crate) fn nodes_max(&self) -> usize {
        let counts = self.targets.values().filter_map(|value| count_of(value).ok()?.1);
        let own = match self.nodes {
            Some(Nodes::All) => Some(u32::MAX),
            Some(Nodes::Count(count)) => Some(count),
            None => None,
        };
        let count = counts.chain(own).min().unwrap_or(1);
        usize::try_from(count).unwrap_or(usize::MAX)
    }
}

/// Checks a name.
pub(crate) fn check_name(name: &str) -> Result<(), JobError> {
    let wrong = |problem: String| Err(JobError::setting(name, "name", problem));
    if name.is_empty() {
        return wrong("it is empty".to_owned());
    }
    if name.len() > NAME_BYTES_MAX {
        return wrong(format!("it is longer than {NAME_BYTES_MAX} bytes"));
    }
    let is_fine = |c: char| "_-".contains(c) || (c.is_alphanumeric() && !c.is_uppercase());
    match name.chars().find(|c| !is_fine(*c)) {
        None => Ok(()),
        Some(c) => {
            wrong(format!("it has «{c}», and lower-case letters, digits, _ and - are allowed"))
        }
    }
}

/// The value of a target and the number of nodes, if it has one.
pub(crate) fn count_of(value: &str) -> Result<(&str, Option<u32>), String> {
    let Some((value, count)) = value.rsplit_once(':') else { return Ok((value, None)) };
    match count.parse::<u32>() {
        Ok(count) if count > 0 => Ok((value, Some(count))),
        _ => Err(format!("«{count}» is no number of nodes: give 1 or more, or leave :count out")),
    }
}
