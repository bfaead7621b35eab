//! Workers of all SDKs pass the same cases: `sdk/README.md` lists them.

mod rust;
mod stub;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use crate::serve_common::{Place, Serve};

/// How long a worker may take to say something: long, because many tests share the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A worker under test.
struct Subject {
    kind: Kind,
    /// Outcomes of its handlers.
    said: Receiver<Value>,
}

enum Kind {
    Process(Child),
    Thread(rust::Handle),
}

/// A language, and how its worker starts.
type Start = fn(&str, u32, f64) -> Option<Subject>;

const SDKS: [(&str, Start); 3] = [("Rust", rust), ("Python", python), ("TypeScript", typescript)];

fn rust(url: &str, lease_secs: u32, grace_secs: f64) -> Option<Subject> {
    let (said, sayings) = channel();
    let handle = rust::start(url, Duration::from_secs(lease_secs.into()), grace_secs, said);
    Some(Subject { kind: Kind::Thread(handle), said: sayings })
}

fn python(url: &str, lease_secs: u32, grace_secs: f64) -> Option<Subject> {
    program("python3", "python/conformance.py", url, lease_secs, grace_secs)
}

fn typescript(url: &str, lease_secs: u32, grace_secs: f64) -> Option<Subject> {
    program("node", "typescript/conformance.js", url, lease_secs, grace_secs)
}

fn sdk() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk")
}

fn program(name: &str, file: &str, url: &str, lease: u32, grace: f64) -> Option<Subject> {
    let mut command = Command::new(name);
    command.arg(sdk().join(file)).arg(url).arg(lease.to_string()).arg(grace.to_string());
    command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null()).stdout(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        eprintln!("LEFT OUT: the SDK in {file} is not tested, because there is no {name}");
        return None;
    };
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let (say, said) = channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let told = serde_json::from_str(&line).unwrap_or_else(|_| panic!("«{line}»"));
            if say.send(told).is_err() {
                return;
            }
        }
    });
    Some(Subject { kind: Kind::Process(child), said })
}

impl Subject {
    /// Waits until a handler says this about a plan.
    fn says(&self, event: &str, plan: &str) {
        let said = self.said.recv_timeout(PATIENCE).expect("a handler says something");
        assert_eq!(said, json!({"event": event, "plan": plan}));
    }

