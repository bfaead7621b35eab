//! `turnwheel list`: the plans of a store.

use serde_json::{json, Value};
use turnwheel::engine::store::{Order, PlanRow};

use super::exit::Exit;
use super::find::{PlanRef, Which};
use super::paint::{one_line, print, print_json, table, tell, Paint};
use super::place::Place;
use super::settings::Settings;
use super::span;

const AFTER_HELP: &str = "\
What is said is combined: plans that fit all of it are listed. A server that has the store is not
asked: the file shows what is durable.

Examples:
  turnwheel list                                   the newest 100 plans
  turnwheel list --state running,paused            what is not over
  turnwheel list --waits decision --oldest         what waits for somebody, the oldest first
  turnwheel list --result error --since 2h
  turnwheel list --label customer=Ann --limit 10
  turnwheel list --json | jq -r '.plans[].id'
  turnwheel list --after-plan 0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f    the next page

Exit codes: 0 listed, also if there are none; 2 wrong usage; 3 there is no such store.";

/// List plans, the newest first.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    which: Which,

    /// Maximum number of plans.
    #[arg(long, value_name = "COUNT", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,

    /// The oldest first.
    #[arg(long)]
    oldest: bool,

    /// Go on after this plan: the last one of the page before.
    #[arg(long, value_name = "PLAN")]
    after_plan: Option<PlanRef>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let mut view = Place::of(settings).view()?;
    let mut filter = arguments.which.filter_in(&mut view, settings, arguments.limit as usize)?;
    if arguments.oldest {
        filter.order = Order::OldestFirst;
    }
    if let Some(last) = &arguments.after_plan {
        let last = last.find(&mut view)?;
        filter = filter.next_page(last);
    }
    let rows = view.list(&filter)?;
    if arguments.json {
        let plans: Vec<Value> = rows.iter().map(json).collect();
        let next = (rows.len() == filter.limit).then(|| rows.last().map(|row| row.id.to_string()));
        return print_json(&json!({ "plans": plans, "next": next.flatten() }));
    }
    if rows.is_empty() {
        let is_all = arguments.which.is_all() && arguments.after_plan.is_none();
        tell!("{}", if is_all { "the store has no plans" } else { "no plans fit" });
        return Ok(());
    }
    let paint = Paint::stdout(settings.colour());
    let lines: Vec<Vec<String>> = rows.iter().map(|row| line(paint, row)).collect();
    let headings = ["plan", "state", "result", "created", "name", "waits for"];
    print(&table(paint, &headings, &lines))?;
    if rows.len() == filter.limit {
        if let Some(last) = rows.last() {
            tell!("there may be more: --after-plan {}", last.id);
        }
    }
    Ok(())
}

fn line(paint: Paint, row: &PlanRow) -> Vec<String> {
    vec![
        row.id.to_string(),
        paint.plan(row.state),
        paint.result(row.result),
        span::shown(row.created_at),
        one_line(&row.label),
        one_line(&row.waits_for),
    ]
}

/// A plan of a list, in the shape of the HTTP API.
pub(crate) fn json(row: &PlanRow) -> Value {
    json!({
        "id": row.id.to_string(),
        "label": row.label,
        "action": row.action,
        "labels": row.labels,
        "by": row.by,
        "state": row.state.name(),
        "result": row.result.name(),
        "created_at": row.created_at.to_string(),
        "started_at": row.started_at.map(|at| at.to_string()),
        "ended_at": row.ended_at.map(|at| at.to_string()),
        "wakes_at": row.wakes_at.map(|at| at.to_string()),
        "waits": row.waits.name(),
        "waits_for": row.waits_for,
        "caller": row.caller.map(|(plan, step)| json!({ "plan": plan.to_string(), "step": step.0 })),
    })
}
