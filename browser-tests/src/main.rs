//! How soon each page of the console is painted, with many plans in the store: one JSON row a page.
//!
//! `cargo run --release -p turnwheel-browser --bin turnwheel-paint -- --plans 100000 --steps 10000`

use std::io::Write as _;

use clap::Parser;
use serde::Serialize;
use serde_json::json;
use turnwheel::sqlite::SqliteStore;
use turnwheel_browser::{Chromium, Page, Served};

/// Measures the first contentful paint of each page of the console.
///
/// A server over a new SQLite store gets its plans; then each page is opened in Chromium so many
/// times, each time as a new document. Rows are JSON on standard output, times in milliseconds.
#[derive(Debug, Parser)]
#[command(name = "turnwheel-paint", version)]
struct Arguments {
    /// Plans in the store.
    #[arg(long, default_value_t = 100_000)]
    plans: u32,
    /// Steps of one large plan.
    #[arg(long, default_value_t = 10_000)]
    steps: u32,
    /// How often each page is opened; the median counts.
    #[arg(long, default_value_t = 5)]
    times: usize,
}

/// What was measured of a page.
#[derive(Debug, Serialize)]
struct Row {
    page: String,
    plans: u32,
    /// Until anything was painted: the median, and the longest.
    first_contentful_paint_ms: f64,
    first_contentful_paint_ms_max: f64,
    /// Until what the page is about was there.
    content_ms: f64,
    content_ms_max: f64,
    times: usize,
}

/// Notes when what a page is about is there; it begins with the document.
const WATCH: &str = "
window.turnwheelContent = 0;
new MutationObserver(() => {
  if (!window.turnwheelContent && document.querySelector('main .page > :not(.quiet), main .notice')) {
    requestAnimationFrame(() => { window.turnwheelContent ||= performance.now(); });
  }
}).observe(document, { childList: true, subtree: true });
";

const PAINTED: &str = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let folder = tempfile::tempdir()?;
    let served = Served::over(SqliteStore::new(folder.path().join("paint.db")));
    fill(&served, arguments.plans);
    let large = served.begin("wall", &json!(arguments.steps)).to_string();
    let (_browser, mut page) = Chromium::start()?;
    page.size(1280, 900);
    page.before(WATCH);
    let plan = format!("run/{large}");
    let pages = [
        "",
        "runs",
        "runs?state=running",
        "runs?labels=of=7",
        &plan,
        &format!("{plan}/graph"),
        &format!("{plan}/timeline"),
        &format!("{plan}/history"),
        "flows",
        "add-flow",
        "schedules",
        "events",
        "jobs",
        "journeys",
        "cluster",
        "system",
        "system/entities",
        "system/runtime",
    ];
    for name in pages {
        // Once for all that is made at the first use.
        measure(&mut page, &served, name);
        let all: Vec<(f64, f64)> =
            (0..arguments.times).map(|_| measure(&mut page, &served, name)).collect();
        let (painted, painted_max) = median(all.iter().map(|(painted, _)| *painted));
        let (content, content_max) = median(all.iter().map(|(_, content)| *content));
        let row = Row {
            page: name.replace(&large, "ID"),
            plans: arguments.plans,
            first_contentful_paint_ms: painted,
            first_contentful_paint_ms_max: painted_max,
            content_ms: content,
            content_ms_max: content_max,
            times: arguments.times,
        };
        writeln!(std::io::stdout(), "{}", serde_json::to_string(&row)?)?;
    }
    Ok(())
}

/// Plans of each kind: most are over, some wait, some have failed.
fn fill(served: &Served, plans: u32) {
    for number in 0..plans {
        let label = [("of", (number % 100).to_string())];
        match number % 100 {
            0 => served.begin_labelled("wait", &json!({}), &label),
            1 => served.begin_labelled("mend", &json!({ "is_mended": false }), &label),
            _ => served.begin_labelled("brick", &json!(number), &label),
        }
    }
    served.settle();
}

/// Opens a page as a new document: until something was painted, and until its content was there.
fn measure(page: &mut Page, served: &Served, name: &str) -> (f64, f64) {
    page.open_new(&served.page(name));
    let content = page.wait("window.turnwheelContent").as_f64().unwrap_or(f64::NAN);
    let painted = page.wait(PAINTED).as_f64().unwrap_or(f64::NAN);
    (painted, content)
}

/// The median and the greatest, to a tenth.
fn median(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut values: Vec<f64> = values.map(|value| (value * 10.0).round() / 10.0).collect();
    values.sort_by(f64::total_cmp);
    let greatest = values.last().copied().unwrap_or_default();
    (values.get(values.len() / 2).copied().unwrap_or_default(), greatest)
}
