//! `turnwheel job`: cron jobs.

mod add;
mod all;
mod apply;
mod file;
mod follow;
mod next;

use clap_complete::engine::ArgValueCompleter;
use serde_json::{json, Value};
use turnwheel::engine::{World, WorldBuilder};
use turnwheel::flow::WithFlows;
use turnwheel::jobs::{
    show, Answer, Asking, Executors, JobError, JobSpec, Jobs, JobsOptions, Node, Notify, WithJobs,
};
use turnwheel::runtime::completion::block_on;
use turnwheel::runtime::Group;

use add::Add;
use all::{all, exported};
use file::read_one;

use super::complete;
use super::exit::Exit;
use super::format::{Listing, Output, Watch};
use super::outside::host_io;
use super::paint::{one_line, print, print_json};
use super::place::{Hands, Place};
use super::remote::{encoded, Remote};
use super::settings::{labels, Settings};

const AFTER_HELP: &str = "\
Examples:
  turnwheel job add backup --schedule '0 30 2 * * *' --zone Europe/Madrid --command /opt/backup
  turnwheel job add report --after backup --command /opt/report --overlap forbid --retries 2
  turnwheel job next backup --count 5
  turnwheel job history backup
  turnwheel job apply jobs.yaml
  turnwheel job history backup -f
  turnwheel job import --from dkron jobs.json

Jobs are launched while a server has the store (turnwheel serve). Exit codes: 0 done; 1 it failed;
2 wrong usage; 3 there is no such store, job or launch; 4 another process has the store and does not
serve it.";

/// Add, run and look at cron jobs.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Make a job, or change the one with its name.
    Add(Box<Add>),
    /// List all jobs, by name.
    List(Output),
    /// Show a job with its settings and state, as JSON or YAML.
    Show {
        /// The job.
        #[arg(add = ArgValueCompleter::new(complete::jobs))]
        name: String,
        #[command(flatten)]
        output: Output,
    },
    /// Launch a job now, also a disabled one.
    Run {
        /// The job.
        #[arg(add = ArgValueCompleter::new(complete::jobs))]
        name: String,
        /// Launch it whatever its overlap policy says.
        #[arg(long)]
        force: bool,
    },
    /// End a launch: what runs is cancelled with its process group.
    Cancel {
        /// The job.
        #[arg(add = ArgValueCompleter::new(complete::jobs))]
        name: String,
        /// Number of the launch.
        launch: u64,
    },
    /// Say the outcome of a launch that nobody knows, of a job with «unknown: ask».
    Answer {
        /// The job.
        #[arg(add = ArgValueCompleter::new(complete::jobs))]
        name: String,
        /// Number of the launch.
        launch: u64,
        /// What it was; retry begins a further attempt.
        #[arg(value_parser = ["succeeded", "failed", "retry"])]
        outcome: String,
    },
    /// Show the launches of a job, the newest first: runs, and reasons where there are none.
    History {
        /// The job.
        #[arg(add = ArgValueCompleter::new(complete::jobs))]
        name: String,
        /// Number of launches.
        #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 20,
              value_parser = clap::value_parser!(u32).range(1..=1_000))]
        count: u32,
        /// Print the output of the last run of this launch instead.
        #[arg(long, value_name = "LAUNCH")]
        output: Option<u64>,
        /// Print the output of the newest launch, or of that one, as it is written.
        #[arg(long, short = 'f')]
        follow: bool,
        #[command(flatten)]
        shown: Output,
    },
    /// Show the next times of a job.
    Next {
        /// The job.
        #[arg(add = ArgValueCompleter::new(complete::jobs))]
        name: String,
        /// Number of times.
        #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 10,
              value_parser = clap::value_parser!(u32).range(1..=1_000))]
        count: u32,
        #[command(flatten)]
        output: Output,
    },
    /// Change some settings of a job: those that are given, and those of the file.
    Edit(Box<Add>),
    /// Switch a job off; launches by hand are still possible.
    Pause {
        /// The job.
        #[arg(add = ArgValueCompleter::new(complete::jobs))]
        name: String,
    },
    /// Switch a job on.
    Resume {
        /// The job.
        #[arg(add = ArgValueCompleter::new(complete::jobs))]
        name: String,
    },
    /// Switch a job off if it is on, and on if it is off.
    Toggle {
        /// The job.
        #[arg(add = ArgValueCompleter::new(complete::jobs))]
        name: String,
    },
    /// Remove a job with its history.
    #[command(alias = "remove")]
    Rm {
        /// The job.
        #[arg(add = ArgValueCompleter::new(complete::jobs))]
        name: String,
    },
    /// Look at the executors of the node, plugins included.
    Executors(Output),
    /// Print all jobs as a JSON list, for job import.
    Export,
    /// Show what files of jobs would change, and change it: YAML or JSON, one job or several.
    Apply {
        /// The files; - for standard input.
        #[arg(required = true)]
        files: Vec<String>,
        /// Do not ask.
        #[arg(long, short = 'y')]
        yes: bool,
        /// Only show it.
        #[arg(long)]
        dry_run: bool,
    },
    /// Make the jobs of a file: a JSON list, or a backup of Dkron, or what its server has.
    Import {
        /// The file; - for standard input; with --from dkron also http://dkron:8080.
        file: String,
        /// Format of the file.
        #[arg(long, default_value = "turnwheel", value_parser = ["turnwheel", "dkron"])]
        from: String,
    },
}

