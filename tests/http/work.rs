//! Work for programs in other languages, and callbacks.
#![cfg(feature = "server")]

use serde_json::{json, Value};
use turnwheel::actors::entity::{ReminderId, ReminderRow};
use turnwheel::engine::store::OF_PLAN;
use turnwheel::engine::{
    Action, ActionError, MemoryStore, Next, Run, Runs, StepContext, Store, World,
};
use turnwheel::flow::{FakeIo, WithFlows};
use turnwheel::http::{Access, Options};
use turnwheel::runtime::completion::block_on;
use turnwheel::sqlite::SqliteStore;
use turnwheel::work::{WithWorkers, Workers};

use crate::http_common::{with, Served};

fn served_over(store: impl Store) -> Served {
    let workers = Workers::new();
    let builder = with(World::builder().workers(&workers)).flows(FakeIo::new());
    let world = builder.build(store).expect("a world");
    workers.attach(&world);
    Served::with(world, Options::new(Access::Loopback).workers(&workers))
}

fn lease(served: &Served, more: &Value) -> Value {
    let mut body = json!({"topics": ["mail"], "wait_ms": 60_000});
    let more = more.as_object().expect("fields").clone();
    body.as_object_mut().expect("it is one").extend(more);
    let answer = served.post("/api/v1/work/lease", &body);
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()["tasks"].clone()
}

#[test]
fn a_worker_leases_a_task_shows_that_it_lives_and_completes_it() {
    let served = served_over(MemoryStore::new());
    let plan = served.start("external", &json!({"topic": "mail", "input": {"to": "ann"}}));
    let tasks = lease(&served, &json!({}));
    let task = &tasks[0];
    assert_eq!((&task["plan"], &task["input"]), (&json!(plan), &json!({"to": "ann"})));
    assert_eq!((&task["attempt"], &task["delivery"]), (&json!(1), &json!(1)));
    assert_eq!(lease(&served, &json!({"wait_ms": 0})), json!([]));
    let of = format!("/api/v1/work/{}", task["id"].as_str().unwrap());
    // Ten minutes instead of half a one: the times are compared as texts.
    let beat = json!({"details": {"sent": 1}, "lease_ms": 600_000});
    let beat = served.post(&format!("{of}/heartbeat"), &beat);
    assert_eq!(beat.status, 200, "{}", beat.text);
    assert!(beat.json()["until"].as_str() > task["until"].as_str());
    let done = served.post(&format!("{of}/complete"), &json!({"output": {"id": 7}}));
    assert_eq!(done.status, 200, "{}", done.text);
    let ended = served.ended(&plan);
    assert_eq!((&ended["result"], &ended["output"]), (&json!("success"), &json!({"id": 7})));
    let again = served.post(&format!("{of}/complete"), &json!({}));
    again.is_problem(409, "lease-lost");
}

#[test]
fn a_worker_that_waits_gets_the_task_when_it_comes() {
    let served = served_over(MemoryStore::new());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| lease(&served, &json!({})));
        let plan = served.start("external", &json!({"topic": "mail", "input": 1}));
        assert_eq!(waiting.join().unwrap()[0]["plan"], plan);
    });
}

#[test]
fn a_lease_that_ends_hands_the_task_to_the_next_worker() {
    let served = served_over(MemoryStore::new());
    served.start("external", &json!({"topic": "mail"}));
    let lost = lease(&served, &json!({"lease_ms": 50}));
    // The wait ends when the lease has.
    let next = lease(&served, &json!({}));
    assert_eq!((&next[0]["plan"], &next[0]["delivery"]), (&lost[0]["plan"], &json!(2)));
    assert_eq!(next[0]["idempotency_key"], lost[0]["idempotency_key"]);
    let old = format!("/api/v1/work/{}", lost[0]["id"].as_str().unwrap());
    served.post(&format!("{old}/complete"), &json!({})).is_problem(409, "lease-lost");
    served.post(&format!("{old}/heartbeat"), &json!({})).is_problem(409, "lease-lost");
    let new = format!("/api/v1/work/{}", next[0]["id"].as_str().unwrap());
    assert_eq!(served.post(&format!("{new}/complete"), &json!({})).status, 200);
}

