//! `turnwheel node`: the processes that share a store, and joining them.

use turnwheel::api::NodeInfo;
use turnwheel::engine::limits::NODE_LEASE;
use turnwheel::engine::store::Store as _;
#[cfg(feature = "server")]
use turnwheel::engine::{BuildError, SharedStore, StoreError, World, WorldBuilder};

#[cfg(feature = "server")]
use super::any_store::AnyStore;
use super::exit::Exit;
use super::paint::{one_line, print, print_json, table, tell, Paint};
use super::place::Place;
use super::settings::Settings;
use super::span;

const AFTER_HELP: &str = "\
Nodes are processes of «turnwheel serve --node NAME» over one store on PostgreSQL. The store is asked, and
no node: this works while none of them runs.

Examples:
  turnwheel node list --store postgres://turnwheel@db.example/plans
  turnwheel node list --json | jq -r '.nodes[].address'

Exit codes: 0 listed, also if there are none; 1 the store cannot be read; 3 there is no such store.";

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
    List {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let place = Place::of(settings);
    let What::List { json } = &arguments.what;
    let worlds = place.view()?.worlds()?;
    let left = match place.existing()?.members()? {
        Some(mut members) => Some(members.beat(&[], NODE_LEASE)?.left),
        None => None,
    };
    let nodes = NodeInfo::all(&worlds, left.as_deref());
    if *json {
        return print_json(&serde_json::json!({ "nodes": nodes }));
    }
    if nodes.is_empty() {
        tell!("no process has the store");
        return Ok(());
    }
    let paint = Paint::stdout(settings.colour());
    let since = worlds.iter().map(|world| span::shown(&world.since.to_string()));
    let lines: Vec<Vec<String>> =
        nodes.iter().zip(since).map(|(node, since)| line(paint, node, since)).collect();
    let headings = ["node", "state", "version", "slots", "lease", "since", "labels", "address"];
    print(&table(paint, &headings, &lines))
}

fn line(paint: Paint, node: &NodeInfo, since: String) -> Vec<String> {
    let state = if node.is_alive { paint.good("alive") } else { paint.bad("silent") };
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
    for text in settings.text("serve.labels").into_iter().flat_map(|labels| labels.split(',')) {
        let checked = label(text.trim()).map_err(|problem| {
            Exit::usage(format!("{}: {problem}", settings.place("serve.labels")))
        })?;
        if let Some((name, value)) = checked.split_once('=') {
            builder = builder.meta(format!("{}{name}", turnwheel::api::LABEL), value);
        }
    }
    let refused = |error| Place::of(settings).refused(error);
    let shared = SharedStore::node(store.clone(), settings.length("serve.lease"));
    let shared = shared.map_err(|error| {
        refused(error).advice("nodes need a store on PostgreSQL: --store postgres://…")
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
