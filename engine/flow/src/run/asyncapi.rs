//! Messages to services that an AsyncAPI document describes, versions 2 and 3.
//!
//! The document says where: a channel has an address, and a server a protocol, a host and variables.
//! Over HTTP the message is the body of a request, which is a POST unless the bindings of the
//! operation name another method, and the output is the content of the answer.

use serde_json::{Map, Value};

use super::effect::Effect;
use super::http::{add_headers, send, set_body};
use super::openapi::{document, followed};
use super::process::source;
use super::subscribe::subscribe;
use super::uri::{self, encoded};
use super::{auth, broker};
use crate::expr::as_text;
use crate::fault::Fault;
use crate::io::HttpRequest;
use crate::model::{AsyncApi, HttpOutput, Transport};

pub(super) fn call(effect: &mut Effect<'_, '_>, it: &AsyncApi) -> Result<Value, Fault> {
    let uri = uri::of(effect, &it.document)?;
    let text = source(effect, &it.document)?;
    let document = document(&text, &uri, "AsyncAPI")?;
    if document.get("asyncapi").is_none() {
        return Err(Fault::configuration(format!("{} is no AsyncAPI document", uri::shown(&uri))));
    }
    let fill = |template: &Option<crate::expr::Template>| match template {
        Some(template) => effect.env.fill_own(template),
        None => Ok(Value::Null),
    };
    let (variables, payload) = (fill(&it.variables)?, fill(&it.payload)?);
    let headers = fill(&it.headers)?;
    let is_received = it.subscription.is_some();
    let found = find(&document, &it.place, it.is_channel, is_received).ok_or_else(|| {
        let kind = if it.is_channel { "channel" } else { "operation" };
        Fault::configuration(format!("{} has no {kind} «{}»", uri::shown(&uri), it.place))
    })?;
    let (transport, server) = server(&document, &found, it, &variables)?;
    let (document, found) = (&document, &found);
    let published =
        Published { document, found, variables: &variables, headers, payload: &payload };
    match transport {
        Transport::Http => over_http(effect, it, &server, &published),
        Transport::Broker(protocol) => broker::call(effect, it, protocol, &server, &published),
    }
}

/// A call, as its document and the flow describe it.
pub(super) struct Published<'a> {
    document: &'a Value,
    pub(super) found: &'a Found,
    pub(super) variables: &'a Value,
    headers: Value,
    pub(super) payload: &'a Value,
}

fn over_http(
    effect: &mut Effect<'_, '_>,
    it: &AsyncApi,
    server: &str,
    published: &Published<'_>,
) -> Result<Value, Fault> {
    let Published { found, variables, payload, .. } = *published;
    let mut request = HttpRequest {
        method: method(found, if it.subscription.is_some() { "GET" } else { "POST" }),
        uri: format!("{server}{}", address(found, variables)?),
        headers: Vec::new(),
        body: None,
        follows_redirects: false,
        digest: None,
    };
    if let Some(policy) = it.authentication.as_ref().or(it.document.authentication.as_ref()) {
        auth::authenticate(effect, policy, &mut request)?;
    }
    if let Some(subscription) = &it.subscription {
        return subscribe(effect, request, subscription);
    }
    add_headers(&mut request, &Value::Object(headers_of(published)?))?;
    set_body(&mut request, payload);
    send(effect, request, HttpOutput::Content, false)
}

/// The headers of a message, with the type that the document says.
pub(super) fn headers_of(published: &Published<'_>) -> Result<Map<String, Value>, Fault> {
    let mut headers = match &published.headers {
        Value::Null => Map::new(),
        Value::Object(headers) => headers.clone(),
        other => return Err(Fault::expression(format!("headers must be an object, not {other}"))),
    };
    if let Some(kind) = content_type(published.document, published.found) {
        if !headers.keys().any(|name| name.eq_ignore_ascii_case("content-type")) {
            headers.insert("Content-Type".to_owned(), Value::String(kind));
        }
    }
    Ok(headers)
}

/// A channel of a document, and the operation on it.
pub(super) struct Found {
    /// Its address: the name of a channel of version 2.
    pub(super) address: String,
    pub(super) channel: Value,
    pub(super) operation: Value,
}

fn find(document: &Value, place: &str, is_channel: bool, is_received: bool) -> Option<Found> {
    let channels = document.get("channels")?.as_object()?;
    let found = |name: &str, channel: Value, operation: Value| {
        let own = channel.get("address").and_then(Value::as_str);
        Some(Found { address: own.unwrap_or(name).to_owned(), channel, operation })
    };
    let named = |name: &str| followed(document, channels.get(name)?);
    if is_channel {
        let channel = named(place)?;
        let own = channel.get("subscribe").filter(|_| is_received);
        let operation = own.or_else(|| channel.get("publish")).cloned().unwrap_or(Value::Null);
        return found(place, channel, operation);
    }
    let operation = document.get("operations").and_then(|all| all.get(place));
    if let Some(operation) = operation.and_then(|it| followed(document, it)) {
        let target = operation.pointer("/channel/$ref").and_then(Value::as_str)?;
        let name = target.strip_prefix("#/channels/")?.replace("~1", "/");
        return found(&name, named(&name)?, operation);
    }
    // Version 2 has operations inside of channels.
    channels.iter().find_map(|(name, channel)| {
        let channel = followed(document, channel)?;
        let operation = ["publish", "subscribe"].iter().find_map(|kind| {
            let operation = channel.get(*kind)?;
            let own = operation.get("operationId").and_then(Value::as_str);
            (own == Some(place)).then(|| operation.clone())
        })?;
        found(name, channel, operation)
    })
}

