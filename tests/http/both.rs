//! One program over a world of its own process and over a server; and that the client has all operations.
#![cfg(all(feature = "server", feature = "client"))]

use std::collections::BTreeSet;
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use turnwheel::api;
use turnwheel::client::{Carrier, Client, ClientError, Plans, Request};
use turnwheel::engine::MemoryStore;
use turnwheel::http::{Access, Options};

use crate::http_common::{world, Served};

/// What a host application would write once.
fn a_day(plans: &dyn Plans) -> Result<(), ClientError> {
    let echo = api::Start {
        action: "echo".to_owned(),
        input: json!({"text": "a"}),
        ..api::Start::default()
    };
    let mut told = plans.events(&[("plans_only", "true")])?;
    let first = plans.begin(&echo, Some("once"))?;
    let mut states = Vec::new();
    while states.last().is_none_or(|state| state != "stopped") {
        let happening = told.next().expect("it has no end")?;
        assert_eq!(happening.plan, first.id);
        states.extend(happening.to);
    }
    assert_eq!(states.first().map(String::as_str), Some("pending"));
    assert!(plans.begin(&echo, Some("once"))?.is_repeated);
    assert_eq!(plans.wait(&first.id)?.output, json!({"said": "a"}));
    let other = api::Start { input: json!({"text": "b"}), ..echo };
    assert_eq!(
        plans.begin(&other, Some("once")).expect_err("it is refused").code(),
        Some("key-reused")
    );

    let ask = api::Start { action: "ask".to_owned(), ..api::Start::default() };
    let asked = plans.begin(&ask, None)?;
    let step = loop {
        let page = plans.steps(&asked.id, None)?;
        if let Some(step) = page.steps.iter().find(|step| step.state == "suspended") {
            break step.id;
        }
    };
    plans.event(&asked.id, step, &api::EventFor { id: None, event: json!(42) })?;
    assert_eq!(plans.wait(&asked.id)?.output, 42);

    let waits = plans.begin(&ask, None)?;
    let done = plans.order(&waits.id, &api::Order::Cancel { force: false })?;
    assert_eq!((done.order.as_str(), done.by.as_str()), ("cancel", "ann"));
    assert_eq!(plans.wait(&waits.id)?.summary.result, "cancelled");
    assert_eq!(plans.look(&waits.id)?.cancel.map(|cancel| cancel.by), Some("ann".to_owned()));
    let again = plans.order(&waits.id, &api::Order::Halt {}).expect_err("it is refused");
    assert_eq!(again.code(), Some("plan-state"));
    assert_eq!(plans.look("last").expect_err("it is refused").code(), Some("id-invalid"));
    assert_eq!(plans.list(&[("state", "stopped"), ("limit", "2")])?.plans.len(), 2);
    assert_eq!(
        plans.list(&[("state", "broken")]).expect_err("it is refused").code(),
        Some("query-invalid")
    );

    let spec = api::ScheduleSpec {
        timing: api::TimingSpec::Manual {},
        action: "echo".to_owned(),
        input: json!({"text": "now"}),
        overlap: Default::default(),
        catch_up: Default::default(),
        jitter_ms: 0,
    };
    assert_eq!(plans.put_schedule("by hand", &spec)?.name, "by hand");
    let filter = api::Filter { states: vec!["stopped".to_owned()], ..api::Filter::default() };
    let order = api::BulkOrder {
        filter,
        plans: Vec::new(),
        order: api::ManyOrder::Delete,
        dry_run: false,
        limit: None,
        oldest_first: true,
        after: None,
    };
    assert_eq!(plans.order_many(&order)?.touched, 3);
    assert_eq!(plans.stats()?.locks, 0);
    Ok(())
}

#[test]
fn the_same_program_works_over_a_world_of_its_own_and_over_a_server() {
    let own = world(MemoryStore::new());
    let here = Client::here(&own, Options::new(Access::Host)).expect("a thread").by("ann");
    a_day(&here).expect("its own world answers");
    drop(here);
    own.shutdown().expect("it ends");
    let served = Served::new();
    a_day(&Client::new(&served.url).by("ann")).expect("the server answers");
}

