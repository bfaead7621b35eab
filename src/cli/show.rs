//! `turnwheel show`: one plan, or one step of it.

use std::fmt::Write as _;
use std::time::Duration;

use clap_complete::engine::ArgValueCompleter;
use serde_json::{json, Value};
use turnwheel::api::{ErrorInfo, PlanDetail, StepInfo};
use turnwheel::engine::{PlanId, PlanResult, PlanState, StepState};

use super::complete;
use super::exit::Exit;
use super::find::PlanRef;
use super::format::{Output, Watch};
use super::paint::{one_line, table, Paint};
use super::settings::Settings;
use super::source::Source;
use super::span;
use super::words::{is_of_flow, of_task, plain, task};

/// The column of the phase of a step; each task of a flow has one phase.
const PHASE: usize = 2;

/// The longest value that is shown in full without --json, in bytes.
const VALUE_SHOWN: usize = 2_000;

const AFTER_HELP: &str = "\
A plan is named by its id, by the last letters of it (at least 4), or as «last», the newest.

Examples:
  turnwheel show last
  turnwheel show 0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f --step 3     input, output, error of a step
  turnwheel show 398f --json | jq .output
  turnwheel show 398f --steps --json               every step, as the API has them
  turnwheel show last --watch                      until it is over

Exit codes: 0 shown; 2 wrong usage; 3 there is no such store, plan or step.";

/// Show a plan: its state, its result, its steps.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The plan.
    #[arg(add = ArgValueCompleter::new(complete::plans))]
    plan: PlanRef,

    /// Show this step with its input and output.
    #[arg(long, value_name = "STEP")]
    step: Option<u32>,

    /// With --json or -o yaml: the steps in place of the plan.
    #[arg(long, conflicts_with = "step")]
    steps: bool,

    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    if arguments.steps && arguments.output.is_for_people() {
        return Err(Exit::usage("--steps is for programs").advice("add --json or -o yaml"));
    }
    let mut source = Source::of(settings)?;
    let id = arguments.plan.find(&mut source)?;
    arguments.output.repeat(|| show(settings, arguments, &mut source, id))
}

fn show(
    settings: &Settings,
    arguments: &Arguments,
    source: &mut Source,
    id: PlanId,
) -> Result<Watch, Exit> {
    let (paint, output) = (Paint::stdout(settings.colour()), &arguments.output);
    let plan = source.plan(id)?;
    let is_over = plan.summary.state == PlanState::Stopped.name();
    let name = id.to_string();
    if let Some(number) = arguments.step {
        let step = source.step(id, number)?;
        output.one(&number.to_string(), &json!(step), || step_text(paint, &name, &step))?;
    } else if arguments.steps {
        output.json(&name, &json!({ "steps": source.steps(id)?, "next": null }))?;
    } else {
        let steps = if output.is_for_people() { source.steps(id)? } else { Vec::new() };
        output.one(&name, &json!(plan), || text(paint, &plan, &steps))?;
    }
    Ok(if is_over { Watch::End } else { Watch::GoOn })
}

/// Labels as they are typed.
pub(crate) fn labels(labels: &std::collections::BTreeMap<String, String>) -> String {
    let label = |(name, value): (&String, &String)| match value.as_str() {
        "" => name.clone(),
        value => format!("{name}={value}"),
    };
    labels.iter().map(label).collect::<Vec<_>>().join(" ")
}

/// An error as people read it.
pub(crate) fn error_text(error: &ErrorInfo) -> String {
    one_line(&plain(&format!("{} ({})", error.message, error.kind)))
}

