//! `turnwheel bench starts`: starts of a flow a second over HTTP, each durable before its answer.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use super::figures::{processor_ms, Figures, Wanted};
use super::load::Load;
use super::scratch::Scratch;
use super::served::Served;
use super::{failed, Common, Patience};
use crate::cli::exit::Exit;
use crate::cli::paint::tell;
use crate::cli::remote::Remote;
use crate::cli::settings::Settings;
use crate::cli::span;

/// The started flow: a single step with a value.
pub(super) const ONE_STEP: &str = "\
document: { dsl: '1.0.3', namespace: turnwheel-bench, name: one-step, version: '1.0.0' }
do:
  - greet: { set: { text: hello } }
";

/// Its place under `/api/v1`.
const PATH: &str = "/flows/turnwheel-bench/one-step/1.0.0/start";

/// Starts a second that are wanted, with 64 connections on two cores.
const STARTS_WANTED: f64 = 5_000.0;

/// Connections at most: each is a descriptor here, and one more in a server of our own.
const CONNECTIONS_MAX: i64 = 4_096;

/// Time before the measurement: the first plans find no warm caches.
const WARM_UP: Duration = Duration::from_secs(1);

const AFTER_HELP: &str = "\
Each connection sends a start of a flow with one step, waits for its answer, and sends the next. The answer
comes when the plan is durable; what was begun also runs to its end meanwhile. By default a server of its
own does it, in a process of its own with a new store; with --server one that runs, whose store keeps
the flow turnwheel-bench/one-step and the plans.

Examples:
  turnwheel bench starts
  turnwheel bench starts --connections 8 --time 30s --json
  turnwheel bench starts --server http://127.0.0.1:7070

Exit codes: 0 measured; 1 a measurement failed, or starts were refused; 2 wrong usage; 130 interrupted.";

/// Starts of a flow a second over HTTP, each durable before its answer.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    #[command(flatten)]
    common: Common,

    /// A server that runs, as http://HOST:PORT, instead of one of its own.
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// Connections that each have one start under way.
    #[arg(long, short = 'n', default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=CONNECTIONS_MAX))]
    connections: u16,

    /// Duration of the measurement, after one second that is not counted.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span::duration)]
    time: Duration,
}

pub(super) fn run(
    settings: &Settings,
    arguments: &Arguments,
    patience: &Patience,
) -> Result<(), Exit> {
    let named = arguments.server.as_deref();
    named.map(target).transpose()?;
    let scratch = Scratch::new(&arguments.common.dir)?;
    let mut figures = Figures::new("bench starts");
    tell!("measuring the disk …");
    let floor = scratch.append_floor(patience)?;
    figures.add("append + fdatasync", floor.p50, "ms");
    let own = match named {
        Some(_) => None,
        None => Some(Served::start(&scratch, settings, &scratch.join("starts.db"))?),
    };
    let url = own.as_ref().map(Served::url).or(named).unwrap_or_default().to_owned();
    Remote::new(&url, settings)?.post("/flows", "application/yaml", ONE_STEP.to_owned(), None)?;
    let connections = arguments.connections;
    tell!("starting flows with {connections} connections for {} …", span::long(arguments.time));
    let load = load(settings, &url, usize::from(connections), arguments.time)?;
    let server = own.as_ref().map_or(0, Served::id);
    let before = (processor_ms(std::process::id()), processor_ms(server), ended(&url, settings)?);
    let mut outcome = load.run(patience).map_err(failed)?;
    let after = (processor_ms(std::process::id()), processor_ms(server), ended(&url, settings)?);
    if let Some(own) = own {
        own.end()?;
    }
    let seconds = outcome.took.as_secs_f64();
    let rate = outcome.good as f64 / seconds;
    match connections {
        64 => figures.add_wanted("starts", rate, "a second", Wanted::AtLeast(STARTS_WANTED)),
        _ => figures.add("starts", rate, "a second"),
    }
    figures.add("answer, p50", outcome.percentile_ms(50), "ms");
    figures.add("answer, p99", outcome.percentile_ms(99), "ms");
    let whole = seconds + WARM_UP.as_secs_f64();
    figures.add("plans run to their end", (after.2 - before.2) / whole, "a second");
    let started = (outcome.good + outcome.before) as f64;
    for (name, before, after) in
        [("processors, client", before.0, after.0), ("processors, server", before.1, after.1)]
    {
        if let (Some(before), Some(after)) = (before, after) {
            figures.add(name, (after - before) * 1_000.0 / started, "us a start");
        }
    }
    figures.add("durable starts for each append", rate * floor.p50 / 1_000.0, "");
    figures.add_wanted("not started", outcome.bad as f64, "", Wanted::AtMost(0.0));
    figures.add("measured", seconds, "s");
    figures.print(arguments.common.json, patience)?;
    match outcome.problem {
        Some(problem) => Err(failed(format!("{} were not started: {problem}", outcome.bad))),
        None => Ok(()),
    }
}

/// The host and the address of a server.
fn target(url: &str) -> Result<(&str, SocketAddr), Exit> {
    let wrong = |problem: &str| {
        Exit::usage(format!("bench: the server {url}: {problem}"))
            .advice("name it as http://HOST:PORT; TLS is not measured")
    };
    let host = url.strip_prefix("http://").ok_or_else(|| wrong("its address is no http://"))?;
    let host = host.trim_end_matches('/');
    let mut found = host.to_socket_addrs().map_err(|error| wrong(&error.to_string()))?;
    Ok((host, found.next().ok_or_else(|| wrong("it has no address"))?))
}

/// The requests to a server.
fn load(settings: &Settings, url: &str, connections: usize, time: Duration) -> Result<Load, Exit> {
    let (host, to) = target(url)?;
    let token = settings.text("token").map(|token| format!("authorization: Bearer {token}\r\n"));
    let token = token.unwrap_or_default();
    let body = "{}";
    let length = body.len();
    let request = format!(
        "POST /api/v1{PATH} HTTP/1.1\r\nhost: {host}\r\n{token}content-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    let request = request.into_bytes();
    Ok(Load { to, request, status: 201, connections, warm_up: WARM_UP, time })
}

/// Plans that have ended since the server was started.
fn ended(url: &str, settings: &Settings) -> Result<f64, Exit> {
    let stats = Remote::new(url, settings)?.send("GET", "/stats", None)?;
    Ok(stats["figures"]["plans_ended"].as_f64().unwrap_or(f64::NAN))
}
