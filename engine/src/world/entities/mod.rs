//! Entities over the nodes of a store: one activation for a key, at the owner of its slot.
//!
//! The slot of an entity is that of its type and key ([`slot_of_entity`]). `owner` says who has it
//! ([`Placement`](turnwheel_actors::entity::Placement)), `calls` brings calls there
//! ([`RemoteCalls`](turnwheel_actors::entity::RemoteCalls)) as requests for the owner of a key.
//!
//! | state of the slot at a world | it activates its keys | its activations | writes of their states |
//! | --- | --- | --- | --- |
//! | owned, under epoch *n* | yes | run | admitted under *n* |
//! | owned, closed: about to be given away | no: calls for them wait for the next owner | handle what they have admitted, then end; the slot is given when the last has ended | admitted under *n* |
//! | given away, or taken since the lease was over; this world knows it | no: calls go to the owner | end | refused: the slot has epoch *n* + 1 |
//! | taken, this world does not know it (stopped, cut off) | not once its lease is over by its own clock | run, and may answer from memory | refused by the store; the activation is told [`Fenced`](turnwheel_actors::entity::StoreError::Fenced) and ends |
//! | got back, under epoch *n* + 2 | yes, once those of *n* have ended | those of *n* end | refused to those of *n* |
//!
//! A world that joins takes no slots of nodes with entities (they say so in the table of worlds): those
//! give it its share with their next heartbeats, as above.
//!
//! | crash point, limit | what happens |
//! | --- | --- |
//! | the owner dies before it takes a call, or before it answers | the caller cannot tell these apart: `Unknown` once the lease is over, or sent again to the next owner if the message says that it may be |
//! | the owner dies after the state was written, before its answer | the same: the state has it |
//! | the owner is dead and its slot free, or a slot is being given away | nothing was sent: the call waits for the next owner until its deadline, then `Unavailable` |
//! | the asking node dies | what was sent is done or not; nobody waits |
//! | the store does not answer | calls over it end with their deadline, and writes fail. An activation whose write has an unknown outcome keeps the value before it: the next write meets a conflict, and the state is read again |
//! | a message or an answer beyond [`PAYLOAD_BYTES_MAX`] | `Refused`; for an answer `Unknown`: it was done |
//!
//! Not fenced: what a handler does outside of its state, and answers from memory at a node that has
//! lost its slot and does not know it yet.

mod calls;
mod owner;

use std::sync::{Arc, Weak};

use turnwheel_actors::{Entities, EntitiesBuilder};

use super::{Meta, Shared, World};
use crate::journal::SlotStates;
#[cfg(doc)]
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::store::{slot_of_entity, Slots, WorldRow};

/// Name of the service that takes calls for entities, and of the mark of a world that has some.
const SERVICE: &str = "entities";

/// Whether a world has said that it has entities.
pub(super) fn has_entities(row: &WorldRow) -> bool {
    Meta::of(row).get(SERVICE).is_some()
}

/// The nodes of a store, as the entities of one world see them.
#[derive(Debug)]
struct Nodes {
    world: Weak<Shared>,
}

impl World {
    /// Makes entities of a builder that are one with those of all worlds over this store: a key has
    /// its activation at the owner of its slot, and messages [that
    /// cross](turnwheel_actors::EntitiesBuilder::remote) reach it from everywhere. Their states are in
    /// this world's store, and each write is checked against the epoch of the slot in its commit.
    ///
    /// Each world that runs plans has slots, so each of them must have the same types, from its begin on:
    /// calls for a key of a world without entities are refused. An asking world may be a
    /// [client](super::WorldBuilder::client). An entity calls others by
    /// `EntityContext::entities` as ever. What a caller is told when an owner goes:
    /// [`RemoteError`](turnwheel_actors::entity::RemoteError). Placement, carrier and store of the builder
    /// are replaced. Reminders are not part of it.
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
        let nodes = Arc::new(Nodes { world: Arc::downgrade(shared) });
        let builder = builder.placement(Arc::clone(&nodes) as _).carrier(nodes as _);
        let entities = builder.store(SlotStates::new(shared.journal.clone())).build();
        assert!(shared.entities.set(entities.clone()).is_ok(), "the world has entities already");
        shared.services.add(SERVICE, calls::taking(&entities));
        if shared.is_executor() && shared.hub.node.is_some() {
            let world = self.clone();
            shared.hub.spawn(async move {
                if let Err(error) = world.describe(SERVICE, "yes").await {
                    tracing::warn!(%error, "a node that joins may take slots with entities at once");
                }
            });
        }
        entities
    }
}

impl Shared {
    /// Ends the activations of entities in some slots. Until the last of a slot is over, the slot counts
    /// as busy.
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
