//! `turnwheel run`: one flow in this process, to its end; and the resume of an interrupted one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{bounded, Receiver, RecvTimeoutError, Sender};
use serde_json::{json, Value};
use turnwheel::api::PlanDetail;
use turnwheel::engine::{
    BuildError, Opening, PlanHandle, PlanId, PlanState, PlanView, StoreError, TriggerOptions, World,
};
use turnwheel::flow::{self, Flow, FlowError, Flows, WithFlows};
use turnwheel::io::HostIo;
use turnwheel::key;
use turnwheel::runtime::completion::block_on;

use super::check::text_of;
use super::event::read_json;
use super::exit::Exit;
use super::interrupt;
use super::outside::host_io;
use super::paint::{print, tell};
use super::place::{self, Place};
use super::progress::Progress;
use super::remote::Remote;
use super::settings::Settings;
use super::traces;
use super::words::plain;

/// Interval of progress updates.
const SHOWN: Duration = Duration::from_millis(100);

/// Time for commands to end when this process is interrupted.
const COMMANDS: Duration = Duration::from_secs(30);

/// Time that an interrupted world waits for running code.
const PATIENCE: Duration = Duration::from_millis(300);

const AFTER_HELP: &str = "\
The flow runs in this process, and what it has done is in the store. Ctrl-C stops it where it is; it
goes on with turnwheel resume, also after kill -9 or a loss of power. Other plans of the store are left
alone. If a server has the store, it runs the flow. The result is printed as JSON; messages and progress go to standard error.

Examples:
  turnwheel run examples/flows/audit.yaml --input '{\"directory\": \"examples/data\"}'
  turnwheel run report.yaml --input @input.json > result.json
  turnwheel run report.yaml --key 2026-11-21      begins once: the same key again gives the same plan
  turnwheel run report.yaml --detach              a server runs it; prints the plan
  turnwheel resume last                           goes on with what was interrupted

Exit codes: 0 it ended well; 1 it has failed, or was cancelled; 2 wrong usage, or a flow that is wrong;
4 another process has the store and does not serve it; 130 interrupted; 143 terminated.";

/// Run a flow to its end, with its progress on standard error and its result on standard output.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The file with the flow: Serverless Workflow DSL 1.0, YAML or JSON; - for standard input.
    file: PathBuf,

    /// Its input: JSON, @FILE, or - for standard input.
    #[arg(long, short, value_name = "JSON", default_value = "{}")]
    input: String,

    /// An idempotency key: if a plan has it, that plan continues.
    #[arg(long)]
    key: Option<String>,

    /// A label of the plan, to find it by.
    #[arg(long, value_name = "NAME[=VALUE]")]
    label: Vec<String>,

    /// Let the flow start by itself from now on too, as its «schedule» says.
    #[arg(long)]
    schedule: bool,

    /// Collector that gets the steps as traces, OTLP over HTTP, such as <http://localhost:4318>.
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,

    /// Print the plan and do not wait for its end: a server runs it.
    #[arg(long, short, conflicts_with = "quiet")]
    detach: bool,

    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let exporter = traces::start(settings, arguments.otlp.as_deref())?;
    let outcome = load_and_run(settings, arguments);
    traces::end(exporter);
    outcome
}

