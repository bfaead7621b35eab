//! `turnwheel journey`: event-triggered flows, one for each user.

use std::path::{Path, PathBuf};

use clap_complete::engine::ArgValueCompleter;
use serde_json::{json, Map, Value};
use turnwheel::engine::{Time, World};
use turnwheel::flow::{CloudEvent, Problems};
use turnwheel::journeys::{Asking, Definition, Event, JourneyError, Journeys, JourneysOptions};
use turnwheel::runtime::completion::block_on;
use turnwheel::runtime::{Failure, Group};

use super::check::text_of;
use super::complete;
use super::exit::Exit;
use super::format::{Listing, Output, Watch};
use super::outside::host_io;
use super::paint::{print, print_json};
use super::place::{Hands, Place};
use super::remote::{encoded, Remote};
use super::settings::Settings;
use super::{journey_look, journey_trial};

const AFTER_HELP: &str = "\
Examples:
  turnwheel journey check onboarding.yaml
  turnwheel journey dry-run onboarding.yaml events.json
  turnwheel journey add onboarding.yaml
  turnwheel journey event shop ann customer.created --data '{\"name\": \"Ann\"}'
  turnwheel journey where shop ann
  turnwheel journey counts onboarding

Messages leave and waits end while a server has the store (turnwheel serve). Exit codes: 0 done; 1 it
failed, or a definition is wrong; 2 wrong usage; 3 there is no such store or journey; 4 another process
has the store and does not serve it.";

