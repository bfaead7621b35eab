//! Calls of servers that speak the Model Context Protocol: over HTTP (streamable), or over the standard
//! streams of a program.
//!
//! Each call is a session of its own: hello, one request, end. What a server asks or tells meanwhile is
//! not looked at, but for a ping.

use serde_json::{json, Value};

use super::effect::{fault_of, Effect};
use super::http::{add_headers, status_fault};
use super::process::{arguments, pairs};
use super::{auth, uri};
use crate::expr::as_text;
use crate::fault::Fault;
use crate::io::{HttpRequest, HttpResponse, Process, Program, Reply};
use crate::model::{Endpoint, Mcp, McpTransport};

/// The id of the hello, and that of the request.
const HELLO: u64 = 0;
const REQUEST: u64 = 1;

pub(super) fn call(effect: &mut Effect<'_, '_>, it: &Mcp) -> Result<Value, Fault> {
    if let Some(timeout) = &it.timeout {
        let own = effect.env.duration(timeout)?;
        effect.call.limit = Some(effect.call.limit.map_or(own, |limit| limit.min(own)));
    }
    let parameters = it.parameters.as_ref().map(|template| effect.env.fill_own(template));
    let parameters = parameters.transpose()?.unwrap_or(Value::Null);
    let mut request = json!({ "jsonrpc": "2.0", "id": REQUEST, "method": it.method });
    if !parameters.is_null() {
        request["params"] = parameters;
    }
    let (name, version) = &it.client;
    let hello = json!({
        "jsonrpc": "2.0", "id": HELLO, "method": "initialize",
        "params": {
            "protocolVersion": it.version, "capabilities": {},
            "clientInfo": { "name": name, "version": version },
        },
    });
    let result = match &it.transport {
        McpTransport::Http { endpoint, headers } => {
            let headers = headers.as_ref().map(|headers| effect.env.fill_own(headers));
            let headers = headers.transpose()?;
            over_http(effect, endpoint, headers.as_ref(), &hello, &request)?
        }
        McpTransport::Stdio { command, arguments: given, environment } => {
            let program = Program::Command(as_text(&effect.env.fill_own(command)?));
            let arguments = arguments(effect, given.as_ref())?;
            let environment = pairs(effect, environment.as_ref(), "an environment")?;
            let process = Process { program, arguments, environment, stdin: None };
            over_streams(effect, &process, &hello, &request)?
        }
    };
    // A tool that has failed says so inside of its result.
    if result["isError"] == true {
        let detail = format!("the tool has failed: {}", shown(effect, &result["content"]));
        return Err(Fault::runtime(detail));
    }
    Ok(result)
}

/// Notification after the hello, without an answer.
fn initialized() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}

pub(super) fn shown(effect: &Effect<'_, '_>, value: &impl ToString) -> String {
    effect.said(&value.to_string())
}

/// The result of a message, if it answers the request with this id.
fn result_of(effect: &Effect<'_, '_>, message: &Value, id: u64) -> Option<Result<Value, Fault>> {
    if message["id"] != id || message.get("method").is_some() {
        return None;
    }
    Some(match message.get("result") {
        Some(result) => Ok(result.clone()),
        None => {
            let error = message.get("error").unwrap_or(message);
            Err(Fault::runtime(format!("the MCP server refuses: {}", shown(effect, error))))
        }
    })
}

fn over_http(
    effect: &mut Effect<'_, '_>,
    endpoint: &Endpoint,
    headers: Option<&Value>,
    hello: &Value,
    request: &Value,
) -> Result<Value, Fault> {
    let mut post = HttpRequest {
        method: "POST".to_owned(),
        uri: uri::of(effect, endpoint)?,
        headers: Vec::new(),
        body: None,
        follows_redirects: false,
        digest: None,
    };
    if let Some(policy) = &endpoint.authentication {
        auth::authenticate(effect, policy, &mut post)?;
    }
    if let Some(headers) = headers {
        add_headers(&mut post, headers)?;
    }
    let accepts = "application/json, text/event-stream";
    add_headers(&mut post, &json!({ "Content-Type": "application/json", "Accept": accepts }))?;
    let (welcome, answer) = ask(effect, &mut post, hello, HELLO)?;
    let session = answer.header("mcp-session-id").map(str::to_owned);
    let version = welcome["protocolVersion"].as_str().map(str::to_owned);
    let own = json!({ "Mcp-Session-Id": session, "MCP-Protocol-Version": version });
    add_headers(&mut post, &own)?;
    send(effect, &mut post, &initialized(), None)?;
    let outcome = ask(effect, &mut post, request, REQUEST);
    if session.is_some() {
        post.method = "DELETE".to_owned();
        post.body = None;
        post.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("idempotency-key"));
        // A server may end sessions by itself, and refuse this.
        let _ended = effect.io.http(&post, &effect.call);
    }
    outcome.map(|(result, _)| result)
}

