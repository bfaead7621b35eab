//! A world gives slots away while it works: a few at a time, each when no code of its plans runs.
//!
//! 1. The world is marked in the table of worlds: it gets no slots and no new plans any more.
//! 2. A few of its slots are closed: no code begins in them, and what runs there comes to its end;
//!    entities of these slots are passivated.
//! 3. Those without code under way go to others in one commit. Their new owners are told at once,
//!    and call what was left to them.
//! 4. Steps 2 and 3 are repeated until no slot is left.
//!
//! One flow of a world gives slots at a time: a drain by the mark, the end of the world, or a share
//! for others. Each opens again the slots that it has closed and kept.
//!
//! A slot whose code runs on for long holds up only its own plans: more slots are closed meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::ending::Giving;
use super::hub::Hub;
use super::{shares, Asking, Meta, Shared, World, WorldView};
use crate::connect::{Envelope, Request, RequestKind};
use crate::error::StoreError;
use crate::store::{Owner, Slots, WorldKind, WorldRow, Worlds, WorldsWrite};

/// Progress of a world that gives its slots away.
pub(super) const DRAINING: &str = "draining";

/// Slots that are closed at the same time: their plans wait for one commit and one change of owner.
const GROUP: usize = 32;

/// Pause between two looks whether code has ended.
const LOOK: Duration = Duration::from_millis(2);

/// Time without a slot to give, after which more are closed.
const STALLED: u32 = 25;

/// Whether a world gives its slots away, or has done so.
pub(super) fn is_draining(row: &WorldRow) -> bool {
    row.meta.contains(DRAINING) && Meta::of(row).get(DRAINING).is_some()
}

impl WorldView {
    /// Whether it gives its slots away, or has done so.
    pub fn is_draining(&self) -> bool {
        self.meta.get(DRAINING).is_some()
    }
}

impl World {
    /// The owners of all slots, in the order of the slots.
    pub fn slot_owners(&self) -> Vec<Owner> {
        self.shared().hub().worlds().owners().to_vec()
    }

