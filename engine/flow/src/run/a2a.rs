//! Calls of agents that speak the protocol A2A, as JSON-RPC over HTTP.

use serde_json::{json, Map, Value};
use sha2::{Digest, Sha256};

use super::effect::{fault_of, Effect};
use super::http::{add_headers, status_fault};
use super::mcp::{events, is_stream, shown};
use super::openapi::document;
use super::process::source_at;
use super::{auth, uri};
use crate::fault::Fault;
use crate::io::{HttpRequest, HttpResponse};
use crate::model::{A2a, Authentication};

/// Methods that are answered by a stream of results.
const STREAMS: [&str; 2] = ["message/stream", "tasks/resubscribe"];

/// The binding that is spoken here.
const BINDING: &str = "JSONRPC";

pub(super) fn call(effect: &mut Effect<'_, '_>, it: &A2a) -> Result<Value, Fault> {
    let parameters = it.parameters.as_ref().map(|template| effect.env.fill_own(template));
    let mut parameters = parameters.transpose()?.unwrap_or(Value::Null);
    if it.method.starts_with("message/") {
        complete(&mut parameters, effect.call.key)?;
    }
    let mut body = json!({ "jsonrpc": "2.0", "id": effect.call.key, "method": it.method });
    if !parameters.is_null() {
        body["params"] = parameters;
    }
    let (uri, policy) = place(effect, it)?;
    let mut request = HttpRequest {
        method: "POST".to_owned(),
        uri,
        headers: Vec::new(),
        body: Some(body.to_string().into_bytes()),
        follows_redirects: false,
        digest: None,
    };
    if let Some(policy) = policy {
        auth::authenticate(effect, policy, &mut request)?;
    }
    let accepts = match STREAMS.contains(&it.method) {
        true => "text/event-stream, application/json",
        false => "application/json",
    };
    add_headers(&mut request, &json!({ "Content-Type": "application/json", "Accept": accepts }))?;
    let is_enough = |answer: &mut HttpResponse| is_last(answer);
    let response = effect.io.http_until(&request, Box::new(is_enough), &effect.call);
    let response = response.map_err(fault_of)?;
    if !(200..300).contains(&response.status) {
        return Err(status_fault(effect, &request, &response));
    }
    let text = String::from_utf8_lossy(&response.body);
    if !STREAMS.contains(&it.method) {
        return result(effect, &text);
    }
    let parts = match is_stream(&response) {
        true => events(&text),
        false => vec![text.into_owned()],
    };
    let parts = parts.iter().filter(|part| !part.is_empty());
    Ok(Value::Array(parts.map(|part| result(effect, part)).collect::<Result<_, _>>()?))
}

/// Gives a message the id and the role that it has by default. The id is the same in each attempt
/// of the call, so that an agent recognises a message that comes again.
fn complete(parameters: &mut Value, key: &str) -> Result<(), Fault> {
    let wrong = || Fault::validation("the parameters must be an object with a «message»");
    let message = parameters.get_mut("message").and_then(Value::as_object_mut);
    let message = message.ok_or_else(wrong)?;
    message.entry("messageId").or_insert_with(|| Value::String(uuid(key)));
    message.entry("role").or_insert_with(|| json!("user"));
    Ok(())
}

/// A UUID of version 8 for a key.
fn uuid(key: &str) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&Sha256::digest(key)[..16]);
    let number = u128::from_be_bytes(bytes) & !(0xf << 76) & !(3 << 62) | 8 << 76 | 2 << 62;
    let digits = format!("{number:032x}");
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

/// Address of the agent, and how it is authenticated to.
fn place<'a>(
    effect: &mut Effect<'_, '_>,
    it: &'a A2a,
) -> Result<(String, Option<&'a Authentication>), Fault> {
    let Some(card) = &it.card else {
        let none = || Fault::configuration("the call names neither «agentCard» nor «server»");
        let server = it.server.as_ref().ok_or_else(none)?;
        return Ok((uri::of(effect, server)?, server.authentication.as_ref()));
    };
    let base = uri::of(effect, card)?;
    let text = source_at(effect, &base, card.authentication.as_ref())?;
    let described = document(&text, &base, "agent card")?;
    let url = interface(&described).ok_or_else(|| {
        Fault::configuration(format!("{base} names no interface of the agent that is {BINDING}"))
    })?;
    // The words of a card must not lead credentials elsewhere.
    let policy = card.authentication.as_ref().filter(|_| origin(&base) == origin(&url));
    Ok((url, policy))
}