fn send(
    effect: &Effect<'_, '_>,
    post: &mut HttpRequest,
    message: &Value,
    id: Option<u64>,
) -> Result<HttpResponse, Fault> {
    post.body = Some(message.to_string().into_bytes());
    // Each message is another one for a server that keeps answers by their keys.
    let key = format!("{}/{}", effect.call.key, message["method"].as_str().unwrap_or_default());
    add_headers(post, &json!({ "Idempotency-Key": key }))?;
    let response = match id {
        Some(id) => {
            let mut stream = Stream { id, at: 0 };
            let is_enough = move |answer: &mut HttpResponse| stream.has_answer(answer);
            effect.io.http_until(post, Box::new(is_enough), &effect.call)
        }
        None => effect.io.http(post, &effect.call),
    };
    let response = response.map_err(fault_of)?;
    match response.status {
        200..=299 => Ok(response),
        _ => Err(status_fault(effect, post, &response)),
    }
}

/// Sends a request and finds its answer, in JSON or in a stream of events.
fn ask(
    effect: &Effect<'_, '_>,
    post: &mut HttpRequest,
    message: &Value,
    id: u64,
) -> Result<(Value, HttpResponse), Fault> {
    let response = send(effect, post, message, Some(id))?;
    let body = String::from_utf8_lossy(&response.body);
    let messages: Vec<Value> = match is_stream(&response) {
        true => events(&body).iter().filter_map(|it| serde_json::from_str(it).ok()).collect(),
        false => serde_json::from_str(&body).into_iter().collect(),
    };
    let found = messages.iter().find_map(|message| result_of(effect, message, id));
    let silent = || Fault::runtime("the MCP server has ended its answer without a result");
    Ok((found.ok_or_else(silent)??, response))
}

pub(super) fn is_stream(response: &HttpResponse) -> bool {
    response.header("content-type").is_some_and(|it| it.starts_with("text/event-stream"))
}

/// Reader of a stream of events that ends with the answer to a request, not with the stream.
struct Stream {
    id: u64,
    /// Bytes of the events that were read.
    at: usize,
}

impl Stream {
    fn has_answer(&mut self, response: &HttpResponse) -> bool {
        if !is_stream(response) {
            return false;
        }
        let new = &response.body[self.at..];
        // An event ends with an empty line.
        let lines = new.split_inclusive(|byte| *byte == b'\n').scan(0, |at, line| {
            *at += line.len();
            Some((*at, line))
        });
        let mut whole = 0;
        for (end, line) in lines {
            if matches!(line, b"\n" | b"\r\n") {
                whole = end;
            }
        }
        self.at += whole;
        let events = events(&String::from_utf8_lossy(&new[..whole]));
        let mut messages = events.iter().filter_map(|it| serde_json::from_str::<Value>(it).ok());
        messages.any(|message| message["id"] == self.id && message.get("method").is_none())
    }
}

/// The data of the events of a stream.
pub(super) fn events(text: &str) -> Vec<String> {
    let mut events = vec![String::new()];
    for line in text.lines() {
        let last = events.last_mut();
        match (line.strip_prefix("data:"), last) {
            (Some(data), Some(last)) => {
                if !last.is_empty() {
                    last.push('\n');
                }
                last.push_str(data.strip_prefix(' ').unwrap_or(data));
            }
            (None, Some(last)) if line.is_empty() && !last.is_empty() => {
                events.push(String::new());
            }
            _ => {}
        }
    }
    events
}

fn over_streams(
    effect: &Effect<'_, '_>,
    process: &Process,
    hello: &Value,
    request: &Value,
) -> Result<Value, Fault> {
    let mut found: Option<Result<Value, Fault>> = None;
    let mut talk = |line: Option<&str>| {
        let Some(line) = line else { return Reply::Say(vec![hello.to_string()]) };
        // Some programs write other lines among their messages.
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return Reply::Say(Vec::new());
        };
        if message["method"] == "ping" {
            let pong = json!({ "jsonrpc": "2.0", "id": message["id"], "result": {} });
            return Reply::Say(vec![pong.to_string()]);
        }
        match result_of(effect, &message, HELLO) {
            Some(Ok(_)) => {
                return Reply::Say(vec![initialized().to_string(), request.to_string()]);
            }
            Some(Err(fault)) => found = Some(Err(fault)),
            None => found = result_of(effect, &message, REQUEST),
        }
        if found.is_some() {
            Reply::Enough
        } else {
            Reply::Say(Vec::new())
        }
    };
    effect.io.talk(process, &mut talk, &effect.call).map_err(fault_of)?;
    found.unwrap_or_else(|| Err(Fault::runtime("the MCP server has ended without a result")))
}

#[cfg(test)]
mod tests {
    use super::events;

    #[test]
    fn events_of_a_stream_are_found() {
        let text =
            ": hello\r\n\r\nevent: message\r\nid: 1\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata:x\n\n";
        assert_eq!(events(text), ["{\"a\":\n1}", "x", ""]);
    }
}
