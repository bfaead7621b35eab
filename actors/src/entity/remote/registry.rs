//! Messages that may cross between processes, by type for the sender and by name for the owner.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::Serialize;

use super::carry::Way;
use super::{take, RemoteAnswer, RemoteCall, RemoteMessage};
use crate::actor::MessageFor;
use crate::entity::{Entities, Entity};
use crate::large::{is_any_large, Carry, Large};
use crate::request::Delivery;

/// Sends a message, by its [`Delivery`], on its way.
pub(super) type Sender = fn(&Way<'_>, Box<dyn Any + Send>);

/// Takes a call of another process.
type Taker = fn(&Entities, &RemoteCall) -> RemoteAnswer;

/// How a message `P`, itself or in its box, is written, and its answer read.
pub(super) struct Codec<P, R> {
    pub(super) message: &'static str,
    pub(super) is_repeatable: bool,
    pub(super) write: fn(&mut P) -> serde_json::Result<Vec<u8>>,
    pub(super) read: fn(&[u8]) -> serde_json::Result<R>,
}

/// The messages of all types of entities that may cross.
#[derive(Default)]
pub(crate) struct Registry {
    /// By the types of entity and message.
    senders: HashMap<(TypeId, TypeId), Sender>,
    /// By the names of entity and message.
    takers: HashMap<(&'static str, &'static str), Taker>,
    /// The types of entities by their names.
    types: HashMap<&'static str, TypeId>,
}

debug_fields!(impl Registry, self => messages: self.takers.len());

impl Registry {
    pub(super) fn sender(&self, entity: TypeId, message: TypeId) -> Option<Sender> {
        self.senders.get(&(entity, message)).copied()
    }

    pub(super) fn taker(&self, entity: &str, message: &str) -> Option<Taker> {
        self.takers.get(&(entity, message)).copied()
    }

    /// Whether messages of a type with this name cross.
    pub(super) fn knows(&self, entity: &str) -> bool {
        self.types.contains_key(entity)
    }
}

/// The messages of one type of entities that may go to other processes; see
/// [`EntitiesBuilder::remote`](crate::EntitiesBuilder::remote).
pub struct RemoteMessages<'a, E> {
    registry: &'a mut Registry,
    entity: PhantomData<fn() -> E>,
}

debug_fields!(impl<E> RemoteMessages<'_, E>, self => registry: self.registry);

impl<'a, E: Entity> RemoteMessages<'a, E> {
    const HAS_NAME: () = assert!(
        !E::NAME.is_empty(),
        "an entity whose messages cross between processes needs a `NAME`"
    );

    pub(crate) fn of(registry: &'a mut Registry) -> Self {
        let () = Self::HAS_NAME;
        let known = *registry.types.entry(E::NAME).or_insert(TypeId::of::<E>());
        assert!(known == TypeId::of::<E>(), "two types of entities are named «{}»", E::NAME);
        Self { registry, entity: PhantomData }
    }

    /// Adds a message; the second parameter is found by the compiler.
    ///
    /// # Panics
    ///
    /// Another message of this type of entities has its name.
    #[must_use]
    pub fn message<M, K: 'static>(self) -> Self
    where
        M: RemoteMessage + MessageFor<E, K>,
        <M as MessageFor<E, K>>::Reply: Serialize + DeserializeOwned,
    {
        match const { is_any_large::<M, <M as MessageFor<E, K>>::Reply>() } {
            true => self.add::<M, Large<M>, K>(),
            false => self.add::<M, M, K>(),
        }
    }

    fn add<M, P: Carry<M>, K: 'static>(self) -> Self
    where
        M: RemoteMessage + MessageFor<E, K>,
        <M as MessageFor<E, K>>::Reply: Serialize + DeserializeOwned,
    {
        let types = (TypeId::of::<E>(), TypeId::of::<P>());
        let is_known = self.registry.senders.insert(types, send::<E, M, P, K>).is_some();
        let taker = self.registry.takers.insert((E::NAME, M::NAME), take::take::<E, M, K>);
        assert!(
            is_known || taker.is_none(),
            "two messages of the entity «{}» are named «{}»",
            E::NAME,
            M::NAME
        );
        self
    }
}

fn send<E: Entity, M, P: Carry<M>, K: 'static>(way: &Way<'_>, delivery: Box<dyn Any + Send>)
where
    M: RemoteMessage + MessageFor<E, K>,
    <M as MessageFor<E, K>>::Reply: Serialize + DeserializeOwned,
{
    let codec = Codec {
        message: M::NAME,
        is_repeatable: M::IS_REPEATABLE,
        write: |message: &mut P| serde_json::to_vec(message.message()),
        read: |bytes| serde_json::from_slice(bytes),
    };
    match delivery.downcast::<Delivery<P, <M as MessageFor<E, K>>::Reply>>() {
        Ok(delivery) => way.send(&codec, *delivery),
        Err(_) => unreachable!("messages are found by their type"),
    }
}