/// Add and look at journeys, and at the users who take them.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Add a journey, or a new version of the one with its name.
    Add {
        /// The file with the definition; - for standard input.
        file: PathBuf,
    },
    /// List all journeys, by name.
    List(Output),
    /// Print the definition of a journey.
    Show {
        /// The journey.
        #[arg(add = ArgValueCompleter::new(complete::journeys))]
        name: String,
        /// Print it as a JSON list of elements.
        #[arg(long)]
        elements: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Remove a journey: users under way leave it.
    #[command(alias = "remove")]
    Rm {
        /// The journey.
        #[arg(add = ArgValueCompleter::new(complete::journeys))]
        name: String,
    },
    /// Show where a user is, why, since when, and what comes next, as JSON.
    User {
        /// The platform.
        platform: String,
        /// The user.
        user: String,
        /// Replace the attributes by this JSON object first.
        #[arg(long, value_name = "JSON")]
        set: Option<String>,
        /// Note first that the user wants no messages.
        #[arg(long, conflicts_with = "opt_in")]
        opt_out: bool,
        /// Note first that the user wants messages again.
        #[arg(long)]
        opt_in: bool,
    },
    /// Send messages of a user again that were given up, with their keys, and print the user as
    /// JSON.
    Resend {
        /// The platform.
        platform: String,
        /// The user.
        user: String,
        /// The key of the message, as «lost» of the user has it; without one all of them.
        key: Option<String>,
    },
    /// Send an event of a user, and print what it has moved, as JSON.
    Event {
        /// The platform.
        platform: String,
        /// The user.
        user: String,
        /// The type of the event.
        kind: String,
        /// Its data, as JSON.
        #[arg(long, value_name = "JSON")]
        data: Option<String>,
        /// Its id: a second event of the user with the same id changes nothing.
        #[arg(long)]
        id: Option<String>,
    },
    /// Check definitions and report problems, without a store.
    Check {
        /// The files; - for standard input.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Try a definition on recorded events: nothing is stored and nothing is sent.
    DryRun {
        /// The file with the definition.
        file: PathBuf,
        /// A JSON list of CloudEvents with the user as subject and a time each.
        events: PathBuf,
        /// Attributes of users: a JSON object with an object for each.
        #[arg(long, value_name = "FILE")]
        users: Option<PathBuf>,
        /// Let time pass until then, after the events.
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// Print moves, messages and users as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Walk one user through a definition by hand: nothing is stored and nothing is sent.
    #[command(after_help = journey_trial::SIMULATE_HELP)]
    Simulate {
        /// The file with the definition. What happens is read from standard input, a line each.
        file: PathBuf,
    },
    /// Show in words where a user is, why, since when, and what comes next.
    #[command(after_help = AFTER_HELP)]
    Where {
        /// The platform.
        platform: String,
        /// The user.
        user: String,
    },
    /// Count the users at each element, and those who went on or did not.
    #[command(after_help = AFTER_HELP)]
    Counts {
        /// The journey.
        name: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

impl From<JourneyError> for Exit {
    fn from(error: JourneyError) -> Self {
        match error {
            JourneyError::Unknown(_) | JourneyError::NotLost { .. } => Self::not_found(error),
            error => Self::failed(error),
        }
    }
}

/// Opens the journeys of a world, on a group of their own.
pub(crate) fn open(
    world: &World,
    settings: &Settings,
    is_at_rest: bool,
) -> Result<(Journeys, Group), Exit> {
    let failed = |problem: String| Exit::failed(format!("journeys: {problem}"));
    let group = Group::builder("journeys").workers(1).build();
    let group = group.map_err(|error| failed(error.to_string()))?;
    let options = JourneysOptions::new(host_io(settings).channels_in(world));
    let options = if is_at_rest { options.at_rest() } else { options };
    let opened = block_on(Journeys::open(world, &group, options));
    Ok((opened.map_err(|refused| failed(refused.to_string()))??, group))
}

pub(super) fn done<T>(asked: Asking<T>) -> Result<T, Exit> {
    let answer = asked.wait().map_err(|error: Failure| Exit::failed(format!("journeys: {error}")));
    Ok(answer??)
}

pub(super) fn blocked<T>(
    future: impl std::future::Future<Output = Result<T, JourneyError>>,
) -> Result<T, Exit> {
    let answer = block_on(future).map_err(|refused| Exit::failed(format!("journeys: {refused}")));
    Ok(answer??)
}

/// Answers in the shape of the API, from the store itself or from the server that has it.
pub(super) fn ask(
    settings: &Settings,
    here: impl FnOnce(&Journeys, &str) -> Result<Value, Exit>,
    there: impl FnOnce(&Remote) -> Result<Value, Exit>,
) -> Result<Value, Exit> {
    match Place::of(settings).hands_with(settings, World::builder())? {
        Hands::Server(server) => there(&server),
        Hands::Own(world) => {
            let (journeys, group) = open(&world, settings, true)?;
            let answer = here(&journeys, &settings.by());
            journeys.end();
            world.shutdown()?;
            let _ended = group.shutdown();
            answer
        }
    }
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    match &arguments.what {
        What::Add { file } => add(settings, file),
        What::List(output) => output.repeat(|| list(settings, output).map(|()| Watch::GoOn)),
        What::Show { name, elements, output } => show(settings, name, *elements, output),
        What::Rm { name } => {
            let here = |all: &Journeys, _: &str| Ok(json!(blocked(all.remove(name))?));
            let path = format!("/journeys/{}", encoded(name));
            ask(settings, here, |server| server.send("DELETE", &path, None))?;
            print(&format!("removed journey {name}\n"))
        }
        What::User { platform, user, set, opt_out, opt_in } => {
            let changes = Changes { set: set.as_deref(), opt: (*opt_out, *opt_in) };
            self::user(settings, platform, user, &changes)
        }
        What::Resend { platform, user, key } => {
            let here = |all: &Journeys, _: &str| {
                Ok(json!(done(all.resend(platform, user, key.as_deref()))?))
            };
            let path = format!("/users/{}/{}/resend", encoded(platform), encoded(user));
            let body = json!({ "key": key });
            print_json(&ask(settings, here, |server| server.send("POST", &path, Some(&body)))?)
        }
        What::Event { platform, user, kind, data, id } => {
            let data = data.as_deref().map_or(Ok(Value::Null), |text| parsed("--data", text))?;
            let id =
                id.clone().unwrap_or_else(|| Time::from(std::time::SystemTime::now()).to_string());
            event(settings, platform, (user, kind), (id, data))
        }
        What::Check { files } => check(settings, files),
        What::DryRun { file, events, users, until, json } => {
            let until = until.as_deref();
            journey_trial::dry_run(settings, (file, events), users.as_ref(), until, *json)
        }
        What::Simulate { file } => journey_trial::simulate(settings, file),
        What::Where { platform, user } => journey_look::place(settings, platform, user),
        What::Counts { name, json } => journey_look::counts(settings, name, *json),
    }
}

pub(super) fn parsed<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> Result<T, Exit> {
    serde_json::from_str(text).map_err(|error| Exit::usage(format!("{what}: {error}")))
}

fn add(settings: &Settings, file: &Path) -> Result<(), Exit> {
    let text = text_of(file)?;
    // Wrong definitions are told with the name of the file.
    Definition::read(&text, &file.display().to_string()).map_err(Exit::failed)?;
    let here = |all: &Journeys, by: &str| Ok(json!(blocked(all.put(&text, by))?));
    let there = |server: &Remote| server.post("/journeys", "application/yaml", text.clone(), None);
    let added = ask(settings, here, there)?;
    print(&format!("stored journey {}, version {}\n", string(&added["name"]), added["version"]))
}

pub(super) fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(settings: &Settings, output: &Output) -> Result<(), Exit> {
    let here = |all: &Journeys, _: &str| Ok(json!({ "journeys": blocked(all.list())? }));
    let answer = ask(settings, here, |server| server.send("GET", "/journeys", None))?;
    let all = answer["journeys"].as_array().cloned().unwrap_or_default();
    let row = |journey: &Value| {
        let text = |field: &str| string(&journey[field]).to_owned();
        vec![text("name"), text("platform"), journey["version"].to_string(), text("at"), text("by")]
    };
    let listing = Listing {
        rows: all.iter().map(row).collect(),
        value: answer,
        headings: &["journey", "platform", "version", "since", "by"],
        wide: 0,
        nothing: "the store has no journeys",
    };
    output.list(settings.colour(), listing)
}

fn show(settings: &Settings, name: &str, is_elements: bool, output: &Output) -> Result<(), Exit> {
    let here = |all: &Journeys, _: &str| Ok(json!(blocked(all.get(name))?));
    let path = format!("/journeys/{}", encoded(name));
    let found = ask(settings, here, |server| server.send("GET", &path, None))?;
    let text = string(&found["text"]);
    if is_elements {
        let definition = Definition::read_stored(text, name).map_err(Exit::failed)?;
        return output.json(name, &definition.to_ancestor());
    }
    output.one(name, &found, || format!("{}\n", text.trim_end()))
}

/// Changes of a user.
struct Changes<'a> {
    set: Option<&'a str>,
    opt: (bool, bool),
}

fn user(
    settings: &Settings,
    platform: &str,
    user: &str,
    changes: &Changes<'_>,
) -> Result<(), Exit> {
    let attributes: Option<Map<String, Value>> =
        changes.set.map(|text| parsed("--set", text)).transpose()?;
    let is_out = match changes.opt {
        (false, false) => None,
        (is_out, _) => Some(is_out),
    };
    let here = |all: &Journeys, _: &str| {
        if let Some(attributes) = &attributes {
            done(all.set_user(platform, user, attributes.clone(), None))?;
        }
        if let Some(is_out) = is_out {
            done(all.opt_out(platform, user, is_out))?;
        }
        Ok(json!(done(all.user(platform, user))?))
    };
    let path = format!("/users/{}/{}", encoded(platform), encoded(user));
    let there = |server: &Remote| {
        if let Some(attributes) = &attributes {
            server.send("PUT", &path, Some(&Value::Object(attributes.clone())))?;
        }
        if let Some(is_out) = is_out {
            let body = json!({ "out": is_out });
            server.send("POST", &format!("{path}/opt-out"), Some(&body))?;
        }
        server.send("GET", &path, None)
    };
    print_json(&ask(settings, here, there)?)
}

fn event(
    settings: &Settings,
    platform: &str,
    (user, kind): (&str, &str),
    (id, data): (String, Value),
) -> Result<(), Exit> {
    let event = CloudEvent::new(id, "turnwheel", kind).subject(user).data(data.clone());
    let here = |all: &Journeys, _: &str| {
        let made = Event::new(platform, user, &event.id, kind).data(data.clone());
        let event = made.source(&event.source);
        Ok(json!({ "events": [done(all.event(event))?] }))
    };
    let path = format!("/platforms/{}/events", encoded(platform));
    let there = |server: &Remote| {
        let text = event.to_value().to_string();
        server.post(&path, "application/cloudevents+json", text, None)
    };
    let answer = ask(settings, here, there)?;
    print_json(&answer["events"][0])
}

/// Reads a definition for the channels of this host.
pub(super) fn definition(settings: &Settings, file: &Path) -> Result<Definition, Exit> {
    read(settings, file).and_then(|read| read.map_err(Exit::failed))
}

fn read(settings: &Settings, file: &Path) -> Result<Result<Definition, Problems>, Exit> {
    let channels = host_io(settings).channels_to_check();
    Ok(channels.definition(&text_of(file)?, &file.display().to_string()))
}

fn check(settings: &Settings, files: &[PathBuf]) -> Result<(), Exit> {
    let mut wrong = 0;
    for file in files {
        match read(settings, file)? {
            Ok(definition) => {
                let (name, count) = (&definition.name, definition.elements.len());
                print(&format!("{}: journey {name}, {count} elements\n", file.display()))?;
            }
            Err(problems) => {
                wrong += problems.all.len();
                print(&format!("{problems}\n"))?;
            }
        }
    }
    match wrong {
        0 => Ok(()),
        wrong => Err(Exit::failed(format!("{wrong} problems"))),
    }
}
