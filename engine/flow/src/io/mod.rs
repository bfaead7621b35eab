//! Input and output of flows, behind a trait: HTTP calls, processes, resources, secrets.
//!
//! The engine contains no HTTP client and starts no process. The embedding program, or the binary,
//! provides an [`Io`]; tests use a [`FakeIo`]. An implementation needs no clock: [`IoCall`] asks a
//! call to end early.

mod broker;
mod call;
mod error;
mod grpc;
mod headers;

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::limits::{NAMESPACE_REQUESTS_MAX, NAMESPACE_TASKS_MAX, REQUESTS_MAX};

pub use self::broker::{Broker, BrokerChannel, BrokerMessage, Receipt};
pub use self::call::IoCall;
pub use self::error::{IoError, IoErrorKind};
pub use self::grpc::{GrpcRequest, GrpcResponse, ProtoFile};
pub use self::headers::header_problem;

/// The outside effects of flows. Calls may block: they come from the blocking pool.
///
/// Each may be repeated after a crash, with the same [`IoCall::key`].
pub trait Io: Send + Sync + fmt::Debug + 'static {
    /// Sends an HTTP request and reads the whole answer. A status that means failure is no error here.
    ///
    /// # Errors
    ///
    /// No answer came, or not in time, or it is larger than [`HTTP_BODY_MAX`].
    fn http(&self, request: &HttpRequest, call: &IoCall<'_>) -> Result<HttpResponse, IoError>;

    /// Sends an HTTP request and reads its answer until `is_enough` says so of what has come, which
    /// it is asked for each part: an answer that is a stream may have no end. What it takes out of
    /// the body is not kept. The default implementation reads all of it, and asks nothing.
    ///
    /// # Errors
    ///
    /// As [`Io::http`]; of the body, what is kept counts.
    fn http_until(
        &self,
        request: &HttpRequest,
        is_enough: Box<dyn FnMut(&mut HttpResponse) -> bool + Send>,
        call: &IoCall<'_>,
    ) -> Result<HttpResponse, IoError> {
        let _unused = is_enough;
        self.http(request, call)
    }

    /// Calls a gRPC method. A status that means failure is no error here. The default
    /// implementation has no gRPC.
    ///
    /// # Errors
    ///
    /// As [`Io::http`]; also a method that is not described, and arguments that do not fit its
    /// message (`Invalid`), in which case nothing was sent to the service.
    fn grpc(&self, request: &GrpcRequest, call: &IoCall<'_>) -> Result<GrpcResponse, IoError> {
        let _unused = (request, call);
        Err(IoError::new(IoErrorKind::Unsupported, NO_GRPC))
    }

    /// Why gRPC cannot be called here; nothing if it can.
    fn grpc_problem(&self) -> Option<String> {
        Some(NO_GRPC.to_owned())
    }

    /// Sends a message to a channel of a broker, and waits until the broker has it. The default
    /// implementation has no brokers.
    ///
    /// # Errors
    ///
    /// As [`Io::http`]; also a channel that nobody takes messages from, if the broker says so.
    fn publish(
        &self,
        channel: &BrokerChannel,
        message: &BrokerMessage,
        call: &IoCall<'_>,
    ) -> Result<(), IoError> {
        let _unused = (message, call);
        Err(IoError::new(IoErrorKind::Unsupported, channel.protocol.missing()))
    }

    /// Gives each message of a channel to `is_enough` until that says so. When the time of the call
    /// is over, it is asked about nothing, and says whether that is an end as it should be. The
    /// default implementation has no brokers.
    ///
    /// # Errors
    ///
    /// As [`Io::http`]; also a broker that closes the connection, and a message that is too large.
    fn receive(
        &self,
        channel: &BrokerChannel,
        is_enough: &mut dyn FnMut(Option<&BrokerMessage>) -> bool,
        call: &IoCall<'_>,
    ) -> Result<Receipt, IoError> {
        let _unused = (is_enough, call);
        Err(IoError::new(IoErrorKind::Unsupported, channel.protocol.missing()))
    }

    /// Why a protocol of brokers cannot be spoken here; nothing if it can.
    fn broker_problem(&self, protocol: Broker) -> Option<String> {
        Some(protocol.missing())
    }

    /// Runs a process and waits for its end. An exit code that means failure is no error here.
    ///
    /// # Errors
    ///
    /// It could not be started, was ended because of the call's limit or its cancellation, or has
    /// written more than [`PROCESS_OUTPUT_MAX`].
    fn process(&self, process: &Process, call: &IoCall<'_>) -> Result<ProcessResult, IoError>;

    /// Starts a process that nobody waits for.
    ///
    /// # Errors
    ///
    /// It could not be started.
    fn process_detached(&self, process: &Process, call: &IoCall<'_>) -> Result<(), IoError>;

    /// Runs a program that is told lines on its standard input and says lines on its standard output,
    /// until enough is said; it is ended then. The default implementation has no such programs.
    ///
    /// # Errors
    ///
    /// As [`Io::process`]; also a program that ends before that.
    fn talk(
        &self,
        process: &Process,
        talk: &mut dyn FnMut(Option<&str>) -> Reply,
        call: &IoCall<'_>,
    ) -> Result<(), IoError> {
        let _unused = (process, talk, call);
        Err(IoError::new(IoErrorKind::Unsupported, "programs cannot be talked with here"))
    }

    /// Runs a container and waits for its end. An exit code that means failure is no error here.
    /// When it is called again with the same [`IoCall::key`], the former container is removed
    /// first: there are never two.
    ///
    /// # Errors
    ///
    /// As [`Io::process`]; also a missing image or container engine. The default implementation has
    /// no containers.
    fn container(
        &self,
        container: &Container,
        call: &IoCall<'_>,
    ) -> Result<ProcessResult, IoError> {
        let _unused = (container, call);
        Err(IoError::new(IoErrorKind::Unsupported, NO_CONTAINERS))
    }

    /// Starts a container that nobody waits for, likewise.
    ///
    /// # Errors
    ///
    /// It could not be started.
    fn container_detached(&self, container: &Container, call: &IoCall<'_>) -> Result<(), IoError> {
        let _unused = (container, call);
        Err(IoError::new(IoErrorKind::Unsupported, NO_CONTAINERS))
    }

    /// Why containers cannot be run here, for instance because no engine is installed, and what to do;
    /// nothing if they can.
    fn container_problem(&self) -> Option<String> {
        Some(NO_CONTAINERS.to_owned())
    }

    /// Why commands of a shell cannot be run here; nothing if they can, which is the default.
    fn command_problem(&self) -> Option<String> {
        None
    }

    /// Why scripts in a language cannot be run here, for instance because no interpreter is installed;
    /// nothing if they can.
    fn script_problem(&self, language: ScriptLanguage) -> Option<String>;

    /// Why a function at an address is not taken into a flow that does not have its SHA-256;
    /// nothing if it is, which is the default.
    fn function_problem(&self, uri: &str) -> Option<String> {
        let _unused = uri;
        None
    }

    /// How many tasks of flows of one namespace run processes and containers at once; further ones wait,
    /// and leave the places of the queue to other namespaces.
    fn namespace_tasks_max(&self) -> u32 {
        NAMESPACE_TASKS_MAX
    }

    /// How many tasks of flows ask services at once. They have places of their own: slow services hold up
    /// no commands, and slow commands no requests.
    fn requests_max(&self) -> u32 {
        REQUESTS_MAX
    }

    /// How many of them are of one namespace.
    fn namespace_requests_max(&self) -> u32 {
        NAMESPACE_REQUESTS_MAX
    }

    /// The names of the sinks that want events of a type: what flows emit, and life-cycle events. There are
    /// none by default.
    fn sinks(&self, kind: &str) -> Vec<String> {
        let _unused = kind;
        Vec::new()
    }

    /// Whether a sink gets its events one after the other, in the order in which they were written down.
    fn is_ordered(&self, sink: &str) -> bool {
        let _unused = sink;
        false
    }

    /// Delivers an event to a sink, in structured mode.
    ///
    /// # Errors
    ///
    /// The sink has not taken it. Errors of the kinds `NotFound`, `Forbidden` and `Unsupported` are final.
    fn deliver(&self, sink: &str, event: &Value, call: &IoCall<'_>) -> Result<(), IoError> {
        let _unused = (event, call);
        Err(IoError::new(IoErrorKind::NotFound, format!("there is no sink «{sink}»")))
    }

    /// Reads a resource that is no HTTP one, such as `file:///etc/flows/script.py`.
    ///
    /// # Errors
    ///
    /// There is none, or it may not be read.
    fn resource(&self, uri: &str, call: &IoCall<'_>) -> Result<Vec<u8>, IoError>;

    /// A secret by its name: a text, or an object such as `{"username": …, "password": …}`; `None`
    /// if there is none. It is read at each use and never stored.
    ///
    /// # Errors
    ///
    /// The place of the secrets cannot be read.
    fn secret(&self, name: &str) -> Result<Option<Value>, IoError>;
}

/// Error of an [`Io`] without gRPC.
const NO_GRPC: &str = "gRPC cannot be called here: it is not built in";

/// Error of an [`Io`] without containers.
const NO_CONTAINERS: &str = "containers cannot be run here: there is no container engine";

/// The longest answer to an HTTP request, in bytes: it becomes part of a step's output, which has the
/// same limit.
pub const HTTP_BODY_MAX: usize = turnwheel_engine::limits::PAYLOAD_BYTES_MAX;

/// The most that a process may write to each of its outputs, in bytes, likewise.
pub const PROCESS_OUTPUT_MAX: usize = turnwheel_engine::limits::PAYLOAD_BYTES_MAX;

/// An HTTP request.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// In upper case.
    pub method: String,
    /// Absolute, with its query.
    pub uri: String,
    /// Names as they were given. Authentication other than `digest` is among them.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<Vec<u8>>,
    /// Whether redirections are followed. Credentials must not follow to another origin.
    pub follows_redirects: bool,
    /// User name and password for an answer that asks for `Digest`.
    pub digest: Option<(String, String)>,
}

impl fmt::Debug for HttpRequest {
    /// Without headers and body, which may have secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("uri", &self.uri)
            .finish_non_exhaustive()
    }
}

/// The answer to an HTTP request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// Names in any case.
    pub headers: Vec<(String, String)>,
    /// The body, decompressed.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// The first header with this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// A process.
#[derive(Clone, PartialEq, Eq)]
pub struct Process {
    /// The program.
    pub program: Program,
    /// Arguments: `$1`, `$2` and so on, or `argv` after the script.
    pub arguments: Vec<String>,
    /// Variables besides those that the flow's host lets through.
    pub environment: Vec<(String, String)>,
    /// Its standard input; without one that is empty.
    pub stdin: Option<String>,
}

impl fmt::Debug for Process {
    /// Without its environment and input, which may have secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("program", &self.program).finish_non_exhaustive()
    }
}

