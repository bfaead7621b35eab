//! `turnwheel serve`: a world over HTTP, on one file.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use turnwheel::engine::store::Store as _;
use turnwheel::engine::{Queue, Retention, World};
use turnwheel::flow::{Flows, WithFlows};
use turnwheel::http::serve::{start_log, start_log_and_traces, Closing, Listen, LogFormat, Server};
use turnwheel::http::{Access, Options, Role, Token};
use turnwheel::incident;
use turnwheel::jobs::WithJobs;
use turnwheel::work::{WithWorkers, Workers};

use super::descriptors;
use super::exit::Exit;
use super::node;
use super::notify::Supervisor;
use super::outside::host_io;
use super::place::Place;
use super::settings::{self, Origin, Settings};
use super::signals;
use super::span;
use super::traces;
use super::{job, journey};

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

Flags but --otlp are settings of the table [serve] as well, in the configuration file and in the
environment (turnwheel config print): --listen is serve.listen, or TURNWHEEL_LISTEN.

The first line on standard output says where it listens. SIGTERM and Ctrl-C stop it in order: new work is
refused, requests under way are answered, the world is shut down. Plans go on at the next start, also
after kill -9. SIGHUP reads tokens and certificates again. systemd is told when it is ready (Type=notify).

Examples:
  turnwheel serve --store wheel.db
  turnwheel serve --store postgres://turnwheel@db.example/plans
  turnwheel serve --store postgres://turnwheel@db.example/plans --node one --label region=eu
  turnwheel serve --store /var/lib/turnwheel/wheel.db --log-format json
  turnwheel serve --store wheel.db --listen 0.0.0.0:7070 --tokens tokens.txt \\
      --tls-certificates chain.pem --tls-key key.pem

Exit codes: 0 stopped in order, 1 it could not serve or did not stop in time, 2 wrong usage.";

/// Serve a world over HTTP: the API, its figures and its health, in one process on one file.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Address to listen on; port 0 takes a free one [default: 127.0.0.1:7070].
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Option<SocketAddr>,

    /// Name of this process among those that share a store on PostgreSQL; alone if nothing is said.
    #[arg(long, value_name = "NAME", value_parser = node::name)]
    node: Option<String>,

    /// Label of the node, such as region=eu; can be said several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = node::label)]
    label: Vec<String>,

    /// Time for which a node may be silent before others have its plans; the same for all of them
    /// [default: 3s].
    #[arg(long, value_name = "TIME", value_parser = length)]
    lease: Option<String>,

    /// URL under which others reach this node, if it is not the one that it listens on.
    #[arg(long, value_name = "URL", value_parser = node::url)]
    address: Option<String>,

    /// File of tokens; requests need one of them.
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,

    /// File with the chain of certificates for TLS, PEM.
    #[arg(long, value_name = "FILE")]
    tls_certificates: Option<PathBuf>,

    /// File with the key for TLS, PEM.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// Connections at once; for a further one the connection that is idle longest is closed
    /// [default: 4096, and fewer where fewer files may be open].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    connections_max: Option<u32>,

    /// Let flows run shell commands, scripts and containers. Without tokens that has to be said,
    /// because everybody on this machine could add such a flow; with tokens it is allowed unless
    /// io.allow-shell forbids it.
    #[arg(long)]
    allow_shell: bool,

    /// Requests a second that each token may make in the long run; as many as there are by default.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,

    /// The longest body, such as 64KiB or 4MiB.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    body_bytes_max: Option<String>,

    /// Time limit of the head of a request, with the time between two requests of a connection
    /// [default: 60s].
    #[arg(long, value_name = "TIME", value_parser = length)]
    head_within: Option<String>,

    /// Close a connection whose client reads nothing for this long [default: 30s].
    #[arg(long, value_name = "TIME", value_parser = length)]
    write_within: Option<String>,

    /// Time limit at a stop for running requests, and then for running steps; a step that has not
    /// ended by then is interrupted, and runs again at the next start [default: 10s].
    #[arg(long, value_name = "TIME", value_parser = length)]
    stop_within: Option<String>,

    /// Collector that gets the steps as traces, OTLP over HTTP, such as <http://localhost:4318>.
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,

    /// Format of log lines on standard error [default: text].
    #[arg(long, value_parser = ["text", "json"])]
    log_format: Option<String>,

    /// Log filter: a level, or levels by target such as info,turnwheel::http=debug [default: info].
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
}

