//! Entities: actors found by type and key that always exist and never run twice at once.
//!
//! A reference is made without any work; the first message activates the entity. An idle entity is
//! *passivated*: its activation ends, its memory is freed, and the next message makes a new
//! activation. No message is lost: the old activation handles what it has admitted, later messages
//! wait for the new one, in the order sent.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Entities`] | the entities of a system: settings, look-up by type |
//! | [`EntityRef`] | sends messages to one key |
//! | `directory` | one table for each type: the activation of each key and its waiting messages; `overview` lists types and entities for operators |
//! | `life` | begin and end of one activation (`hooks`), check that it still owns its key (`fencing`), the collector of idle ones, the replacement of stuck ones |
//! | `bounds` | limits of the number of entities (`capacity`) and of their memory (`memory`) |
//! | [`StateStore`], [`Stored`] | state that outlives the activation, with a version check |
//! | [`reminder`] | durable schedules, which activate an entity when they are due |
//! | `remote` | calls to entities of other processes: [`RemoteMessage`], [`RemoteCalls`] |
//!
//! # The states of a key
//!
//! | state | a message | end of the state |
//! | --- | --- | --- |
//! | none | activates it | – |
//! | active | goes to the mailbox; refused as closed: the key is leaving | when the activation refuses |
//! | leaving | waits; a call that it waits for itself is taken | when the old activation is over: `none`, or active again if something waits |
//! | waiting | waits: too many entities are active, or they take too much memory | when another one has ended; after a limit its senders get an error |
//! | held | is refused with the failure of the last activation | when its pause is over |
//!
//! Each change is made under the lock of the key's shard; the end of an activation is reported by
//! its own last hook, after its actor was dropped. So two activations never overlap.

use std::any::TypeId;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::{Completion, Mailbox};

use crate::actor::Actor;
use crate::system::{Chain, System};

mod bounds;
mod directory;
mod key;
mod life;
mod placement;
mod reference;
pub mod reminder;
mod remote;
mod settings;
mod store;

pub use bounds::NoRoom;
pub(crate) use bounds::{Idle, Memory, Share, Sheds, Waiter};
pub(crate) use directory::{
    age_ns, begun_at, name_of, not_owner, Active, Counters, Directory, Entry, Failures, Inactive,
    LastUse, Leaving, Listed, Locked, Queue, Refusal, Table,
};
use directory::{Directories, Handle};
pub use directory::{EntityLook, EntityState, EntityStats, EntityType, LookError};
pub use key::{EntityKey, KeyTooLong, KEY_BYTES_MAX};
pub(crate) use life::{Activation, Collector, EntityHooks, Fencing, Suspects, HELD_NS};
pub use life::{Collect, CreateContext, EntityContext, OnConflict};
pub use placement::{NotOwner, Ownership, Placement, SingleNode};
pub use reference::EntityRef;
#[doc(inline)]
pub use reminder::{
    DueRange, EntityReminders, MemoryReminders, MissedTicks, Reminder, ReminderError, ReminderId,
    ReminderRow, ReminderStats, ReminderStore, ReminderTick, Reminders, RemindersBuilder,
    RemindersError, Schedule, TickReply,
};
pub use remote::{
    RemoteAnswer, RemoteCall, RemoteCalls, RemoteError, RemoteMessage, RemoteMessages,
};
pub use settings::EntitiesBuilder;
pub(crate) use settings::Settings;
pub(crate) use store::Home;
pub use store::{MemoryStore, Record, StateStore, StoreError, StoreFuture, Stored};

/// An entity is passivated after this time without a message, by default.
pub const IDLE_DEFAULT: Duration = Duration::from_secs(15 * 60);

/// Time limit of an activation by default.
pub const ACTIVATION_LIMIT_DEFAULT: Duration = Duration::from_secs(30);

/// Time without progress after which an activation is stuck, by default: far longer than any caller
/// waits, and short enough to be noticed the same day.
pub const STUCK_LIMIT_DEFAULT: Duration = Duration::from_secs(30 * 60);

/// Messages that wait for one key's activation, at most; a further one is answered `Full`.
pub const PENDING_MAX: usize = 16_384;

/// Keys of one type that wait for room, at most by default; a message for a further one is answered
/// `Full`.
pub const WAITING_MAX_DEFAULT: usize = 1_000_000;

/// Time that a key waits for room by default before its senders get an error.
pub const ROOM_LIMIT_DEFAULT: Duration = Duration::from_secs(30);

/// Entities of one type that are active at once, by default.
pub const ACTIVE_MAX_DEFAULT: usize = 10_000_000;

