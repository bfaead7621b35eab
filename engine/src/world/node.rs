//! A process that shares its store with others: heartbeats, the slots of the dead, equal shares.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::{Failure, Group};

use super::hub::{io_group, Hub, SharedStore};
use super::joining::has_name;
use super::mail::MailRoom;
use super::own_groups::OwnGroups;
use super::{hub, shares, Shared, WorldView};
use crate::connect::{Connector, Desk, Word};
use crate::error::{BuildError, StoreError};
use crate::id::PlanId;
use crate::limits::NODE_LEASE_MIN;
use crate::run;
use crate::store::{Beat, Slots, Store, WorldKind, WorldRow, Worlds};

/// Heartbeats within a lease.
const BEATS: u32 = 4;

/// Threads of the group that waits for the store: those of a process that has its store for itself,
/// one for heartbeats, and one for requests between nodes.
const IO_WORKERS: usize = hub::IO_WORKERS + 2;

/// A node's knowledge of itself.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Its worlds as they were registered, until they end.
    worlds: Mutex<BTreeMap<u64, Own>>,
    /// When a heartbeat failed for the last time; 0 if none has.
    failed_ns: AtomicU64,
    /// Whether what follows from a heartbeat is under way.
    follows: AtomicBool,
}

#[derive(Debug)]
struct Own {
    row: WorldRow,
    /// Whether no other world may have its name.
    needs_name: bool,
    /// Nothing as long as it is being made.
    world: Option<Weak<Shared>>,
}

/// A world of this node that is there.
struct Known {
    row: WorldRow,
    needs_name: bool,
    world: Option<Arc<Shared>>,
}

impl SharedStore {
    /// Opens a store that other processes share, with threads of its own that wait for the store.
    /// Each of them works on its own slots. When one dies, others have its slots a moment after the
    /// `lease`; [`NODE_LEASE`](crate::limits::NODE_LEASE) suits most. The store carries requests
    /// between them: no node has to reach another one.
    ///
    /// ```
    /// use turnwheel_engine::{limits::NODE_LEASE, MemoryStore, SharedStore, World};
    ///
    /// let store = MemoryStore::new();
    /// let one = SharedStore::node(store.clone(), NODE_LEASE)?;
    /// let two = SharedStore::node(store, NODE_LEASE)?;
    /// let first = World::builder().name("first").join(&one)?;
    /// let second = World::builder().name("second").join(&two)?;
    /// assert_eq!(second.worlds().len(), 2);
    /// # second.shutdown()?;
    /// # first.shutdown()?;
    /// # two.close()?;
    /// # one.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// One process at a time can use the store, it cannot be used, the lease is too short, or no
    /// threads can be made.
    pub fn node(store: impl Store, lease: Duration) -> Result<Self, BuildError> {
        let group = io_group(IO_WORKERS)?;
        let own = OwnGroups::of(group.clone());
        Self::by_mail(&store, &group, own, lease)
    }

    /// As [`SharedStore::node`], in a group whose threads may wait.
    ///
    /// # Errors
    ///
    /// As [`SharedStore::node`].
    pub fn node_on(store: impl Store, group: &Group, lease: Duration) -> Result<Self, BuildError> {
        Self::by_mail(&store, group, OwnGroups::default(), lease)
    }

    /// As [`SharedStore::node_on`], with a connector that reaches the worlds of the other nodes.
    ///
    /// # Errors
    ///
    /// As [`SharedStore::node`].
    pub fn node_in(
        store: impl Store,
        group: &Group,
        connector: impl Connector,
        lease: Duration,
    ) -> Result<Self, BuildError> {
        Self::open_node(&store, group, OwnGroups::default(), Arc::new(connector), lease)
    }

    fn by_mail(
        store: &dyn Store,
        group: &Group,
        own: OwnGroups,
        lease: Duration,
    ) -> Result<Self, BuildError> {
        let room = Arc::new(MailRoom::default());
        let connector: Arc<dyn Connector> = Arc::clone(&room) as _;
        let node = Self::open_node(store, group, own, connector, lease)?;
        room.begin(&node.hub);
        Ok(node)
    }

    fn open_node(
        store: &dyn Store,
        group: &Group,
        own: OwnGroups,
        connector: Arc<dyn Connector>,
        lease: Duration,
    ) -> Result<Self, BuildError> {
        if lease < NODE_LEASE_MIN {
            return Err(BuildError::LeaseTooShort { lease, least: NODE_LEASE_MIN });
        }
        let hub = Hub::open(store, group, own, connector, Some(lease))?;
        hub.begin_beating(lease / BEATS)?;
        Ok(Self { hub })
    }
}

impl Node {
    /// A world is made: it is registered under this number.
    fn begins(&self, world: u64, row: WorldRow, needs_name: bool) {
        self.worlds.lock().insert(world, Own { row, needs_name, world: None });
    }

