//! `turnwheel serve` on PostgreSQL. `cargo test` alone needs no database: these tests run only when they
//! are asked for, by `.ci/run postgres`.

mod jobs;
mod live;
mod rolling;

use serde_json::{json, Value};
use turnwheel_postgres::LocalServer;

use crate::serve_common::{eventually, Place, Serve};

/// Asks for these tests.
const ASKED: &str = "TURNWHEEL_TEST_POSTGRES";

fn is_asked() -> bool {
    let is_asked = std::env::var_os(ASKED).is_some();
    if !is_asked {
        eprintln!("LEFT OUT: no server was tried on PostgreSQL, because {ASKED} is not set");
    }
    is_asked
}

/// The message of a command that fails.
fn refusal(place: &Place, arguments: &[&str], code: i32) -> String {
    let output = place.run(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    said
}

#[test]
fn server_on_postgresql_is_found_by_commands_and_goes_on_after_kill_nine() {
    if !is_asked() {
        return;
    }
    let database = LocalServer::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let url = format!("{}?schema=served", database.url("postgres"));
    let place = Place::new();
    let missing = refusal(&place, &["store", "check", "--store", &url], 1);
    assert!(missing.contains("no tables") && missing.contains("store migrate"), "{missing}");
    let missing = refusal(&place, &["list", "--store", &url], 1);
    assert!(missing.contains("no tables of Turnwheel"), "{missing}");
    assert!(place.ok(&["store", "migrate", "--store", &url]).contains("its tables are made"));
    assert!(place.ok(&["store", "check", "--store", &url]).contains("that of this version"));

    let server = place.serve(&["--store", &url]);
    let (plan, cancelled) = (server.begin("p"), server.begin("q"));
    let listed = place.ok(&["list", "--json", "--store", &url]);
    assert!(listed.contains(&plan) && listed.contains(&cancelled), "{listed}");
    let second = ["serve", "--listen", "127.0.0.1:0", "--store", &url];
    let in_use = refusal(&place, &second, 4);
    assert!(in_use.contains("in use by process"), "{in_use}");
    place.ok(&["cancel", &cancelled, "--store", &url]);
    server.killed();

    let server = place.serve(&["--store", &url]);
    let state = |plan: &str| {
        let shown = server.get(&format!("/api/v1/plans/{plan}")).ok();
        (shown["state"].clone(), shown["result"].clone())
    };
    assert_eq!(state(&plan), ("running".into(), "pending".into()));
    assert_eq!(state(&cancelled), ("stopped".into(), "cancelled".into()));
    let no_file = refusal(&place, &["backup", "copy.db", "--store", &url], 1);
    assert!(no_file.contains("is no file") && no_file.contains("pg_dump"), "{no_file}");
}

#[test]
fn nodes_share_a_store_and_one_goes_on_with_the_plans_of_a_killed_one() {
    if !is_asked() {
        return;
    }
    let database = LocalServer::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let url = format!("{}?schema=shared", database.url("postgres"));
    let place = Place::new();
    let serve = |name: &str| {
        let label = format!("zone={name}");
        place.serve(&["--store", &url, "--node", name, "--label", &label])
    };
    let (one, two) = (serve("one"), serve("two"));
    let plans: Vec<String> = (0..4).map(|number| one.begin(&format!("p{number}"))).collect();
    // Any node serves all plans; commands find one of them.
    let (state, node) = (
        |plan: &str, at: &Serve| at.get(&format!("/api/v1/plans/{plan}")).ok()["state"].clone(),
        |listed: &Value, name: &str| {
            let nodes = listed["nodes"].as_array().expect("a list").clone();
            nodes.into_iter().find(|node| node["name"] == name)
        },
    );
    for plan in &plans {
        assert_eq!((state(plan, &one), state(plan, &two)), ("running".into(), "running".into()));
    }
    place.ok(&["cancel", &plans[0], "--store", &url]);
    let listed = place.json(&["node", "list", "--json", "--store", &url]);
    assert_eq!(listed["nodes"].as_array().expect("a list").len(), 2, "{listed}");
    let row = node(&listed, "one").expect("it is there");
    assert_eq!((&row["address"], &row["labels"]["zone"]), (&json!(one.url), &json!("one")));
    assert_eq!(row["version"], env!("CARGO_PKG_VERSION"));
    assert!(row["lease_left_ms"].as_u64().is_some_and(|left_ms| left_ms <= 60_000), "{row}");
    let shown = place.ok(&["node", "list", "--store", &url]);
    assert!(shown.contains("zone=two") && shown.contains("alive"), "{shown}");
    assert_eq!(two.get("/api/v1/nodes").ok()["nodes"].as_array().expect("a list").len(), 2);
    for (node, other) in [(&one, &two), (&two, &one)] {
        let name = if node.url == one.url { "first" } else { "second" };
        let flow = json!({
            "document": {"dsl": "1.0.3", "namespace": "shared", "name": name, "version": "1.0.0"},
            "do": [{"set": {"set": {"from": name}}}],
        });
        node.post("/api/v1/flows", &flow).ok();
        let start = format!("/api/v1/flows/shared/{name}/latest/start");
        let started = other.post(&start, &json!({"input": {}})).ok();
        let ended = node.ended_plan(started["id"].as_str().expect("an id"));
        assert_eq!(ended["result"], "success", "{ended}");
    }
    // A command asks the node that was heard of last; one of both launches.
    let input = json!({"topic": "hourly"}).to_string();
    let add =
        ["schedule", "add", "hourly", "--every", "1h", "--action", "external", "--input", &input];
    place.ok(&[&add[..], &["--store", &url]].concat());
    for node in [&one, &two] {
        let shown = node.get("/api/v1/schedules/hourly").ok();
        assert_eq!(shown["name"], "hourly", "{shown}");
    }
    let taken = ["serve", "--listen", "127.0.0.1:0", "--store", &url, "--node", "one"];
    let taken = refusal(&place, &taken, 1);
    assert!(taken.contains("the name «one» is that of a node that is alive"), "{taken}");
    let alone = ["serve", "--listen", "127.0.0.1:0", "--store", &url];
    let alone = refusal(&place, &alone, 4);
    assert!(alone.contains("in use by node "), "{alone}");

    one.killed();
    while node(&two.get("/api/v1/nodes").ok(), "one").is_some() {
        std::thread::yield_now();
    }
    for plan in &plans[1..] {
        assert_eq!(state(plan, &two), "running");
        place.ok(&["cancel", plan, "--store", &url]);
        assert_eq!(state(plan, &two), "stopped");
    }
    two.stopped();
    let listed = place.json(&["node", "list", "--json", "--store", &url]);
    assert_eq!(listed["nodes"], json!([]), "it has left in order");
}

/// A journey whose users answer, or are moved on after some seconds.
const JOURNEY: &str = "
journey: onboarding
platform: shop
elements:
  signed-up: { start: { on: customer.created }, then: hello }
  hello: { send: { channel: log }, then: order }
  order: { wait: { on: order.paid, for: PT12S }, then: paid, otherwise: remind }
  paid: { send: { channel: log }, then: end }
  remind: { send: { channel: log }, then: end }
";

#[test]
fn users_of_journeys_go_on_at_any_node_when_one_is_killed_between_two_writes() {
    if !is_asked() {
        return;
    }
    const USERS: usize = 30;
    let database = LocalServer::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let url = format!("{}?schema=journeys", database.url("postgres"));
    let place = Place::new();
    let serve = |name: &str| place.serve(&["--store", &url, "--node", name]);
    let (one, two, three) = (serve("one"), serve("two"), serve("three"));
    one.send("POST", "/api/v1/journeys", &[], Some(JOURNEY)).ok();
    let event = |number: usize, id: &str, kind: &str| {
        json!({
            "specversion": "1.0", "id": id, "source": "web", "type": kind,
            "subject": format!("u{number}"),
        })
        .to_string()
    };
    let headers = [("content-type", "application/cloudevents+json")];
    let path = "/api/v1/platforms/shop/events";
    let publish = |node: &Serve, event: &str| {
        node.send("POST", path, &headers, Some(event)).ok()["events"][0].clone()
    };
    // A definition is known at each node when it was stored at one.
    for (node, user) in [(&two, 100), (&three, 101)] {
        let taken = publish(node, &event(user, "1", "customer.created"));
        assert_eq!(taken["moved"][0]["path"][4], "order", "{taken}");
    }
    let (agent, address) = (ureq::Agent::new_with_defaults(), format!("{}{path}", one.url));
    let sender = std::thread::spawn(move || {
        let events = (0..USERS).map(|number| {
            let event = event(number, "1", "customer.created");
            let asked = agent.post(&address).header(headers[0].0, headers[0].1).send(event);
            asked.is_ok_and(|answer| answer.status() == 200)
        });
        events.collect::<Vec<bool>>()
    });
    let user =
        |node: &Serve, number: usize| node.get(&format!("/api/v1/users/shop/u{number}")).ok();
    // In the middle of its work.
    eventually("some users are in the journey", || {
        user(&two, USERS / 3)["passes"].get(0).map(drop)
    });
    one.killed();
    let answered = sender.join().expect("no panic there");
    assert!(answered[0] && !answered[USERS - 1], "it was killed in the middle: {answered:?}");
    for (number, was_answered) in answered.iter().enumerate() {
        let taken = publish(&two, &event(number, "1", "customer.created"));
        assert!(
            !was_answered || taken["is_repeated"] == true,
            "u{number}: what was answered is there"
        );
    }
    for number in (0..USERS).step_by(2) {
        let taken = publish(&three, &event(number, "2", "order.paid"));
        assert_eq!(taken["moved"][0]["path"][0], "order", "u{number}: {taken}");
    }
    for number in 0..USERS {
        let found = eventually("the pass is over", || {
            let found = user(&two, number);
            (found["passes"] == json!([]) && found["outbox"] == json!([])).then_some(found)
        });
        let pass = &found["ended"][0];
        let causes: Vec<&Value> =
            pass["moves"].as_array().expect("a list").iter().map(|it| &it["cause"]).collect();
        let (cause, element) =
            if number % 2 == 0 { ("event", "paid") } else { ("timer", "remind") };
        assert_eq!(causes, ["event", cause], "u{number}: {found}");
        assert_eq!(pass["moves"][1]["path"][2], element, "u{number}: {found}");
        assert_eq!(found["ended"].as_array().map(Vec::len), Some(1), "u{number}: {found}");
    }
    two.stopped();
    three.stopped();
}

#[test]
fn database_that_is_not_reached_is_told_without_its_password() {
    if !is_asked() {
        return;
    }
    let place = Place::new();
    let url = "postgres://ann:sesame@127.0.0.1:1/plans";
    for arguments in [["serve", "--store", url], ["list", "--store", url]] {
        let said = refusal(&place, &arguments, 1);
        assert!(said.contains("127.0.0.1:1/plans") && said.contains("PostgreSQL runs"), "{said}");
        assert!(!said.contains("sesame"), "{said}");
    }
    let settings = place.ok(&["config", "print", "--store", url]);
    assert!(settings.contains("ann:…@") && !settings.contains("sesame"), "{settings}");
}

#[test]
fn a_node_is_drained_by_a_command_and_the_store_is_copied_into_a_file() {
    if !is_asked() {
        return;
    }
    let database = LocalServer::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let url = format!("{}?schema=drained", database.url("postgres"));
    let place = Place::new();
    let serve = |name: &str| place.serve(&["--store", &url, "--node", name]);
    let (one, two) = (serve("one"), serve("two"));
    let plans: Vec<String> = (0..4).map(|number| one.begin(&format!("p{number}"))).collect();
    let missing = refusal(&place, &["node", "drain", "three", "--store", &url], 3);
    assert!(missing.contains("there is no node «three»"), "{missing}");
    two.post("/api/v1/nodes/three/drain", &json!({})).is_problem(404, "node-unknown");
    place.ok(&["node", "drain", "one", "--store", &url]);
    let drained = two.get("/api/v1/nodes/one").ok();
    assert_eq!((&drained["slots"], &drained["is_draining"]), (&json!(0), &json!(true)));
    let slots = place.json(&["node", "slots", "--json", "--store", &url]);
    let runs = slots["runs"].as_array().expect("a list");
    assert!(runs.iter().all(|run| run["node"] == "two"), "{slots}");
    assert_eq!(one.get("/api/v1/slots").ok()["runs"][0]["first"], 0);
    let shown = place.ok(&["node", "show", "one", "--store", &url]);
    assert!(shown.contains("draining"), "{shown}");
    // It serves all requests still, and what is triggered there begins at the other one.
    let plan = one.begin("late");
    for plan in plans.iter().chain([&plan]) {
        assert_eq!(one.get(&format!("/api/v1/plans/{plan}")).ok()["state"], "running");
    }
    let copy = ["store", "copy", "--from", &url, "--to", "sqlite:copy.db"];
    let in_use = refusal(&place, &copy, 4);
    assert!(in_use.contains("in use by node"), "{in_use}");
    one.stopped();
    two.stopped();
    let copied = place.ok(&copy);
    assert!(copied.contains("5 plans") && copied.contains("SHA-256 of both"), "{copied}");
    let twice = refusal(&place, &copy, 1);
    assert!(twice.contains("copy.db is not empty"), "{twice}");
    let listed = place.ok(&["list", "--json", "--store", "copy.db"]);
    assert!(plans.iter().all(|plan| listed.contains(plan)), "{listed}");
}

/// A cluster for trying out. It ends with this value.
struct Dev {
    child: std::process::Child,
    output: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}

impl Dev {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        use std::io::BufRead as _;
        let mut command = place.command(&["dev", "--nodes", "3", "--listen", "127.0.0.1:0"]);
        command.env_remove("TURNWHEEL_STORE").args(arguments);
        let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
        let output = child.stdout.take().expect("it is piped");
        Self { child, output: std::io::BufReader::new(output).lines() }
    }

    /// The address and the process of the node that has started next.
    fn node(&mut self) -> (String, String) {
        let line = self.output.next().expect("a node starts").expect("a text");
        let said = line.split_once(" listening on ").expect("it says where").1;
        let (url, process) = said.split_once(", process ").expect("it says its process");
        (url.to_owned(), process.to_owned())
    }

    /// The process of a node that was another one before.
    fn started_again(&self, node: &str, before: &str) -> Option<String> {
        let dev = self.child.id().to_string();
        let mut ps = std::process::Command::new("ps");
        let listed = ps.args(["--ppid", &dev, "-o", "pid=,args="]).output().expect("there is ps");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let mut lines = listed.lines().map(|line| line.trim().split_once(' ').unwrap_or_default());
        let found = lines.find(|(pid, said)| {
            *pid != before && said.contains(&format!("--node {node} ")) && !said.contains("defunct")
        });
        found.map(|(pid, _)| pid.to_owned())
    }

    fn stop(mut self) {
        let pid = self.child.id().to_string();
        let told = std::process::Command::new("kill").args(["-INT", &pid]).status();
        assert!(told.expect("there is kill").success());
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0));
    }
}