fn load_and_run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let path = arguments.file.display().to_string();
    if path == "-" && arguments.input == "-" {
        return Err(Exit::usage("the flow and its input cannot both come from standard input")
            .advice("give one of them as a file"));
    }
    let text = text_of(&arguments.file)?;
    let flow = flow::load(&text, &path).map_err(Exit::usage)?;
    let input = read_json(&arguments.input)?;
    tell_of_schedule(&flow, arguments.schedule)?;
    let mut options = TriggerOptions::new().by(settings.by());
    if let Some(key) = &arguments.key {
        options = options.key(key::scoped(&settings.by(), key));
    }
    for text in &arguments.label {
        let (name, value) = label(text);
        options = options.label(name, value);
    }
    let (world, io) = match open(settings)? {
        Runner::Here(world, _) if arguments.detach => {
            world.shutdown()?;
            return Err(place::no_server(NO_SERVER));
        }
        Runner::Here(world, io) => (world, io),
        Runner::Server(server) => {
            return run_there(settings, arguments, &server, (&flow, text), &input)
        }
    };
    let begun = || -> Result<PlanHandle, Exit> {
        let flows = Flows::new(&world).map_err(Exit::failed)?;
        let flow = flows.resolve(&flow).map_err(Exit::failed)?;
        let added = block_on(flows.add(&flow)).map_err(Exit::failed)?;
        added.map_err(|error| match &error {
            FlowError::Exists(_) => Exit::failed(&error).advice(
                "raise document.version in the file, or take another store with --store FILE",
            ),
            _ => Exit::failed(&error),
        })?;
        if arguments.schedule {
            block_on(flows.schedule(&flow)).map_err(Exit::failed)?.map_err(Exit::failed)?;
        }
        flows.start_with(&flow, input, options).wait().map_err(Exit::failed)
    };
    let plan = match begun() {
        Ok(plan) => plan,
        Err(exit) => {
            world.shutdown()?;
            return Err(exit);
        }
    };
    if arguments.key.is_some() {
        // It may be an interrupted plan.
        world.go_on(plan.id());
    }
    see_through(&world, &io, &plan, arguments.quiet)
}

/// A label as it is typed: `NAME` or `NAME=VALUE`.
pub(super) fn label(text: &str) -> (String, String) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (name.to_owned(), value.to_owned())
}

/// Says whether the flow starts by itself from now on.
fn tell_of_schedule(flow: &Flow, is_wanted: bool) -> Result<(), Exit> {
    match (flow.source().get("schedule").is_some(), is_wanted) {
        (true, true) => {
            flow.check_schedule().map_err(Exit::failed)?;
            tell!("turnwheel: from now on {} starts by itself, as its «schedule» says", flow.id());
        }
        (true, false) => tell!(
            "turnwheel: {} has a «schedule», which is not begun: --schedule begins it",
            flow.id()
        ),
        (false, true) => {
            let message = format!("{} has no «schedule»", flow.id());
            return Err(Exit::usage(message).advice("leave out --schedule"));
        }
        (false, false) => {}
    }
    Ok(())
}

/// Has the server run a flow, and waits for its end.
fn run_there(
    settings: &Settings,
    arguments: &Arguments,
    server: &Remote,
    (flow, text): (&Flow, String),
    input: &Value,
) -> Result<(), Exit> {
    let path = if arguments.schedule { "/flows" } else { "/flows?schedule=false" };
    server.post(path, "application/yaml", text, None)?;
    let labels: BTreeMap<String, String> = arguments.label.iter().map(|text| label(text)).collect();
    let (namespace, name, version) = (flow.namespace(), flow.name(), flow.version());
    let path = format!("/flows/{namespace}/{name}/{version}/start");
    let body = json!({ "input": input, "labels": labels }).to_string();
    let started = server.post(&path, "application/json", body, arguments.key.as_deref())?;
    if arguments.detach {
        return print_id(&started);
    }
    follow_there(settings, server, &started, arguments.quiet)
}

/// Prints the plan that a server has started.
pub(super) fn print_id(started: &Value) -> Result<(), Exit> {
    print(&format!("{}\n", started["id"].as_str().unwrap_or_default()))
}

/// Nobody else runs a plan that this process does not wait for.
pub(super) const NO_SERVER: &str = "--detach leaves the plan to a server, and none has the store";