/// An actor with a key, activated on its first message.
///
/// ```
/// use turnwheel_actors::{Actor, Context, Entities, Entity, Handler, System};
/// use turnwheel_runtime::Group;
///
/// struct Account { balance: i64 }
/// impl Actor for Account {
///     type Error = std::convert::Infallible;
/// }
/// impl Entity for Account {
///     type Key = String;
///     fn create(_: &String) -> Self {
///         Account { balance: 0 }
///     }
/// }
///
/// struct Deposit(i64);
/// impl Handler<Deposit> for Account {
///     type Reply = i64;
///     fn handle(&mut self, Deposit(amount): Deposit, _: &mut Context<'_, Self>) -> i64 {
///         self.balance += amount;
///         self.balance
///     }
/// }
///
/// let group = Group::builder("doc").workers(1).build()?;
/// let entities = Entities::new(&System::new(&group));
/// let balance = entities.get::<Account>("42").ask(Deposit(5)).wait();
/// assert_eq!(balance.map_err(|error| error.to_string())?, 5);
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Entity: Actor {
    /// The key of entities of this type.
    type Key: EntityKey;

    /// Name under which its state and reminders are stored; must be unique among the types. Needed
    /// only for those: without a name [`Stored::load`] fails. A changed name means another state.
    const NAME: &'static str = "";

    /// Time without a message before it is passivated; [`Duration::MAX`] for ever. While the future
    /// of a request runs the entity is not idle. Timer ticks count only with
    /// [`Timing::keep_alive`](crate::Timing::keep_alive).
    const IDLE: Duration = IDLE_DEFAULT;

    /// Time limit of [`activate`](Entity::activate).
    const ACTIVATION_LIMIT: Duration = ACTIVATION_LIMIT_DEFAULT;

    /// Attempts of [`activate`](Entity::activate) before the callers get an error.
    const ACTIVATION_ATTEMPTS: u32 = 1;

    /// Time without progress, in an exclusive request or in its end, while messages wait: after it
    /// the entity is stuck. Its future is dropped, its [end](Actor::ended) is called, its later
    /// writes are refused, and waiting messages go to a new activation; see
    /// [`EntityStats::replaced`]. [`Duration::MAX`] switches this off.
    const STUCK_LIMIT: Duration = STUCK_LIMIT_DEFAULT;

    /// Treatment of an activation whose write of its state meets a conflict, or fails.
    const ON_CONFLICT: OnConflict = OnConflict::Passivate;

    /// Its mailbox; by default the group's. A message that its policy displaces is a dead letter.
    const MAILBOX: Option<Mailbox> = None;

    /// Approximate size in bytes, with the data that it owns. Called after its activation and by
    /// the collector; see [`EntitiesBuilder::memory_budget`] and [`EntityContext::resized`].
    fn size(&self) -> usize {
        std::mem::size_of::<Self>()
    }

    /// Makes the entity, without input or output: those belong in [`activate`](Entity::activate).
    fn create(key: &Self::Key) -> Self;

    /// As [`create`](Entity::create) for an entity that needs the [`Entities`] that it belongs to,
    /// to ask others of them: that is called instead.
    fn create_in(cx: &CreateContext<'_, Self>) -> Self {
        Self::create(cx.key())
    }

    /// Prepares it for its first message: loads its state. Messages wait, and so do the ticks of
    /// timers that [`starting`](Actor::starting) has armed.
    ///
    /// # Errors
    ///
    /// All waiting callers get an error, and the next activation waits for a pause that grows with
    /// each failure.
    fn activate(
        &mut self,
        cx: EntityContext<Self>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        cx.activates_by_default();
        std::future::ready(Ok(()))
    }
}

/// The entities of a system. Clones share them.
#[derive(Clone)]
pub struct Entities {
    shared: Arc<Shared>,
}

/// State that the entities of a system share.
pub(crate) struct Shared {
    pub(crate) system: System,
    pub(crate) settings: Settings,
    pub(crate) memory: Arc<Memory>,
    directories: Directories,
    /// All types, in the order of their first use.
    types: Mutex<Vec<Weak<dyn Listed>>>,
    reminders: Option<Arc<reminder::Service>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(reminders) = &self.reminders {
            reminders.end().detach();
        }
    }
}

impl Shared {
    /// Interceptors around the messages of a type.
    fn chain_of<E: Entity>(&self) -> Chain {
        let outer = &self.system.shared().incoming;
        let inner = self.settings.incoming.get(&TypeId::of::<E>());
        inner.map_or_else(|| outer.clone(), |inner| outer.around(inner))
    }
}

debug_fields!(impl Entities, self => types: self.shared.directories.len());

impl Entities {
    /// The entities of a system, with the defaults and a store in memory.
    pub fn new(system: &System) -> Self {
        Self::builder(system).build()
    }

    /// Describes the entities of a system; every value has a default.
    pub fn builder(system: &System) -> EntitiesBuilder {
        EntitiesBuilder::new(system)
    }

    /// The entity of this type and key. No work, no error: it always exists.
    pub fn get<E: Entity>(&self, key: impl Into<E::Key>) -> EntityRef<E> {
        EntityRef::new(self.directory::<E>(), key.into())
    }

    /// Number of active entities of this type.
    pub fn active<E: Entity>(&self) -> usize {
        self.directory::<E>().active()
    }

    /// Counters of the entities of this type.
    pub fn stats<E: Entity>(&self) -> EntityStats {
        self.directory::<E>().stats()
    }

    /// Bytes that the entities of all types take, as far as they [say so](Entity::size).
    pub fn bytes(&self) -> u64 {
        self.shared.memory.total()
    }

    /// The system of the entities.
    pub fn system(&self) -> &System {
        &self.shared.system
    }

    /// The store of their state.
    pub fn store(&self) -> &Arc<dyn StateStore> {
        &self.shared.settings.store
    }

    /// Counts of their reminders; `None` if they have none.
    pub fn reminder_stats(&self) -> Option<ReminderStats> {
        self.shared.reminders.as_ref().map(|reminders| reminders.stats())
    }

    /// Ends the delivery of reminders: from now on no tick begins. Completes when the current ticks
    /// are over and written. Reminders registered later are delivered by the next process on the
    /// store.
    ///
    /// Also called when the last clone of these entities is dropped; but an entity that keeps its
    /// [`EntityContext`] keeps a clone.
    pub fn end_reminders(&self) -> Completion<()> {
        let reminders = self.shared.reminders.as_ref();
        reminders.map_or_else(|| Completion::done(()), |reminders| reminders.end())
    }

    pub(crate) fn directory<E: Entity>(&self) -> Arc<Handle<E>> {
        self.shared.directories.get(|| Directory::<E>::make(&self.shared))
    }
}