/// Program of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Program {
    /// A command line for the system's shell.
    Shell(String),
    /// A program by its name or path, without a shell; [`Io::talk`] runs it.
    Command(String),
    /// A script for an interpreter.
    Script {
        /// The language.
        language: ScriptLanguage,
        /// Its text.
        code: String,
    },
}

/// Next word to a program: [`Io::talk`] asks for it at the begin and for each line of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// These lines.
    Say(Vec<String>),
    /// Nothing: the talk is over.
    Enough,
}

/// A language of scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ScriptLanguage {
    /// JavaScript (`js` or `javascript`).
    JavaScript,
    /// Python 3.
    Python,
}

impl ScriptLanguage {
    /// The language with this name, as the DSL writes it.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "js" | "javascript" => Some(Self::JavaScript),
            "python" => Some(Self::Python),
            _ => None,
        }
    }
}

/// A container: a process with a file system of its own.
#[derive(Clone, PartialEq, Eq)]
pub struct Container {
    /// The image that it is made of, such as `alpine:3.20`.
    pub image: String,
    /// Its name: letters, digits, `_`, `.` and `-`. Without a name in the flow it is made of the
    /// flow's name, the plan, the task and the step, and is unique.
    pub name: String,
    /// A command line for the image's shell, in place of what the image runs by itself.
    pub command: Option<String>,
    /// Arguments of the command: `$1`, `$2` and so on; without a command, arguments of the image's
    /// own.
    pub arguments: Vec<String>,
    /// Ports of the host, and the ports of the container that they lead to.
    pub ports: Vec<(String, String)>,
    /// Folders or volumes of the host, and where in the container they are.
    pub volumes: Vec<(String, String)>,
    /// Its variables. It has none of those of the flow's host.
    pub environment: Vec<(String, String)>,
    /// Its standard input; without one that is empty.
    pub stdin: Option<String>,
    /// Whether the image is fetched.
    pub pull: PullPolicy,
    /// Whether it is deleted when it has ended.
    pub cleanup: Cleanup,
}

impl fmt::Debug for Container {
    /// Without its command, arguments, variables and input, which may have secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Container")
            .field("image", &self.image)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// When the image of a container is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PullPolicy {
    /// If the host does not have it.
    #[default]
    IfNotPresent,
    /// Each time.
    Always,
    /// Never: an image missing on the host is an error.
    Never,
}

/// Treatment of an ended container, for every kind of end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cleanup {
    /// It stays until somebody removes it.
    #[default]
    Never,
    /// Deleted at once.
    Always,
    /// Deleted so long after its end.
    After(Duration),
}

/// Result of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessResult {
    /// Its exit code; 128 and the number of the signal if one has ended it.
    pub code: i32,
    /// Its standard output as text; invalid UTF-8 is replaced.
    pub stdout: String,
    /// The same for errors.
    pub stderr: String,
}
