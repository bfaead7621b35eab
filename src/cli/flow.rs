//! `turnwheel flow`: definitions in the store, and how they are started.

use std::path::PathBuf;

use clap_complete::engine::ArgValueCompleter;
use serde_json::{json, Value};
use turnwheel::api::{FlowInfo, FlowList};
use turnwheel::engine::{TriggerOptions, World};
use turnwheel::flow::{self, Flow, FlowEntry, FlowError, Flows, WithFlows};
use turnwheel::key;
use turnwheel::runtime::completion::block_on;

use super::check::text_of;
use super::complete;
use super::event::read_json;
use super::exit::{Exit, NOT_FOUND};
use super::format::{Listing, Output, Watch};
use super::outside::host_io;
use super::paint::{one_line, print, tell};
use super::place::{Hands, Place};
use super::remote::Remote;
use super::run::{label, open, print_id, start_and_show, Runner, NO_SERVER};
use super::settings::Settings;

const AFTER_HELP: &str = "\
A flow is named by its name, by namespace/name, or by namespace/name:version. Without a version the newest
one is meant.

Examples:
  turnwheel flow add report.yaml                 stores it; a server starts it by its schedule from now on
  turnwheel flow list
  turnwheel flow show guide/report
  turnwheel flow start report --input '{\"month\": 11}'
  turnwheel flow start report --detach           a server runs it; prints the plan
  turnwheel flow rm guide/report:1.0.0

Exit codes: 0 done; 1 it failed; 2 wrong usage, or a flow that is wrong; 3 there is no such store or
flow; 4 another process has the store and does not serve it; 130 interrupted; 143 terminated.";

