//! The activation of each key, or its waiting messages; see the table in `mod.rs`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use turnwheel_runtime::{Delays, Failure, Overflow, SubmitErrorKind, Task};

use crate::actor::{ActorCell, Envelope, MessageFor, Pending};
use crate::call::CallChain;
use crate::entity::{
    begun_at, Collector, Counters, Entity, EntityHooks, EntityKey, KeyTooLong, LastUse, Locked,
    NotOwner, Settings, Share, Shared, Sheds, Table, Waiter, PENDING_MAX,
};
use crate::system::{id, Chain, System};

pub(crate) type Queue<E> = VecDeque<Box<dyn Pending<E>>>;

/// State of one key. Small, since a look-up among a million costs as much as its cache misses: 24
/// bytes besides the key.
pub(crate) enum Entry<E: Entity> {
    Active(Active<E>),
    Inactive(Box<Inactive<E>>),
}

/// State of a key whose activation takes no messages.
pub(crate) enum Inactive<E: Entity> {
    /// The activation is on its way out.
    Leaving(Leaving<E>),
    /// Too many others are active.
    Waiting { pending: Queue<E>, failures: Option<Failures> },
    /// The last activation has failed.
    Held { until_ns: u64, failure: Failure, failures: Failures },
}

impl<E: Entity> Entry<E> {
    const IS_SMALL: () = assert!(std::mem::size_of::<Self>() <= 24, "an entry has grown");

    /// The task of the activation that is there: active, or leaving.
    pub(crate) fn task(&self) -> Option<&Task<ActorCell<E>>> {
        match self {
            Self::Active(active) => Some(&active.task),
            Self::Inactive(inactive) => match &**inactive {
                Inactive::Leaving(leaving) => Some(&leaving.task),
                Inactive::Waiting { .. } | Inactive::Held { .. } => None,
            },
        }
    }

    /// Whether this activation is there, active or leaving.
    pub(crate) fn is_activation(&self, id: u64) -> bool {
        self.task().is_some_and(|task| task.tag() == id)
    }
}

impl<E: Entity> From<Inactive<E>> for Entry<E> {
    fn from(inactive: Inactive<E>) -> Self {
        Self::Inactive(Box::new(inactive))
    }
}

/// An activation as the directory sees it.
pub(crate) struct Active<E: Entity> {
    pub(crate) task: Task<ActorCell<E>>,
    pub(crate) last_use: LastUse,
    /// When it began; see [`begun_at`].
    pub(crate) begun: u32,
    /// Its charge.
    pub(crate) bytes: u32,
}

impl<E: Entity> Active<E> {
    /// The number of the activation.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.task.tag()
    }
}

/// An activation on its way out.
pub(crate) struct Leaving<E: Entity> {
    pub(crate) task: Task<ActorCell<E>>,
    pub(crate) bytes: u32,
    /// Messages that it has admitted and does not handle itself: ahead of the waiting ones.
    pub(crate) forwarded: Queue<E>,
    /// Calls that come back to it: it waits for them itself, and still takes them.
    pub(crate) returning: Queue<E>,
    pub(crate) pending: Queue<E>,
}

/// Failed activations of one key in a row.
pub(crate) type Failures = Box<Delays>;

/// The entities of one type.
pub(crate) struct Directory<E: Entity> {
    pub(crate) system: System,
    shared: Weak<Shared>,
    pub(crate) table: Table<E>,
    /// Activations that exist, leaving ones too.
    pub(crate) active: AtomicUsize,
    /// Keys that wait for room, in order.
    pub(crate) queue: Mutex<VecDeque<Waiter<E::Key>>>,
    pub(crate) memory: Share,
    pub(crate) counters: Counters,
    myself: Weak<Self>,
    turn: AtomicUsize,
    /// Around the messages of its entities.
    incoming: Chain,
    /// Whether their activation has nothing to do: known once the first has shown it.
    pub(crate) is_activated_by_default: AtomicBool,
    pub(crate) collector: Collector,
}

debug_fields!(impl<E: Entity> Directory<E>, self => active: self.active());

