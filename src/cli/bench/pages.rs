//! `turnwheel bench pages`: requests of the console, page by page, with many plans in the store.

use std::path::PathBuf;
use std::time::Instant;

use super::crowd::{self, Crowd};
use super::figures::{ends, Figures, Wanted};
use super::scratch::Scratch;
use super::served::Served;
use super::{failed, Common, Patience};
use crate::cli::exit::Exit;
use crate::cli::outside::host_io;
use crate::cli::paint::tell;
use crate::cli::settings::Settings;

/// Milliseconds after which the first content of a page should be seen.
const PAGE_WANTED_MS: f64 = 300.0;

/// Number of measured requests of each page, after one that is not counted.
const TIMES: usize = 5;

/// The name of the store in its folder.
const STORE: &str = "pages.db";

const AFTER_HELP: &str = "\
Makes a store with many plans (most are over, some have failed, some wait, one has many steps), serves it,
and asks for what each page of the console asks for: its files, then its requests to the API, one after the
other. A browser adds the time to draw them.

With --keep the store stays in a folder, to be looked at with a browser; one that is there is used again:
  turnwheel bench pages --keep crowd
  turnwheel serve --store crowd/pages.db       then http://127.0.0.1:7070/console/

Examples:
  turnwheel bench pages
  turnwheel bench pages --plans 10000 --steps 1000 --json

Exit codes: 0 measured; 1 a measurement failed; 2 wrong usage; 130 interrupted.";

/// Time of the requests of each console page, with many plans in the store.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    #[command(flatten)]
    common: Common,

    /// Plans in the store.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    plans: u32,

    /// Steps of the largest of them.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: u32,

    /// A folder in which the store stays; an existing store is used again.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

pub(super) fn run(
    settings: &Settings,
    arguments: &Arguments,
    patience: &Patience,
) -> Result<(), Exit> {
    let scratch = Scratch::new(&arguments.common.dir)?;
    let mut figures = Figures::new("bench pages");
    let store = match &arguments.keep {
        Some(folder) => std::fs::create_dir_all(folder)
            .and_then(|()| folder.canonicalize())
            .map_err(|error| Exit::usage(format!("bench: {}: {error}", folder.display())))?
            .join(STORE),
        None => scratch.join(STORE),
    };
    if store.exists() {
        tell!("{} is used again", store.display());
    } else {
        tell!("making {} plans …", arguments.plans);
        let (plans, steps) = (arguments.plans, arguments.steps);
        let begin = Instant::now();
        let Crowd { large, small } =
            crowd::make(&store, plans, steps, host_io(settings), patience)?;
        figures.add("making the store", begin.elapsed().as_secs_f64(), "s");
        let named = format!("{large} {small}\n");
        std::fs::write(names(&store), named).map_err(failed)?;
    }
    let named = std::fs::read_to_string(names(&store)).map_err(|error| {
        failed(format!("{}: {error}", names(&store).display()))
            .advice("the store was not made by this command: give another folder with --keep")
    })?;
    let mut named = named.split_whitespace();
    let (large, small) = (named.next().unwrap_or_default(), named.next().unwrap_or_default());

    let served = Served::start(&scratch, settings, &store)?;
    figures.add("serve, listening", served.listening_after.as_secs_f64() * 1_000.0, "ms");
    let config = ureq::Agent::config_builder().proxy(None).build();
    let agent: ureq::Agent = config.into();
    for (page, requests) in pages(files(&agent, served.url())?, large, small) {
        tell!("{page} …");
        let mut ms = Vec::new();
        let mut bytes = 0;
        for time in 0..=TIMES {
            if patience.is_over() {
                break;
            }
            let begin = Instant::now();
            bytes = 0;
            for request in &requests {
                bytes += asked(&agent, served.url(), request)?;
            }
            if time > 0 {
                ms.push(begin.elapsed().as_secs_f64() * 1_000.0);
            }
        }
        let Some(ends) = ends(&mut ms) else { break };
        figures.add_wanted(page, ends.median, "ms", Wanted::Below(PAGE_WANTED_MS));
        figures.add(format!("{page}, worst"), ends.max, "ms");
        figures.add(format!("{page}, size"), bytes as f64 / 1_024.0, "KiB");
    }
    served.end()?;
    figures.print(arguments.common.json, patience)
}

