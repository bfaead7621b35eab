//! `turnwheel serve`: a world over HTTP, on one file.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use turnwheel::engine::flow::Flows;
use turnwheel::engine::{Retention, SqliteStore, World};
use turnwheel::http::serve::{start_log, start_log_and_traces, Listen, LogFormat, Server};
use turnwheel::http::{Access, Options, Role, Token};
use turnwheel::incident;
use turnwheel::work::Workers;

use super::exit::Exit;
use super::outside::host_io;
use super::place::Place;
use super::settings::{self, Settings};
use super::span;
use super::traces;

/// Text after the options in `turnwheel help serve`.
const AFTER_HELP: &str = "\
Who may ask:
  Without tokens only this machine may ask, and only addresses of this machine are listened on.
  A file of tokens has a line for each: role (read or operate), name, secret, with blanks between;
  empty lines and those that begin with # mean nothing. TURNWHEEL_TOKEN is one more that operates.
  Clients send «Authorization: Bearer SECRET», or name and secret as basic authentication.

What is where:
  /console/               the console, for a browser; / leads there
  /api/v1/…               the API; /api/v1/openapi.json describes it
  /health                 200 if something was committed to the store within the last seconds
  /metrics                figures, as Prometheus reads them

The first line on standard output says where it listens. SIGTERM and Ctrl-C stop it in order: new work is
refused, requests under way are answered, the world is shut down. Plans go on at the next start, also
after kill -9.

Examples:
  turnwheel serve --store wheel.db
  turnwheel serve --store /var/lib/turnwheel/wheel.db --log-format json
  turnwheel serve --store wheel.db --listen 0.0.0.0:7070 --tokens tokens.txt \\
      --tls-certificates chain.pem --tls-key key.pem

Exit codes: 0 stopped in order, 1 it could not serve or did not stop in time, 2 wrong usage.";

/// Serve a world over HTTP: the API, its figures and its health, in one process on one file.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Address to listen on; port 0 takes a free one.
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "TURNWHEEL_LISTEN",
        default_value = "127.0.0.1:7070",
        value_parser = address
    )]
    listen: SocketAddr,

    /// File of tokens: those who have one may ask.
    #[arg(long, value_name = "FILE", env = "TURNWHEEL_TOKENS")]
    tokens: Option<PathBuf>,

    /// File with the chain of certificates for TLS, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificates: Option<PathBuf>,

    /// File with the key for TLS, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificates")]
    tls_key: Option<PathBuf>,

    /// Requests a second that each token may make in the long run; as many as there are by default.
    #[arg(long, value_name = "NUMBER")]
    rate: Option<u32>,

    /// The longest body, such as 64KiB or 4MiB.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    body_bytes_max: Option<usize>,

    /// How long the head of a request may take, with the time between two requests of a connection.
    #[arg(long, value_name = "TIME", value_parser = span::duration, default_value = "60s")]
    head_within: Duration,

    /// How long a peer may take nothing of what is sent to it, before its connection is cut.
    #[arg(long, value_name = "TIME", value_parser = span::duration, default_value = "30s")]
    write_within: Duration,

    /// How long requests that are under way, and then steps that run, may take to end at a stop; what has
    /// not ended by then is interrupted, and begins anew at the next start.
    #[arg(long, value_name = "TIME", value_parser = span::duration, default_value = "10s")]
    stop_within: Duration,

    /// Collector that gets the steps as traces, OTLP over HTTP, such as <http://localhost:4318>.
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,

    /// How lines of the log look, on standard error.
    #[arg(long, value_enum, default_value = "text", env = "TURNWHEEL_LOG_FORMAT")]
    log_format: Format,

    /// What is logged: a level, or levels by target such as info,turnwheel::http=debug.
    #[arg(long, value_name = "FILTER", default_value = "info", env = "TURNWHEEL_LOG")]
    log: String,
}

/// How lines of the log look.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// How long commands have to end when this process ends.
const COMMANDS: Duration = Duration::from_secs(30);

/// An address as it is typed, a name of a machine included.
fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong = || {
        format!("«{text}» is no address to listen on: write it as 127.0.0.1:7070 or localhost:7070")
    };
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let found = text.to_socket_addrs().map_err(|_| wrong())?;
    let all: Vec<SocketAddr> = found.collect();
    // Of two families the older one: it is what clients try that know nothing.
    let first = all.iter().find(|address| address.is_ipv4()).or(all.first());
    first.copied().ok_or_else(wrong)
}

