//! `turnwheel world`: what a server knows; and `turnwheel api`: any operation of its API.

use serde_json::Value;

use super::event::read_json;
use super::exit::Exit;
use super::format::{Output, Watch};
use super::paint::print;
use super::place::Place;
use super::remote::{encoded, Remote};
use super::settings::Settings;

/// Message when there is no server to ask.
const NO_SERVER: &str = "no server has the store";

const AFTER_HELP: &str = "\
Examples:
  turnwheel world queues --watch
  turnwheel world topic mail -o yaml
  turnwheel world entity account 42

Exit codes: 0 shown; 1 no server has the store, or it refuses; 2 wrong usage; 3 it has no such thing.";

const API_HELP: &str = "\
The path is that of docs/http.md, without /api/v1. The answer goes to standard output as it is.

Examples:
  turnwheel api GET /plans/0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f/timeline
  turnwheel api POST /plans/0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f/orders '{\"order\": \"pause\"}'

Exit codes: 0 done; 1 the server refuses; 2 wrong usage; 3 there is nothing at the path.";

/// Show what a server knows: actions, queues, locks, topics, its runtime.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// The actions that plans can begin with.
    Actions(Output),
    /// The queues, with steps that run and wait.
    Queues(Output),
    /// The locks that plans have, and what waits for them.
    Locks(Output),
    /// The world itself: when it began, what it may do.
    About(Output),
    /// Workers, tasks and timers of the runtime.
    Runtime(Output),
    /// The types of entities.
    Entities(Output),
    /// An entity of a type.
    Entity {
        /// The type.
        kind: String,
        /// Its key.
        key: String,
        #[command(flatten)]
        output: Output,
    },
    /// The tasks of a topic: how many wait for a worker, and since when.
    Topic {
        /// The topic.
        name: String,
        #[command(flatten)]
        output: Output,
    },
}

/// Ask a server for any operation of its API.
#[derive(Debug, clap::Args)]
#[command(after_help = API_HELP)]
pub(crate) struct Api {
    /// The method.
    #[arg(value_parser = ["GET", "POST", "PUT", "DELETE"], ignore_case = true)]
    method: String,

    /// The path, such as /plans?limit=10.
    path: String,

    /// The body: JSON, @FILE to read a file, - for standard input.
    #[arg(value_name = "JSON")]
    body: Option<String>,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let server = Place::of(settings).server_of(settings, NO_SERVER)?;
    let show = |output: &Output, name: &str, path: &str| {
        output.repeat(|| {
            output.json(name, &server.send("GET", path, None)?)?;
            Ok(Watch::GoOn)
        })
    };
    let list = |output: &Output, key: &str, path: &str| {
        output.repeat(|| {
            output.json_list(key, &server.send("GET", path, None)?)?;
            Ok(Watch::GoOn)
        })
    };
    match &arguments.what {
        What::Actions(output) => list(output, "actions", "/actions"),
        What::Queues(output) => list(output, "queues", "/queues"),
        What::Locks(output) => list(output, "locks", "/locks"),
        What::About(output) => show(output, "world", "/world"),
        What::Runtime(output) => show(output, "runtime", "/runtime"),
        What::Entities(output) => list(output, "types", "/entities"),
        What::Entity { kind, key, output } => {
            show(output, key, &format!("/entities/{}/{}", encoded(kind), encoded(key)))
        }
        What::Topic { name, output } => {
            show(output, name, &format!("/work/topics/{}", encoded(name)))
        }
    }
}

pub(crate) fn api(settings: &Settings, arguments: &Api) -> Result<(), Exit> {
    let path = arguments.path.strip_prefix("/api/v1").unwrap_or(&arguments.path);
    if !path.starts_with('/') {
        return Err(Exit::usage(format!("«{path}» is no path"))
            .advice("begin it with a slash, as in /plans?limit=10"));
    }
    let body = arguments.body.as_deref().map(read_json).transpose()?;
    let server: Remote = Place::of(settings).server_of(settings, NO_SERVER)?;
    match server.send(&arguments.method.to_uppercase(), path, body.as_ref())? {
        Value::Null => Ok(()),
        answer => print(&format!("{answer:#}\n")),
    }
}
