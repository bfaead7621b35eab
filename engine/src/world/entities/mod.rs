//! Entities over the nodes of a store: one activation for a key, at the owner of its slot.
//!
//! The slot of an entity is that of its type and key ([`slot_of_entity`]). `owner` says who has it
//! ([`Placement`](turnwheel_actors::entity::Placement)), `calls` brings calls there
//! ([`RemoteCalls`](turnwheel_actors::entity::RemoteCalls)) as requests for the owner of a key.
//!
//! The state of a slot at a world decides whether the world activates its keys, and whether the
//! writes of its activations are admitted:
//!
//! | state of the slot | activates | activations | their writes |
//! | --- | --- | --- | --- |
//! | owned, epoch *n* | yes | run | admitted under *n* |
//! | owned and closed | no | end after what they have admitted | admitted under *n* |
//! | lost, known here | no | end | refused: the epoch is *n* + 1 |
//! | lost, not known here | until the lease is over | run, told `Fenced` | refused |
//! | got back, epoch *n* + 2 | yes | those of *n* end | refused to those of *n* |
//!
//! * A closed slot is about to be given away: it goes when the last activation in it has ended, and
//!   calls for it wait for the next owner.
//! * A world that was stopped or cut off does not know that it has lost slots. Its lease is by its
//!   own clock. The first write of an activation is refused, and the activation ends.
//! * A world that joins takes no slots of nodes with entities (they say so in the table of worlds):
//!   those give it its share with their next heartbeats, each slot closed first.
//!
//! Crash points and limits:
//!
//! * The owner dies with a call, before or after it has written: the caller cannot tell these
//!   apart. It gets `Unknown` once the lease is over, or the answer of the next owner if the
//!   message may be repeated.
//! * The owner is dead and its slot free, or the slot is in motion: nothing was sent. The call
//!   waits for the next owner until its deadline, then it is `Unavailable`.
//! * The asking node dies: what was sent is done or not, and nobody waits.
//! * The only node ends while a handler asks an entity that is not active: nobody will have its
//!   key, and the end waits for the handler. The call is `Unavailable` at once.
//! * A handler asks a key of its own slot while that is closed: the slot cannot go before the
//!   handler has ended, so the call waits until its deadline, and other keys of the slot with it.
//! * The store does not answer: calls over it end with their deadline, and writes fail. An
//!   activation whose write has failed ends after the request; the next one reads the state when
//!   the writer has found out that the commit can happen no more. Meanwhile the entity answers
//!   nothing, not even from memory.
//! * A world has at most [`ENTITY_CALLS_MAX`] calls with [`ENTITY_CALL_BYTES_MAX`] under way: a
//!   further one is `Unavailable` at once, and a message without a caller is a dead letter.
//! * A message or answer beyond [`PAYLOAD_BYTES_MAX`]: `Refused`; for an answer `Unknown`, as it
//!   was done.
//!
//! Not fenced: what a handler does outside of its state, and answers from memory at a node that has
//! lost its slot and does not know it yet.

mod calls;
mod owner;
mod under_way;

use std::sync::{Arc, Weak};
use std::time::Duration;

use turnwheel_actors::{Entities, EntitiesBuilder};

use under_way::UnderWay;

