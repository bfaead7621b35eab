//! `turnwheel health`, `label`, `letter`: verbs that a server answers.

use clap_complete::engine::ArgValueCompleter;
use serde_json::json;
use turnwheel::api::{Order, Redeliver};
use turnwheel::client::Client;

use super::complete;
use super::exit::{Exit, FAILED};
use super::find::PlanRef;
use super::format::{Listing, Output, Watch};
use super::paint::{one_line, print, Paint};
use super::place::Place;
use super::remote::Remote;
use super::settings::Settings;
use super::source::Source;
use super::span;

pub(crate) const AFTER_HELP: &str = "\
These are asked of the server that --server names, else of the one that has the store.

Examples:
  turnwheel health --server http://127.0.0.1:7070
  turnwheel label last customer=Ann urgent
  turnwheel label last --remove urgent
  turnwheel letter list
  turnwheel letter redeliver 3

Exit codes: 0 done, and of health: it works; 1 it failed; 2 wrong usage; 3 there is no such store, plan
or letter.";

/// Message when there is no server to ask.
const NO_SERVER: &str = "no server has the store";

/// Ask whether a server works.
#[derive(Debug, clap::Args)]
pub(crate) struct Health {
    #[command(flatten)]
    output: Output,
}

/// Give a plan labels, or take some from it.
#[derive(Debug, clap::Args)]
pub(crate) struct Label {
    /// The plan.
    #[arg(add = ArgValueCompleter::new(complete::plans))]
    plan: PlanRef,

    /// Labels that it gets, or other values of them.
    #[arg(value_name = "NAME[=VALUE]", required_unless_present = "remove")]
    labels: Vec<String>,

    /// A label that it loses.
    #[arg(long, value_name = "NAME")]
    remove: Vec<String>,
}

/// List events that no step has taken, and deliver them again.
#[derive(Debug, clap::Args)]
pub(crate) struct Letter {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List the events that no step has taken, the oldest first.
    List(Output),
    /// Deliver one again, to its step or to another one of the plan.
    Redeliver {
        /// Number of the letter.
        number: u64,
        /// Another step of the plan.
        #[arg(long, value_name = "STEP")]
        step: Option<u32>,
    },
}

pub(crate) fn health(settings: &Settings, arguments: &Health) -> Result<(), Exit> {
    let server = Place::of(settings).server_of(settings, NO_SERVER)?;
    arguments.output.repeat(|| show(settings, &arguments.output, &server))
}

fn show(settings: &Settings, output: &Output, server: &Remote) -> Result<Watch, Exit> {
    let health = server.ask(Client::health)?;
    let works = health.is_healthy && health.is_taking_work;
    let paint = Paint::stdout(settings.colour());
    let state = if works { paint.good("works") } else { paint.bad("does not work") };
    let problem = health.problem.as_deref().map(|problem| format!(": {}", one_line(problem)));
    let (address, version) = (server.address(), &health.version);
    output.one(address, &json!(health), || {
        format!("{address} {state}{}, version {version}\n", problem.unwrap_or_default())
    })?;
    if works {
        return Ok(Watch::GoOn);
    }
    Err(Exit::new(FAILED, ""))
}

pub(crate) fn label(settings: &Settings, arguments: &Label) -> Result<(), Exit> {
    let plan = arguments.plan.find(&mut Source::of(settings)?)?.to_string();
    let server = Place::of(settings).server_of(settings, NO_SERVER)?;
    let given = arguments.labels.iter().map(|text| {
        let (name, value) = super::run::label(text);
        Order::Label { name, value }
    });
    let removed = arguments.remove.iter().map(|name| Order::RemoveLabel { name: name.clone() });
    for order in given.chain(removed) {
        server.ask(|client| client.order(&plan, &order))?;
    }
    print(&format!("{plan} has other labels\n"))
}

pub(crate) fn letter(settings: &Settings, arguments: &Letter) -> Result<(), Exit> {
    let server = Place::of(settings).server_of(settings, NO_SERVER)?;
    match &arguments.what {
        What::Redeliver { number, step } => {
            server.ask(|client| client.redeliver(*number, &Redeliver { step: *step }))?;
            print(&format!("letter {number} is delivered\n"))
        }
        What::List(output) => output.repeat(|| {
            let page = server.ask(Client::dead_letters)?;
            let row = |letter: &turnwheel::api::DeadLetterInfo| {
                let (number, step) = (letter.number.to_string(), letter.step.to_string());
                let at = span::shown(&letter.at);
                vec![number, at, letter.plan.clone(), step, one_line(&letter.reason)]
            };
            let listing = Listing {
                value: json!(page),
                headings: &["letter", "at", "plan", "step", "why"],
                wide: 0,
                rows: page.letters.iter().map(row).collect(),
                nothing: "there are no dead letters",
            };
            output.list(settings.colour(), listing)?;
            Ok(Watch::GoOn)
        }),
    }
}
