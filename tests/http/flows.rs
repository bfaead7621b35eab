//! Flows over HTTP: added, looked at, started.
#![cfg(feature = "server")]

use serde_json::{json, Value};
use turnwheel::engine::{MemoryStore, World};
use turnwheel::flow::{self, FakeIo, Flows, WithFlows};
use turnwheel::http::{Access, Options};
use turnwheel::runtime::completion::block_on;
use turnwheel::sqlite::SqliteStore;

use crate::http_common::{with, Answer, Served};

const GREET: &str = "document: { dsl: '1.0.3', namespace: shop, name: greet, version: '1.0.0' }
input:
  schema:
    document: { type: object, required: [name], properties: { name: { type: string } } }
do:
  - greet: { set: { text: '${ \"hello \\(.name)\" }' } }
";

pub(crate) fn served() -> Served {
    let world = with(World::builder()).flows(FakeIo::new()).build(MemoryStore::new());
    Served::with(world.expect("a world"), Options::new(Access::Loopback))
}

pub(crate) fn add(served: &Served, source: &str) -> Answer {
    let yaml = [("content-type", "application/yaml")];
    served.send_bytes("POST", "/api/v1/flows", &yaml, Some(source.as_bytes()))
}

/// Where a relative reference in the answer to a request leads.
fn target(path: &str, reference: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in reference.split('/') {
        match part {
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn a_flow_is_added_looked_at_and_started_once() {
    let served = served();
    let added = add(&served, GREET);
    assert_eq!(added.status, 201, "{}", added.text);
    assert_eq!(added.header("location"), "flows/shop/greet/1.0.0");
    assert_eq!(add(&served, GREET).status, 200, "it was there already");
    let flow = served.get("/api/v1/flows/shop/greet/latest").json();
    assert_eq!((&flow["version"], &flow["hash"]), (&json!("1.0.0"), &added.json()["hash"]));
    assert_eq!(flow["input_schema"]["required"], json!(["name"]));
    assert_eq!(flow["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(served.get("/api/v1/flows").json()["flows"][0]["name"], "greet");

    let start = "/api/v1/flows/shop/greet/1.0.0/start";
    let key = [("idempotency-key", "1")];
    let run = json!({"input": {"name": "ann"}, "labels": {"of": "ann"}});
    let first = served.send("POST", start, &key, Some(&run));
    assert_eq!(first.status, 201, "{}", first.text);
    let id = first.json()["id"].as_str().unwrap().to_owned();
    let plan = served.ended(&id);
    assert_eq!(plan["result"], "success", "{plan}");
    assert_eq!(served.get(&target(start, first.header("location"))).json()["id"], json!(id));
    let rerun = format!("/api/v1/plans/{id}/again");
    let again = served.post(&rerun, &json!({}));
    let location = target(&rerun, again.header("location"));
    assert_eq!(served.get(&location).json()["id"], again.json()["id"]);
    assert_eq!(plan["labels"]["flow.name"], "greet");
    assert!(plan["output"].to_string().contains("hello ann"), "{plan}");
    let again = served.send("POST", start, &key, Some(&run));
    assert_eq!((again.status, &again.json()["id"]), (200, &json!(id)));
    let other = json!({"input": {"name": "bob"}});
    served.send("POST", start, &key, Some(&other)).is_problem(422, "key-reused");
}

#[test]
fn a_key_of_the_latest_version_answers_its_plan_after_a_newer_one_was_added() {
    let served = served();
    assert_eq!(add(&served, GREET).status, 201);
    let start = "/api/v1/flows/shop/greet/latest/start";
    let key = [("idempotency-key", "1")];
    let run = |count: &str| {
        let count: serde_json::Value = count.parse().unwrap();
        json!({"input": {"name": "ann", "count": count}})
    };
    let first = served.send("POST", start, &key, Some(&run("1")));
    assert_eq!(first.status, 201, "{}", first.text);
    let newer = GREET.replace("1.0.0", "1.1.0");
    assert_eq!(add(&served, &newer).status, 201);
    for same in ["1", "1.0"] {
        let again = served.send("POST", start, &key, Some(&run(same)));
        let known = (again.status, &again.json()["id"]);
        assert_eq!(known, (200, &first.json()["id"]), "{}", again.text);
    }
    let refused = served.send("POST", start, &key, Some(&run("2")));
    refused.is_problem(422, "key-reused");
    let other = [("idempotency-key", "2")];
    let other = served.send("POST", start, &other, Some(&run("1")));
    assert_eq!(other.status, 201, "{}", other.text);
    let plan = served.ended(other.json()["id"].as_str().unwrap());
    assert_eq!(plan["labels"]["flow.version"], "1.1.0", "a new key begins the newest");
}

#[test]
fn what_is_wrong_with_a_flow_is_said_with_its_place() {
    let served = served();
    let wrong = GREET.replace("set:", "sett:");
    let problem = add(&served, &wrong).is_problem(422, "flow-invalid");
    let one = &problem["problems"][0];
    assert_eq!(one["line"], 6, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("did you mean"), "{problem}");
    let yaml = [("content-type", "application/yaml")];
    let checked = served.send_bytes("POST", "/api/v1/flows/check", &yaml, Some(GREET.as_bytes()));
    assert_eq!(checked.status, 200, "{}", checked.text);
    assert_eq!(served.get("/api/v1/flows").json()["flows"], json!([]));
    served.get("/api/v1/flows/shop/greet/latest").is_problem(404, "flow-unknown");
    add(&served, GREET);
    let changed = GREET.replace("hello", "hi");
    add(&served, &changed).is_problem(409, "flow-exists");
    let none = [("content-type", "image/png")];
    let refused = served.send_bytes("POST", "/api/v1/flows", &none, Some(b"x"));
    refused.is_problem(415, "body-type-wrong");
    // A world without flows says so.
    Served::new().get("/api/v1/flows").is_problem(404, "path-unknown");
}

const BROKEN: &str = "document: { dsl: '1.0.3', namespace: shop, name: sell, version: '1.0.0' }
do:
  - first: { set: { mended: false, count: '${ (.count // 0) + 1 }' } }
  - second:
      if: .mended | not
      raise: { error: { type: 'https://example.org/broken', status: 500 } }
";

#[test]
fn a_failed_flow_is_retried_from_its_failed_task_and_any_plan_runs_again() {
    let served = served();
    add(&served, BROKEN);
    let start = "/api/v1/flows/shop/sell/1.0.0/start";
    let started = served.post(start, &json!({"input": {"count": 4}, "labels": {"of": "ann"}}));
    let failed = started.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(served.ended(&failed)["result"], "error");

    let retry = format!("/api/v1/plans/{failed}/retry");
    served.post(&retry, &json!({"inputs": 1})).is_problem(422, "body-invalid");
    served.post(&retry, &json!({"version": "9.9.9"})).is_problem(404, "flow-unknown");
    let mended = BROKEN.replace("1.0.0", "1.1.0").replace(".mended | not", "'false'");
    assert_eq!(add(&served, &mended).status, 201);
    let body = json!({"version": "latest"});
    let first = served.post(&retry, &body);
    assert_eq!(first.status, 201, "{}", first.text);
    let id = first.json()["id"].as_str().expect("an id").to_owned();
    let plan = served.ended(&id);
    assert_eq!((&plan["result"], &plan["labels"]["of"]), (&json!("success"), &json!("ann")));
    assert_eq!(plan["labels"]["retry.of"], failed.as_str());
    assert!(plan["output"].to_string().contains("\"count\":5"), "{plan}");
    // Twice is once.
    let again = served.post(&retry, &body);
    assert_eq!((again.status, &again.json()["id"]), (200, &json!(id)));
    let other = served.post(&retry, &json!({})).is_problem(422, "key-reused");
    assert!(
        other["detail"].as_str().is_some_and(|it| it.contains("was retried already")),
        "{other}"
    );
    served.post(&format!("/api/v1/plans/{id}/retry"), &json!({})).is_problem(409, "plan-state");

    let path = format!("/api/v1/plans/{id}/again");
    let key = [("idempotency-key", "k")];
    let body = json!({"input": {"count": 9}});
    let ran = served.send("POST", &path, &key, Some(&body));
    assert_eq!(ran.status, 201, "{}", ran.text);
    assert_eq!(served.send("POST", &path, &key, Some(&body)).json()["id"], ran.json()["id"]);
    let plan = served.ended(ran.json()["id"].as_str().expect("an id"));
    assert!(plan["output"].to_string().contains("\"count\":10"), "{plan}");
    assert_eq!(plan["labels"]["again.of"], id.as_str());

    // Of an action: a plan of the same one, and no retry of this kind.
    let echo = served.start("echo", &json!({"text": "a"}));
    served.ended(&echo);
    let path = format!("/api/v1/plans/{echo}");
    served.post(&format!("{path}/retry"), &json!({})).is_problem(409, "plan-state");
    served
        .post(&format!("{path}/again"), &json!({"version": "1"}))
        .is_problem(422, "input-invalid");
    let ran = served.post(&format!("{path}/again"), &json!({}));
    assert_eq!(served.ended(ran.json()["id"].as_str().expect("an id"))["output"]["said"], "a");
    served
        .post("/api/v1/plans/0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f/again", &json!({}))
        .is_problem(404, "plan-unknown");
}

#[test]
fn a_flow_is_shown_as_it_was_written() {
    let served = served();
    let text = GREET.replace("do:", "# The name comes from the order.\ndo:");
    assert_eq!(add(&served, &text).json()["text"], json!(text));
    // Comments are no content: the first text stays.
    assert_eq!(add(&served, GREET).status, 200);
    let path = "/api/v1/flows/shop/greet/1.0.0";
    assert_eq!(served.get(path).json()["text"], json!(text));
}

#[test]
fn the_text_of_a_flow_is_read_from_the_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("flows.db");
    let world = || {
        let store = SqliteStore::new(&file);
        with(World::builder()).flows(FakeIo::new()).build(store).expect("a world")
    };
    let text = GREET.replace("do:", "# The name comes from the order.\ndo:");
    let first = world();
    let flow = flow::load(&text, "test").expect("a flow");
    let flows = Flows::new(&first).expect("flows");
    block_on(flows.add(&flow)).expect("it is answered").expect("it is taken");
    first.shutdown().expect("it ends");
    let second = world();
    let flows = Flows::new(&second).expect("flows");
    let found = flows.find("shop", "greet", "latest").expect("the flow");
    let stored = block_on(flows.text(&found)).expect("it is answered").expect("it is read");
    assert_eq!(stored, Some(text));
    second.shutdown().expect("it ends");
}

/// Looks again and again until something is there.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6_000 {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{what} does not come")
}

#[test]
fn runs_are_counted_by_flow_and_outcome() {
    let served = served();
    add(&served, GREET);
    // The first reading begins to count.
    assert!(served.get("/metrics").text.contains("# TYPE turnwheel_flow_runs counter"));
    let start = "/api/v1/flows/shop/greet/1.0.0/start";
    for _ in 0..2 {
        let begun = served.post(start, &json!({"input": {"name": "ann"}}));
        served.ended(begun.json()["id"].as_str().expect("an id"));
    }
    let line = "turnwheel_flow_runs_total{flow=\"shop/greet\",outcome=\"success\"} 2\n";
    until(line, || served.get("/metrics").text.contains(line).then_some(()));
}

#[test]
fn ended_runs_are_told_by_time_and_by_flow() {
    let served = served();
    add(&served, GREET);
    let start = "/api/v1/flows/shop/greet/1.0.0/start";
    for _ in 0..2 {
        let begun = served.post(start, &json!({"input": {"name": "ann"}}));
        served.ended(begun.json()["id"].as_str().expect("an id"));
    }
    let ended = |query: &str| served.get(&format!("/api/v1/stats/ended{query}"));
    let hour = ended("?hours=1&parts=6").json();
    assert_eq!((&hour["all"]["ended"], &hour["all"]["failed"]), (&json!(2), &json!(0)));
    assert!(hour["all"]["p50_ms"].is_f64(), "{hour}");
    let parts = hour["parts"].as_array().expect("parts");
    assert_eq!(parts.len(), 6);
    assert_eq!(parts.iter().filter_map(|part| part["ended"].as_u64()).sum::<u64>(), 2);
    assert_eq!(hour["names"][0]["name"], "shop/greet:1.0.0");
    assert_eq!(ended("?flow=shop/greet").json()["all"]["ended"], 2);
    assert_eq!(ended("?flow=shop/gre").json()["all"]["ended"], 0);
    for wrong in ["?hours=0", "?hours=25", "?parts=121"] {
        assert_eq!(ended(wrong).status, 400, "{wrong}");
    }
    let metrics = served.get("/metrics").text;
    assert!(metrics.contains("turnwheel_flow_hour_runs{flow=\"shop/greet\"} 2\n"), "{metrics}");
    let half = "turnwheel_flow_hour_seconds{flow=\"shop/greet\",quantile=\"0.5\"} 0.";
    assert!(metrics.contains(half), "{metrics}");
}

#[test]
fn runs_of_one_node_are_listed_and_take_orders_together() {
    let served = served();
    add(&served, GREET);
    for _ in 0..3 {
        let input = json!({"input": {"name": "ann"}});
        let begun = served.post("/api/v1/flows/shop/greet/1.0.0/start", &input);
        served.ended(begun.json()["id"].as_str().expect("an id"));
    }
    let nodes = served.get("/api/v1/nodes").json();
    let name = nodes["nodes"][0]["name"].as_str().expect("a name").replace(' ', "%20");
    let own = served.get(&format!("/api/v1/plans?limit=2&node={name}")).json();
    assert_eq!(
        (own["plans"].as_array().map(Vec::len), &own["is_partial"]),
        (Some(2), &json!(false))
    );
    let next = own["next"].as_str().expect("a third one");
    let rest = served.get(&format!("/api/v1/plans?limit=2&node={name}&cursor={next}")).json();
    assert_eq!((rest["plans"].as_array().map(Vec::len), &rest["next"]), (Some(1), &Value::Null));
    let unknown = served.get("/api/v1/plans?node=nobody");
    assert_eq!((unknown.status, &unknown.json()["code"]), (404, &json!("node-unknown")));
    // Orders take the same plans, a part at a time.
    let order = |node: &str, more: Value| {
        let mut body = json!({"order": "delete", "filter": {"node": node}, "limit": 2});
        body.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        served.post("/api/v1/orders", &body)
    };
    let nobody = order("nobody", json!({}));
    assert_eq!((nobody.status, &nobody.json()["code"]), (404, &json!("node-unknown")));
    let name = nodes["nodes"][0]["name"].as_str().expect("a name");
    let look = order(name, json!({"dry_run": true})).json();
    assert_eq!((&look["touched"], &look["has_more"]), (&json!(2), &json!(true)), "{look}");
    let first = order(name, json!({})).json();
    assert_eq!((&first["touched"], &first["has_more"]), (&json!(2), &json!(true)), "{first}");
    let rest = order(name, json!({"after": first["next"]})).json();
    assert_eq!((&rest["touched"], &rest["has_more"]), (&json!(1), &json!(false)), "{rest}");
    let none = order(name, json!({})).json();
    assert_eq!((&none["touched"], &none["has_more"]), (&json!(0), &json!(false)), "{none}");
}

#[cfg(all(feature = "io", unix))]
#[test]
fn a_running_process_shows_the_lines_that_it_has_written() {
    use turnwheel::io::{HostIo, IoOptions};

    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("go on");
    let io = HostIo::new(IoOptions::default());
    let world = with(World::builder()).flows(io).build(MemoryStore::new()).expect("a world");
    let served = Served::with(world, Options::new(Access::Loopback));
    let command = format!(
        "echo row 1; printf half; while [ ! -e \"{}\" ]; do sleep 0.02; done; echo",
        mark.display()
    );
    let flow = json!({
        "document": { "dsl": "1.0.3", "namespace": "shop", "name": "dump", "version": "1.0.0" },
        "do": [{ "dump": { "run": { "shell": { "command": command } } } }],
    });
    assert_eq!(add(&served, &flow.to_string()).status, 201);
    let begun = served.post("/api/v1/flows/shop/dump/1.0.0/start", &json!({}));
    let id = begun.json()["id"].as_str().expect("an id").to_owned();
    let beat = until("its output", || {
        (1..9).find_map(|step| {
            let step = served.get(&format!("/api/v1/plans/{id}/steps/{step}"));
            let beat = (step.status == 200).then(|| step.json()["beat"].clone())?;
            (!beat.is_null()).then_some(beat)
        })
    });
    assert_eq!(beat, "row 1\n", "only whole lines are shown");
    std::fs::write(&mark, "").expect("it can be written");
    assert_eq!(served.ended(&id)["result"], "success");
}

#[test]
fn schedule_of_an_older_version_that_goes_on_is_said_when_a_newer_one_is_added() {
    let served = served();
    let flow = |version: &str, schedule: &str| {
        format!(
            "document: {{ dsl: '1.0.3', namespace: shop, name: tick, version: '{version}' }}\n{schedule}\
             do: [ {{ s: {{ set: {{ n: 1 }} }} }} ]\n"
        )
    };
    let note = |version: &str, schedule: &str| {
        let added = add(&served, &flow(version, schedule));
        assert_eq!(added.status, 201, "{}", added.text);
        added.json()["note"].clone()
    };
    assert_eq!(note("1.0.0", "schedule: { every: PT1H }\n"), json!(null));
    let said = note("1.1.0", "");
    let said = said.as_str().expect("there is a note");
    assert!(said.contains("shop/tick:1.0.0 goes on"), "{said}");
    assert!(said.contains("turnwheel schedule rm flow:shop/tick"), "{said}");
    assert_eq!(note("1.2.0", "schedule: { every: PT2H }\n"), json!(null), "it has taken its place");
}

#[test]
fn a_flow_that_schedules_start_by_its_name_is_removed_by_force_alone() {
    let served = served();
    assert_eq!(add(&served, GREET).status, 201);
    let spec = |flow: &str| {
        let input = json!({"flow": flow, "input": {"name": "Ann"}});
        json!({"timing": {"manual": {}}, "action": "flow", "input": input})
    };
    let put = |name: &str, flow: &str| {
        served.send("PUT", &format!("/api/v1/schedules/{name}"), &[], Some(&spec(flow)))
    };
    put("none", "shop/none").is_problem(404, "flow-unknown");
    put("none", "greet").is_problem(422, "input-invalid");
    for (name, flow) in [("newest", "shop/greet"), ("one", "shop/greet:1.0.0")] {
        let put = put(name, flow);
        assert_eq!(put.status, 201, "{}", put.text);
        assert_eq!(put.json()["input"]["flow"], "shop/greet:1.0.0");
        let begun = served.post(&format!("/api/v1/schedules/{name}/trigger"), &Value::Null);
        assert_eq!(begun.status, 201, "{}", begun.text);
        assert_eq!(served.ended(begun.json()["id"].as_str().unwrap())["result"], "success");
    }
    let path = "/api/v1/flows/shop/greet/1.0.0";
    let refused = served.send("DELETE", path, &[], None);
    refused.is_problem(409, "flow-in-use");
    assert!(refused.text.contains("newest, one"), "{}", refused.text);
    let forced = served.send("DELETE", &format!("{path}?force=true"), &[], None);
    assert_eq!(forced.status, 204, "{}", forced.text);
    let begun = served.post("/api/v1/schedules/one/trigger", &Value::Null);
    assert_eq!(served.ended(begun.json()["id"].as_str().unwrap())["result"], "success");
}
