//! `turnwheel schedule`: launches at given times.

use std::time::{Duration, SystemTime};

use clap_complete::engine::ArgValueCompleter;
use serde_json::{json, Value};
use turnwheel::engine::schedule::{CatchUp, Overlap, Schedule};
use turnwheel::engine::{Action, Payload, Time, World, WorldBuilder};
use turnwheel::flow::{FlowPlan, WithFlows};
use turnwheel::jobs::WithJobs;

use super::complete;
use super::event::read_json;
use super::exit::Exit;
use super::flow;
use super::format::{Listing, Output, Watch};
use super::outside::host_io;
use super::paint::{one_line, print, tell, Paint};
use super::place::{Hands, Place};
use super::remote::encoded;
use super::schedule_text::{self, when};
use super::settings::Settings;
use super::source::Source;
use super::span;

/// Schedules that are listed, at most.
const LISTED: usize = 100_000;

const AFTER_HELP: &str = "\
Examples:
  turnwheel schedule list
  turnwheel schedule add nightly --cron '0 3 * * *' --zone Europe/Berlin --action report --input '{}'
  turnwheel schedule add nightly --cron '0 3 * * *' --zone Europe/Berlin --flow guide/report
  turnwheel schedule next nightly --count 5
  turnwheel schedule trigger nightly
  turnwheel schedule backfill nightly --from 2026-11-01T00:00:00Z --until 2026-11-08T00:00:00Z
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
    List(Output),
    /// Show a schedule with its settings and its launches.
    Show {
        /// The schedule.
        #[arg(add = ArgValueCompleter::new(complete::schedules))]
        name: String,
        #[command(flatten)]
        output: Output,
    },
    /// Make a schedule, or change the one with its name.
    Add(Add),
    /// Launch nothing more until the schedule is unpaused.
    Pause {
        /// The schedule.
        #[arg(add = ArgValueCompleter::new(complete::schedules))]
        name: String,
        /// Reason for the pause, for readers.
        #[arg(long, default_value = "")]
        why: String,
    },
    /// Launch again; times that have passed meanwhile are not made up for.
    Unpause {
        /// The schedule.
        #[arg(add = ArgValueCompleter::new(complete::schedules))]
        name: String,
    },
    /// Remove a schedule; its plans that are under way go on.
    #[command(alias = "remove")]
    Rm {
        /// The schedule.
        #[arg(add = ArgValueCompleter::new(complete::schedules))]
        name: String,
    },
    /// Launch now, regardless of the overlap policy; prints the plan.
    Trigger {
        /// The schedule.
        #[arg(add = ArgValueCompleter::new(complete::schedules))]
        name: String,
    },
    /// Launch the times in a range, such as those of an outage.
    Backfill {
        /// The schedule.
        #[arg(add = ArgValueCompleter::new(complete::schedules))]
        name: String,
        /// The first time (RFC 3339), or how long ago (2h, 7d).
        #[arg(long, value_name = "TIME", value_parser = span::moment)]
        from: Time,
        /// The time after the last one.
        #[arg(long, value_name = "TIME", value_parser = span::moment)]
        until: Time,
    },
    /// Show the next times of a schedule, or of a pattern.
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
    #[arg(long, conflicts_with = "flow")]
    action: Option<String>,

    /// The flow that is started: its name, namespace/name, or with :version; the newest version now
    /// if none is said.
    #[arg(long, value_name = "FLOW", add = ArgValueCompleter::new(complete::flows))]
    flow: Option<String>,

    /// Its input: JSON, @FILE, or - for standard input [default: null, of a flow {}].
    #[arg(long, value_name = "JSON")]
    input: Option<String>,

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
    #[arg(required_unless_present_any = ["cron", "every", "at"], conflicts_with_all = ["cron", "every", "at"],
          add = ArgValueCompleter::new(complete::schedules))]
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

    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    match &arguments.what {
        What::List(output) => output.repeat(|| list(settings, output).map(|()| Watch::GoOn)),
        What::Show { name, output } => output.repeat(|| {
            let all = Source::of(settings)?.schedules()?;
            let found = all.into_iter().find(|schedule| schedule.name == *name);
            let found = found.ok_or_else(|| unknown(name))?;
            let paint = Paint::stdout(settings.colour());
            output.one(name, &json!(found), || schedule_text::text(paint, &found))?;
            Ok(Watch::GoOn)
        }),
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
        What::Trigger { name } => {
            let answer = ask_server(settings, name, "/trigger", None)?;
            print(&format!("{}\n", answer["id"].as_str().unwrap_or_default()))
        }
        What::Backfill { name, from, until } => {
            let body = json!({ "from": from.to_string(), "until": until.to_string() });
            let answer = ask_server(settings, name, "/backfill", Some(&body))?;
            print(&format!("{name} makes up for {} times\n", answer["times"]))
        }
        What::Rm { name } => {
            change(settings, name, "DELETE", "", None, |world, _| {
                world.schedules().remove(name).wait()
            })?;
            print(&format!("{name} is removed\n"))
        }
    }
}

