//! The settings of the entities of a system.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use turnwheel_runtime::Backoff;

use super::remote::Registry;
#[cfg(doc)]
use super::NoRoom;
use super::{
    reminder, Directories, Entities, Entity, Memory, MemoryStore, Placement, Reminders,
    RemoteCalls, RemoteMessages, Shared, SingleNode, StateStore, ACTIVE_MAX_DEFAULT,
    ROOM_LIMIT_DEFAULT, WAITING_MAX_DEFAULT,
};
use crate::system::{Chain, Interceptor, System};

/// The settings of the entities of a system.
pub(crate) struct Settings {
    pub(crate) idle: Option<Duration>,
    /// By type: has priority over all else.
    pub(crate) idle_of: HashMap<TypeId, Duration>,
    pub(crate) age_max: Duration,
    pub(crate) stuck_limit: Option<Duration>,
    pub(crate) active_max: usize,
    pub(crate) waiting_max: usize,
    pub(crate) room_limit: Duration,
    pub(crate) memory_budget: u64,
    pub(crate) hold: Backoff,
    pub(crate) store: Arc<dyn StateStore>,
    pub(crate) placement: Arc<dyn Placement>,
    /// Brings calls to the owners of keys; nothing if they are refused here.
    pub(crate) carrier: Option<Arc<dyn RemoteCalls>>,
    /// The messages that it brings.
    pub(crate) remote: Registry,
    /// Around the messages of each type, inside the system's.
    pub(crate) incoming: HashMap<TypeId, Chain>,
    pub(crate) reminders: Option<Reminders>,
}

/// Describes the entities of a system.
#[must_use]
pub struct EntitiesBuilder {
    system: System,
    settings: Settings,
}

debug_fields!(impl EntitiesBuilder, self =>);

impl EntitiesBuilder {
    pub(crate) fn new(system: &System) -> Self {
        let settings = Settings {
            idle: None,
            idle_of: HashMap::new(),
            age_max: Duration::MAX,
            stuck_limit: None,
            waiting_max: WAITING_MAX_DEFAULT,
            room_limit: ROOM_LIMIT_DEFAULT,
            memory_budget: u64::MAX,
            active_max: ACTIVE_MAX_DEFAULT,
            hold: Backoff::exponential(Duration::from_millis(100), Duration::from_secs(30)),
            store: Arc::new(MemoryStore::new()),
            placement: Arc::new(SingleNode),
            carrier: None,
            remote: Registry::default(),
            incoming: HashMap::new(),
            reminders: None,
        };
        Self { system: system.clone(), settings }
    }

