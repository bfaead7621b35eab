//! `turnwheel check`: problems of flows, before they run.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::{json, Value};
use turnwheel::engine::store::{Filter, PlanRow};
use turnwheel::engine::PlanState;
use turnwheel::flow::{self, Flow, Problems};

use super::exit::{Exit, FAILED};
use super::outside::host_io;
use super::paint::{count, print, print_json, tell, Paint};
use super::place::Place;
use super::settings::Settings;

/// The longest text that is read as a flow, in bytes.
const FLOW_BYTES_MAX: u64 = 4 * 1_024 * 1_024;

const AFTER_HELP: &str = "\
Flows are written in the Serverless Workflow DSL 1.0, as YAML or JSON. All that is wrong is told with
line, column and a suggestion; what is right and not supported here is told by name, and so is what this
host lacks to run them: an interpreter for scripts, an engine for containers.

Examples:
  turnwheel check examples/flows/audit.yaml
  turnwheel check flows/*.yaml --json
  turnwheel check audit.yaml --for-another-host what this host lacks is no matter
  turnwheel check audit.yaml --against-live     which plans of the store run other versions of it

Exit codes: 0 all is right; 1 something is wrong; 2 wrong usage, or a file that cannot be read.";

/// Check flows and report problems.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The files; - for standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Tell which plans of the store that are not over run this flow, and in which versions.
    #[arg(long)]
    against_live: bool,

    /// Skip the check whether this host has the programs that the flows need.
    #[arg(long)]
    for_another_host: bool,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Reads a file with flows, or standard input if it is named «-».
pub(crate) fn text_of(file: &Path) -> Result<String, Exit> {
    let wrong = |problem: &dyn std::fmt::Display| {
        Exit::usage(format!("the flow {}: {problem}", file.display()))
            .advice("name a file with a flow of the Serverless Workflow DSL, YAML or JSON")
    };
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(fs::File::open(file).map_err(|error| wrong(&error))?)
    };
    let mut text = String::new();
    source.take(FLOW_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| wrong(&error))?;
    if text.len() as u64 > FLOW_BYTES_MAX {
        return Err(wrong(&format!("it has more than {FLOW_BYTES_MAX} bytes, which is the limit")));
    }
    Ok(text)
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let mut right = Vec::new();
    let mut wrong: Vec<Problems> = Vec::new();
    let mut unread: Vec<Exit> = Vec::new();
    for file in &arguments.files {
        let text = match text_of(file) {
            Ok(text) => text,
            Err(problem) => {
                unread.push(problem);
                continue;
            }
        };
        match flow::load_all(&text, &file.display().to_string()) {
            Ok(flows) => right.extend(flows.into_iter().map(|flow| (file.clone(), flow))),
            Err(problems) => wrong.push(problems),
        }
    }
    if !arguments.for_another_host {
        let io = host_io(settings);
        right.retain(|(file, flow): &(PathBuf, Flow)| {
            let path = file.display().to_string();
            let unmet = match flow.resolved(&io, &path) {
                Ok(whole) => whole.unmet(&io, &path),
                Err(problems) => Some(problems),
            };
            let is_met = unmet.is_none();
            wrong.extend(unmet.map(|mut unmet| {
                for problem in &mut unmet.all {
                    let hint = "if the flow is for another host, say --for-another-host";
                    problem.suggestion = Some(hint.to_owned());
                }
                unmet
            }));
            is_met
        });
    }
    let live = if arguments.against_live { live(settings, &right)? } else { Vec::new() };
    if arguments.json {
        print_json(&json_of(&right, &wrong, &live))?;
    } else {
        let paint = Paint::stdout(settings.colour());
        for problems in &wrong {
            tell!("{problems}");
        }
        for (file, flow) in &right {
            let tasks = count(flow.tasks().count(), "task");
            let said = paint.good("is right");
            print(&format!("{}: {} {said}, {tasks}\n", file.display(), flow.id()))?;
        }
        for (flow, row) in &live {
            let version = version(row);
            let same = if version == flow.version() { "this version" } else { version };
            print(&format!(
                "{} {} runs {same} of {}\n",
                row.id,
                paint.plan(row.state.name()),
                flow.name()
            ))?;
        }
        if arguments.against_live {
            let plans = count(live.len(), "plan");
            tell!("under way, each in the version that it began with: {plans}");
        }
    }
    ended(unread, wrong.is_empty())
}

/// How the command ends. Files that cannot be read do not keep the others from being checked.
fn ended(mut unread: Vec<Exit>, is_right: bool) -> Result<(), Exit> {
    match unread.pop() {
        Some(last) => {
            for problem in unread {
                // The last one says how the command ends.
                let _code = problem.report();
            }
            Err(last)
        }
        None if is_right => Ok(()),
        None => Err(Exit::new(FAILED, "")),
    }
}

fn version(row: &PlanRow) -> &str {
    row.labels.get("flow.version").map_or("an unknown version", String::as_str)
}

/// Plans of these flows that are not over.
fn live<'a>(
    settings: &Settings,
    flows: &'a [(PathBuf, Flow)],
) -> Result<Vec<(&'a Flow, PlanRow)>, Exit> {
    let mut view = Place::of(settings).view()?;
    let states = [PlanState::Scheduled, PlanState::Planned, PlanState::Running, PlanState::Paused];
    let mut live = Vec::new();
    for (_, flow) in flows {
        let label = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        let labels =
            vec![label("flow.namespace", flow.namespace()), label("flow.name", flow.name())];
        let filter = Filter { states: states.to_vec(), labels, limit: 10_000, ..Filter::default() };
        live.extend(view.list(&filter)?.into_iter().map(|row| (flow, row)));
    }
    Ok(live)
}

fn json_of(right: &[(PathBuf, Flow)], wrong: &[Problems], live: &[(&Flow, PlanRow)]) -> Value {
    let flows: Vec<Value> = right
        .iter()
        .map(|(file, flow)| {
            json!({
                "file": file.display().to_string(), "id": flow.id(), "hash": flow.hash(),
                "title": flow.title(), "secrets": flow.secrets(), "tasks": flow.tasks().count(),
            })
        })
        .collect();
    let problems: Vec<Value> = wrong
        .iter()
        .flat_map(|problems| problems.all.iter().map(move |problem| (&problems.path, problem)))
        .map(|(path, problem)| {
            json!({
                "file": path, "line": problem.line, "column": problem.column,
                "message": problem.message, "suggestion": problem.suggestion,
            })
        })
        .collect();
    let live: Vec<Value> = live
        .iter()
        .map(|(flow, row)| {
            let is_same = version(row) == flow.version();
            json!({
                "plan": row.id.to_string(), "flow": flow.id(), "version": version(row),
                "state": row.state.name(), "is_this_version": is_same,
            })
        })
        .collect();
    json!({ "flows": flows, "problems": problems, "live": live })
}
