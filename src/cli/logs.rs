//! `turnwheel logs`: the history of a plan.

use std::collections::{HashMap, HashSet};
use std::thread;
use std::time::Duration;

use clap_complete::engine::ArgValueCompleter;
use serde_json::json;
use turnwheel::api::{ErrorInfo, HistoryLine, StepInfo};
use turnwheel::engine::plan::Record;
use turnwheel::engine::{PlanId, PlanState, StepKind, StepState, Time};

use super::complete;
use super::exit::Exit;
use super::find::PlanRef;
use super::paint::{one_line, print, Paint};
use super::settings::Settings;
use super::show::{error_text, ran};
use super::source::Source;
use super::words::{is_of_flow, of_task, plain, task};

/// Interval of looks at a followed plan.
const LOOK: Duration = Duration::from_millis(300);

/// The reason of the end of a flow, in place of the engine's «a step has failed».
const TASK_FAILED: &str = "a task has failed";

const AFTER_HELP: &str = "\
The history is for people: who or what did what, and why, and how each step has ended. The records are all that the journal has.

Examples:
  turnwheel logs last
  turnwheel logs last --follow               until the plan is over, or Ctrl-C
  turnwheel logs 398f --json                 one JSON object a line
  turnwheel logs 398f --records              every record, one JSON object a line

Exit codes: 0 shown; 2 wrong usage; 3 there is no such store or plan.";

/// Show the history of a plan.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The plan.
    #[arg(add = ArgValueCompleter::new(complete::plans))]
    plan: PlanRef,

    /// Go on until the plan is over.
    #[arg(long, short)]
    follow: bool,

    /// Show every record of the journal, one JSON object a line.
    #[arg(long, conflicts_with = "json")]
    records: bool,

    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let mut source = Source::of(settings)?;
    let id = arguments.plan.find(&mut source)?;
    let paint = Paint::stdout(settings.colour());
    let (mut records, mut seen) = (0, HashSet::new());
    loop {
        let (lines, is_over) = if arguments.records {
            let found = new_records(&mut source, id, records)?;
            records += found.0.len();
            found
        } else {
            let (mut lines, is_over) = source.history(id)?;
            if !arguments.json {
                lines = with_steps(lines, &source.steps(id)?);
            }
            lines.retain(|line| seen.insert((line.at.clone(), line.text.clone())));
            let shown = lines.iter().map(|line| shown(paint, line, arguments.json)).collect();
            (shown, is_over)
        };
        if !lines.is_empty() {
            print(&(lines.join("\n") + "\n"))?;
        }
        if is_over || !arguments.follow {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
}

/// The history with the names of its steps, and a line for the end of each of them.
fn with_steps(history: Vec<HistoryLine>, steps: &[StepInfo]) -> Vec<HistoryLine> {
    let names: HashMap<String, String> =
        steps.iter().map(|step| (step.id.to_string(), task(&step.name))).collect();
    let is_flow = steps.iter().any(is_of_flow);
    let named = |line: HistoryLine| {
        let text = named(&line.text, &names);
        let text = if is_flow { text.replace("a step has failed", TASK_FAILED) } else { text };
        HistoryLine { text, ..line }
    };
    let mut lines: Vec<HistoryLine> = Vec::with_capacity(history.len() + steps.len());
    for step in steps.iter().filter(|step| step.phase != StepKind::Plan.name()) {
        let Some(at) = &step.ended_at else { continue };
        if let Some(text) = end_of(step, steps) {
            lines.push(HistoryLine { at: at.clone(), text });
        }
    }
    // At the same time the end of a step comes before what follows from it.
    let told = history.into_iter().filter(|line| !is_flow || !is_inner(&line.text));
    lines.extend(told.map(named));
    lines.sort_by_key(|line| line.at.parse::<Time>().unwrap_or_default());
    lines
}

/// The line for the end of a step; none for a flow that ends with the error of its task.
fn end_of(step: &StepInfo, steps: &[StepInfo]) -> Option<String> {
    let name = task(&step.name);
    let failed = step.error.as_ref().filter(|_| step.state == StepState::Error.name());
    match failed {
        None if is_of_flow(step) => None,
        None => Some(format!("{name}: {}, ran {}", step.state, ran(step.ran_ms))),
        Some(error) if is_of_flow(step) => {
            let is_same = |other: &ErrorInfo| other.message == error.message;
            let mut others = steps.iter().filter(|other| other.id != step.id);
            let is_known = others.any(|other| other.error.as_ref().is_some_and(is_same));
            (!is_known).then(|| format!("the flow failed: {}", error_text(error)))
        }
        Some(error) => {
            let text = error_text(error);
            Some(format!("{name} failed: {}", of_task(&text, &name)))
        }
    }
}

/// Whether a line of a flow's history tells of the engine's steps behind its tasks.
fn is_inner(text: &str) -> bool {
    let asks = text.starts_with("step ") && text.contains(" asks for ");
    let is_for_steps = text.ends_with(" step") || text.ends_with(" steps");
    (asks && is_for_steps) || text.starts_with("fail after the failure of step ")
}

/// A text in which `step N` has the name of the step too.
fn named(text: &str, names: &HashMap<String, String>) -> String {
    let (mut words, mut is_step) = (Vec::new(), false);
    for word in text.split(' ') {
        let number: String = word.chars().take_while(char::is_ascii_digit).collect();
        match names.get(&number) {
            Some(name) if is_step => {
                words.push(format!("{number} ({name}){}", &word[number.len()..]));
            }
            _ => words.push(word.to_owned()),
        }
        is_step = word == "step";
    }
    words.join(" ")
}

fn shown(paint: Paint, line: &HistoryLine, is_json: bool) -> String {
    if is_json {
        return json!(line).to_string();
    }
    format!("{} {}", paint.dim(&line.at), one_line(&plain(&line.text)))
}

/// The records of the journal behind the first ones, and whether the plan is over.
fn new_records(source: &mut Source, id: PlanId, first: usize) -> Result<(Vec<String>, bool), Exit> {
    let view = source.store()?;
    let records = view.records(id)?;
    let line = |record: &Record| serde_json::to_string(record);
    let lines: Result<Vec<String>, _> = records.iter().skip(first).map(line).collect();
    let lines = lines.map_err(|error| Exit::failed(format!("a record of plan {id}: {error}")))?;
    Ok((lines, view.plan(id)?.state == PlanState::Stopped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_steps_have_their_names() {
        let names = HashMap::from(
            [("2", "send"), ("12", "pay")].map(|(id, name)| (id.to_owned(), name.to_owned())),
        );
        assert_eq!(named("step 2 asks for 1 step", &names), "step 2 (send) asks for 1 step");
        assert_eq!(
            named("fail after step 12, by policy", &names),
            "fail after step 12 (pay), by policy"
        );
        assert_eq!(named("step 3 has 2 parts", &names), "step 3 has 2 parts");
    }
}
