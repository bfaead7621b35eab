//! Names that shells complete: of plans, flows, schedules, jobs and journeys.
//!
//! Completion only reads: a server of the store is asked, else its file is looked at. No lock is
//! taken, so that a completion never keeps another process from the store.

use std::ffi::OsStr;

use clap::FromArgMatches as _;
use clap_complete::engine::CompletionCandidate;
use serde_json::Value;
use turnwheel::engine::store::Filter;

use super::find::{id_of, END_MIN};
use super::place::Place;
use super::settings::{Flags, Settings};
use super::source::Source;

/// Plans that are offered.
const PLANS: usize = 50;

/// Reads names, which may fail: a shell shows no errors.
fn offered(
    current: &OsStr,
    read: impl FnOnce(&Settings) -> Option<Vec<(String, String)>>,
) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let found = settings().and_then(|settings| read(&settings)).unwrap_or_default();
    let fits = found.into_iter().filter(|(name, _)| name.starts_with(current));
    fits.map(|(name, help)| CompletionCandidate::new(name).help(Some(help.into()))).collect()
}

/// The settings of the line that is completed, with its flags as far as they are written.
fn settings() -> Option<Settings> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let command = super::command().ignore_errors(true);
    let matches = command.try_get_matches_from(words).ok();
    let flags = matches.and_then(|matches| Flags::from_arg_matches(&matches).ok());
    Settings::load(&flags.unwrap_or_default()).ok()
}

/// Ids of the newest plans, and their last letters if nothing else begins so.
pub(crate) fn plans(current: &OsStr) -> Vec<CompletionCandidate> {
    let is_begun = current.len() >= END_MIN;
    offered(current, |settings| {
        let newest = Filter { limit: PLANS, ..Filter::default() };
        let rows = Source::of(settings).ok()?.list(&newest).ok()?;
        let about = |row: &turnwheel::api::PlanSummary| {
            format!("{} {} {}", row.label, row.state, row.result)
        };
        let mut all = vec![("last".to_owned(), "the newest plan".to_owned())];
        for row in &rows {
            let id = id_of(row).ok()?.to_string();
            if is_begun {
                all.push((id[id.len() - END_MIN * 2..].to_owned(), about(row)));
            }
            all.push((id, about(row)));
        }
        Some(all)
    })
}

/// Names of schedules.
pub(crate) fn schedules(current: &OsStr) -> Vec<CompletionCandidate> {
    offered(current, |settings| {
        let all = Source::of(settings).ok()?.schedules().ok()?;
        Some(all.into_iter().map(|it| (it.name, it.spec.action)).collect())
    })
}

/// Flows as `namespace/name`: those of a server, else those that plans of the store have run.
pub(crate) fn flows(current: &OsStr) -> Vec<CompletionCandidate> {
    offered(current, |settings| {
        let mut names: Vec<(String, String)> = match served(settings, "/flows?limit=1000") {
            Some(answer) => {
                let all = answer["flows"].as_array()?.iter();
                let text = |flow: &Value, field: &str| flow[field].as_str().map(str::to_owned);
                all.filter_map(|flow| {
                    let name = format!("{}/{}", text(flow, "namespace")?, text(flow, "name")?);
                    Some((name, text(flow, "version")?))
                })
                .collect()
            }
            None => {
                let newest = Filter { limit: PLANS * 20, ..Filter::default() };
                let rows = Source::of(settings).ok()?.list(&newest).ok()?;
                let label = |row: &turnwheel::api::PlanSummary, part: &str| {
                    row.labels.get(&format!("flow.{part}")).cloned()
                };
                let name = |row| {
                    let name = format!("{}/{}", label(row, "namespace")?, label(row, "name")?);
                    Some((name, label(row, "version")?))
                };
                rows.iter().filter_map(name).collect()
            }
        };
        names.sort();
        names.dedup_by(|a, b| a.0 == b.0);
        Some(names)
    })
}

/// Names of jobs of a server.
pub(crate) fn jobs(current: &OsStr) -> Vec<CompletionCandidate> {
    offered(current, |settings| {
        let answer = served(settings, "/jobs")?;
        let name = |job: &Value| {
            let spec = &job["spec"];
            let when = spec["schedule"].as_str().unwrap_or_default();
            Some((spec["name"].as_str()?.to_owned(), when.to_owned()))
        };
        Some(answer["jobs"].as_array()?.iter().filter_map(name).collect())
    })
}

/// Names of journeys of a server.
pub(crate) fn journeys(current: &OsStr) -> Vec<CompletionCandidate> {
    offered(current, |settings| {
        let answer = served(settings, "/journeys")?;
        let name = |journey: &Value| {
            let platform = journey["platform"].as_str().unwrap_or_default();
            Some((journey["name"].as_str()?.to_owned(), platform.to_owned()))
        };
        Some(answer["journeys"].as_array()?.iter().filter_map(name).collect())
    })
}

/// The answer of the server that is named or has the store, if there is one.
fn served(settings: &Settings, path: &str) -> Option<Value> {
    let server = Place::of(settings).served_by(settings).ok()??;
    server.send("GET", path, None).ok()
}