/// Add, list, show, start and remove flows.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Store the flow of a file, so that it can be started by its name.
    Add {
        /// The file: Serverless Workflow DSL 1.0, YAML or JSON; - for standard input.
        file: PathBuf,
        /// Leave its own schedule alone: it starts only when somebody says so.
        #[arg(long)]
        no_schedule: bool,
    },
    /// List all flows, by name and version.
    List(Output),
    /// Show the definition of a flow, as JSON or YAML.
    Show {
        /// The flow.
        #[arg(add = ArgValueCompleter::new(complete::flows))]
        flow: String,
        #[command(flatten)]
        output: Output,
    },
    /// Start a flow and show it to its end; the result goes to standard output.
    Start(Start),
    /// Remove a version of a flow; plans that are over keep their definition.
    #[command(alias = "remove")]
    Rm {
        /// The flow with its version.
        #[arg(add = ArgValueCompleter::new(complete::flows))]
        flow: String,
        /// Remove it although schedules start it: they go on with its definition.
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Start {
    /// The flow.
    #[arg(add = ArgValueCompleter::new(complete::flows))]
    flow: String,

    /// Its input: JSON, @FILE, or - for standard input.
    #[arg(long, short, value_name = "JSON", default_value = "{}")]
    input: String,

    /// An idempotency key: if a plan has it, that plan is meant.
    #[arg(long)]
    key: Option<String>,

    /// A label of the plan, to find it by.
    #[arg(long, value_name = "NAME[=VALUE]")]
    label: Vec<String>,

    /// Print the plan and do not wait for its end: a server runs it.
    #[arg(long, short, conflicts_with = "quiet")]
    detach: bool,

    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    match &arguments.what {
        What::Add { file, no_schedule } => add(settings, file, !no_schedule),
        What::List(output) => output.repeat(|| list(settings, output).map(|()| Watch::GoOn)),
        What::Show { flow, output } => {
            let (flow, text) = found(settings, flow)?;
            // People read it as it was written; programs get data.
            output.one(&flow.id(), flow.source(), || match text {
                Some(text) => format!("{}\n", text.trim_end()),
                None => format!("{:#}\n", flow.source()),
            })
        }
        What::Start(arguments) => start(settings, arguments),
        What::Rm { flow, force } => remove(settings, flow, *force),
    }
}

fn refused(error: FlowError) -> Exit {
    match &error {
        FlowError::Unknown(_) => Exit::new(NOT_FOUND, error).advice(LISTED),
        FlowError::Scheduled { .. } => {
            Exit::failed(error).advice("--force removes it all the same")
        }
        _ => Exit::failed(error),
    }
}

const LISTED: &str = "turnwheel flow list shows those there are";

fn add(settings: &Settings, file: &std::path::Path, is_scheduled: bool) -> Result<(), Exit> {
    let text = text_of(file)?;
    let flow = flow::load(&text, &file.display().to_string()).map_err(Exit::usage)?;
    let note = match open(settings)? {
        Runner::Server(server) => {
            let path = if is_scheduled { "/flows" } else { "/flows?schedule=false" };
            let answer = server.post(path, "application/yaml", text, None)?;
            answer["note"].as_str().map(str::to_owned)
        }
        Runner::Here(world, _) => {
            let added = Flows::new(&world).map(|flows| {
                block_on(async {
                    let flow = flows.resolve(&flow)?;
                    if is_scheduled {
                        flow.check_schedule()?;
                    }
                    flows.add(&flow).await?;
                    if is_scheduled {
                        flows.schedule(&flow).await?;
                    }
                    flows.other_schedule(&flow).await
                })
            });
            world.shutdown()?;
            added.map_err(refused)?.map_err(Exit::failed)?.map_err(refused)?
        }
    };
    if let Some(note) = note {
        tell!("turnwheel: {}", one_line(&note));
    }
    if is_scheduled && flow.source().get("schedule").is_some() {
        tell!(
            "it starts by itself from now on, as its «schedule» says, while a server has the store"
        );
    }
    print(&format!("{} is added\n", flow.id()))
}

/// All flows, from the store itself or from the server that has it.
fn ask<T>(
    settings: &Settings,
    here: impl FnOnce(&Flows) -> Result<T, Exit>,
    there: impl FnOnce(&Remote) -> Result<T, Exit>,
) -> Result<T, Exit> {
    let builder = World::builder().flows(host_io(settings));
    match Place::of(settings).hands_with(settings, builder)? {
        Hands::Server(server) => there(&server),
        Hands::Own(world) => {
            let answer = Flows::new(&world).map_err(Exit::failed).and_then(|flows| here(&flows));
            world.shutdown()?;
            answer
        }
    }
}

fn info(entry: FlowEntry) -> FlowInfo {
    let FlowEntry { namespace, name, version, hash, .. } = entry;
    FlowInfo { namespace, name, version, hash }
}

fn list(settings: &Settings, output: &Output) -> Result<(), Exit> {
    let here = |flows: &Flows| {
        let infos = flows.list().into_iter().map(info).collect();
        let (unheard_events, unclear_filters) = (flows.unheard(), flows.unclear());
        Ok(FlowList { flows: infos, next: None, unheard_events, unclear_filters })
    };
    let mut found = ask(settings, here, |server| server.ask(turnwheel::client::Client::flows))?;
    let value = json!(found);
    found.flows.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let row = |flow: &FlowInfo| {
        let name = format!("{}/{}", one_line(&flow.namespace), one_line(&flow.name));
        vec![name, one_line(&flow.version), flow.hash.chars().take(12).collect()]
    };
    let listing = Listing {
        value,
        headings: &["flow", "version", "hash"],
        wide: 0,
        rows: found.flows.iter().map(row).collect(),
        nothing: "the store has no flows",
    };
    output.list(settings.colour(), listing)
}

/// The flow with a name.
pub(super) fn named(settings: &Settings, name: &str) -> Result<Flow, Exit> {
    found(settings, name).map(|(flow, _)| flow)
}

/// The same with its text as it was written, where that is known.
fn found(settings: &Settings, name: &str) -> Result<(Flow, Option<String>), Exit> {
    let here = |flows: &Flows| {
        let all: Vec<FlowInfo> = flows.list().into_iter().map(info).collect();
        let [namespace, name, version] = meant(name, &all)?;
        let flow = flows.find(&namespace, &name, &version).map_err(refused)?;
        let text = block_on(flows.text(&flow)).map_err(Exit::failed)?.map_err(refused)?;
        Ok((flow, text))
    };
    let there = |server: &Remote| {
        let all = server.ask(turnwheel::client::Client::flows)?.flows;
        let [namespace, name, version] = meant(name, &all)?;
        let found = server.ask(|client| client.flow(&namespace, &name, &version))?;
        let source = found.source.to_string();
        let flow = flow::load(&source, "the flow of the server").map_err(Exit::failed)?;
        Ok((flow, found.text))
    };
    ask(settings, here, there)
}

/// Namespace, name and version (which may be `latest`) of the flow that a text names.
fn meant(text: &str, all: &[FlowInfo]) -> Result<[String; 3], Exit> {
    let (path, version) = text.split_once(':').unwrap_or((text, "latest"));
    let (namespace, name) = match path.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, path),
    };
    let fits = |flow: &&FlowInfo| {
        flow.name == name && namespace.is_none_or(|namespace| flow.namespace == namespace)
    };
    let mut found: Vec<&str> = all.iter().filter(fits).map(|flow| &*flow.namespace).collect();
    found.dedup();
    found.sort_unstable();
    found.dedup();
    match found[..] {
        [namespace] => Ok([namespace.to_owned(), name.to_owned(), version.to_owned()]),
        [] => Err(Exit::new(NOT_FOUND, format!("there is no flow «{text}»")).advice(LISTED)),
        _ => {
            let names: Vec<String> = found.iter().map(|space| format!("{space}/{name}")).collect();
            Err(Exit::usage(format!("several flows have this name: {}", names.join(", ")))
                .advice("name the one that is meant with its namespace"))
        }
    }
}

