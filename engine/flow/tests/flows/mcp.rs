//! Calls of servers that speak the Model Context Protocol.

use std::collections::HashSet;

use serde_json::{json, Value};
use turnwheel_flow::{Asked, FakeIo, HttpRequest, HttpResponse, Program};

use crate::flow_common::{fault, problems, run_with};

const OVER_HTTP: &str = "
use: { secrets: [key] }
do:
  - ask:
      call: mcp
      with:
        method: tools/call
        parameters: { name: add, arguments: { a: '${ .a }', b: 2 } }
        client: { name: shop, version: '2.0.0' }
        transport:
          http:
            endpoint:
              uri: https://tools.example/mcp
              authentication: { bearer: { use: key } }
            headers: { X-Team: blue }
";

fn header(request: &HttpRequest, name: &str) -> Option<String> {
    let found = request.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.clone())
}

fn message(request: &HttpRequest) -> Value {
    serde_json::from_slice(request.body.as_deref().unwrap_or(b"null")).expect("it is JSON")
}

/// A server that gives this result to a request, as JSON or as a stream of events.
fn server(result: Value, is_stream: bool) -> FakeIo {
    FakeIo::new().secret("key", json!({ "token": "t0ps3cret" })).on_http(move |request| {
        let asked = message(request);
        let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let answer =
            |result: &Value| json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result });
        let body = match asked["method"].as_str() {
            Some("initialize") => {
                headers.push(("mcp-session-id".to_owned(), "s-1".to_owned()));
                answer(&json!({ "protocolVersion": "2025-03-26" })).to_string()
            }
            Some("tools/call") if is_stream => {
                headers[0].1 = "text/event-stream".to_owned();
                let told = json!({ "jsonrpc": "2.0", "method": "notifications/progress" });
                format!("event: message\ndata: {told}\n\ndata: {}\n\n", answer(&result))
            }
            Some("tools/call") => answer(&result).to_string(),
            _ => String::new(),
        };
        let status = if body.is_empty() { 202 } else { 200 };
        Ok(HttpResponse { status, headers, body: body.into_bytes() })
    })
}

#[test]
fn tool_is_called_over_http_in_a_session_that_is_ended() {
    for is_stream in [false, true] {
        let sum = json!({ "content": [{ "type": "text", "text": "5" }] });
        let io = server(sum.clone(), is_stream);
        let (output, view) = run_with(io.clone(), OVER_HTTP, json!({ "a": 3 }));
        assert_eq!(output.expect("it ends well"), sum);
        assert!(!format!("{view:?}").contains("t0ps3cret"), "the secret is not stored");
        let asked = io.asked();
        let requests: Vec<&HttpRequest> = asked
            .iter()
            .map(|it| match it {
                Asked::Http(request, _) => request,
                other => panic!("{other:?}"),
            })
            .collect();
        let methods: Vec<_> = requests.iter().map(|it| it.method.as_str()).collect();
        assert_eq!(methods, ["POST", "POST", "POST", "DELETE"]);
        let keys = requests[..3].iter().map(|it| header(it, "idempotency-key").expect("a key"));
        let keys: HashSet<String> = keys.collect();
        assert_eq!(keys.len(), 3, "a server may keep answers by their keys: {keys:?}");
        let hello = message(requests[0]);
        assert_eq!(hello["params"]["clientInfo"], json!({ "name": "shop", "version": "2.0.0" }));
        assert_eq!(header(requests[0], "mcp-session-id"), None);
        for request in &requests[1..] {
            assert_eq!(header(request, "mcp-session-id").as_deref(), Some("s-1"));
            assert_eq!(header(request, "mcp-protocol-version").as_deref(), Some("2025-03-26"));
        }
        for request in &requests {
            assert_eq!(header(request, "authorization").as_deref(), Some("Bearer t0ps3cret"));
            assert_eq!(header(request, "x-team").as_deref(), Some("blue"));
        }
        let wanted = json!({ "name": "add", "arguments": { "a": 3, "b": 2 } });
        assert_eq!(message(requests[2])["params"], wanted);
    }
}

#[test]
fn what_a_server_refuses_or_a_tool_fails_at_is_a_fault() {
    let failed = json!({ "isError": true, "content": [{ "type": "text", "text": "no such sum" }] });
    let (output, _) = run_with(server(failed, false), OVER_HTTP, json!({ "a": 3 }));
    let why = output.expect_err("the tool has failed").to_string();
    assert!(why.contains("Runtime Error (500)") && why.contains("no such sum"), "{why}");

    let refusing =
        FakeIo::new().secret("key", json!({ "token": "t0ps3cret" })).on_http(|request| {
            let error = json!({ "code": -32602, "message": "no t0ps3cret" });
            let body = json!({ "jsonrpc": "2.0", "id": message(request)["id"], "error": error });
            let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
            Ok(HttpResponse { status: 200, headers, body: body.to_string().into_bytes() })
        });
    let why = run_with(refusing, OVER_HTTP, json!({ "a": 3 })).0.expect_err("it refuses");
    let why = why.to_string();
    assert!(why.contains("-32602") && !why.contains("t0ps3cret"), "{why}");
}

#[test]
fn program_is_told_lines_and_answers_among_others() {
    let flow = "
do:
  - list:
      call: mcp
      with:
        method: tools/list
        transport:
          stdio: { command: npx, arguments: [ -y, '${ .tools }' ], environment: { LEVEL: high } }
";
    let io = FakeIo::new().on_talk(|process, line| {
        assert_eq!(process.program, Program::Command("npx".to_owned()));
        assert_eq!(process.arguments, ["-y", "math"]);
        assert_eq!(process.environment, [("LEVEL".to_owned(), "high".to_owned())]);
        let asked: Value = serde_json::from_str(line).expect("it is JSON");
        let id = &asked["id"];
        match asked["method"].as_str() {
            Some("initialize") => {
                let ping = json!({ "jsonrpc": "2.0", "id": 0, "method": "ping" });
                vec!["starting".to_owned(), ping.to_string()]
            }
            None => {
                let result = json!({ "protocolVersion": "2025-06-18" });
                vec![json!({ "jsonrpc": "2.0", "id": 0, "result": result }).to_string()]
            }
            Some("tools/list") => {
                let result = json!({ "tools": [{ "name": "add" }] });
                vec![json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()]
            }
            _ => Vec::new(),
        }
    });
    let (output, _) = run_with(io, flow, json!({ "tools": "math" }));
    assert_eq!(output.expect("it ends well"), json!({ "tools": [{ "name": "add" }] }));
}

#[test]
fn what_is_wrong_with_such_a_call_is_said() {
    let call = |with: &str| format!("do: [ {{ ask: {{ call: mcp, with: {with} }} }} ]");
    let http = "transport: { http: { endpoint: 'https://a.example/mcp' } }";
    for (with, why) in [
        ("{ method: tools/call }".to_owned(), "transport"),
        (format!("{{ method: tools/drop, {http} }}"), "tools/drop"),
        ("{ method: tools/list, transport: {} }".to_owned(), "one way to the server"),
        (format!("{{ method: tools/list, tools: 1, {http} }}"), "has no field «tools»"),
        (
            "{ method: tools/list, transport: { stdio: { command: x }, options: {} } }".to_owned(),
            "options» is not supported",
        ),
    ] {
        let told = problems(&call(&with));
        assert!(told.contains(why), "{told}");
    }
    let silent = fault(&call(&format!("{{ method: tools/list, {http} }}")), json!({}));
    assert_eq!(silent["status"], 500);
}
