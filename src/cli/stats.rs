//! `turnwheel stats`: numbers of plans and their reasons for waiting.

use std::fmt::Write as _;
use std::time::SystemTime;

use serde_json::{json, Map, Value};
use turnwheel::engine::store::{Filter, Order, PlanRow, StoreView};
use turnwheel::engine::{PlanState, Time, Waiting};

use super::exit::Exit;
use super::list;
use super::paint::{one_line, print, print_json, Paint};
use super::place::Place;
use super::settings::Settings;
use super::span;

const AFTER_HELP: &str = "\
Examples:
  turnwheel stats
  turnwheel stats --json | jq .states.paused

Exit codes: 0 shown; 2 wrong usage; 3 there is no such store.";

/// Schedules that are counted at once.
const PAGE: usize = 1_000;

/// Show the number of plans by state, result and reason for waiting.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let place = Place::of(settings);
    let mut view = place.view()?;
    let counts = view.counts()?;
    let (mut states, mut results, mut waits) = (Map::new(), Map::new(), Map::new());
    for group in counts.groups() {
        add(&mut states, group.state.name(), group.plans);
        add(&mut results, group.result.name(), group.plans);
        if group.waits != Waiting::Nothing {
            add(&mut waits, group.waits.name(), group.plans);
        }
    }
    let oldest = oldest(&mut view)?;
    let bytes: u64 = ["", "-wal"]
        .iter()
        .filter_map(|end| std::fs::metadata(format!("{}{end}", place.name())).ok())
        .map(|data| data.len())
        .sum();
    let (schedules, locks) = (schedules(&mut view)?, view.locks()?.len());
    if arguments.json {
        return print_json(&json!({
            "store": place.name(), "bytes": bytes, "plans": counts.total(), "states": states,
            "results": results, "waits": waits, "schedules": schedules, "locks": locks,
            "oldest_open": oldest.as_ref().map(list::json),
        }));
    }
    let paint = Paint::stdout(settings.colour());
    let mut text = String::new();
    let mut line = |name: &str, said: &str| {
        if !said.is_empty() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {said}", paint.dim(&format!("{name:<12}")));
        }
    };
    let listed = |counts: &Map<String, Value>| {
        let parts: Vec<String> =
            counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        parts.join(", ")
    };
    line("store", &format!("{}, {:.1} MiB", place.name(), bytes as f64 / 1_048_576.0));
    line("plans", &counts.total().to_string());
    line("states", &listed(&states));
    line("results", &listed(&results));
    line("waiting for", &listed(&waits));
    line("schedules", &schedules.to_string());
    line("locks", &locks.to_string());
    if let Some(row) = oldest {
        let age = Time::from(SystemTime::now()).since(row.created_at);
        let (name, why) = (one_line(&row.label), one_line(&row.waits_for));
        let state = paint.plan(row.state);
        line("oldest open", &format!("{} {name}, {state} for {} {why}", row.id, span::long(age)));
    }
    print(&text)
}

fn add(counts: &mut Map<String, Value>, name: &str, plans: u64) {
    let before = counts.get(name).and_then(Value::as_u64).unwrap_or(0);
    counts.insert(name.to_owned(), Value::from(before + plans));
}

/// The oldest plan that is not over.
fn oldest(view: &mut StoreView) -> Result<Option<PlanRow>, Exit> {
    let states = vec![
        PlanState::Pending,
        PlanState::Scheduled,
        PlanState::Planning,
        PlanState::Planned,
        PlanState::Running,
        PlanState::Paused,
    ];
    let filter = Filter { states, order: Order::OldestFirst, limit: 1, ..Filter::default() };
    Ok(view.list(&filter)?.pop())
}

fn schedules(view: &mut StoreView) -> Result<usize, Exit> {
    let (mut count, mut after) = (0, String::new());
    loop {
        let page = view.schedules(&after, PAGE)?;
        count += page.len();
        match page.last() {
            Some(last) if page.len() == PAGE => after = last.name.clone(),
            _ => return Ok(count),
        }
    }
}
