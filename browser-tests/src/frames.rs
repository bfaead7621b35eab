//! How soon the console of a running server is painted, and how long its frames take while runs begin
//! and end: one JSON row a page.
//!
//! `turnwheel-frames http://127.0.0.1:7070 --runs 125 --seconds 5`

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use serde::Serialize;
use turnwheel::api::FlowRun;
use turnwheel::client::Client;
use turnwheel_browser::{Chromium, Page};

/// The flow whose runs make the events: each run has at least four, from its begin to its end.
const FLOW: &str = "document: { dsl: '1.0.3', namespace: bench, name: tick, version: '1.0.0' }
do: [{ tick: { set: { is_done: true } } }]";

/// Senders beside each other, as one waits for the disk.
const SENDERS: u32 = 16;

/// Measures the first paint of each page, and the longest frame while events come.
#[derive(Debug, Parser)]
#[command(name = "turnwheel-frames", version)]
struct Arguments {
    /// The address of the server.
    url: String,
    /// Runs that begin in a second while frames are measured.
    #[arg(long, default_value_t = 125)]
    runs: u32,
    /// How long the frames of each page are measured.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How often each page is opened before; the median and the longest are told.
    #[arg(long, default_value_t = 5)]
    times: usize,
}

#[derive(Debug, Serialize)]
struct Row {
    page: &'static str,
    first_paint_ms: f64,
    first_paint_ms_max: f64,
    /// Runs that began in a second, as measured.
    runs_a_second: f64,
    frames: f64,
    frame_ms_p99: f64,
    frame_ms_max: f64,
    /// Tasks of more than 50 ms, as the browser reports them.
    long_tasks: f64,
    long_task_ms_max: f64,
}

/// Notes the time of each frame and each long task, from the begin of the document.
const WATCH: &str = "
window.turnwheelFrames = [];
window.turnwheelTasks = [];
let last = 0;
const frame = (now) => { if (last) window.turnwheelFrames.push(now - last); last = now; requestAnimationFrame(frame); };
requestAnimationFrame(frame);
new PerformanceObserver((list) => { for (const one of list.getEntries()) window.turnwheelTasks.push(one.duration); }).observe({ type: 'longtask' });
";

const PAINTED: &str = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime";

const FRAMES: &str = "(() => {
  const all = [...window.turnwheelFrames].sort((a, b) => a - b);
  const tasks = window.turnwheelTasks;
  return [all.length, all[Math.floor(all.length * 0.99)] ?? 0, all.at(-1) ?? 0, tasks.length, Math.max(0, ...tasks)];
})()";

const PAGES: [&str; 9] =
    ["", "runs", "runs?show=active", "flows", "schedules", "events", "jobs", "cluster", "system"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let url = arguments.url.trim_end_matches('/');
    let client = Client::new(url);
    client.add_flow(FLOW)?;
    let (_browser, mut page) = Chromium::start()?;
    page.size(1280, 900);
    page.before(WATCH);
    let is_over = AtomicBool::new(false);
    let begun = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let mut rows = Vec::new();
        for name in PAGES {
            let address = format!("{url}/console/#/{name}");
            // Once for all that is made at the first use.
            page.open_new(&address);
            let mut painted: Vec<f64> =
                (0..arguments.times).map(|_| painted(&mut page, &address)).collect();
            painted.sort_by(f64::total_cmp);
            rows.push((name, address, painted));
        }
        for _ in 0..SENDERS {
            scope.spawn(|| send(&client, arguments.runs, &is_over, &begun));
        }
        for (name, address, painted) in rows {
            page.open_new(&address);
            let row = watch(&mut page, (name, &painted), arguments.seconds, &begun);
            let row = serde_json::to_string(&row).expect("numbers and a name");
            writeln!(std::io::stdout(), "{row}").expect("standard output is open");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    Ok(())
}

/// The frames of the open page for so many seconds, beside its first paints.
fn watch(
    page: &mut Page,
    (name, painted): (&'static str, &[f64]),
    seconds: u64,
    begun: &AtomicU64,
) -> Row {
    page.eval("turnwheelFrames.length = 0, turnwheelTasks.length = 0");
    let (before, from) = (begun.load(Ordering::Relaxed), Instant::now());
    std::thread::sleep(Duration::from_secs(seconds));
    let found = page.eval(FRAMES);
    let runs = (begun.load(Ordering::Relaxed) - before) as f64;
    let at = |index: usize| tenth(found[index].as_f64().unwrap_or(f64::NAN));
    Row {
        page: name,
        first_paint_ms: painted.get(painted.len() / 2).copied().unwrap_or(f64::NAN),
        first_paint_ms_max: painted.last().copied().unwrap_or(f64::NAN),
        runs_a_second: tenth(runs / from.elapsed().as_secs_f64()),
        frames: at(0),
        frame_ms_p99: at(1),
        frame_ms_max: at(2),
        long_tasks: at(3),
        long_task_ms_max: at(4),
    }
}

/// Begins this sender's part of the runs until it is over. A refusal is told, and ends the sender.
fn send(client: &Client, runs: u32, is_over: &AtomicBool, begun: &AtomicU64) {
    let pause = Duration::from_secs(1) * SENDERS / runs.max(1);
    let mut next = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        let run = FlowRun {
            input: serde_json::Value::Null,
            labels: std::collections::BTreeMap::new(),
            priority: None,
            deadline_ms: None,
        };
        if let Err(error) = client.start_flow(("bench", "tick", "1.0.0"), &run, None) {
            eprintln!("a run was not begun: {error}");
            return;
        }
        begun.fetch_add(1, Ordering::Relaxed);
        next += pause;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Opens a page as a new document, until it is painted for the first time.
fn painted(page: &mut Page, address: &str) -> f64 {
    page.open_new(address);
    tenth(page.wait(PAINTED).as_f64().unwrap_or(f64::NAN))
}

fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