impl Arguments {
    /// The settings, overridden by these flags.
    fn over(&self, settings: &Settings) -> Settings {
        let mut settings = settings.clone();
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        settings.take("serve.listen", self.listen.map(|address| address.to_string()));
        settings.take("serve.node", self.node.clone());
        settings.take("serve.labels", Some(self.label.join(",")).filter(|all| !all.is_empty()));
        settings.take("serve.lease", self.lease.clone());
        settings.take("serve.address", self.address.clone());
        settings.take("serve.tokens", path(&self.tokens));
        settings.take("serve.tls-certificates", path(&self.tls_certificates));
        settings.take("serve.tls-key", path(&self.tls_key));
        settings.take("serve.connections-max", self.connections_max.map(|max| max.to_string()));
        settings.take("serve.rate", self.rate.map(|rate| rate.to_string()));
        settings.take("serve.body-bytes-max", self.body_bytes_max.clone());
        settings.take("serve.head-within", self.head_within.clone());
        settings.take("serve.write-within", self.write_within.clone());
        settings.take("serve.stop-within", self.stop_within.clone());
        settings.take("otlp", self.otlp.clone());
        settings.take("io.allow-shell", self.allow_shell.then(|| "true".to_owned()));
        if !is_guarded(&settings) && *settings.get("io.allow-shell").1 == Origin::Default {
            settings.take("io.allow-shell", Some("false".to_owned()));
        }
        settings.take("serve.log-format", self.log_format.clone());
        settings.take("serve.log", self.log.clone());
        settings
    }
}

/// Bytes of a token, too many to guess.
const TOKEN_BYTES: usize = 16;

/// Time for commands to end at the end of this process.
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
    // IPv4 first: simple clients try it first.
    let first = all.iter().find(|address| address.is_ipv4()).or(all.first());
    first.copied().ok_or_else(wrong)
}

fn bytes(text: &str) -> Result<String, String> {
    let wrong = || format!("«{text}» is no number of bytes: write it as 512KiB or 4MiB");
    settings::bytes(text).filter(|bytes| *bytes > 0).map(|_| text.to_owned()).ok_or_else(wrong)
}

fn length(text: &str) -> Result<String, String> {
    span::duration(text).map(|_| text.to_owned())
}