use super::{Meta, Shared, World};
use crate::journal::SlotStates;
#[cfg(doc)]
use crate::limits::{ENTITY_CALLS_MAX, ENTITY_CALL_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::store::{slot_of_entity, Slots, WorldRow};

/// Name of the service that takes calls for entities, and of the mark of a world that has some.
const SERVICE: &str = "entities";

/// Pause before a world says again that it has entities, if that has failed.
const SAY_AGAIN: Duration = Duration::from_secs(1);

/// Whether a world has said that it has entities.
pub(super) fn has_entities(row: &WorldRow) -> bool {
    Meta::of(row).get(SERVICE).is_some()
}

/// The nodes of a store, as the entities of one world see them.
#[derive(Debug)]
struct Nodes {
    world: Weak<Shared>,
    under_way: Arc<UnderWay>,
}

impl World {
    /// Makes entities of a builder that are one with those of all worlds over this store. A key has
    /// its activation at the owner of its slot, and messages [that
    /// cross](turnwheel_actors::EntitiesBuilder::remote) reach it from everywhere. Their states are
    /// in this world's store; each write is checked against the epoch of the slot in its commit.
    ///
    /// Each world that runs plans has slots, so each of them must have the same types, from its
    /// begin on: calls for a key of a world without entities are refused. An asking world may be a
    /// [client](super::WorldBuilder::client). Entities call others by `EntityContext::entities`.
    /// What a caller is told when an owner goes:
    /// [`RemoteError`](turnwheel_actors::entity::RemoteError). Placement, carrier and store of the
    /// builder are replaced. Reminders are not part of it.
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use turnwheel_actors::entity::{EntityContext, RemoteMessage, StoreError, Stored};
    /// use turnwheel_actors::{Actor, AsyncContext, AsyncHandler, Entities, Entity, System};
    /// use turnwheel_engine::{limits::NODE_LEASE, MemoryStore, SharedStore, World};
    /// use turnwheel_runtime::Group;
    ///
    /// struct Account(Option<Stored<i64>>);
    ///
    /// impl Actor for Account {
    ///     type Error = StoreError;
    /// }
    ///
    /// impl Entity for Account {
    ///     type Key = String;
    ///     const NAME: &'static str = "account";
    ///
    ///     fn create(_: &String) -> Self {
    ///         Account(None)
    ///     }
    ///
    ///     async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
    ///         self.0 = Some(Stored::load(&cx).await?);
    ///         Ok(())
    ///     }
    /// }
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Deposit(i64);
    ///
    /// impl RemoteMessage for Deposit {
    ///     const NAME: &'static str = "deposit";
    /// }
    ///
    /// impl AsyncHandler<Deposit> for Account {
    ///     type Reply = Result<i64, String>;
    ///
    ///     async fn handle(&mut self, deposit: Deposit, _: AsyncContext<Self>) -> Self::Reply {
    ///         let balance = self.0.as_mut().expect("it was activated");
    ///         let written = balance.update(|balance| *balance += deposit.0).await;
    ///         written.map_err(|error| error.to_string())?;
    ///         Ok(**balance)
    ///     }
    /// }
    ///
    /// // Each of these would be a process of its own, over a store on PostgreSQL.
    /// let (store, group) = (MemoryStore::new(), Group::builder("entities").workers(1).build()?);
    /// let node = |name: &str| -> Result<_, Box<dyn std::error::Error>> {
    ///     let store = SharedStore::node(store.clone(), NODE_LEASE)?;
    ///     let world = World::builder().name(name).join(&store)?;
    ///     let builder = Entities::builder(&System::new(&group));
    ///     let builder = builder.remote::<Account>(|account| account.message::<Deposit, _>());
    ///     Ok((world.entities(builder), world, store))
    /// };
    /// let (one, two) = (node("one")?, node("two")?);
    /// assert_eq!(one.0.get::<Account>("42").ask(Deposit(5)).wait()??, 5);
    /// assert_eq!(two.0.get::<Account>("42").ask(Deposit(2)).wait()??, 7);
    /// # for (_, world, store) in [one, two] {
    /// #     world.shutdown()?;
    /// #     store.close()?;
    /// # }
    /// # group.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// This world has entities already.
    pub fn entities(&self, builder: EntitiesBuilder) -> Entities {
        let shared = &self.shared;
        let (world, under_way) = (Arc::downgrade(shared), Arc::default());
        let nodes = Arc::new(Nodes { world, under_way });
        let builder = builder.placement(Arc::clone(&nodes) as _).carrier(nodes as _);
        let entities = builder.store(SlotStates::new(shared.journal.clone())).build();
        assert!(shared.entities.set(entities.clone()).is_ok(), "the world has entities already");
        shared.services.add(SERVICE, calls::taking(&entities));
        if shared.is_executor() && shared.hub.node.is_some() {
            shared.hub.spawn(say_so(Arc::downgrade(shared)));
        }
        entities
    }
}

/// Writes into the table of worlds that this one has entities, until it is there.
async fn say_so(world: Weak<Shared>) {
    while let Some(shared) = world.upgrade().filter(|shared| !shared.is_ending()) {
        let said = World::of(&shared).describe(SERVICE, "yes").await;
        // A world that was declared dead has no row, and is registered again later.
        if said.is_ok() && shared.hub.worlds().find(shared.epoch).is_some_and(has_entities) {
            return;
        }
        let error = said.err();
        tracing::warn!(?error, "a node that joins may take slots of entities at once");
        let again = shared.hub.group.sleep(SAY_AGAIN);
        drop(shared);
        if again.await.is_err() {
            return;
        }
    }
}

impl Shared {
    /// Ends the activations of entities in some slots. Until the last of a slot is over, the slot
    /// counts as busy.
    pub(super) fn end_entities(&self, slots: &Slots) {
        let Some(entities) = self.entities.get().filter(|_| !slots.is_empty()) else { return };
        entities.passivate_if(|entity, key| {
            let slot = slot_of_entity(entity, key);
            slots.has(slot).then(|| self.busy.enter(slot))
        });
    }

    /// As [`Shared::end_entities`], beside what goes on.
    pub(super) fn end_entities_soon(self: &Arc<Self>, slots: Slots) {
        if self.entities.get().is_none() || slots.is_empty() {
            return;
        }
        let shared = Arc::clone(self);
        self.hub.spawn(async move { shared.end_entities(&slots) });
    }
}
