//! Jobs: their settings, their state, their launches.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Settings of a job; those that are left out have the defaults of `docs/jobs.md`. An answer has
/// all.
///
/// Durations are texts such as `90s`, `1h30m` or `2d`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct JobSpec {
    /// Its key: lower-case letters of any script, digits, `_` and `-`. In a request the path has
    /// it.
    pub name: String,
    /// A name for people.
    pub display_name: String,
    /// When it fires: cron with five to seven fields, `@daily`, `@every 1h`, `@at TIME` or a
    /// sentence.
    pub schedule: String,
    /// The IANA zone of the schedule; empty for that of the server.
    pub timezone: String,
    /// Number of fields of the schedule.
    pub dialect: JobDialect,
    /// Hash for `~`.
    pub hash: JobHash,
    /// Policy for times left out in spring.
    pub daylight_saving: JobGap,
    /// It does not fire before.
    pub starts_at: Option<String>,
    /// It does not fire after.
    pub expires_at: Option<String>,
    /// Longest random delay of a launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub jitter: Option<String>,
    /// Whether it does not fire.
    pub disabled: bool,
    /// Its executor, such as `shell`, `http` or `flow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub executor: Option<String>,
    /// Settings of the executor: names and texts.
    pub config: BTreeMap<String, String>,
    /// Policy for overlapping launches.
    pub overlap: JobOverlap,
    /// Policy for missed times.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub missed: Option<JobMissed>,
    /// A launch that would begin later than this after its time is left out.
    pub start_within: Option<String>,
    /// Further attempts after a failure.
    pub retries: u32,
    /// Pauses before them.
    pub backoff: JobBackoff,
    /// Policy for runs with unknown outcome.
    pub unknown: JobUnknown,
    /// Time limit of an attempt.
    pub timeout: Option<String>,
    /// Time limit of a launch with all its attempts.
    pub deadline: Option<String>,
    /// Whether the job is removed after its first success.
    pub ephemeral: bool,
    /// Jobs after which it runs.
    pub after: Vec<JobAfter>,
    /// Jobs with the same key run one at a time.
    pub concurrency_key: String,
    /// Runs with higher ones get places before others.
    pub priority: i32,
    /// Labels that a node must have, each with an optional `:count` of nodes.
    pub targets: BTreeMap<String, String>,
    /// Number of nodes that run a launch.
    pub nodes: Option<JobNodes>,
    /// Labels of nodes that are picked first.
    pub prefer: BTreeMap<String, String>,
    /// Labels of nodes that are picked last.
    pub avoid: BTreeMap<String, String>,
    /// Policy for launches that no node can run.
    pub no_node: JobNoNode,
    /// Launches that are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub keep: Option<u32>,
    /// Launches that ended longer ago are not kept.
    pub keep_for: Option<String>,
    /// Bytes of output of all launches that are kept.
    pub keep_bytes: Option<u64>,
    /// Bytes of output that a run keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub output_max: Option<u64>,
    /// Its owner, for people.
    pub owner: String,
    /// The address of the owner.
    pub owner_email: String,
    /// Labels for searches.
    pub metadata: BTreeMap<String, String>,
    /// Processors of the output, with their settings.
    pub processors: BTreeMap<String, BTreeMap<String, String>>,
    /// Receivers of its events.
    pub notify: Vec<JobNotify>,
}

/// Number of fields of a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobDialect {
    /// Six, the second first.
    #[default]
    Seconds,
    /// Five or six, as in crontabs.
    Classic,
}

/// Hash for `~` in a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobHash {
    /// SHA-256, reduced to the step of the field.
    #[default]
    Even,
    /// The sum of the code points of the name, as in Dkron.
    Legacy,
}

/// Policy for times of a day that the clocks leave out in spring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobGap {
    /// One fire at the first moment after the gap.
    #[default]
    First,
    /// Each fires as much later as the clocks were moved.
    Shift,
    /// They do not fire on that day.
    Skip,
}

/// Policy for a launch while another one of the job is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobOverlap {
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobMissed {
    /// They are not made up for.
    None,
    /// One launch makes up for all of them.
    Latest,
    /// Those within this duration are made up for.
    All(String),
}

/// Policy for a run of which nobody knows whether it has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobUnknown {
    /// It counts as failed, and is not retried.
    #[default]
    Fail,
    /// It is retried as a failure is.
    Retry,
    /// It ends as unknown, for a person to look at.
    Ask,
}

/// Pauses between attempts: each twice as long as the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct JobBackoff {
    /// The first pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub first: Option<String>,
    /// The longest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(nullable = false))]
    pub max: Option<String>,
}

/// A parent of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobAfter {
    /// The parent.
    pub job: String,
    /// After which of its ends.
    #[serde(default)]
    pub on: JobEnd,
    /// In an export: there was no such job, and none is needed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
}

/// End of a parent after which a job runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobEnd {
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
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobNodes {
    /// All that match.
    All,
    /// So many of those that match, or all of them if there are fewer.
    #[serde(untagged)]
    Count(u32),
}

/// Policy for a launch that no node can run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobNoNode {
    /// It has failed.
    #[default]
    Fail,
    /// It waits so long for one, and has failed then.
    Wait(String),
}

/// A notification: a webhook, or a mail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct JobNotify {
    /// The events.
    pub on: Vec<JobEvent>,
    /// Address of a webhook.
    pub webhook: String,
    /// Addresses of a mail; `owner` is that of the job's owner.
    pub mail: Vec<String>,
    /// Headers of the webhook, as `Name: value`.
    pub headers: Vec<String>,
    /// Template of a mail's subject.
    pub subject: String,
    /// Template of the body.
    pub body: String,
}

/// An event of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobEvent {
    /// A run begins.
    Start,
    /// A launch succeeded.
    Success,
    /// A launch failed after its last attempt, or its outcome is unknown.
    Failure,
    /// A launch succeeded, and the one before it did not.
    Recovery,
    /// A launch began much later than planned.
    Late,
    /// A planned time was missed.
    Missed,
    /// A policy left a launch out.
    Skipped,
}
