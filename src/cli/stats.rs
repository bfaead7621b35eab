//! `turnwheel stats`: numbers of plans and their reasons for waiting.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use serde_json::{json, Map, Value};
use turnwheel::api::{CountInfo, EndedPlans, PlanSummary};
use turnwheel::engine::store::{Filter, Order};
use turnwheel::engine::{PlanState, Time, Waiting};
use turnwheel::shape;

use super::exit::Exit;
use super::format::{Output, Watch};
use super::paint::{one_line, Paint};
use super::place::Place;
use super::settings::Settings;
use super::source::Source;
use super::span;

const AFTER_HELP: &str = "\
Examples:
  turnwheel stats
  turnwheel stats --json | jq .states.paused
  turnwheel stats --watch

Exit codes: 0 shown; 2 wrong usage; 3 there is no such store.";

/// Show the number of plans by state, result and reason for waiting.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: Output,
}

/// Counts, of a store or a server.
struct Found {
    name: String,
    bytes: Option<u64>,
    counts: Vec<CountInfo>,
    locks: u64,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let mut source = Source::of(settings)?;
    let output = &arguments.output;
    output.repeat(|| show(settings, output, &mut source).map(|()| Watch::GoOn))
}

fn show(settings: &Settings, output: &Output, source: &mut Source) -> Result<(), Exit> {
    let found = found(settings, source)?;
    let (mut states, mut results, mut waits) = (Map::new(), Map::new(), Map::new());
    for group in &found.counts {
        add(&mut states, &group.state, group.plans);
        add(&mut results, &group.result, group.plans);
        if group.waits != Waiting::Nothing.name() {
            add(&mut waits, &group.waits, group.plans);
        }
    }
    let total: u64 = found.counts.iter().map(|group| group.plans).sum();
    let (hour, day) = (source.ended(1)?, source.ended(24)?);
    let (oldest, schedules) = (oldest(source)?, source.schedules()?.len());
    let value = json!({
        "store": found.name, "bytes": found.bytes, "plans": total, "states": states,
        "results": results, "waits": waits, "schedules": schedules, "locks": found.locks,
        "oldest_open": oldest, "last_hour": hour, "last_day": day,
    });
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
    let size = found.bytes.map(|bytes| format!(", {:.1} MiB", bytes as f64 / 1_048_576.0));
    line("store", &format!("{}{}", found.name, size.unwrap_or_default()));
    line("plans", &total.to_string());
    line("states", &listed(&states));
    line("results", &listed(&results));
    line("waiting for", &listed(&waits));
    line("last hour", &lately(&hour));
    line("last day", &lately(&day));
    line("schedules", &schedules.to_string());
    line("locks", &found.locks.to_string());
    if let Some(row) = oldest {
        let now = Time::from(SystemTime::now()).to_string();
        let age = span::between(&row.created_at, &now).unwrap_or_default();
        let name = one_line(&row.label);
        let why = one_line(row.waits_for.as_deref().unwrap_or_default());
        let state = paint.plan(&row.state);
        line("oldest open", &format!("{} {name}, {state} for {} {why}", row.id, span::long(age)));
    }
    output.one(&found.name, &value, || text)
}

/// What ended: «12, 1 of them failed; half took 40 ms at most, 99 of 100 2 s».
fn lately(plans: &EndedPlans) -> String {
    let mut text = format!("{} ended", plans.ended);
    if plans.ended > 0 {
        let _ = write!(text, ", {} failed", plans.failed);
    }
    let shown = |ms: f64| span::long(Duration::from_secs_f64(ms / 1_000.0));
    if let (Some(half), Some(most)) = (plans.p50_ms, plans.p99_ms) {
        let _ = write!(text, "; half within {}, 99 of 100 within {}", shown(half), shown(most));
    }
    text
}

fn found(settings: &Settings, source: &mut Source) -> Result<Found, Exit> {
    match source {
        Source::Server(server) => {
            let stats = server.ask(turnwheel::client::Client::stats)?;
            let name = server.address().to_owned();
            Ok(Found { name, bytes: None, counts: stats.plans, locks: stats.locks })
        }
        Source::Store(view, _) => {
            let name = Place::of(settings).name();
            let files = ["", "-wal"].map(|end| std::fs::metadata(format!("{name}{end}")));
            let bytes = files.iter().flatten().map(std::fs::Metadata::len).sum();
            let counts = view.counts()?.groups().iter().map(shape::count).collect();
            let locks = view.locks()?.len() as u64;
            Ok(Found { name, bytes: Some(bytes), counts, locks })
        }
    }
}

fn add(counts: &mut Map<String, Value>, name: &str, plans: u64) {
    let before = counts.get(name).and_then(Value::as_u64).unwrap_or(0);
    counts.insert(name.to_owned(), Value::from(before + plans));
}

/// The oldest plan that is not over.
fn oldest(source: &mut Source) -> Result<Option<PlanSummary>, Exit> {
    let states = vec![
        PlanState::Pending,
        PlanState::Scheduled,
        PlanState::Planning,
        PlanState::Planned,
        PlanState::Running,
        PlanState::Paused,
    ];
    let filter = Filter { states, order: Order::OldestFirst, limit: 1, ..Filter::default() };
    Ok(source.list(&filter)?.pop())
}