fn bytes(text: &str) -> Result<usize, String> {
    let wrong = || format!("«{text}» is no number of bytes: write it as 512KiB or 4MiB");
    settings::bytes(text).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

/// Serves until somebody stops it.
pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let format = match arguments.log_format {
        Format::Text => LogFormat::Text,
        Format::Json => LogFormat::Json,
    };
    let (layer, exporter) = traces::of(settings, arguments.otlp.as_deref())?.unzip();
    let started = match layer {
        Some(layer) => start_log_and_traces(format, &arguments.log, layer),
        None => start_log(format, &arguments.log),
    };
    started.map_err(|error| wrong(&error, "see turnwheel help serve for what can be logged"))?;
    let options = options(arguments)?;
    let mut listen = Listen::at(arguments.listen)
        .head_within(arguments.head_within)
        .write_within(arguments.write_within)
        .stop_within(arguments.stop_within);
    if let (Some(chain), Some(key)) = (&arguments.tls_certificates, &arguments.tls_key) {
        listen = listen.tls(chain, key);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("http")
        .build()
        .map_err(|error| failed(&error, "check the limits on threads of this process"))?;
    let store = Place::writable(settings);
    let workers = Workers::new();
    let io = host_io(settings);
    let builder = World::builder().action(workers.action()).flows(io.clone());
    let builder = match retention(settings) {
        Some(retention) => builder.keep(retention),
        None => builder,
    };
    let world = builder.build(store.clone()).map_err(|error| {
        Exit::from(error).advice("stop what uses the store, or take another file with --store")
    })?;
    workers.attach(&world);
    let options = options.workers(&workers);
    runtime.block_on(note(&world));
    // As long as it serves.
    let _life_cycle = match Flows::new(&world) {
        Ok(flows) if settings.flag("flows.life-cycle") => Some(flows.publish_life_cycle()),
        _ => None,
    };
    let outcome = runtime.block_on(serve(&world, &store, options, listen));
    let shut = world.shutdown_within(arguments.stop_within);
    // What comes of commands counts no more; they must not go on beside the next attempt.
    let have_ended = io.end(COMMANDS);
    traces::end(exporter);
    let is_drained = outcome?;
    if shut.is_err() || !have_ended {
        tracing::warn!("what runs now is interrupted, and begins anew at the next start");
    }
    if !have_ended {
        return Err(failed(&"commands do not end", "look for processes that are left over"));
    }
    if !is_drained {
        return Err(failed(
            &"some requests were not answered in time",
            "what they had begun goes on at the next start",
        ));
    }
    Ok(())
}

/// Which plans are removed by the clock, if the settings say so.
fn retention(settings: &Settings) -> Option<Retention> {
    settings.text("retention.stopped")?;
    let retention = Retention::older_than(settings.length("retention.stopped"));
    Some(match settings.text("retention.export") {
        Some(folder) => retention.export_to(folder),
        None => retention,
    })
}

/// Logs and writes down that the process before has ended without closing.
async fn note(world: &World) {
    match incident::note(world).await {
        Ok(found) => found.iter().for_each(|incident| tracing::warn!("{incident}")),
        Err(error) => {
            let before = world.predecessors().len();
            tracing::warn!(%error, before, "processes have ended without closing, which is not noted");
        }
    }
}

async fn serve(
    world: &World,
    store: &SqliteStore,
    options: Options,
    listen: Listen,
) -> Result<bool, Exit> {
    let server = Server::bind(world, options, listen)
        .await
        .map_err(|error| wrong(&error, "give another address with --listen, or --tokens"))?;
    let stop = stop_signal().map_err(|error| failed(&error, "signals cannot be listened for"))?;
    // Other verbs find the server by it.
    store.announce(&server.url())?;
    announce(&server.url())?;
    tracing::info!(address = %server.address(), ?store, "listening");
    let stopped = server.run(stop).await;
    tracing::info!(is_drained = stopped.is_drained, "stopped");
    Ok(stopped.is_drained)
}

/// The first line of standard output, which scripts wait for.
fn announce(url: &str) -> Result<(), Exit> {
    use std::io::Write as _;
    let mut output = std::io::stdout().lock();
    let written = writeln!(output, "listening on {url}").and_then(|()| output.flush());
    written.map_err(|error| failed(&error, "standard output is closed"))
}

/// Ends when somebody wants the server to stop.
fn stop_signal() -> std::io::Result<impl std::future::Future<Output = ()>> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{signal, SignalKind};
        // A limit on the size of files (LimitFSIZE, ulimit -f) is a store that is full, and no death. Who
        // has asked for the signal once is not killed by it, whether it is read or not.
        let _too_large = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        Ok(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        })
    }
    #[cfg(not(unix))]
    Ok(async {
        // Without a handler there is no orderly stop, and nothing that is durable is lost.
        let _ = tokio::signal::ctrl_c().await;
    })
}

fn options(arguments: &Arguments) -> Result<Options, Exit> {
    let mut tokens = match &arguments.tokens {
        Some(file) => read_tokens(file)?,
        None => Vec::new(),
    };
    if let Ok(secret) = std::env::var("TURNWHEEL_TOKEN") {
        if !secret.is_empty() {
            tokens.push(Token::new("operator", Role::Operate, &secret));
        }
    }
    let access = if tokens.is_empty() { Access::Loopback } else { Access::Tokens(tokens) };
    let mut options = Options::new(access);
    if let Some(rate) = arguments.rate {
        options = options.rate(rate, rate.saturating_mul(2));
    }
    if let Some(bytes) = arguments.body_bytes_max {
        options = options.body_bytes_max(bytes);
    }
    Ok(options)
}

fn read_tokens(file: &Path) -> Result<Vec<Token>, Exit> {
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| wrong(&format!("{name}: {error}"), "give a file of tokens"))?;
    let mut tokens = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parts: Vec<&str> = line.split_whitespace().collect();
        let [role, who, secret] = parts[..] else {
            // The line is not shown: it may hold a secret.
            let problem = format!("{name}, line {}: it has {} parts", at + 1, parts.len());
            return Err(wrong(&problem, "a line has a role, a name and a secret"));
        };
        let Some(role) = Role::from_name(role) else {
            let problem = format!("{name}, line {}: there is no such role", at + 1);
            return Err(wrong(&problem, "a role is read or operate"));
        };
        tokens.push(Token::new(who, role, secret));
    }
    if tokens.is_empty() {
        return Err(wrong(&format!("{name} holds no token"), "give a file with tokens, or none"));
    }
    Ok(tokens)
}

fn wrong(problem: &dyn std::fmt::Display, advice: &'static str) -> Exit {
    Exit::usage(format!("serve: {problem}")).advice(advice)
}

fn failed(problem: &dyn std::fmt::Display, advice: &'static str) -> Exit {
    Exit::failed(format!("serve: {problem}")).advice(advice)
}
