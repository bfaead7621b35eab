//! `turnwheel show`: one plan, or one step of it.

use std::fmt::Write as _;

use serde_json::{json, Value};
use turnwheel::engine::picture::{error_of, name_of, state_of};
use turnwheel::engine::plan::{ActionData, Step};
use turnwheel::engine::{ActionError, Payload, PlanView, StepId, Time};

use super::exit::Exit;
use super::find::PlanRef;
use super::paint::{one_line, print, print_json, table, Paint};
use super::place::Place;
use super::settings::Settings;
use super::span;

/// The longest value that is shown in full without --json, in bytes.
const VALUE_SHOWN: usize = 2_000;

const AFTER_HELP: &str = "\
A plan is named by its id, by the last letters of it (at least 4), or as «last», the newest.

Examples:
  turnwheel show last
  turnwheel show 0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f --step 3     input, output, error of a step
  turnwheel show 398f --json | jq .output

Exit codes: 0 shown; 2 wrong usage; 3 there is no such store, plan or step.";

/// Show a plan: its state, its result, its steps.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The plan.
    plan: PlanRef,

    /// Show this step with its input and output.
    #[arg(long, value_name = "STEP")]
    step: Option<u32>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let mut view = Place::of(settings).view()?;
    let id = arguments.plan.find(&mut view)?;
    let plan = view.plan(id)?;
    let paint = Paint::stdout(settings.colour());
    match arguments.step {
        None if arguments.json => print_json(&whole(&plan)),
        None => print(&text(paint, &plan)),
        Some(number) => {
            let step = plan.find_step(StepId(number)).ok_or_else(|| {
                Exit::not_found(format!("plan {id} has no step {number}"))
                    .advice("turnwheel show without --step lists its steps")
            })?;
            let json = step_json(&plan, step);
            if arguments.json {
                print_json(&json)
            } else {
                print(&step_text(paint, &plan, step))
            }
        }
    }
}

/// The value of a payload; its text if it is no JSON.
pub(crate) fn value(payload: &Payload) -> Value {
    payload.read().unwrap_or_else(|_| Value::from(payload.as_str()))
}

fn times(time: Option<Time>) -> Value {
    time.map_or(Value::Null, |time| Value::from(time.to_string()))
}

fn error_json(error: Option<&ActionError>) -> Value {
    error.map_or(
        Value::Null,
        |error| json!({ "kind": error.kind, "message": error.message, "is_final": error.is_final }),
    )
}

/// A plan with its steps.
pub(crate) fn whole(plan: &PlanView) -> Value {
    let root = plan.root();
    let payload =
        |of: fn(&ActionData) -> &Payload| root.map_or(Value::Null, |root| value(of(root)));
    json!({
        "id": plan.id.to_string(),
        "label": plan.label,
        "action": plan.created.action,
        "labels": plan.labels,
        "by": plan.created.by,
        "key": plan.created.key,
        "priority": plan.created.priority,
        "state": plan.state.name(),
        "result": plan.result().name(),
        "progress": plan.progress(),
        "waits": plan.waiting().name(),
        "waits_for": plan.waits_for(),
        "created_at": plan.created.at.to_string(),
        "started_at": times(plan.started_at),
        "ended_at": times(plan.ended_at),
        "wakes_at": times(plan.wakes_at()),
        "deadline": times(plan.created.deadline),
        "ran_ms": plan.execution_time().as_secs_f64() * 1e3,
        "input": root
            .map_or_else(|| value(&plan.created.input), |root| value(&plan.input_seen(root))),
        "output": payload(|root| &root.output),
        "planning_error": error_json(plan.planning_error.as_ref()),
        "steps": plan.steps.iter().map(|step| step_json(plan, step)).collect::<Vec<_>>(),
        "history": plan.history.iter()
            .map(|entry| json!({ "at": entry.at.to_string(), "text": entry.text }))
            .collect::<Vec<_>>(),
    })
}

fn step_json(plan: &PlanView, step: &Step) -> Value {
    let action = plan.action(step.action);
    json!({
        "id": step.id.0,
        "action": action.name,
        "action_id": action.id.0,
        "kind": step.kind.name(),
        "state": state_of(action, step).name(),
        "queue": step.queue,
        "attempt": step.attempt,
        "calls": step.calls,
        "failures": step.failures,
        "progress": step.progress.map(|thousandths| f64::from(thousandths) / 1e3),
        "waits_for": step.waits_for,
        "started_at": times(step.started_at),
        "ended_at": times(step.ended_at),
        "retry_at": times(step.retry_at),
        "ran_ms": step.execution_time().as_secs_f64() * 1e3,
        "input": value(&plan.input_seen(action)),
        "output": value(&action.output),
        "error": error_json(error_of(action, step).as_ref()),
        "revert_error": error_json(step.revert_error.as_ref()),
        "waiting_events": step.waiting_events(),
    })
}

