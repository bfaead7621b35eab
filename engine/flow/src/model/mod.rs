//! A definition as it is run.

mod calls;

use std::time::Duration;

use serde_json::{Map, Value};

use crate::expr::Template;
use crate::io::{PullPolicy, ScriptLanguage};
use crate::schema::Schema;

pub(crate) use self::calls::{
    A2a, AsyncApi, Authentication, Consume, Endpoint, Grpc, Http, HttpOutput, Mcp, McpTransport,
    OpenApi, Properties, Scheme, Subscription, Transport, WorkerCall,
};

/// A task of a definition: its place in [`Definition::tasks`](crate::Definition).
pub(crate) type TaskId = usize;

/// Tasks that are run one after the other.
pub(crate) type Block = Vec<TaskId>;

/// One task.
#[derive(Debug)]
pub(crate) struct Task {
    /// A JSON pointer into the definition.
    pub(crate) pointer: String,
    pub(crate) name: String,
    /// As it was written.
    pub(crate) definition: Value,
    pub(crate) condition: Option<String>,
    pub(crate) input: Transform,
    pub(crate) output: Transform,
    pub(crate) export: Transform,
    pub(crate) timeout: Option<Span>,
    pub(crate) then: Directive,
    pub(crate) kind: Kind,
    /// Whether it is a part of an extension, which no extension extends.
    pub(crate) is_of_extension: bool,
}

/// Kind of a task.
#[derive(Debug)]
pub(crate) enum Kind {
    Do(Block),
    Set(Template),
    Switch(Vec<Case>),
    For(Box<For>),
    Fork { branches: Block, is_race: bool },
    Try(Box<Try>),
    Raise(Template),
    Wait(Span),
    Emit(Template),
    Listen(Box<Listen>),
    Http(Box<Http>),
    OpenApi(Box<OpenApi>),
    AsyncApi(Box<AsyncApi>),
    Consume(Box<Consume>),
    Grpc(Box<Grpc>),
    Function { task: TaskId, with: Option<Template> },
    Process(Box<Command>),
    Container(Box<ContainerRun>),
    Flow(Box<SubFlow>),
    Worker(Box<WorkerCall>),
    Mcp(Box<Mcp>),
    A2a(Box<A2a>),
}

/// A kind of tasks that do something outside, which may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It asks a service.
    Request,
    /// It runs a process or a container.
    Command,
}

impl Kind {
    /// Effect outside of the engine, if there is one.
    pub(crate) fn effect(&self) -> Option<Effect> {
        match self {
            Self::Http(_) | Self::OpenApi(_) | Self::AsyncApi(_) | Self::Grpc(_) | Self::A2a(_) => {
                Some(Effect::Request)
            }
            Self::Process(_) | Self::Container(_) => Some(Effect::Command),
            Self::Mcp(it) => Some(match it.transport {
                McpTransport::Http { .. } => Effect::Request,
                McpTransport::Stdio { .. } => Effect::Command,
            }),
            _ => None,
        }
    }

    /// Whether it does something outside.
    pub(crate) fn is_effect(&self) -> bool {
        self.effect().is_some()
    }

    /// Its name in the DSL.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Do(_) => "do",
            Self::Set(_) => "set",
            Self::Switch(_) => "switch",
            Self::For(_) => "for",
            Self::Fork { .. } => "fork",
            Self::Try(_) => "try",
            Self::Raise(_) => "raise",
            Self::Wait(_) => "wait",
            Self::Emit(_) => "emit",
            Self::Listen(_) => "listen",
            Self::Http(_)
            | Self::OpenApi(_)
            | Self::AsyncApi(_)
            | Self::Consume(_)
            | Self::Grpc(_)
            | Self::Function { .. }
            | Self::Worker(_)
            | Self::Mcp(_)
            | Self::A2a(_) => "call",
            Self::Process(_) | Self::Container(_) | Self::Flow(_) => "run",
        }
    }

    /// The authentications of what it calls.
    pub(crate) fn authentications(&self) -> Vec<&Authentication> {
        let all = match self {
            Self::Http(it) => [it.endpoint.authentication.as_ref(), None],
            Self::OpenApi(it) => [it.document.authentication.as_ref(), it.authentication.as_ref()],
            Self::AsyncApi(it) => [it.document.authentication.as_ref(), it.authentication.as_ref()],
            Self::A2a(it) => [&it.card, &it.server].map(|place| {
                let place = place.as_ref()?;
                place.authentication.as_ref()
            }),
            Self::Grpc(it) => {
                let proto = it.proto.as_ref().and_then(|it| it.authentication.as_ref());
                [proto, it.authentication.as_ref()]
            }
            Self::Mcp(it) => match &it.transport {
                McpTransport::Http { endpoint, .. } => [endpoint.authentication.as_ref(), None],
                McpTransport::Stdio { .. } => [None, None],
            },
            Self::Process(it) => match &it.program {
                CommandProgram::Script { code: Code::Source(source), .. } => {
                    [source.authentication.as_ref(), None]
                }
                _ => [None, None],
            },
            _ => [None, None],
        };
        all.into_iter().flatten().collect()
    }

    /// Its name in extensions.
    pub(crate) fn extended_as(&self) -> &'static str {
        match self {
            Self::Do(_) | Self::Fork { .. } => "composite",
            other => other.name(),
        }
    }
}

/// Transformations of data on its way.
#[derive(Debug, Default)]
pub(crate) struct Transform {
    pub(crate) schema: Option<Schema>,
    pub(crate) with: Option<Template>,
}

/// Next task of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Directive {
    #[default]
    Continue,
    Exit,
    End,
    To(String),
}

/// A duration, or an expression that gives one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Span {
    Fixed(Duration),
    Expression(String),
}

