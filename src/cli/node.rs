//! `turnwheel node`: the processes that share a store, and joining them.

use std::time::{Duration, Instant};

use turnwheel::api::{NodeInfo, SlotMap, SlotRun};
use turnwheel::engine::limits::NODE_LEASE;
use turnwheel::engine::store::Store as _;
#[cfg(feature = "server")]
use turnwheel::engine::{BuildError, SharedStore, StoreError, World, WorldBuilder};

#[cfg(feature = "server")]
use super::any_store::AnyStore;
use super::exit::Exit;
use super::format::{Listing, Output, Watch};
use super::paint::{one_line, table, tell, Paint};
use super::place::Place;
use super::remote::Remote;
use super::settings::Settings;
use super::span;

const AFTER_HELP: &str = "\
Nodes are processes of «turnwheel serve --node NAME» over one store on PostgreSQL. «list», «show» and
«slots» ask the store, and work while no node runs; with --server they ask that node. «drain» is told to
any node.

Examples:
  turnwheel node list --store postgres://turnwheel@db.example/plans
  turnwheel node list --json | jq -r '.nodes[].address'
  turnwheel node drain one && systemctl restart turnwheel

Exit codes: 0 done, and of list: also if there are none; 1 the store cannot be read, or the node keeps
slots; 3 there is no such store or node.";

/// Pause between two looks at a node that is drained.
const LOOK: Duration = Duration::from_millis(100);

/// The processes that share a store.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List the nodes with their versions, slots, and what is left of their leases.
    List(Output),
    /// Show one node with its slots.
    Show {
        /// The name of the node.
        name: String,
        #[command(flatten)]
        output: Output,
    },
    /// Have a node give its slots to the others and begin no new plans, until its process ends.
    Drain {
        /// The name of the node.
        name: String,
        /// How long to wait until it has no slot.
        #[arg(long, value_name = "TIME", default_value = "30s", value_parser = span::duration)]
        within: Duration,
    },
    /// List the owners of the slots into which plans fall.
    Slots(Output),
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    match &arguments.what {
        What::List(output) => output.repeat(|| list(settings, output).map(|()| Watch::GoOn)),
        What::Show { name, output } => {
            output.repeat(|| show(settings, name, output).map(|()| Watch::GoOn))
        }
        What::Drain { name, within } => drain(settings, name, *within),
        What::Slots(output) => output.repeat(|| slots(settings, output).map(|()| Watch::GoOn)),
    }
}

fn unknown(name: &str) -> Exit {
    Exit::not_found(format!("there is no node «{name}»"))
        .advice("turnwheel node list shows the nodes of the store")
}

/// The nodes as the server tells them, or as the store has them.
fn stored(settings: &Settings) -> Result<Vec<NodeInfo>, Exit> {
    if settings.asks_server() {
        return Remote::new("", settings)?.ask(|client| client.nodes()).map(|nodes| nodes.nodes);
    }
    let place = Place::of(settings);
    let worlds = place.view()?.worlds()?;
    let left = match place.existing()?.members()? {
        Some(mut members) => Some(members.beat(&[], NODE_LEASE)?.left),
        None => None,
    };
    Ok(NodeInfo::all(&worlds, left.as_deref()))
}

fn slot_map(settings: &Settings) -> Result<SlotMap, Exit> {
    if settings.asks_server() {
        return Remote::new("", settings)?.ask(|client| client.slots());
    }
    let mut view = Place::of(settings).view()?;
    let owners = view.slot_owners()?;
    Ok(SlotMap::of(&owners, &view.worlds()?))
}

