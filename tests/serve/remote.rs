//! Verbs from another machine: a server is named, and there is no store.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::{json, Value};

use crate::serve_common::Place;

/// Waits for an event, and says what it was.
const LISTEN: &str = "document: { dsl: '1.0.3', namespace: test, name: listen, version: '1.0.0' }
do:
  - hear: { listen: { to: { one: { with: { type: org.example.word } } } } }
  - say: { set: { word: '${ .[0].word }' } }
";

const SAY: &str = "document: { dsl: '1.0.3', namespace: test, name: say, version: '1.0.0' }
do:
  - say: { set: { said: '${ .word }' } }
";

/// A laptop: a folder without a store, with a context for the server.
struct Laptop(Place);

impl Laptop {
    fn run(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = self.0.command(arguments);
        command.env_remove("TURNWHEEL_STORE").output().expect("it runs")
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).expect("it prints text")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(arguments);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

#[test]
fn plans_of_a_node_are_listed_and_take_orders() {
    let place = Place::new();
    let server = place.serve(&[]);
    let laptop = Laptop(Place::new());
    laptop.ok(&["context", "add", "prod", "--server", &server.url]);
    laptop.ok(&["context", "use", "prod"]);
    laptop.0.write("say.yaml", SAY);
    for _ in 0..2 {
        laptop.ok(&["run", "say.yaml", "--input", "{\"word\": \"yes\"}"]);
    }
    let nodes = server.get("/api/v1/nodes").ok();
    let node = nodes["nodes"][0]["name"].as_str().expect("a name");
    let all = laptop.json(&["list", "test/say", "--json"]);
    let of_node = laptop.json(&["list", "test/say", "--node", node, "--json"]);
    assert_eq!(of_node["plans"], all["plans"]);
    let many = ["delete", "--node", node, "--text", "test/say"];
    let look = laptop.ok(&[&many[..], &["--dry-run"]].concat());
    assert_eq!(look.matches("would be asked: delete").count(), 2, "{look}");
    let nobody = laptop.run(&["list", "--node", "nobody"]);
    let said = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(!nobody.status.success() && said.contains("no node «nobody»"), "{said}");
    laptop.ok(&[&many[..], &["--yes"]].concat());
    assert_eq!(laptop.run(&["list", "test/say"]).status.code(), Some(5), "they are gone");
    // The file of a store says nothing of nodes.
    let alone = place.run(&["list", "--node", node]);
    let said = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert_eq!(alone.status.code(), Some(2), "{said}");
    assert!(said.contains("known to servers alone") && said.contains("--server"), "{said}");
}

#[test]
fn every_verb_works_from_another_machine() {
    let place = Place::new();
    let tokens = place.write("tokens.txt", "operate ann s3cret\n");
    let mut server = place.serve(&["--tokens", &tokens]);
    server.token = Some("s3cret".to_owned());
    let laptop = Laptop(Place::new());
    let bare = laptop.run(&["list", "--server", &server.url]);
    assert_eq!(bare.status.code(), Some(1));
    let said = String::from_utf8_lossy(&bare.stderr).into_owned();
    assert!(said.contains("has no token") && said.contains("TURNWHEEL_TOKEN"), "{said}");
    laptop.ok(&["context", "add", "prod", "--server", &server.url, "--token", "s3cret"]);
    laptop.ok(&["context", "use", "prod"]);

    // Flows are added, started and seen to their end.
    laptop.0.write("say.yaml", SAY);
    laptop.0.write("listen.yaml", LISTEN);
    laptop.ok(&["flow", "add", "say.yaml"]);
    laptop.ok(&["flow", "add", "listen.yaml"]);
    assert_eq!(laptop.json(&["flow", "list", "--json"])["flows"].as_array().map(Vec::len), Some(2));
    let input = "{\"word\": \"yes\"}";
    assert_eq!(laptop.json(&["flow", "start", "say", "--input", input]), json!({"said": "yes"}));
    assert_eq!(laptop.json(&["run", "say.yaml", "--input", input]), json!({"said": "yes"}));
    let plan = laptop.ok(&["run", "listen.yaml", "--detach"]).trim().to_owned();
    while laptop.json(&["event", "emit", "org.example.word", input, "--json"])["delivered"] == 0 {
        std::thread::yield_now();
    }
    server.ended_plan(&plan);

    // What is looked at is what the API has.
    let api = |path: &str| server.get(&format!("/api/v1{path}")).ok();
    let list = laptop.json(&["list", "test/say", "--json"]);
    assert_eq!(list["plans"], api("/plans?text=test/say")["plans"]);
    assert_eq!(list["plans"].as_array().map(Vec::len), Some(2));
    let shown = laptop.json(&["show", &plan, "--json"]);
    assert_eq!(shown, api(&format!("/plans/{plan}")));
    assert_eq!(shown["output"], json!({"word": "yes"}));
    assert_eq!(laptop.json(&["show", "last", "--json"])["id"], plan);
    let steps = laptop.json(&["show", &plan, "--steps", "--json"]);
    assert_eq!(steps["steps"], api(&format!("/plans/{plan}/steps"))["steps"]);
    assert!(laptop.ok(&["show", &plan]).contains("say"));
    assert!(laptop.ok(&["tree", &plan]).contains("hear"));
    assert!(laptop.ok(&["logs", &plan, "--follow"]).contains("all steps are done"));
    assert_eq!(laptop.json(&["stats", "--json"])["plans"], 3);
    let records = laptop.run(&["logs", &plan, "--records"]);
    assert_eq!(records.status.code(), Some(2), "only the store has them");

    // The store itself, read on its own machine, says the same in the same words.
    assert_eq!(place.json(&["show", &plan, "--json"]), shown);
    assert_eq!(place.json(&["list", "test/say", "--json"])["plans"], list["plans"]);

    laptop.ok(&["label", &plan, "customer=Ann", "urgent"]);
    laptop.ok(&["label", &plan, "--remove", "urgent"]);
    let labels = laptop.json(&["show", &plan, "--json"])["labels"].clone();
    assert_eq!((&labels["customer"], &labels["urgent"]), (&json!("Ann"), &Value::Null));
    assert_eq!(laptop.json(&["letter", "list", "--json"])["letters"], json!([]));
    let unknown = laptop.run(&["letter", "redeliver", "7"]);
    assert_eq!(unknown.status.code(), Some(3));
    assert!(laptop.ok(&["health"]).contains(" works"));
    assert_eq!(laptop.json(&["health", "--json"])["is_healthy"], true);

    // Orders, for one and for many.
    let one = laptop.ok(&["flow", "start", "listen", "--detach"]).trim().to_owned();
    let two = laptop.ok(&["flow", "start", "listen", "--detach"]).trim().to_owned();
    laptop.ok(&["terminate", &one]);
    assert_eq!(server.ended_plan(&one)["state"], "stopped");
    let asked = laptop.json(&["cancel", "--flow", "listen", "--state", "running", "--json"]);
    assert_eq!(asked["plans"], json!([two]));
    let none = laptop.run(&["cancel", "--flow", "listen", "--state", "running"]);
    assert_eq!(none.status.code(), Some(5));
    server.stopped();
    let gone = laptop.run(&["health"]);
    assert_eq!(gone.status.code(), Some(1));
}

#[test]
fn schedules_are_kept_from_another_machine() {
    let place = Place::new();
    let server = place.serve(&[]);
    let laptop = Laptop(Place::new());
    laptop.0.write("say.yaml", SAY);
    let at = ["--server", server.url.as_str()];
    let run = |arguments: &[&str]| laptop.ok(&[arguments, &at[..]].concat());
    run(&["flow", "add", "say.yaml"]);
    let add = ["schedule", "add", "hourly", "--every", "1h", "--flow", "say"];
    run(&add);
    let all: Value = serde_json::from_str(&run(&["schedule", "list", "--json"])).expect("JSON");
    assert_eq!(all["schedules"][0], server.get("/api/v1/schedules/hourly").ok());
    assert_eq!(run(&["schedule", "next", "hourly", "--count", "2"]).lines().count(), 2);
    let plan = run(&["schedule", "trigger", "hourly"]).trim().to_owned();
    assert_eq!(server.ended_plan(&plan)["output"], json!({"said": null}));
    let range = ["--from", "2026-01-01T00:30:00Z", "--until", "2026-01-01T02:30:00Z"];
    let filled = run(&[&["schedule", "backfill", "hourly"][..], &range].concat());
    assert_eq!(filled, "hourly makes up for 2 times\n");
    run(&["schedule", "pause", "hourly"]);
    run(&["schedule", "remove", "hourly"]);
    server.get("/api/v1/schedules/hourly").is_problem(404, "schedule-unknown");
    server.stopped();
}

/// The parts of an answer to `/orders`, one after the other, by a server that has looked at many plans
/// and found none of the node among the first.
#[test]
fn orders_go_on_behind_a_part_without_plans_of_the_node() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has one");
    let plan = "01a21d60-6d22-7e27-a610-aca5e1dbfc01";
    let parts = [
        json!({"plans": [], "next": "first"}),
        json!({"plans": [], "next": "second"}),
        json!({"plans": [{"plan": plan, "label": "test/say", "outcome": "done"}], "next": null}),
    ];
    let server = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for part in parts {
            let (mut stream, _) = listener.accept().expect("it asks");
            asked.push(body_of(&mut stream));
            let text = part.to_string();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
            let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{text}", text.len());
            stream.write_all(answer.as_bytes()).expect("it listens");
        }
        asked
    });
    let laptop = Laptop(Place::new());
    let server_url = format!("http://{address}");
    let order = ["cancel", "--node", "one", "--yes", "--server", &server_url];
    let said = laptop.ok(&order);
    assert!(said.contains("test/say"), "{said}");
    let asked = server.join().expect("it was asked for each part");
    let after: Vec<&Value> = asked.iter().map(|body| &body["after"]).collect();
    assert_eq!(after, [&Value::Null, &json!("first"), &json!("second")]);
    assert!(asked.iter().all(|body| body["filter"]["node"] == "one"), "{asked:?}");
}

/// The body of a request.
fn body_of(stream: &mut TcpStream) -> Value {
    let mut lines = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while lines.read_line(&mut line).expect("it is read") > 2 {
        if let Some((name, value)) = line.split_once(':') {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().expect("a number");
            }
        }
        line.clear();
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body).expect("it is whole");
    serde_json::from_slice(&body).expect("it is JSON")
}
