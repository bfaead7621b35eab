//! Live events: in order, without a gap over a break, and no harm by those who do not read.
#![cfg(feature = "server")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{json, Value};
use turnwheel::engine::{Action, ActionError, MemoryStore, Next, Run, Runs, StepContext, World};
use turnwheel::flow::{FakeIo, WithFlows};
use turnwheel::http::{Access, Options};

use crate::http_common::{with, Served};

/// Fails with a long message, so that the event about it is long.
struct Loud;

impl Action for Loud {
    const NAME: &'static str = "loud";
    type Input = ();
    type Output = ();
    type Phases = Runs;
}

impl Run for Loud {
    fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Err(ActionError::new("loud", "x".repeat(50_000)))
    }
}

/// A stream of events, read by hand.
struct Stream(BufReader<TcpStream>);

impl Stream {
    fn open(served: &Served, path: &str, more: &str) -> Self {
        let mut stream = TcpStream::connect(served.address()).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
        let host = served.address();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{more}\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut stream = Self(BufReader::new(stream));
        let head = stream.until(|line| line.is_empty());
        assert!(head[0].contains("200"), "{head:?}");
        assert!(head.iter().any(|line| line.contains("text/event-stream")), "{head:?}");
        // From here on nothing is missed.
        stream.until(|line| line.contains("listening"));
        stream
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).expect("it goes on");
        (read > 0).then(|| line.trim_end().to_owned())
    }

    fn until(&mut self, is_last: impl Fn(&str) -> bool) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(line) = self.line() {
            let is_over = is_last(&line);
            lines.push(line);
            if is_over {
                break;
            }
        }
        lines
    }

    /// The data of the next event; nothing if the stream has ended.
    fn next(&mut self) -> Option<Value> {
        loop {
            let line = self.line()?;
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).expect("data is JSON"));
            }
        }
    }

    /// Reads until the plan has stopped: cursors and what happened.
    fn until_stopped(&mut self, plan: &str) -> Vec<Value> {
        let mut seen = Vec::new();
        while let Some(event) = self.next() {
            let is_end =
                event["plan"] == plan && event["what"] == "plan" && event["to"] == "stopped";
            seen.push(event);
            if is_end {
                return seen;
            }
        }
        panic!("the stream has ended before: {seen:?}");
    }
}

#[test]
fn what_happens_is_told_in_order_and_as_it_becomes_durable() {
    let served = Served::new();
    let mut stream = Stream::open(&served, "/api/v1/events", "");
    let plan = served.start("echo", &json!({"text": "a"}));
    let seen = stream.until_stopped(&plan);
    let states: Vec<&Value> =
        seen.iter().filter(|event| event["what"] == "plan").map(|event| &event["to"]).collect();
    assert_eq!(states.first(), Some(&&json!("pending")));
    assert_eq!(states.last(), Some(&&json!("stopped")));
    assert!(seen.iter().any(|event| event["what"] == "step" && event["to"] == "success"));
    assert_eq!(seen[0]["by"], "local");

    let history = served.get(&format!("/api/v1/plans/{plan}/history")).json();
    let told: Vec<&Value> = seen.iter().map(|event| &event["cursor"]).collect();
    let kept: Vec<&Value> =
        history["happenings"].as_array().unwrap().iter().map(|event| &event["cursor"]).collect();
    assert_eq!(told, kept);
    let timeline = served.get(&format!("/api/v1/plans/{plan}/timeline")).json();
    assert!(!timeline["bars"].as_array().unwrap().is_empty(), "{timeline}");
}

#[test]
fn whoever_comes_back_misses_nothing() {
    let served = Served::new();
    let mut stream = Stream::open(&served, "/api/v1/events?plans_only=true", "");
    let first = served.start("echo", &json!({"text": "a"}));
    let seen = stream.until_stopped(&first);
    let last = seen.last().unwrap()["cursor"].as_str().unwrap().to_owned();
    drop(stream);
    let second = served.start("echo", &json!({"text": "b"}));
    served.ended(&second);
    let more = format!("last-event-id: {last}\r\n");
    let mut again = Stream::open(&served, "/api/v1/events?plans_only=true", &more);
    let seen = again.until_stopped(&second);
    assert!(seen.iter().all(|event| event["plan"] == second), "{seen:?}");
    assert_eq!(seen[0]["to"], "pending");

    let mut all = Stream::open(&served, "/api/v1/events?after=0&label=echo", "");
    assert_eq!(all.next().unwrap()["plan"], first);
    served.get("/api/v1/events?after=x").is_problem(400, "cursor-invalid");
}