#[test]
fn a_task_that_fails_is_handed_out_again_until_that_is_final() {
    let served = served_over(MemoryStore::new());
    let plan = served.start("external", &json!({"topic": "mail"}));
    let first = lease(&served, &json!({}));
    let of = format!("/api/v1/work/{}/fail", first[0]["id"].as_str().unwrap());
    assert_eq!(served.post(&of, &json!({"message": "no network"})).status, 200);
    let second = lease(&served, &json!({}));
    assert_eq!(second[0]["attempt"], 2);
    let of = format!("/api/v1/work/{}/fail", second[0]["id"].as_str().unwrap());
    let failed = json!({"kind": "bounced", "message": "no such box", "is_final": true});
    assert_eq!(served.post(&of, &failed).status, 200);
    assert_eq!(served.ended(&plan)["state"], "paused");
    let steps = served.get(&format!("/api/v1/plans/{plan}/steps?state=error")).json();
    assert_eq!(steps["steps"][0]["error"]["kind"], "bounced");
}

#[test]
fn a_worker_of_a_cancelled_plan_is_told_so() {
    let served = served_over(MemoryStore::new());
    let plan = served.start("external", &json!({"topic": "mail"}));
    let tasks = lease(&served, &json!({}));
    served.post(&format!("/api/v1/plans/{plan}/orders"), &json!({"order": "cancel"}));
    served.ended(&plan);
    let of = format!("/api/v1/work/{}", tasks[0]["id"].as_str().unwrap());
    served.post(&format!("{of}/heartbeat"), &json!({})).is_problem(409, "lease-lost");
    // A plan that is cancelled before somebody leases its task is not handed out.
    let other = served.start("external", &json!({"topic": "mail"}));
    served.suspended(&other);
    served.post(&format!("/api/v1/plans/{other}/orders"), &json!({"order": "cancel"}));
    assert_eq!(lease(&served, &json!({"wait_ms": 0})), json!([]));
}

#[test]
fn leases_outlive_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wheel.db");
    let served = served_over(SqliteStore::new(&file));
    let plans: Vec<String> =
        (0..2).map(|_| served.start("external", &json!({"topic": "mail"}))).collect();
    plans.iter().for_each(|plan| assert!(served.suspended(plan) > 0));
    let held = lease(&served, &json!({}));
    drop(served);
    let served = served_over(SqliteStore::new(&file));
    let other = lease(&served, &json!({}));
    assert_ne!(held[0]["plan"], other[0]["plan"]);
    for task in [&held[0], &other[0]] {
        let of = format!("/api/v1/work/{}/complete", task["id"].as_str().unwrap());
        let done = served.post(&of, &json!({"output": 1}));
        assert_eq!(done.status, 200, "{}", done.text);
    }
    for plan in plans {
        assert_eq!(served.ended(&plan)["result"], "success");
    }
}

#[test]
fn a_callback_sends_one_event_without_a_token() {
    let served = Served::new();
    let plan = served.start("ask", &json!(null));
    let step = served.suspended(&plan);
    let made = served.post(&format!("/api/v1/plans/{plan}/steps/{step}/callback"), &json!({}));
    assert_eq!(made.status, 201, "{}", made.text);
    let path = format!("/{}", made.json()["path"].as_str().unwrap());
    assert_eq!(served.post(&path, &json!({"paid": true})).status, 200);
    assert_eq!(served.ended(&plan)["output"], json!({"paid": true}));
    served.post(&path, &json!(null)).is_problem(404, "callback-unknown");
    served.post("/api/v1/callbacks/0000", &json!(null)).is_problem(404, "callback-unknown");
}

