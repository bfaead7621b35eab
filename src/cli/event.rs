//! `turnwheel event`: events for steps that wait.

use std::fs;
use std::io::Read;

use clap_complete::engine::ArgValueCompleter;
use serde_json::{json, Value};
use turnwheel::api::EventsDone;
use turnwheel::engine::{PlanId, StepId, StepKind, StepState, World};
use turnwheel::flow::{CloudEvent, Flows, WithFlows};
use turnwheel::runtime::completion::block_on;

use super::complete;
use super::exit::Exit;
use super::find::PlanRef;
use super::outside::host_io;
use super::paint::{count, print, print_json, tell};
use super::place::{Hands, Place};
use super::settings::Settings;
use super::source::Source;

/// Maximum bytes read from standard input or a file: the limit of an event.
const EVENT_MAX: u64 = turnwheel::engine::limits::PAYLOAD_BYTES_MAX as u64;

const AFTER_HELP: &str = "\
If a server has the store it is asked; else the event is stored, and the step gets it when the plan
goes on (turnwheel resume, run or serve).

Examples:
  turnwheel event send last '{\"approved\": true}'
  turnwheel event send 398f --step 3 @decision.json
  jq -n '{approved: true}' | turnwheel event send 398f - --id decision-7

Exit codes: 0 the event is durable; 1 it was refused; 2 wrong usage; 3 there is no such store, plan or
step; 4 another process has the store and does not serve it.";

const EMIT_HELP: &str = "\
Examples:
  turnwheel event emit org.example.audit.approved '{\"by\": \"Ann\"}'
  turnwheel event emit org.example.order.paid @order.json --source https://shop.example --id o-7

An event that nobody waits for is gone: it is said, and no failure. One that all who wait had got before
changes nothing, and that is said too. Exit codes: 0 it is durable with all
who wait; 1 it failed; 2 wrong usage; 3 there is no such store; 4 another process has the store and
does not serve it.";

/// Send events to steps that wait for them, or emit them for flows.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Send an event to a step.
    Send(Send),
    /// Emit an event of CloudEvents 1.0 for the flows that listen for it, or begin with it.
    #[command(after_help = EMIT_HELP)]
    Emit(Emit),
}

#[derive(Debug, clap::Args)]
struct Emit {
    /// Type of the event, such as org.example.order.paid.
    #[arg(value_name = "TYPE")]
    kind: String,

    /// Its data: JSON, @FILE to read a file, - for standard input.
    #[arg(value_name = "JSON")]
    data: Option<String>,

    /// Source of the event: a URI.
    #[arg(long, value_name = "URI", default_value = "urn:turnwheel:command-line")]
    source: String,

    /// Subject of the event.
    #[arg(long)]
    subject: Option<String>,