#[test]
fn a_reader_that_never_reads_is_cut_off_and_harms_nobody() {
    let options = Options::new(Access::Loopback);
    let world = with(World::builder().action(Loud)).build(MemoryStore::new()).unwrap();
    let mut served =
        Served::listening(world, options, |listen| listen.write_within(Duration::from_millis(200)));
    let mut idle = Stream::open(&served, "/api/v1/events", "");
    let mut plans = 0;
    // Until what is not read has filled the buffers of the system.
    while !served.get("/metrics").text.contains("turnwheel_live_streams 0") {
        assert!(plans < 2_000, "it is never cut off");
        served.start("loud", &json!(null));
        plans += 1;
    }
    // What was sent is there, and then the end.
    let mut rest = Vec::new();
    let _cut = idle.0.read_to_end(&mut rest);
    served.tell_to_stop();
    assert!(served.stopped().is_drained);
}

#[test]
fn streams_end_when_the_server_stops() {
    let mut served = Served::new();
    let mut stream = Stream::open(&served, "/api/v1/events", "");
    served.tell_to_stop();
    assert_eq!(stream.next(), None);
    assert!(served.stopped().is_drained);
}

const TELLS: &str = "document: { dsl: '1.0.3', namespace: shop, name: tells, version: '1.0.0' }
do:
  - plain: { emit: { event: { with: { source: /shop, type: com.shop.plain, data: { n: 1 } } } } }
  - other:
      emit: { event: { with: { source: /shop, type: com.shop.other, data: { n: 2 } } } }
      output: { as: '${ { told: .data.n } }' }
";

#[test]
fn what_flows_emit_and_their_life_cycle_are_on_the_stream_if_it_is_asked_for() {
    let world = with(World::builder()).flows(FakeIo::new()).build(MemoryStore::new());
    let served = Served::with(world.expect("a world"), Options::new(Access::Loopback));
    let mut plain = Stream::open(&served, "/api/v1/events", "");
    let mut emitted = Stream::open(&served, "/api/v1/events?cloudevents=emitted", "");
    let mut all = Stream::open(&served, "/api/v1/events?cloudevents=all&plans_only=false", "");
    let yaml = [("content-type", "application/yaml")];
    let added = served.send_bytes("POST", "/api/v1/flows", &yaml, Some(TELLS.as_bytes()));
    assert_eq!(added.status, 201, "{}", added.text);
    let started =
        served.post("/api/v1/flows/shop/tells/1.0.0/start", &json!({ "input": {} })).json();
    let plan = started["id"].as_str().expect("it has an id").to_owned();
    let events = |seen: &[Value]| -> Vec<Value> {
        seen.iter().filter(|event| event.get("specversion").is_some()).cloned().collect()
    };
    assert_eq!(events(&plain.until_stopped(&plan)), [Value::Null; 0]);
    let told = events(&emitted.until_stopped(&plan));
    let kinds: Vec<_> = told.iter().map(|event| (&event["type"], &event["data"]["n"])).collect();
    let wanted = [json!("com.shop.plain"), json!(1), json!("com.shop.other"), json!(2)];
    assert_eq!(kinds, [(&wanted[0], &wanted[1]), (&wanted[2], &wanted[3])]);
    let seen = events(&all.until_stopped(&plan));
    let own = "io.serverlessworkflow.workflow.";
    let of = |kind: &str| seen.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(of(&format!("{own}started.v1")), 1, "{seen:?}");
    assert_eq!((of(&format!("{own}completed.v1")), of("com.shop.other")), (1, 1), "{seen:?}");
    assert_eq!(of("io.serverlessworkflow.task.completed.v1"), 2, "{seen:?}");

    // A later reader has the same events, with the same ids, as their places say.
    let mut again = Stream::open(&served, "/api/v1/events?after=0&cloudevents=emitted", "");
    assert_eq!(events(&again.until_stopped(&plan)), told);
    served.get("/api/v1/events?cloudevents=some").is_problem(400, "query-invalid");
}
