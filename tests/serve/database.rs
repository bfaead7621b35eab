//! `turnwheel serve` on PostgreSQL. `cargo test` alone needs no database: these tests run only when they
//! are asked for, by `.ci/run postgres`.

use serde_json::{json, Value};
use turnwheel_postgres::LocalServer;

use crate::serve_common::{Place, Serve};

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
    assert!(row["lease_left_ms"].as_u64().is_some_and(|left_ms| left_ms <= 3_000), "{row}");
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
