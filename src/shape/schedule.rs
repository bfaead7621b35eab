//! Schedules.

use serde_json::Value;
use turnwheel_engine::schedule::{
    CatchUp, Launch, Occasion, Outcome, Overlap, ScheduleView, Timing,
};

use crate::api::{
    CatchUpSpec, LaunchInfo, OverlapSpec, PauseInfo, ScheduleInfo, ScheduleSpecInfo, TimingSpec,
};

/// A schedule.
pub fn schedule(view: ScheduleView) -> ScheduleInfo {
    let counts = view.counts;
    ScheduleInfo {
        name: view.name,
        spec: ScheduleSpecInfo {
            timing: timing(view.timing),
            action: view.action,
            input: view.input.read().unwrap_or(Value::Null),
            overlap: match view.overlap {
                Overlap::Allow => OverlapSpec::Allow,
                Overlap::Forbid => OverlapSpec::Forbid,
                Overlap::Replace => OverlapSpec::Replace,
                Overlap::Queue => OverlapSpec::Queue,
            },
            catch_up: match view.catch_up {
                CatchUp::None => CatchUpSpec::None,
                CatchUp::Latest => CatchUpSpec::Latest,
                CatchUp::All { window_us } => CatchUpSpec::All { window_ms: window_us / 1_000 },
            },
            jitter_ms: u64::try_from(view.jitter.as_millis()).unwrap_or(u64::MAX),
        },
        created_at: super::time(view.created_at),
        paused: view.paused.map(|paused| PauseInfo {
            at: super::time(paused.at),
            by: paused.by,
            why: paused.why,
        }),
        next: view.next.map(super::time),
        last: view.last.map(launch),
        problem: view.problem,
        launched: counts.launched,
        skipped: counts.skipped,
        missed: counts.missed,
        failed: counts.failed,
        running: view.running.iter().map(ToString::to_string).collect(),
        waiting: u32::try_from(view.waiting).unwrap_or(u32::MAX),
        history: view.history.into_iter().map(launch).collect(),
    }
}

fn timing(timing: Timing) -> TimingSpec {
    match timing {
        Timing::Cron { pattern, zone } => TimingSpec::Cron { pattern, zone },
        Timing::Every { period_us, offset_us } => {
            TimingSpec::Every { period_ms: period_us / 1_000, offset_ms: offset_us / 1_000 }
        }
        Timing::At(time) => TimingSpec::At(super::time(time)),
        Timing::Manual => TimingSpec::Manual {},
        Timing::After { pause_us } => TimingSpec::After { pause_ms: pause_us / 1_000 },
    }
}

fn launch(launch: Launch) -> LaunchInfo {
    let (outcome, plan, why) = match launch.outcome {
        Outcome::Launched(plan) => ("launched", Some(plan.to_string()), None),
        Outcome::Skipped(why) => ("skipped", None, Some(why)),
        Outcome::Failed(why) => ("failed", None, Some(why)),
    };
    let occasion = match launch.occasion {
        Occasion::OnTime => "on_time",
        Occasion::CaughtUp => "caught_up",
        Occasion::Backfill => "backfill",
        Occasion::ByHand(_) => "by_hand",
    };
    LaunchInfo {
        planned: super::time(launch.planned),
        at: super::time(launch.at),
        occasion: occasion.to_owned(),
        outcome: outcome.to_owned(),
        plan,
        why,
    }
}
