//! Types of entities, and the state of one entity: for operators.

use std::sync::{Arc, Weak};
use std::time::Duration;

use turnwheel_runtime::completion::InlineExecutor;
use turnwheel_runtime::Phase;

use crate::entity::{Directory, Entities, Entity, EntityKey, EntityStats, Entry, Inactive};

/// The entities of one type at one moment; see [`Entities::types`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntityType {
    /// Its [name](Entity::NAME), or the name of the Rust type if it has none.
    pub name: &'static str,
    /// The name of the Rust type.
    pub type_name: &'static str,
    /// Whether its state can be stored: it has a name of its own.
    pub is_named: bool,
    /// Its counters.
    pub stats: EntityStats,
    /// Activations since the begin.
    pub activations: u64,
    /// Time since the last message of the least recently used entity.
    pub oldest_idle: Option<Duration>,
    /// After how long without a message one is passivated.
    pub idle_limit: Duration,
}

/// State of a key, which decides about its messages; see the table in [`entity`](crate::entity).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntityState {
    /// It activates the entity.
    #[default]
    None,
    /// Messages go to the mailbox.
    Active,
    /// It waits for the end of the old activation.
    Leaving,
    /// It waits for room.
    Waiting,
    /// Messages are refused with the failure of the last activation.
    Held,
}

/// One entity at one moment; see [`Entities::look`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EntityLook {
    /// Its state, which decides about its messages.
    pub state: EntityState,
    /// The number of its activation.
    pub activation: Option<u64>,
    /// The phase of its task.
    pub phase: Option<Phase>,
    /// Approximate number of messages in its mailbox and of those waiting for its next activation.
    pub queued: u64,
    /// For how long it has had no message.
    pub idle: Option<Duration>,
    /// Bytes that it is charged with, as far as it says so.
    pub bytes: u64,
    /// Why its last activation failed.
    pub failure: Option<String>,
    /// Time for which messages are still refused because of that.
    pub held_for: Option<Duration>,
}

/// Why an entity cannot be looked at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the text of an error names its fields")]
pub enum LookError {
    /// No message has been sent to an entity of a type with this name.
    #[error("there is no type of entities «{0}»")]
    UnknownType(String),
    /// The keys of the type cannot be made of a text.
    #[error("«{key}» is no key of «{name}»")]
    NoKey { name: String, key: String },
}

/// The entities of one type, without its type.
pub(crate) trait Listed: Send + Sync {
    fn name(&self) -> &'static str;
    fn overview(&self) -> EntityType;
    /// The keys that are active.
    fn keys(&self) -> Vec<String>;
    /// State of the entity with this key; `None` if the text is no key.
    fn look(&self, key: &str) -> Option<EntityLook>;
    /// Ends the activations for whose keys a guard is given, which is dropped at the end.
    fn end(&self, guard: &mut dyn FnMut(&str, &str) -> Option<Guard>);
}

/// Kept until an activation is over.
pub(crate) type Guard = Box<dyn Send>;

impl Entities {
    /// The types of entities to which a message was sent, in the order of their first.
    ///
    /// Cost: for the oldest it looks at the entry of each entity, under one of 64 locks at a time:
    /// some milliseconds for a million.
    ///
    /// ```
    /// # use turnwheel_actors::{Actor, Context, Entities, Entity, Handler, System};
    /// # use turnwheel_runtime::Group;
    /// struct Lamp;
    /// impl Actor for Lamp { type Error = std::convert::Infallible; }
    /// impl Entity for Lamp {
    ///     type Key = String;
    ///     const NAME: &'static str = "lamp";
    ///     fn create(_: &String) -> Self { Lamp }
    /// }
    /// struct On;
    /// impl Handler<On> for Lamp {
    ///     type Reply = ();
    ///     fn handle(&mut self, _: On, _: &mut Context<'_, Self>) {}
    /// }
    /// let group = Group::builder("doc").workers(1).build()?;
    /// let entities = Entities::new(&System::new(&group));
    /// entities.get::<Lamp>("hall").ask(On).wait().map_err(|error| error.to_string())?;
    /// let types = entities.types();
    /// assert_eq!((types[0].name, types[0].stats.active, types[0].activations), ("lamp", 1, 1));
    /// assert!(entities.look("lamp", "hall")?.activation.is_some());
    /// # group.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn types(&self) -> Vec<EntityType> {
        let types = self.shared.types.lock().clone();
        types.iter().filter_map(Weak::upgrade).map(|listed| listed.overview()).collect()
    }

    /// State of one entity, by the name of its type as in [`Entities::types`] and its key as text.
    /// Does not activate it. Cost: a look under one lock.
    ///
    /// # Errors
    ///
    /// There is no such type, or the text is no key of it.
    pub fn look(&self, name: &str, key: &str) -> Result<EntityLook, LookError> {
        let listed = self.listed(name)?;
        let no_key = || LookError::NoKey { name: name.to_owned(), key: key.to_owned() };
        listed.look(key).ok_or_else(no_key)
    }

    /// Passivates the entities for which a guard is given, by the name of their type and their key.
    /// Earlier messages are handled first. The guard is dropped when the activation is over;
    /// activations that end already are asked for too.
    ///
    /// For a process that loses keys, after its [placement](crate::entity::Placement) has begun to
    /// say so: the guards tell when the last activation of these keys is over. Cost: a look at each
    /// activation, under one of 64 locks at a time.
    pub fn passivate_if<G: Send + 'static>(&self, mut guard: impl FnMut(&str, &str) -> Option<G>) {
        let types = self.shared.types.lock().clone();
        for listed in types.iter().filter_map(Weak::upgrade) {
            listed.end(&mut |entity, key| guard(entity, key).map(|it| Box::new(it) as Guard));
        }
    }

    /// The type with this name.
    pub(crate) fn listed(&self, name: &str) -> Result<Arc<dyn Listed>, LookError> {
        let types = self.shared.types.lock().clone();
        let mut listed = types.iter().filter_map(Weak::upgrade);
        listed
            .find(|listed| listed.name() == name)
            .ok_or_else(|| LookError::UnknownType(name.to_owned()))
    }
}

