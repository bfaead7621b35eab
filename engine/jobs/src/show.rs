//! Jobs and launches as JSON, with times as text.

use serde_json::{json, Value};
use turnwheel_engine::Time;

use crate::launch::{Cause, Launch, Run, RunState};
use crate::registry::Executors;
use crate::view::{JobView, NextLaunch};

fn text(time: Option<Time>) -> Value {
    time.map_or(Value::Null, |time| Value::from(time.to_string()))
}

/// A job with its settings and its state.
pub fn job(view: &JobView) -> Value {
    json!({
        "spec": view.spec,
        "revision": view.revision,
        "created_at": view.created_at.to_string(),
        "changed_at": view.changed_at.to_string(),
        "changed_by": view.changed_by,
        "next": text(view.next),
        "problem": view.problem,
        "status": view.status.map(|status| status.name()),
        "success": view.counts.success,
        "error": view.counts.error,
        "skipped": view.counts.skipped,
        "missed": view.counts.missed,
        "lost": view.counts.lost,
        "last_success": text(view.last_success),
        "last_error": text(view.last_error),
        "active": view.active.iter().map(launch).collect::<Vec<_>>(),
        "last": view.last.as_ref().map(launch),
        "dependants": view.dependants,
        "gone": view.gone,
    })
}

/// The executors of a node, each looked at now: blocks for seconds at most. Those that a look would
/// start a process for are only looked at if that is allowed; else they are as they were last.
pub fn executors(executors: &Executors, starts: bool) -> Value {
    let looked = executors.health(starts).into_iter().map(|(name, said)| {
        let is_ready = said.as_ref().map(Result::is_ok);
        let unknown = || Ok("it was not looked at yet: that needs the role operate".to_owned());
        let detail = said.unwrap_or_else(unknown).unwrap_or_else(|why| why);
        json!({"name": name, "is_ready": is_ready, "detail": detail})
    });
    json!({ "executors": looked.collect::<Vec<_>>() })
}

/// The next launches of a job: when they begin, and for when they are planned.
pub fn next(launches: &[NextLaunch]) -> Value {
    let times = launches.iter().map(|next| next.begins.to_string()).collect::<Vec<_>>();
    let planned = launches.iter().map(|next| next.planned.to_string()).collect::<Vec<_>>();
    json!({ "times": times, "planned": planned })
}

/// A launch with its runs.
pub fn launch(launch: &Launch) -> Value {
    let cause = match &launch.cause {
        Cause::Schedule => json!("schedule"),
        Cause::CatchUp => json!("catch_up"),
        Cause::Manual { by } => json!({ "manual": by }),
        Cause::After { job, launch } => json!({ "after": { "job": job, "launch": launch } }),
    };
    json!({
        "id": launch.id,
        "planned": launch.planned.to_string(),
        "decided": launch.decided.to_string(),
        "cause": cause,
        "state": launch.state.name(),
        "reason": launch.reason,
        "times": launch.times,
        "until": text(launch.until),
        "ended_at": text(launch.ended_at),
        "cancelled_by": launch.cancelled_by,
        "answered_by": launch.answered_by,
        "runs": launch.runs.iter().map(run).collect::<Vec<_>>(),
    })
}

fn run(run: &Run) -> Value {
    let begins = match run.state {
        RunState::Waiting(at) => Some(at),
        _ => None,
    };
    json!({
        "node": run.node,
        "member": run.member,
        "attempt": run.attempt,
        "state": run.state.name(),
        "begins_at": text(begins),
        "plan": run.plan.map(|plan| plan.to_string()),
        "started_at": text(run.started_at),
        "ended_at": text(run.ended_at),
        "reason": run.reason,
        "output_bytes": run.output_bytes,
        "output_truncated": run.is_cut,
        "note": run.note,
    })
}