/// The method of the binding of HTTP, if it names one.
fn method(found: &Found, default: &str) -> String {
    let named = found.operation.pointer("/bindings/http/method").and_then(Value::as_str);
    named.unwrap_or(default).to_ascii_uppercase()
}

/// The type of the message, of the operation or of the document.
fn content_type(document: &Value, found: &Found) -> Option<String> {
    let own = |message: &Value| {
        let message = followed(document, message)?;
        message.get("contentType").and_then(Value::as_str).map(str::to_owned)
    };
    let messages = found.channel.get("messages").and_then(Value::as_object);
    let of_channel = messages.and_then(|all| all.values().next());
    let message = found.operation.get("message").or(of_channel);
    let default = document.get("defaultContentType").and_then(Value::as_str);
    message.and_then(own).or_else(|| default.map(str::to_owned))
}

/// The address of a channel, whose parameters have the values of variables.
pub(super) fn address(found: &Found, variables: &Value) -> Result<String, Fault> {
    let address = replaced(&found.address, found.channel.get("parameters"), variables, encoded)?;
    let address = uri::without_dots(address, &found.address)?;
    Ok(if address.starts_with('/') { address } else { format!("/{address}") })
}

/// The protocol and the address of the server: the one that is named, or the first one that speaks
/// what the flow says, or what is supported.
fn server(
    document: &Value,
    found: &Found,
    it: &AsyncApi,
    variables: &Value,
) -> Result<(Transport, String), Fault> {
    let all = document.get("servers").and_then(Value::as_object);
    let protocol = |server: &Value| {
        server.get("protocol").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase()
    };
    let spoken = |server: &Value| {
        let transport = Transport::of(&protocol(server));
        transport.filter(|known| it.protocol.is_none_or(|wanted| wanted == *known))
    };
    let wanted = it.protocol.map_or("http, ws, nats or amqp", Transport::name);
    // A channel may be at some servers only: by their names, or by references to them.
    let own = found.channel.get("servers").and_then(Value::as_array);
    let is_own = |name: &str| {
        own.is_none_or(|own| {
            let mut names =
                own.iter().filter_map(|it| it.as_str().or_else(|| it.get("$ref")?.as_str()));
            own.is_empty() || names.any(|own| own.trim_start_matches("#/servers/") == name)
        })
    };
    let (transport, server) = match it.server.as_deref() {
        Some(name) => {
            let server = all.and_then(|all| followed(document, all.get(name)?));
            let server = server.ok_or_else(|| {
                Fault::configuration(format!("the AsyncAPI document has no server «{name}»"))
            })?;
            let transport = spoken(&server).ok_or_else(|| {
                let other = protocol(&server);
                let problem = format!("the server «{name}» speaks «{other}», and not {wanted}");
                Fault::configuration(problem)
            })?;
            (transport, server)
        }
        None => {
            let mut known = all.into_iter().flatten().filter(|(name, _)| is_own(name));
            let server = known.find_map(|(_, it)| {
                let server = followed(document, it)?;
                Some((spoken(&server)?, server))
            });
            server.ok_or_else(|| {
                let problem = "the AsyncAPI document has no server of the channel that speaks";
                Fault::configuration(format!("{problem} {wanted}"))
            })?
        }
    };
    let text = |name: &str| server.get(name).and_then(Value::as_str);
    let written = match (text("url"), text("host")) {
        (Some(url), _) => url.to_owned(),
        (None, Some(host)) => format!("{host}{}", text("pathname").unwrap_or_default()),
        (None, None) => {
            return Err(Fault::configuration("a server of the AsyncAPI document has no address"));
        }
    };
    let address = replaced(&written, server.get("variables"), variables, str::to_owned)?;
    let host = authority(&written);
    let meant = replaced(host, server.get("variables"), variables, str::to_owned)?;
    let users = |text: &str| text.matches('@').count();
    if authority(&address) != meant || users(&meant) != users(host) {
        return Err(Fault::configuration(format!(
            "«server.variables» lead from «{written}» to another server, «{}»",
            authority(&address)
        )));
    }
    let address = uri::without_dots(address, &written)?;
    let address = address.trim_end_matches('/');
    let address = match address.contains("://") {
        true => address.to_owned(),
        false => format!("{}://{address}", protocol(&server)),
    };
    Ok((transport, address))
}

/// The host of an address with its port, and what stands before it.
fn authority(address: &str) -> &str {
    let from = address.find("://").map_or(0, |at| at + 3);
    let to = address[from..].find(['/', '?', '#', '\\']).map_or(address.len(), |at| from + at);
    &address[..to]
}

/// A text whose `{names}` are values that are given, or those that the document has by default.
pub(super) fn replaced(
    text: &str,
    described: Option<&Value>,
    given: &Value,
    written: impl Fn(&str) -> String,
) -> Result<String, Fault> {
    let (mut whole, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        let default = described.and_then(|all| all.get(name)?.get("default"));
        let value = given.get(name).filter(|value| !value.is_null()).or(default);
        let value = value.ok_or_else(|| {
            Fault::configuration(format!(
                "«{text}» needs a value for «{name}», in «server.variables»"
            ))
        })?;
        whole.push_str(before);
        whole.push_str(&written(&as_text(value)));
        rest = after;
    }
    whole.push_str(rest);
    Ok(whole)
}
