//! Inputs that were changed at random, for a time: readers of flows, expressions, bodies of requests,
//! events and files of stores. None may panic, hang, or make the server fail.
//!
//! Each test runs for a moment. For longer, with another seed:
//!
//! ```sh
//! TURNWHEEL_FUZZ_SECONDS=600 TURNWHEEL_FUZZ_SEED=7 cargo test --test http fuzz -- --nocapture
//! ```
#![cfg(feature = "server")]

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{json, Value};
use turnwheel::flow::load;
use turnwheel::http::{Access, Options};
use turnwheel::sqlite::{SqliteStore, SqliteSync};

use super::openapi::served;
use crate::http_common::schema::Seeded;
use crate::http_common::{world, Served};

/// How long each runs if nothing is said.
const SECONDS: u64 = 2;

/// The longest that one input may take: the machine is shared.
const PATIENCE: Duration = Duration::from_secs(20);

fn number(name: &str, otherwise: u64) -> u64 {
    let said = std::env::var(name).ok().and_then(|text| text.parse().ok());
    said.unwrap_or(otherwise)
}

/// Tries inputs until the time is over; the seed of each is printed when it fails.
fn fuzz(what: &str, mut attempt: impl FnMut(&mut Seeded)) {
    let first = number("TURNWHEEL_FUZZ_SEED", 1);
    let until = Instant::now() + Duration::from_secs(number("TURNWHEEL_FUZZ_SECONDS", SECONDS));
    let mut seed = first;
    while Instant::now() < until {
        let (begun, told) = (Instant::now(), Told { what, seed });
        attempt(&mut Seeded::new(seed));
        assert!(begun.elapsed() < PATIENCE, "{what}, seed {seed}: {:?}", begun.elapsed());
        drop(told);
        seed += 1;
    }
    eprintln!("{what}: {} inputs from seed {first}", seed - first);
}

/// Prints where it was when a test panics.
struct Told<'a> {
    what: &'a str,
    seed: u64,
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: TURNWHEEL_FUZZ_SEED={}", self.what, self.seed);
        }
    }
}

/// Pieces that mean something to one of the readers.
const PIECES: [&str; 40] = [
    "${ ",
    " }",
    "$input",
    ".a",
    "[0]",
    "..",
    "|",
    "//",
    "\"",
    "'",
    "\\",
    "\\u0000",
    "\\(",
    "{",
    "}",
    "[",
    "]",
    ":",
    "- ",
    "\n  ",
    "&a ",
    "*a",
    "!!str ",
    "<<: ",
    "null",
    "1e308",
    "-0",
    "PT1S",
    "P1Y",
    "reduce .[] as $x (0; . + $x)",
    "foreach",
    "def f: f; f",
    "try error",
    "?",
    "@base64 ",
    "%",
    "\u{feff}",
    "\u{0}",
    "🦀",
    "9999999999999999999",
];

/// Changes a text a few times: bytes, copies of a part, pieces.
fn mutated(text: &str, seeded: &mut Seeded) -> Vec<u8> {
    mutated_bytes(text.as_bytes(), seeded)
}

fn mutated_bytes(bytes: &[u8], seeded: &mut Seeded) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=seeded.below(6) {
        let at = seeded.below(bytes.len() + 1);
        let to = (at + seeded.below(24)).min(bytes.len());
        match seeded.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << seeded.below(8),
            1 => drop(bytes.drain(at..to)),
            2 => {
                let part = bytes[at..to].repeat(1 + seeded.below(3));
                bytes.splice(at..at, part);
            }
            3 => bytes.truncate(at.max(1)),
            _ => drop(bytes.splice(at..at, seeded.pick(&PIECES).bytes())),
        }
    }
    bytes
}

fn examples() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/flows");
    let files = std::fs::read_dir(folder).expect("it is there").flatten();
    let is_flow = |path: &std::path::PathBuf| path.extension().is_some_and(|it| it == "yaml");
    let mut files: Vec<_> = files.map(|file| file.path()).filter(is_flow).collect();
    files.sort();
    let texts = files.iter().map(|file| std::fs::read_to_string(file).expect("a text"));
    texts.collect()
}