/// Opens the jobs of a world, on a group of their own.
pub(crate) fn open(
    settings: &Settings,
    world: &World,
    executors: &Executors,
    is_at_rest: bool,
) -> Result<(Jobs, Group), Exit> {
    let group = Group::builder("jobs").workers(1).build();
    let group = group.map_err(|error| Exit::failed(format!("jobs: {error}")))?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "local" } else { host.trim() };
    let name = settings.text("jobs.node").or(settings.text("serve.node"));
    let node = Node::new(name.unwrap_or(host));
    // Labels that cannot be read are a problem of the settings, which were checked.
    let text = settings.text("jobs.labels").or(settings.text("serve.labels"));
    let labels = labels(text.unwrap_or_default()).unwrap_or_default();
    let node = labels.into_iter().fold(node, |node, (name, value)| node.label(name, value));
    let options = JobsOptions::new(executors).node(node);
    let options = match settings.text("jobs.notify") {
        Some(file) if !is_at_rest => {
            let list: Vec<Notify> = serde_json::from_value(read_one(file)?)
                .map_err(|error| Exit::usage(format!("jobs.notify: {file}: {error}")))?;
            options.notify(list)
        }
        _ => options,
    };
    let options = if is_at_rest { options.at_rest() } else { options };
    let opened = block_on(Jobs::open(world, &group, options));
    let opened = opened.map_err(|refused| Exit::failed(format!("jobs: {refused}")))?;
    Ok((opened?, group))
}

impl From<JobError> for Exit {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Unknown(_) | JobError::UnknownLaunch { .. } => {
                Self::not_found(error).advice("turnwheel job list shows the jobs of the store")
            }
            error => Self::failed(error),
        }
    }
}

fn done<T>(asked: Asking<T>) -> Result<T, Exit> {
    let answer = asked.wait().map_err(|error| Exit::failed(format!("jobs: {error}")))?;
    Ok(answer?)
}

/// A path of the server for a job.
fn path(name: &str, rest: &str) -> String {
    format!("/jobs/{}{rest}", encoded(name))
}

/// Answers in the shape of the API, from the store itself or from the server that has it.
fn ask(
    settings: &Settings,
    here: impl FnOnce(&Jobs, &str) -> Result<Value, Exit>,
    there: impl FnOnce(&Remote) -> Result<Value, Exit>,
) -> Result<Value, Exit> {
    ask_of(World::builder(), settings, here, there)
}

/// For jobs that are stored: the inputs of those that start a flow are checked.
fn with_flows(settings: &Settings) -> WorldBuilder {
    World::builder().flows(host_io(settings))
}

