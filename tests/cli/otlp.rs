//! Traces by OTLP: a stand-in for a collector gets the steps of a flow; a dead one harms nobody.
#![cfg(all(feature = "server", feature = "cli", unix))]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc::{channel, Receiver};

use serde_json::Value;

use crate::cli_common::Folder;

const FLOW: &str = "\
document: { dsl: '1.0.3', namespace: test, name: greet, version: '1.0.0' }
do:
  - greet: { set: { text: hello } }
";

/// Answers all requests, and hands on their paths and bodies.
fn collector() -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (told, requests) = channel();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let mut stream = BufReader::new(stream);
            // More than one request may come over a connection.
            while let Some(request) = request(&mut stream) {
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                stream.get_mut().write_all(answer).expect("it is read");
                if told.send(request).is_err() {
                    return;
                }
            }
        }
    });
    (url, requests)
}

/// The path and the body of a request; nothing at the end of a connection.
fn request(stream: &mut impl BufRead) -> Option<(String, Value)> {
    let mut first = String::new();
    stream.read_line(&mut first).ok().filter(|count| *count > 0)?;
    let path = first.split(' ').nth(1).expect("a path").to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).expect("a head");
        let Some((name, value)) = line.trim().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().expect("a number");
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a body");
    Some((path, serde_json::from_slice(&body).expect("JSON")))
}

#[test]
fn a_collector_gets_the_steps_of_a_flow() {
    let folder = Folder::new();
    let flow = folder.write("greet.yaml", FLOW);
    let (url, requests) = collector();
    folder.ok(&["run", &flow, "--quiet", "--otlp", &url]);
    let (path, sent) = requests.recv().expect("spans were sent before the process ended");
    assert_eq!(path, "/v1/traces");
    let resource = &sent["resourceSpans"][0];
    let name = &resource["resource"]["attributes"][0];
    assert_eq!(
        (&name["key"], &name["value"]["stringValue"]),
        (&"service.name".into(), &"turnwheel".into())
    );
    let spans = resource["scopeSpans"][0]["spans"].as_array().expect("spans");
    // The flow, its task, the flow again when the task is over, and the run around them, once.
    let names: Vec<&str> = spans.iter().filter_map(|span| span["name"].as_str()).collect();
    assert_eq!(names, ["flow", "greet", "flow", "test/greet:1.0.0"], "{sent:#}");
    let whole = &spans[3];
    assert_eq!(whole.get("parentSpanId"), None, "{whole:#}");
    assert!(spans[..3].iter().all(|span| span["parentSpanId"] == whole["spanId"]), "{sent:#}");
    let plan =
        folder.json(&["list", "--json"])["plans"][0]["id"].as_str().expect("an id").to_owned();
    for span in spans {
        assert_eq!(span["traceId"], plan.replace('-', ""));
        let time = |name: &str| -> u64 {
            span[name].as_str().expect("a text").parse().expect("nanoseconds")
        };
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"), "{span:#}");
    }
}

#[test]
fn the_span_of_a_failed_task_and_that_of_its_run_say_the_error() {
    let folder = Folder::new();
    let raise = "{ raise: { error: { type: 'https://a.b/mail', status: 500, detail: no box } } }";
    let flow = folder.write("fail.yaml", &FLOW.replace("{ set: { text: hello } }", raise));
    let (url, requests) = collector();
    folder.run(&["run", &flow, "--quiet", "--otlp", &url]);
    let (_, sent) = requests.recv().expect("spans were sent before the process ended");
    let spans = sent["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans");
    for name in ["greet", "test/greet:1.0.0"] {
        let span = spans.iter().find(|span| span["name"] == name).expect("it was sent");
        assert_eq!(span["status"]["code"], 2, "{span:#}");
        assert!(span["status"]["message"].as_str().expect("it says why").contains("no box"));
        let kind = serde_json::json!({
            "key": "error.type", "value": { "stringValue": "https://a.b/mail" },
        });
        assert!(span["attributes"].as_array().expect("a list").contains(&kind), "{span:#}");
    }
}

#[test]
fn the_variables_of_opentelemetry_name_collector_and_service() {
    let folder = Folder::new();
    let flow = folder.write("greet.yaml", FLOW);
    let (url, requests) = collector();
    let mut command = folder.command(&["run", &flow, "--quiet"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("{url}/in"));
    let output = command.env("OTEL_SERVICE_NAME", "shop").output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (path, sent) = requests.recv().expect("spans were sent before the process ended");
    assert_eq!(path, "/in/v1/traces");
    let attributes = &sent["resourceSpans"][0]["resource"]["attributes"];
    let service = serde_json::json!({"key": "service.name", "value": {"stringValue": "shop"}});
    assert!(attributes.as_array().is_some_and(|all| all.contains(&service)), "{attributes}");
    let span = &sent["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    let names = span["attributes"].as_array().expect("a list").iter();
    let names: Vec<&str> = names.filter_map(|attribute| attribute["key"].as_str()).collect();
    assert!(names.contains(&"turnwheel.plan.id"), "{names:?}");
}

#[test]
fn a_collector_that_is_not_there_harms_no_flow() {
    let folder = Folder::new();
    let flow = folder.write("greet.yaml", FLOW);
    // A port that was free a moment ago.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let ended = folder.run(&["run", &flow, "--quiet", "--otlp", &url]);
    assert!(ended.ok().contains("hello"));
    assert!(ended.stderr().contains("4 spans are lost"), "{}", ended.stderr());
    let wrong = folder.run(&["run", &flow, "--otlp", "localhost:4318"]);
    wrong.fails(2, &["localhost:4318", "http://HOST:4318", "--otlp URL"]);
}

#[test]
fn a_server_tells_its_steps_whatever_it_logs() {
    let folder = Folder::new();
    let flow = folder.write("greet.yaml", FLOW);
    let (url, requests) = collector();
    let mut server = folder
        .command(&["serve", "--listen", "127.0.0.1:0", "--log", "error"])
        .env("TURNWHEEL_OTLP", &url)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the binary was built for this test");
    let mut line = String::new();
    let mut output = BufReader::new(server.stdout.take().expect("it is piped"));
    output.read_line(&mut line).expect("it says where it listens");
    folder.ok(&["run", &flow, "--quiet"]);
    let (_, sent) = requests.recv().expect("spans are sent within a moment");
    assert!(sent["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"].is_string());
    server.kill().expect("it runs");
    server.wait().expect("it is a child");
}
