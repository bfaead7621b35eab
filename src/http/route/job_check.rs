//! A look at jobs before they are stored.

use axum::extract::State;
use axum::Json as Answer;
use serde::Deserialize;
use utoipa::ToSchema;

use super::jobs::jobs;
use crate::api::{JobSpec, JobsChecked};
use crate::http::body::Json;
use crate::http::code::Code;
use crate::http::limits::JOBS_CHECKED_MAX;
use crate::http::problem::Problem;
use crate::http::state::Api;

/// Jobs that are to be stored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = JobsCheck)]
pub(in crate::http) struct Check {
    /// The jobs; 200 at most.
    jobs: Vec<Edit>,
}

/// A job that is to be stored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = JobEdit)]
pub(in crate::http) struct Edit {
    /// Its settings, with its name.
    #[schema(value_type = JobSpec)]
    spec: turnwheel_jobs::JobSpec,
    /// The revision that is edited; 0 for a new job.
    revision: Option<u64>,
}

/// Says why jobs would be refused, and stores nothing
///
/// Each is checked as `PUT /jobs/{name}` does, but for its parents, which may be stored with it.
#[utoipa::path(
    post, path = "/job-check", tag = "jobs", operation_id = "checkJobs",
    request_body = Check,
    responses((status = 200, description = "The problems", body = JobsChecked)),
)]
pub(in crate::http) async fn check(
    State(api): State<Api>,
    Json(check): Json<Check>,
) -> Result<Answer<JobsChecked>, Problem> {
    if check.jobs.len() > JOBS_CHECKED_MAX {
        let detail = format!("jobs: {JOBS_CHECKED_MAX} at once are the limit: check them in parts");
        return Err(Problem::new(Code::BodyInvalid, detail));
    }
    let edits = check.jobs.into_iter().map(|edit| (edit.spec, edit.revision));
    let problems = jobs(&api)?.check(edits.collect()).await??;
    let problems = problems.iter().map(ToString::to_string).collect();
    Ok(Answer(JobsChecked { problems }))
}
