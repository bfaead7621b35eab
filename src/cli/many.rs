//! The same order for all matching plans: here or by the server, a part at a time.
//!
//! The order is durable plan by plan, and noted in their histories: repeat an interrupted command,
//! and it finds the remaining plans.

use std::io::{IsTerminal, Write};
use std::num::NonZeroUsize;

use serde_json::{json, Value};
use turnwheel::engine::store::Order;
use turnwheel::engine::{BulkOrder, BulkOutcome, BulkProgress, BulkReport, PlanId, World};

use super::exit::Exit;
use super::find::Which;
use super::orders::Outcome;
use super::paint::tell;
use super::place::{Hands, Place};
use super::remote::Remote;
use super::settings::Settings;

/// Plans in one request to a server, which answers when all of them are done.
const AT_ONCE: usize = 500;

/// Gives the order to the oldest matching plans, up to the limit; skips plans for which the order
/// does nothing.
pub(super) fn give(
    settings: &Settings,
    which: &Which,
    limit: usize,
    order: BulkOrder,
) -> Result<Vec<Outcome>, Exit> {
    let progress = Progress::new();
    let (outcomes, has_more) = match Place::of(settings).hands(settings)? {
        Hands::Own(world) => {
            let done = here(&world, which, limit, order, &settings.by());
            world.shutdown()?;
            done?
        }
        Hands::Server(server) => there(&server, which, limit, order, &progress)?,
    };
    progress.clear();
    if has_more {
        tell!("more than {limit} plans fit: give the order again, or raise --limit");
    }
    Ok(outcomes)
}

fn here(
    world: &World,
    which: &Which,
    limit: usize,
    order: BulkOrder,
    by: &str,
) -> Result<(Vec<Outcome>, bool), Exit> {
    which.refuse_node()?;
    let mut filter = which.filter(limit);
    filter.order = Order::OldestFirst;
    let progress = Progress::new();
    let limit = NonZeroUsize::new(limit).unwrap_or(NonZeroUsize::MIN);
    let bulk = world.bulk(filter).plans_max(limit);
    let bulk = bulk.on_progress(move |BulkProgress { done, total }| progress.show(done, total));
    let BulkReport { plans, has_more, .. } = bulk.run(order, by).wait()?;
    let outcome = |plan: turnwheel::engine::BulkPlan| {
        let problem = match plan.outcome {
            BulkOutcome::Left { .. } | BulkOutcome::Would => return None,
            BulkOutcome::Failed(error) => Some(Exit::from(error)),
            _ => None,
        };
        Some(Outcome { plan: plan.plan, name: plan.label, problem })
    };
    Ok((plans.into_iter().filter_map(outcome).collect(), has_more))
}

fn there(
    server: &Remote,
    which: &Which,
    limit: usize,
    order: BulkOrder,
    progress: &Progress,
) -> Result<(Vec<Outcome>, bool), Exit> {
    let order = match order {
        BulkOrder::Cancel => "cancel",
        BulkOrder::CancelNow => "cancel_now",
        BulkOrder::Halt => "terminate",
        BulkOrder::Pause => "pause",
        BulkOrder::Skip => "skip_failed",
        BulkOrder::Retry => "retry_failed",
        BulkOrder::Delete => "delete",
        _ => "resume",
    };
    let (mut outcomes, mut seen, mut after) = (Vec::new(), 0, Value::Null);
    loop {
        let body = json!({
            "filter": which.json(), "order": order, "limit": (limit - seen).min(AT_ONCE),
            "oldest_first": true, "after": after,
        });
        let done = server.send("POST", "/orders", Some(&body))?;
        let plans = done["plans"].as_array().map(Vec::as_slice).unwrap_or_default();
        outcomes.extend(plans.iter().filter_map(outcome));
        seen += plans.len();
        after = done["next"].clone();
        // A part without plans is no end: those of a node may come behind it.
        if after.is_null() {
            return Ok((outcomes, false));
        }
        if seen >= limit {
            return Ok((outcomes, true));
        }
        progress.show(seen, limit);
    }
}

/// The server's outcome for a plan; `None` if it was left unchanged.
fn outcome(plan: &Value) -> Option<Outcome> {
    let id: PlanId = plan["plan"].as_str()?.parse().ok()?;
    let name = plan["label"].as_str().unwrap_or_default().to_owned();
    let problem = match plan["outcome"].as_str()? {
        "left" | "would" => return None,
        "done" => None,
        _ => Some(Exit::failed(plan["why"].as_str().unwrap_or("it could not be done"))),
    };
    Some(Outcome { plan: id, name, problem })
}

/// Progress on a terminal.
#[derive(Clone, Copy)]
struct Progress {
    is_shown: bool,
}

impl Progress {
    fn new() -> Self {
        Self { is_shown: std::io::stderr().is_terminal() }
    }

    fn show(self, done: usize, total: usize) {
        // Not each plan: a terminal is slower than the store.
        if self.is_shown && (done % 64 == 0 || done == total) {
            self.write(&format!("\r\x1b[K{done} of at most {total} plans"));
        }
    }

    fn clear(self) {
        if self.is_shown {
            self.write("\r\x1b[K");
        }
    }

    fn write(self, text: &str) {
        let mut error = std::io::stderr().lock();
        // A closed standard error is no failure.
        let _unread = error.write_all(text.as_bytes()).and_then(|()| error.flush());
    }
}
