//! Calls of agents that speak A2A.

use serde_json::{json, Value};
use turnwheel_flow::{Asked, FakeIo, FlowError, HttpRequest, HttpResponse};

use crate::flow_common::{problems, run_with};

const SEND: &str = "
use: { secrets: [key] }
do:
  - ask:
      call: a2a
      with:
        method: message/send
        agentCard:
          endpoint: { uri: 'https://agent.example/card.json', authentication: { bearer: { use: key } } }
        parameters: { message: { parts: [ { kind: text, text: '${ .text }' } ] } }
";

const STREAM: &str = "
do:
  - ask:
      call: a2a
      with:
        method: message/stream
        server: https://agent.example/a2a
        parameters: { message: { role: agent, messageId: m-1, parts: [] } }
";

fn response(kind: &str, body: &str) -> HttpResponse {
    let headers = vec![("content-type".to_owned(), kind.to_owned())];
    HttpResponse { status: 200, headers, body: body.into() }
}

/// An agent whose card names this address, and that answers so.
fn agent(url: &'static str, kind: &'static str, body: String) -> FakeIo {
    FakeIo::new().secret("key", json!({ "token": "t0ps3cret" })).on_http(move |request| {
        Ok(match request.method.as_str() {
            "GET" => response("application/json", &json!({ "url": url }).to_string()),
            _ => response(kind, &body),
        })
    })
}

fn last(io: &FakeIo) -> HttpRequest {
    match io.asked().pop() {
        Some(Asked::Http(request, _)) => request,
        other => panic!("{other:?}"),
    }
}

fn header<'a>(request: &'a HttpRequest, name: &str) -> Option<&'a str> {
    let found = request.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

#[test]
fn an_agent_is_called_where_its_card_says_with_an_id_and_a_role() {
    let answer = json!({ "jsonrpc": "2.0", "id": "x", "result": { "kind": "message" } });
    let io = agent("https://agent.example/a2a", "application/json", answer.to_string());
    let output = run_with(io.clone(), SEND, json!({ "text": "hello" })).0;
    assert_eq!(output.expect("it ends well"), json!({ "kind": "message" }));
    let request = last(&io);
    assert_eq!(
        (request.method.as_str(), request.uri.as_str()),
        ("POST", "https://agent.example/a2a")
    );
    assert_eq!(header(&request, "authorization"), Some("Bearer t0ps3cret"));
    let body: Value = serde_json::from_slice(&request.body.clone().expect("a body")).expect("JSON");
    assert_eq!((&body["method"], &body["jsonrpc"]), (&json!("message/send"), &json!("2.0")));
    let message = &body["params"]["message"];
    assert_eq!(message["role"], "user");
    assert_eq!(message["messageId"].as_str().map(str::len), Some(36));
    assert_eq!(message["parts"], json!([{ "kind": "text", "text": "hello" }]));
}

#[test]
fn credentials_do_not_follow_a_card_to_another_host() {
    let answer = json!({ "result": 1 }).to_string();
    let io = agent("https://evil.example/a2a", "application/json", answer);
    assert_eq!(run_with(io.clone(), SEND, json!({ "text": "x" })).0.expect("it ends"), json!(1));
    let request = last(&io);
    assert_eq!(request.uri, "https://evil.example/a2a");
    assert_eq!(header(&request, "authorization"), None);
}

#[test]
fn a_stream_of_an_agent_is_a_list_of_its_results() {
    let event = |value: Value| format!("event: x\r\ndata: {}\r\n\r\n", json!({ "result": value }));
    let body = event(json!({ "n": 1 })) + &event(json!({ "n": 2, "final": true }));
    let io = agent("", "text/event-stream", body);
    let output = run_with(io.clone(), STREAM, json!({})).0.expect("it ends well");
    assert_eq!(output, json!([{ "n": 1 }, { "n": 2, "final": true }]));
    let body: Value = serde_json::from_slice(&last(&io).body.expect("a body")).expect("JSON");
    let message = json!({ "role": "agent", "messageId": "m-1", "parts": [] });
    assert_eq!(body["params"]["message"], message, "what is given stays");
}

#[test]
fn what_an_agent_refuses_is_a_fault() {
    let error = json!({ "error": { "code": -32001, "message": "no such task" } });
    let in_stream = format!("data: {error}\n\n");
    for (flow, kind, body, name, said) in [
        (SEND, "application/json", error.to_string(), "runtime", "no such task"),
        (STREAM, "text/event-stream", in_stream, "runtime", "no such task"),
        (SEND, "application/json", "{}".to_owned(), "runtime", "neither a result nor an error"),
        (SEND, "text/html", "<p>".to_owned(), "runtime", "answered no JSON-RPC"),
    ] {
        let io = agent("https://agent.example/a2a", kind, body);
        match run_with(io, flow, json!({ "text": "x" })).0 {
            Err(FlowError::Faulted(fault)) => {
                assert!(fault.kind.ends_with(name), "{fault}");
                assert!(fault.to_string().contains(said), "{said}: {fault}");
            }
            other => panic!("{other:?}"),
        }
    }
    let no_interface = FakeIo::new().secret("key", json!({ "token": "t" })).on_http(|_| {
        Ok(response("application/json", "{\"url\":\"x\",\"preferredTransport\":\"GRPC\"}"))
    });
    let error = run_with(no_interface, SEND, json!({ "text": "x" })).0.expect_err("no interface");
    assert!(error.to_string().contains("no interface of the agent that is JSONRPC"), "{error}");
    let refused = FakeIo::new().on_http(|_| Ok(HttpResponse { status: 503, ..response("", "") }));
    match run_with(refused, STREAM, json!({})).0 {
        Err(FlowError::Faulted(fault)) => assert_eq!(fault.status, 503),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_wrong_with_a_call_of_an_agent_is_said() {
    for (with, said) in [
        ("{ method: message/send }", "must say where the agent is"),
        ("{ server: 'https://a.b' }", "must have the field «method»"),
        ("{ server: 'https://a.b', method: message/sent }", "«method» cannot be «message/sent»"),
        (
            "{ server: 'https://a.b', method: tasks/get, parametres: {} }",
            "did you mean «parameters»",
        ),
    ] {
        let wrong = problems(&format!("do: [ {{ a: {{ call: a2a, with: {with} }} }} ]"));
        assert!(wrong.contains(said), "{with}\n{wrong}");
    }
    assert!(problems("do: [ { a: { call: a2a } } ]").contains("must have the field «with»"));
    let without = STREAM.replace("message: {", "massage: {");
    let error = run_with(FakeIo::new(), &without, json!({})).0.expect_err("no message");
    assert!(error.to_string().contains("an object with a «message»"), "{error}");
}