    /// Has a node give all its slots to the others, and begin no new plans: before it is replaced,
    /// say. It goes on to serve requests. Its process does that a moment later, wherever it is; the
    /// mark ends with its world. Returns whether there is such a world.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn drain_node(&self, world: u64) -> Asking<bool, StoreError> {
        let hub = Arc::clone(self.shared().hub());
        Asking::new(async move {
            let mark = move |worlds: &Worlds| {
                let row = worlds.find(world).filter(|row| !is_draining(row))?;
                let mut meta = Meta::of(row);
                meta.given.push((DRAINING.to_owned(), "yes".to_owned()));
                let row = WorldRow { meta: meta.to_text(), ..row.clone() };
                Some(WorldsWrite { from: worlds.version, put: vec![row], gone: Vec::new() })
            };
            let is_marked = hub.change(mark).await?;
            Ok(is_marked || hub.worlds().find(world).is_some())
        })
    }

    /// Gives all slots to others within a limit. Whether none is left: not if there is no other
    /// node to have them.
    pub(super) async fn give_slots_away(&self, limit: Duration) -> Result<bool, StoreError> {
        let (shared, hub) = (self.shared(), self.shared().hub());
        let is_shared = hub.node.is_some() && shared.is_executor();
        if !is_shared || !hub.has_heirs(self.id()) {
            return Ok(false);
        }
        self.drain_node(self.id()).await?;
        shared.busy().set_draining();
        let until_ns = shared.group().now_ns().saturating_add(nanos(limit));
        loop {
            if let Some(giving) = shared.busy().begin_giving() {
                return self.give_all(until_ns, giving).await;
            }
            if shared.group().now_ns() >= until_ns {
                return Ok(self.own_slots().is_empty());
            }
            hub.pause(LOOK).await;
        }
    }

    async fn give_all(&self, until_ns: u64, _giving: Giving) -> Result<bool, StoreError> {
        let given = self.give_in_groups(until_ns).await;
        if !matches!(given, Ok(true)) {
            self.keep(&Slots::all());
        }
        given
    }

    async fn give_in_groups(&self, until_ns: u64) -> Result<bool, StoreError> {
        let (shared, hub) = (self.shared(), self.shared().hub());
        let (mut room, mut stalled) = (GROUP, 0);
        loop {
            let own = self.own_slots();
            if own.is_empty() {
                return Ok(true);
            }
            if shared.group().now_ns() >= until_ns || !hub.has_heirs(self.id()) {
                return Ok(false);
            }
            let is_open = |slot: &usize| !shared.busy().is_closed(*slot);
            let open: Slots = own.iter().filter(is_open).collect();
            let more = room.saturating_sub(own.len() - open.len());
            // The slots of new plans go last: they have most code under way.
            let closing = open.iter().rev().take(more).collect();
            shared.busy().close(&closing);
            shared.end_entities(&closing);
            if hub.give_idle(shared, own).await? {
                stalled = 0;
                continue;
            }
            stalled += 1;
            if stalled % STALLED == 0 {
                room += GROUP;
            }
            // Code that runs for long is looked at less often.
            hub.pause(LOOK * stalled.min(STALLED)).await;
        }
    }

    /// Opens closed slots, and goes on with the plans of those that are here still.
    fn keep(&self, out_of: &Slots) {
        let shared = self.shared();
        let is_closed = |slot: &usize| shared.busy().is_closed(*slot);
        let closed: Slots = out_of.iter().filter(is_closed).collect();
        shared.busy().open(&closed);
        let left = closed.with(&self.own_slots());
        if !left.is_empty() {
            shared.owns_now(left, false);
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Hub {
    /// Whether another world would get the slots of this one.
    pub(super) fn has_heirs(&self, world: u64) -> bool {
        let may_have = |row: &WorldRow| row.kind == WorldKind::Executor && !is_draining(row);
        self.worlds().rows.iter().any(|row| row.epoch != world && may_have(row))
    }

    /// Gives closed slots of a world, out of these, to those that should have them, if no code of
    /// their plans runs. Whether any has gone.
    async fn give_idle(
        self: &Arc<Self>,
        world: &Arc<Shared>,
        out_of: Slots,
    ) -> Result<bool, StoreError> {
        let busy = world.busy();
        let closed: Slots = out_of.iter().filter(|slot| busy.is_closed(*slot)).collect();
        let ready = closed.without(&busy.slots());
        if ready.is_empty() {
            return Ok(false);
        }
        let lapsed = self.silent().await?;
        let (own, stay) = (BTreeSet::from([world.epoch()]), Slots::all().without(&ready));
        let given = self.change(move |worlds| shares::even(worlds, &own, &stay, &lapsed)).await?;
        let is_lost = |slot: &usize| self.worlds().owner(*slot) != world.epoch();
        busy.open(&ready.iter().filter(is_lost).collect());
        Ok(given)
    }

    /// Gives slots of a world that others have too few of, if no code of their plans runs.
    pub(super) async fn give_surplus(
        self: &Arc<Self>,
        world: &Arc<Shared>,
        surplus: Slots,
    ) -> Result<(), StoreError> {
        let Some(_giving) = world.busy().begin_giving() else { return Ok(()) };
        world.busy().close(&surplus);
        world.end_entities(&surplus);
        self.wait_for_entities(world, &surplus).await;
        let given = self.give_idle(world, surplus).await;
        World::of(world).keep(&surplus);
        given.map(drop)
    }

    /// Waits a moment for the end of activations in closed slots; slots with longer ones stay.
    async fn wait_for_entities(&self, world: &Shared, slots: &Slots) {
        for _ in 0..STALLED {
            if slots.with(&world.busy().slots()).is_empty() {
                return;
            }
            self.pause(LOOK).await;
        }
    }

    /// The worlds that have missed half of their lease: they may be dead.
    async fn silent(&self) -> Result<Vec<u64>, StoreError> {
        let Some(lease) = self.journal.lease() else { return Ok(Vec::new()) };
        let beat = self.journal.beat(Vec::new(), self.group.now_ns()).await?;
        let silent = beat.left.iter().filter(|(_, left)| *left < lease.length() / 2);
        Ok(silent.map(|(world, _)| *world).collect())
    }

    /// Begins to give away the slots of a world of this node that is marked.
    pub(super) fn drain_marked(&self, world: &Arc<Shared>) {
        let row = self.worlds().find(world.epoch()).filter(|row| is_draining(row)).cloned();
        let Some(row) = row.filter(|_| !world.is_ending()) else { return };
        world.busy().set_draining();
        let has_work = !row.slots.is_empty() && self.has_heirs(row.epoch);
        let Some(giving) = has_work.then(|| world.busy().begin_giving()).flatten() else { return };
        let world = World::of(world);
        self.spawn(async move {
            // If it fails, the next heartbeat goes on with what is left.
            match world.give_all(u64::MAX, giving).await {
                Ok(true) => tracing::info!("this node is drained: others have its slots"),
                Ok(false) => tracing::warn!("this node keeps slots: no other one is there"),
                Err(error) => tracing::warn!(%error, "this node keeps slots for now"),
            }
        });
    }

    /// Tells the other nodes that the table of worlds has changed.
    pub(super) fn tell_nodes(self: &Arc<Self>) {
        let worlds = self.worlds();
        let is_here = |world: u64| self.member(world).is_some();
        let from = worlds.rows.iter().find(|row| is_here(row.epoch)).map(|row| row.epoch);
        let Some(from) = from.filter(|_| self.node.is_some()) else { return };
        for row in worlds.rows.iter().filter(|row| !is_here(row.epoch)) {
            let request = Request(RequestKind::Worlds { version: worlds.version });
            // One that is lost is made up for by the next heartbeat.
            self.connector.send(Envelope { from, to: row.epoch, request }).detach();
        }
    }

    /// Another node has changed the table of worlds.
    pub(super) fn worlds_have_changed(&self, version: u64) {
        if version > self.worlds().version {
            self.journal.read_worlds().detach();
        }
    }
}

impl Shared {
    /// The slots of new plans are among these; a world that has none has its new plans elsewhere.
    pub(super) fn homes_are(&self, slots: &Slots) {
        if !slots.is_empty() {
            self.ids().set_homes(shares::homes(slots));
        }
    }
}