#[test]
fn many_threads_ask_a_world_of_their_own_at_once() {
    let own = world(MemoryStore::new());
    let here = Client::here(&own, Options::new(Access::Host)).expect("a thread");
    let ids: BTreeSet<String> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| here.start_once("k", "echo", &json!({"text": "a"}))))
            .collect();
        let started = asked.into_iter().map(|asked| asked.join().expect("no panic"));
        started.map(|started| started.expect("it is taken").id).collect()
    });
    assert_eq!(ids.len(), 1, "{ids:?}");
    own.shutdown().expect("it ends");
}

/// Notes what is asked, and answers nothing of use.
#[derive(Debug, Default)]
struct Notes(Mutex<BTreeSet<(String, String)>>);

impl Carrier for Notes {
    fn carry(&self, request: Request, _: Duration) -> Result<(u16, String), ClientError> {
        let asked = (request.method().as_str().to_lowercase(), request.uri().path().to_owned());
        self.0.lock().expect("no panic").insert(asked);
        Ok((418, "a teapot".to_owned()))
    }

    fn open(
        &self,
        request: Request,
        within: Duration,
    ) -> Result<(u16, Box<dyn Read + Send>), ClientError> {
        let (status, text) = self.carry(request, within)?;
        Ok((status, Box::new(std::io::Cursor::new(text))))
    }
}

/// Answers streams as they are written down, and notes what is asked.
#[derive(Debug)]
struct Streams {
    left: Mutex<Vec<(u16, String)>>,
    asked: Mutex<Vec<String>>,
}

impl Streams {
    fn of(streams: Vec<(u16, String)>) -> Arc<Self> {
        Arc::new(Self { left: Mutex::new(streams), asked: Mutex::default() })
    }
}

impl Carrier for Streams {
    fn carry(&self, _: Request, _: Duration) -> Result<(u16, String), ClientError> {
        Ok((418, "a teapot".to_owned()))
    }

    fn open(
        &self,
        request: Request,
        _: Duration,
    ) -> Result<(u16, Box<dyn Read + Send>), ClientError> {
        let query = request.uri().query().unwrap_or_default().to_owned();
        self.asked.lock().expect("no panic").push(query);
        let (status, text) = self.left.lock().expect("no panic").remove(0);
        Ok((status, Box::new(std::io::Cursor::new(text))))
    }
}

#[test]
fn a_stream_that_breaks_is_opened_again_after_the_last_place() {
    let event = |place: &str| {
        let told = json!({"cursor": place, "plan": "p", "label": "l", "at": "now", "what": "plan"});
        format!("id: {place}\nevent: plan\ndata: {told}\n\n")
    };
    let begin = |place: &str| format!("retry: 0\n: listening\nid: {place}\n\n");
    let problem = |status: u16| {
        let about = "about:blank";
        let problem =
            json!({"type": about, "title": "t", "status": status, "detail": "d", "code": "c"});
        (status, problem.to_string())
    };
    let cut = "event: cut_off\ndata: {\"missed\": 3, \"after\": \"9.0\"}\n\n";
    let broken = event("8.0");
    let streams = vec![
        // It breaks within an event, which was not told.
        (200, format!("{}{}{}", begin("5"), event("6.0"), &broken[..broken.len() - 3])),
        problem(503),
        (200, format!("{}{}{cut}", event("8.0"), event("9.0"))),
        // Nothing happens for a while, and then the stream ends.
        (200, ": alive\nid: 11\n\n".to_owned()),
        (200, event("12.0")),
        problem(401),
    ];
    let streams = Streams::of(streams);
    let client = Client::over(Arc::clone(&streams) as Arc<dyn Carrier>, "http://localhost");
    let mut events = client.events(&[("label", "l")]).expect("it is opened");
    assert_eq!(events.cursor(), "5");
    let told: Vec<String> =
        events.by_ref().take(4).map(|one| one.expect("it is told").cursor).collect();
    assert_eq!(told, ["6.0", "8.0", "9.0", "12.0"]);
    let refused = events.next().expect("it is said").expect_err("it is refused");
    assert!(matches!(refused, ClientError::Refused(_)), "{refused}");
    assert!(events.next().is_none(), "a refusal ends it");
    let asked = streams.asked.lock().expect("no panic").clone();
    assert_eq!(
        asked,
        [
            "label=l",
            "label=l&after=6.0",
            "label=l&after=6.0",
            "label=l&after=9.0",
            "label=l&after=11",
            "label=l&after=12.0"
        ]
    );
    // One that is never there again is told once, and tried again when asked.
    let streams = vec![(200, begin("5")), problem(503), problem(503)];
    let streams = Streams::of(streams);
    let client = Client::over(streams, "http://localhost");
    let mut events = client.events(&[]).expect("it is opened").patience(Duration::ZERO);
    for _ in 0..2 {
        events.next().expect("it is said").expect_err("there is none");
    }
}

