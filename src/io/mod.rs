//! Input and output of flows: HTTP calls, commands and scripts, files, secrets.
//!
//! [`HostIo`] does it on this host, within [`IoOptions`]: time limits, size limits, allowed hosts.
//! The engine knows only the trait [`Io`], and tests have a fake.
//!
//! | part | what it does |
//! | --- | --- |
//! | `options` | the limits, with their defaults |
//! | `http` | one request with its redirections; `target` where they lead, `redirect` what goes along, `network` which addresses are open, `digest` authentication |
//! | `grpc` | calls of gRPC: descriptors, the connection, statuses |
//! | `broker` | messages at brokers, and their acknowledgements |
//! | `reach`, `waiting` | which servers besides those of HTTP may be reached, and for how long |
//! | `container` | containers, by the command line of an engine |
//! | `command`, `process` | commands, each in a group that is ended together; `guard` ends it after this process |
//! | `talk` | programs that are told lines and say lines |
//! | `job` | executors of jobs: commands and requests |
//! | `journey` | channels of journeys |
//! | `file` | files, regular ones only; `scarce` waits for free descriptors |
//! | `sink` | where events of flows are delivered to, and their signature |
//! | `secrets` | secrets, from the environment or a folder |

#[cfg(any(feature = "nats", feature = "rabbitmq", feature = "websocket"))]
mod broker;
#[cfg(not(any(feature = "nats", feature = "rabbitmq", feature = "websocket")))]
#[path = "broker_none.rs"]
mod broker;
#[cfg(unix)]
mod command;
#[cfg(unix)]
mod container;
#[cfg(not(unix))]
#[path = "container_none.rs"]
mod container;
mod digest;
mod file;
mod flow_names;
#[cfg(feature = "grpc")]
mod grpc;
#[cfg(unix)]
mod guard;
mod http;
mod job;
mod journey;
mod network;
mod options;
#[cfg(unix)]
mod process;
#[cfg(not(unix))]
#[path = "process_none.rs"]
mod process;
#[cfg(any(
    feature = "grpc",
    feature = "kafka",
    feature = "nats",
    feature = "rabbitmq",
    feature = "websocket"
))]
mod reach;
mod redirect;
mod request_span;
mod scarce;
mod secrets;
mod sink;
#[cfg(unix)]
mod talk;
mod target;
#[cfg(any(feature = "grpc", feature = "websocket"))]
mod tls;
#[cfg(any(feature = "grpc", feature = "nats", feature = "rabbitmq", feature = "websocket"))]
mod waiting;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
#[cfg(unix)]
use turnwheel_flow::Reply;
use turnwheel_flow::{
    Broker, BrokerChannel, BrokerMessage, Container, HttpRequest, HttpResponse, Io, IoCall,
    IoError, IoErrorKind, Process, ProcessResult, Receipt, ScriptLanguage,
};
#[cfg(feature = "grpc")]
use turnwheel_flow::{GrpcRequest, GrpcResponse};

pub use job::{Mail, MailTls};
pub use journey::FLOW_CHANNEL;
pub use network::Network;
pub use options::IoOptions;
pub use secrets::KeptSecrets;
pub use sink::Sink;

/// Interval of checks whether commands have ended.
const LOOK: Duration = Duration::from_millis(5);

/// The outside effects of flows, on this host.
///
/// ```
/// use turnwheel::flow::{Io, IoCall, Process, Program};
/// use turnwheel::io::{HostIo, IoOptions};
///
/// let io = HostIo::new(IoOptions::default());
/// let hello = Process {
///     program: Program::Shell("echo hello $1".to_owned()),
///     arguments: vec!["Ann".to_owned()],
///     environment: Vec::new(),
///     stdin: None,
/// };
/// let ended = io.process(&hello, &IoCall::new("plan/1", &|| false))?;
/// assert_eq!((ended.code, ended.stdout.as_str()), (0, "hello Ann\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HostIo {
    inner: Arc<Inner>,
}