impl<E: Entity> Listed for Directory<E> {
    fn name(&self) -> &'static str {
        Some(E::NAME).filter(|name| !name.is_empty()).unwrap_or(std::any::type_name::<E>())
    }

    fn overview(&self) -> EntityType {
        let mut oldest_ns = u64::MAX;
        for shard in 0..Self::shards() {
            self.each_active(shard, |_, active| {
                oldest_ns = oldest_ns.min(active.last_use.ns());
                true
            });
        }
        let now_ns = self.system.group().now_ns();
        let idle = || Duration::from_nanos(now_ns.saturating_sub(oldest_ns));
        EntityType {
            name: self.name(),
            type_name: std::any::type_name::<E>(),
            is_named: !E::NAME.is_empty(),
            stats: self.stats(),
            activations: self.activations(),
            oldest_idle: (oldest_ns != u64::MAX).then(idle),
            idle_limit: self.idle(),
        }
    }

    fn keys(&self) -> Vec<String> {
        self.active_keys().iter().map(|key| key.text().into_owned()).collect()
    }

    fn end(&self, guard: &mut dyn FnMut(&str, &str) -> Option<Guard>) {
        for shard in 0..Self::shards() {
            let mut ending = Vec::new();
            self.table.each(shard, |key, entry| {
                let task = entry.task().cloned();
                ending.extend(task.and_then(|task| Some((task, guard(E::NAME, &key.text())?))));
                true
            });
            // Not under the lock: what ends at once takes it.
            for (task, guard) in ending {
                let over = task.close().then_on(InlineExecutor, move |_| {
                    drop(guard);
                    Ok(())
                });
                over.detach();
            }
        }
    }

    fn look(&self, key: &str) -> Option<EntityLook> {
        let key = E::Key::from_text(key)?;
        if key.is_too_long() {
            return None;
        }
        let now_ns = self.system.group().now_ns();
        let mut look = EntityLook::default();
        match self.shard(&key).get(&key) {
            None => {}
            Some(Entry::Active(active)) => {
                look.state = EntityState::Active;
                (look.activation, look.phase) = (Some(active.id()), Some(active.task.phase()));
                look.queued = active.task.queue_len();
                look.idle = Some(Duration::from_nanos(now_ns.saturating_sub(active.last_use.ns())));
                look.bytes = u64::from(active.bytes);
            }
            Some(Entry::Inactive(inactive)) => match &**inactive {
                Inactive::Leaving(leaving) => {
                    look.state = EntityState::Leaving;
                    (look.activation, look.phase) =
                        (Some(leaving.task.tag()), Some(leaving.task.phase()));
                    let waiting = (leaving.pending.len() + leaving.forwarded.len()) as u64;
                    look.queued = leaving.task.queue_len() + waiting;
                    look.bytes = u64::from(leaving.bytes);
                }
                Inactive::Waiting { pending, .. } => {
                    look.state = EntityState::Waiting;
                    look.queued = pending.len() as u64;
                }
                Inactive::Held { until_ns, failure, .. } => {
                    look.state = EntityState::Held;
                    look.failure = Some(failure.to_string());
                    look.held_for = Some(Duration::from_nanos(until_ns.saturating_sub(now_ns)));
                }
            },
        }
        Some(look)
    }
}
