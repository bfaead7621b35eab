//! Plans: the list, and one of them.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::Json as Answer;
use serde::Deserialize;
use turnwheel_engine::store::{slot_of, Filter, Order, SearchPage, Slots};
use turnwheel_engine::{
    BulkOrder, BulkOutcome, PlanError, PlanId, PlanResult, PlanState, Time, Waiting,
};
use utoipa::IntoParams;

use crate::api::{self, PlanDetail, PlanPage};
use crate::http::access::Principal;
use crate::http::body::{PlanAt, Query, Who};
use crate::http::code::Code;
use crate::http::cursor::{self, List};
use crate::http::limits::{NODE_PAGE, NODE_PAGES_MAX, PAGE, PAGE_MAX, WAIT_MAX};
use crate::http::problem::Problem;
use crate::http::show;
use crate::http::state::Api;
use crate::http::trace;
use crate::key;

/// The requested plans.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct PlansQuery {
    /// Only plans in these states, with commas between.
    state: Option<String>,
    /// Only plans with these results, with commas between.
    result: Option<String>,
    /// Only plans that wait for one of these, with commas between.
    waits: Option<String>,
    /// Only plans that are called so.
    label: Option<String>,
    /// Only plans whose name has this part, whatever the case of ASCII letters.
    name: Option<String>,
    /// Only plans whose name, reason to wait or error has this part, likewise.
    text: Option<String>,
    /// Only plans with all of these labels: `name=value`, or `name` for any value, with commas between.
    labels: Option<String>,
    /// Only plans with this root action.
    action: Option<String>,
    /// Only the plan with this idempotency key: the caller's own, else the one whose shown `key` is
    /// this.
    key: Option<String>,
    /// Only plans that this one has triggered.
    by: Option<String>,
    /// Only plans started by a step of this plan.
    caller: Option<String>,
    /// Only plans that were created at this time or later.
    created_from: Option<String>,
    /// Only plans that were created before this time.
    created_before: Option<String>,
    /// Only plans that were stopped at this time or later.
    ended_from: Option<String>,
    /// Only plans that were stopped before this time.
    ended_before: Option<String>,
    /// Only plans of this node, by its name.
    node: Option<String>,
    /// Order: `newest` or `oldest` first.
    #[param(inline, default = "newest")]
    order: Option<Newest>,
    /// Maximum number of plans; 1,000 at most.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    limit: Option<u32>,
    /// Only plans behind this one, in the order that is asked for.
    after_plan: Option<String>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// Order of plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum Newest {
    /// The newest plans first.
    #[default]
    Newest,
    /// The oldest plans first.
    Oldest,
}

/// The plans that fit, newest first unless said otherwise
#[utoipa::path(
    get, path = "/plans", tag = "plans", operation_id = "listPlans", params(PlansQuery),
    responses((status = 200, description = "A page of plans", body = PlanPage)),
)]
pub(in crate::http) async fn list(
    State(api): State<Api>,
    Who(who): Who,
    Query(query): Query<PlansQuery>,
) -> Result<Answer<PlanPage>, Problem> {
    let limit = page(query.limit, PAGE_MAX)?;
    let place = cursor::place(List::Plans, query.cursor.as_deref())?.map(PlanId::from_bytes);
    let behind = query.after_plan.as_deref().map(str::parse).transpose();
    let behind: Option<PlanId> = behind.map_err(|error: turnwheel_engine::PlanIdError| {
        Problem::new(Code::QueryInvalid, format!("after_plan: {error}"))
    })?;
    let place = place.or(behind);
    let (order, key) = (query.order.unwrap_or_default(), query.key.clone());
    let node = query.node.clone();
    let mut filter =
        filter(&asked(query)).map_err(|problem| Problem::new(Code::QueryInvalid, problem))?;
    match order {
        Newest::Newest => filter.before = place,
        Newest::Oldest => (filter.order, filter.after) = (Order::OldestFirst, place),
    }
    if let Some(key) = key {
        filter.key = Some(known_key(&api, &who, key).await?);
    }
    filter.limit = limit + 1;
    let SearchPage { mut rows, looked_to } = found(&api, filter, node).await?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().map(|row| row.id).filter(|_| has_more).or(looked_to);
    let next = last.map(|id| cursor::write(List::Plans, &id.to_bytes()));
    let plans = rows.into_iter().map(show::row).collect();
    Ok(Answer(PlanPage { plans, next, is_partial: looked_to.is_some() }))
}

