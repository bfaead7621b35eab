//! Schedules.

use serde::{Deserialize, Serialize};

/// A schedule as it is described.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "server", schema(example = json!({
    "timing": { "cron": { "pattern": "0 3 * * *", "zone": "Europe/Berlin" } },
    "action": "flow", "input": { "flow": "shop/mail", "input": { "to": "ann" } },
})))]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    /// When it launches.
    pub timing: TimingSpec,
    /// The name of the action that it launches.
    pub action: String,
    /// With which input; of the action `flow` it names the flow and its input:
    /// `{"flow": "shop/mail", "input": {}}` is the newest version now.
    #[serde(default)]
    pub input: serde_json::Value,
    /// Policy for a launch while a plan of the same schedule is running.
    #[serde(default)]
    pub overlap: OverlapSpec,
    /// Policy for missed times.
    #[serde(default)]
    pub catch_up: CatchUpSpec,
    /// Maximum random delay of a launch, in milliseconds.
    #[serde(default)]
    pub jitter_ms: u64,
}

/// When a schedule launches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TimingSpec {
    /// At the times of a pattern of cron.
    Cron {
        /// The pattern: five fields, six with a second, or a name such as `@daily`.
        pattern: String,
        /// The time zone, by its name in the IANA database.
        #[serde(default = "utc")]
        zone: String,
    },
    /// After each period, counted from the begin of 1970.
    Every {
        /// The period in milliseconds; a second at least.
        period_ms: u64,
        /// Later by so much, in milliseconds.
        #[serde(default)]
        offset_ms: u64,
    },
    /// Once, at this time.
    At(String),
    /// Only on request.
    Manual {},
    /// At once, and again so long after each end of its plan.
    After {
        /// The pause in milliseconds; one at least.
        pause_ms: u64,
    },
}

fn utc() -> String {
    "UTC".to_owned()
}

/// Policy for a launch while a plan of the same schedule is running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OverlapSpec {
    /// Both run at the same time.
    Allow,
    /// The new one is left out.
    #[default]
    Forbid,
    /// The old one is cancelled.
    Replace,
    /// The new one waits for its turn.
    Queue,
}

/// Policy for missed times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CatchUpSpec {
    /// They are left out.
    None,
    /// One launch makes up for all of them.
    #[default]
    Latest,
    /// Launch those that were missed within this window.
    All {
        /// The window in milliseconds.
        window_ms: u64,
    },
}

/// A schedule as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct ScheduleInfo {
    /// Its name.
    pub name: String,
    /// Its settings.
    #[serde(flatten)]
    pub spec: ScheduleSpecInfo,
    /// When it was first put.
    pub created_at: String,
    /// The pause, if it is paused.
    pub paused: Option<PauseInfo>,
    /// When the next launch is due; nothing while it is paused.
    pub next: Option<String>,
    /// The newest launch that started a plan.
    pub last: Option<LaunchInfo>,
    /// Reason for having no times, if the stored settings cannot be read; put it again.
    pub problem: Option<String>,
    /// Plans that began.
    pub launched: u64,
    /// Launches that were left out by the overlap policy.
    pub skipped: u64,
    /// Times that were missed and not made up for.
    pub missed: u64,
    /// Launches that failed.
    pub failed: u64,
    /// Its plans that are under way.
    pub running: Vec<String>,
    /// Launches that wait for their turn.
    pub waiting: u32,
    /// The newest launches, oldest first.
    pub history: Vec<LaunchInfo>,
}

/// Settings of a schedule, as returned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct ScheduleSpecInfo {
    /// When it launches.
    pub timing: TimingSpec,
    /// The name of the action that it launches.
    pub action: String,
    /// With which input.
    pub input: serde_json::Value,
    /// Policy for a launch while a plan of the same schedule is running.
    pub overlap: OverlapSpec,
    /// Policy for missed times.
    pub catch_up: CatchUpSpec,
    /// Maximum random delay of a launch, in milliseconds.
    pub jitter_ms: u64,
}

/// The pause of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct PauseInfo {
    /// When.
    pub at: String,
    /// The principal.
    pub by: String,
    /// Why.
    pub why: String,
}

/// A launch that is over: a plan has begun, or none will.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct LaunchInfo {
    /// The time for which it was planned.
    pub planned: String,
    /// When it was decided.
    pub at: String,
    /// Why it was due: `on_time`, `caught_up`, `backfill` or `by_hand`.
    pub occasion: String,
    /// Outcome: `launched`, `skipped` or `failed`.
    pub outcome: String,
    /// The plan that began.
    pub plan: Option<String>,
    /// Why no plan began.
    pub why: Option<String>,
}

/// A page of schedules, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct SchedulePage {
    /// The schedules.
    pub schedules: Vec<ScheduleInfo>,
    /// The `cursor` of the next page; none on the last one.
    pub next: Option<String>,
}

/// Pauses a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SchedulePause {
    /// Why.
    #[serde(default)]
    pub why: String,
}

/// The times of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct ScheduleTimes {
    /// The next ones, without jitter.
    pub times: Vec<String>,
}

/// Times of a schedule that are to be made up for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Backfill {
    /// The first time.
    pub from: String,
    /// The time after the last one.
    pub until: String,
}

/// The backfill is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct BackfillDone {
    /// Number of times in its range.
    pub times: u64,
}
