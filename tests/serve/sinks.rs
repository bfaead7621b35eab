//! Events of flows leave the server for sinks, signed, also over a crash.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{json, Value};

use crate::serve_common::Place;

const EMITS: &str = "document: { dsl: '1.0.3', namespace: test, name: tells, version: '1.0.0' }
do:
  - tell: { emit: { event: { with: { source: /shop, type: org.example.paid, data: { n: 1 } } } } }
  - quiet: { emit: { event: { with: { source: /shop, type: com.example.other } } } }
";

/// Takes one delivery: its head in lower case, and its body.
fn delivery(listener: &TcpListener, status: &str) -> (String, Vec<u8>) {
    let (stream, _) = listener.accept().expect("the server delivers");
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).expect("it is text") > 0, "it is cut off: {head}");
    }
    let head = head.to_ascii_lowercase();
    let length = header(&head, "content-length").parse().expect("a number");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("it is whole");
    let mut stream: TcpStream = reader.into_inner();
    let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).expect("it is read");
    (head, body)
}

fn header<'a>(head: &'a str, name: &str) -> &'a str {
    let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name}: {head}")).trim()
}

#[test]
fn emitted_events_reach_their_sink_signed_after_refusals_and_a_crash() {
    let place = Place::new();
    let sink = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = sink.local_addr().expect("it is bound");
    place.write("sinks", &format!("# where to\naudit http://{address}/in org.example.*\n"));
    place.write("turnwheel.toml", "[flows]\nsinks = \"sinks\"\n");
    let secret = [("TURNWHEEL_SECRET_SINK_AUDIT", "whsec_AQIDBA==")];
    let server = place.serve_with(&[], &secret);
    let yaml = [("content-type", "application/yaml")];
    server.send("POST", "/api/v1/flows", &yaml, Some(EMITS)).ok();
    let started = server.post("/api/v1/flows/test/tells/1.0.0/start", &json!({})).ok();
    let (first, body) = delivery(&sink, "503");
    let ended = server.ended_plan(started["id"].as_str().expect("an id"));
    assert_eq!(ended["result"], "success", "{ended}");
    server.killed();
    let server = place.serve_with(&[], &secret);
    let (second, again) = delivery(&sink, "200");
    assert_eq!(body, again);
    let event: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!((&event["type"], &event["data"]), (&json!("org.example.paid"), &json!({"n": 1})));
    assert!(header(&first, "content-type").starts_with("application/cloudevents+json"));
    assert_eq!(header(&first, "webhook-id"), header(&second, "webhook-id"));
    assert!(header(&second, "webhook-signature").starts_with("v1,"));
    let page = loop {
        let page = server.get("/api/v1/plans?labels=sink=audit&state=stopped").ok();
        if page["plans"].as_array().is_some_and(|plans| !plans.is_empty()) {
            break page;
        }
        std::thread::yield_now();
    };
    assert_eq!(page["plans"].as_array().map(Vec::len), Some(1), "the other event is not meant");
    assert_eq!(page["plans"][0]["result"], "success");
    server.stopped();
}

#[test]
fn a_file_of_sinks_that_is_wrong_is_told_before_the_start() {
    let place = Place::new();
    place.write("turnwheel.toml", "[flows]\nsinks = \"sinks\"\n");
    for (text, said) in [(None, "cannot be read"), (Some("a ftp://x"), "line 1")] {
        if let Some(text) = text {
            place.write("sinks", text);
        }
        let ended = place.run(&["config", "check"]);
        let told = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{told}");
        assert!(told.contains(said) && told.contains("flows.sinks"), "{told}");
    }
}
