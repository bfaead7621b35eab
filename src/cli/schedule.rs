//! `turnwheel schedule`: launches at given times.

use std::time::{Duration, SystemTime};

use serde_json::{json, Value};
use turnwheel::engine::schedule::{CatchUp, Overlap, Schedule, ScheduleView, Timing};
use turnwheel::engine::{Payload, Time, World};
use turnwheel::flow::WithFlows;

use super::event::read_json;
use super::exit::Exit;
use super::outside::host_io;
use super::paint::{one_line, print, print_json, table, tell, Paint};
use super::place::{Hands, Place};
use super::remote::encoded;
use super::settings::Settings;
use super::span;

/// Schedules that are listed, at most.
const LISTED: usize = 100_000;

const AFTER_HELP: &str = "\
Examples:
  turnwheel schedule list
  turnwheel schedule add nightly --cron '0 3 * * *' --zone Europe/Berlin --action report --input '{}'
  turnwheel schedule next nightly --count 5
  turnwheel schedule next --cron '*/15 9-17 * * mon-fri' --zone Europe/Berlin
  turnwheel schedule pause nightly --why 'the disk is being replaced'

Schedules launch while a server has the store (turnwheel serve). Exit codes: 0 done; 1 it failed;
2 wrong usage; 3 there is no such store or schedule; 4 another process has the store and does not
serve it.";

/// List, add, pause and preview schedules.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List all schedules, by name.
    #[command(after_help = AFTER_HELP)]
    List {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Make a schedule, or change the one with its name.
    #[command(after_help = AFTER_HELP)]
    Add(Add),
    /// Launch nothing more until the schedule is unpaused.
    #[command(after_help = AFTER_HELP)]
    Pause {
        /// The schedule.
        name: String,
        /// Reason for the pause, for readers.
        #[arg(long, default_value = "")]
        why: String,
    },
    /// Launch again; times that have passed meanwhile are not made up for.
    #[command(after_help = AFTER_HELP)]
    Unpause {
        /// The schedule.
        name: String,
    },
    /// Remove a schedule; its plans that are under way go on.
    #[command(after_help = AFTER_HELP)]
    Remove {
        /// The schedule.
        name: String,
    },
    /// Show the next times of a schedule, or of a pattern.
    #[command(after_help = AFTER_HELP)]
    Next(Next),
}

/// When it launches.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct When {
    /// At the times of a pattern of cron: five fields, or six with a second first, or @daily.
    #[arg(long, value_name = "PATTERN")]
    cron: Option<String>,

    /// After each period, counted from the begin of 1970: 90s, 15m, 2h, 1d.
    #[arg(long, value_name = "PERIOD", value_parser = span::duration)]
    every: Option<Duration>,

    /// Once, at this time (RFC 3339).
    #[arg(long, value_name = "TIME")]
    at: Option<Time>,
}

#[derive(Debug, clap::Args)]
struct Add {
    /// Name of the schedule.
    name: String,

    #[command(flatten)]
    when: When,

    /// The time zone of the pattern, by its name in the IANA database [default: UTC].
    #[arg(long, value_name = "ZONE", requires = "cron")]
    zone: Option<String>,

    /// The action that is launched.
    #[arg(long)]
    action: String,

    /// Its input: JSON, @FILE, or - for standard input.
    #[arg(long, value_name = "JSON", default_value = "null")]
    input: String,

    /// Policy for a launch while a plan of the schedule is running.
    #[arg(long, default_value = "forbid", value_parser = ["allow", "forbid", "replace", "queue"])]
    overlap: String,

    /// Policy for missed times: none, latest, or a window such as 2h in which all are made up for.
    #[arg(long, value_name = "HOW", default_value = "latest")]
    catch_up: String,

    /// Launch up to so much later, so that not all begin at once.
    #[arg(long, value_name = "LENGTH", default_value = "0s", value_parser = span::duration)]
    jitter: Duration,
}

#[derive(Debug, clap::Args)]
struct Next {
    /// The schedule; or give a pattern.
    #[arg(required_unless_present_any = ["cron", "every", "at"], conflicts_with_all = ["cron", "every", "at"])]
    name: Option<String>,

    #[command(flatten)]
    when: When,