#[test]
fn cluster_for_trying_out_goes_on_after_a_kill_and_keeps_its_plans() {
    if !is_asked() {
        return;
    }
    let place = Place::new();
    // The server of the database has a user of its own if these tests are run by root.
    let keep = tempfile::Builder::new().prefix("turnwheel-dev-").tempdir_in("/tmp");
    let keep = keep.expect("a folder");
    let data = keep.path().join("data").display().to_string();
    std::fs::set_permissions(keep.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("it is ours");
    let mut dev = Dev::start(&place, &["--keep", &data]);
    let nodes: Vec<(String, String)> = (0..3).map(|_| dev.node()).collect();
    let (agent, body) = (ureq::Agent::new_with_defaults(), json!({"topic": "t", "input": 1}));
    let ask = |url: &str, path: &str| -> Option<Value> {
        let answer = agent.get(format!("{url}/api/v1/{path}")).call().ok()?;
        serde_json::from_reader(answer.into_body().into_reader()).ok()
    };
    let plans: Vec<String> = nodes
        .iter()
        .map(|(url, _)| {
            let begun = json!({"action": "external", "input": body}).to_string();
            let asked = agent.post(format!("{url}/api/v1/plans"));
            let answer = asked.header("content-type", "application/json").send(begun);
            let answer = answer.expect("it is taken").into_body().into_reader();
            let begun: Value = serde_json::from_reader(answer).expect("it is JSON");
            begun["id"].as_str().expect("an id").to_owned()
        })
        .collect();
    let told = std::process::Command::new("kill").args(["-KILL", &nodes[0].1]).status();
    assert!(told.expect("there is kill").success());
    // Also when it is killed while it starts.
    let starting = eventually("it is started again", || dev.started_again("node-1", &nodes[0].1));
    let told = std::process::Command::new("kill").args(["-KILL", &starting]).status();
    assert!(told.expect("there is kill").success());
    // It may have listened just before.
    let (next, _) = std::iter::repeat_with(|| dev.node())
        .find(|(_, process)| *process != starting)
        .expect("it is started once more");
    let are_there = |url: &str| {
        plans.iter().for_each(|plan| {
            eventually("a plan is there", || {
                let shown = ask(url, &format!("plans/{plan}"))?;
                (shown["state"] == "running").then_some(())
            });
        });
    };
    are_there(&next);
    are_there(&nodes[1].0);
    dev.stop();
    assert!(ask(&nodes[1].0, "nodes").is_none(), "no node is left over");

    let mut dev = Dev::start(&place, &["--keep", &data]);
    let (url, _) = dev.node();
    are_there(&url);
    dev.stop();
    let file = refusal(&place, &["dev", "--store", "wheel.db"], 2);
    assert!(file.contains("cannot share the file") && file.contains("postgres://"), "{file}");
}
