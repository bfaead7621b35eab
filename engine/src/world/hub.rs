//! Parts shared by the worlds of one process: the store with its writer, and their connection.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::pin::{pin, Pin};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::{Completion, Group, Mailbox, Pinning, SpawnError, Task};

use super::node::Node;
use super::own_groups::OwnGroups;
use super::{Letters, Shared};
use crate::connect::{
    Answer, AnswerKind, ConnectError, Connector, Envelope, Local, Request, RequestKind,
};
use crate::error::{BuildError, StoreError};
use crate::journal::Journal;
use crate::limits::DESK_MAX;
use crate::store::{Seq, Slots, Store, WorldKind, Worlds};
use crate::time::Time;
use crate::watch::{Buffer, Feed};

/// Threads of the group that waits for the disk: the writer, one that reads meanwhile, and one that
/// keeps the store in order.
pub(super) const IO_WORKERS: usize = 3;

/// An open store for several worlds of this process:
/// [`WorldBuilder::join`](super::WorldBuilder::join).
///
/// It is opened once, and has a single writer, whose commits serve all worlds. Clones share it.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use turnwheel_engine::{
///     Action, ActionError, MemoryStore, Next, Run, Runs, SharedStore, StepContext, World,
/// };
///
/// struct Double;
/// impl Action for Double {
///     const NAME: &'static str = "double";
///     type Input = u64;
///     type Output = u64;
///     type Phases = Runs;
/// }
/// impl Run for Double {
///     fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
///         step.output = 2 * step.input;
///         Ok(Next::Done)
///     }
/// }
///
/// let store = SharedStore::open(MemoryStore::new())?;
/// let runs = World::builder().name("runs").action(Double).join(&store)?;
/// let asks = World::builder().name("asks").client().join(&store)?;
/// let plan = asks.trigger::<Double>(21).wait()?;
/// assert_eq!(plan.finished().wait()?.output::<Double>()?, 42);
/// assert_eq!(asks.worlds().len(), 2);
/// asks.shutdown()?;
/// runs.shutdown()?;
/// store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SharedStore {
    pub(super) hub: Arc<Hub>,
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedStore").field("store", &self.hub.store).finish_non_exhaustive()
    }
}

impl SharedStore {
    /// Opens a store, with threads of its own that wait for the disk.
    ///
    /// # Errors
    ///
    /// The store cannot be used, or no threads can be made.
    pub fn open(store: impl Store) -> Result<Self, BuildError> {
        let group = io_group(IO_WORKERS)?;
        let own = OwnGroups::of(group.clone());
        Ok(Self { hub: Hub::open(&store, &group, own, Arc::new(Local::new()), None)? })
    }

    /// As [`SharedStore::open`], in a group whose threads may wait, and with a connector.
    ///
    /// # Errors
    ///
    /// As [`SharedStore::open`].
    pub fn open_in(
        store: impl Store,
        group: &Group,
        connector: impl Connector,
    ) -> Result<Self, BuildError> {
        let own = OwnGroups::default();
        Ok(Self { hub: Hub::open(&store, group, own, Arc::new(connector), None)? })
    }

    /// Ends the threads of the store, when its worlds have ended.
    ///
    /// # Errors
    ///
    /// They did not end in time.
    pub fn close(&self) -> Result<(), BuildError> {
        for group in self.hub.own.end() {
            group.shutdown_within(super::SHUTDOWN_LIMIT).map_err(|error| {
                BuildError::Threads(format!("the group «{}»: {error}", group.name()))
            })?;
        }
        Ok(())
    }
}

pub(super) fn io_group(workers: usize) -> Result<Group, BuildError> {
    let group = Group::builder("journal").workers(workers).pinning(Pinning::None);
    group.build().map_err(|error| BuildError::Threads(error.to_string()))
}

/// Patience of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Time limit of an answer.
    pub(crate) limit: Option<Duration>,
    /// Whether to wait until there is an executor.
    pub(crate) waits: bool,
    /// Whether it may be asked again when nobody knows whether it was done.
    pub(crate) repeats: bool,
}