    /// With the source it is unique: the same event again changes nothing [default: a new one].
    #[arg(long)]
    id: Option<String>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Send {
    /// The plan.
    #[arg(add = ArgValueCompleter::new(complete::plans))]
    plan: PlanRef,

    /// Data of the event: JSON, @FILE to read a file, - for standard input.
    #[arg(value_name = "JSON", default_value = "null")]
    event: String,

    /// The step; by default the waiting one, if there is only one.
    #[arg(long, value_name = "STEP")]
    step: Option<u32>,

    /// Id of the event: a second event with the same id is dropped.
    #[arg(long)]
    id: Option<String>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    match &arguments.what {
        What::Send(event) => send(settings, event),
        What::Emit(event) => emit(settings, event),
    }
}

fn emit(settings: &Settings, emit: &Emit) -> Result<(), Exit> {
    let id = emit.id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let mut event = json!({
        "specversion": "1.0", "id": id, "source": emit.source, "type": emit.kind,
    });
    if let Some(data) = &emit.data {
        event["data"] = read_json(data)?;
    }
    if let Some(subject) = &emit.subject {
        event["subject"] = Value::from(subject.as_str());
    }
    let known = CloudEvent::from_value(event.clone()).map_err(Exit::usage)?;
    let builder = World::builder().flows(host_io(settings));
    let done = match Place::of(settings).hands_with(settings, builder)? {
        Hands::Own(world) => {
            let published = Flows::new(&world).map(|flows| block_on(flows.publish(known)));
            world.shutdown()?;
            let published = published.map_err(Exit::failed)?.map_err(Exit::failed)?;
            let published = published.map_err(Exit::failed)?;
            Emitted {
                is_repeated: published.is_repeated(),
                delivered: published.delivered,
                undecided: published.undecided,
                repeated: published.repeated,
                started: published.started.iter().map(PlanId::to_string).collect(),
            }
        }
        Hands::Server(server) => {
            let kind = "application/cloudevents+json";
            let done = server.post("/events", kind, event.to_string(), None)?;
            let done: EventsDone = serde_json::from_value(done)
                .map_err(|error| Exit::failed(format!("the answer of the server: {error}")))?;
            Emitted {
                is_repeated: done.each.first().is_some_and(|event| event.is_repeated),
                delivered: done.delivered as usize,
                undecided: done.undecided as usize,
                repeated: done.repeated as usize,
                started: done.started,
            }
        }
    };
    let Emitted { is_repeated, delivered, undecided, repeated, started } = done;
    if emit.json {
        return print_json(&json!({
            "id": id, "is_repeated": is_repeated, "delivered": delivered, "undecided": undecided,
            "repeated": repeated, "started": started,
        }));
    }
    if delivered == 0 && repeated == 0 && started.is_empty() {
        tell!("nobody waits for {}: the event is gone", emit.kind);
    }
    let steps = count(delivered, "step");
    let open = match undecided {
        0 => String::new(),
        1 => " (1 decides itself whether it is meant)".to_owned(),
        some => format!(" ({some} decide themselves whether it is meant)"),
    };
    let plans = count(started.len(), "plan");
    let known = match (is_repeated, repeated) {
        (_, 0) => String::new(),
        (false, some) => format!(", had it before: {some}"),
        (true, some) => {
            format!(", had it before: {some} (it is a repeat, and has changed nothing)")
        }
    };
    print(&format!("delivered to {steps}{open}, begun with it: {plans}{known}\n"))
}

/// Outcome of an emitted event.
struct Emitted {
    is_repeated: bool,
    delivered: usize,
    undecided: usize,
    repeated: usize,
    started: Vec<String>,
}

fn send(settings: &Settings, send: &Send) -> Result<(), Exit> {
    let event = read_json(&send.event)?;
    let place = Place::of(settings);
    let mut source = Source::of(settings)?;
    let plan = send.plan.find(&mut source)?;
    if let Some(server) = place.served_by(settings)? {
        // The server knows steps that are not in the file yet.
        source = Source::Server(server);
    }
    let step = match send.step {
        Some(step) => StepId(step),
        None => the_one(plan, &waiting(&mut source, plan)?)?,
    };
    if matches!(source, Source::Store(..)) {
        source.step(plan, step.0)?;
    }
    match place.hands(settings)? {
        Hands::Own(world) => {
            let by = settings.by();
            let sent = world.event_by(plan, step, send.id.as_deref(), &event, &by).wait();
            let sent = sent.map_err(|error| Exit::failed(format!("plan {plan}: {error}")))?;
            world.shutdown()?;
            sent?;
        }
        Hands::Server(server) => {
            let body = json!({ "event": event, "id": send.id });
            server.send("POST", &format!("/plans/{plan}/steps/{step}/events"), Some(&body))?;
        }
    }
    if send.json {
        return print_json(&json!({ "plan": plan.to_string(), "step": step.0 }));
    }
    print(&format!("step {step} of plan {plan} has the event\n"))
}

/// The steps of a plan that wait for events.
fn waiting(source: &mut Source, plan: PlanId) -> Result<Vec<StepId>, Exit> {
    if let Source::Server(server) = source {
        let path = format!("/plans/{plan}/steps?state=suspended&limit=500");
        let page = server.send("GET", &path, None)?;
        let steps = page["steps"].as_array().into_iter().flatten();
        let waits = steps.filter(|step| step["phase"] == StepKind::Run.name());
        let ids = waits.filter_map(|step| u32::try_from(step["id"].as_u64()?).ok());
        return Ok(ids.map(StepId).collect());
    }
    let waits = source.steps(plan)?.into_iter().filter(|step| {
        step.state == StepState::Suspended.name() && step.phase == StepKind::Run.name()
    });
    Ok(waits.map(|step| StepId(step.id)).collect())
}

/// The only waiting step.
fn the_one(plan: PlanId, waiting: &[StepId]) -> Result<StepId, Exit> {
    match waiting {
        [step] => Ok(*step),
        [] => Err(Exit::failed(format!("no step of plan {plan} waits for an event"))
            .advice("turnwheel show PLAN tells what it is doing")),
        _ => {
            let steps: Vec<String> = waiting.iter().map(StepId::to_string).collect();
            let steps = steps.join(", ");
            Err(Exit::usage(format!("several steps of plan {plan} wait for an event: {steps}"))
                .advice("say which with --step"))
        }
    }
}

/// JSON as it is given: itself, `@FILE`, or `-` for standard input.
pub(crate) fn read_json(given: &str) -> Result<Value, Exit> {
    let (text, place) = if given == "-" {
        let mut text = String::new();
        let read = std::io::stdin().lock().take(EVENT_MAX + 1).read_to_string(&mut text);
        read.map_err(|error| Exit::usage(format!("standard input: {error}")))?;
        (text, "standard input".to_owned())
    } else if let Some(file) = given.strip_prefix('@') {
        let text = fs::read_to_string(file)
            .map_err(|error| Exit::usage(format!("the file {file}: {error}")))?;
        (text, format!("the file {file}"))
    } else {
        (given.to_owned(), "what is given".to_owned())
    };
    if text.len() as u64 > EVENT_MAX {
        return Err(Exit::usage(format!(
            "{place} has more than {EVENT_MAX} bytes, which is the limit"
        ))
        .advice("keep large data in a file and give its name"));
    }
    serde_json::from_str(&text).map_err(|error| {
        Exit::usage(format!("{place} is no JSON: {error}")).advice("a text needs quotes: '\"yes\"'")
    })
}
