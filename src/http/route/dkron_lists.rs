//! Dkron's lists of jobs: read page by page, so that one with an end holds no more jobs than that.

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::Value;
use turnwheel_engine::Time;
use turnwheel_jobs::{dkron, JobView, Jobs};

use super::dkron::{answer, given, place, with_total, Given};
use super::jobs::jobs;
use crate::http::code::Code;
use crate::http::limits::PAGE_MAX;
use crate::http::problem::Problem;
use crate::http::state::Api;

/// A value that jobs are sorted by.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Text(String),
    Number(u64),
    Time(Option<Time>),
}

/// Reads all jobs by name, some at a time.
async fn each(jobs: &Jobs, mut take: impl FnMut(JobView)) -> Result<(), Problem> {
    let mut after = String::new();
    loop {
        let page = jobs.page(&after, PAGE_MAX).await??;
        let is_last = page.len() < PAGE_MAX;
        after = page.last().map(|view| view.spec.name.clone()).unwrap_or_default();
        page.into_iter().for_each(&mut take);
        if is_last {
            return Ok(());
        }
    }
}

fn fits(view: &JobView, given: &Given) -> bool {
    let is = |name: &str, fits: &dyn Fn(&str) -> bool| {
        given.get(name).filter(|text| !text.is_empty()).is_none_or(|text| fits(text))
    };
    let metadata = given.iter().all(|(name, value)| {
        let key = name.strip_prefix("metadata[").and_then(|rest| rest.strip_suffix(']'));
        key.is_none_or(|key| view.spec.metadata.get(key) == Some(value))
    });
    metadata
        && is("q", &|part| view.spec.name.contains(part) || view.spec.display_name.contains(part))
        && is("disabled", &|text| text == view.spec.disabled.to_string())
        && is("status", &|status| match status {
            "untriggered" => dkron::status(view).is_empty(),
            status => dkron::status(view) == status,
        })
}

/// The value of a job that a list is sorted by.
fn key(view: &JobView, by: &str) -> Result<Key, Problem> {
    Ok(match by {
        "" | "id" | "name" => Key::Text(view.spec.name.clone()),
        "displayname" => Key::Text(view.spec.display_name.clone()),
        "schedule" => Key::Text(view.spec.schedule.clone()),
        "success_count" => Key::Number(view.counts.success),
        "error_count" => Key::Number(view.counts.error),
        "last_success" => Key::Time(view.last_success),
        "last_error" => Key::Time(view.last_error),
        "next" => Key::Time(view.next),
        "status" => Key::Text(dkron::status(view).to_owned()),
        other => {
            let detail = format!("the query: _sort: jobs are not sorted by «{other}»");
            return Err(Problem::new(Code::QueryInvalid, detail));
        }
    })
}

/// The jobs of a list up to its end, sorted.
struct Sorted {
    jobs: Vec<(Key, JobView)>,
    end: usize,
    is_descending: bool,
}

impl Sorted {
    fn add(&mut self, key: Key, view: JobView) {
        self.jobs.push((key, view));
        if self.jobs.len() >= self.end.saturating_mul(2).max(PAGE_MAX) {
            self.sort();
        }
    }

    fn sort(&mut self) {
        let is_descending = self.is_descending;
        self.jobs.sort_by(|(key, view), (other, than)| {
            let by_name = || view.spec.name.cmp(&than.spec.name);
            let order = key.cmp(other).then_with(by_name);
            if is_descending {
                order.reverse()
            } else {
                order
            }
        });
        self.jobs.truncate(self.end);
    }
}

pub(super) async fn list(State(api): State<Api>, uri: Uri) -> Result<Response, Problem> {
    let (jobs, given) = (jobs(&api)?, given(&uri));
    let (start, end) = (place(&given, "_start")?, place(&given, "_end")?);
    let (start, end) = (start.unwrap_or(0), end.unwrap_or(usize::MAX));
    let by = given.get("_sort").map_or("", String::as_str);
    let is_descending = given.get("_order").is_some_and(|order| order.eq_ignore_ascii_case("desc"));
    let (mut total, mut problem) = (0, None);
    let mut sorted = Sorted { jobs: Vec::new(), end, is_descending };
    each(jobs, |view| {
        if !fits(&view, &given) {
            return;
        }
        total += 1;
        match key(&view, by) {
            Ok(key) => sorted.add(key, view),
            Err(wrong) => problem = Some(wrong),
        }
    })
    .await?;
    if let Some(problem) = problem {
        return Err(problem);
    }
    sorted.sort();
    let shown = sorted.jobs.iter().skip(start).map(|(_, view)| dkron::job(view));
    let shown = Value::Array(shown.collect());
    Ok(with_total(answer(jobs, &uri, StatusCode::OK, &shown), total))
}

pub(super) async fn busy(State(api): State<Api>, uri: Uri) -> Result<Response, Problem> {
    let jobs = jobs(&api)?;
    let mut active = Vec::new();
    each(jobs, |view| {
        active.extend(view.active.into_iter().map(|launch| (view.spec.name.clone(), launch)));
    })
    .await?;
    let mut running = Vec::new();
    for (name, mut launch) in active {
        jobs.note_begins(std::slice::from_mut(&mut launch)).await;
        for (run, row) in launch.runs.iter().enumerate().filter(|(_, r)| !r.state.is_over()) {
            let shown = dkron::execution(&name, &launch, run, "", None);
            running.push((row.started_at.unwrap_or(launch.decided), shown));
        }
    }
    running.sort_by_key(|(started_at, _)| *started_at);
    let total = running.len();
    let list = Value::Array(running.into_iter().map(|(_, shown)| shown).collect());
    Ok(with_total(answer(jobs, &uri, StatusCode::OK, &list), total))
}