    /// A world says something else of itself.
    pub(super) fn says(&self, row: &WorldRow) {
        if let Some(own) = self.worlds.lock().get_mut(&row.epoch) {
            own.row.meta.clone_from(&row.meta);
        }
    }

    pub(super) fn has_begun(&self, world: &Arc<Shared>) {
        if let Some(own) = self.worlds.lock().get_mut(&world.epoch()) {
            own.world = Some(Arc::downgrade(world));
        }
    }

    /// Its worlds that are there; the others are forgotten.
    fn worlds(&self) -> BTreeMap<u64, Known> {
        let mut worlds = self.worlds.lock();
        let is_there = |own: &Own| own.world.as_ref().is_none_or(|it| it.strong_count() > 0);
        worlds.retain(|_, own| is_there(own));
        let own = |(number, own): (&u64, &Own)| {
            let (row, needs_name) = (own.row.clone(), own.needs_name);
            let world = own.world.as_ref().and_then(Weak::upgrade);
            (*number, Known { row, needs_name, world })
        };
        worlds.iter().map(own).collect()
    }

    /// Whether it may say that others are dead. If its own heartbeats have failed, those of others
    /// may have failed too: they get the time of one lease.
    fn may_judge(&self, now_ns: u64, lease: Duration) -> bool {
        // Relaxed: heartbeats follow one another.
        let failed_ns = self.failed_ns.load(Ordering::Relaxed);
        failed_ns == 0 || Duration::from_nanos(now_ns.saturating_sub(failed_ns)) > lease
    }
}

/// Work after a heartbeat, until it is done or given up.
struct Following(Weak<Hub>);

impl Drop for Following {
    fn drop(&mut self) {
        let hub = self.0.upgrade();
        let node = hub.as_ref().and_then(|hub| hub.node.as_ref());
        node.iter().for_each(|node| node.follows.store(false, Ordering::Relaxed));
    }
}

impl Hub {
    /// Heartbeats have a task of their own, and wait for nothing else: not for what follows from
    /// the last one, and not for requests.
    fn begin_beating(self: &Arc<Self>, every: Duration) -> Result<(), BuildError> {
        let threads = |error: &dyn std::fmt::Display| BuildError::Threads(error.to_string());
        let task = self.group.task(()).name("journal-beats").spawn();
        let task = task.map_err(|error| threads(&error))?;
        let (hub, keeps) = (Arc::downgrade(self), task.clone());
        let beating = async move {
            let _keeps = keeps;
            while let Some(hub) = hub.upgrade() {
                let next = hub.group.sleep(every);
                match hub.beat().await {
                    Ok(beat) => hub.follow_soon(beat),
                    Err(error) => tracing::warn!(%error, "a heartbeat of this node failed"),
                }
                drop(hub);
                if next.await.is_err() {
                    return;
                }
            }
        };
        let spawned = task.submit(move |(), cx| {
            cx.await_interleaved(beating, |(), _, ()| {});
        });
        spawned.map_err(|error| threads(&error.kind))
    }

    /// Does what follows from a heartbeat, unless that of an earlier one is under way: the next one
    /// finds the rest.
    fn follow_soon(self: &Arc<Self>, beat: Beat) {
        let Some(node) = &self.node else { return };
        // Relaxed: it only keeps two from doing the same.
        if node.follows.swap(true, Ordering::Relaxed) {
            return;
        }
        let under_way = Following(Arc::downgrade(self));
        let hub = Arc::clone(self);
        self.spawn(async move {
            let _under_way = under_way;
            if let Err(error) = hub.follow(beat).await {
                tracing::warn!(%error, "what follows from a heartbeat of this node failed");
            }
        });
    }

    /// Registers a world of this node, with its first heartbeat.
    pub(super) async fn has_registered(
        self: &Arc<Self>,
        world: u64,
        row: WorldRow,
        needs_name: bool,
    ) -> Result<(), StoreError> {
        let Some(node) = &self.node else { return Ok(()) };
        node.begins(world, row, needs_name);
        let beat = self.beat().await?;
        self.follow(beat).await
    }

    /// The worlds of other nodes whose leases are over.
    pub(super) async fn lapsed(&self) -> Result<Vec<WorldView>, StoreError> {
        let beat = self.journal.beat(Vec::new(), self.group.now_ns()).await?;
        self.journal.read_worlds().await.map_err(lost)??;
        let worlds = self.worlds();
        let lapsed = beat.lapsed().into_iter().filter_map(|world| worlds.find(world));
        Ok(lapsed.map(|row| WorldView::of(row, None)).collect())
    }

    /// One heartbeat for the worlds of this node.
    async fn beat(&self) -> Result<Beat, StoreError> {
        let Some(node) = &self.node else { return Ok(Beat::default()) };
        let worlds = node.worlds().into_keys().collect();
        let beat = self.journal.beat(worlds, self.group.now_ns()).await;
        let failed = |_: &StoreError| node.failed_ns.store(self.group.now_ns(), Ordering::Relaxed);
        beat.inspect_err(failed)
    }