/// Asks the server for launches: plans run there.
fn ask_server(
    settings: &Settings,
    name: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, Exit> {
    let without = "schedules launch while a server has the store, and none has";
    let server = Place::of(settings).server_of(settings, without)?;
    let path = format!("/schedules/{}{path}", encoded(name));
    server.send("POST", &path, body)
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
    let (action, input) = add.started(settings)?;
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
    let schedule = schedule.action_named(&action, payload);
    let body = add.body(&action, &input);
    match Place::of(settings).hands_with(settings, as_served(settings))? {
        Hands::Own(world) => {
            let done = world.schedules().put(schedule).wait();
            let is_known = world.actions().iter().any(|known| known.name == action);
            world.shutdown()?;
            let done =
                done.map_err(|error| Exit::failed(format!("schedule {}: {error}", add.name)))?;
            done?;
            if !is_known {
                // It may be one of another program that works on this file.
                tell!(
                    "turnwheel: «turnwheel serve» has no action «{}»: each launch fails unless the \
                     program that serves this store has it",
                    one_line(&action)
                );
            }
        }
        Hands::Server(server) => {
            server.send("PUT", &format!("/schedules/{}", encoded(&add.name)), Some(&body))?;
        }
    }
    print(&format!("{} is scheduled\n", add.name))
}

/// A world with the actions of `turnwheel serve`, so that inputs are checked.
fn as_served(settings: &Settings) -> WorldBuilder {
    let io = host_io(settings);
    let builder = World::builder().jobs(&io.executors()).flows(io);
    #[cfg(feature = "server")]
    let builder = turnwheel::work::WithWorkers::workers(builder, &turnwheel::work::Workers::new());
    builder
}

impl Add {
    /// The action that is started, and its input.
    fn started(&self, settings: &Settings) -> Result<(String, Value), Exit> {
        let input = self.input.as_deref().map(read_json).transpose()?;
        match (&self.flow, &self.action) {
            (Some(name), _) => {
                let flow = flow::named(settings, name)?;
                let start = flow.start(input.unwrap_or_else(|| json!({})));
                let start = serde_json::to_value(start).map_err(Exit::failed)?;
                Ok((FlowPlan::NAME.to_owned(), start))
            }
            (None, Some(action)) => Ok((action.clone(), input.unwrap_or(Value::Null))),
            (None, None) => Err(Exit::usage(format!("{} starts nothing", self.name))
                .advice("say what it starts with --flow FLOW or --action ACTION")),
        }
    }

    /// In the shape of the HTTP API.
    fn body(&self, action: &str, input: &Value) -> Value {
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
            "timing": timing, "action": action, "input": input, "overlap": self.overlap,
            "catch_up": catch_up, "jitter_ms": ms(self.jitter),
        })
    }
}

/// The error for a name without a schedule.
fn unknown(name: &str) -> Exit {
    Exit::not_found(format!("there is no schedule «{name}»"))
        .advice("turnwheel schedule list shows those of the store")
}

fn list(settings: &Settings, output: &Output) -> Result<(), Exit> {
    let schedules = Source::of(settings)?.schedules()?;
    let paint = Paint::stdout(settings.colour());
    let rows: Vec<Vec<String>> = schedules
        .iter()
        .map(|schedule| {
            let next = match (&schedule.paused, &schedule.next) {
                (Some(paused), _) => paint.warn(&format!("paused by {}", one_line(&paused.by))),
                (None, Some(next)) => span::shown(next),
                (None, None) => String::new(),
            };
            let last = schedule.last.as_ref().map(|last| span::shown(&last.at));
            let starts = match schedule.spec.input["flow"].as_str() {
                Some(flow) if schedule.spec.action == FlowPlan::NAME => one_line(flow),
                _ => one_line(&schedule.spec.action),
            };
            let when = one_line(&when(&schedule.spec.timing));
            let counts = format!(
                "{} launched, {} skipped, {} missed, {} failed",
                schedule.launched, schedule.skipped, schedule.missed, schedule.failed
            );
            vec![one_line(&schedule.name), when, next, last.unwrap_or_default(), starts, counts]
        })
        .collect();
    let listing = Listing {
        value: json!({ "schedules": schedules, "next": null }),
        headings: &["schedule", "when", "next", "last", "starts", "counts"],
        wide: 1,
        rows,
        nothing: "the store has no schedules",
    };
    output.list(settings.colour(), listing)
}

fn times(settings: &Settings, next: &Next) -> Result<(), Exit> {
    let now = Time::from(SystemTime::now());
    let count = next.count as usize;
    let times: Vec<String> = match &next.name {
        None => {
            let schedule = next.when.schedule("preview", next.zone.as_deref())?;
            schedule.times(now, count)?.iter().map(ToString::to_string).collect()
        }
        Some(name) => match Source::of(settings)? {
            Source::Server(server) => {
                let path = format!("/schedules/{}/times?limit={count}", encoded(name));
                let found = server.send("GET", &path, None)?;
                serde_json::from_value(found["times"].clone()).map_err(Exit::failed)?
            }
            mut source => {
                let all = source.store()?.schedules("", LISTED)?;
                let found = all.iter().find(|schedule| schedule.name == *name);
                let found = found.ok_or_else(|| unknown(name))?;
                found.times(now, count).iter().map(ToString::to_string).collect()
            }
        },
    };
    next.output.times(&json!({ "times": times }))
}