    /// The time zone of the pattern [default: UTC].
    #[arg(long, value_name = "ZONE", requires = "cron")]
    zone: Option<String>,

    /// Number of times.
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    match &arguments.what {
        What::List { json } => list(settings, *json),
        What::Add(add) => put(settings, add),
        What::Next(next) => times(settings, next),
        What::Pause { name, why } => {
            let body = json!({ "why": why });
            change(settings, name, "POST", "/pause", Some(&body), |world, by| {
                world.schedules().pause(name, by, why).wait().map(|done| done.map(drop))
            })?;
            print(&format!("{name} is paused\n"))
        }
        What::Unpause { name } => {
            change(settings, name, "POST", "/unpause", None, |world, _| {
                world.schedules().unpause(name).wait().map(|done| done.map(drop))
            })?;
            print(&format!("{name} launches again\n"))
        }
        What::Remove { name } => {
            change(settings, name, "DELETE", "", None, |world, _| {
                world.schedules().remove(name).wait()
            })?;
            print(&format!("{name} is removed\n"))
        }
    }
}

/// Changes a schedule, here or at the server that has the store.
fn change(
    settings: &Settings,
    name: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
    here: impl FnOnce(
        &turnwheel::engine::World,
        &str,
    ) -> Result<
        Result<(), turnwheel::engine::ScheduleError>,
        turnwheel::runtime::Failure,
    >,
) -> Result<(), Exit> {
    match Place::of(settings).hands(settings)? {
        Hands::Own(world) => {
            let done = here(&world, &settings.by());
            world.shutdown()?;
            let done = done.map_err(|error| Exit::failed(format!("schedule {name}: {error}")))?;
            Ok(done?)
        }
        Hands::Server(server) => {
            server.send(method, &format!("/schedules/{}{path}", encoded(name)), body).map(drop)
        }
    }
}

impl When {
    fn schedule(&self, name: &str, zone: Option<&str>) -> Result<Schedule, Exit> {
        let schedule = match (&self.cron, self.every, self.at) {
            (Some(pattern), _, _) => Schedule::cron(name, pattern)?,
            (_, Some(period), _) => Schedule::every(name, period),
            (_, _, Some(time)) => Schedule::at(name, time),
            _ => Schedule::manual(name),
        };
        Ok(match zone {
            Some(zone) => schedule.zone(zone),
            None => schedule,
        })
    }
}

fn put(settings: &Settings, add: &Add) -> Result<(), Exit> {
    let input = read_json(&add.input)?;
    let overlap = match add.overlap.as_str() {
        "allow" => Overlap::Allow,
        "replace" => Overlap::Replace,
        "queue" => Overlap::Queue,
        _ => Overlap::Forbid,
    };
    let catch_up = match add.catch_up.as_str() {
        "none" => CatchUp::None,
        "latest" => CatchUp::Latest,
        window => CatchUp::all_within(span::duration(window).map_err(|problem| {
            Exit::usage(format!("--catch-up: {problem}; or none, or latest"))
        })?),
    };
    let payload = Payload::of(&input)
        .map_err(|error| Exit::usage(format!("the input of «{}» {error}", add.name)))?;
    let schedule = add.when.schedule(&add.name, add.zone.as_deref())?;
    // Errors of the times are reported before the store is opened.
    schedule.times(Time::from(SystemTime::now()), 1)?;
    let schedule = schedule.overlap(overlap).catch_up(catch_up).jitter(add.jitter);
    let schedule = schedule.action_named(&add.action, payload);
    let body = add.body(&input);
    // With flows, so that inputs are checked.
    let builder = World::builder().flows(host_io(settings));
    match Place::of(settings).hands_with(settings, builder)? {
        Hands::Own(world) => {
            let done = world.schedules().put(schedule).wait();
            world.shutdown()?;
            let done =
                done.map_err(|error| Exit::failed(format!("schedule {}: {error}", add.name)))?;
            done?;
        }
        Hands::Server(server) => {
            server.send("PUT", &format!("/schedules/{}", encoded(&add.name)), Some(&body))?;
        }
    }
    print(&format!("{} is scheduled\n", add.name))
}