/// An expression that may mean something.
fn expression(seeded: &mut Seeded, depth: usize) -> String {
    const LEAVES: [&str; 12] = [
        ".",
        ".a",
        "$input",
        "1",
        "\"x\"",
        "null",
        "[]",
        "{}",
        "empty",
        "input_line_number",
        "-1",
        "1e999",
    ];
    const CALLS: [&str; 14] = [
        "length",
        "keys",
        "tojson",
        "fromjson",
        "explode",
        "implode",
        "ascii",
        "tonumber",
        "@json",
        "recurse",
        "reverse",
        "floor",
        "ltrimstr(\"a\")",
        "test(\"(a*)*b\")",
    ];
    if depth == 0 {
        return seeded.pick(&LEAVES).to_owned();
    }
    let one = expression(seeded, depth - 1);
    let other = expression(seeded, depth - 1);
    match seeded.below(12) {
        0 => format!("{one} | {other}"),
        1 => format!("({one}) + ({other})"),
        2 => format!("[{one}, {other}]"),
        3 => format!("{{a: ({one})}}"),
        4 => format!("({one}) as $x | {other}"),
        5 => format!("if {one} then {other} else . end"),
        6 => format!("try ({one}) catch ({other})"),
        7 => format!("reduce ({one}) as $i ({other}; .)"),
        8 => format!("[limit(9; repeat({one}))]"),
        9 => format!("({one}) * 100000"),
        10 => format!("{one} | {}", seeded.pick(&CALLS)),
        _ => format!("[range(0; 100000)] | map({one})"),
    }
}

#[test]
fn fuzz_flows_are_read_or_refused() {
    let flows = examples();
    fuzz("flows", |seeded| {
        let text = mutated(&flows[seeded.below(flows.len())], seeded);
        let _read_or_refused = load(&String::from_utf8_lossy(&text), "fuzz.yaml");
    });
}

#[test]
fn fuzz_expressions_end_within_their_limits() {
    let served = served();
    let mut version = 0;
    fuzz("expressions", |seeded| {
        let depth = 1 + seeded.below(4);
        let mut text = expression(seeded, depth);
        if seeded.below(4) == 0 {
            text = String::from_utf8_lossy(&mutated(&text, seeded)).into_owned();
        }
        version += 1;
        let flow = json!({
            "document": {"dsl": "1.0.3", "namespace": "fuzz", "name": "x", "version": format!("0.0.{version}")},
            "do": [{"one": {"set": {"x": format!("${{ {text} }}")}}}],
        });
        let added = post(&served, "/api/v1/flows", "application/yaml", flow.to_string().as_bytes());
        if added.is_none() {
            return;
        }
        let path = format!("/api/v1/flows/fuzz/x/0.0.{version}/start");
        let started = served.post(&path, &json!({"input": {"a": [1, "x", null]}}));
        assert_eq!(started.status, 201, "{text}: {}", started.text);
        let id = started.json()["id"].as_str().expect("an id").to_owned();
        let ended = served.ended(&id);
        assert_eq!(ended["state"], "stopped", "{text}: {ended}");
    });
}

/// Posts bytes; the answer if they were taken. It must not be the server that has failed.
fn post(served: &Served, path: &str, kind: &str, body: &[u8]) -> Option<Value> {
    let answer = served.send_bytes("POST", path, &[("content-type", kind)], Some(body));
    let told = String::from_utf8_lossy(body).into_owned();
    assert!(answer.status < 500, "{path}: {}: {told:?}", answer.text);
    (answer.status < 300).then(|| answer.json())
}