/// The plans that fit a filter, and are on a node if one is named.
pub(super) async fn found(
    api: &Api,
    filter: Filter,
    node: Option<String>,
) -> Result<SearchPage, Problem> {
    let Some(node) = node else { return Ok(api.world().search(filter).await?) };
    let slots = slots_of(api, &node).await?;
    let (mut page, mut found) = (filter.clone(), SearchPage::default());
    page.limit = filter.limit.max(NODE_PAGE);
    for _ in 0..NODE_PAGES_MAX {
        let part = api.world().search(page.clone()).await?;
        let last = part.rows.last().map(|row| row.id).filter(|_| part.rows.len() == page.limit);
        found.looked_to = part.looked_to.or(last);
        let own = part.rows.into_iter().filter(|row| slots.has(slot_of(row.id)));
        found.rows.extend(own);
        if found.rows.len() >= filter.limit {
            found.rows.truncate(filter.limit);
            found.looked_to = None;
            break;
        }
        match found.looked_to {
            Some(last) if part.looked_to.is_none() => page = page.next_page(last),
            _ => break,
        }
    }
    Ok(found)
}

/// The slots of all nodes with a name: of a restarted one there may be two for a moment.
async fn slots_of(api: &Api, node: &str) -> Result<Slots, Problem> {
    let world = api.world();
    let worlds = world.worlds();
    let owners: Vec<u64> =
        worlds.iter().filter(|known| known.name == node).map(|known| known.id).collect();
    if owners.is_empty() {
        return Err(Problem::new(Code::NodeUnknown, format!("there is no node «{node}»")));
    }
    let mut slots = Slots::default();
    for (slot, owner) in world.slot_owners().iter().enumerate() {
        if owners.contains(&owner.world) {
            slots.add(slot);
        }
    }
    Ok(slots)
}

/// The caller's key, as it is stored.
pub(in crate::http) fn scoped(who: &Principal, key: &str) -> String {
    key::scoped(&who.name, key)
}

/// The stored form of the key of an existing plan: the caller's own, else the key as given.
pub(in crate::http) async fn known_key(
    api: &Api,
    who: &Principal,
    key: String,
) -> Result<String, Problem> {
    let own = scoped(who, &key);
    let filter = Filter { key: Some(own.clone()), limit: 1, ..Filter::default() };
    let is_own = !api.world().list(filter).await?.is_empty();
    Ok(if is_own { own } else { key })
}

fn words(text: Option<String>) -> Vec<String> {
    let text = text.unwrap_or_default();
    text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn asked(query: PlansQuery) -> api::Filter {
    let label = |word: String| match word.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (word, None),
    };
    api::Filter {
        states: words(query.state),
        results: words(query.result),
        waits: words(query.waits),
        label: query.label,
        name: query.name,
        text: query.text,
        labels: words(query.labels).into_iter().map(label).collect(),
        action: query.action,
        key: None,
        by: query.by,
        caller: query.caller,
        created_from: query.created_from,
        created_before: query.created_before,
        ended_from: query.ended_from,
        ended_before: query.ended_before,
        node: query.node,
    }
}

