//! The history of a job, page by page.

use axum::extract::State;
use axum::Json as Answer;
use serde::Deserialize;
use serde_json::{json, Value};
use turnwheel_jobs::show;
use utoipa::IntoParams;

use super::jobs::jobs;
use super::plans::page;
use crate::api::JobHistory;
use crate::http::body::{NameAt, Query};
use crate::http::cursor::{self, List};
use crate::http::limits::PAGE_MAX;
use crate::http::problem::Problem;
use crate::http::state::Api;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct HistoryQuery {
    /// Only launches before this one.
    before: Option<u64>,
    /// Maximum number of launches; 1,000 at most.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// Launches of a job, the newest first
#[utoipa::path(
    get, path = "/jobs/{name}/history", tag = "jobs", operation_id = "getJobHistory",
    params(
        ("name" = String, Path, description = "The name of the job"),
        HistoryQuery,
    ),
    responses((status = 200, description = "A page of the launches", body = JobHistory)),
)]
pub(in crate::http) async fn history(
    State(api): State<Api>,
    NameAt(name): NameAt,
    Query(query): Query<HistoryQuery>,
) -> Result<Answer<Value>, Problem> {
    let limit = page(query.limit, PAGE_MAX)?;
    let after = cursor::place(List::Launches, query.cursor.as_deref())?.map(u64::from_be_bytes);
    let before = [query.before, after].into_iter().flatten().min();
    // One more than is shown says whether there is a next page.
    let mut found = jobs(&api)?.history(&name, before, limit + 1).await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| has_more);
    let next = last.map(|launch| cursor::write(List::Launches, &launch.id.to_be_bytes()));
    let launches: Vec<Value> = found.iter().map(show::launch).collect();
    Ok(Answer(json!({ "launches": launches, "next": next })))
}
