//! `turnwheel delete`: plans that are over are removed from the store.

use std::collections::HashMap;

use serde_json::json;
use turnwheel::engine::store::Filter;
use turnwheel::engine::{BulkOrder, BulkOutcome, PlanId, PlanState, World};

use super::exit::Exit;
use super::orders::{ended, report, Outcome, Target};
use super::place::{Hands, Place};
use super::remote::Remote;
use super::settings::Settings;
use super::source::Source;

/// Plans that are removed at once: a server takes no more in one order.
const AT_ONCE: usize = 1_000;

pub(crate) const AFTER_HELP: &str = "\
What is removed is gone, with its steps and its history: turnwheel export keeps a copy. Only plans that are
over are taken, and none that another plan still waits for. The file does not shrink; its room is used again.

Examples:
  turnwheel delete --ended-until 30d --dry-run
  turnwheel delete --ended-until 30d --limit 100000
  turnwheel export --state stopped --ended-until 30d --output old.jsonl &&
      turnwheel delete --ended-until 30d --limit 100000

Exit codes: 0 all plans that fit are removed; 1 one of them was left; 2 wrong usage; 3 there is no such
store or plan; 4 another process has the store and does not serve it.";

/// Remove plans that are over, with all that happened to them.
#[derive(Debug, clap::Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    target: Target,
}

pub(crate) fn delete(settings: &Settings, arguments: &Delete) -> Result<(), Exit> {
    let target = &arguments.target;
    let place = Place::of(settings);
    let mut plans =
        target.plans(settings, &mut Source::of(settings)?, |state| state == PlanState::Stopped)?;
    if target.dry_run || plans.is_empty() {
        return report(settings, target, "delete", &plans, target.dry_run);
    }
    target.agree("delete", &plans)?;
    let hands = place.hands(settings)?;
    for part in plans.chunks_mut(AT_ONCE) {
        let ids: Vec<PlanId> = part.iter().map(|outcome| outcome.plan).collect();
        let mut problems = match &hands {
            Hands::Own(world) => remove_here(world, &ids, &settings.by())?,
            Hands::Server(server) => remove_there(server, &ids)?,
        };
        for outcome in part {
            outcome.problem = problems.remove(&outcome.plan).map(|why| left(outcome, &why));
        }
    }
    if let Hands::Own(world) = &hands {
        world.shutdown()?;
    }
    report(settings, target, "delete", &plans, false)?;
    ended(&plans)
}

fn left(outcome: &Outcome, why: &str) -> Exit {
    Exit::failed(format!("plan {} is left: {why}", outcome.plan))
}

/// Removes them in this process; returns the plans that are left, with the reasons.
fn remove_here(world: &World, plans: &[PlanId], by: &str) -> Result<HashMap<PlanId, String>, Exit> {
    let bulk = world.bulk(Filter::default()).only(plans);
    let report = bulk.run(BulkOrder::Delete, by).wait()?;
    let left = report.plans.into_iter().filter_map(|plan| match plan.outcome {
        BulkOutcome::Left { why } => Some((plan.plan, why)),
        BulkOutcome::Failed(error) => Some((plan.plan, error.to_string())),
        _ => None,
    });
    Ok(left.collect())
}

/// Removes them through the server; returns the plans that are left, with the reasons.
fn remove_there(server: &Remote, plans: &[PlanId]) -> Result<HashMap<PlanId, String>, Exit> {
    let ids: Vec<String> = plans.iter().map(ToString::to_string).collect();
    let order = json!({ "order": "delete", "filter": {}, "plans": ids, "limit": AT_ONCE });
    let answer = server.send("POST", "/orders", Some(&order))?;
    let plans = answer["plans"].as_array().into_iter().flatten();
    let left = plans.filter(|plan| plan["outcome"] != "done").filter_map(|plan| {
        let id = plan["plan"].as_str()?.parse().ok()?;
        let why = plan["why"].as_str().or(plan["outcome"].as_str());
        Some((id, why.unwrap_or_default().to_owned()))
    });
    Ok(left.collect())
}