/// Waits for the end of a plan that the server has started.
fn follow_there(
    settings: &Settings,
    server: &Remote,
    started: &Value,
    is_quiet: bool,
) -> Result<(), Exit> {
    let id = started["id"].as_str().unwrap_or_default();
    let id: PlanId = id.parse().map_err(|error| {
        Exit::failed(format!("the server {} has answered no plan: {error}", server.address()))
    })?;
    if !is_quiet {
        tell!("plan {id}; {} runs it, also when this command is stopped", server.address());
    }
    if settings.asks_server() {
        let plan = server.ask(|client| client.wait(&id.to_string()))?;
        return print(&format!("{:#}\n", result_there(&plan)?));
    }
    let place = Place::of(settings);
    let mut view = place.view()?;
    loop {
        // Checked first: a server may end the plan, and then itself.
        let is_served = place.is_served()?;
        let plan = view.plan(id)?;
        if matches!(plan.state, PlanState::Stopped | PlanState::Paused) {
            return print(&format!("{:#}\n", result(&plan)?));
        }
        if !is_served {
            let message =
                format!("the server {} has ended, and plan {id} not yet", server.address());
            let advice = format!(
                "it goes on with the next turnwheel serve, or here with: turnwheel resume {id}"
            );
            return Err(Exit::failed(message).advice(advice));
        }
        thread::sleep(SHOWN);
    }
}

/// Starts a plan in this process, or has the server of the store start it; and shows it to its end.
pub(super) fn start_and_show(
    settings: &Settings,
    is_quiet: bool,
    here: impl FnOnce(&World) -> Result<PlanHandle, Exit>,
    there: impl FnOnce(&Remote) -> Result<Value, Exit>,
) -> Result<(), Exit> {
    let (world, io) = match open(settings)? {
        Runner::Here(world, io) => (world, io),
        Runner::Server(server) => {
            let started = there(&server)?;
            return follow_there(settings, &server, &started, is_quiet);
        }
    };
    match here(&world) {
        Ok(plan) => {
            // It may have been started and interrupted before.
            world.go_on(plan.id());
            see_through(&world, &io, &plan, is_quiet)
        }
        Err(exit) => {
            world.shutdown()?;
            Err(exit)
        }
    }
}

