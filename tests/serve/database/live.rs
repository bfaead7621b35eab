//! Live events of the whole cluster at any node: a reader whose node is killed goes on at another
//! one with the place that it has.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{json, Value};
use turnwheel_postgres::LocalServer;

use super::is_asked;
use crate::serve_common::{Place, Serve};

/// A stream of events, read by hand.
struct Stream(BufReader<TcpStream>);

impl Stream {
    fn open(node: &Serve, query: &str, last: Option<&str>) -> Self {
        let last = last.map(|last| format!("last-event-id: {last}\r\n")).unwrap_or_default();
        let host = node.address();
        let path = format!("/api/v1/events{query}");
        let mut stream = Self(BufReader::new(
            node.raw(&format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{last}\r\n")),
        ));
        while stream.line().expect("it begins") != ": listening" {}
        stream
    }

    /// Nothing if the stream has ended.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        // A killed process may reset the connection.
        let _read = self.0.read_line(&mut line);
        // It may have sent a part of a line.
        line.strip_suffix('\n').map(|line| line.trim_end().to_owned())
    }

    /// The next event; nothing if the stream has ended.
    fn next(&mut self) -> Option<Value> {
        loop {
            let line = self.line()?;
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).expect("data is JSON"));
            }
        }
    }

    /// Reads until all of these plans have stopped.
    fn until_stopped(&mut self, plans: &[String]) -> Vec<Value> {
        let mut open: BTreeSet<&str> = plans.iter().map(String::as_str).collect();
        let mut told = Vec::new();
        while !open.is_empty() {
            let event = self.next().expect("it goes on");
            if event["what"] == "plan" && event["to"] == "stopped" {
                open.remove(event["plan"].as_str().expect("an id"));
            }
            told.push(event);
        }
        told
    }
}

fn place(event: &Value) -> (u64, u64) {
    let cursor = event["cursor"].as_str().expect("each has a place");
    let (seq, nth) = cursor.split_once('.').expect("it has two parts");
    (seq.parse().expect("a number"), nth.parse().expect("a number"))
}

/// Each plan goes from state to state without a gap, and places rise.
fn check(told: &[Value]) {
    let mut states: BTreeMap<&str, &Value> = BTreeMap::new();
    assert!(told.is_sorted_by(|one, next| place(one) < place(next)), "{told:#?}");
    for event in told.iter().filter(|event| event["what"] == "plan") {
        let before = states.insert(event["plan"].as_str().expect("an id"), &event["to"]);
        assert_eq!(before.unwrap_or(&Value::Null), &event["from"], "{event}");
    }
}

fn cancel(node: &Serve, plan: &str) {
    node.post(&format!("/api/v1/plans/{plan}/orders"), &json!({"order": "cancel"})).ok();
}

/// A session of `psql` that holds what commits wait for, as a commit that lasts does.
fn held_commit(database: &LocalServer, schema: &str) -> Child {
    let psql = LocalServer::programs().expect("it is installed").join("psql");
    let mut session = Command::new(psql)
        .args(["--quiet", "--tuples-only", "--no-align", &database.url("postgres")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it begins");
    let hold =
        format!("BEGIN; LOCK TABLE {schema}.writers IN ROW SHARE MODE; SELECT 'it holds';\n");
    let stdin = session.stdin.as_mut().expect("it is piped");
    stdin.write_all(hold.as_bytes()).expect("it reads");
    let mut said = String::new();
    let stdout = BufReader::new(session.stdout.as_mut().expect("it is piped"));
    stdout.take(9).read_to_string(&mut said).expect("it answers");
    assert_eq!(said, "it holds\n");
    session
}

#[test]
fn reader_gets_signs_of_life_while_a_commit_holds_up_the_begin_of_its_stream() {
    if !is_asked() {
        return;
    }
    let database = LocalServer::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let url = format!("{}?schema=held", database.url("postgres"));
    let folder = Place::new();
    let node = folder.serve(&["--store", &url, "--node", "one"]);
    let plan = node.begin("before");
    let mut commit = held_commit(&database, "held");
    let host = node.address();
    let mut stream = Stream(BufReader::new(
        node.raw(&format!("GET /api/v1/events HTTP/1.1\r\nhost: {host}\r\n\r\n")),
    ));
    loop {
        let line = stream.line().expect("it goes on");
        assert_ne!(line, ": listening", "its place is not known yet");
        assert!(!line.starts_with("id:"), "{line}");
        if line == ": waiting" {
            break;
        }
    }
    // Its input ends, and so does its transaction.
    drop(commit.stdin.take());
    commit.wait().expect("it ends");
    while stream.line().expect("it goes on") != ": listening" {}
    cancel(&node, &plan);
    stream.until_stopped(std::slice::from_ref(&plan));
    node.stopped();
}

#[test]
fn events_of_all_nodes_are_on_one_stream_whose_place_outlives_its_node() {
    if !is_asked() {
        return;
    }
    let database = LocalServer::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let url = format!("{}?schema=live", database.url("postgres"));
    let folder = Place::new();
    let serve = |name: &str| folder.serve(&["--store", &url, "--node", name]);
    let (one, two, three) = (serve("one"), serve("two"), serve("three"));
    let mut at_one = Stream::open(&one, "", None);
    let plans: Vec<String> = [&one, &two, &three]
        .iter()
        .flat_map(|node| (0..4).map(|number| node.begin(&format!("topic {number}"))))
        .collect();
    for (node, plan) in [&two, &three, &one].iter().zip(&plans[..3]) {
        cancel(node, plan);
    }
    let mut told = at_one.until_stopped(&plans[..3]);
    // Something happens while the node is killed.
    let beginning = AtomicBool::new(true);
    let during: Vec<String> = std::thread::scope(|scope| {
        let begun = scope.spawn(|| {
            let mut begun = Vec::new();
            while beginning.load(Ordering::SeqCst) || begun.len() < 3 {
                begun.push(two.begin(&format!("during {}", begun.len())));
            }
            begun
        });
        told.push(at_one.next().expect("it goes on"));
        one.killed();
        beginning.store(false, Ordering::SeqCst);
        begun.join().expect("no panic")
    });
    while let Some(event) = at_one.next() {
        told.push(event);
    }
    // What happens while nobody listens is told by the store.
    let more: Vec<String> = (0..4).map(|number| two.begin(&format!("more {number}"))).collect();
    let more: Vec<String> = during.into_iter().chain(more).collect();
    plans[3..].iter().chain(&more).for_each(|plan| cancel(&three, plan));
    let last = told.last().expect("something was told")["cursor"].as_str().expect("a place");
    let last = last.to_owned();
    let mut at_two = Stream::open(&two, "", Some(&last));
    let all: Vec<String> = plans[3..].iter().chain(&more).cloned().collect();
    told.extend(at_two.until_stopped(&all));
    check(&told);
    let mut again = Stream::open(&three, "?after=0", None);
    let every: Vec<String> = plans.iter().chain(&more).cloned().collect();
    let again = again.until_stopped(&every);
    assert_eq!(again, told, "the store tells the same");

    let beyond = two.get("/api/v1/events?after=99999999");
    beyond.is_problem(400, "cursor-invalid");
    assert!(beyond.text.contains("Open the stream without a place"), "{}", beyond.text);
    two.stopped();
    three.stopped();
}