    /// Does what follows from a heartbeat.
    async fn follow(self: &Arc<Self>, beat: Beat) -> Result<(), StoreError> {
        let (Some(node), Some(lease)) = (&self.node, self.journal.lease()) else { return Ok(()) };
        let own = node.worlds();
        if beat.version != self.worlds().version {
            self.journal.read_worlds().await.map_err(lost)??;
        }
        if let Err(error) = self.letters.refresh(beat.letters).await {
            tracing::warn!(%error, "dead letters of other nodes are read later");
        }
        let over = beat.lapsed();
        self.register_again(&own, &over).await?;
        let others = over.into_iter().filter(|world| !own.contains_key(world));
        let lapsed: Vec<u64> = others.collect();
        if node.may_judge(self.group.now_ns(), lease.length()) {
            self.bury(lapsed.clone()).await?;
        }
        self.even_out(&own, lapsed).await?;
        for plan in self.journal.read_locks().await? {
            let world = own.values().find_map(|own| own.world.clone());
            world.iter().for_each(|world| world.wake_soon(plan));
        }
        Ok(())
    }

    /// Registers worlds again that were declared dead and are not, under their numbers: others have
    /// their slots.
    async fn register_again(
        self: &Arc<Self>,
        own: &BTreeMap<u64, Known>,
        over: &[u64],
    ) -> Result<(), StoreError> {
        for (number, Known { row, needs_name, world }) in own {
            let Some(world) = world else { continue };
            if world.is_ending() || self.worlds().find(*number).is_some() {
                continue;
            }
            if *needs_name && has_name(&self.worlds(), &row.name, over) {
                tracing::error!(
                    name = row.name,
                    "another node has taken the name of this one while it was silent: this one runs \
                     no plans until that one ends; stop one of them, or give it another name"
                );
                continue;
            }
            tracing::warn!(world = number, "this world was declared dead, and is registered again");
            // Rows for it are not there any more, nor are the answers that it waits for.
            self.connector.detach(*number);
            let row = WorldRow { epoch: *number, ..row.clone() };
            let live = self.live_slots(row.kind).await?;
            self.change(move |worlds| {
                let is_there = worlds.find(row.epoch).is_some();
                (!is_there).then(|| shares::join(worlds, row.clone(), &[], &live))
            })
            .await?;
            self.connector.attach(Desk { world: *number, shared: Arc::downgrade(world) });
        }
        Ok(())
    }

    /// Declares worlds dead whose leases are over, if they still are.
    async fn bury(self: &Arc<Self>, mut dead: Vec<u64>) -> Result<(), StoreError> {
        dead.retain(|world| self.worlds().find(*world).is_some());
        if dead.is_empty() {
            return Ok(());
        }
        let told = dead.clone();
        let buried = self.journal.declare_dead(move |worlds| shares::leave(worlds, &dead)).await;
        if buried.map_err(lost)?? {
            self.tell_nodes();
            tracing::warn!(worlds = ?told, "their leases are over: others go on with their plans");
        }
        Ok(())
    }

    /// Gives slots of this node's worlds to those that have too few, and deals those of nobody.
    async fn even_out(
        self: &Arc<Self>,
        own: &BTreeMap<u64, Known>,
        lapsed: Vec<u64>,
    ) -> Result<(), StoreError> {
        let nothing = BTreeSet::new();
        if shares::even(&self.worlds(), &nothing, &Slots::default(), &lapsed).is_some() {
            let lapsed = lapsed.clone();
            let deal =
                move |worlds: &Worlds| shares::even(worlds, &nothing, &Slots::default(), &lapsed);
            self.change(deal).await?;
        }
        for (number, Known { row, world, .. }) in own {
            let Some(world) = world.as_ref().filter(|world| !world.is_ending()) else { continue };
            if row.kind != WorldKind::Executor {
                continue;
            }
            self.drain_marked(world);
            if world.busy().is_draining() {
                continue;
            }
            let worlds = self.worlds();
            let giving = BTreeSet::from([*number]);
            let even = shares::even(&worlds, &giving, &world.busy().slots(), &lapsed);
            let before = worlds.find(*number).map(|row| row.slots).unwrap_or_default();
            let after = even.and_then(|it| it.put.into_iter().find(|row| row.epoch == *number));
            if let Some(after) = after {
                self.give_surplus(world, before.without(&after.slots)).await?;
            }
        }
        Ok(())
    }
}

impl Shared {
    /// A lock that a plan waits for may be free.
    fn wake_soon(self: &Arc<Self>, plan: PlanId) {
        self.tell_plan(plan, Word::Wake, move |world| {
            world.wakes().set(plan, world.now().after(run::AGAIN));
        });
    }
}

fn lost(failure: Failure) -> StoreError {
    StoreError::unanswered(&failure)
}