/// The file beside a store with the names of two of its plans.
fn names(store: &std::path::Path) -> PathBuf {
    store.with_extension("plans")
}

/// The document of the console, and the files that it names.
fn files(agent: &ureq::Agent, url: &str) -> Result<Vec<String>, Exit> {
    const CONSOLE: &str = "/console/";
    let answer = agent.get(format!("{url}{CONSOLE}")).call();
    let document = answer.and_then(|answer| answer.into_body().read_to_string());
    let document = document.map_err(|error| failed(format!("{CONSOLE}: {error}")))?;
    let named = ["href=\"", "src=\""].into_iter().flat_map(|begin| document.split(begin).skip(1));
    let mut files: Vec<String> = named
        .filter_map(|rest| rest.split('"').next())
        .filter(|name| name.contains('.') && !name.contains(['/', '#']))
        .map(|name| format!("{CONSOLE}{name}"))
        .collect();
    files.push(CONSOLE.to_owned());
    files.sort_unstable();
    files.dedup();
    Ok(files)
}

/// The bytes of an answer, which has to be a good one.
fn asked(agent: &ureq::Agent, url: &str, path: &str) -> Result<usize, Exit> {
    let wrong = |error: ureq::Error| failed(format!("{path}: {error}"));
    let mut answer = agent.get(format!("{url}{path}")).call().map_err(wrong)?;
    let body = answer.body_mut().with_config().limit(1 << 30).read_to_vec().map_err(wrong)?;
    Ok(body.len())
}

/// The requests of each console page.
fn pages(files: Vec<String>, large: &str, small: &str) -> Vec<(&'static str, Vec<String>)> {
    let api = |paths: &[&str]| paths.iter().map(|path| format!("/api/v1/{path}")).collect();
    let plan =
        |id: &str, picture: &str| api(&[&format!("plans/{id}"), &format!("plans/{id}/{picture}")]);
    vec![
        ("files of the console", files),
        (
            "overview",
            api(&[
                "stats",
                "plans?state=paused&limit=10",
                "plans?result=error&state=stopped&limit=10",
            ]),
        ),
        ("plans", api(&["plans?limit=50", "stats"])),
        ("plans, failed", api(&["plans?limit=50&result=error", "stats"])),
        ("plans, by label", api(&["plans?limit=50&labels=customer=customer-7", "stats"])),
        ("plans, by name", api(&["plans?limit=50&label=order%2012345", "stats"])),
        ("plans, oldest first", api(&["plans?limit=50&order=oldest", "stats"])),
        ("a plan", plan(small, "graph")),
        ("a plan, tree", plan(small, "tree")),
        ("a plan, history", plan(small, "history")),
        ("plan of many steps", api(&[&format!("plans/{large}")])),
        ("plan of many steps, graph", plan(large, "graph")),
        ("plan of many steps, tree", plan(large, "tree")),
        ("plan of many steps, timeline", plan(large, "timeline")),
        ("plan of many steps, history", plan(large, "history")),
        ("plan of many steps, steps", api(&[&format!("plans/{large}/steps?limit=100")])),
        ("flows", api(&["flows"])),
        ("a flow", api(&["flows", "flows/bench/order/1.0.0"])),
        ("entities", api(&["entities"])),
        ("runtime", api(&["runtime", "stats"])),
        ("schedules", api(&["schedules?limit=100"])),
        ("events and dead letters", api(&["dead-letters"])),
        ("world", api(&["stats", "actions", "locks"])),
    ]
}