/// How long code ran, of so many milliseconds.
pub(crate) fn ran(ms: f64) -> String {
    span::long(Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default())
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

fn text(paint: Paint, plan: &PlanDetail, steps: &[StepInfo]) -> String {
    let (mut text, summary) = (String::new(), &plan.summary);
    let time = |time: &Option<String>| time.as_deref().map_or_else(String::new, span::shown);
    let (state, result) = (paint.plan(&summary.state), paint.result(&summary.result));
    line(&mut text, paint, "plan", &summary.id);
    line(&mut text, paint, "name", &paint.bold(&one_line(&summary.label)));
    let is_over = summary.state == PlanState::Stopped.name();
    let has_failed = is_over && summary.result != PlanResult::Success.name();
    let progress = format!(", {:.0} %", plan.progress * 100.0);
    let progress = if has_failed { "" } else { &progress };
    line(&mut text, paint, "state", &format!("{state}, {result}{progress}"));
    let tasks = plan.tasks.iter().map(|(state, tasks)| format!("{tasks} {}", paint.step(state)));
    line(&mut text, paint, "tasks", &tasks.collect::<Vec<_>>().join(", "));
    let waits_for = summary.waits_for.as_deref().unwrap_or_default();
    line(&mut text, paint, "waits for", &one_line(&plain(waits_for)));
    let created = format!("{} by {}", span::shown(&summary.created_at), one_line(&summary.by));
    line(&mut text, paint, "created", &created);
    line(&mut text, paint, "started", &time(&summary.started_at));
    let from = summary.started_at.as_ref().unwrap_or(&summary.created_at);
    let took = summary.ended_at.as_ref().and_then(|to| span::between(from, to));
    let took = took.map(|took| format!("{}, after {}", time(&summary.ended_at), span::long(took)));
    line(&mut text, paint, "ended", &took.unwrap_or_default());
    line(&mut text, paint, "labels", &one_line(&labels(&summary.labels)));
    let planning = plan.planning_error.as_ref().map(error_text);
    let error = planning.or_else(|| summary.error.as_deref().map(|error| one_line(&plain(error))));
    line(&mut text, paint, "error", &paint.bad(&error.unwrap_or_default()));
    line(&mut text, paint, "input", &shown(&plan.input));
    line(&mut text, paint, "output", &shown(&plan.output));
    if !steps.is_empty() {
        text.push('\n');
        text.push_str(&steps_text(paint, steps));
    }
    text
}

/// The steps of a plan; of a flow its tasks, without the steps of the flow itself.
fn steps_text(paint: Paint, steps: &[StepInfo]) -> String {
    let is_flow = steps.iter().any(is_of_flow);
    let shown = steps.iter().filter(|step| !is_of_flow(step));
    let rows = shown.map(|step| {
        let mut row = step_row(paint, step);
        if is_flow {
            row.remove(PHASE);
        }
        row
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let mut headings = vec!["step", "action", "phase", "state", "tries", "ran", "why"];
    if is_flow {
        headings.remove(PHASE);
        headings[1] = "task";
    }
    table(paint, &headings, &rows)
}

fn step_row(paint: Paint, step: &StepInfo) -> Vec<String> {
    let is_done = StepState::from_name(&step.state).is_some_and(StepState::is_done);
    let error = step.error.as_ref().filter(|_| !is_done).or(step.revert_error.as_ref());
    let name = one_line(&task(&step.name));
    let why = match error {
        Some(error) => paint.bad(of_task(&error_text(error), &name)),
        None => one_line(&plain(step.waits_for.as_deref().unwrap_or_default())),
    };
    vec![
        step.id.to_string(),
        name,
        step.phase.clone(),
        paint.step(&step.state),
        step.attempt.to_string(),
        if step.calls > 0 { ran(step.ran_ms) } else { String::new() },
        why,
    ]
}

fn step_text(paint: Paint, plan: &str, step: &StepInfo) -> String {
    let mut text = String::new();
    let time = |time: &Option<String>| time.as_deref().map_or_else(String::new, span::shown);
    line(&mut text, paint, "plan", plan);
    let phase = format!("{}, the {} phase of {}", step.id, step.phase, one_line(&task(&step.name)));
    line(&mut text, paint, "step", &phase);
    line(&mut text, paint, "state", &paint.step(&step.state));
    let waits_for = step.waits_for.as_deref().unwrap_or_default();
    line(&mut text, paint, "waits for", &one_line(&plain(waits_for)));
    line(&mut text, paint, "queue", &step.queue);
    let tries = format!("attempt {}, {} calls, ran {}", step.attempt, step.calls, ran(step.ran_ms));
    line(&mut text, paint, "tries", &tries);
    line(&mut text, paint, "started", &time(&step.started_at));
    line(&mut text, paint, "ended", &time(&step.ended_at));
    line(&mut text, paint, "again at", &time(&step.retry_at));
    for (name, error) in [("error", &step.error), ("taken back", &step.revert_error)] {
        let error = error.as_ref().map(|error| paint.bad(&error_text(error)));
        line(&mut text, paint, name, &error.unwrap_or_default());
    }
    line(&mut text, paint, "input", &shown(&step.input));
    line(&mut text, paint, "output", &shown(&step.output));
    text
}