/// Serves until a stop.
pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let settings = &arguments.over(settings);
    let format = match settings.get("serve.log-format").0 {
        "json" => LogFormat::Json,
        _ => LogFormat::Text,
    };
    let (layer, exporter) = traces::of(settings, None)?.unzip();
    let log = settings.get("serve.log").0;
    let started = match layer {
        Some(layer) => start_log_and_traces(format, log, layer),
        None => start_log(format, log),
    };
    started.map_err(|error| wrong(&error, "see turnwheel help serve for what can be logged"))?;
    let options = options(settings)?;
    let listen = listen(settings)?;
    exposures(settings).iter().for_each(|exposure| tracing::warn!("{exposure}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("http")
        .build()
        .map_err(|error| failed(&error, "check the limits on threads of this process"))?;
    let store = Place::writable(settings)?;
    let workers = Workers::new();
    let io = host_io(settings);
    let unclean_ends = settings.count("serve.unclean-ends-max");
    let executors = io.executors().runs_max(settings.count("jobs.runs-max"));
    let builder = World::builder().workers(&workers).flows(io.clone()).jobs(&executors);
    let builder = builder.unclean_ends_max(unclean_ends);
    let queue = Queue::new("default").size(settings.count("flows.tasks-max"));
    let builder = builder.queue(queue.only_blocking());
    let builder = match retention(settings) {
        Some(retention) => builder.keep(retention),
        None => builder,
    };
    let (world, shared) = node::enter(builder, &store, settings)?;
    workers.attach(&world);
    let (jobs, group) = job::open(settings, &world, &executors, false)?;
    let (journeys, journeys_group) = journey::open(&world, settings, false)?;
    let options = options.workers(&workers).jobs(&jobs).journeys(&journeys);
    runtime.block_on(note(&world));
    // As long as it serves.
    let _life_cycle = match Flows::new(&world) {
        Ok(flows) if settings.flag("flows.life-cycle") => Some(flows.publish_life_cycle()),
        _ => None,
    };
    let announced = node::Announced { store: &store, settings };
    let outcome = runtime.block_on(serve(&world, announced, options, listen));
    jobs.end();
    journeys.end();
    let shut = world.shutdown_within(settings.length("serve.stop-within"));
    let shut = shut.and_then(|()| shared.map_or(Ok(()), |shared| shared.close()));
    let _jobs_ended = group.shutdown();
    let _journeys_ended = journeys_group.shutdown();
    // Results of commands do not count now; they must not run beside the next attempt.
    let have_ended = io.end(COMMANDS);
    traces::end(exporter);
    // Until now new connections have heard of the stop.
    let is_drained = outcome.map(|(is_drained, _closing)| is_drained)?;
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

/// The retention of plans, if the settings ask for it.
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
    announced: node::Announced<'_>,
    options: Options,
    listen: Listen,
) -> Result<(bool, Closing), Exit> {
    let server = Server::bind(world, options, listen).await.map_err(|error| {
        wrong(&error, "--listen gives another address, --tokens lets others ask")
    })?;
    let stop = signals::stop().map_err(|error| failed(&error, "signals cannot be listened for"))?;
    // Other verbs find the server by it.
    announced.at(world, &server.url()).await?;
    announce(&server.url())?;
    tracing::info!(address = %server.address(), store = announced.store.name(), sync = announced.settings.get("sync").0, "listening");
    let supervisor = Supervisor::of_environment();
    let reload = signals::reload(announced.settings, server.reloader(), &supervisor)
        .map_err(|error| failed(&error, "signals cannot be listened for"))?;
    supervisor.ready();
    let closing = server.closing();
    let running = server.run(async {
        stop.await;
        supervisor.stopping();
    });
    let stopped = tokio::select! {
        stopped = running => stopped,
        never = supervisor.live() => match never {},
        never = reload => match never {},
    };
    tracing::info!(is_drained = stopped.is_drained, "stopped");
    Ok((stopped.is_drained, closing))
}

/// The first line of standard output, which scripts wait for.
fn announce(url: &str) -> Result<(), Exit> {
    use std::io::Write as _;
    let mut output = std::io::stdout().lock();
    let written = writeln!(output, "listening on {url}").and_then(|()| output.flush());
    written.map_err(|error| failed(&error, "standard output is closed"))
}

fn listen(settings: &Settings) -> Result<Listen, Exit> {
    let at = settings.get("serve.listen").0;
    let at = address(at).map_err(|problem| {
        let place = settings.place("serve.listen");
        wrong(&format!("{place}: {problem}"), "give another address with --listen")
    })?;
    let wanted = settings.count("serve.connections-max") as usize;
    let descriptors = descriptors::raise();
    let connections = descriptors::connections(wanted, descriptors);
    if connections < wanted {
        tracing::warn!(wanted, connections, ?descriptors, "open files limit the connections");
    }
    let listen = Listen::at(at)
        .connections_max(connections)
        .head_within(settings.length("serve.head-within"))
        .write_within(settings.length("serve.write-within"))
        .stop_within(settings.length("serve.stop-within"));
    match tls(settings) {
        Ok(None) => Ok(listen),
        Ok(Some((chain, key))) => Ok(listen.tls(chain, key)),
        Err(problem) => Err(wrong(&problem, "TLS needs both, certificates and key")),
    }
}

/// The certificates and the key, if TLS is configured; the error names the missing one.
fn tls(settings: &Settings) -> Result<Option<(&str, &str)>, String> {
    let (chain, key) = ("serve.tls-certificates", "serve.tls-key");
    match (settings.text(chain), settings.text(key)) {
        (None, None) => Ok(None),
        (Some(chain), Some(key)) => Ok(Some((chain, key))),
        (Some(_), None) => Err(lone(settings, chain, key)),
        (None, Some(_)) => Err(lone(settings, key, chain)),
    }
}

/// The error for one of two settings without the other.
fn lone(settings: &Settings, given: &str, missing: &str) -> String {
    let flag = missing.strip_prefix("serve.").unwrap_or(missing);
    format!("{} is given, and «{missing}» (--{flag}) is not", settings.place(given))
}

/// Settings that would keep a server from listening, each with its source.
pub(crate) fn problems(settings: &Settings) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(file) = settings.text("serve.tokens") {
        if let Err(exit) = read_tokens(Path::new(file)) {
            problems.push(format!("{}: {}", settings.place("serve.tokens"), exit.message));
        }
    }
    problems.extend(tls(settings).err());
    for name in ["serve.tls-certificates", "serve.tls-key"] {
        if let Some(Err(error)) = settings.text(name).map(std::fs::File::open) {
            let file = settings.get(name).0;
            problems.push(format!("{}: {file}: {error}", settings.place(name)));
        }
    }
    let at = settings.get("serve.listen").0;
    if !is_guarded(settings) && address(at).is_ok_and(|address| !address.ip().is_loopback()) {
        problems.push(format!(
            "{}: {at} can be reached from other machines, and nobody needs a token: set \
             «serve.tokens», or listen on 127.0.0.1",
            settings.place("serve.listen")
        ));
    }
    problems
}

