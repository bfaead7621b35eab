//! `turnwheel start`: a plan of an action that a server has.

use std::time::Duration;

use clap_complete::engine::ArgValueCompleter;
use turnwheel::api;
use turnwheel::engine::Time;

use super::complete;
use super::event::read_json;
use super::exit::Exit;
use super::find::PlanRef;
use super::paint::print;
use super::place::Place;
use super::run::label;
use super::settings::Settings;
use super::source::Source;
use super::span;

const AFTER_HELP: &str = "\
The action is one of the program that serves; flows are started by turnwheel flow start, and from a file
by turnwheel run. Prints the plan, as soon as it is durable.

Examples:
  turnwheel start external --input '{\"topic\": \"mail\", \"input\": {\"to\": \"ann\"}}'
  turnwheel start report --at 2026-12-01T08:00:00Z --label customer=Ann
  turnwheel start settle --after last --key settle-2026-11

Exit codes: 0 it is durable; 1 it was refused; 2 wrong usage; 3 there is no such store or plan.";

/// Start a plan of an action, now or later.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The action.
    action: String,

    /// Its input: JSON, @FILE to read a file, - for standard input.
    #[arg(long, short, value_name = "JSON", default_value = "null")]
    input: String,

    /// An idempotency key: a second start with it answers the plan of the first one.
    #[arg(long)]
    key: Option<String>,

    /// A label of the plan, to find it by.
    #[arg(long, value_name = "NAME[=VALUE]")]
    label: Vec<String>,

    /// Do not begin before this time (RFC 3339).
    #[arg(long, value_name = "TIME", value_parser = span::moment)]
    at: Option<Time>,

    /// Do not begin before this plan is over; may be given several times.
    #[arg(long, value_name = "PLAN", add = ArgValueCompleter::new(complete::plans))]
    after: Vec<PlanRef>,

    /// Do not begin before turnwheel delay allows it.
    #[arg(long)]
    frozen: bool,

    /// Priority of its steps in queues: higher ones first.
    #[arg(long, allow_negative_numbers = true)]
    priority: Option<i32>,

    /// Cancel it after so long: 90s, 15m.
    #[arg(long, value_name = "LENGTH", value_parser = span::duration)]
    deadline: Option<Duration>,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let after: Result<Vec<String>, Exit> = match arguments.after.is_empty() {
        true => Ok(Vec::new()),
        false => {
            let mut source = Source::of(settings)?;
            let id = |plan: &PlanRef| plan.find(&mut source).map(|id| id.to_string());
            arguments.after.iter().map(id).collect()
        }
    };
    let ms = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let start = api::Start {
        action: arguments.action.clone(),
        input: read_json(&arguments.input)?,
        labels: arguments.label.iter().map(|text| label(text)).collect(),
        priority: arguments.priority,
        deadline_ms: arguments.deadline.map(ms),
        start_at: arguments.at.map(|time| time.to_string()),
        after: after?,
        is_frozen: arguments.frozen,
        ..api::Start::default()
    };
    let without = "actions are those of the program that serves the store, and none does";
    let server = Place::of(settings).server_of(settings, without)?;
    let started = server.ask(|client| client.start_with(&start, arguments.key.as_deref()))?;
    print(&format!("{}\n", started.id))
}
