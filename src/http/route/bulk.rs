//! Orders for many plans at once.

use std::num::NonZeroUsize;

use axum::extract::State;
use axum::Json as Answer;
use turnwheel_engine::store::{Filter as Wanted, Order, SearchPage};
use turnwheel_engine::{BulkOrder as Kind, BulkOutcome, BulkReport, PlanId};

use super::plans::{filter, found, known_key};
use crate::api::{BulkDone, BulkOrder, BulkPlan, Filter, ManyOrder};
use crate::http::body::{Json, Who};
use crate::http::code::Code;
use crate::http::limits::{BULK, BULK_MAX, BULK_NAMED_MAX};
use crate::http::problem::Problem;
use crate::http::state::Api;
use crate::http::trace;

/// Gives an order to all plans that fit
///
/// Each plan takes or refuses it by itself: some may have done so when another one fails.
#[utoipa::path(
    post, path = "/orders", tag = "plans", operation_id = "orderPlans", request_body = BulkOrder,
    responses((status = 200, description = "What became of it", body = BulkDone)),
)]
pub(in crate::http) async fn order(
    State(api): State<Api>,
    Who(who): Who,
    Json(asked): Json<BulkOrder>,
) -> Result<Answer<BulkDone>, Problem> {
    let wrong = |detail: &str| Problem::new(Code::BodyInvalid, format!("the body: {detail}"));
    if asked.filter == Filter::default() && asked.plans.is_empty() {
        return Err(wrong("the filter says nothing, so it means all plans: name states at least"));
    }
    if asked.plans.len() > BULK_NAMED_MAX {
        return Err(wrong(&format!("it names more than {BULK_NAMED_MAX} plans: use a filter")));
    }
    let named: Result<Vec<PlanId>, _> = asked.plans.iter().map(|id| id.parse()).collect();
    let named = named.map_err(|error| wrong(&format!("plans: {error}")))?;
    let limit = asked.limit.map_or(BULK, |limit| limit as usize);
    let limit = NonZeroUsize::new(limit).filter(|limit| limit.get() <= BULK_MAX);
    let Some(limit) = limit else {
        return Err(wrong(&format!("the limit has to be from 1 to {BULK_MAX}")));
    };
    let mut filter = filter(&asked.filter).map_err(|problem| wrong(&problem))?;
    if let Some(key) = asked.filter.key.clone() {
        filter.key = Some(known_key(&api, &who, key).await?);
    }
    if asked.oldest_first {
        filter.order = Order::OldestFirst;
    }
    if let Some(after) = &asked.after {
        let last = after.parse().map_err(|error| wrong(&format!("after: {error}")))?;
        filter = filter.next_page(last);
    }
    let mut part = Part::default();
    let mut only = named;
    if let Some(node) = &asked.filter.node {
        part = of_node(&api, &filter, node, limit.get()).await?;
        match only.is_empty() {
            true => only.clone_from(&part.plans),
            false => only.retain(|plan| part.plans.contains(plan)),
        }
        if only.is_empty() {
            let none = BulkReport::default();
            return Ok(Answer(part.of(done(asked.order, asked.dry_run, none))));
        }
    }
    let mut bulk = api.world().bulk(filter).plans_max(limit);
    if !only.is_empty() {
        bulk = bulk.only(&only);
    }
    let kind = kind(asked.order);
    // As the caller has written it, for the audit log.
    let filter_told = serde_json::to_string(&asked.filter).unwrap_or_default();
    let order_told = serde_json::to_string(&asked.order).unwrap_or_default().replace('"', "");
    let report = if asked.dry_run {
        bulk.dry_run(kind).await?
    } else {
        // An order that has begun is carried out to its end, even if the caller is gone.
        let by = who.name.clone();
        let run = tokio::spawn(async move { bulk.run(kind, &by).await });
        let report =
            run.await.map_err(|error| Problem::new(Code::Internal, error.to_string()))??;
        let outcome = format!("{} done, {} left", report.touched(), report.left());
        let of = match asked.plans.len() {
            0 => filter_told,
            named => format!("{named} plans by their ids, {filter_told}"),
        };
        trace::audit(&who, &format!("bulk {order_told}"), &of, &outcome);
        report
    };
    Ok(Answer(part.of(done(asked.order, asked.dry_run, report))))
}

fn kind(order: ManyOrder) -> Kind {
    match order {
        ManyOrder::Cancel => Kind::Cancel,
        ManyOrder::CancelNow => Kind::CancelNow,
        ManyOrder::Pause => Kind::Pause,
        ManyOrder::Resume => Kind::Resume,
        ManyOrder::SkipFailed => Kind::Skip,
        ManyOrder::RetryFailed => Kind::Retry,
        ManyOrder::Halt => Kind::Halt,
        ManyOrder::Delete => Kind::Delete,
    }
}

/// Plans of a node that fit, as many as one order takes.
#[derive(Debug, Default)]
struct Part {
    plans: Vec<PlanId>,
    /// The last plan that was looked at, if there may be others behind it.
    looked_to: Option<PlanId>,
}

impl Part {
    /// The answer to an order for them: where the next one goes on.
    fn of(&self, done: BulkDone) -> BulkDone {
        match self.looked_to {
            Some(last) => BulkDone { has_more: true, next: Some(last.to_string()), ..done },
            None => done,
        }
    }
}

async fn of_node(api: &Api, wanted: &Wanted, node: &str, limit: usize) -> Result<Part, Problem> {
    let page = Wanted { limit, ..wanted.clone() };
    let SearchPage { rows, looked_to } = found(api, page, Some(node.to_owned())).await?;
    let last = rows.last().map(|row| row.id).filter(|_| rows.len() >= limit);
    Ok(Part { looked_to: looked_to.or(last), plans: rows.iter().map(|row| row.id).collect() })
}

fn done(order: ManyOrder, is_dry_run: bool, report: BulkReport) -> BulkDone {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let (touched, left) = (count(report.touched()), count(report.left()));
    let (failed, has_more) = (count(report.failed()), report.has_more);
    let plan = |plan: turnwheel_engine::BulkPlan| {
        let (outcome, why) = match plan.outcome {
            BulkOutcome::Would => ("would", None),
            BulkOutcome::Done => ("done", None),
            BulkOutcome::Left { why } => ("left", Some(why)),
            BulkOutcome::Failed(error) => ("failed", Some(error.to_string())),
            _ => ("failed", None),
        };
        BulkPlan {
            plan: plan.plan.to_string(),
            label: plan.label,
            outcome: outcome.to_owned(),
            why,
        }
    };
    let plans: Vec<BulkPlan> = report.plans.into_iter().map(plan).collect();
    let next = plans.last().map(|last| last.plan.clone()).filter(|_| has_more);
    BulkDone { order, plans, touched, left, failed, has_more, next, is_dry_run }
}