#[test]
fn offers_of_other_topics_are_in_nobodys_way() {
    let folder = tempfile::tempdir().unwrap();
    for is_file in [false, true] {
        let served = if is_file {
            served_over(SqliteStore::new(folder.path().join("wheel.db")))
        } else {
            served_over(MemoryStore::new())
        };
        let reminders = served.world.reminders();
        let put = async {
            // They have waited longer than any that comes now.
            for number in 0..12_000_u64 {
                let name = format!("01a1ff4f-e40a-72c7-8794-bb892af12402/{number}/1");
                let mut row = ReminderRow::new(ReminderId::new("turnwheel.work", "other", &name));
                (row.first_due_ms, row.planned_ms, row.due_ms) = (1, 1, 1 + number);
                reminders.upsert(&row, 1).await.expect("it is written");
                if is_file && number == 500 {
                    break;
                }
            }
        };
        block_on(put).expect("nobody waits here");
        let plans: Vec<String> =
            (0..5).map(|_| served.start("external", &json!({"topic": "mail"}))).collect();
        let mut leased = Vec::new();
        while leased.len() < plans.len() {
            let tasks = lease(&served, &json!({"limit": 3}));
            leased.extend(tasks.as_array().unwrap().iter().map(|task| task["plan"].clone()));
        }
        assert_eq!(json!(leased), json!(plans), "those that have waited longest come first");
        let many: Vec<String> = (0..101).map(|topic| topic.to_string()).collect();
        let refused = served.post("/api/v1/work/lease", &json!({ "topics": many }));
        refused.is_problem(422, "body-invalid");
    }
}

#[test]
fn a_callback_that_nobody_uses_goes_with_its_plan() {
    let folder = tempfile::tempdir().unwrap();
    let kept = |served: &Served| {
        let plan = served.start("ask", &json!(null));
        let step = served.suspended(&plan);
        let path = format!("/api/v1/plans/{plan}/steps/{step}/callback");
        let token = served.post(&path, &json!({})).json()["token"].as_str().unwrap().to_owned();
        let key = format!("{plan}/{token}");
        let order = json!({"order": "cancel"});
        served.post(&format!("/api/v1/plans/{plan}/orders"), &order);
        served.ended(&plan);
        (plan, token, key)
    };
    for is_file in [false, true] {
        let served = if is_file {
            served_over(SqliteStore::new(folder.path().join("wheel.db")))
        } else {
            served_over(MemoryStore::new())
        };
        let states = served.world.states();
        let version = |key: &str| block_on(states.load(OF_PLAN, key)).unwrap().unwrap().version;
        let ((gone, token, key), (_, _, other)) = (kept(&served), kept(&served));
        assert_eq!((version(&key), version(&other)), (1, 1));
        let order = json!({"order": "delete", "plans": [gone]});
        assert_eq!(served.post("/api/v1/orders", &order).json()["touched"], 1);
        assert_eq!((version(&key), version(&other)), (0, 1), "only that of the plan that is gone");
        let told = served.post(&format!("/api/v1/callbacks/{token}"), &json!(null));
        told.is_problem(404, "callback-unknown");
    }
}

#[test]
fn heartbeat_without_a_length_keeps_the_length_of_the_lease() {
    let served = served_over(MemoryStore::new());
    served.start("external", &json!({"topic": "mail"}));
    served.start("external", &json!({"topic": "mail"}));
    // The times are compared as texts: an hour ends after half an hour, 30 s end before it,
    // though the clock of the machine is set back a little in between.
    let half = lease(&served, &json!({"lease_ms": 1_800_000}));
    let half = half[0]["until"].as_str();
    let tasks = lease(&served, &json!({"lease_ms": 3_600_000}));
    let of = format!("/api/v1/work/{}", tasks[0]["id"].as_str().unwrap());
    let beat = served.post(&format!("{of}/heartbeat"), &json!({}));
    assert!(beat.json()["until"].as_str() > half, "{}", beat.text);
    let beat = served.post(&format!("{of}/heartbeat"), &json!({"lease_ms": 1_000}));
    assert!(beat.json()["until"].as_str() < half, "{}", beat.text);
}

