//! Plans over HTTP: begun, looked at, ordered, told of events.
#![cfg(feature = "server")]

use serde_json::json;

use crate::http_common::Served;

#[test]
fn a_plan_is_begun_and_its_result_is_waited_for() {
    let served = Served::new();
    let body = json!({
        "action": "echo", "input": {"text": "hello"}, "labels": {"of": "ann"}, "priority": 3,
    });
    let answer = served.post("/api/v1/plans", &body);
    assert_eq!(answer.status, 201);
    let started = answer.json();
    assert_eq!(started["is_repeated"], false);
    let id = started["id"].as_str().unwrap();
    assert_eq!(answer.header("location"), format!("plans/{id}"));
    let plan = served.ended(id);
    assert_eq!(plan["state"], "stopped", "{plan}");
    assert_eq!(plan["result"], "success");
    assert_eq!(plan["output"], json!({"said": "hello"}));
    assert_eq!(plan["labels"], json!({"of": "ann"}));
    assert_eq!((&plan["by"], &plan["priority"]), (&json!("local"), &json!(3)));
    assert_eq!(plan["possible"], json!([]));
    assert_eq!(plan["progress"], 1.0);

    let steps = served.get(&format!("/api/v1/plans/{id}/steps")).json();
    let phases: Vec<_> = steps["steps"].as_array().unwrap().iter().map(|s| &s["phase"]).collect();
    assert_eq!(phases, ["plan", "run"]);
    assert_eq!(steps["steps"][1]["output"], json!({"said": "hello"}));
    let graph = served.get(&format!("/api/v1/plans/{id}/graph")).json();
    assert_eq!(graph["nodes"].as_array().unwrap().len(), 1);
    let tree = served.get(&format!("/api/v1/plans/{id}/tree")).json();
    assert_eq!(tree["nodes"][0]["steps"].as_array().unwrap().len(), 2);
}