fn show(settings: &Settings, name: &str, output: &Output) -> Result<(), Exit> {
    let node = stored(settings)?.into_iter().rfind(|node| node.name == name);
    let node = node.ok_or_else(|| unknown(name))?;
    let map = slot_map(settings)?;
    let own: Vec<String> =
        map.runs.iter().filter(|run| run.owner == Some(node.id)).map(numbers).collect();
    let paint = Paint::stdout(settings.colour());
    let since = span::shown(&node.since);
    let told = line(paint, &node, since).into_iter();
    let mut lines: Vec<Vec<String>> =
        HEADINGS.iter().zip(told).map(|(name, value)| vec![(*name).to_owned(), value]).collect();
    lines.push(vec!["process".to_owned(), format!("{} on {}", node.process, node.host)]);
    lines.push(vec!["owns".to_owned(), own.join(", ")]);
    let value = serde_json::json!({ "node": node, "slots": own });
    output.one(name, &value, || table(paint, &["", ""], &lines))
}

/// The numbers of a run of slots.
fn numbers(run: &SlotRun) -> String {
    match run.first == run.last {
        true => run.first.to_string(),
        false => format!("{} to {}", run.first, run.last),
    }
}

fn slots(settings: &Settings, output: &Output) -> Result<(), Exit> {
    let map = slot_map(settings)?;
    let line = |run: &SlotRun| {
        let owner = run.node.clone().unwrap_or_else(|| "nobody".to_owned());
        vec![numbers(run), one_line(&owner), run.epoch.to_string()]
    };
    let listing = Listing {
        value: serde_json::json!(map),
        headings: &["slots", "owner", "epoch"],
        wide: 0,
        rows: map.runs.iter().map(line).collect(),
        nothing: "nobody owns a slot",
    };
    output.list(settings.colour(), listing)
}

fn drain(settings: &Settings, name: &str, within: Duration) -> Result<(), Exit> {
    if stored(settings)?.iter().all(|node| node.name != name) {
        return Err(unknown(name));
    }
    let remote = Place::of(settings).server_of(settings, "no node serves the store")?;
    let begun = Instant::now();
    let mut node = remote.ask(|client| client.drain(name))?;
    while node.slots > 0 && begun.elapsed() < within {
        std::thread::sleep(LOOK);
        node = remote.ask(|client| client.node(name))?;
    }
    if node.slots > 0 {
        let slots = node.slots;
        return Err(Exit::failed(format!("node «{name}» has {slots} slots still")).advice(
            "code of plans that runs long ends first; without another node it keeps them all",
        ));
    }
    tell!("node «{name}» has no slots: its plans go on elsewhere");
    Ok(())
}

const HEADINGS: [&str; 8] =
    ["node", "state", "version", "slots", "lease", "since", "labels", "address"];

fn list(settings: &Settings, output: &Output) -> Result<(), Exit> {
    let nodes = stored(settings)?;
    let paint = Paint::stdout(settings.colour());
    let shown = |node: &NodeInfo| line(paint, node, span::shown(&node.since));
    let listing = Listing {
        value: serde_json::json!({ "nodes": nodes }),
        headings: &HEADINGS,
        wide: 0,
        rows: nodes.iter().map(shown).collect(),
        nothing: "no process has the store",
    };
    output.list(settings.colour(), listing)
}

fn line(paint: Paint, node: &NodeInfo, since: String) -> Vec<String> {
    let state = match (node.is_alive, node.is_draining) {
        (false, _) => paint.bad("silent"),
        (true, true) => paint.bad("draining"),
        (true, false) => paint.good("alive"),
    };
    let lease = node.lease_left_ms.map(|left_ms| format!("{:.1} s", left_ms as f64 / 1e3));
    let labels: Vec<String> =
        node.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    vec![
        one_line(&node.name),
        state,
        node.version.clone(),
        node.slots.to_string(),
        lease.unwrap_or_else(|| "–".to_owned()),
        since,
        one_line(&labels.join(",")),
        node.address.clone().unwrap_or_else(|| "–".to_owned()),
    ]
}

/// The name of a node as it is typed: an empty one, of a variable that is not set, would serve alone.
#[cfg(feature = "server")]
pub(crate) fn name(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a node needs a name; leave the flag out to serve alone".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// The address of a node for others as it is typed.
#[cfg(feature = "server")]
pub(crate) fn url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.starts_with(['/', ':']) => Ok(text.to_owned()),
        _ => Err("it is no URL: write it as http://HOST:PORT".to_owned()),
    }
}

