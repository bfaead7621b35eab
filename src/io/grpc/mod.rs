//! Calls of gRPC methods: one message or a stream of them there, and likewise back. All messages of
//! a call are known when it begins, so a stream there is sent at once, and then ended.
//!
//! A call has a connection of its own, on the thread of its caller, and ends with it: at its
//! deadline, when it is cancelled, when enough has come. Nothing is sent to the service before the
//! arguments were found to fit the message that the method takes.
//!
//! | part | what it does |
//! | --- | --- |
//! | `describe` | the method, by files that are compiled or by the server's reflection |
//! | `channel` | the connection: open addresses only, TLS, HTTP/2; one exchange on it |
//! | `status` | how an exchange ended, with its details |

mod channel;
mod describe;
mod status;

use std::sync::Arc;
use std::time::Instant;

use prost_reflect::{
    DeserializeOptions, DynamicMessage, MethodDescriptor, ReflectMessage as _, SerializeOptions,
};
use serde_json::Value;
use tokio_rustls::rustls::ClientConfig;
use turnwheel_flow::{GrpcRequest, GrpcResponse, HttpResponse, IoCall, IoError, IoErrorKind};

use self::channel::{Channel, Head};
use super::options::IoOptions;
use super::request_span::RequestSpan;
use super::target::Target;
use super::waiting::{on_runtime, runtime};

pub(super) use self::channel::tls_config;

/// Messages of one answer.
const MESSAGES_MAX: usize = 100_000;

/// Checks the arguments of a call by the files that it has.
pub(super) fn check(request: &GrpcRequest) -> Result<(), IoError> {
    Prepared::new(describe::compiled(&request.protos, request)?, request).map(drop)
}

/// Calls a method, with certificates of its own if there are some.
pub(super) fn call(
    options: &IoOptions,
    request: &GrpcRequest,
    tls: Option<Arc<ClientConfig>>,
    call: &IoCall<'_>,
) -> Result<GrpcResponse, IoError> {
    let shown = request.shown();
    let scheme = if request.is_tls { "https" } else { "http" };
    let rest = shown.split_once("://").map_or("", |(_, rest)| rest);
    let target = Target::parse(&format!("{scheme}://{rest}")).ok_or_else(|| {
        IoError::new(IoErrorKind::Unsupported, format!("«{shown}» is no address of gRPC"))
    })?;
    let span = RequestSpan::begin("POST", &target, call.trace);
    let outcome = answer(options, request, tls, call, span.parent.as_deref());
    let seen = outcome
        .as_ref()
        .map(|response| HttpResponse { status: response.http_status(), ..HttpResponse::default() });
    span.end(&seen.map_err(Clone::clone));
    outcome
}

fn answer(
    options: &IoOptions,
    request: &GrpcRequest,
    tls: Option<Arc<ClientConfig>>,
    call: &IoCall<'_>,
    parent: Option<&str>,
) -> Result<GrpcResponse, IoError> {
    let deadline = call.until(Instant::now(), options.http_timeout);
    let prepared = match request.protos.as_slice() {
        [] => None,
        files => Some(Prepared::new(describe::compiled(files, request)?, request)?),
    };
    let mut metadata = request.metadata.clone();
    metadata.push(("idempotency-key".to_owned(), call.key.to_owned()));
    metadata.extend(parent.map(|parent| ("traceparent".to_owned(), parent.to_owned())));
    let state = call.trace_state.filter(|_| parent.is_some());
    metadata.extend(state.map(|state| ("tracestate".to_owned(), state.to_owned())));
    let head = Head { metadata: &metadata, deadline, limit: options.body_max };
    let work = async {
        let tls = match (request.is_tls, tls) {
            (false, _) => None,
            (true, Some(own)) => Some(own),
            (true, None) => Some(tls_config(Vec::new(), None)?),
        };
        let mut channel =
            Channel::open(options, &request.host, request.port, tls, deadline).await?;
        let prepared = match prepared {
            Some(prepared) => prepared,
            None => {
                let method = describe::reflected(&mut channel, request, &head).await?;
                Prepared::new(method, request)?
            }
        };
        prepared.exchange(&mut channel, request, &head).await
    };
    let runtime = runtime(&request.shown(), deadline, call)?;
    let outcome = on_runtime(&runtime, &request.shown(), deadline, call, work);
    // A name that is being resolved would hold up the end.
    runtime.shutdown_background();
    outcome
}

/// A method, and the messages for it: one, unless it takes a stream.
struct Prepared {
    method: MethodDescriptor,
    messages: Vec<DynamicMessage>,
}

impl Prepared {
    /// Checks that the arguments fit the method.
    fn new(method: MethodDescriptor, request: &GrpcRequest) -> Result<Self, IoError> {
        let wrong = |problem: &str| {
            let message = format!("the method {} {problem}", method.full_name());
            Err(IoError::new(IoErrorKind::Invalid, message))
        };
        let arguments = match (&request.arguments, method.is_client_streaming()) {
            (Value::Array(all), true) => all.as_slice(),
            (_, true) => return wrong("takes a stream of messages: give a list of objects"),
            (Value::Array(_), false) => return wrong("takes one message: give an object"),
            (one, false) => std::slice::from_ref(one),
        };
        let kind = method.input();
        let options = DeserializeOptions::new().deny_unknown_fields(true);
        let message = |value: &Value| {
            let message = DynamicMessage::deserialize_with_options(kind.clone(), value, &options);
            message.map_err(|error| {
                let name = kind.full_name();
                let message = format!("the arguments do not fit the message {name}: {error}");
                IoError::new(IoErrorKind::Invalid, message)
            })
        };
        let messages = arguments.iter().map(message).collect::<Result<_, _>>()?;
        Ok(Self { method, messages })
    }