#[test]
fn released_task_is_handed_out_at_once_and_its_delivery_does_not_count() {
    let served = served_over(MemoryStore::new());
    served.start("external", &json!({"topic": "mail"}));
    let tasks = lease(&served, &json!({"lease_ms": 3_600_000}));
    let of = format!("/api/v1/work/{}", tasks[0]["id"].as_str().unwrap());
    assert_eq!(served.post(&format!("{of}/release"), &json!({})).status, 200);
    served.post(&format!("{of}/complete"), &json!({})).is_problem(409, "lease-lost");
    let next = lease(&served, &json!({}));
    assert_eq!((&next[0]["plan"], &next[0]["delivery"]), (&tasks[0]["plan"], &json!(1)));
}

#[test]
fn task_has_as_many_attempts_as_it_says() {
    let served = served_over(MemoryStore::new());
    let plan = served.start("external", &json!({"topic": "mail", "attempts": 1}));
    let tasks = lease(&served, &json!({}));
    let of = format!("/api/v1/work/{}/fail", tasks[0]["id"].as_str().unwrap());
    assert_eq!(served.post(&of, &json!({"message": "no network"})).status, 200);
    assert_eq!(served.ended(&plan)["state"], "paused");
    let none = served.start("external", &json!({"topic": "mail", "attempts": 0}));
    assert_eq!(served.ended(&none)["state"], "paused");
}

#[test]
fn task_that_cannot_be_handed_out_does_not_keep_others_from_the_worker() {
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let workers = Workers::new();
    let builder = with(World::builder().action(workers.action())).action(Blocked(blocked.into()));
    let world = builder.build(MemoryStore::new()).expect("a world");
    workers.attach(&world);
    let served = Served::with(world, Options::new(Access::Loopback).workers(&workers));
    // The offer of a step that does not come to rest.
    let stuck = served.start("blocked", &json!(null));
    let mut row =
        ReminderRow::new(ReminderId::new("turnwheel.work", "mail", &format!("{stuck}/2/1")));
    (row.first_due_ms, row.planned_ms, row.due_ms) = (1, 1, 1);
    block_on(served.world.reminders().upsert(&row, 1)).expect("no worker").expect("it is written");
    let plan = served.start("external", &json!({"topic": "mail"}));
    served.suspended(&plan);
    let tasks = lease(&served, &json!({"limit": 2}));
    assert_eq!(tasks.as_array().map(Vec::len), Some(1), "{tasks}");
    assert_eq!(tasks[0]["plan"], plan);
    drop(release);
    served.ended(&stuck);
}

#[test]
fn task_says_its_deadline_and_the_trace_of_its_plan() {
    let served = served_over(MemoryStore::new());
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let input = json!({"topic": "mail", "within_ms": 3_600_000});
    let start = json!({"action": "external", "input": input});
    let headers = [("traceparent", &*parent), ("tracestate", "congo=t61rcWkgMzE")];
    let begun = served.send("POST", "/api/v1/plans", &headers, Some(&start));
    assert_eq!(begun.status, 201, "{}", begun.text);
    let tasks = lease(&served, &json!({"lease_ms": 60_000}));
    assert!(tasks[0]["deadline"].as_str() > tasks[0]["until"].as_str(), "{tasks}");
    assert!(tasks[0]["traceparent"].as_str().unwrap().contains(trace), "{tasks}");
    assert_eq!(tasks[0]["tracestate"], "congo=t61rcWkgMzE");
    served.start("external", &json!({"topic": "mail"}));
    assert_eq!(lease(&served, &json!({}))[0]["deadline"], json!(null));
}

#[test]
fn attempt_ends_at_its_deadline_and_the_next_one_has_its_own() {
    let served = served_over(MemoryStore::new());
    let task = json!({"topic": "mail", "within_ms": 20, "attempts": 2});
    let plan = served.start("external", &task);
    assert_eq!(served.ended(&plan)["state"], "paused");
    let steps = served.get(&format!("/api/v1/plans/{plan}/steps?state=error")).json();
    assert_eq!(steps["steps"][0]["error"]["kind"], "deadline");
    assert_eq!(steps["steps"][0]["attempt"], 2);
    assert_eq!(lease(&served, &json!({"wait_ms": 0})), json!([]));
}

