//! Calls of services, as they are run.

use super::{ForEach, Span, TaskId};
use crate::expr::Template;
use crate::io::Broker;

#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) uri: Template,
    pub(crate) authentication: Option<Authentication>,
}

#[derive(Debug)]
pub(crate) struct Http {
    pub(crate) method: Template,
    pub(crate) endpoint: Endpoint,
    pub(crate) headers: Option<Template>,
    pub(crate) query: Option<Template>,
    pub(crate) body: Option<Template>,
    pub(crate) output: HttpOutput,
    pub(crate) redirects: bool,
}

#[derive(Debug)]
pub(crate) struct OpenApi {
    pub(crate) document: Endpoint,
    pub(crate) operation: String,
    pub(crate) parameters: Option<Template>,
    pub(crate) authentication: Option<Authentication>,
    pub(crate) output: HttpOutput,
    pub(crate) redirects: bool,
}

/// A message that is published to a channel of an AsyncAPI document.
#[derive(Debug)]
pub(crate) struct AsyncApi {
    pub(crate) document: Endpoint,
    /// The name of an operation, or of a channel.
    pub(crate) place: String,
    pub(crate) is_channel: bool,
    /// The protocol of the server, if the flow says it.
    pub(crate) protocol: Option<Transport>,
    /// The name of the server; the first one that fits if there is none.
    pub(crate) server: Option<String>,
    pub(crate) variables: Option<Template>,
    pub(crate) payload: Option<Template>,
    pub(crate) headers: Option<Template>,
    pub(crate) authentication: Option<Authentication>,
    /// Messages that are received; one is sent if there is none.
    pub(crate) subscription: Option<Subscription>,
}

/// How messages are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Http,
    Broker(Broker),
}

impl Transport {
    /// The one that a protocol of AsyncAPI is, if it is supported.
    pub(crate) fn of(protocol: &str) -> Option<Self> {
        match protocol.to_ascii_lowercase().as_str() {
            "http" | "https" => Some(Self::Http),
            "nats" | "tls" => Some(Self::Broker(Broker::Nats)),
            "amqp" | "amqps" => Some(Self::Broker(Broker::Amqp)),
            "ws" | "wss" => Some(Self::Broker(Broker::WebSocket)),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Broker(protocol) => protocol.name(),
        }
    }
}

/// Messages to be received. It ends with the first of its conditions.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) filter: Option<String>,
    pub(crate) amount: Option<u64>,
    pub(crate) during: Option<Span>,
    pub(crate) whilst: Option<String>,
    pub(crate) until: Option<String>,
    /// Whether each message is taken by itself: the task around counts them, and this is its time
    /// limit.
    pub(crate) is_single: bool,
    pub(crate) limit: Option<Span>,
}

/// Messages of a subscription that are processed one after the other.
#[derive(Debug)]
pub(crate) struct Consume {
    /// The call that takes the next one.
    pub(crate) source: TaskId,
    pub(crate) each: ForEach,
}

/// A call of a gRPC method.
#[derive(Debug)]
pub(crate) struct Grpc {
    /// The file that describes the service; the server is asked if there is none.
    pub(crate) proto: Option<Endpoint>,
    /// With its package.
    pub(crate) service: String,
    pub(crate) host: Template,
    /// That of TLS if there is none.
    pub(crate) port: Option<Template>,
    /// Whether the connection has TLS; the port says so if this does not.
    pub(crate) tls: Option<bool>,
    pub(crate) authentication: Option<Authentication>,
    pub(crate) method: String,
    pub(crate) arguments: Option<Template>,
}

/// A task for external workers.
#[derive(Debug)]
pub(crate) struct WorkerCall {
    pub(crate) topic: Template,
    /// The input of the task if there is none.
    pub(crate) input: Option<Template>,
    pub(crate) attempts: Option<u32>,
}

/// A call of a server that speaks the Model Context Protocol.
#[derive(Debug)]
pub(crate) struct Mcp {
    /// The version of the protocol that is asked for.
    pub(crate) version: String,
    pub(crate) method: String,
    pub(crate) parameters: Option<Template>,
    pub(crate) timeout: Option<Span>,
    pub(crate) transport: McpTransport,
    /// Name and version of the client.
    pub(crate) client: (String, String),
}

/// A call of an agent that speaks A2A.
#[derive(Debug)]
pub(crate) struct A2a {
    /// The description of the agent.
    pub(crate) card: Option<Endpoint>,
    /// The agent itself, if it has no card.
    pub(crate) server: Option<Endpoint>,
    pub(crate) method: &'static str,
    pub(crate) parameters: Option<Template>,
}

/// The way to such a server.
#[derive(Debug)]
pub(crate) enum McpTransport {
    Http { endpoint: Endpoint, headers: Option<Template> },
    Stdio { command: Template, arguments: Option<Template>, environment: Option<Template> },
}

/// Part of an HTTP answer that is the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HttpOutput {
    #[default]
    Content,
    Raw,
    Response,
}

/// Authentication of a call.
#[derive(Clone, Debug)]
pub(crate) struct Authentication {
    pub(crate) scheme: Scheme,
    pub(crate) properties: Properties,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Basic,
    Bearer,
    Digest,
    OAuth2,
    Oidc,
}

/// Location of the properties of an authentication.
#[derive(Clone, Debug)]
pub(crate) enum Properties {
    Written(Template),
    Secret(String),
}
