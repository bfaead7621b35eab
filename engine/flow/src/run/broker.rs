//! Messages of channels that an AsyncAPI document describes, at a broker (NATS or AMQP 0.9.1) or
//! on a WebSocket.
//!
//! The bindings of the document say what the protocols have beside addresses: the group of NATS
//! that shares the messages, and queue and exchange of AMQP.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use serde_json::Value;

use super::asyncapi::{headers_of, replaced, Found, Published};
use super::effect::{fault_of, Effect};
use super::http::{add_headers, set_body};
use super::{asyncapi, auth, subscribe};
use crate::fault::Fault;
use crate::io::{Broker, BrokerChannel, BrokerMessage, HttpRequest};
use crate::model::{AsyncApi, Scheme};

pub(super) fn call(
    effect: &mut Effect<'_, '_>,
    it: &AsyncApi,
    protocol: Broker,
    server: &str,
    published: &Published<'_>,
) -> Result<Value, Fault> {
    let mut channel = channel(protocol, server, published, it.subscription.is_some())?;
    let policy = it.authentication.as_ref().or(it.document.authentication.as_ref());
    // Headers of a message and credentials are written as those of a request.
    let mut carrier = HttpRequest {
        method: "POST".to_owned(),
        uri: channel.shown(),
        headers: Vec::new(),
        body: None,
        follows_redirects: false,
        digest: None,
    };
    if let Some(policy) = policy {
        if policy.scheme == Scheme::Digest {
            let problem = "the authentication «digest» is one of HTTP: use «basic» or «bearer»";
            return Err(Fault::configuration(problem));
        }
        auth::authenticate(effect, policy, &mut carrier)?;
        credentials(&mut channel, &std::mem::take(&mut carrier.headers))?;
    }
    if let Some(subscription) = &it.subscription {
        return subscribe::receive(effect, &channel, subscription);
    }
    add_headers(&mut carrier, &Value::Object(headers_of(published)?))?;
    set_body(&mut carrier, published.payload);
    let is_type = |name: &str| name.eq_ignore_ascii_case("content-type");
    let (kind, headers): (Vec<_>, Vec<_>) =
        carrier.headers.into_iter().partition(|(name, _)| is_type(name));
    let message = BrokerMessage {
        headers,
        content_type: kind.into_iter().next().map(|(_, kind)| kind),
        correlation: None,
        body: carrier.body.unwrap_or_default(),
    };
    effect.io.publish(&channel, &message, &effect.call).map_err(fault_of)?;
    Ok(Value::Null)
}

/// The place at the broker that the document describes.
fn channel(
    protocol: Broker,
    server: &str,
    published: &Published<'_>,
    is_received: bool,
) -> Result<BrokerChannel, Fault> {
    let found = published.found;
    let Place { host, port, is_tls, path } = Place::of(protocol, server)?;
    let text = |value: Option<&Value>| {
        let text = value.and_then(Value::as_str).filter(|text| !text.is_empty());
        text.map(str::to_owned)
    };
    let binding = found.channel.pointer("/bindings/amqp");
    let amqp = |pointer: &str| text(binding.and_then(|binding| binding.pointer(pointer)));
    let (queue, exchange) = match protocol {
        Broker::Nats => (text(found.operation.pointer("/bindings/nats/queue")), None),
        Broker::Amqp => {
            let is_queue = amqp("/is").as_deref() == Some("queue");
            (amqp("/queue/name"), amqp("/exchange/name").filter(|_| !is_queue))
        }
        Broker::WebSocket => (None, None),
    };
    let address = match protocol {
        Broker::WebSocket => {
            let address = asyncapi::address(found, published.variables)?;
            format!("{path}{address}").trim_start_matches('/').to_owned()
        }
        _ => address(protocol, found, published.variables)?,
    };
    let vhost = match (protocol, path.is_empty()) {
        (Broker::Amqp, true) => amqp("/queue/vhost").or_else(|| amqp("/exchange/vhost")),
        (Broker::Amqp, false) => Some(virtual_host(&path, server)?),
        _ => None,
    };
    if protocol == Broker::Nats && !is_received && is_pattern(&address) {
        let problem = format!("the channel «{address}» is a pattern: nothing can be sent to it");
        return Err(Fault::configuration(problem));
    }
    Ok(BrokerChannel {
        protocol,
        host,
        port,
        is_tls,
        vhost: vhost.unwrap_or_else(|| "/".to_owned()),
        login: None,
        token: None,
        address,
        queue,
        exchange,
    })
}

/// The address of a channel with its parameters. Data must not make it a pattern, nor, of NATS, one
/// of other parts.
fn address(protocol: Broker, found: &Found, variables: &Value) -> Result<String, Fault> {
    const MARK: &str = "\0";
    let leads_out = |value: &str| {
        let is_of_patterns = |sign: char| {
            matches!(sign, '*' | '>' | '#' | '\0')
                || sign.is_whitespace()
                || (sign == '.' && protocol == Broker::Nats)
        };
        value.is_empty() || value.contains(is_of_patterns)
    };
    let written = |value: &str| if leads_out(value) { MARK } else { value }.to_owned();
    let parameters = found.channel.get("parameters");
    let address = replaced(&found.address, parameters, variables, written)?;
    if address.contains(MARK) {
        return Err(Fault::configuration(format!(
            "«server.variables» must not be empty in «{}», and must have no blanks, separators and \
             wildcards: they would lead to another channel",
            found.address
        )));
    }
    let is_wrong = match protocol {
        Broker::Nats => {
            address.contains(char::is_whitespace) || address.split('.').any(str::is_empty)
        }
        Broker::Amqp => address.len() > 255,
        Broker::WebSocket => false,
    };
    if is_wrong {
        let problem = format!("«{address}» is no address of a channel of {}", protocol.name());
        return Err(Fault::configuration(problem));
    }
    Ok(address)
}