/// Refusal of a message by the directory.
#[derive(Clone)]
pub(crate) enum Refusal {
    Refused(SubmitErrorKind),
    Failed(Failure),
    NotOwner(Box<NotOwner>),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Refused(SubmitErrorKind::Closed) => Self::Closed,
            Refusal::Refused(kind) => Self::message(kind.to_string()),
            Refusal::Failed(failure) => failure,
            Refusal::NotOwner(owner) => Self::error(*owner),
        }
    }
}

/// Why a message was not taken, and the message.
type Unsent<M, R, K> = (Refusal, Envelope<M, R, K>);

/// Look-up of one key: the target, or the fate of the message.
enum Found<E: Entity> {
    Task(Task<ActorCell<E>>),
    Refused(Refusal),
}

impl<E: Entity> Directory<E> {
    pub(crate) fn make(shared: &Arc<Shared>) -> Arc<Self> {
        let () = Entry::<E>::IS_SMALL;
        let made = Arc::new_cyclic(|myself| Self {
            system: shared.system.clone(),
            shared: Arc::downgrade(shared),
            table: Table::default(),
            active: AtomicUsize::new(0),
            queue: Mutex::default(),
            memory: Share::new(&shared.memory, std::mem::size_of::<E>()),
            counters: Counters::default(),
            myself: Weak::clone(myself),
            turn: AtomicUsize::new(0),
            incoming: shared.chain_of::<E>(),
            is_activated_by_default: AtomicBool::new(false),
            collector: Collector::default(),
        });
        let myself: Weak<dyn Sheds> = made.weak();
        shared.memory.register(myself);
        shared.types.lock().push(made.weak());
        made
    }

    /// Number of activations.
    pub(crate) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// The settings; `None` once the entities are gone.
    pub(crate) fn settings<R>(&self, look: impl FnOnce(&Settings) -> R) -> Option<R> {
        self.shared.upgrade().map(|shared| look(&shared.settings))
    }

    pub(crate) fn entities(&self) -> Option<crate::entity::Entities> {
        self.shared.upgrade().map(|shared| crate::entity::Entities { shared })
    }

