//! The faults. Each case answers the server after a last `kill -9` and a start, and a note.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{getrlimit, prlimit, Pid, Resource, Rlimit};
use serde_json::json;

use super::load::{add, Load};
use crate::serve_common::disk::Disk;
use crate::serve_common::{size, Place, Serve};

type Run = fn(&Place, &Load, Duration) -> (Serve, String);

/// All cases by name.
pub(super) const ALL: [(&str, Run); 6] = [
    ("kill", kill),
    ("term", term),
    ("disk", disk),
    ("descriptors", descriptors),
    ("slow", slow),
    ("bombs", bombs),
];

/// Ends of the process in the cases `kill` and `term`.
const ENDS: u32 = 5;

/// Bytes of the small disk: the file that keeps room, and some megabytes.
const DISK: u64 = 24 << 20;

/// Bytes of an input where a disk is to be filled.
const LARGE: usize = 20_000;

/// Open files of the server in the case `descriptors`, and connections to it.
const FILES: u32 = 256;
const CROWD: usize = 600;

/// Connections of each kind in the case `slow`.
const SLOW: usize = 60;

/// Expressions without an end, or with a huge result.
const BOMBS: [&str; 8] = [
    "[range(1e12)]",
    "def f: f; f",
    "[limit(1e9; repeat(1))] | length",
    "(\"a\" * 4000000) | [match(\"a\"; \"g\")] | length",
    "reduce range(1e9) as $i (\"\"; . + \"xxxxxxxxxx\")",
    "[range(1000000)] | map(tojson) | join(\",\") | explode | implode",
    "(\"a\" * 30 + \"!\") | test(\"(a*)*b\")",
    "last(range(1e15))",
];

/// The last end of the process, without warning.
fn killed_at_last(load: &Load, server: Serve, again: impl FnOnce() -> Serve) -> Serve {
    load.is_away();
    server.killed();
    again()
}

fn kill(place: &Place, load: &Load, time: Duration) -> (Serve, String) {
    let mut server = place.serve(&[]);
    for _ in 0..ENDS {
        load.is_at(&server);
        thread::sleep(time / ENDS);
        load.is_away();
        server.killed();
        server = place.serve(&[]);
    }
    (server, format!("{ENDS} times"))
}

fn term(place: &Place, load: &Load, time: Duration) -> (Serve, String) {
    let mut server = place.serve(&[]);
    for _ in 0..ENDS {
        load.is_at(&server);
        thread::sleep(time / ENDS);
        // Requests are under way while it ends.
        load.is_away();
        server.signal("-TERM");
        server.ended();
        server = place.serve(&[]);
    }
    (killed_at_last(load, server, || place.serve(&[])), format!("{ENDS} times"))
}

fn disk(place: &Place, load: &Load, time: Duration) -> (Serve, String) {
    load.inputs_of(LARGE);
    let Some(disk) = Disk::new(place, DISK) else {
        eprintln!(
            "turnwheel-bench: NO FULL DISK: this user may make no namespaces. The size of the \
             server's files is limited instead."
        );
        return file_sizes(place, load, time);
    };
    let server = disk.serve(place);
    load.is_at(&server);
    thread::sleep(time / 3);
    // Room that the server itself has not taken.
    let filled = disk.fill();
    thread::sleep(time / 3);
    load.is_away();
    server.killed();
    let server = disk.serve(place);
    disk.fill();
    load.is_at_without_flow(&server);
    thread::sleep(time / 3);
    std::fs::remove_file(disk.seen("filler")).expect("it is there");
    let server = killed_at_last(load, server, || disk.serve(place));
    // The disk lives as long as this program: the server is still asked.
    std::mem::forget(disk);
    (server, format!("{} MiB, then {filled} bytes of others", DISK >> 20))
}