/// Parts shared by the worlds of one process.
pub(crate) struct Hub {
    pub(crate) journal: Journal,
    /// Entries of all nodes, if other processes share the store.
    feed: Option<Arc<Feed>>,
    pub(super) connector: Arc<dyn Connector>,
    pub(crate) group: Group,
    pub(super) store: String,
    members: Mutex<BTreeMap<u64, Weak<Shared>>>,
    /// Carries requests that wait.
    desk: Task<()>,
    pub(super) turn: AtomicUsize,
    /// When worlds were last heard of.
    pub(super) heard: Mutex<HashMap<u64, Time>>,
    pub(super) letters: Arc<Letters>,
    own: OwnGroups,
    /// If other processes share the store.
    pub(super) node: Option<Node>,
}

impl Hub {
    pub(super) fn open(
        store: &dyn Store,
        group: &Group,
        own: OwnGroups,
        connector: Arc<dyn Connector>,
        lease: Option<Duration>,
    ) -> Result<Arc<Self>, BuildError> {
        let journal = Journal::open(store, group, lease)?;
        let desk = group.task(()).name("desk").mailbox(Mailbox::bounded(DESK_MAX));
        let desk = desk.spawn();
        let desk = desk.map_err(|error: SpawnError<_>| BuildError::Threads(error.to_string()))?;
        let hub = Arc::new(Self {
            letters: Letters::new(&journal, &desk),
            feed: lease.map(|_| Feed::new(&journal, group)),
            journal,
            connector,
            group: group.clone(),
            store: store.name(),
            members: Mutex::default(),
            desk,
            turn: AtomicUsize::new(0),
            heard: Mutex::default(),
            own: own.used_by(format!("the shared store {}", store.name())),
            node: lease.map(|_| Node::default()),
        });
        let weak = Arc::downgrade(&hub);
        hub.journal.directory().listen(Box::new(move |before, now| {
            if let Some(hub) = weak.upgrade() {
                hub.changed(before, now);
            }
        }));
        Ok(hub)
    }

    pub(super) fn add(&self, shared: &Arc<Shared>) {
        self.members.lock().insert(shared.epoch(), Arc::downgrade(shared));
        self.node.iter().for_each(|node| node.has_begun(shared));
    }

    /// A world of this process.
    pub(crate) fn member(&self, epoch: u64) -> Option<Arc<Shared>> {
        self.members.lock().get(&epoch).and_then(Weak::upgrade)
    }

    /// The registered worlds.
    pub(crate) fn worlds(&self) -> Arc<Worlds> {
        self.journal.directory().now()
    }