    async fn exchange(
        self,
        channel: &mut Channel,
        request: &GrpcRequest,
        head: &Head<'_>,
    ) -> Result<GrpcResponse, IoError> {
        let shown = request.shown();
        let kind = self.method.output();
        let (mut messages, mut size) = (Vec::new(), 0);
        let mut take = |bytes: bytes::Bytes| {
            let wrong = |error: &dyn std::fmt::Display| {
                let name = kind.full_name();
                let message = format!("{shown} answered no message {name}: {error}");
                IoError::new(IoErrorKind::Communication, message)
            };
            let message = DynamicMessage::decode(kind.clone(), bytes);
            let value = written(&message.map_err(|error| wrong(&error))?);
            let value = value.map_err(|error| wrong(&error))?;
            size += value.to_string().len();
            if messages.len() >= MESSAGES_MAX || size > head.limit {
                let (count, limit) = (messages.len(), head.limit);
                let message = format!(
                    "the answer of {shown} is too large: {count} messages came, and {MESSAGES_MAX} \
                     of {limit} bytes together are allowed"
                );
                return Err(IoError::new(IoErrorKind::TooLarge, message));
            }
            messages.push(value);
            Ok(())
        };
        let path = format!("/{}/{}", request.service, request.method);
        let ended = channel.exchange(&path, head, &self.messages, &mut take).await?;
        let mut response = ended.response();
        if response.status != 0 {
            return Ok(response);
        }
        response.output = match (self.method.is_server_streaming(), messages.len()) {
            (true, _) => Value::Array(messages),
            (false, 1) => messages.remove(0),
            (false, count) => {
                let message = format!("{shown} answered {count} messages in place of one");
                return Err(IoError::new(IoErrorKind::Communication, message));
            }
        };
        Ok(response)
    }
}

/// Levels of an answer: stored texts are read with at most 128.
const LEVELS_MAX: usize = 100;

/// A message as data: numbers of 64 bits are texts, as the JSON mapping wants; fields without a
/// value have their defaults, so that expressions find them.
fn written(message: &DynamicMessage) -> Result<Value, serde_json::Error> {
    if is_deep(message, LEVELS_MAX) {
        let problem = format!("it is nested more than {LEVELS_MAX} deep");
        return Err(<serde_json::Error as serde::ser::Error>::custom(problem));
    }
    let options = SerializeOptions::new().skip_default_fields(false);
    message.serialize_with_options(serde_json::value::Serializer, &options)
}

/// Whether a message has more levels. The library reads each `Any` anew, without a limit for all.
fn is_deep(message: &DynamicMessage, left: usize) -> bool {
    let Some(left) = left.checked_sub(1) else { return true };
    let descriptor = message.descriptor();
    if descriptor.full_name() == "google.protobuf.Any" {
        let inner = || {
            let url = message.get_field_by_name("type_url")?;
            let (_, name) = url.as_str()?.rsplit_once('/')?;
            let kind = descriptor.parent_pool().get_message_by_name(name)?;
            let bytes = message.get_field_by_name("value")?.as_bytes()?.clone();
            DynamicMessage::decode(kind, bytes).ok()
        };
        return inner().is_some_and(|inner| is_deep(&inner, left));
    }
    message.fields().any(|(_, it)| is_deep_value(it, left))
        || message.extensions().any(|(_, it)| is_deep_value(it, left))
}

fn is_deep_value(value: &prost_reflect::Value, left: usize) -> bool {
    use prost_reflect::Value as V;
    match value {
        V::Message(message) => is_deep(message, left),
        V::List(all) => left == 0 || all.iter().any(|it| is_deep_value(it, left - 1)),
        V::Map(all) => left == 0 || all.values().any(|it| is_deep_value(it, left - 1)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use prost_reflect::prost::Message as _;
    use prost_reflect::{DescriptorPool, DynamicMessage, Value};

    use super::*;

    #[test]
    fn messages_within_messages_without_an_end_are_refused() {
        let kind = DescriptorPool::global().get_message_by_name("google.protobuf.Any");
        let kind = kind.expect("it is built in");
        let nested = |levels: usize| {
            let mut bytes = Vec::new();
            for level in 0..levels {
                let mut any = DynamicMessage::new(kind.clone());
                let inner = if level == 0 { "Empty" } else { "Any" };
                let url = format!("type.googleapis.com/google.protobuf.{inner}");
                any.set_field_by_name("type_url", Value::String(url));
                any.set_field_by_name("value", Value::Bytes(bytes.into()));
                bytes = any.encode_to_vec();
            }
            DynamicMessage::decode(kind.clone(), &*bytes).expect("it is one")
        };
        assert!(written(&nested(20)).is_ok());
        let error = written(&nested(5_000)).expect_err("it is too deep").to_string();
        assert!(error.contains("more than 100 deep"), "{error}");
    }
}