struct Inner {
    options: IoOptions,
    /// Made with the first request: flows without one start faster.
    client: OnceLock<http::Client>,
    commands: Commands,
    /// Made with the first container.
    remover: OnceLock<container::Remover>,
}

/// The commands that run, so that they can be ended with this process.
#[derive(Debug, Default)]
struct Commands {
    are_over: AtomicBool,
    running: AtomicUsize,
}

impl fmt::Debug for HostIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostIo").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

impl HostIo {
    /// With these limits. Nothing is opened yet.
    pub fn new(options: IoOptions) -> Self {
        let (client, remover) = (OnceLock::new(), OnceLock::new());
        let commands = Commands::default();
        Self { inner: Arc::new(Inner { options, client, commands, remover }) }
    }

    /// Ends the running commands, and refuses new ones: for a process that is about to end and has
    /// shut down its world, so that their results do not count. Returns whether all have ended
    /// within this time.
    pub fn end(&self, limit: Duration) -> bool {
        let commands = &self.inner.commands;
        commands.are_over.store(true, Ordering::Relaxed);
        let until = Instant::now() + limit;
        while commands.running.load(Ordering::Relaxed) > 0 {
            if Instant::now() >= until {
                return false;
            }
            thread::sleep(LOOK);
        }
        true
    }

    fn may_run(&self) -> Result<(), IoError> {
        if self.inner.options.allow_shell {
            return Ok(());
        }
        let message = "commands, scripts and containers are not allowed here: allow them by the \
                       setting io.allow-shell or, without tokens, by turnwheel serve --allow-shell";
        Err(IoError::new(IoErrorKind::Forbidden, message))
    }

    fn client(&self) -> &http::Client {
        self.inner.client.get_or_init(|| http::Client::new(&self.inner.options))
    }

    /// The engine of containers, with its remover.
    fn engine(&self) -> Result<container::Engine<'_>, IoError> {
        self.may_run()?;
        container::Engine::find(&self.inner.options, &self.inner.commands.are_over)
    }

    fn remover(&self, engine: &container::Engine<'_>) -> &container::Remover {
        self.inner.remover.get_or_init(|| container::Remover::begin(engine))
    }

    /// Counts something that ends with this process.
    fn counted<T>(&self, run: impl FnOnce() -> T) -> T {
        let commands = &self.inner.commands;
        commands.running.fetch_add(1, Ordering::Relaxed);
        let ended = run();
        commands.running.fetch_sub(1, Ordering::Relaxed);
        ended
    }
}

impl Io for HostIo {
    fn http(&self, request: &HttpRequest, call: &IoCall<'_>) -> Result<HttpResponse, IoError> {
        self.client().send(request, None, call)
    }

    fn http_until(
        &self,
        request: &HttpRequest,
        is_enough: Box<dyn FnMut(&mut HttpResponse) -> bool + Send>,
        call: &IoCall<'_>,
    ) -> Result<HttpResponse, IoError> {
        self.client().send(request, Some(is_enough), call)
    }

    #[cfg(feature = "grpc")]
    fn grpc(&self, request: &GrpcRequest, call: &IoCall<'_>) -> Result<GrpcResponse, IoError> {
        grpc::call(&self.inner.options, request, None, call)
    }

    #[cfg(feature = "grpc")]
    fn grpc_problem(&self) -> Option<String> {
        None
    }

    #[cfg(not(feature = "grpc"))]
    fn grpc_problem(&self) -> Option<String> {
        let message =
            "gRPC cannot be called here: this program was built without the feature «grpc»";
        Some(message.to_owned())
    }

    fn publish(
        &self,
        channel: &BrokerChannel,
        message: &BrokerMessage,
        call: &IoCall<'_>,
    ) -> Result<(), IoError> {
        broker::publish(&self.inner.options, channel, message, call)
    }