impl Add {
    /// In the shape of the HTTP API.
    fn body(&self, input: &Value) -> Value {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let zone = self.zone.as_deref().unwrap_or("UTC");
        let timing = match (&self.when.cron, self.when.every, self.when.at) {
            (Some(pattern), _, _) => json!({ "cron": { "pattern": pattern, "zone": zone } }),
            (_, Some(period), _) => json!({ "every": { "period_ms": ms(period) } }),
            (_, _, Some(time)) => json!({ "at": time.to_string() }),
            _ => json!({ "manual": {} }),
        };
        let catch_up = match span::duration(&self.catch_up) {
            Ok(window) => json!({ "all": { "window_ms": ms(window) } }),
            Err(_) => Value::from(self.catch_up.as_str()),
        };
        json!({
            "timing": timing, "action": self.action, "input": input, "overlap": self.overlap,
            "catch_up": catch_up, "jitter_ms": ms(self.jitter),
        })
    }
}

fn list(settings: &Settings, is_json: bool) -> Result<(), Exit> {
    let schedules = Place::of(settings).view()?.schedules("", LISTED)?;
    if is_json {
        let schedules: Vec<Value> = schedules.iter().map(json_of).collect();
        return print_json(&json!({ "schedules": schedules }));
    }
    if schedules.is_empty() {
        tell!("the store has no schedules");
        return Ok(());
    }
    let paint = Paint::stdout(settings.colour());
    let rows: Vec<Vec<String>> = schedules
        .iter()
        .map(|schedule| {
            let next = match (&schedule.paused, schedule.next) {
                (Some(paused), _) => paint.warn(&format!("paused by {}", one_line(&paused.by))),
                (None, Some(next)) => span::shown(next),
                (None, None) => String::new(),
            };
            let last = schedule.last.as_ref().map(|last| span::shown(last.at));
            let when = one_line(&schedule.timing.to_string());
            let (name, action) = (one_line(&schedule.name), one_line(&schedule.action));
            vec![name, when, next, last.unwrap_or_default(), action]
        })
        .collect();
    print(&table(paint, &["schedule", "when", "next", "last", "action"], &rows))
}

fn json_of(schedule: &ScheduleView) -> Value {
    let timing = match &schedule.timing {
        Timing::Cron { pattern, zone } => json!({ "cron": { "pattern": pattern, "zone": zone } }),
        Timing::Every { period_us, offset_us } => {
            json!({ "every": { "period_ms": period_us / 1_000, "offset_ms": offset_us / 1_000 } })
        }
        Timing::At(time) => json!({ "at": time.to_string() }),
        Timing::Manual => json!({ "manual": {} }),
        Timing::After { pause_us } => json!({ "after": { "pause_ms": pause_us / 1_000 } }),
    };
    json!({
        "name": schedule.name,
        "timing": timing,
        "action": schedule.action,
        "input": super::show::value(&schedule.input),
        "created_at": schedule.created_at.to_string(),
        "paused": schedule.paused.as_ref().map(|paused| {
            json!({ "at": paused.at.to_string(), "by": paused.by, "why": paused.why })
        }),
        "next": schedule.next.map(|time| time.to_string()),
        "last": schedule.last.as_ref().map(|last| last.at.to_string()),
        "problem": schedule.problem,
        "launched": schedule.counts.launched,
        "skipped": schedule.counts.skipped,
        "missed": schedule.counts.missed,
        "failed": schedule.counts.failed,
        "running": schedule.running.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "waiting": schedule.waiting,
    })
}

fn times(settings: &Settings, next: &Next) -> Result<(), Exit> {
    let now = Time::from(SystemTime::now());
    let count = next.count as usize;
    let times = match &next.name {
        None => next.when.schedule("preview", next.zone.as_deref())?.times(now, count)?,
        Some(name) => {
            let all = Place::of(settings).view()?.schedules("", LISTED)?;
            let found = all.iter().find(|schedule| schedule.name == *name);
            let found = found.ok_or_else(|| {
                Exit::not_found(format!("there is no schedule «{name}»"))
                    .advice("turnwheel schedule list shows those of the store")
            })?;
            found.times(now, count)
        }
    };
    if next.json {
        let times: Vec<String> = times.iter().map(ToString::to_string).collect();
        return print_json(&json!({ "times": times }));
    }
    times.iter().try_for_each(|time| print(&format!("{time}\n")))
}