fn ask_of(
    builder: WorldBuilder,
    settings: &Settings,
    here: impl FnOnce(&Jobs, &str) -> Result<Value, Exit>,
    there: impl FnOnce(&Remote) -> Result<Value, Exit>,
) -> Result<Value, Exit> {
    let executors = host_io(settings).executors();
    let builder = builder.jobs(&executors);
    match Place::of(settings).hands_with(settings, builder)? {
        Hands::Server(server) => there(&server),
        Hands::Own(world) => {
            let (jobs, group) = open(settings, &world, &executors, true)?;
            let answer = here(&jobs, &settings.by());
            jobs.end();
            world.shutdown()?;
            let _ended = group.shutdown();
            answer
        }
    }
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    match &arguments.what {
        What::Add(add) => put(settings, add),
        What::List(output) => output.repeat(|| list(settings, output).map(|()| Watch::GoOn)),
        What::Show { name, output } => output.repeat(|| {
            output.json(name, &one(settings, name)?)?;
            Ok(Watch::GoOn)
        }),
        What::Run { name, force } => {
            let body = json!({ "force": force });
            let here =
                |jobs: &Jobs, by: &str| Ok(json!({ "launch": done(jobs.run(name, by, *force))? }));
            let path = path(name, "/run");
            let answer = ask(settings, here, |server| server.send("POST", &path, Some(&body)))?;
            print(&format!("{name} is launched: launch {}\n", answer["launch"]))
        }
        What::Cancel { name, launch } => {
            let body = json!({ "launch": launch });
            let here =
                |jobs: &Jobs, by: &str| Ok(show::job(&done(jobs.cancel(name, *launch, by))?));
            let path = path(name, "/cancel");
            ask(settings, here, |server| server.send("POST", &path, Some(&body)))?;
            print(&format!("launch {launch} of {name} is cancelled\n"))
        }
        What::Answer { name, launch, outcome } => {
            let answer: Answer = serde_json::from_value(json!(outcome))
                .map_err(|error| Exit::usage(format!("{outcome}: {error}")))?;
            let body = json!({ "launch": launch, "outcome": outcome });
            let here = |jobs: &Jobs, by: &str| {
                Ok(show::job(&done(jobs.answer(name, *launch, answer, by))?))
            };
            let path = path(name, "/answer");
            ask(settings, here, |server| server.send("POST", &path, Some(&body)))?;
            print(&format!("launch {launch} of {name}: {outcome}\n"))
        }
        What::History { name, output, follow: true, .. } => follow::follow(settings, name, *output),
        What::History { name, output: Some(launch), .. } => output(settings, name, *launch),
        What::History { name, count, shown, .. } => {
            shown.repeat(|| history(settings, name, *count, shown).map(|()| Watch::GoOn))
        }
        What::Next { name, count, output } => next::next(settings, name, *count, output),
        What::Edit(add) => edit(settings, add),
        What::Pause { name } => toggle(settings, name, Some(true)),
        What::Resume { name } => toggle(settings, name, Some(false)),
        What::Toggle { name } => toggle(settings, name, None),
        What::Rm { name } => {
            let here = |jobs: &Jobs, _: &str| Ok(show::job(&done(jobs.remove(name))?));
            let path = path(name, "");
            ask(settings, here, |server| server.send("DELETE", &path, None))?;
            print(&format!("{name} is removed\n"))
        }
        What::Executors(output) => executors(settings, output),
        What::Export => {
            let specs = all(settings)?.into_iter().map(exported);
            print_json(&Value::Array(specs.collect()))
        }
        What::Apply { files, yes, dry_run } => apply::apply(settings, files, *yes, *dry_run),
        What::Import { file, from } => file::import(settings, file, from == "dkron"),
    }
}

fn one(settings: &Settings, name: &str) -> Result<Value, Exit> {
    let here = |jobs: &Jobs, _: &str| Ok(show::job(&done(jobs.get(name))?));
    ask(settings, here, |server| server.send("GET", &path(name, ""), None))
}

fn put(settings: &Settings, add: &Add) -> Result<(), Exit> {
    let job = store(settings, vec![add.spec()?])?.remove(0)?;
    let next = job["next"].as_str().map_or_else(
        || "it has no time to come".to_owned(),
        |next| format!("its next time is {next}"),
    );
    print(&format!("{} is stored; {next}\n", add.name))
}

/// Changes a job as it is now; somebody else who is faster is not overwritten.
fn edit(settings: &Settings, add: &Add) -> Result<(), Exit> {
    let stored = one(settings, &add.name)?;
    let (spec, revision) = (add.spec_over(stored["spec"].clone())?, stored["revision"].as_u64());
    let body = serde_json::to_value(&spec).unwrap_or_default();
    let path = path(&spec.name, &format!("?revision={}", revision.unwrap_or(0)));
    let here = |jobs: &Jobs, by: &str| Ok(show::job(&done(jobs.put(spec.clone(), revision, by))?));
    let there = |server: &Remote| server.send("PUT", &path, Some(&body));
    let job = ask_of(with_flows(settings), settings, here, there)?;
    let is_same = job["revision"] == stored["revision"];
    print(&format!("{} is {}\n", add.name, if is_same { "as it was" } else { "changed" }))
}

fn toggle(settings: &Settings, name: &str, disabled: Option<bool>) -> Result<(), Exit> {
    let here = |jobs: &Jobs, by: &str| Ok(show::job(&done(jobs.toggle(name, disabled, by))?));
    let (path, body) = (path(name, "/toggle"), json!({ "disabled": disabled }));
    let job = ask(settings, here, |server| server.send("POST", &path, Some(&body)))?;
    let is_off = job["spec"]["disabled"].as_bool().unwrap_or(false);
    print(&format!("{name} is {}\n", if is_off { "off" } else { "on" }))
}

