//! Happenings of a record, besides its effect on the plan.

use super::happening::What;
use super::Cursor;
use super::Happening;
use crate::action::Cause;
use crate::id::StepId;
use crate::plan::{counted, End, Inconsistent, Plan, PlanState, Record, StepState};
use crate::time::Time;

/// A happening without its place.
struct Told {
    at: Time,
    what: What,
    by: Option<String>,
    why: String,
}

/// Applies the records of one entry, and says what happened by that.
pub(crate) fn apply_and_tell(
    plan: &mut Plan,
    records: &[Record],
    seq: u64,
    mut tell: impl FnMut(Happening),
) -> Result<(), Inconsistent> {
    let mut nth = 0;
    for record in records {
        let mut told = Vec::new();
        match record {
            // The plan was begun with it.
            Record::Created(created) => told.push(Told {
                at: created.at,
                what: What::Plan { from: None, to: PlanState::Pending, result: plan.result() },
                by: Some(created.by.clone()),
                why: "created".to_owned(),
            }),
            _ => apply(plan, record, &mut told)?,
        }
        for Told { at, what, by, why } in told {
            let cursor = Cursor { seq, nth };
            nth += 1;
            let label = plan.label.clone();
            tell(Happening { cursor, plan: plan.id, label, at, what, by, why });
        }
    }
    drop(plan.take_left_behind());
    Ok(())
}

fn apply(plan: &mut Plan, record: &Record, told: &mut Vec<Told>) -> Result<(), Inconsistent> {
    let before = plan.state;
    let steps: Vec<(StepId, StepState)> = touched(record)
        .iter()
        .filter_map(|id| plan.find_step(*id).map(|step| (*id, step.state)))
        .collect();
    plan.apply(record)?;
    let Some((at, by, why)) = source(plan, record) else { return Ok(()) };
    let said = told.len();
    for (step, from) in steps {
        let is_new = plan.step(step).state != from;
        if is_new {
            let what = changed(plan, step, from);
            told.push(Told { at, what, by: by.clone(), why: why.clone() });
        }
    }
    if let Record::Planned(planned) = record {
        let what = turned(plan, before, PlanState::Planning);
        told.push(Told { at: planned.began, what, by: None, why: String::new() });
        for id in plan.in_state(StepState::Error) {
            let why = plan.step(id).error.as_ref().map_or_else(String::new, |e| e.message.clone());
            let what = changed(plan, id, StepState::Running);
            told.push(Told { at, what, by: None, why });
        }
        let what = turned(plan, PlanState::Planning, plan.state);
        told.push(Told { at, what, by, why });
    } else if plan.state != before {
        let what = turned(plan, before, plan.state);
        told.push(Told { at, what, by, why });
    } else if told.len() == said {
        let what = match record {
            Record::Event { step, id, .. } => {
                let action = name(plan, *step);
                What::Event { step: *step, action, id: id.clone() }
            }
            Record::CancelRequested { is_forced, .. } => What::Cancel { is_forced: *is_forced },
            _ => What::Note,
        };
        told.push(Told { at, what, by, why });
    }
    Ok(())
}

fn turned(plan: &Plan, from: PlanState, to: PlanState) -> What {
    What::Plan { from: Some(from), to, result: plan.result() }
}

fn name(plan: &Plan, step: StepId) -> String {
    plan.find_step(step).map_or_else(String::new, |step| plan.action(step.action).name.clone())
}

fn changed(plan: &Plan, id: StepId, from: StepState) -> What {
    let step = plan.step(id);
    let (action, kind, to, attempt) = (name(plan, id), step.kind, step.state, step.attempt);
    What::Step { step: id, action, kind, from, to, attempt }
}

/// The steps whose states a record may change.
fn touched(record: &Record) -> &[StepId] {
    match record {
        Record::Started { step, .. }
        | Record::Ended { step, .. }
        | Record::Interrupted { step, .. }
        | Record::Silent { step, .. }
        | Record::Reverting { step, .. } => std::slice::from_ref(step),
        Record::Marked { steps, .. } | Record::Reset { steps, .. } => steps,
        _ => &[],
    }
}