/// Whether a path is one of this pattern.
fn is_of(path: &str, pattern: &str) -> bool {
    let (path, pattern): (Vec<&str>, Vec<&str>) =
        (path.split('/').collect(), pattern.split('/').collect());
    let fits = |(one, other): (&&str, &&str)| other.starts_with('{') || one == other;
    path.len() == pattern.len() && path.iter().zip(&pattern).all(fits)
}

#[test]
#[expect(clippy::too_many_lines, reason = "one line for each operation")]
fn the_client_has_every_operation_of_the_api() {
    let notes = Arc::new(Notes::default());
    let client = Client::over(Arc::clone(&notes) as Arc<dyn Carrier>, "http://localhost");
    let task = api::Task {
        id: "t".to_owned(),
        topic: "t".to_owned(),
        plan: "p".to_owned(),
        step: 2,
        attempt: 1,
        delivery: 1,
        idempotency_key: "k".to_owned(),
        until: String::new(),
        deadline: None,
        traceparent: None,
        tracestate: None,
        last_heartbeat: None,
        input: json!(null),
    };
    let spec: api::ScheduleSpec =
        serde_json::from_value(json!({"timing": {"manual": {}}, "action": "a"})).expect("a spec");
    let fail: api::TaskFail =
        serde_json::from_value(json!({"kind": "k", "message": "m"})).expect("a failure");
    let beat = api::HeartbeatFor { attempt: 1, details: json!(null) };
    let event = api::EventFor { id: None, event: json!(1) };
    let order: api::BulkOrder =
        serde_json::from_value(json!({"filter": {"states": ["paused"]}, "order": "resume"}))
            .expect("an order");
    let range = api::Backfill { from: String::new(), until: String::new() };
    let run: api::FlowRun = serde_json::from_value(json!({})).expect("a run");
    let flow = ("n", "f", "latest");
    // A teapot is no answer of a server: each of them fails, and was asked.
    let asked = [
        client.health().is_err(),
        client.stats().is_err(),
        client.actions().is_err(),
        client.world().is_err(),
        client.queues().is_err(),
        client.ended(1, 6).is_err(),
        client.locks().is_err(),
        client.runtime().is_err(),
        client.entity_types().is_err(),
        client.entity("plan", "k").is_err(),
        client.dead_letters().is_err(),
        client.redeliver(1, &api::Redeliver::default()).is_err(),
        client.plans(&[]).is_err(),
        client.start(&api::Start::default()).is_err(),
        client.plan("p").is_err(),
        client.order("p", &api::Order::Resume {}).is_err(),
        client.retry("p", &api::Rerun::default()).is_err(),
        client.again("p", &api::Rerun::default(), Some("k")).is_err(),
        client.order_many(&order).is_err(),
        client.steps("p", None).is_err(),
        client.step("p", 2).is_err(),
        client.graph("p", &[("beside", "20")]).is_err(),
        client.tree("p", &[("depth", "1")]).is_err(),
        client.timeline("p", &[]).is_err(),
        client.history("p", &[("order", "newest")]).is_err(),
        client.calls("p", &[("step", "2")]).is_err(),
        client.event("p", 2, &event).is_err(),
        client.heartbeat("p", 2, &beat).is_err(),
        client.callback("p", 2).is_err(),
        client.flows().is_err(),
        client.flow("n", "f", "1").is_err(),
        client.add_flow("x").is_err(),
        client.check_flow("x").is_err(),
        client.remove_flow("n", "a", "1").is_err(),
        client.start_flow(flow, &run, Some("k")).is_err(),
        client.publish(&json!({})).is_err(),
        client.recent_events(7).is_err(),
        client.schedules(None).is_err(),
        client.schedule("s").is_err(),
        client.put_schedule("s", &spec).is_err(),
        client.remove_schedule("s").is_err(),
        client.pause_schedule("s", "w").is_err(),
        client.unpause_schedule("s").is_err(),
        client.trigger_schedule("s").is_err(),
        client.backfill_schedule("s", &range).is_err(),
        client.schedule_times("s").is_err(),
        client.lease(&api::Lease::default()).is_err(),
        client.topic("mail").is_err(),
        client.beat(&task, &json!(1)).is_err(),
        client.release(&task).is_err(),
        client.remove_plan("p").is_err(),
        client.complete(&task, &json!(1)).is_err(),
        client.fail(&task, &fail).is_err(),
        client.events(&[]).is_err(),
        client.nodes().is_err(),
        client.node("n").is_err(),
        client.drain("n").is_err(),
        client.slots().is_err(),
        client.jobs(10, None).is_err(),
        client.job("j").is_err(),
        client.put_job("j", &json!({}), Some(1)).is_err(),
        client.check_jobs(&[json!({"spec": {"name": "j"}})]).is_err(),
        client.remove_job("j").is_err(),
        client.run_job("j", false).is_err(),
        client.toggle_job("j", Some(true)).is_err(),
        client.cancel_job("j", 1).is_err(),
        client.answer_job("j", 1, "failed").is_err(),
        client.job_history("j", Some(9), 10).is_err(),
        client.forget_job_history("j").is_err(),
        client.job_times("j", 5).is_err(),
        client.job_output("j", 1).is_err(),
        client.job_executors().is_err(),
        client.journeys().is_err(),
        client.journey("j").is_err(),
        client.add_journey("journey: j").is_err(),
        client.remove_journey("j").is_err(),
        client.journey_elements("j").is_err(),
        client.journey_counts("j").is_err(),
        client.dry_run_journey(&json!({})).is_err(),
        client.user("p", "u").is_err(),
        client.put_user("p", "u", &json!({}), Some(1)).is_err(),
        client.forget_user("p", "u").is_err(),
        client.opt_out_user("p", "u", true).is_err(),
        client.resend_messages("p", "u", None).is_err(),
        client.publish_of_users("p", &[]).is_err(),
    ];
    assert!(asked.iter().all(|failed| *failed), "{asked:?}");
    let asked = notes.0.lock().expect("no panic").clone();
    let api = serde_json::to_value(turnwheel::http::openapi()).expect("JSON");
    // For others than programs with a client: load balancers, collectors, browsers, whoever has a callback.
    let others = [
        "followJobOutput",
        "allowEvents",
        "getAlive",
        "getMetrics",
        "useCallback",
        "getSession",
        "signIn",
        "signOut",
    ];
    for (pattern, operations) in api["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let id = operation["operationId"].as_str().unwrap_or_default();
            let is_asked = asked.iter().any(|(m, path)| m == method && is_of(path, pattern));
            assert!(is_asked || others.contains(&id), "{id}: {method} {pattern}");
        }
    }
}