    fn receive(
        &self,
        channel: &BrokerChannel,
        is_enough: &mut dyn FnMut(Option<&BrokerMessage>) -> bool,
        call: &IoCall<'_>,
    ) -> Result<Receipt, IoError> {
        broker::receive(&self.inner.options, channel, is_enough, call)
    }

    fn broker_problem(&self, protocol: Broker) -> Option<String> {
        no_protocol(protocol)
    }

    fn process(&self, process: &Process, call: &IoCall<'_>) -> Result<ProcessResult, IoError> {
        self.may_run()?;
        let are_over = &self.inner.commands.are_over;
        self.counted(|| process::run(&self.inner.options, process, call, are_over))
    }

    #[cfg(unix)]
    fn talk(
        &self,
        process: &Process,
        talk: &mut dyn FnMut(Option<&str>) -> Reply,
        call: &IoCall<'_>,
    ) -> Result<(), IoError> {
        self.may_run()?;
        let are_over = &self.inner.commands.are_over;
        self.counted(|| talk::run(&self.inner.options, process, talk, call, are_over))
    }

    fn process_detached(&self, process: &Process, call: &IoCall<'_>) -> Result<(), IoError> {
        self.may_run()?;
        process::detach(&self.inner.options, process, call)
    }

    fn container(
        &self,
        container: &Container,
        call: &IoCall<'_>,
    ) -> Result<ProcessResult, IoError> {
        let engine = self.engine()?;
        let remover = self.remover(&engine);
        self.counted(|| container::run(&engine, container, call, remover))
    }

    fn container_detached(&self, container: &Container, call: &IoCall<'_>) -> Result<(), IoError> {
        let engine = self.engine()?;
        let remover = self.remover(&engine);
        self.counted(|| container::detach(&engine, container, call, remover))
    }

    fn container_problem(&self) -> Option<String> {
        self.engine().err().map(|error| error.message)
    }

    fn function_problem(&self, uri: &str) -> Option<String> {
        let places = &self.inner.options.function_places;
        // Dots would lead out of the place.
        let is_below = |place: &&String| {
            let rest = uri.strip_prefix(place.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.starts_with('/') && !leads_out(rest))
        };
        if places.iter().any(|place| is_below(&place)) {
            return None;
        }
        Some(format!(
            "the function {uri} is not taken: write its SHA-256 into document.metadata.resources, or \
             let the setting io.function-places name where it is"
        ))
    }

    fn command_problem(&self) -> Option<String> {
        self.may_run().err().map(|error| error.message)
    }

    fn script_problem(&self, language: ScriptLanguage) -> Option<String> {
        if let Err(error) = self.may_run() {
            return Some(error.message);
        }
        process::interpreter(language).err().map(|error| error.message)
    }

    fn resource(&self, uri: &str, call: &IoCall<'_>) -> Result<Vec<u8>, IoError> {
        let (path, options) = (file_of(uri)?, &self.inner.options);
        if !options.allow_shell {
            let message = "files of this host are not read here, as commands are not run: allow \
                           both by the setting io.allow-shell or, without tokens, by turnwheel \
                           serve --allow-shell";
            return Err(IoError::new(IoErrorKind::Forbidden, message));
        }
        let told = |error: std::io::Error| {
            let kind = match error.kind() {
                std::io::ErrorKind::NotFound => IoErrorKind::NotFound,
                std::io::ErrorKind::PermissionDenied => IoErrorKind::Forbidden,
                std::io::ErrorKind::InvalidInput => IoErrorKind::Unsupported,
                std::io::ErrorKind::TimedOut => IoErrorKind::TimedOut,
                _ => IoErrorKind::Communication,
            };
            IoError::new(kind, format!("the file {}: {error}", path.display()))
        };
        let limit = options.body_max as u64;
        let within = call.limit.unwrap_or(options.http_timeout);
        let bytes = file::read(&path, limit + 1, within, &|| call.is_cancelled()).map_err(told)?;
        if bytes.len() as u64 > limit {
            let message = format!("the file {} has more than {limit} bytes", path.display());
            return Err(IoError::new(IoErrorKind::TooLarge, message));
        }
        Ok(bytes)
    }

