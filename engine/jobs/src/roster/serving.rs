//! The world that serves the jobs: the owner of one key. It reads them when it gets the key's slot, and
//! forgets them when it loses it. The others pass requests on to it.

use std::collections::BTreeMap;

use turnwheel_actors::entity::StoreError;
use turnwheel_engine::internal::{pause, WeakWorld};
use turnwheel_engine::store::WorldKind;
use turnwheel_engine::{Payload, World};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completion, Context, Task};

use super::Roster;
use crate::error::JobError;
use crate::limits::{AGAIN, WAITING_MAX};
use crate::node::Node;
use crate::request::{JobRequest, Outcome, Reply, SERVICE};
use crate::store::{JobStore, Loaded};

/// Description of a node, as its world gives it.
const NODE: &str = "jobs.node";

/// The world that serves the jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    /// Another one, or none yet.
    Elsewhere,
    /// This one, under this epoch of the slot.
    Here(u64),
}

/// Has the worlds over the store know a node.
pub(crate) async fn introduce(world: &World, node: &Node) {
    let text = serde_json::to_string(node).unwrap_or_default();
    let worlds = world.worlds();
    let own = worlds.iter().find(|other| other.id == world.id());
    if own.and_then(|own| own.meta.get(NODE)) == Some(&text) {
        return;
    }
    if let Err(error) = world.describe(NODE, &text).await {
        tracing::warn!(%error, "other nodes do not know that this one runs jobs");
    }
}

/// The nodes that run jobs, by name, and whether each takes new runs.
pub(crate) fn all_nodes(world: &World, own: &Node) -> Vec<(Node, bool)> {
    let mut nodes = BTreeMap::new();
    for other in world.worlds() {
        let text = other.meta.get(NODE).filter(|_| other.kind == WorldKind::Executor);
        let known = text.and_then(|text| serde_json::from_str::<Node>(text).ok());
        let is_own = other.id == world.id();
        let Some(node) = known.or_else(|| is_own.then(|| own.clone())) else { continue };
        nodes.insert(node.name.clone(), (node, !other.is_draining()));
    }
    nodes.entry(own.name.clone()).or_insert_with(|| (own.clone(), true));
    nodes.into_values().collect()
}

/// The nodes that run jobs, and their worlds.
pub(super) fn nodes_of(world: &World, own: &Node) -> Vec<(Node, u64)> {
    let worlds = world.worlds();
    let leaves = worlds.iter().any(|it| it.id == world.id() && it.is_draining());
    let mut nodes = Vec::from_iter((!leaves).then(|| (own.clone(), world.id())));
    for other in worlds.iter().filter(|other| !other.is_draining()) {
        let text = other.meta.get(NODE).filter(|_| other.kind == WorldKind::Executor);
        let node = text.and_then(|text| serde_json::from_str::<Node>(text).ok());
        let Some(node) = node.filter(|_| other.id != world.id()) else { continue };
        if nodes.iter().any(|(known, _)| known.name == node.name) {
            tracing::warn!(node = node.name, "two nodes of jobs have this name: one gets no runs");
            continue;
        }
        nodes.push((node, other.id));
    }
    nodes
}

/// Why a look has failed.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The task has ended.
    Ended,
    Store(StoreError),
}

/// Serves if this world has the slot, and stops serving if it has lost it.
pub(crate) async fn look(world: &World, task: &Task<Roster>, own: &Node) -> Result<(), Stopped> {
    let nodes = nodes_of(world, own);
    let hold = world.hold_of_key(SERVICE);
    let known = task.call(move |roster, _| {
        roster.know(nodes);
        roster.term
    });
    let known = known.await.map_err(|_| Stopped::Ended)?;
    let Some(hold) = hold else {
        let stepped = task.call(|roster, cx| roster.step_down(cx));
        return stepped.await.map_err(|_| Stopped::Ended);
    };
    let term = Term::Here(hold.epoch);
    if known == term {
        return Ok(());
    }
    let store = JobStore::held(world, hold);
    let loaded = store.load_all().await.map_err(Stopped::Store)?;
    let taken = task.call(move |roster, cx| roster.take_over(store, term, loaded, cx));
    taken.await.map_err(|_| Stopped::Ended)
}