#[test]
fn worker_is_named_in_the_history_of_the_plan() {
    let served = served_over(MemoryStore::new());
    let plan = served.start("external", &json!({"topic": "mail"}));
    let tasks = lease(&served, &json!({"worker": "mail.1 / töst"}));
    let of = format!("/api/v1/work/{}", tasks[0]["id"].as_str().unwrap());
    assert_eq!(served.post(&format!("{of}/complete"), &json!({})).status, 200);
    assert_eq!(served.ended(&plan)["result"], "success");
    let history = served.get(&format!("/api/v1/plans/{plan}/history")).text;
    assert!(history.contains("(worker mail.1 / töst)"), "{history}");
    let long = json!({"topics": ["mail"], "worker": "x".repeat(201)});
    served.post("/api/v1/work/lease", &long).is_problem(422, "body-invalid");
}

#[test]
fn topic_tells_how_many_tasks_wait_and_how_many_workers_have() {
    let served = served_over(MemoryStore::new());
    let backlog = || served.get("/api/v1/work/topics/mail%2Fout").json();
    assert_eq!((&backlog()["ready"], &backlog()["oldest"]), (&json!(0), &json!(null)));
    for _ in 0..3 {
        let plan = served.start("external", &json!({"topic": "mail/out"}));
        served.suspended(&plan);
    }
    lease(&served, &json!({"topics": ["mail/out"]}));
    let told = backlog();
    assert_eq!((&told["ready"], &told["leased"]), (&json!(2), &json!(1)));
    assert_eq!((&told["topic"], &told["is_more"]), (&json!("mail/out"), &json!(false)));
    assert!(told["oldest"].is_string(), "{told}");
}

const CALLS: &str = r#"
document: { dsl: '1.0.3', namespace: shop, name: calls, version: '1.0.0' }
do:
  - scale:
      call: worker
      input:
        schema: { document: { type: object, required: [width] } }
      with: { topic: 'images-${ .format }', input: '${ { width } }', attempts: 2 }
      output:
        schema: { document: { type: object, required: [url] } }
"#;

fn call(served: &Served, input: &Value) -> String {
    let yaml = [("content-type", "application/yaml")];
    let added = served.send_bytes("POST", "/api/v1/flows", &yaml, Some(CALLS.as_bytes()));
    // 200 if it was added before.
    assert!(matches!(added.status, 200 | 201), "{}", added.text);
    let start = "/api/v1/flows/shop/calls/latest/start";
    let started = served.post(start, &json!({ "input": input }));
    assert_eq!(started.status, 201, "{}", started.text);
    started.json()["id"].as_str().expect("an id").to_owned()
}

#[test]
fn flow_gives_a_task_to_a_worker_and_gets_its_output() {
    let served = served_over(MemoryStore::new());
    let plan = call(&served, &json!({"width": 20, "format": "png"}));
    let tasks = lease(&served, &json!({"topics": ["images-png"]}));
    assert_eq!(tasks[0]["input"], json!({"width": 20}));
    let of = format!("/api/v1/work/{}", tasks[0]["id"].as_str().unwrap());
    let done = served.post(&format!("{of}/complete"), &json!({"output": {"url": "u"}}));
    assert_eq!(done.status, 200, "{}", done.text);
    let ended = served.ended(&plan);
    assert_eq!(ended["result"], "success");
    assert_eq!(ended["output"], json!({"url": "u"}));
}

