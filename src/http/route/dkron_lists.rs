//! Dkron's lists of jobs: read page by page. A list holds the jobs that it shows, at most
//! [`DKRON_JOBS_MAX`], and of the others what they are sorted by.

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::Value;
use turnwheel_engine::Time;
use turnwheel_jobs::{dkron, JobError, JobView, Jobs};

use super::dkron::{answer, given, place, with_total, Given};
use super::jobs::{jobs, seen_by};
use crate::http::body::Who;
use crate::http::code::Code;
use crate::http::limits::{DKRON_JOBS_MAX, PAGE_MAX};
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

/// The places of a list that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    start: usize,
    end: usize,
}

impl Shown {
    fn of(given: &Given) -> Result<Self, Problem> {
        let (start, end) = (place(given, "_start")?, place(given, "_end")?);
        Ok(Self { start: start.unwrap_or(0), end: end.unwrap_or(usize::MAX) })
    }

    /// The places of a list of so many jobs. More than an answer has are refused, and not cut: a
    /// backup that lacks jobs must not look like one.
    fn of_total(self, total: usize) -> Result<Self, Problem> {
        let end = self.end.min(total);
        let start = self.start.min(end);
        if end - start <= DKRON_JOBS_MAX {
            return Ok(Self { start, end });
        }
        let detail = format!(
            "the query: _end: {} of {total} jobs were asked for, and an answer has at most \
             {DKRON_JOBS_MAX}: ask for parts with _start and _end, such as \
             _start={start}&_end={}",
            end - start,
            start + DKRON_JOBS_MAX,
        );
        Err(Problem::new(Code::QueryInvalid, detail))
    }

    fn has(self, place: usize) -> bool {
        (self.start..self.end).contains(&place)
    }
}

pub(super) async fn list(
    State(api): State<Api>,
    uri: Uri,
    Who(who): Who,
) -> Result<Response, Problem> {
    let (jobs, given) = (jobs(&api)?, given(&uri));
    let shown = Shown::of(&given)?;
    let by = given.get("_sort").map_or("", String::as_str);
    let is_descending = given.get("_order").is_some_and(|order| order.eq_ignore_ascii_case("desc"));
    let is_by_name = matches!(by, "" | "id" | "name") && !is_descending;
    let (total, views) = match is_by_name {
        true => by_name(jobs, &given, shown).await?,
        false => sorted(jobs, &given, (by, is_descending), shown).await?,
    };
    let views = views.into_iter().map(|view| dkron::job(&seen_by(&who, view)));
    let list = Value::Array(views.collect());
    Ok(with_total(answer(jobs, &uri, StatusCode::OK, &list), total))
}

/// The jobs at these places in the order of their names, in which they come, and how many fit.
async fn by_name(
    jobs: &Jobs,
    given: &Given,
    shown: Shown,
) -> Result<(usize, Vec<JobView>), Problem> {
    let (mut total, mut views) = (0, Vec::new());
    each(jobs, |view| {
        if !fits(&view, given) {
            return;
        }
        if shown.has(total) && views.len() < DKRON_JOBS_MAX {
            views.push(view);
        }
        total += 1;
    })
    .await?;
    shown.of_total(total).map(|_| (total, views))
}

/// The jobs at these places in another order, and how many fit.
async fn sorted(
    jobs: &Jobs,
    given: &Given,
    (by, is_descending): (&str, bool),
    shown: Shown,
) -> Result<(usize, Vec<JobView>), Problem> {
    let (mut places, mut problem) = (Vec::new(), None);
    each(jobs, |view| {
        if !fits(&view, given) {
            return;
        }
        match key(&view, by) {
            Ok(key) => places.push((key, view.spec.name)),
            Err(wrong) => problem = Some(wrong),
        }
    })
    .await?;
    if let Some(problem) = problem {
        return Err(problem);
    }
    let total = places.len();
    let Shown { start, end } = shown.of_total(total)?;
    // Of equal keys the name decides.
    places.sort_unstable();
    if is_descending {
        places.reverse();
    }
    let mut views = Vec::with_capacity(end - start);
    for (_, name) in places.drain(start..end) {
        match jobs.get(&name).await? {
            Ok(view) => views.push(view),
            // It was removed meanwhile.
            Err(JobError::Unknown(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok((total, views))
}

pub(super) async fn busy(State(api): State<Api>, uri: Uri) -> Result<Response, Problem> {
    let jobs = jobs(&api)?;
    let mut running = Vec::new();
    for (name, launch) in jobs.busy().await?? {
        for (run, row) in launch.runs.iter().enumerate().filter(|(_, r)| !r.state.is_over()) {
            // A run that waits for a place or its key is not busy.
            let Some(began) = row.started_at else { continue };
            running.push((began, dkron::execution(&name, &launch, run, "", None)));
        }
    }
    running.sort_by_key(|(started_at, _)| *started_at);
    let total = running.len();
    let list = Value::Array(running.into_iter().map(|(_, shown)| shown).collect());
    Ok(with_total(answer(jobs, &uri, StatusCode::OK, &list), total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_a_list_ends_with_it_and_one_that_is_too_large_is_refused() {
        let shown = |start, end, total| Shown { start, end }.of_total(total);
        let places = |start, end, total| {
            shown(start, end, total).map(|it| (it.start, it.end)).expect("it is not too large")
        };
        let all = usize::MAX;
        assert_eq!(places(0, all, DKRON_JOBS_MAX), (0, DKRON_JOBS_MAX));
        assert_eq!(places(5, 7, 6), (5, 6));
        assert_eq!(places(7, 9, 6), (6, 6));
        assert_eq!(places(9, 3, 20), (3, 3));
        let million = 1_000_000;
        assert_eq!(places(million - 1, all, million), (million - 1, million));
        let problem = shown(2, all, DKRON_JOBS_MAX + 3).expect_err("it is too large");
        let said = format!("{problem:?}");
        let expected = format!("_start=2&_end={}", DKRON_JOBS_MAX + 2);
        assert!(said.contains(&expected), "{said}");
        assert!(shown(0, DKRON_JOBS_MAX + 1, million).is_err(), "with an end too");
    }
}