    /// Runs a future that waits for others.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let spawned = self.desk.submit(move |(), cx| {
            cx.await_interleaved(future, |(), _, ()| {});
        });
        if let Err(error) = spawned {
            // The waiter notices by the drop of its completer.
            tracing::warn!(kind = %error.kind, "a request to another world is refused");
        }
    }

    /// Gives the entries of all nodes to a listener, after the place that comes back.
    pub(crate) fn listen(&self, buffer: Arc<Buffer>) -> Completion<Seq> {
        let Some(feed) = &self.feed else { return self.journal.listen(buffer) };
        let (joined, runs) = feed.join(buffer);
        if let Some(runs) = runs {
            self.spawn(runs);
        }
        joined
    }

    /// Worlds have come, gone, or got other plans.
    fn changed(self: &Arc<Self>, before: &Worlds, now: &Worlds) {
        let members: Vec<(u64, Weak<Shared>)> =
            self.members.lock().iter().map(|(epoch, member)| (*epoch, member.clone())).collect();
        for (epoch, member) in members {
            let Some(member) = member.upgrade() else {
                self.members.lock().remove(&epoch);
                continue;
            };
            match now.find(epoch) {
                Some(row) => {
                    let had = before.find(epoch).map(|row| row.slots).unwrap_or_default();
                    // Slots that went and came back in one look are lost and gained: another one
                    // may have had them.
                    let is_kept = |slot: &usize| before.owners()[*slot] == now.owners()[*slot];
                    let kept = row.slots.iter().filter(is_kept).collect();
                    member.homes_are(&row.slots);
                    let lost = had.without(&kept);
                    if !lost.is_empty() {
                        member.forget_lost_plans();
                    }
                    member.end_entities_soon(lost);
                    let gained = row.slots.without(&kept);
                    let has_gone = before.rows.iter().any(|row| now.find(row.epoch).is_none());
                    for gone in before.rows.iter().filter(|row| now.find(row.epoch).is_none()) {
                        let slots = gained.without(&Slots::all().without(&gone.slots));
                        member.took_over(slots, super::shared::called(gone.epoch, &gone.name));
                    }
                    if row.kind == WorldKind::Executor && (has_gone || !gained.is_empty()) {
                        member.owns_now(gained, has_gone);
                    }
                }
                // It will be registered again.
                None if self.node.is_some() && !member.is_ending() => {
                    member.forget_lost_plans();
                    member.end_entities_soon(Slots::all());
                }
                None => {
                    self.members.lock().remove(&epoch);
                    self.connector.detach(epoch);
                    self.heard.lock().remove(&epoch);
                    member.forget_lost_plans();
                    member.end_entities_soon(Slots::all());
                }
            }
            member.give_watchers_away();
        }
    }

    /// The worlds that run plans and know an action.
    pub(crate) fn all_with(&self, action: &str) -> Vec<u64> {
        let worlds = self.worlds();
        let fits = |row: &&crate::store::WorldRow| {
            row.kind == WorldKind::Executor
                && super::peers::Meta::of(row).actions.iter().any(|known| known == action)
        };
        worlds.rows.iter().filter(fits).map(|row| row.epoch).collect()
    }

    /// Asks one world. It ends also when that world goes.
    pub(crate) async fn call(
        &self,
        from: u64,
        to: u64,
        request: Request,
    ) -> Result<Answer, ConnectError> {
        let is_gone = move |worlds: &Worlds| worlds.find(to).is_none();
        self.call_unless(from, to, request, is_gone).await
    }

    /// Asks one world, until it is known that it will not answer.
    pub(super) async fn call_unless(
        &self,
        from: u64,
        to: u64,
        request: Request,
        is_gone: impl Fn(&Worlds) -> bool,
    ) -> Result<Answer, ConnectError> {
        let directory = self.journal.directory();
        let mut changed = directory.changed();
        let mut answer = self.connector.send(Envelope { from, to, request });
        std::future::poll_fn(move |cx| loop {
            if let Poll::Ready(outcome) = Pin::new(&mut answer).poll(cx) {
                return Poll::Ready(outcome.unwrap_or(Err(ConnectError::Gone { world: to })));
            }
            // Looked at after `changed` was asked for, so that no change is missed.
            if is_gone(&directory.now()) {
                return Poll::Ready(Err(ConnectError::Gone { world: to }));
            }
            if Pin::new(&mut changed).poll(cx).is_pending() {
                return Poll::Pending;
            }
            changed = directory.changed();
        })
        .await
    }

    /// The same, within a limit.
    pub(crate) async fn call_within(
        &self,
        from: u64,
        to: u64,
        request: Request,
        limit: Duration,
    ) -> Result<Answer, ConnectError> {
        within(&self.group, limit, self.call(from, to, request)).await
    }

    /// Waits for a moment.
    pub(crate) async fn pause(&self, pause: Duration) {
        let _slept = self.group.sleep(pause).await;
    }

    /// Whether a world answers.
    pub(super) async fn ping(
        self: Arc<Self>,
        from: u64,
        to: u64,
        limit: Duration,
    ) -> Result<(), ConnectError> {
        let asked = self.call(from, to, Request(RequestKind::Ping));
        let answer = within(&self.group, limit, asked).await?;
        match answer.0 {
            AnswerKind::Pong => {
                self.heard.lock().insert(to, self.group.wall().into());
                Ok(())
            }
            other => Err(ConnectError::Refused(format!("a ping is answered by {other:?}"))),
        }
    }

    /// Changes who is there.
    pub(super) async fn change(
        self: &Arc<Self>,
        change: impl FnMut(&Worlds) -> Option<crate::store::WorldsWrite> + Send + 'static,
    ) -> Result<bool, StoreError> {
        let changed = self.journal.change_worlds(change).await;
        let changed = changed.map_err(|failure| StoreError::unanswered(&failure))??;
        if changed {
            self.tell_nodes();
        }
        Ok(changed)
    }
}

/// The outcome of a request, or that it did not come in time.
pub(crate) async fn within<T>(
    group: &Group,
    limit: Duration,
    asked: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    let (mut asked, mut sleep) = (pin!(asked), group.sleep(limit));
    std::future::poll_fn(move |cx| {
        if let Poll::Ready(outcome) = asked.as_mut().poll(cx) {
            return Poll::Ready(outcome);
        }
        Pin::new(&mut sleep).poll(cx).map(|_| Err(ConnectError::TimedOut { limit }))
    })
    .await
}