/// Looks again at each change of who owns what, as long as world and task are there.
pub(crate) async fn keep(world: WeakWorld, task: Task<Roster>, own: Node) {
    while let Some(world) = world.upgrade() {
        // Before the look, so that no change is lost.
        let changed = world.slots_changed();
        match look(&world, &task, &own).await {
            Ok(()) => {
                drop(world);
                if changed.await.is_err() {
                    return;
                }
            }
            Err(Stopped::Ended) => return,
            Err(Stopped::Store(error)) => {
                tracing::error!(%error, "the jobs cannot be read, and are read again soon");
                pause(&world, AGAIN).await;
            }
        }
    }
}

impl Roster {
    fn know(&mut self, nodes: Vec<(Node, u64)>) {
        self.worlds = nodes.iter().map(|(node, world)| (node.name.clone(), *world)).collect();
        self.nodes = nodes.into_iter().map(|(node, _)| node).collect();
    }

    /// Serves what was read.
    pub(crate) fn take_over(
        &mut self,
        store: JobStore,
        term: Term,
        loaded: Loaded,
        cx: &mut Context<'_, Self>,
    ) {
        self.clear();
        (self.store, self.term) = (store, term);
        (self.paused_by, self.paused_version) = loaded.paused;
        self.take_stored(loaded.jobs, cx);
        for (request, reply) in std::mem::take(&mut self.waiting) {
            self.serve(request, reply, cx);
        }
    }

    /// Serves no more: another world does, or will. Requests go to that one.
    pub(crate) fn step_down(&mut self, cx: &mut Context<'_, Self>) {
        self.term = Term::Elsewhere;
        for (_, entry) in self.clear() {
            for answer in entry.answers {
                answer(Err(moved()));
            }
        }
        for (request, reply) in std::mem::take(&mut self.waiting) {
            self.pass_on(request, reply, cx);
        }
    }

    fn clear(&mut self) -> BTreeMap<String, super::Entry> {
        self.graph = Default::default();
        self.due.clear();
        if let Some((_, timer)) = self.armed.take() {
            timer.cancel();
        }
        self.rest = Default::default();
        std::mem::take(&mut self.entries)
    }

    /// Takes a request: serves it, or has the world that serves answer.
    pub(crate) fn take(&mut self, request: JobRequest, reply: Reply, cx: &mut Context<'_, Self>) {
        if self.term != Term::Elsewhere {
            return self.serve(request, reply, cx);
        }
        let is_next =
            self.world.upgrade().is_some_and(|world| world.hold_of_key(SERVICE).is_some());
        if !is_next {
            return self.pass_on(request, reply, cx);
        }
        // The jobs are about to be read.
        match self.waiting.len() < WAITING_MAX {
            true => self.waiting.push((request, reply)),
            false => reply.tell(Err(JobError::Failed("too many requests wait".to_owned()))),
        }
    }

    fn pass_on(&self, request: JobRequest, reply: Reply, cx: &mut Context<'_, Self>) {
        let Some(world) = self.world.upgrade().filter(|_| !reply.is_remote) else {
            return reply.tell(Err(moved()));
        };
        let asked = async move {
            let failed = |error: &dyn std::fmt::Display| JobError::Failed(error.to_string());
            let request = Payload::of(&request).map_err(|error| failed(&error))?;
            let answer = world.ask_key_owner(SERVICE, SERVICE, request).await;
            let answer = answer.map_err(|error| failed(&error))?;
            answer.read::<Outcome>().map_err(|error| failed(&error))?
        };
        cx.await_interleaved(asked, move |_, _, outcome| reply.tell(outcome));
    }
}

fn moved() -> JobError {
    JobError::Failed("another node has begun to serve the jobs: try again".to_owned())
}

/// Takes the requests of other worlds.
pub(crate) fn take_keyed(world: &World, task: Task<Roster>) {
    world.serve_keys(SERVICE, move |_, request| {
        let taken = take(&task, &request);
        Box::pin(
            async move { taken.await.unwrap_or_else(|_| Err("the jobs have ended".to_owned())) },
        )
    });
}

fn take(task: &Task<Roster>, request: &Payload) -> Completion<Result<Payload, String>> {
    let request: JobRequest = match request.read() {
        Ok(request) => request,
        Err(error) => return Completion::done(Err(format!("it is no request: {error}"))),
    };
    let (told, taken) = completion();
    let refused = told.clone();
    let tell = move |outcome: Outcome| {
        // The world that asks may have gone.
        let _gone = told.complete(Payload::of(&outcome).map_err(|error| error.to_string()));
    };
    let reply = Reply::remote(tell);
    if let Err(error) = task.submit(|roster, cx| roster.take(request, reply, cx)) {
        let _gone = refused.complete(Err(format!("the jobs take no requests: {}", error.kind)));
    }
    taken
}