/// Whether a subject has wildcards.
fn is_pattern(subject: &str) -> bool {
    subject.split('.').any(|token| matches!(token, "*" | ">"))
}

/// Takes the credentials of a header for the connection.
fn credentials(channel: &mut BrokerChannel, headers: &[(String, String)]) -> Result<(), Fault> {
    let given = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    match given.and_then(|(_, value)| value.split_once(' ')) {
        Some(("Basic", pair)) => {
            let pair = STANDARD.decode(pair).ok().and_then(|pair| String::from_utf8(pair).ok());
            let pair = pair.as_deref().and_then(|pair| pair.split_once(':'));
            let (name, password) = pair.ok_or_else(|| {
                Fault::authentication("the name and the password are no credentials of a broker")
            })?;
            channel.login = Some((name.to_owned(), password.to_owned()));
        }
        Some((_, token)) => channel.token = Some(token.to_owned()),
        None => {}
    }
    Ok(())
}

/// The parts of the address of a server.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    host: String,
    port: u16,
    is_tls: bool,
    /// Without its slash, as it is written.
    path: String,
}

impl Place {
    fn of(protocol: Broker, server: &str) -> Result<Self, Fault> {
        let wrong = |why: &str| {
            let shown = server.rsplit('@').next().unwrap_or_default();
            let problem = format!("the server «{shown}» has no address of {}", protocol.name());
            Fault::configuration(format!("{problem}: {why}"))
        };
        let (scheme, rest) = server.split_once("://").ok_or_else(|| wrong("no scheme"))?;
        let (is_tls, default) = match (protocol, scheme.to_ascii_lowercase().as_str()) {
            (Broker::Nats, "nats") => (false, 4_222),
            (Broker::Nats, "tls") => (true, 4_222),
            (Broker::Amqp, "amqp") => (false, 5_672),
            (Broker::Amqp, "amqps") => (true, 5_671),
            (Broker::WebSocket, "ws") => (false, 80),
            (Broker::WebSocket, "wss") => (true, 443),
            (_, scheme) => return Err(wrong(&format!("«{scheme}» is another protocol"))),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err(wrong("credentials belong into «authentication»"));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(|| wrong("a bracket is open"))?,
            None => match authority.find(':') {
                Some(at) => authority.split_at(at),
                None => (authority, ""),
            },
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| wrong("its port is no number"))?,
            None if port.is_empty() => default,
            None => return Err(wrong("its port is no number")),
        };
        if host.is_empty() || host.contains(|sign: char| "?#\\,".contains(sign)) {
            return Err(wrong("it has no host"));
        }
        Ok(Self { host: host.to_owned(), port, is_tls, path: path.to_owned() })
    }
}

/// The virtual host of AMQP, which is the path of a server.
fn virtual_host(path: &str, server: &str) -> Result<String, Fault> {
    decoded(path).ok_or_else(|| {
        Fault::configuration(format!("the server «{server}» has a path that is no text"))
    })
}

/// A path whose codes are the signs that they mean.
fn decoded(path: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(path.len()), path);
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        bytes.push(u8::from_str_radix(after.get(..2)?, 16).ok()?);
        rest = &after[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_a_server_has_host_port_and_virtual_host() {
        let place = |protocol, server: &str| {
            let Place { host, port, is_tls, path } = Place::of(protocol, server).ok()?;
            Some(format!("{host} {port} {is_tls} {path}"))
        };
        for (protocol, server, expected) in [
            (Broker::Nats, "nats://bus.example", Some("bus.example 4222 false ")),
            (Broker::Nats, "tls://bus.example:1", Some("bus.example 1 true ")),
            (Broker::Amqp, "AMQPS://bus.example/%2Fshop", Some("bus.example 5671 true %2Fshop")),
            (Broker::Amqp, "amqp://[::1]:7/shop", Some("::1 7 false shop")),
            (Broker::Amqp, "nats://bus.example", None),
            (Broker::Amqp, "amqp://ann:secret@bus.example", None),
            (Broker::Amqp, "amqp://bus.example:x", None),
            (Broker::Amqp, "amqp://[::1]7", None),
            (Broker::Amqp, "amqp:///x", None),
            (Broker::WebSocket, "wss://chat.example/v1", Some("chat.example 443 true v1")),
            (Broker::WebSocket, "https://chat.example", None),
            (Broker::Nats, "nats://a,b", None),
        ] {
            assert_eq!(place(protocol, server).as_deref(), expected, "{server}");
        }
        assert_eq!(virtual_host("%2Fshop", "amqp://a/%2Fshop").ok().as_deref(), Some("/shop"));
        assert!(virtual_host("%zz", "amqp://a/%zz").is_err());
    }
}
