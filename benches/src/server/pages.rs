//! Requests of each page of the console, with many plans in the store.

use std::collections::BTreeSet;
use std::time::Instant;

use indicatif::ProgressBar;

use super::{crowd, is_interrupted, ms_since, serve, times, Options};
use crate::engine::{row, SceneRow};
use crate::error::{check, BenchError};
use crate::serve_common::{agent, Place, Serve};

/// Measured requests of each page, after one that is not counted.
const TIMES: usize = 5;

/// The name of the store in its folder.
const STORE: &str = "pages.db";

const CONSOLE: &str = "/console/";

pub(super) fn pages(
    place: &Place,
    options: &Options,
    bar: &ProgressBar,
) -> Result<Vec<SceneRow>, BenchError> {
    let store = match &options.keep {
        Some(folder) => std::fs::create_dir_all(folder)
            .and_then(|()| folder.canonicalize())
            .map_err(|source| BenchError::File { path: folder.display().to_string(), source })?
            .join(STORE),
        None => place.path(STORE),
    };
    let is_there = store.exists();
    let store = store.display().to_string();
    let mut all = Vec::new();
    if !is_there {
        bar.set_message("making the plans of pages");
        let begin = Instant::now();
        let server = serve(place, &["--store", &store], "off");
        crowd::make(&server, options, bar)?;
        server.stopped();
        all.push(row("pages_store", "made_s", ms_since(begin) / 1_000.0));
    }
    if is_interrupted() {
        return Ok(all);
    }
    let begin = Instant::now();
    let server = serve(place, &["--store", &store], "full");
    all.push(row("pages_store", "listening_ms", ms_since(begin)));
    let (large, small) = (newest(&server, "large")?, newest(&server, "order")?);
    let agent = agent();
    for (page, paths) in requests(&server, &large, &small) {
        bar.set_message(page);
        let (mut ms, mut bytes) = (Vec::new(), 0);
        for time in 0..=TIMES {
            if is_interrupted() {
                break;
            }
            let begin = Instant::now();
            bytes = 0;
            for path in &paths {
                let answer = server.try_send(&agent, "GET", path, &[], None);
                let answer =
                    answer.map_err(|error| BenchError::Failed(format!("{path}: {error}")))?;
                check(format!("status of {path}"), answer.status, 200)?;
                bytes += answer.text.len();
            }
            if time > 0 {
                ms.push(ms_since(begin));
            }
        }
        if ms.is_empty() {
            break;
        }
        all.extend(times(page, ms));
        all.push(row(page, "kib", bytes as f64 / 1_024.0));
    }
    server.stopped();
    Ok(all)
}

/// The newest plan of a kind that has ended well.
fn newest(server: &Serve, kind: &str) -> Result<String, BenchError> {
    let page =
        server.get(&format!("/api/v1/plans?labels=kind%3D{kind}&result=success&limit=1")).ok();
    page["plans"][0]["id"].as_str().map(str::to_owned).ok_or_else(|| {
        BenchError::Failed("the store was not made to its end: name another folder".to_owned())
    })
}

/// The document of the console, and the files that it names.
fn files(server: &Serve) -> Vec<String> {
    let document = server.get(CONSOLE).text;
    let named = ["href=\"", "src=\""].into_iter().flat_map(|begin| document.split(begin).skip(1));
    let named = named.filter_map(|rest| rest.split('"').next());
    let files: BTreeSet<&str> =
        named.filter(|name| name.contains('.') && !name.contains([':', '#'])).collect();
    files.into_iter().chain([""]).map(|name| format!("{CONSOLE}{name}")).collect()
}

/// The requests of each page.
fn requests(server: &Serve, large: &str, small: &str) -> Vec<(&'static str, Vec<String>)> {
    let api = |paths: &[&str]| paths.iter().map(|path| format!("/api/v1/{path}")).collect();
    let plan = |id: &str, part: &str| api(&[&format!("plans/{id}"), &format!("plans/{id}/{part}")]);
    let overview = [
        "stats",
        "stats/ended",
        "plans?state=paused&limit=10",
        "plans?result=error&state=stopped&limit=10",
    ];
    vec![
        ("page_files", files(server)),
        ("page_overview", api(&overview)),
        ("page_runs", api(&["plans?limit=50", "stats"])),
        ("page_runs_failed", api(&["plans?limit=50&result=error", "stats"])),
        ("page_runs_by_label", api(&["plans?limit=50&labels=customer%3Dcustomer-7", "stats"])),
        ("page_runs_by_text", api(&["plans?limit=50&text=refused", "stats"])),
        ("page_runs_oldest_first", api(&["plans?limit=50&order=oldest", "stats"])),
        ("page_run", plan(small, "graph")),
        ("page_run_tree", plan(small, "tree")),
        ("page_run_history", plan(small, "history")),
        ("page_large_run", api(&[&format!("plans/{large}")])),
        ("page_large_run_graph", plan(large, "graph")),
        ("page_large_run_tree", plan(large, "tree")),
        ("page_large_run_timeline", plan(large, "timeline")),
        ("page_large_run_history", plan(large, "history")),
        ("page_large_run_steps", api(&[&format!("plans/{large}/steps?limit=100")])),
        ("page_flows", api(&["flows", "schedules?limit=1000"])),
        ("page_flow", api(&["flows", "flows/bench/order/1.0.0"])),
        ("page_entities", api(&["entities"])),
        ("page_runtime", api(&["runtime", "stats"])),
        ("page_schedules", api(&["schedules?limit=100"])),
        ("page_events", api(&["events/recent", "dead-letters"])),
        ("page_system", api(&["stats", "actions", "locks", "world", "nodes"])),
    ]
}