#[test]
fn the_same_idempotency_key_begins_one_plan() {
    let served = Served::new();
    let key = [("idempotency-key", "order 7")];
    let body = json!({"action": "echo", "input": {"text": "a"}});
    let first = served.send("POST", "/api/v1/plans", &key, Some(&body));
    let second = served.send("POST", "/api/v1/plans", &key, Some(&body));
    assert_eq!((first.status, second.status), (201, 200));
    assert_eq!(first.json()["id"], second.json()["id"]);
    assert_eq!(second.json()["is_repeated"], true);
    assert_eq!(second.header("idempotency-replayed"), "true");
    let other = json!({"action": "echo", "input": {"text": "b"}});
    let reused = served.send("POST", "/api/v1/plans", &key, Some(&other));
    let problem = reused.is_problem(422, "key-reused");
    assert_eq!(problem["plan"], first.json()["id"]);
    let found = served.get("/api/v1/plans?key=order%207").json();
    assert_eq!(found["plans"][0]["id"], first.json()["id"]);
    // Somebody else finds it by the key that it shows, and begins another one with the same word.
    let path = format!("/api/v1/plans/{}", first.json()["id"].as_str().expect("an id"));
    let whole = served.get(&path).json()["key"].as_str().expect("a key").replace(' ', "%20");
    let bob = ("x-turnwheel-by", "bob");
    let look =
        |key: &str| served.send("GET", &format!("/api/v1/plans?key={key}"), &[bob], None).json();
    assert_eq!(look(&whole)["plans"][0]["id"], first.json()["id"]);
    assert_eq!(look("order%207")["plans"], json!([]));
    assert_eq!(served.send("POST", "/api/v1/plans", &[key[0], bob], Some(&body)).status, 201);
    assert_ne!(look("order%207")["plans"][0]["id"], first.json()["id"]);
    // An order for many means the same one.
    let order = json!({"filter": {"key": "order 7"}, "order": "delete", "dry_run": true});
    let would = served.send("POST", "/api/v1/orders", &[], Some(&order)).json();
    assert_eq!(would["plans"][0]["plan"], first.json()["id"]);
    assert_eq!(would["plans"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_failed_plan_says_what_can_be_done_and_does_it() {
    let served = Served::new();
    let id = served.start("fail", &json!({"is_mended": false}));
    let plan = served.ended(&id);
    assert_eq!(plan["state"], "paused");
    assert_eq!(plan["waits"], "decision");
    assert_eq!(
        plan["possible"],
        json!(["cancel", "terminate", "resume", "revert", "skip_failed", "retry_failed", "fail"])
    );
    let failed = served.get(&format!("/api/v1/plans/{id}/steps?state=error")).json();
    let step = &failed["steps"][0];
    assert_eq!(step["error"]["kind"], "broken");
    assert_eq!(step["possible"], json!(["skip", "retry", "edit_input"]));

    let orders = format!("/api/v1/plans/{id}/orders");
    let unfit = json!({"order": "edit_input", "action": step["action"], "input": {"is_mended": 7}});
    let refused = served.post(&orders, &unfit).is_problem(422, "input-invalid");
    assert_eq!(refused["plan"], id);
    assert!(refused["detail"].as_str().expect("a text").contains("«fail» of step"), "{refused}");
    let mended = json!({
        "order": "edit_input", "action": step["action"], "input": {"is_mended": true},
    });
    let edited = served.post(&orders, &mended);
    assert_eq!(edited.status, 200, "{}", edited.text);
    assert_eq!(edited.json()["by"], "local");
    assert_eq!(served.post(&orders, &json!({"order": "resume"})).status, 200);
    let plan = served.ended(&id);
    assert_eq!(plan["result"], "success");
    let history = plan["history"].to_string();
    assert!(history.contains("resumed by local"), "{history}");
    let late = served.post(&orders, &json!({"order": "resume"}));
    assert_eq!(late.is_problem(409, "plan-state")["plan"], id);
}

#[test]
fn a_step_that_waits_gets_an_event() {
    let served = Served::new();
    let id = served.start("ask", &json!(null));
    let step = served.suspended(&id);
    let plan = served.get(&format!("/api/v1/plans/{id}")).json();
    assert_eq!((&plan["waits"], &plan["waits_for"]), (&json!("event"), &json!("an answer")));
    let events = format!("/api/v1/plans/{id}/steps/{step}/events");
    let event = json!({"id": "e1", "event": {"answer": 42}});
    assert_eq!(served.post(&events, &event).status, 200);
    assert_eq!(served.ended(&id)["output"], json!({"answer": 42}));
    served.post(&events, &json!({"event": 1})).is_problem(409, "plan-state");
    served
        .post(&events.replace(&format!("/{step}/"), "/99/"), &event)
        .is_problem(404, "step-unknown");
}

#[test]
fn the_list_is_read_page_by_page_and_by_what_is_known() {
    let served = Served::new();
    let ids: Vec<String> =
        (0..7).map(|n| served.start("echo", &json!({"text": n.to_string()}))).collect();
    for id in &ids {
        served.ended(id);
    }
    let waiting = served.start("ask", &json!(null));
    served.suspended(&waiting);

    let mut seen = Vec::new();
    let mut path = "/api/v1/plans?limit=3".to_owned();
    loop {
        let page = served.get(&path).json();
        let plans = page["plans"].as_array().unwrap();
        assert!(plans.len() <= 3);
        seen.extend(plans.iter().map(|plan| plan["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/plans?limit=3&cursor={next}");
    }
    let mut all = ids.clone();
    all.push(waiting.clone());
    all.reverse();
    assert_eq!(seen, all);

    let stopped = served.get("/api/v1/plans?state=stopped,paused&result=success").json();
    assert_eq!(stopped["plans"].as_array().unwrap().len(), 7);
    let events = served.get("/api/v1/plans?waits=event").json();
    assert_eq!(events["plans"][0]["id"], waiting);
    let oldest = served.get("/api/v1/plans?order=oldest&limit=1&action=echo").json();
    assert_eq!(oldest["plans"][0]["id"], ids[0]);
    served.get("/api/v1/plans?state=odd").is_problem(400, "query-invalid");
    served.get("/api/v1/plans?limit=0").is_problem(400, "query-invalid");
    served.get("/api/v1/plans?odd=1").is_problem(400, "query-invalid");
    served.get("/api/v1/plans?cursor=00").is_problem(400, "cursor-invalid");
}

#[test]
fn an_order_is_given_to_all_plans_that_fit() {
    let served = Served::new();
    let ids: Vec<String> = (0..5).map(|_| served.start("ask", &json!(null))).collect();
    for id in &ids {
        served.suspended(id);
    }
    let filter = json!({"states": ["running"], "action": "ask"});
    let dry = json!({"filter": filter, "order": "cancel", "dry_run": true});
    let would = served.post("/api/v1/orders", &dry).json();
    assert_eq!((&would["touched"], &would["is_dry_run"]), (&json!(5), &json!(true)));
    assert_eq!(would["plans"][0]["outcome"], "would");
    let done = json!({"filter": filter, "order": "cancel", "limit": 4});
    let done = served.post("/api/v1/orders", &done).json();
    assert_eq!((&done["touched"], &done["has_more"]), (&json!(4), &json!(true)));
    let left = served.get("/api/v1/plans?state=running").json();
    assert_eq!(left["plans"].as_array().unwrap().len(), 1);
    let all = json!({"filter": {}, "order": "terminate"});
    served.post("/api/v1/orders", &all).is_problem(422, "body-invalid");
}

#[test]
fn figures_count_what_the_world_has_done() {
    let served = Served::new();
    let plan = served.start("echo", &json!({"text": "a"}));
    served.ended(&plan);
    let text = served.get("/metrics").text;
    let counted = [
        "turnwheel_plans_begun_total 1\n",
        "turnwheel_plans_ended_total 1\n",
        "turnwheel_plans{state=\"stopped\",result=\"success\",waits=\"nothing\"} 1\n",
        "turnwheel_queue_size{queue=\"default\"} ",
        "turnwheel_http_requests_total{method=\"POST\",path=\"/api/v1/plans\",status=\"201\",code=\"\"} 1\n",
    ];
    for line in counted {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn plan_that_is_over_is_removed_and_one_under_way_is_not() {
    let served = Served::new();
    let plan = served.start("ask", &json!(null));
    served.suspended(&plan);
    let path = format!("/api/v1/plans/{plan}");
    served.send("DELETE", &path, &[], None).is_problem(409, "plan-state");
    served.post(&format!("{path}/orders"), &json!({"order": "cancel"}));
    served.ended(&plan);
    assert_eq!(served.send("DELETE", &path, &[], None).status, 204);
    served.get(&path).is_problem(404, "plan-unknown");
}

#[test]
fn plan_is_paused_and_goes_on_with_what_came_meanwhile() {
    let served = Served::new();
    let plan = served.start("ask", &json!(null));
    let step = served.suspended(&plan);
    let possible = served.get(&format!("/api/v1/plans/{plan}")).json()["possible"].clone();
    assert_eq!(possible, json!(["cancel", "cancel_now", "terminate", "pause"]));
    let order = |order: &str| {
        let orders = format!("/api/v1/plans/{plan}/orders");
        served.post(&orders, &json!({ "order": order }))
    };
    assert_eq!(order("pause").status, 200);
    assert_eq!(served.ended(&plan)["state"], "paused");
    order("pause").is_problem(409, "plan-state");
    let events = format!("/api/v1/plans/{plan}/steps/{step}/events");
    assert_eq!(served.post(&events, &json!({"event": 7})).status, 200);
    assert_eq!(served.ended(&plan)["state"], "paused");
    assert_eq!(order("resume").status, 200);
    assert_eq!(served.ended(&plan)["output"], 7);
}

#[test]
fn what_is_not_there_is_said_by_name() {
    let served = Served::new();
    let id = "0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f";
    served.get(&format!("/api/v1/plans/{id}")).is_problem(404, "plan-unknown");
    served.get("/api/v1/plans/seven").is_problem(400, "id-invalid");
    served.get("/api/v1/nothing").is_problem(404, "path-unknown");
    let nothing = served.send("DELETE", &format!("/api/v1/plans/{id}"), &[], None);
    nothing.is_problem(404, "plan-unknown");
    served.send("DELETE", "/api/v1/plans", &[], None).is_problem(405, "method-wrong");
    let unknown = json!({"action": "none"});
    served.post("/api/v1/plans", &unknown).is_problem(422, "action-unknown");
    let unfit = json!({"action": "echo", "input": {"txt": 1}});
    let problem = served.post("/api/v1/plans", &unfit).is_problem(422, "input-invalid");
    assert!(problem["detail"].as_str().unwrap().contains("text"), "{problem}");
    assert_eq!(served.get("/api/v1/plans").json()["plans"], json!([]));
}