/// Writes a line with a name before it, unless the text is empty.
fn line(text: &mut String, paint: Paint, name: &str, said: &str) {
    if !said.is_empty() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} {said}", paint.dim(&format!("{name:<9}")));
    }
}

/// A value on as many lines as it takes, cut off if it is long.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::Object(_) | Value::Array(_) => format!("{value:#}"),
        value => value.to_string(),
    };
    if text.len() <= VALUE_SHOWN {
        return text;
    }
    let end = (0..=VALUE_SHOWN).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{} … ({} bytes, all of it with --json)", &text[..end], text.len())
}

fn text(paint: Paint, plan: &PlanView) -> String {
    let mut text = String::new();
    let time = |time: Option<Time>| time.map_or_else(String::new, span::shown);
    let (state, result) = (paint.plan(plan.state), paint.result(plan.result()));
    line(&mut text, paint, "plan", &plan.id.to_string());
    line(&mut text, paint, "name", &paint.bold(&one_line(&plan.label)));
    line(
        &mut text,
        paint,
        "state",
        &format!("{state}, {result}, {:.0} %", plan.progress() * 100.0),
    );
    line(&mut text, paint, "waits for", &one_line(&plan.waits_for()));
    let by = &plan.created.by;
    line(
        &mut text,
        paint,
        "created",
        &format!("{} by {}", span::shown(plan.created.at), one_line(by)),
    );
    line(&mut text, paint, "started", &time(plan.started_at));
    let took = if plan.ended_at.is_some() {
        format!("{}, after {}", time(plan.ended_at), span::long(plan.real_time()))
    } else {
        String::new()
    };
    line(&mut text, paint, "ended", &took);
    let labels: Vec<String> = plan
        .labels
        .iter()
        .map(
            |(name, value)| if value.is_empty() { name.clone() } else { format!("{name}={value}") },
        )
        .collect();
    line(&mut text, paint, "labels", &one_line(&labels.join(" ")));
    let error = plan.planning_error.as_ref().map(|error| paint.bad(&one_line(&error.to_string())));
    line(&mut text, paint, "error", &error.unwrap_or_default());
    let input = plan
        .root()
        .map_or_else(|| value(&plan.created.input), |root| value(&plan.input_seen(root)));
    line(&mut text, paint, "input", &shown(&input));
    let output = plan.root().map_or(Value::Null, |root| value(&root.output));
    line(&mut text, paint, "output", &shown(&output));
    if !plan.steps.is_empty() {
        let rows: Vec<Vec<String>> =
            plan.steps.iter().map(|step| step_row(paint, plan, step)).collect();
        text.push('\n');
        let headings = ["step", "action", "phase", "state", "tries", "ran", "why"];
        text.push_str(&table(paint, &headings, &rows));
    }
    text
}

fn step_row(paint: Paint, plan: &PlanView, step: &Step) -> Vec<String> {
    let action = plan.action(step.action);
    let state = state_of(action, step);
    let error = error_of(action, step).filter(|_| !state.is_done());
    let why = match error.as_ref().or(step.revert_error.as_ref()) {
        Some(error) => paint.bad(&one_line(&error.to_string())),
        None => one_line(&step.waits_for),
    };
    let ran = if step.calls > 0 { span::long(step.execution_time()) } else { String::new() };
    vec![
        step.id.to_string(),
        one_line(&name_of(action)),
        step.kind.name().to_owned(),
        paint.step(state),
        step.attempt.to_string(),
        ran,
        why,
    ]
}

fn step_text(paint: Paint, plan: &PlanView, step: &Step) -> String {
    let mut text = String::new();
    let action = plan.action(step.action);
    let time = |time: Option<Time>| time.map_or_else(String::new, span::shown);
    line(&mut text, paint, "plan", &plan.id.to_string());
    line(
        &mut text,
        paint,
        "step",
        &format!("{}, the {} phase of {}", step.id, step.kind.name(), one_line(&name_of(action))),
    );
    line(&mut text, paint, "state", &paint.step(state_of(action, step)));
    line(&mut text, paint, "waits for", &one_line(&step.waits_for));
    line(&mut text, paint, "queue", &step.queue);
    let tries = format!(
        "attempt {}, {} calls, ran {}",
        step.attempt,
        step.calls,
        span::long(step.execution_time())
    );
    line(&mut text, paint, "tries", &tries);
    line(&mut text, paint, "started", &time(step.started_at));
    line(&mut text, paint, "ended", &time(step.ended_at));
    line(&mut text, paint, "again at", &time(step.retry_at));
    let errors = [("error", &error_of(action, step)), ("taken back", &step.revert_error)];
    for (name, error) in errors {
        let error = error.as_ref().map(|error| paint.bad(&one_line(&error.to_string())));
        line(&mut text, paint, name, &error.unwrap_or_default());
    }
    line(&mut text, paint, "input", &shown(&value(&plan.input_seen(action))));
    line(&mut text, paint, "output", &shown(&value(&action.output)));
    text
}