/// A filter of the store, without the key; the error names the unknown value.
pub(in crate::http) fn filter(asked: &api::Filter) -> Result<Filter, String> {
    fn all<T>(names: &[String], what: &str, of: fn(&str) -> Option<T>) -> Result<Vec<T>, String> {
        let one = |name: &String| {
            of(name).ok_or_else(|| {
                format!("there is no {what} «{name}»: docs/http.md lists those there are")
            })
        };
        names.iter().map(one).collect()
    }
    let time = |field: &str, text: &Option<String>| -> Result<Option<Time>, String> {
        let time = text.as_deref().map(str::parse).transpose();
        time.map_err(|error: turnwheel_engine::TimeError| format!("{field}: {error}"))
    };
    let caller = asked.caller.as_deref().map(str::parse).transpose();
    Ok(Filter {
        states: all(&asked.states, "state", PlanState::from_name)?,
        results: all(&asked.results, "result", PlanResult::from_name)?,
        waits: all(&asked.waits, "reason to wait", Waiting::from_name)?,
        label: asked.label.clone(),
        name: asked.name.clone(),
        text: asked.text.clone(),
        labels: asked.labels.clone().into_iter().collect(),
        action: asked.action.clone(),
        by: asked.by.clone(),
        caller: caller.map_err(|error: turnwheel_engine::PlanIdError| error.to_string())?,
        created_from: time("created_from", &asked.created_from)?,
        created_before: time("created_before", &asked.created_before)?,
        ended_from: time("ended_from", &asked.ended_from)?,
        ended_before: time("ended_before", &asked.ended_before)?,
        ..Filter::default()
    })
}

/// Number of rows of a page.
pub(in crate::http) fn page(limit: Option<u32>, max: usize) -> Result<usize, Problem> {
    match limit {
        None => Ok(PAGE),
        Some(limit) if limit >= 1 && limit as usize <= max => Ok(limit as usize),
        Some(limit) => {
            let detail = format!("the limit is {limit}, and has to be from 1 to {max}");
            Err(Problem::new(Code::QueryInvalid, detail))
        }
    }
}

/// Time to wait for the end of a plan.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct WaitQuery {
    /// If the plan is under way, answer when it is stopped or paused, or after so many milliseconds; 60,000
    /// at most.
    #[param(maximum = 60000)]
    wait_ms: Option<u64>,
}

/// A plan, as it is now
#[utoipa::path(
    get, path = "/plans/{plan}", tag = "plans", operation_id = "getPlan",
    params(("plan" = String, Path, description = "The plan"), WaitQuery),
    responses((status = 200, description = "The plan", body = PlanDetail)),
)]
pub(in crate::http) async fn get(
    State(api): State<Api>,
    PlanAt(id): PlanAt,
    Query(query): Query<WaitQuery>,
) -> Result<Answer<PlanDetail>, Problem> {
    let handle = api.world().plan(id);
    if let Some(wait_ms) = query.wait_ms {
        let wait = Duration::from_millis(wait_ms);
        if wait > WAIT_MAX {
            let detail = format!("a request waits for {WAIT_MAX:?} at most: ask again then");
            return Err(Problem::new(Code::QueryInvalid, detail));
        }
        let _place = api.wait()?;
        // Whether it has ended or not, it is shown as it is afterwards.
        tokio::select! {
            ended = handle.finished() => return Ok(Answer(show::plan(api.world(), &ended?))),
            () = tokio::time::sleep(wait) => {}
            () = api.stopped() => {}
        }
    }
    let view = handle.view().await?;
    Ok(Answer(show::plan(api.world(), &view)))
}

/// Removes a plan that is over, with all that happened to it
#[utoipa::path(
    delete, path = "/plans/{plan}", tag = "plans", operation_id = "removePlan",
    params(("plan" = String, Path, description = "The plan")),
    responses((status = 204, description = "It is gone")),
)]
pub(in crate::http) async fn remove(
    State(api): State<Api>,
    Who(who): Who,
    PlanAt(id): PlanAt,
) -> Result<StatusCode, Problem> {
    // A plan that is not there is told as such.
    api.world().plan(id).view().await?;
    let bulk = api.world().bulk(Filter::default()).only(&[id]);
    let report = bulk.run(BulkOrder::Delete, &who.name).await?;
    let outcome = report.plans.into_iter().next().map(|plan| plan.outcome);
    let done = match outcome {
        Some(BulkOutcome::Done) => Ok(StatusCode::NO_CONTENT),
        Some(BulkOutcome::Failed(error)) => Err(error.into()),
        Some(BulkOutcome::Left { why }) => Err(Problem::new(Code::PlanState, why).of_plan(id)),
        _ => Err(PlanError::Unknown(id).into()),
    };
    let text = done.as_ref().map_or_else(Problem::detail, |_| "done");
    trace::audit(&who, "delete", &id.to_string(), text);
    done
}