/// The address at which an agent speaks JSON-RPC, in cards of the versions 0 and 1 of the protocol.
fn interface(card: &Value) -> Option<String> {
    let text = |value: &Value, name: &str| value.get(name)?.as_str().map(str::to_owned);
    let preferred = text(card, "preferredTransport");
    if preferred.is_none_or(|preferred| preferred == BINDING) {
        if let Some(url) = text(card, "url") {
            return Some(url);
        }
    }
    let lists = ["supportedInterfaces", "additionalInterfaces"].map(|name| card.get(name));
    let mut all = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
    all.find_map(|it| {
        let binding = text(it, "protocolBinding").or_else(|| text(it, "transport"));
        binding.filter(|binding| binding == BINDING).and_then(|_| text(it, "url"))
    })
}

/// Scheme, host and port.
fn origin(uri: &str) -> String {
    let (scheme, rest) = uri.split_once("://").unwrap_or(("", uri));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let scheme = scheme.to_ascii_lowercase();
    let host = authority.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
    let usual = if scheme == "https" { ":443" } else { ":80" };
    format!("{scheme}://{}", host.strip_suffix(usual).unwrap_or(&host))
}

/// The result of an answer.
fn result(effect: &Effect<'_, '_>, text: &str) -> Result<Value, Fault> {
    let answer: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| Fault::runtime(format!("the agent answered no JSON-RPC: {error}")))?;
    if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
        return Err(Fault::runtime(format!("the agent refuses: {}", shown(effect, error))));
    }
    let none = || Fault::runtime("the agent answered neither a result nor an error");
    answer.get("result").cloned().ok_or_else(none)
}

/// Whether a stream has its last event: some agents leave it open after that.
fn is_last(answer: &HttpResponse) -> bool {
    if !is_stream(answer) || !answer.body.ends_with(b"\n") {
        return false;
    }
    let text = String::from_utf8_lossy(&answer.body);
    // An event ends with an empty line.
    let is_whole = text.ends_with("\n\n") || text.ends_with("\r\n\r\n");
    let last = text.trim_end().lines().rev().take_while(|line| !line.is_empty());
    let lines: Vec<&str> = last.collect();
    let data: Vec<&str> = lines.iter().rev().filter_map(|it| it.strip_prefix("data:")).collect();
    let event = serde_json::from_str::<Value>(&data.join("\n"));
    is_whole && event.is_ok_and(|it| it["result"]["final"] == true || !it["error"].is_null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_uuid_of_its_key() {
        let id = uuid("plan/1");
        assert_eq!(id, uuid("plan/1"));
        assert_ne!(id, uuid("plan/2"));
        assert_eq!((id.len(), &id[14..15]), (36, "8"));
        assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"), "{id}");
    }

    #[test]
    fn the_usual_port_is_no_other_origin() {
        assert_eq!(origin("https://Agent.example:443/a"), origin("HTTPS://agent.example/b?c"));
        assert_eq!(origin("http://a.example:80"), origin("http://a.example/"));
        for other in ["https://a.example:80/", "http://a.example/", "https://b.example/"] {
            assert_ne!(origin(other), origin("https://a.example/"), "{other}");
        }
    }

    #[test]
    fn streams_are_over_with_the_last_event_and_not_before() {
        let answer = |text: &str| HttpResponse {
            status: 200,
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
            body: text.into(),
        };
        for last in
            ["data: {\"result\":{\"final\":true}}\r\n\r\n", "data: {\"error\":{\"code\":1}}\n\n"]
        {
            assert!(is_last(&answer(last)), "{last}");
        }
        for open in ["data: {\"result\":{\"final\":true}}\n", "data: {\"result\":{\"n\":1}}\n\n"] {
            assert!(!is_last(&answer(open)), "{open}");
        }
    }

    #[test]
    fn the_interface_of_json_rpc_is_found_in_cards_of_both_versions() {
        let old =
            json!({ "url": "a", "additionalInterfaces": [{ "url": "b", "transport": "GRPC" }] });
        assert_eq!(interface(&old).as_deref(), Some("a"));
        let other = json!({ "url": "a", "preferredTransport": "GRPC",
            "additionalInterfaces": [{ "url": "b", "transport": "JSONRPC" }] });
        assert_eq!(interface(&other).as_deref(), Some("b"));
        let new = json!({ "supportedInterfaces": [{ "url": "c", "protocolBinding": "JSONRPC" }] });
        assert_eq!(interface(&new).as_deref(), Some("c"));
        let none = json!({ "url": "a", "preferredTransport": "HTTP+JSON" });
        assert_eq!(interface(&none), None);
    }
}