/// Stores jobs in their order; one that is refused leaves the others alone.
fn store(settings: &Settings, specs: Vec<JobSpec>) -> Result<Vec<Result<Value, Exit>>, Exit> {
    let mut outcomes: Vec<Result<Value, Exit>> = Vec::new();
    let mut others: Vec<Result<Value, Exit>> = Vec::new();
    let here = |jobs: &Jobs, by: &str| {
        for spec in &specs {
            outcomes.push(done(jobs.put(spec.clone(), None, by)).map(|view| show::job(&view)));
        }
        Ok(Value::Null)
    };
    let there = |server: &Remote| {
        for spec in &specs {
            let body = serde_json::to_value(spec).unwrap_or_default();
            let path = path(&spec.name, "");
            others.push(server.send("PUT", &path, Some(&body)));
        }
        Ok(Value::Null)
    };
    ask_of(with_flows(settings), settings, here, there)?;
    outcomes.append(&mut others);
    Ok(outcomes)
}

fn executors(settings: &Settings, output: &Output) -> Result<(), Exit> {
    let here = |jobs: &Jobs, _: &str| Ok(show::executors(jobs.executors(), true));
    let answer = ask(settings, here, |server| server.send("GET", "/job-executors", None))?;
    let all = answer["executors"].as_array().cloned().unwrap_or_default();
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|it| {
            let state = match it["is_ready"].as_bool() {
                Some(true) => "ready",
                Some(false) => "broken",
                None => "unknown",
            };
            vec![text(&it["name"]), state.to_owned(), text(&it["detail"])]
        })
        .collect();
    let listing = Listing {
        value: answer,
        headings: &["executor", "state", "detail"],
        wide: 0,
        rows,
        nothing: "there are no executors",
    };
    output.list(settings.colour(), listing)
}

fn text(value: &Value) -> String {
    one_line(value.as_str().unwrap_or_default())
}

fn list(settings: &Settings, output: &Output) -> Result<(), Exit> {
    let jobs = all(settings)?;
    let rows: Vec<Vec<String>> = jobs
        .iter()
        .map(|job| {
            let spec = &job["spec"];
            let is_off = spec["disabled"].as_bool().unwrap_or(false);
            let next = match job["problem"].as_str() {
                Some(problem) => one_line(problem),
                None if is_off => "off".to_owned(),
                None => text(&job["next"]),
            };
            let after = spec["after"].as_array().into_iter().flatten();
            let after: Vec<String> = after.map(|after| text(&after["job"])).collect();
            let when = match after.is_empty() {
                true => text(&spec["schedule"]),
                false => format!("{} after {}", text(&spec["schedule"]), after.join(", ")),
            };
            let (executor, overlap) = (text(&spec["executor"]), text(&spec["overlap"]));
            vec![text(&spec["name"]), when, next, text(&job["status"]), executor, overlap]
        })
        .collect();
    let listing = Listing {
        value: json!({ "jobs": jobs }),
        headings: &["job", "when", "next", "last", "executor", "overlap"],
        wide: 2,
        rows,
        nothing: "there are no jobs",
    };
    output.list(settings.colour(), listing)
}

fn history(settings: &Settings, name: &str, count: u32, output: &Output) -> Result<(), Exit> {
    let here = |jobs: &Jobs, _: &str| {
        let found = block_on(jobs.history(name, None, count as usize));
        let found = found.map_err(|refused| Exit::failed(format!("jobs: {refused}")))??;
        Ok(json!({ "launches": found.iter().map(show::launch).collect::<Vec<_>>() }))
    };
    let path = path(name, &format!("/history?limit={count}"));
    let answer = ask(settings, here, |server| server.send("GET", &path, None))?;
    let launches = answer["launches"].as_array().cloned().unwrap_or_default();
    let rows: Vec<Vec<String>> = launches
        .iter()
        .map(|launch| {
            let runs = launch["runs"].as_array().map_or(0, Vec::len);
            let (id, times) = (launch["id"].to_string(), launch["times"].as_u64().unwrap_or(1));
            let state = match times {
                1 => text(&launch["state"]),
                times => format!("{} {times} times", text(&launch["state"])),
            };
            vec![id, text(&launch["planned"]), state, runs.to_string(), text(&launch["reason"])]
        })
        .collect();
    let listing = Listing {
        value: answer,
        headings: &["launch", "planned", "state", "runs", "reason"],
        wide: 0,
        rows,
        nothing: "the job was not launched yet",
    };
    output.list(settings.colour(), listing)
}

fn output(settings: &Settings, name: &str, launch: u64) -> Result<(), Exit> {
    let here = |jobs: &Jobs, _: &str| {
        let refused = |refused| Exit::failed(format!("jobs: {refused}"));
        let found = block_on(jobs.launch(name, launch)).map_err(refused)??;
        let output = match found.runs.last() {
            Some(run) => block_on(jobs.output(run)).map_err(refused)??,
            None => found.reason.clone(),
        };
        Ok(json!({ "output": output }))
    };
    let path = path(name, &format!("/launches/{launch}/output"));
    let answer = ask(settings, here, |server| server.send("GET", &path, None))?;
    print(answer["output"].as_str().unwrap_or_default())
}