#[test]
fn fuzz_bodies_and_events_are_taken_or_refused() {
    let served = served();
    let event = json!({
        "specversion": "1.0", "id": "1", "source": "urn:x", "type": "a.b",
        "time": "2026-01-01T00:00:00Z", "datacontenttype": "application/json", "data": {"a": [1]},
    });
    let orders = json!({"filter": {"states": ["running"], "labels": {"a": "b"}}, "order": "cancel", "dry_run": true});
    let schedule = json!({"timing": {"cron": "*/5 * * * *", "zone": "Europe/Berlin"}, "action": "echo", "input": {"text": "x"}});
    let yaml = &examples()[0];
    let calls = [
        ("/api/v1/events", "application/cloudevents+json", event.to_string()),
        ("/api/v1/events", "application/cloudevents-batch+json", format!("[{event}]")),
        (
            "/api/v1/plans",
            "application/json",
            json!({"action": "echo", "input": {"text": "x"}, "labels": {"a": "b"}}).to_string(),
        ),
        ("/api/v1/orders", "application/json", orders.to_string()),
        (
            "/api/v1/work/lease",
            "application/json",
            json!({"topics": ["t"], "limit": 2, "lease_ms": 1000}).to_string(),
        ),
        ("/api/v1/flows/check", "application/yaml", yaml.clone()),
        ("/api/v1/session", "application/json", json!({"token": "x"}).to_string()),
    ];
    fuzz("bodies", |seeded| {
        let (path, kind, body) = &calls[seeded.below(calls.len())];
        post(&served, path, kind, &mutated(body, seeded));
        let put = mutated(&schedule.to_string(), seeded);
        let headers = [("content-type", "application/json")];
        let answer = served.send_bytes("PUT", "/api/v1/schedules/fuzz", &headers, Some(&put));
        assert!(answer.status < 500, "{}: {:?}", answer.text, String::from_utf8_lossy(&put));
    });
    assert_eq!(served.get("/health").status, 200);
}

fn store(path: &Path) -> SqliteStore {
    SqliteStore::new(path).sync(SqliteSync::Off)
}

/// The file of a store with ended plans whose inputs have these lengths, and perhaps as many that wait.
fn stored(folder: &Path, lengths: impl IntoIterator<Item = usize>, has_waiting: bool) -> Vec<u8> {
    let whole = folder.join("whole.db");
    let served = Served::with(world(store(&whole)), Options::new(Access::Loopback));
    for length in lengths {
        let plan = served.start("echo", &json!({"text": "x".repeat(length)}));
        served.ended(&plan);
        if has_waiting {
            served.start("ask", &json!(null));
        }
    }
    drop(served);
    // Connections of requests may end a little later: until then the log has the newest pages.
    store(&whole).checkpoint().expect("the file is writable");
    std::fs::read(&whole).expect("it is there")
}

#[test]
fn fuzz_files_of_stores_are_read_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = stored(folder.path(), (0..20).map(|number| number * 500), true);
    fuzz("stores", |seeded| {
        let path = folder.path().join("hit.db");
        let mut hit = bytes.clone();
        for _ in 0..=seeded.below(20) {
            let at = 100 + seeded.below(hit.len() - 100);
            hit[at] ^= 1 << seeded.below(8);
        }
        if seeded.below(8) == 0 {
            hit.truncate(100 + seeded.below(hit.len() - 100));
        }
        std::fs::write(&path, &hit).expect("the folder is writable");
        // Damage is said; the rest is there.
        let store = store(&path);
        let _problems = store.check();
        if let Ok(mut view) = store.view() {
            let _rows = view.list(&turnwheel::engine::store::Filter::default());
        }
        drop(store);
        for end in ["-wal", "-shm", ".lock"] {
            let _unused = std::fs::remove_file(format!("{}{end}", path.display()));
        }
    });
}

#[test]
fn fuzz_stored_entries_are_read_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    // Some are so large that parts of them are stored aside.
    let bytes = stored(folder.path(), [1, 500, 5_000, 80_000], false);
    let path = folder.path().join("hit.db");
    fuzz("entries", |seeded| {
        std::fs::write(&path, &bytes).expect("the folder is writable");
        let database = turnwheel::sqlite::rusqlite::Connection::open(&path).expect("a database");
        let (table, column) = match seeded.below(3) {
            0 => ("turnwheel_values", "bytes"),
            _ => ("journal", "records"),
        };
        let place = seeded.below(8);
        let read =
            format!("SELECT rowid, {column} FROM {table} ORDER BY rowid LIMIT 1 OFFSET {place}");
        let row = |row: &turnwheel::sqlite::rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let found: Result<(i64, Vec<u8>), _> = database.query_row(&read, [], row);
        if let Ok((id, entry)) = found {
            let hit = mutated_bytes(&entry, seeded);
            let write = format!("UPDATE {table} SET {column} = ?1 WHERE rowid = ?2");
            database.execute(&write, (hit, id)).expect("it is written");
        }
        drop(database);
        let store = store(&path);
        let mut view = store.view().expect("the database itself is whole");
        let rows = view.list(&turnwheel::engine::store::Filter::default()).unwrap_or_default();
        for row in rows {
            let _read_or_refused = view.plan(row.id);
        }
        let _problems = store.check();
    });
}
