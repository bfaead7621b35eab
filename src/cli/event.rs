//! `turnwheel event`: events for steps that wait.

use std::fs;
use std::io::Read;

use serde_json::{json, Value};
use turnwheel::engine::store::StoreView;
use turnwheel::engine::{PlanId, StepId, StepKind, StepState};

use super::exit::Exit;
use super::find::PlanRef;
use super::paint::{print, print_json};
use super::place::{Hands, Place};
use super::settings::Settings;

/// The most that is read of standard input or a file, in bytes: what an event may have.
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

/// Send events to steps that wait for them.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Send an event to a step.
    #[command(after_help = AFTER_HELP)]
    Send(Send),
}

#[derive(Debug, clap::Args)]
struct Send {
    /// Which plan.
    plan: PlanRef,

    /// What the event says: JSON, @FILE for what a file holds, - for standard input.
    #[arg(value_name = "JSON", default_value = "null")]
    event: String,

    /// Which step; the one that waits, if only one does.
    #[arg(long, value_name = "STEP")]
    step: Option<u32>,

    /// What tells the event from others: a second one with the same id is dropped.
    #[arg(long)]
    id: Option<String>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let What::Send(send) = &arguments.what;
    let event = read_json(&send.event)?;
    let place = Place::of(settings);
    let mut view = place.view()?;
    let plan = send.plan.find(&mut view)?;
    let step = match send.step {
        Some(step) => StepId(step),
        None => the_one_that_waits(&mut view, plan)?,
    };
    if view.plan(plan)?.find_step(step).is_none() {
        return Err(Exit::not_found(format!("plan {plan} has no step {step}"))
            .advice("turnwheel show PLAN lists its steps"));
    }
    match place.hands(settings)? {
        Hands::Own(world) => {
            let sent = world.event(plan, step, send.id.as_deref(), &event).wait();
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

/// The step of a plan that waits for an event, if there is one alone.
fn the_one_that_waits(view: &mut StoreView, plan: PlanId) -> Result<StepId, Exit> {
    let view = view.plan(plan)?;
    let waits = |step: &&turnwheel::engine::plan::Step| {
        step.state == StepState::Suspended && step.kind == StepKind::Run
    };
    let waiting: Vec<StepId> = view.steps.iter().filter(waits).map(|step| step.id).collect();
    match waiting[..] {
        [step] => Ok(step),
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