impl Span {
    /// Whether it is known to be no time at all.
    pub(crate) fn is_zero(&self) -> bool {
        matches!(self, Self::Fixed(duration) if duration.is_zero())
    }
}

#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) when: Option<String>,
    pub(crate) then: Directive,
}

#[derive(Debug)]
pub(crate) struct For {
    pub(crate) each: String,
    pub(crate) at: String,
    pub(crate) list: String,
    pub(crate) condition: Option<String>,
    pub(crate) block: Block,
}

#[derive(Debug)]
pub(crate) struct Try {
    pub(crate) block: Block,
    pub(crate) filter: Map<String, Value>,
    pub(crate) variable: String,
    pub(crate) when: Option<String>,
    pub(crate) except_when: Option<String>,
    pub(crate) retry: Option<Retry>,
    pub(crate) handler: Option<Block>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Retry {
    /// Whether it is one of `use.retries`, whose conditions call the error `$error` in any case.
    pub(crate) is_shared: bool,
    pub(crate) when: Option<String>,
    pub(crate) except_when: Option<String>,
    pub(crate) delay: Option<Span>,
    pub(crate) backoff: Backoff,
    pub(crate) attempts: Option<u32>,
    pub(crate) attempt_limit: Option<Span>,
    pub(crate) limit: Option<Span>,
    pub(crate) jitter: Option<(Span, Span)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Backoff {
    #[default]
    Constant,
    Linear,
    Exponential,
}

#[derive(Debug)]
pub(crate) struct Listen {
    pub(crate) strategy: Strategy,
    pub(crate) read: ReadAs,
    pub(crate) each: Option<ForEach>,
}

/// Form in which events are passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReadAs {
    #[default]
    Data,
    Envelope,
    Raw,
}

#[derive(Debug)]
pub(crate) struct ForEach {
    pub(crate) item: String,
    pub(crate) at: String,
    pub(crate) block: Block,
    pub(crate) output: Transform,
    pub(crate) export: Transform,
}

/// Events to wait for.
#[derive(Debug)]
pub(crate) enum Strategy {
    One(Filter),
    All(Vec<Filter>),
    Any { filters: Vec<Filter>, until: Option<Until> },
}

impl Strategy {
    /// The types of the events, for people.
    pub(crate) fn shown(&self) -> String {
        let (filters, word) = match self {
            Self::One(filter) => (std::slice::from_ref(filter), ""),
            Self::All(filters) => (filters.as_slice(), " and "),
            Self::Any { filters, .. } => (filters.as_slice(), " or "),
        };
        let types: Option<Vec<&str>> = filters.iter().map(Filter::kind).collect();
        match types.as_deref() {
            None | Some([]) => "events".to_owned(),
            Some([kind]) => format!("the event {kind}"),
            Some(types) => format!("events {}", types.join(word)),
        }
    }
}

/// When no further events are waited for.
#[derive(Debug)]
pub(crate) enum Until {
    Condition(String),
    Events(Box<Strategy>),
}

/// Filter of events.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) with: Vec<(String, Template)>,
    pub(crate) correlate: Vec<Correlation>,
}

impl Filter {
    /// The type of its events, where the definition says it.
    fn kind(&self) -> Option<&str> {
        let (_, kind) = self.with.iter().find(|(name, _)| name == "type")?;
        match kind {
            Template::Fixed(kind) => kind.as_str(),
            Template::Loose(kind) => Some(kind),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Correlation {
    pub(crate) name: String,
    pub(crate) from: String,
    pub(crate) expect: Option<Template>,
}

#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) program: CommandProgram,
    pub(crate) stdin: Option<Template>,
    pub(crate) arguments: Option<Template>,
    pub(crate) environment: Option<Template>,
    pub(crate) is_awaited: bool,
    pub(crate) returns: Returns,
}

#[derive(Debug)]
pub(crate) struct ContainerRun {
    pub(crate) image: Template,
    pub(crate) name: Option<Template>,
    pub(crate) command: Option<Template>,
    pub(crate) arguments: Option<Template>,
    pub(crate) ports: Option<Template>,
    pub(crate) volumes: Option<Template>,
    pub(crate) environment: Option<Template>,
    pub(crate) stdin: Option<Template>,
    pub(crate) pull: PullPolicy,
    pub(crate) lifetime: Lifetime,
    pub(crate) is_awaited: bool,
    pub(crate) returns: Returns,
}

/// Treatment of an ended container.
#[derive(Clone, Debug, Default)]
pub(crate) enum Lifetime {
    #[default]
    Never,
    Always,
    Eventually(Span),
}

#[derive(Debug)]
pub(crate) enum CommandProgram {
    Shell(Template),
    Script { language: ScriptLanguage, code: Code },
}

#[derive(Debug)]
pub(crate) enum Code {
    Text(String),
    Source(Endpoint),
}

/// Part of a process result that is the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Returns {
    #[default]
    Stdout,
    Stderr,
    Code,
    All,
    None,
}

#[derive(Debug)]
pub(crate) struct SubFlow {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// `latest`, or a version.
    pub(crate) version: String,
    pub(crate) input: Option<Template>,
    pub(crate) is_awaited: bool,
    /// Whether its output is that of the task.
    pub(crate) has_output: bool,
}

/// Tasks around tasks.
#[derive(Debug)]
pub(crate) struct Extension {
    pub(crate) extend: String,
    pub(crate) when: Option<String>,
    pub(crate) before: Block,
    pub(crate) after: Block,
}

/// When a flow starts by itself.
#[derive(Debug)]
pub(crate) enum Start {
    Every(Duration),
    /// So long after each end, and at once.
    After(Duration),
    Cron {
        pattern: String,
        zone: String,
    },
    On(Strategy),
    /// With several events, which a plan of its own collects.
    Collected,
}