fn start(settings: &Settings, arguments: &Start) -> Result<(), Exit> {
    let input = read_json(&arguments.input)?;
    let flow = named(settings, &arguments.flow)?;
    if arguments.detach {
        let server = Place::of(settings).server_of(settings, NO_SERVER)?;
        return print_id(&start_there(&server, &flow, input, arguments)?);
    }
    let mut options = TriggerOptions::new().by(settings.by());
    if let Some(key) = &arguments.key {
        options = options.key(key::scoped(&settings.by(), key));
    }
    for text in &arguments.label {
        let (name, value) = label(text);
        options = options.label(name, value);
    }
    let here = |world: &World| {
        let flows = Flows::new(world).map_err(Exit::failed)?;
        flows.start_with(&flow, input.clone(), options).wait().map_err(Exit::failed)
    };
    let there = |server: &Remote| start_there(server, &flow, input.clone(), arguments);
    start_and_show(settings, arguments.quiet, here, there)
}

fn start_there(
    server: &Remote,
    flow: &Flow,
    input: Value,
    arguments: &Start,
) -> Result<Value, Exit> {
    let labels = arguments.label.iter().map(|text| label(text)).collect();
    let run = turnwheel::api::FlowRun { input, labels, ..Default::default() };
    let (namespace, name, version) = (flow.namespace(), flow.name(), flow.version());
    let key = arguments.key.as_deref();
    let begun = server.ask(|client| client.start_flow((namespace, name, version), &run, key))?;
    Ok(json!(begun))
}

fn remove(settings: &Settings, name: &str, is_forced: bool) -> Result<(), Exit> {
    if !name.contains(':') {
        return Err(Exit::usage(format!("«{name}» names no version"))
            .advice("say which one is removed, as in guide/report:1.0.0"));
    }
    let here = |flows: &Flows| {
        let all: Vec<FlowInfo> = flows.list().into_iter().map(info).collect();
        let [namespace, name, version] = meant(name, &all)?;
        let removed = block_on(async {
            let id = format!("{namespace}/{name}:{version}");
            match flows.list().into_iter().find(|it| is_forced && it.id() == id) {
                Some(found) => flows.remove_scheduled(found).await,
                None => flows.remove(&namespace, &name, &version).await,
            }
        });
        let removed = removed.map_err(Exit::failed)?.map_err(refused)?;
        Ok(removed.id())
    };
    let there = |server: &Remote| {
        let all = server.ask(turnwheel::client::Client::flows)?.flows;
        let [namespace, name, version] = meant(name, &all)?;
        server.ask(|client| match is_forced {
            true => client.remove_scheduled_flow(&namespace, &name, &version),
            false => client.remove_flow(&namespace, &name, &version),
        })?;
        Ok(format!("{namespace}/{name}:{version}"))
    };
    print(&format!("{} is removed\n", ask(settings, here, there)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_named_by_as_much_as_makes_it_one() {
        let flow = |namespace: &str, name: &str| FlowInfo {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            hash: String::new(),
        };
        let all = [flow("a", "report"), flow("b", "report"), flow("b", "mail")];
        let is = |text: &str, parts: [&str; 3]| {
            assert_eq!(meant(text, &all).ok(), Some(parts.map(str::to_owned)), "{text}");
        };
        is("mail", ["b", "mail", "latest"]);
        is("a/report", ["a", "report", "latest"]);
        is("b/mail:1.0.0", ["b", "mail", "1.0.0"]);
        let several = meant("report", &all).expect_err("two have it");
        assert!(several.message.contains("a/report, b/report"), "{}", several.message);
        assert_eq!(meant("c/mail", &all).expect_err("none has it").code, NOT_FOUND);
    }
}