    /// Stops it in order.
    fn stopped(&mut self) {
        match &mut self.kind {
            Kind::Process(child) => {
                let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
                assert!(killed.expect("there is kill").success());
                assert_eq!(child.wait().expect("it is a child").code(), Some(0));
            }
            Kind::Thread(handle) => handle.stop(),
        }
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        if let Kind::Process(child) = &mut self.kind {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs cases with a worker of each SDK, and a server of its own.
fn each(lease_secs: u32, grace_secs: f64, cases: impl Fn(&Serve, &mut Subject)) {
    for (name, start) in SDKS {
        let place = Place::new();
        let server = place.serve(&[]);
        if let Some(mut subject) = start(&server.url, lease_secs, grace_secs) {
            eprintln!("{name}");
            cases(&server, &mut subject);
        }
        server.stopped();
    }
}

fn begin(server: &Serve, topic: &str, more: &Value) -> String {
    let mut input = json!({"topic": topic});
    input.as_object_mut().expect("it is one").extend(more.as_object().expect("fields").clone());
    let started = server.post("/api/v1/plans", &json!({"action": "external", "input": input}));
    started.ok()["id"].as_str().expect("an id").to_owned()
}

/// The error of the plan's failed step.
fn error_of(server: &Serve, plan: &str) -> Value {
    assert_eq!(server.ended_plan(plan)["state"], "paused");
    let steps = server.get(&format!("/api/v1/plans/{plan}/steps?state=error")).ok();
    steps["steps"][0].clone()
}

#[test]
fn workers_of_all_languages_do_tasks_and_say_what_came_of_them() {
    each(30, 5.0, |server, subject| {
        let plan = begin(server, "echo", &json!({"input": {"ä": [1]}, "within_ms": 3_600_000}));
        let told = server.ended_plan(&plan)["output"].clone();
        assert_eq!((&told["topic"], &told["plan"]), (&json!("echo"), &json!(plan)));
        assert_eq!((&told["attempt"], &told["delivery"]), (&json!(1), &json!(1)));
        assert_eq!(told["input"], json!({"ä": [1]}));
        assert_eq!(told["idempotency_key"], format!("work/{plan}/{}/1", told["step"]));
        assert!(told["deadline"].is_string(), "{told}");
        let history = server.get(&format!("/api/v1/plans/{plan}/history")).text;
        assert!(history.contains("(worker conformance-1)"), "{history}");

        let plan = begin(server, "flaky", &json!({}));
        assert_eq!(server.ended_plan(&plan)["output"], json!({"attempt": 3}));

        let step = error_of(server, &begin(server, "final", &json!({})));
        assert_eq!((&step["error"]["kind"], &step["attempt"]), (&json!("refused"), &json!(1)));
        assert_eq!(step["error"]["message"], "never");
        let step = error_of(server, &begin(server, "unfit", &json!({})));
        assert_eq!((&step["error"]["kind"], &step["attempt"]), (&json!("output"), &json!(1)));

        let pair = [begin(server, "pair", &json!({})), begin(server, "pair", &json!({}))];
        for plan in pair {
            assert_eq!(server.ended_plan(&plan)["output"], "together");
        }
        let plan = begin(server, "errors", &json!({}));
        let told = server.ended_plan(&plan)["output"].clone();
        assert_eq!(told, json!({"refused": ["id-invalid", false], "unreachable": [true]}));
        subject.stopped();
    });
}

#[test]
fn workers_of_all_languages_keep_their_leases_until_a_plan_is_cancelled() {
    each(1, 5.0, |server, subject| {
        let plan = begin(server, "hold", &json!({}));
        subject.says("begun", &plan);
        let step = server.suspended(&plan);
        let mut beats = std::collections::BTreeSet::new();
        // They are written every few seconds, so two of them are longer than many leases.
        while beats.len() < 2 {
            let told = server.get(&format!("/api/v1/plans/{plan}/steps/{step}")).ok();
            if let Some(at) = told["beat_at"].as_str() {
                assert_eq!(told["beat"], json!({"held": 1}), "{told}");
                beats.insert(at.to_owned());
            }
            std::thread::yield_now();
        }
        let none = json!({"topics": ["hold"], "wait_ms": 0});
        assert_eq!(server.post("/api/v1/work/lease", &none).ok()["tasks"], json!([]));
        let cancel = json!({"order": "cancel"});
        server.post(&format!("/api/v1/plans/{plan}/orders"), &cancel).ok();
        subject.says("cancelled", &plan);
        subject.stopped();
    });
}

#[test]
fn workers_of_all_languages_give_their_tasks_back_when_they_stop() {
    each(600, 0.2, |server, subject| {
        let plan = begin(server, "hold", &json!({}));
        subject.says("begun", &plan);
        subject.stopped();
        let lease = json!({"topics": ["hold"], "wait_ms": 60_000});
        let tasks = server.post("/api/v1/work/lease", &lease).ok()["tasks"].clone();
        assert_eq!((&tasks[0]["plan"], &tasks[0]["delivery"]), (&json!(plan), &json!(1)));
    });
}

#[test]
fn a_worker_whose_handler_goes_on_ends_with_its_process_after_the_grace() {
    for (name, start) in [("Python", python as Start), ("TypeScript", typescript)] {
        let place = Place::new();
        let server = place.serve(&[]);
        if let Some(mut subject) = start(&server.url, 600, 0.2) {
            let plan = begin(&server, "stubborn", &json!({}));
            subject.says("begun", &plan);
            let began = Instant::now();
            subject.stopped();
            let took = began.elapsed();
            assert!(took < Duration::from_secs(60), "{name}: its handler was waited for: {took:?}");
        }
        server.stopped();
    }
}

#[test]
fn workers_of_all_languages_try_again_when_a_server_is_in_trouble() {
    for (name, start) in SDKS {
        let stub = stub::Stub::start();
        if let Some(mut subject) = start(&stub.url, 30, 5.0) {
            eprintln!("{name}");
            let answers = stub.answered();
            assert_eq!(answers, json!({"output": {"attempt": 7}}));
            subject.stopped();
        }
    }
}

#[test]
fn packages_of_the_sdks_have_the_version_of_the_workspace_and_its_licences() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| std::fs::read_to_string(root.join(file)).expect(file);
    let version = env!("CARGO_PKG_VERSION");
    let package: Value = serde_json::from_str(&read("sdk/typescript/package.json")).expect("JSON");
    assert_eq!(
        (&package["version"], &package["license"]),
        (&json!(version), &json!("(MIT OR Apache-2.0)"))
    );
    for file in package["files"].as_array().expect("a list") {
        assert!(sdk().join("typescript").join(file.as_str().expect("a name")).exists(), "{file}");
    }
    for kind in ["types", "default"] {
        let file = package["exports"]["."][kind].as_str().expect("a file");
        assert!(sdk().join("typescript").join(file).is_file(), "{file}");
    }
    let project: toml::Table = read("sdk/python/pyproject.toml").parse().expect("TOML");
    assert_eq!(project["project"]["version"].as_str(), Some(version));
    assert_eq!(project["project"]["license"].as_str(), Some("MIT OR Apache-2.0"));
    assert!(read("sdk/python/turnwheel_worker/__init__.py").contains(&format!("\"{version}\"")));
    for folder in ["python", "typescript"] {
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            assert_eq!(read(&format!("sdk/{folder}/{licence}")), read(licence));
        }
    }
}
