//! `turnwheel list`: the plans of a store.

use serde_json::json;
use turnwheel::api::PlanSummary;
use turnwheel::engine::store::Order;

use super::exit::{Exit, NOTHING};
use super::find::{PlanRef, Which};
use super::format::{Listing, Output, Watch};
use super::paint::{one_line, tell, Paint};
use super::settings::Settings;
use super::show::labels;
use super::source::Source;
use super::span;
use super::words::plain;

const AFTER_HELP: &str = "\
What is said is combined: plans that fit all of it are listed. Without --server the file of the store
is read, also while a server has it.

Examples:
  turnwheel list                                   the newest 100 plans
  turnwheel list guide/hello                       whose name, reason to wait or error has this part
  turnwheel list 'connection refused' --since 2h
  turnwheel list --state running,paused            what is not over
  turnwheel list --waits decision --oldest         what waits for somebody, the oldest first
  turnwheel list --result error --since 2h
  turnwheel list --label customer=Ann --limit 10
  turnwheel list --json | jq -r '.plans[].id'
  turnwheel list --state running --watch           again every second
  turnwheel list --result error -o name            ids alone
  turnwheel list --after-plan 0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f    the next page

Exit codes: 0 listed; 2 wrong usage; 3 there is no such store; 5 no plan fits what was said.";

/// List plans, the newest first.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Plans whose name, reason to wait or error has this part; as --text.
    #[arg(conflicts_with = "text")]
    part: Option<String>,

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

    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    arguments.output.repeat(|| show(settings, arguments).map(|()| Watch::GoOn))
}

fn show(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let mut source = Source::of(settings)?;
    let which = arguments.which.with_text(arguments.part.as_deref());
    let mut filter = which.filter_in(&mut source, settings, arguments.limit as usize)?;
    if arguments.oldest {
        filter.order = Order::OldestFirst;
    }
    if let Some(last) = &arguments.after_plan {
        let last = last.find(&mut source)?;
        filter = filter.next_page(last);
    }
    let rows = source.list_of(&filter, which.node())?;
    let is_all = which.is_all() && arguments.after_plan.is_none();
    let is_full = rows.len() == filter.limit;
    let next = rows.last().filter(|_| is_full).map(|row| row.id.clone());
    let paint = Paint::stdout(settings.colour());
    let listing = Listing {
        value: json!({ "plans": rows, "next": next }),
        headings: &["plan", "state", "result", "created", "name", "why", "ended", "by", "labels"],
        wide: 3,
        rows: rows.iter().map(|row| line(paint, row)).collect(),
        nothing: if is_all { "the store has no plans" } else { "no plans fit" },
    };
    arguments.output.list(settings.colour(), listing)?;
    if rows.is_empty() && !is_all {
        return Err(Exit::new(NOTHING, ""));
    }
    if let Some(last) = next.filter(|_| arguments.output.is_for_people()) {
        tell!("there may be more: --after-plan {last}");
    }
    Ok(())
}

fn line(paint: Paint, row: &PlanSummary) -> Vec<String> {
    let why = match (&row.error, &row.waits_for) {
        (Some(error), _) => paint.bad(&one_line(&plain(error))),
        (None, waits_for) => one_line(&plain(waits_for.as_deref().unwrap_or_default())),
    };
    vec![
        row.id.clone(),
        paint.plan(&row.state),
        paint.result(&row.result),
        span::shown(&row.created_at),
        one_line(&row.label),
        why,
        row.ended_at.as_deref().map_or_else(String::new, span::shown),
        one_line(&row.by),
        one_line(&labels(&row.labels)),
    ]
}