    fn sinks(&self, kind: &str) -> Vec<String> {
        let sinks = self.inner.options.sinks.iter();
        sinks.filter(|sink| sink.wants(kind)).map(|sink| sink.name.clone()).collect()
    }

    fn deliver(&self, sink: &str, event: &Value, call: &IoCall<'_>) -> Result<(), IoError> {
        let found = self.inner.options.sinks.iter().find(|known| known.name == sink);
        let found = found.ok_or_else(|| {
            let message = format!("there is no sink «{sink}» in the file of flows.sinks any more");
            IoError::new(IoErrorKind::NotFound, message)
        })?;
        let secret = self.secret(&found.secret())?;
        found.taken(&self.http(&found.request(event, call.key, secret.as_ref()), call)?)
    }

    fn is_ordered(&self, sink: &str) -> bool {
        self.inner.options.sinks.iter().any(|known| known.name == sink && known.is_ordered)
    }

    fn namespace_tasks_max(&self) -> u32 {
        self.inner.options.namespace_tasks_max
    }

    fn requests_max(&self) -> u32 {
        self.inner.options.requests_max
    }

    fn namespace_requests_max(&self) -> u32 {
        self.inner.options.namespace_requests_max
    }

    fn secret(&self, name: &str) -> Result<Option<Value>, IoError> {
        secrets::find(&self.inner.options, name)
    }
}

/// Whether parts of a path are dots, which lead out of its place.
fn leads_out(path: &str) -> bool {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    target::decoded(path).split(['/', '\\']).any(|part| part == "..")
}

/// The file that a URI names: `file:///etc/x`, or a path.
fn file_of(uri: &str) -> Result<PathBuf, IoError> {
    let path = match uri.split_once(':') {
        Some(("file", rest)) => {
            let path = rest.strip_prefix("//localhost").or(rest.strip_prefix("//"));
            let path = path.unwrap_or(rest);
            if !path.starts_with('/') {
                let message = format!("«{uri}» names a file of another host");
                return Err(IoError::new(IoErrorKind::Unsupported, message));
            }
            target::decoded(path)
        }
        Some((scheme, _)) if scheme.len() > 1 && scheme.chars().all(char::is_alphanumeric) => {
            let message =
                format!("resources of the kind «{scheme}» cannot be read: use file or http");
            return Err(IoError::new(IoErrorKind::Unsupported, message));
        }
        _ => uri.to_owned(),
    };
    Ok(PathBuf::from(path))
}

/// Why messages of a protocol cannot be sent and received here; nothing if they can.
fn no_protocol(protocol: Broker) -> Option<String> {
    let (feature, is_there) = match protocol {
        Broker::Nats => ("nats", cfg!(feature = "nats")),
        Broker::Amqp => ("rabbitmq", cfg!(feature = "rabbitmq")),
        Broker::WebSocket => ("websocket", cfg!(feature = "websocket")),
        _ => (protocol.name(), false),
    };
    (!is_there).then(|| {
        let name = protocol.name();
        format!(
            "messages of «{name}» are not sent and received here: this program was built without \
             the feature «{feature}»"
        )
    })
}

fn missing(protocol: Broker) -> IoError {
    IoError::new(IoErrorKind::Unsupported, no_protocol(protocol).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_uri_or_path() {
        let file = |uri: &str| file_of(uri).map(|file| file.display().to_string());
        assert_eq!(file("file:///etc/a%20b"), Ok("/etc/a b".into()));
        assert_eq!(file("file:/etc/x"), Ok("/etc/x".into()));
        assert_eq!(file("file://localhost/etc/x"), Ok("/etc/x".into()));
        assert_eq!(file("data/x.json"), Ok("data/x.json".into()));
        assert!(file("file://elsewhere/etc/x").is_err());
        assert!(file("ftp://x/y").is_err_and(|error| error.message.contains("ftp")));
    }
}