/// Continues a plan in this process, and shows it to its end.
pub(crate) fn go_on(settings: &Settings, id: PlanId) -> Result<(), Exit> {
    let (world, io) = match open(settings)? {
        Runner::Here(world, io) => (world, io),
        Runner::Server(server) => {
            let message =
                format!("the server {} has the store and runs its plans", server.address());
            return Err(
                Exit::failed(message).advice("turnwheel logs PLAN --follow shows what it does")
            );
        }
    };
    let plan = world.plan(id);
    let view = plan.view().wait();
    let resumed = match view {
        Ok(view) if view.state == PlanState::Paused => {
            let asked = plan.resume(&settings.by()).wait().map_err(Exit::failed);
            asked.and_then(|done| Ok(done?))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    };
    if let Err(exit) = resumed {
        world.shutdown()?;
        return Err(exit);
    }
    world.go_on(id);
    let heard = Flows::new(&world).map(|flows| block_on(async { flows.hear(id).await }));
    if let Ok(Ok(Err(error))) = heard {
        tell!("turnwheel: plan {id} hears no events of other flows: {error}");
    }
    see_through(&world, &io, &plan, false)
}

/// The result of a plan of a server.
fn result_there(plan: &PlanDetail) -> Result<Value, Exit> {
    let summary = &plan.summary;
    let has_ended = summary.state == PlanState::Stopped.name();
    if has_ended && matches!(summary.result.as_str(), "success" | "warning") {
        return Ok(plan.output.clone());
    }
    let id = &summary.id;
    let why = summary.error.as_ref().or(summary.waits_for.as_ref());
    let why = why.map_or_else(|| summary.result.clone(), |why| plain(why));
    let state = if has_ended { "" } else { "it is paused: " };
    Err(Exit::failed(format!("plan {id}: {state}{why}")).advice(format!(
        "turnwheel show {id} tells what it has done, turnwheel retry {id} starts it from its \
             failed task"
    )))
}

/// A world that continues no plan by itself, over the store of the settings.
pub(super) fn open(settings: &Settings) -> Result<Runner, Exit> {
    if settings.asks_server() {
        return Remote::new("", settings).map(Runner::Server);
    }
    let store = Place::writable(settings)?;
    let io = host_io(settings);
    let builder = World::builder().flows(io.clone()).opening(Opening::OnRequest);
    match builder.build(store) {
        Ok(world) => {
            place::note(&world);
            Ok(Runner::Here(world, io))
        }
        Err(BuildError::Store(StoreError::InUse { holder, .. })) => {
            Place::of(settings).server(&holder, settings).map(Runner::Server)
        }
        Err(error) => Err(Place::of(settings).refused(error)),
    }
}

/// The process that runs a flow.
pub(super) enum Runner {
    /// This process.
    Here(World, HostIo),
    /// The server that has the store.
    Server(Remote),
}

enum News {
    Over(Result<Box<PlanView>, Exit>),
    /// By a signal, with the exit code of it.
    Interrupted(u8),
}

/// Shows a plan until it is over, or the user interrupts.
fn see_through(world: &World, io: &HostIo, plan: &PlanHandle, is_quiet: bool) -> Result<(), Exit> {
    let id = plan.id();
    // One end and one interrupt: neither ever waits for a place.
    let (told, news) = bounded(2);
    // Without a handler an interrupt ends the process as kill does: nothing durable is lost.
    let (interrupted, mut is_again) = (told.clone(), false);
    interrupt::on_signal(move |code| {
        if std::mem::replace(&mut is_again, true) {
            // The guards end the remaining commands at the end of this process.
            tell!("turnwheel: interrupted again; the flow goes on with: turnwheel resume {id}");
            std::process::exit(code.into());
        }
        drop(interrupted.send(News::Interrupted(code)));
    });
    watch(plan, told)?;
    let mut progress = Progress::new(id, is_quiet);
    let outcome = wait(world, plan, &news, &mut progress);
    progress.clear();
    match outcome {
        News::Over(view) => {
            let ended = view.and_then(|view| result(&view));
            world.shutdown()?;
            print(&format!("{:#}\n", ended?))
        }
        News::Interrupted(code) => {
            let stopped = world.shutdown_within(PATIENCE);
            // Their results do not count; they must not run beside the next attempt.
            let mut have_ended = io.end(PATIENCE);
            if !have_ended {
                tell!(
                    "turnwheel: commands that run are asked to end; Ctrl-C again ends them at once"
                );
                have_ended = io.end(COMMANDS);
            }
            if stopped.is_err() || !have_ended {
                tell!("turnwheel: what runs now is interrupted, and begins anew when the flow goes on");
            }
            let message = format!("interrupted; the flow goes on with: turnwheel resume {id}");
            Err(Exit::new(code, message))
        }
    }
}

fn watch(plan: &PlanHandle, told: Sender<News>) -> Result<(), Exit> {
    let finished = plan.finished();
    let watching = thread::Builder::new().name("watch".to_owned()).spawn(move || {
        let view = finished.wait().map(Box::new).map_err(Exit::from);
        // After an interrupt there is no receiver.
        let _gone = told.send(News::Over(view));
    });
    watching.map(drop).map_err(|error| Exit::failed(format!("no thread to wait with: {error}")))
}

fn wait(world: &World, plan: &PlanHandle, news: &Receiver<News>, progress: &mut Progress) -> News {
    loop {
        match news.recv_timeout(SHOWN) {
            Ok(news) => return news,
            Err(RecvTimeoutError::Disconnected) => {
                return News::Over(Err(Exit::failed("nobody watches the plan any longer")));
            }
            Err(RecvTimeoutError::Timeout) if progress.is_shown() => {
                // A plan that cannot be seen now may be seen later.
                if let Ok(view) = plan.view().wait() {
                    progress.show(world, &view);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// The result of a plan.
fn result(view: &PlanView) -> Result<Value, Exit> {
    let id = view.id;
    if view.state == PlanState::Paused {
        let why = plain(&view.waits_for());
        return Err(Exit::failed(format!("plan {id} is paused: {why}")).advice(
            "turnwheel retry or skip deals with its failed steps, turnwheel resume goes on",
        ));
    }
    flow::result(view).map_err(|error| {
        Exit::failed(format!("plan {id}: {}", plain(&error.to_string()))).advice(format!(
            "turnwheel show {id} tells what it has done, turnwheel retry {id} starts it from its \
                 failed task"
        ))
    })
}