    setters! {
        /// Time without a message before an entity is passivated, for types with the default
        /// [`Entity::IDLE`].
        idle(self, idle: Duration) => self.settings.idle = Some(idle);

        /// As [`EntitiesBuilder::idle`] for one type; overrides [`Entity::IDLE`].
        idle_of<E: Entity>(self, idle: Duration) =>
            self.settings.idle_of.insert(TypeId::of::<E>(), idle);

        /// Their reminders, delivered until [`Entities::end_reminders`], while the group runs.
        reminders(self, reminders: &Reminders) => self.settings.reminders = Some(reminders.clone());

        /// Maximum age of an activation: an older one is passivated after the messages that it has
        /// admitted, even if it is in use, unless it is [held](crate::Context::hold). No limit by
        /// default. For entities whose memory or data must not grow old, as caches; see also
        /// [`Entities::collect`].
        age_max(self, age: Duration) => self.settings.age_max = age;

        /// Time without progress before an activation is replaced, for types with the default
        /// [`Entity::STUCK_LIMIT`].
        stuck_limit(self, limit: Duration) => self.settings.stuck_limit = Some(limit);

        /// Maximum number of active entities of one type. Beyond it the longest idle ones are
        /// passivated, and messages for others wait until there is room.
        active_max(self, entities: usize) => self.settings.active_max = entities.max(1);

        /// Maximum bytes of the entities of all types together, by their [size](Entity::size); no
        /// budget by default. Beyond it the least recently used are passivated, and messages for
        /// others wait until there is room. Task and entry of each entity, some 400 bytes, are not
        /// counted.
        memory_budget(self, bytes: u64) => self.settings.memory_budget = bytes.max(1);

        /// Maximum number of keys of one type that wait for room; a message for a further one is
        /// answered `Full`.
        waiting_max(self, keys: usize) => self.settings.waiting_max = keys;

        /// Time that a key waits for room before the senders of its messages get [`NoRoom`]; their
        /// own deadlines apply as well.
        room_limit(self, limit: Duration) => self.settings.room_limit = limit;

        /// The pauses after failed activations of one key; meanwhile its callers get the failure.
        hold(self, backoff: Backoff) => self.settings.hold = backoff;

        /// Store of their state.
        store(self, store: Arc<dyn StateStore>) => self.settings.store = store;

        /// The ownership of keys.
        placement(self, placement: Arc<dyn Placement>) => self.settings.placement = placement;

        /// Brings calls for keys of other processes to their owners, if their messages are
        /// [registered](EntitiesBuilder::remote).
        carrier(self, carrier: Arc<dyn RemoteCalls>) => self.settings.carrier = Some(carrier);

        /// Puts an interceptor around every message that an entity of this type handles, inside
        /// those of the system and earlier ones. See [`intercept`](crate::intercept).
        intercept<E: Entity>(self, interceptor: impl Interceptor) =>
            self.settings.incoming.entry(TypeId::of::<E>()).or_default().push(interceptor);
    }

    /// Says which messages of a type of entities may go to other processes, and come from them; the
    /// type needs a [`NAME`](Entity::NAME), and a key that can be made [of its
    /// text](crate::entity::EntityKey::from_text).
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use turnwheel_actors::entity::RemoteMessage;
    /// # use turnwheel_actors::{Actor, Context, Entities, Entity, Handler, System};
    /// # use turnwheel_runtime::Group;
    /// # struct Lamp;
    /// # impl Actor for Lamp { type Error = std::convert::Infallible; }
    /// # impl Entity for Lamp {
    /// #     type Key = String;
    /// #     const NAME: &'static str = "lamp";
    /// #     fn create(_: &String) -> Self { Lamp }
    /// # }
    /// #[derive(Serialize, Deserialize)]
    /// struct On;
    /// impl RemoteMessage for On {
    ///     const NAME: &'static str = "on";
    ///     const IS_REPEATABLE: bool = true;
    /// }
    /// # impl Handler<On> for Lamp {
    /// #     type Reply = bool;
    /// #     fn handle(&mut self, _: On, _: &mut Context<'_, Self>) -> bool { true }
    /// # }
    /// # let group = Group::builder("doc").workers(1).build()?;
    /// # let system = System::new(&group);
    /// let builder = Entities::builder(&system).remote::<Lamp>(|lamp| lamp.message::<On, _>());
    /// # drop(builder);
    /// # group.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Two messages, or two types of entities, have the same name.
    pub fn remote<E: Entity>(
        mut self,
        add: impl FnOnce(RemoteMessages<'_, E>) -> RemoteMessages<'_, E>,
    ) -> Self {
        let _added = add(RemoteMessages::of(&mut self.settings.remote));
        self
    }

    /// Makes them.
    pub fn build(self) -> Entities {
        let Self { system, settings } = self;
        let directories = Directories::default();
        let memory = Arc::new(Memory::new(settings.memory_budget));
        let service = |reminders| {
            Arc::new(reminder::Service::new(reminders, system.group(), &settings.placement))
        };
        let reminders = settings.reminders.as_ref().map(service);
        let shared = Arc::new(Shared {
            system,
            settings,
            memory,
            directories,
            types: parking_lot::Mutex::default(),
            reminders,
        });
        if let Some(reminders) = &shared.reminders {
            reminder::start(reminders, &shared);
        }
        Entities { shared }
    }
}
