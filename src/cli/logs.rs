//! `turnwheel logs`: the history of a plan.

use std::thread;
use std::time::Duration;

use serde_json::json;
use turnwheel::engine::plan::Record;
use turnwheel::engine::PlanState;

use super::exit::Exit;
use super::find::PlanRef;
use super::paint::{one_line, print, Paint};
use super::place::Place;
use super::settings::Settings;

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
    let place = Place::of(settings);
    let mut view = place.view()?;
    let id = arguments.plan.find(&mut view)?;
    let paint = Paint::stdout(settings.colour());
    let mut shown = 0;
    loop {
        let (lines, is_over) = if arguments.records {
            let records = view.records(id)?;
            let lines: Result<Vec<String>, _> = records
                .iter()
                .skip(shown)
                .map(|record: &Record| serde_json::to_string(record))
                .collect();
            let lines =
                lines.map_err(|error| Exit::failed(format!("a record of plan {id}: {error}")))?;
            (lines, view.plan(id)?.state == PlanState::Stopped)
        } else {
            let plan = view.plan(id)?;
            let line = |entry: &turnwheel::engine::plan::Entry| {
                if arguments.json {
                    json!({ "at": entry.at.to_string(), "text": entry.text }).to_string()
                } else {
                    format!("{} {}", paint.dim(&entry.at.to_string()), one_line(&entry.text))
                }
            };
            (plan.history.iter().skip(shown).map(line).collect(), plan.state == PlanState::Stopped)
        };
        shown += lines.len();
        if !lines.is_empty() {
            print(&(lines.join("\n") + "\n"))?;
        }
        if is_over || !arguments.follow {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
}