fn file_sizes(place: &Place, load: &Load, time: Duration) -> (Serve, String) {
    let server = place.serve(&[]);
    load.is_at(&server);
    thread::sleep(time / 3);
    let process = Pid::from_raw(server.id() as i32).expect("it has an id");
    let limit = |bytes| Rlimit { current: bytes, ..getrlimit(Resource::Fsize) };
    let most = size(&place.store());
    prlimit(Some(process), Resource::Fsize, limit(Some(most))).expect("it is ours");
    thread::sleep(time / 3);
    prlimit(Some(process), Resource::Fsize, limit(None)).expect("it is ours");
    thread::sleep(time / 3);
    let server = killed_at_last(load, server, || place.serve(&[]));
    (server, "NO DISK: file sizes limited".to_owned())
}

/// Does something in a loop until a case is over.
fn beside<T>(work: impl Fn() + Sync, case: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                work();
            }
        });
        let outcome = case();
        is_over.store(true, Ordering::Relaxed);
        outcome
    })
}

fn descriptors(place: &Place, load: &Load, time: Duration) -> (Serve, String) {
    let server = place.serve_within(FILES, &[]);
    load.is_at(&server);
    let address = server.address().to_owned();
    let crowd = || {
        let all: Vec<_> = (0..CROWD).filter_map(|_| TcpStream::connect(&address).ok()).collect();
        thread::sleep(Duration::from_millis(200));
        drop(all);
    };
    beside(crowd, || thread::sleep(time));
    let server = killed_at_last(load, server, || place.serve(&[]));
    (server, format!("{FILES} open files, {CROWD} silent connections"))
}

fn slow(place: &Place, load: &Load, time: Duration) -> (Serve, String) {
    let server = place.serve(&["--head-within", "2s", "--write-within", "2s"]);
    load.is_at(&server);
    let host = server.address().to_owned();
    let requests = [
        format!("GET /api/v1/plans HTTP/1.1\r\nhost: {host}\r\nx-slow: "),
        format!(
            "POST /api/v1/plans HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
             content-length: 1000000\r\n\r\n"
        ),
        format!("GET /api/v1/events HTTP/1.1\r\nhost: {host}\r\n\r\n"),
    ];
    let drip = || {
        let mut all: Vec<(usize, TcpStream)> = Vec::new();
        for (kind, request) in requests.iter().enumerate() {
            for _ in 0..SLOW {
                if let Ok(mut stream) = TcpStream::connect(&host) {
                    // The server may refuse it at once.
                    let _refused = stream.write_all(request.as_bytes());
                    all.push((kind, stream));
                }
            }
        }
        let until = Instant::now() + (time / 2).min(Duration::from_secs(3));
        while Instant::now() < until {
            thread::sleep(Duration::from_millis(50));
            // A byte of those that send; the last kind never reads.
            all.retain_mut(|(kind, stream)| *kind == 2 || stream.write_all(b"a").is_ok());
        }
    };
    beside(drip, || thread::sleep(time));
    let server = killed_at_last(load, server, || place.serve(&[]));
    (server, format!("{SLOW} each: heads, bodies, readers"))
}

fn bombs(place: &Place, load: &Load, time: Duration) -> (Serve, String) {
    let server = place.serve(&[]);
    load.is_at(&server);
    for (number, bomb) in BOMBS.iter().enumerate() {
        let flow = json!({
            "document": {"dsl": "1.0.3", "namespace": "bombs", "name": format!("b{number}"), "version": "1.0.0"},
            "do": [{"bomb": {"set": {"x": format!("${{ {bomb} }}")}}}],
        });
        add(&server, &flow.to_string());
    }
    let begun = std::sync::atomic::AtomicU32::new(0);
    let throw = || {
        for number in 0..BOMBS.len() {
            let path = format!("/api/v1/flows/bombs/b{number}/1.0.0/start");
            server.post(&path, &json!({}));
            begun.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_millis(500));
    };
    beside(throw, || thread::sleep(time));
    let server = killed_at_last(load, server, || place.serve(&[]));
    (server, format!("{} bombs", begun.into_inner()))
}