    #[inline]
    pub(crate) fn shard(&self, key: &E::Key) -> Locked<'_, E> {
        self.table.lock(key)
    }

    /// Whether a call of this chain to a key would never be answered: its activation waits in the
    /// chain and takes nothing.
    pub(crate) fn closes_cycle(&self, key: &E::Key, chain: &CallChain) -> bool {
        let shard = self.shard(key);
        shard.get(key).and_then(Entry::task).is_some_and(|task| chain.blocks(task.tag()))
    }

    /// The number of a key's activation now.
    pub(crate) fn id_of(&self, key: &E::Key) -> Option<u64> {
        self.task_of(key).map(|task| task.tag())
    }

    /// Sends a message to a key, and activates it if needed. A refused message comes back.
    pub(crate) fn send<M: MessageFor<E, K>, K: 'static>(
        &self,
        key: &E::Key,
        mut envelope: Envelope<M, M::Reply, K>,
    ) -> Result<(), Unsent<M, M::Reply, K>> {
        if let Some(failure) = KeyTooLong::of::<E>(key).map(Failure::error) {
            return Err((Refusal::Failed(failure), envelope));
        }
        let now_ns = self.system.group().recent_ns();
        loop {
            let task = match self.find(key, now_ns) {
                Ok(Found::Task(task)) => task,
                Ok(Found::Refused(refusal)) => return Err((refusal, envelope)),
                Err(mut shard) => return self.wait(&mut shard, key, envelope),
            };
            match task.submit_job(envelope) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind == SubmitErrorKind::Closed => {
                    envelope = error.job;
                    self.leaves(key, task.tag());
                }
                Err(error) => return Err((Refusal::Refused(error.kind), error.job)),
            }
        }
    }

    /// Looks a key up, and activates it if needed. Returns the locked shard if the message has to
    /// wait there.
    fn find(&self, key: &E::Key, now_ns: u64) -> Result<Found<E>, Locked<'_, E>> {
        let mut shard = self.shard(key);
        let failures = match shard.get_mut(key) {
            Some(Entry::Active(active)) => {
                active.last_use = LastUse::at(now_ns);
                return Ok(Found::Task(active.task.clone()));
            }
            Some(Entry::Inactive(inactive)) => match &**inactive {
                Inactive::Leaving(_) | Inactive::Waiting { .. } => return Err(shard),
                Inactive::Held { until_ns, failure, .. } if now_ns < *until_ns => {
                    let held = Refusal::Failed(failure.clone());
                    return Ok(Found::Refused(self.elsewhere(key).unwrap_or(held)));
                }
                Inactive::Held { .. } => shard.take_held(key),
            },
            None => None,
        };
        if let Some(refusal) = self.elsewhere(key) {
            return Ok(Found::Refused(refusal));
        }
        let Some(bytes) = self.take_place() else {
            if let Err(kind) = self.enqueue(key) {
                return Ok(Found::Refused(Refusal::Refused(kind)));
            }
            let pending = VecDeque::new();
            shard.insert(key.clone(), Inactive::Waiting { pending, failures }.into());
            return Err(shard);
        };
        Ok(match self.activate(&mut shard, key, now_ns, failures, bytes, false) {
            Ok(task) => Found::Task(task),
            Err(refusal) => Found::Refused(refusal),
        })
    }

    /// Why a key is not activated here: another process owns it, or the entities are gone.
    pub(crate) fn elsewhere(&self, key: &E::Key) -> Option<Refusal> {
        match self.settings(|settings| not_owner::<E>(settings, key)) {
            Some(not_owner) => not_owner.map(Refusal::NotOwner),
            None => Some(Refusal::Refused(SubmitErrorKind::Closed)),
        }
    }

    /// Whether another process owns a key.
    pub(crate) fn is_elsewhere(&self, key: &E::Key) -> bool {
        matches!(self.elsewhere(key), Some(Refusal::NotOwner(_)))
    }

    /// Makes an activation, for which a place was taken. With `is_awaited` it does not start before
    /// the shard is free.
    pub(crate) fn activate(
        &self,
        shard: &mut Locked<'_, E>,
        key: &E::Key,
        now_ns: u64,
        failures: Option<Failures>,
        bytes: u64,
        is_awaited: bool,
    ) -> Result<Task<ActorCell<E>>, Refusal> {
        let Some(myself) = self.myself.upgrade() else {
            self.free_place(bytes);
            return Err(Refusal::Refused(SubmitErrorKind::Closed));
        };
        let id = id::next_id(&self.system);
        self.counters.activations.fetch_add(1, Ordering::Relaxed);
        let mut cell = ActorCell::new(None, id, None);
        if !self.incoming.is_empty() {
            cell = cell.intercepted(self.incoming.clone(), Some(name_of::<E>(key).into()));
        }
        let hooks = EntityHooks::new(key.clone(), myself, failures, is_awaited);
        let mut spawned =
            self.system.group().task(cell).attach(self.system.clone()).tag(id).class_of::<E>();
        if let Some(mailbox) = E::MAILBOX {
            spawned = spawned.mailbox(mailbox);
        }
        match spawned.lifecycle(hooks).spawn() {
            Ok(task) => {
                // The part that does not fit into the entry is given back, so that the sums stay
                // right.
                let charged = u32::try_from(bytes).unwrap_or(u32::MAX);
                self.memory.change(bytes, u64::from(charged));
                let (last_use, begun) = (LastUse::at(now_ns), begun_at(now_ns));
                let active = Active { task: task.clone(), last_use, begun, bytes: charged };
                shard.insert(key.clone(), Entry::Active(active));
                self.collector.watch(self);
                Ok(task)
            }
            Err(_) => {
                self.free_place(bytes);
                Err(Refusal::Refused(SubmitErrorKind::Closed))
            }
        }
    }

    /// Lets a message wait for the next activation of its key.
    fn wait<M: MessageFor<E, K>, K: 'static>(
        &self,
        shard: &mut Locked<'_, E>,
        key: &E::Key,
        envelope: Envelope<M, M::Reply, K>,
    ) -> Result<(), Unsent<M, M::Reply, K>> {
        let (moving, pending) = match shard.inactive_mut(key) {
            Some(Inactive::Leaving(leaving)) if envelope.comes_back_to(leaving.task.tag()) => {
                leaving.task.interrupt();
                (0, &mut leaving.returning)
            }
            Some(Inactive::Leaving(leaving)) => (leaving.moving(), &mut leaving.pending),
            Some(Inactive::Waiting { pending, .. }) => (0, pending),
            _ => unreachable!("the shard was locked since the look"),
        };
        if pending.len() + moving >= self.pending_max() {
            return Err((Refusal::Refused(SubmitErrorKind::Full), envelope));
        }
        pending.push_back(Box::new(envelope));
        Ok(())
    }

    /// Whether calls have come back to an ending activation.
    pub(crate) fn has_returning(&self, key: &E::Key, id: u64) -> bool {
        match self.shard(key).inactive_mut(key) {
            Some(Inactive::Leaving(leaving)) => {
                leaving.task.tag() == id && !leaving.returning.is_empty()
            }
            _ => false,
        }
    }

    /// Next call that comes back to an ending activation.
    pub(crate) fn next_returning(&self, key: &E::Key, id: u64) -> Option<Box<dyn Pending<E>>> {
        match self.shard(key).inactive_mut(key) {
            Some(Inactive::Leaving(leaving)) if leaving.task.tag() == id => {
                leaving.returning.pop_front()
            }
            _ => None,
        }
    }

    /// Number of messages that may wait for an activation: its mailbox's bound, so that all of them
    /// get there.
    fn pending_max(&self) -> usize {
        let mailbox = E::MAILBOX.unwrap_or_else(|| self.system.group().mailbox());
        match mailbox.overflow_policy() {
            Overflow::DropOldest => PENDING_MAX,
            _ => usize::try_from(mailbox.capacity())
                .map_or(PENDING_MAX, |most| most.min(PENDING_MAX)),
        }
    }

    /// Looks at the activations of one shard; false ends the look.
    pub(crate) fn each_active(
        &self,
        shard: usize,
        mut look: impl FnMut(&E::Key, &mut Active<E>) -> bool,
    ) {
        self.table.each(shard, |key, entry| match entry {
            Entry::Active(active) => look(key, active),
            Entry::Inactive(_) => true,
        });
    }

    /// Forgets the held keys of a shard whose pause ended long ago.
    pub(crate) fn forget_held(&self, shard: usize, before_ns: u64) {
        self.table.retain(shard, |entry| match entry {
            Entry::Inactive(inactive) => {
                !matches!(**inactive, Inactive::Held { until_ns, .. } if until_ns < before_ns)
            }
            Entry::Active(_) => true,
        });
    }

    pub(crate) fn is_active(&self, key: &E::Key) -> bool {
        matches!(self.shard(key).get(key), Some(Entry::Active(_)))
    }

    pub(crate) fn task_of(&self, key: &E::Key) -> Option<Task<ActorCell<E>>> {
        self.shard(key).get(key)?.task().cloned()
    }

    pub(crate) fn weak(&self) -> Weak<Self> {
        Weak::clone(&self.myself)
    }

    /// First shard of a look that does not visit all shards.
    pub(crate) fn next_shard(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed) % Self::shards()
    }

    pub(crate) const fn shards() -> usize {
        Table::<E>::shards()
    }
}

/// The owner of a key, if that is another process.
pub(crate) fn not_owner<E: Entity>(settings: &Settings, key: &E::Key) -> Option<Box<NotOwner>> {
    let placement = &settings.placement;
    if placement.is_all_local() {
        return None;
    }
    let text = key.text();
    let place = placement.place(E::NAME, &text);
    (!place.is_local).then(|| {
        let owner = placement.owner(E::NAME, &text);
        let entity = std::any::type_name::<E>();
        Box::new(NotOwner { entity, key: text.into_owned(), owner, epoch: place.epoch })
    })
}

/// The name of an entity for people.
pub(crate) fn name_of<E: Entity>(key: &E::Key) -> String {
    format!("{} «{}»", std::any::type_name::<E>(), key.text())
}
