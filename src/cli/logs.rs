//! `turnwheel logs`: the history of a plan.

use std::thread;
use std::time::Duration;

use serde_json::json;
use turnwheel::api::HistoryLine;
use turnwheel::engine::plan::Record;
use turnwheel::engine::{PlanId, PlanState};

use super::exit::Exit;
use super::find::PlanRef;
use super::paint::{one_line, print, Paint};
use super::settings::Settings;
use super::source::Source;

/// Interval of looks at a followed plan.
const LOOK: Duration = Duration::from_millis(300);

const AFTER_HELP: &str = "\
The history is for people: who or what did what, and why. The records are all that the journal has.

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
    let (mut records, mut last) = (0, None);
    loop {
        let (lines, is_over) = if arguments.records {
            let found = new_records(&mut source, id, records)?;
            records += found.0.len();
            found
        } else {
            let (lines, is_over) = source.history(id)?;
            let after = last.as_ref().and_then(|last| lines.iter().rposition(|line| line == last));
            let new = &lines[after.map_or(0, |after| after + 1)..];
            let shown = new.iter().map(|line| shown(paint, line, arguments.json)).collect();
            last = lines.last().cloned();
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

fn shown(paint: Paint, line: &HistoryLine, is_json: bool) -> String {
    if is_json {
        return json!(line).to_string();
    }
    format!("{} {}", paint.dim(&line.at), one_line(&line.text))
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
