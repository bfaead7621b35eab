//! Health, figures and description; without a token where that is harmless.

use axum::extract::State;
use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::Json as Answer;
use turnwheel_engine::Time;

use crate::api::Health;
use crate::http::code::Code;
use crate::http::figures::Seen;
use crate::http::flow_figures::HOUR;
use crate::http::limits::{JOB_FIGURES_MAX, SCHEDULE_FIGURES_MAX};
use crate::http::problem::Problem;
use crate::http::show;
use crate::http::state::Api;

/// Whether a commit to the store succeeded within the last seconds
///
/// If the last one is older, a probe is committed before the answer; concurrent requests share one.
#[utoipa::path(
    get, path = "/health", tag = "system", operation_id = "getHealth",
    responses(
        (status = 200, description = "It is healthy", body = Health),
        (status = 503, description = "It is not, or it is stopping", body = Health),
    ),
)]
pub(in crate::http) async fn health(State(api): State<Api>) -> Response {
    // At a stop nothing is committed any more: the store may be closed already.
    let probe = match api.is_stopping() {
        true => api.prober().last(),
        false => api.prober().probe().await,
    };
    let is_healthy = probe.problem.is_none();
    let is_taking_work = is_healthy && !api.is_stopping();
    let health = Health {
        is_healthy,
        is_taking_work,
        committed_at: probe.committed_at.map(show::time),
        commit_ms: probe.committed_at.filter(|_| is_healthy).map(|_| show::ms(probe.took)),
        problem: probe.problem,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let status = if is_taking_work { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Answer(health)).into_response()
}

/// Whether the process answers at all
#[utoipa::path(
    get, path = "/health/live", tag = "system", operation_id = "getAlive",
    responses((status = 204, description = "It does")),
)]
pub(in crate::http) async fn live() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Figures of the server and its world, as Prometheus reads them
#[utoipa::path(
    get, path = "/metrics", tag = "system", operation_id = "getMetrics",
    responses((status = 200, description = "The figures", body = String,
        content_type = "application/openmetrics-text")),
)]
pub(in crate::http) async fn metrics(State(api): State<Api>) -> Result<Response, Problem> {
    api.figures().flows().begin(api.world(), api.stopped()).await;
    let seen = async {
        let (stats, counts) = (api.world().stats().await?, api.world().counts().await?);
        let jobs = match &api.options().jobs {
            // Another node may serve them, which may be away.
            Some(jobs) => match jobs.page("", JOB_FIGURES_MAX).await? {
                Ok(views) => views,
                Err(error) => {
                    tracing::warn!(%error, "figures of jobs are left out");
                    Vec::new()
                }
            },
            None => Vec::new(),
        };
        let schedules = api.world().schedules().list("", SCHEDULE_FIGURES_MAX).await??;
        let from = stats.at.0.saturating_sub(HOUR.as_micros() as u64);
        let ended = api.world().tallies(Time(from)).await?;
        Ok::<Seen, Problem>(Seen { stats, counts, jobs, schedules, ended })
    };
    // Without them the other figures are still useful: especially when the store fails.
    let seen = seen.await.inspect_err(|problem| {
        tracing::warn!(problem = problem.detail(), "figures of the world are left out");
    });
    let text = api.figures().text(seen.ok()).map_err(|error| {
        Problem::new(Code::Internal, format!("the figures cannot be written: {error}"))
    })?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
