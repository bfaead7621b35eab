//! All that happened to a plan, and each call of its steps.

use axum::extract::State;
use axum::Json as Answer;
use serde::Deserialize;
use turnwheel_engine::watch::Cursor;
use turnwheel_engine::StepId;
use utoipa::IntoParams;

use super::plans::{page, Newest};
use crate::api::{Calls, History};
use crate::http::body::{PlanAt, Query};
use crate::http::cursor::{self, List};
use crate::http::limits::{PICTURE_PAGE, PICTURE_PAGE_MAX};
use crate::http::picture::{self, Page};
use crate::http::problem::Problem;
use crate::http::state::Api;

/// The requested part of a history.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct HistoryQuery {
    /// Order: `newest` or `oldest` first.
    #[param(inline, default = "oldest")]
    order: Option<Newest>,
    /// Maximum number of events; 5,000 at most.
    #[param(minimum = 1, maximum = 5000, default = 500)]
    limit: Option<u32>,
    /// The `next` of the previous page, in the same order.
    cursor: Option<String>,
}

/// All events of a plan, with author and reason
///
/// Cost: the entire history of the plan is read for each page; only the page is sent.
#[utoipa::path(
    get, path = "/plans/{plan}/history", tag = "steps", operation_id = "getHistory",
    params(("plan" = String, Path, description = "The plan"), HistoryQuery),
    responses((status = 200, description = "A page of the history", body = History)),
)]
pub(in crate::http) async fn history(
    State(api): State<Api>,
    PlanAt(id): PlanAt,
    Query(query): Query<HistoryQuery>,
) -> Result<Answer<History>, Problem> {
    let limit = page(query.limit.or(Some(PICTURE_PAGE as u32)), PICTURE_PAGE_MAX)?;
    let after = cursor::place::<12>(List::History, query.cursor.as_deref())?.map(|place| {
        let (seq, nth) = place.split_at(8);
        let seq = u64::from_be_bytes(std::array::from_fn(|at| seq[at]));
        Cursor { seq, nth: u32::from_be_bytes(std::array::from_fn(|at| nth[at])) }
    });
    let is_newest_first = query.order == Some(Newest::Newest);
    let history = api.world().plan(id).history().await?;
    Ok(Answer(picture::history(history, Page { is_newest_first, after, limit })))
}

/// The requested calls.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct CallsQuery {
    /// Only calls of this step.
    step: Option<u32>,
    /// Order: `newest` or `oldest` first.
    #[param(inline, default = "oldest")]
    order: Option<Newest>,
    /// Maximum number of calls; 5,000 at most.
    #[param(minimum = 1, maximum = 5000, default = 500)]
    limit: Option<u32>,
    /// The `next` of the previous page, in the same order.
    cursor: Option<String>,
}

/// Each call of each step, in the order of their begins
///
/// Cost: all that happened to the plan is read for each page; only the page is sent.
#[utoipa::path(
    get, path = "/plans/{plan}/calls", tag = "steps", operation_id = "getCalls",
    params(("plan" = String, Path, description = "The plan"), CallsQuery),
    responses((status = 200, description = "A page of the calls", body = Calls)),
)]
pub(in crate::http) async fn calls(
    State(api): State<Api>,
    PlanAt(id): PlanAt,
    Query(query): Query<CallsQuery>,
) -> Result<Answer<Calls>, Problem> {
    let limit = page(query.limit.or(Some(PICTURE_PAGE as u32)), PICTURE_PAGE_MAX)?;
    let after = cursor::place(List::Calls, query.cursor.as_deref())?.map(u64::from_be_bytes);
    let is_newest_first = query.order == Some(Newest::Newest);
    let history = api.world().plan(id).history().await?;
    let page = Page { is_newest_first, after, limit };
    Ok(Answer(picture::calls(history, query.step.map(StepId), page)))
}
