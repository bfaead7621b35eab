//! Messages that may cross between processes, by type for the sender and by name for the owner.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::Serialize;

use super::{take, RemoteAnswer, RemoteCall, RemoteMessage};
use crate::actor::MessageFor;
use crate::entity::{Entities, Entity};
use crate::large::{is_any_large, Carry, Large};

/// Takes a call of another process.
type Taker = fn(&Entities, &RemoteCall) -> RemoteAnswer;

/// How a message `P`, itself or in its box, is written, and its answer read.
pub(crate) struct Codec<P, R> {
    pub(crate) message: &'static str,
    pub(crate) is_repeatable: bool,
    pub(crate) write: fn(&mut P) -> serde_json::Result<Vec<u8>>,
    pub(crate) read: fn(&[u8]) -> serde_json::Result<R>,
}

clone_fields!(impl<P, R> Codec<P, R>, message, is_repeatable, write, read);

/// The messages of all types of entities that may cross.
#[derive(Default)]
pub(crate) struct Registry {
    /// By the types of entity and message: a [`Codec`].
    codecs: HashMap<(TypeId, TypeId), Box<dyn Any + Send + Sync>>,
    /// By the names of entity and message.
    takers: HashMap<(&'static str, &'static str), Taker>,
}

debug_fields!(impl Registry, self => messages: self.takers.len());

impl Registry {
    /// How a message of an actor is written; nothing if it does not cross.
    pub(crate) fn codec<A: 'static, P: 'static, R: 'static>(&self) -> Option<Codec<P, R>> {
        let codec = self.codecs.get(&(TypeId::of::<A>(), TypeId::of::<P>()))?;
        codec.downcast_ref::<Codec<P, R>>().cloned()
    }

    pub(crate) fn taker(&self, entity: &str, message: &str) -> Option<Taker> {
        self.takers.get(&(entity, message)).copied()
    }

    /// Whether messages of a type with this name cross.
    pub(crate) fn knows(&self, entity: &str) -> bool {
        self.takers.keys().any(|(known, _)| *known == entity)
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
        let codec = Codec::<P, <M as MessageFor<E, K>>::Reply> {
            message: M::NAME,
            is_repeatable: M::IS_REPEATABLE,
            write: |message| serde_json::to_vec(message.message()),
            read: |bytes| serde_json::from_slice(bytes),
        };
        let types = (TypeId::of::<E>(), TypeId::of::<P>());
        let is_known = self.registry.codecs.insert(types, Box::new(codec)).is_some();
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