/// Settings that others could read or guess, although they are allowed.
fn exposures(settings: &Settings) -> Vec<String> {
    let mut exposures = Vec::new();
    let (at, is_plain) = (settings.get("serve.listen").0, matches!(tls(settings), Ok(None)));
    if is_plain && address(at).is_ok_and(|address| !address.ip().is_loopback()) {
        exposures.push(format!(
            "{at} can be reached from other machines without TLS: whoever sees the network sees the \
             tokens, unless a proxy before it speaks TLS"
        ));
    }
    let file = settings.text("serve.tokens").and_then(|file| std::fs::read_to_string(file).ok());
    let lines = file.iter().flat_map(|text| text.lines()).filter_map(|line| {
        let mut parts = line.split_whitespace().skip(1);
        Some((parts.next()?, parts.next()?))
    });
    let one = settings.text("serve.token").map(|secret| ("operator", secret));
    for (name, secret) in lines.chain(one).filter(|(_, secret)| secret.len() < TOKEN_BYTES) {
        let bytes = secret.len();
        exposures.push(format!(
            "the token of «{name}» can be guessed, it has {bytes} bytes: take {TOKEN_BYTES} or more"
        ));
    }
    exposures
}

/// Whether a token is needed.
fn is_guarded(settings: &Settings) -> bool {
    ["serve.tokens", "serve.token"].iter().any(|name| settings.text(name).is_some())
}

/// The tokens that the settings name, as they are now.
pub(super) fn access(settings: &Settings) -> Result<Access, Exit> {
    let mut tokens = match settings.text("serve.tokens") {
        Some(file) => read_tokens(Path::new(file))
            .map_err(|exit| Exit::usage(format!("serve: {}", exit.message)).advice(exit.advice))?,
        None => Vec::new(),
    };
    if let Some(secret) = settings.text("serve.token") {
        tokens.push(Token::new("operator", Role::Operate, secret));
    }
    Ok(if tokens.is_empty() { Access::Loopback } else { Access::Tokens(tokens) })
}

fn options(settings: &Settings) -> Result<Options, Exit> {
    let mut options = Options::new(access(settings)?);
    if settings.text("serve.rate").is_some() {
        let rate = settings.count("serve.rate");
        options = options.rate(rate, rate.saturating_mul(2));
    }
    if settings.text("serve.body-bytes-max").is_some() {
        options = options.body_bytes_max(settings.bytes("serve.body-bytes-max"));
    }
    Ok(options)
}

/// The tokens of a file; the problem says which file and line.
fn read_tokens(file: &Path) -> Result<Vec<Token>, Exit> {
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| unfit(&format!("{name}: {error}"), "give a file of tokens"))?;
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
            return Err(unfit(&problem, "a line has a role, a name and a secret"));
        };
        let Some(role) = Role::from_name(role) else {
            let problem = format!("{name}, line {}: there is no such role", at + 1);
            return Err(unfit(&problem, "a role is read or operate"));
        };
        tokens.push(Token::new(who, role, secret));
    }
    if tokens.is_empty() {
        return Err(unfit(&format!("{name} holds no token"), "give a file with tokens, or none"));
    }
    Ok(tokens)
}

fn unfit(problem: &dyn std::fmt::Display, advice: &'static str) -> Exit {
    Exit::usage(problem).advice(advice)
}

fn wrong(problem: &dyn std::fmt::Display, advice: &'static str) -> Exit {
    Exit::usage(format!("serve: {problem}")).advice(advice)
}

fn failed(problem: &dyn std::fmt::Display, advice: &'static str) -> Exit {
    Exit::failed(format!("serve: {problem}")).advice(advice)
}
