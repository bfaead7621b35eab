//! `turnwheel journey`: event-triggered flows, one for each user.

use std::path::{Path, PathBuf};

use serde_json::{json, Map, Value};
use turnwheel::engine::{Time, World};
use turnwheel::flow::CloudEvent;
use turnwheel::journeys::{
    Asking, Definition, DryRun, Event, JourneyError, Journeys, JourneysOptions,
};
use turnwheel::runtime::completion::block_on;
use turnwheel::runtime::{Failure, Group};

use super::check::text_of;
use super::exit::Exit;
use super::outside::host_io;
use super::paint::{print, print_json, table, Paint};
use super::place::{Hands, Place};
use super::remote::{encoded, Remote};
use super::settings::Settings;

const AFTER_HELP: &str = "\
Examples:
  turnwheel journey check onboarding.yaml
  turnwheel journey dry-run onboarding.yaml events.json
  turnwheel journey add onboarding.yaml
  turnwheel journey event shop ann customer.created --data '{\"name\": \"Ann\"}'
  turnwheel journey user shop ann

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
    #[command(after_help = AFTER_HELP)]
    Add {
        /// The file with the definition; - for standard input.
        file: PathBuf,
    },
    /// List all journeys, by name.
    #[command(after_help = AFTER_HELP)]
    List {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print the definition of a journey.
    #[command(after_help = AFTER_HELP)]
    Show {
        /// The journey.
        name: String,
        /// Print it as a JSON list of elements.
        #[arg(long)]
        elements: bool,
    },
    /// Remove a journey: users under way leave it.
    #[command(after_help = AFTER_HELP)]
    Rm {
        /// The journey.
        name: String,
    },
    /// Show where a user is, why, since when, and what comes next, as JSON.
    #[command(after_help = AFTER_HELP)]
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
    /// Send an event of a user, and print what it has moved, as JSON.
    #[command(after_help = AFTER_HELP)]
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
    #[command(after_help = AFTER_HELP)]
    Check {
        /// The files; - for standard input.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Try a definition on recorded events: nothing is stored and nothing is sent.
    #[command(after_help = AFTER_HELP)]
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
    },
}

impl From<JourneyError> for Exit {
    fn from(error: JourneyError) -> Self {
        match error {
            JourneyError::Unknown(_) => Self::not_found(error),
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
    let options = JourneysOptions::new(host_io(settings).channels());
    let options = if is_at_rest { options.at_rest() } else { options };
    let opened = block_on(Journeys::open(world, &group, options));
    Ok((opened.map_err(|refused| failed(refused.to_string()))??, group))
}

fn done<T>(asked: Asking<T>) -> Result<T, Exit> {
    let answer = asked.wait().map_err(|error: Failure| Exit::failed(format!("journeys: {error}")));
    Ok(answer??)
}

fn blocked<T>(
    future: impl std::future::Future<Output = Result<T, JourneyError>>,
) -> Result<T, Exit> {
    let answer = block_on(future).map_err(|refused| Exit::failed(format!("journeys: {refused}")));
    Ok(answer??)
}

/// Answers in the shape of the API, from the store itself or from the server that has it.
fn ask(
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
        What::List { json } => list(settings, *json),
        What::Show { name, elements } => show(settings, name, *elements),
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
        What::Event { platform, user, kind, data, id } => {
            let data = data.as_deref().map_or(Ok(Value::Null), |text| parsed("--data", text))?;
            let id =
                id.clone().unwrap_or_else(|| Time::from(std::time::SystemTime::now()).to_string());
            event(settings, platform, (user, kind), (id, data))
        }
        What::Check { files } => check(files),
        What::DryRun { file, events, users, until } => {
            dry_run(settings, (file, events), users.as_ref(), until.as_deref())
        }
    }
}

fn parsed<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> Result<T, Exit> {
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

fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(settings: &Settings, is_json: bool) -> Result<(), Exit> {
    let here = |all: &Journeys, _: &str| Ok(json!({ "journeys": all.list() }));
    let answer = ask(settings, here, |server| server.send("GET", "/journeys", None))?;
    if is_json {
        return print_json(&answer);
    }
    let all = answer["journeys"].as_array().cloned().unwrap_or_default();
    let row = |journey: &Value| {
        let text = |field: &str| string(&journey[field]).to_owned();
        vec![text("name"), text("platform"), journey["version"].to_string(), text("at"), text("by")]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    print(&table(
        Paint::stdout(settings.colour()),
        &["journey", "platform", "version", "since", "by"],
        &rows,
    ))
}

fn show(settings: &Settings, name: &str, is_elements: bool) -> Result<(), Exit> {
    let here = |all: &Journeys, _: &str| Ok(json!(all.get(name)?));
    let path = format!("/journeys/{}", encoded(name));
    let found = ask(settings, here, |server| server.send("GET", &path, None))?;
    let text = string(&found["text"]);
    if is_elements {
        let definition = Definition::read(text, name).map_err(Exit::failed)?;
        return print_json(&definition.to_ancestor());
    }
    print(&format!("{}\n", text.trim_end()))
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
        let event = Event::new(platform, user, event.key(), kind).data(data.clone());
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

fn check(files: &[PathBuf]) -> Result<(), Exit> {
    let mut wrong = 0;
    for file in files {
        let text = text_of(file)?;
        match Definition::read(&text, &file.display().to_string()) {
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

fn dry_run(
    settings: &Settings,
    (file, events): (&PathBuf, &PathBuf),
    users: Option<&PathBuf>,
    until: Option<&str>,
) -> Result<(), Exit> {
    let name = file.display().to_string();
    let definition = Definition::read(&text_of(file)?, &name).map_err(Exit::failed)?;
    let platform = definition.settings.platform.clone();
    let mut run = DryRun::new(&definition);
    let wrong =
        |problem: &dyn std::fmt::Display| Exit::usage(format!("{}: {problem}", events.display()));
    if let Some(users) = users {
        let all: Map<String, Value> = parsed("--users", &text_of(users)?)?;
        for (user, attributes) in all {
            let attributes = serde_json::from_value(attributes).map_err(|error| wrong(&error))?;
            run.user(&platform, &user, attributes)?;
        }
    }
    let list: Vec<Value> = parsed("events", &text_of(events)?)?;
    let mut all = Vec::new();
    for value in list {
        let event = CloudEvent::from_value(value).map_err(|error| wrong(&error))?;
        let time = event.time.as_deref().ok_or_else(|| wrong(&"an event has no «time»"))?;
        let time: Time = time.parse().map_err(|error| wrong(&error))?;
        let user = event.subject.clone().ok_or_else(|| wrong(&"an event has no «subject»"))?;
        let data = event.data.clone().unwrap_or_default();
        all.push((time, Event::new(&platform, user, event.key(), &event.kind).data(data)));
    }
    all.sort_by_key(|(time, _)| *time);
    let mut end = all.last().map(|(time, _)| *time).unwrap_or_default();
    for (time, event) in all {
        run.event(time, event)?;
    }
    if let Some(until) = until {
        end = until.parse().map_err(|error| Exit::usage(format!("--until: {error}")))?;
    }
    let moved = run.until(end);
    let row = |(key, moved): &(String, turnwheel::journeys::Moved)| {
        let user = key.split_once('/').map_or(key.as_str(), |(_, user)| user).to_owned();
        let at = moved.at.to_string();
        vec![
            at,
            user,
            moved.cause.to_owned(),
            moved.path.join(" "),
            moved.problem.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = moved.iter().map(row).collect();
    print(&table(
        Paint::stdout(settings.colour()),
        &["time", "user", "cause", "path", "problem"],
        &rows,
    ))
}