/// A label as it is typed.
#[cfg(feature = "server")]
pub(crate) fn label(text: &str) -> Result<String, String> {
    let is_right = text
        .split_once('=')
        .is_some_and(|(name, value)| !name.is_empty() && !value.is_empty() && !text.contains(','));
    is_right
        .then(|| text.to_owned())
        .ok_or_else(|| format!("«{text}» is no label: write it as region=eu, without a comma"))
}

/// Makes the world of a node: it shares the store with others.
#[cfg(feature = "server")]
fn join(
    builder: WorldBuilder,
    store: &AnyStore,
    settings: &Settings,
    name: &str,
) -> Result<(World, SharedStore), Exit> {
    let mut builder = builder.name(name);
    let mut names = std::collections::BTreeSet::new();
    for text in settings.text("serve.labels").into_iter().flat_map(|labels| labels.split(',')) {
        let checked = label(text.trim()).map_err(|problem| {
            Exit::usage(format!("{}: {problem}", settings.place("serve.labels")))
        })?;
        if let Some((name, value)) = checked.split_once('=') {
            if !names.insert(name.to_owned()) {
                let place = settings.place("serve.labels");
                return Err(Exit::usage(format!("{place}: two labels are called «{name}»")));
            }
            builder = builder.meta(format!("{}{name}", turnwheel::api::LABEL), value);
        }
    }
    let refused = |error| Place::of(settings).refused(error);
    let shared = SharedStore::node(store.clone(), settings.length("serve.lease"));
    let shared = shared.map_err(|error| match error {
        error @ BuildError::OneProcess(_) => {
            refused(error).advice("nodes need a store on PostgreSQL: --store postgres://…")
        }
        error => refused(error),
    })?;
    match builder.join(&shared) {
        Ok(world) => Ok((world, shared)),
        Err(error) => {
            let refused = refused(error);
            let _ended = shared.close();
            Err(refused.advice("turnwheel node list shows the nodes of the store"))
        }
    }
}

/// Makes the world: alone, or as a node that shares its store.
#[cfg(feature = "server")]
pub(crate) fn enter(
    builder: WorldBuilder,
    store: &AnyStore,
    settings: &Settings,
) -> Result<(World, Option<SharedStore>), Exit> {
    if let Some(name) = settings.text("serve.node") {
        let (world, shared) = join(builder, store, settings, name)?;
        return Ok((world, Some(shared)));
    }
    let world = builder.build(store.clone()).map_err(|error| {
        let is_in_use = matches!(error, BuildError::Store(StoreError::InUse { .. }));
        let refused = Place::of(settings).refused(error);
        if is_in_use {
            return refused.advice("stop what uses the store, or take another file with --store");
        }
        refused
    })?;
    Ok((world, None))
}

/// Where the address of a server is written down.
#[cfg(feature = "server")]
#[derive(Clone, Copy)]
pub(crate) struct Announced<'a> {
    pub(crate) store: &'a AnyStore,
    pub(crate) settings: &'a Settings,
}

#[cfg(feature = "server")]
impl Announced<'_> {
    pub(crate) async fn at(self, world: &World, url: &str) -> Result<(), Exit> {
        let url = self.settings.text("serve.address").unwrap_or(url);
        match self.settings.text("serve.node") {
            Some(_) => Ok(world.describe("address", url).await?),
            None => Ok(self.store.announce(url)?),
        }
    }
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;

    #[test]
    fn names_addresses_and_labels_of_nodes_that_cannot_be_are_refused() {
        assert_eq!(name("a"), Ok("a".to_owned()));
        assert!(name("").is_err() && name(" ").is_err());
        for right in ["http://10.0.0.1:7070", "https://a.example"] {
            assert_eq!(url(right), Ok(right.to_owned()));
        }
        for wrong in ["nonsense", "10.0.0.1:7070", "http://", "http://:7070", "ftp://a"] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
        assert!(label("a").is_err() && label("a=1").is_ok());
    }
}