#[test]
fn schemas_of_a_task_hold_for_what_a_worker_gets_and_gives() {
    let served = served_over(MemoryStore::new());
    let wrong = call(&served, &json!({"format": "png"}));
    let ended = served.ended(&wrong);
    assert!(ended.to_string().contains("«width» is missing (400)"), "{ended}");
    let plan = call(&served, &json!({"width": 20, "format": "png"}));
    let tasks = lease(&served, &json!({"topics": ["images-png"]}));
    let of = format!("/api/v1/work/{}", tasks[0]["id"].as_str().unwrap());
    served.post(&format!("{of}/complete"), &json!({"output": {"path": "p"}}));
    let ended = served.ended(&plan);
    assert!(ended.to_string().contains("(400)"), "{ended}");
}

#[test]
fn final_failure_of_a_worker_is_a_fault_of_the_flow() {
    let served = served_over(MemoryStore::new());
    let plan = call(&served, &json!({"width": 20, "format": "png"}));
    let tasks = lease(&served, &json!({"topics": ["images-png"]}));
    let of = format!("/api/v1/work/{}/fail", tasks[0]["id"].as_str().unwrap());
    let failed = json!({"kind": "no-image", "message": "empty", "is_final": true});
    assert_eq!(served.post(&of, &failed).status, 200);
    let ended = served.ended(&plan);
    assert_eq!((&ended["state"], &ended["result"]), (&json!("stopped"), &json!("error")));
    assert!(ended.to_string().contains("no-image"), "{ended}");
}

/// Code that runs until the other end is dropped.
struct Blocked(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

impl Action for Blocked {
    const NAME: &'static str = "blocked";
    type Input = Value;
    type Output = ();
    type Phases = Runs;
}

impl Run for Blocked {
    fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let _dropped = self.0.lock().expect("nothing panics under it").recv();
        Ok(Next::Done)
    }
}

#[test]
fn the_next_worker_knows_the_last_heartbeat_however_soon_the_lease_ends() {
    let served = served_over(MemoryStore::new());
    let plan = served.start("external", &json!({"topic": "mail"}));
    let lost = lease(&served, &json!({"lease_ms": 300}));
    let of = format!("/api/v1/work/{}/heartbeat", lost[0]["id"].as_str().unwrap());
    assert_eq!(served.post(&of, &json!({"details": {"sent": 7}})).status, 200);
    let step = served.get(&format!("/api/v1/plans/{plan}/steps/{}", lost[0]["step"]));
    assert!(step.text.contains(r#""sent":7"#), "{}", step.text);
    let next = lease(&served, &json!({}));
    assert_eq!(
        (&next[0]["delivery"], &next[0]["last_heartbeat"]),
        (&json!(2), &json!({"sent": 7}))
    );
}

#[test]
fn a_repeated_answer_of_a_worker_counts_once_and_another_one_is_refused() {
    let served = served_over(MemoryStore::new());
    let flow = served.start("external", &json!({"topic": "mail"}));
    let tasks = lease(&served, &json!({}));
    let of = format!("/api/v1/work/{}", tasks[0]["id"].as_str().unwrap());
    let failed = json!({"kind": "network", "message": "no network"});
    let first = served.post(&format!("{of}/fail"), &failed);
    let again = served.post(&format!("{of}/fail"), &failed);
    assert_eq!((again.status, &again.text), (200, &first.text));
    served.post(&format!("{of}/complete"), &json!({"output": 1})).is_problem(409, "lease-lost");
    let tasks = lease(&served, &json!({}));
    assert_eq!(tasks[0]["attempt"], 2);
    let of = format!("/api/v1/work/{}", tasks[0]["id"].as_str().unwrap());
    let first = served.post(&format!("{of}/complete"), &json!({"output": {"id": 1}}));
    let again = served.post(&format!("{of}/complete"), &json!({"output": {"id": 1}}));
    assert_eq!((again.status, &again.text), (200, &first.text));
    served.post(&format!("{of}/complete"), &json!({"output": 2})).is_problem(409, "lease-lost");
    served.post(&format!("{of}/fail"), &failed).is_problem(409, "lease-lost");
    assert_eq!(served.ended(&flow)["output"], json!({"id": 1}));
}