/// When, by whom and why; nothing for records that only the engine itself needs.
#[expect(clippy::too_many_lines, reason = "one arm for each record")]
fn source(plan: &Plan, record: &Record) -> Option<(Time, Option<String>, String)> {
    let (at, by, why) = match record {
        Record::Created(_)
        | Record::TimerSet { .. }
        | Record::TimerCancelled { .. }
        | Record::TimerNamed { .. }
        | Record::Promised(_)
        | Record::Sent(_)
        | Record::Delivered(_)
        | Record::HooksDue { .. }
        | Record::HooksDone { .. }
        | Record::Chunk { .. }
        | Record::ChunksDropped { .. }
        | Record::SubPlansAhead { .. }
        | Record::SubPlansNamed { .. }
        | Record::SubPlansNext { .. }
        | Record::Ordered(_)
        | Record::Beat { .. } => return None,
        Record::Planned(planned) => {
            let why = planned.error.as_ref().map_or("planned", |error| error.message.as_str());
            (planned.at, None, why.to_owned())
        }
        Record::Became { at, why, .. } => split(*at, why),
        Record::Marked { at, why, .. } | Record::Reset { at, why, .. } => {
            let (at, by, why) = split(*at, why);
            let canceller = plan.cancel.as_ref().map(|cancel| cancel.by.clone());
            (at, by.or(canceller.filter(|_| why.contains("cancelled"))), why)
        }
        Record::Started { at, cause, .. } => {
            let why = match cause {
                Cause::Turn => "its turn",
                Cause::Event => "an event",
                Cause::SubPlans => "its sub-plans are over",
                Cause::Cancel { .. } => "the plan is being cancelled",
                Cause::Skip => "it is left out",
            };
            let cancel = plan.cancel.as_ref().filter(|_| matches!(cause, Cause::Cancel { .. }));
            (*at, cancel.map(|cancel| cancel.by.clone()), why.to_owned())
        }
        Record::Ended { at, end, .. } => {
            let why = match end {
                End::Success => String::new(),
                End::Suspended { reason, .. } => format!("it waits for {reason}"),
                End::Cancelled => "the plan is being cancelled".to_owned(),
                End::Skipped => "it has cleaned up".to_owned(),
                End::Failed(error) | End::NotCalled(error) => error.message.clone(),
                End::Retry { error, at } => format!("{}; again at {at}", error.message),
            };
            (*at, None, why)
        }
        Record::Event { at, id, by, .. } => {
            (*at, by.clone(), id.as_ref().map_or_else(String::new, |id| format!("event «{id}»")))
        }
        Record::TimerFired { at, timer } => (*at, None, format!("timer {timer} is over")),
        Record::Interrupted { at, error, .. } => {
            let why = "its world went away while it ran";
            let why = error.as_ref().map_or(why, |error| error.message.as_str());
            (*at, None, why.to_owned())
        }
        Record::Silent { at, error, .. } => {
            let why = "it gave no sign of life";
            let why = error.as_ref().map_or(why, |error| error.message.as_str());
            (*at, None, why.to_owned())
        }
        Record::Rescued { at, how, by, .. } => {
            (*at, Some(by.clone()), format!("{} after a failure", how.name()))
        }
        Record::Reverting { at, .. } => (*at, None, "it is taken back".to_owned()),
        Record::CancelRequested { at, by, is_forced } => {
            let why = if *is_forced { "cancel, with force" } else { "cancel" };
            (*at, Some(by.clone()), why.to_owned())
        }
        Record::InputEdited { at, action, by, .. } => {
            (*at, Some(by.clone()), format!("the input of action {action} is another one"))
        }
        Record::SubPlans { at, step, plans, .. } => {
            (*at, None, format!("step {step} asks for {}", counted(plans.len(), "plan")))
        }
        Record::SubPlansDropped { at, step, why, .. } => {
            (*at, None, format!("plans of step {step} are not made: {why}"))
        }
        Record::PlanEnded { at, plan, result } => {
            (*at, None, format!("plan {plan} is over: {}", result.name()))
        }
        Record::ContinueAsNew { at, step, .. } => {
            (*at, None, format!("step {step} wants the plan to continue as new"))
        }
        Record::ContinuedAsNew { at, run, .. } => {
            (*at, None, format!("run {} is over, continued as run {run}", run - 1))
        }
        Record::Delayed { at, by, .. } => (*at, Some(by.clone()), "delayed".to_owned()),
        Record::NotPlanned { at, error } => (*at, None, error.message.clone()),
        Record::Note { at, text } => (*at, None, text.clone()),
        Record::Queued { at, step, queue } => {
            (*at, None, format!("step {step} waits for a place in queue «{queue}»"))
        }
        Record::Admitted { at, step } => (*at, None, format!("step {step} has its place")),
        Record::Grown { at, asker, steps } => {
            (*at, None, format!("step {asker} asks for {}", counted(steps.len(), "step")))
        }
        Record::Retimed(it) => {
            (it.at, None, format!("the clock was set by {} s", it.by / 1_000_000))
        }
        Record::Labelled { at, by, .. } => (*at, Some(by.clone()), "other labels".to_owned()),
        Record::Migrated { at, action, version, .. } => {
            (*at, None, format!("action {action} is of version {version} now"))
        }
    };
    Some((at, by, why))
}

/// Author in a generated text that ends so: «resumed by Ann».
fn split(at: Time, why: &str) -> (Time, Option<String>, String) {
    let found = why.strip_prefix("by ").map(|by| ("", by)).or_else(|| why.split_once(" by "));
    match found {
        Some((what, by)) => (at, Some(by.to_owned()), what.trim_end_matches(',').to_owned()),
        None => (at, None, why.to_owned()),
    }
}
