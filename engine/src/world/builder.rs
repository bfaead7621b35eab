//! Description of a world.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::{Entities, System};
use turnwheel_runtime::completion::block_on;
use turnwheel_runtime::Group;

use super::begins::Begins;
use super::clock::Clock;
use super::extending::LastCalls;
use super::hub::{io_group, Hub, SharedStore, IO_WORKERS};
use super::own_groups::OwnGroups;
use super::{
    Callers, Crowd, Ids, Meta, Opening, Plugin, Queue, Retention, Shared, Watchers, World,
};
use crate::action::{Action, Batches, Registry};
use crate::connect::{Desk, Local};
use crate::error::{unanswered, BuildError, TextTooLong};
use crate::journal::Delivery;
use crate::limits::{CLOCK_HOLD, META_BYTES_MAX, NAME_BYTES_MAX, PLANS_IN_MEMORY, WAKES_KEPT};
use crate::run::{Queues, Wakes};
use crate::schedule::Timetable;
use crate::store::{Codec, CodedStore, Slots, Store, WorldKind, WorldRow};

/// Describes a world; made by [`World::builder`].
#[derive(Debug, Default)]
#[must_use]
pub struct WorldBuilder {
    pub(super) registry: Registry,
    pub(super) problem: Option<BuildError>,
    group: Option<Group>,
    io: Option<Group>,
    seed: Option<u64>,
    idle: Option<Duration>,
    in_memory: Option<usize>,
    wakes_kept: Option<usize>,
    always_pauses: bool,
    unclean_ends_max: u32,
    queues: Vec<Queue>,
    pub(super) codec: Option<Arc<dyn Codec>>,
    pub(super) opening: Opening,
    pub(super) last_calls: LastCalls,
    name: Option<String>,
    is_client: bool,
    checks: Option<bool>,
    meta: Vec<(String, String)>,
    pub(super) retention: Option<Retention>,
    plugin: Option<Arc<dyn Plugin>>,
    clock_hold: Option<Duration>,
}

impl WorldBuilder {
    /// Adds an action.
    pub fn action<A: Action>(mut self, action: A) -> Self {
        if let Err(problem) = self.registry.add(action) {
            self.problem.get_or_insert(problem);
        }
        self
    }

    /// Adds the part of the world that has a crate of its own.
    pub(crate) fn plugin(mut self, plugin: Arc<dyn Plugin>) -> Self {
        self.plugin = Some(plugin);
        self
    }

    /// Believes a clock that jumps after this time, instead of [`CLOCK_HOLD`].
    pub(crate) fn clock_hold(mut self, hold: Duration) -> Self {
        self.clock_hold = Some(hold);
        self
    }

    /// Keeps so many due times in memory, instead of [`WAKES_KEPT`].
    pub(crate) fn wakes_kept(mut self, kept: usize) -> Self {
        self.wakes_kept = Some(kept);
        self
    }

    /// Adds a queue, or describes the default one.
    pub fn queue(mut self, queue: Queue) -> Self {
        if let Err(problem) = queue.check() {
            self.problem.get_or_insert(problem);
        } else if self.queues.iter().any(|known| known.name == queue.name) {
            self.problem.get_or_insert(BuildError::DuplicateQueue(queue.name));
        } else {
            self.queues.push(queue);
        }
        self
    }

    /// The group whose workers run plans, instead of one of the world's own.
    pub fn group(mut self, group: &Group) -> Self {
        self.group = Some(group.clone());
        self
    }

    /// The group whose workers wait for the disk, instead of one of the world's own.
    pub fn io_group(mut self, group: &Group) -> Self {
        self.io = Some(group.clone());
        self
    }

    /// Makes the same ids in each run: for simulations.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Time for which a waiting plan stays in memory after its last event, instead of
    /// [`PLAN_IDLE`](crate::limits::PLAN_IDLE).
    pub fn plan_idle(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }

    /// Maximum number of plans in memory, instead of
    /// [`PLANS_IN_MEMORY`](crate::limits::PLANS_IN_MEMORY). Beyond it waiting plans leave memory at
    /// once, and new plans wait while all others are active.
    pub fn plans_in_memory(mut self, plans: usize) -> Self {
        self.in_memory = Some(plans);
        self
    }

    /// Encodes the stored data of plans and schedules, for instance by encryption. Data for
    /// searches is stored as it is: names, labels, keys, reasons for waiting. See [`Codec`]. A
    /// world that [joins](WorldBuilder::join) a store uses the codec of the store: a
    /// [`CodedStore`].
    pub fn codec(mut self, codec: impl Codec) -> Self {
        self.codec = Some(Arc::new(codec));
        self
    }

    /// Pauses every plan whose steps have failed, whatever its actions suggest.
    pub fn always_pause(mut self) -> Self {
        self.always_pauses = true;
        self
    }

    /// Pauses a plan whose step was running when a process ended without closing, by a crash or
    /// `kill -9`, so many times in a row: the step may be the reason. 0, the default, runs it again
    /// however often that was.
    pub fn unclean_ends_max(mut self, ends: u32) -> Self {
        self.unclean_ends_max = ends;
        self
    }

    /// Display name of the world, instead of a name made of its process.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Something that the world says of itself in [`World::worlds`].
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.meta.push((key.into(), value.into()));
        self
    }

    /// A world that runs no plans: other worlds over the same store run what it triggers. It needs no
    /// actions but their types.
    pub fn client(mut self) -> Self {
        self.is_client = true;
        self
    }

    /// Whether the worlds that are registered are asked at the start if they are there, and invalidated if
    /// they are not. An executor does so unless this says otherwise, a client does not.
    pub fn check_worlds_at_start(mut self, checks: bool) -> Self {
        self.checks = Some(checks);
        self
    }

    /// Opens the store, goes on with the plans in it that were under way, and takes new ones.
    ///
    /// # Errors
    ///
    /// Two actions or queues have the same name, a queue makes no sense, the store cannot be used, or
    /// no threads can be made.
    ///
    /// Called on a worker of a group it is refused; use [`WorldBuilder::open`] there.
    pub fn build(self, store: impl Store) -> Result<World, BuildError> {
        block_on(self.open(store)).map_err(|refused| BuildError::Threads(unanswered(&refused)))?
    }

    /// As [`WorldBuilder::build`], for code that may not wait in its thread.
    ///
    /// # Errors
    ///
    /// As [`WorldBuilder::build`].
    pub async fn open(mut self, store: impl Store) -> Result<World, BuildError> {
        self.refuse_problems()?;
        let mut own = OwnGroups::default();
        let io = match self.io.take() {
            Some(io) => io,
            None => {
                let made = io_group(IO_WORKERS)?;
                own.groups.push(made.clone());
                made
            }
        };
        let wire = Arc::new(Local::new());
        let hub = match self.codec.take() {
            Some(codec) => {
                Hub::open(&CodedStore::new(store, codec), &io, OwnGroups::default(), wire, None)?
            }
            None => Hub::open(&store, &io, OwnGroups::default(), wire, None)?,
        };
        self.enter(hub, own).await
    }

    /// Makes a world over a store that is open: it may have others, of this process. Its
    /// [`io_group`](WorldBuilder::io_group) is that of the store.
    ///
    /// # Errors
    ///
    /// As [`WorldBuilder::build`].
    pub fn join(self, store: &SharedStore) -> Result<World, BuildError> {
        let joined = block_on(self.join_later(store));
        joined.map_err(|refused| BuildError::Threads(unanswered(&refused)))?
    }

    /// As [`WorldBuilder::join`], for code that may not wait in its thread.
    ///
    /// # Errors
    ///
    /// As [`WorldBuilder::build`].
    pub async fn join_later(mut self, store: &SharedStore) -> Result<World, BuildError> {
        self.refuse_problems()?;
        if self.codec.is_some() {
            return Err(BuildError::Codec);
        }
        self.enter(Arc::clone(&store.hub), OwnGroups::default()).await
    }

    fn refuse_problems(&mut self) -> Result<(), BuildError> {
        let name = self.name.as_deref().unwrap_or_default();
        TextTooLong::check("name of the world", name, NAME_BYTES_MAX)?;
        let bytes = self.meta.iter().map(|(key, value)| key.len() + value.len()).sum();
        TextTooLong::of("text that the world says of itself", bytes, META_BYTES_MAX)?;
        match self.problem.take() {
            Some(problem) => Err(problem),
            None => self.registry.check(),
        }
    }

    fn row(&self, cpu: &Group, queues: &Queues) -> WorldRow {
        let kind = if self.is_client { WorldKind::Client } else { WorldKind::Executor };
        let (actions, queues) = match kind {
            WorldKind::Client => (Vec::new(), Vec::new()),
            WorldKind::Executor => (self.registry.names(), queues.status(None)),
        };
        let meta = Meta::here(actions, &queues, self.meta.clone());
        let usual = || format!("{} of process {}", cpu.name(), std::process::id());
        WorldRow {
            epoch: 0,
            name: self.name.clone().unwrap_or_else(usual),
            kind,
            since: cpu.wall().into(),
            slots: Slots::default(),
            meta: meta.to_text(),
            claims: Vec::new(),
        }
    }

    /// Makes the world, registers it, and goes on with what it owns.
    #[expect(clippy::too_many_lines, reason = "the steps of entering a world, in order")]
    async fn enter(mut self, hub: Arc<Hub>, mut own: OwnGroups) -> Result<World, BuildError> {
        let cpu = match self.group.take() {
            Some(cpu) => cpu,
            None => {
                let made = Group::builder("plans").build();
                let made = made.map_err(|error| BuildError::Threads(error.to_string()))?;
                own.groups.insert(0, made.clone());
                made
            }
        };
        let in_memory = self.in_memory.unwrap_or(PLANS_IN_MEMORY);
        let mut plans = Entities::builder(&System::new(&cpu)).active_max(in_memory);
        if let Some(idle) = self.idle {
            plans = plans.idle_of::<crate::run::PlanActor>(idle);
        }
        let plans = plans.build();
        let queues = Queues::new(std::mem::take(&mut self.queues), &cpu);
        queues.start().map_err(BuildError::Threads)?;
        let (row, is_named) = (self.row(&cpu, &queues), self.name.is_some());
        let kind = row.kind;
        let checks = self.checks.unwrap_or(kind == WorldKind::Executor);
        hub.letters.load().await?;
        let (epoch, predecessors) = hub.register(row, checks, is_named).await?;
        let shared = Arc::new(Shared {
            registry: Arc::new(self.registry),
            plugin: self.plugin,
            clock: Clock::new(&cpu, self.clock_hold.unwrap_or(CLOCK_HOLD)),
            group: cpu.clone(),
            began: cpu.wall().into(),
            epoch,
            predecessors,
            crowd: Crowd::new(in_memory),
            delivery: Delivery::start(&cpu, epoch).map_err(BuildError::Threads)?,
            journal: hub.journal.clone(),
            plans,
            wakes: OnceLock::new(),
            queues,
            timetable: OnceLock::new(),
            reads_schedules: Default::default(),
            watchers: Watchers::default(),
            callers: Callers::default(),
            asking: Mutex::default(),
            begins: Begins::default(),
            letters: Arc::clone(&hub.letters),
            ids: Arc::new(Ids::new(self.seed, epoch)),
            store: hub.store.clone(),
            kind,
            busy: Arc::default(),
            unwritten: Default::default(),
            is_rescuing: !self.always_pauses,
            unclean_ends_max: self.unclean_ends_max,
            last_calls: Mutex::new(self.last_calls),
            batches: Batches::default(),
            opening: self.opening,
            keeping: Default::default(),
            numbers: Default::default(),
            fresh: Mutex::new(HashSet::new()),
            taken: Mutex::default(),
            own: own.used_by(format!("a world over the store {}", hub.store)),
            hub: Arc::clone(&hub),
            services: Default::default(),
            entities: Default::default(),
        });
        let wakes =
            Wakes::start(Arc::downgrade(&shared), &cpu, self.wakes_kept.unwrap_or(WAKES_KEPT));
        let wakes = wakes.map_err(BuildError::Threads)?;
        shared.wakes.set(wakes).expect("a world is made once");
        let looks = Arc::downgrade(&shared);
        shared.clock.on_jump(move || {
            looks.upgrade().iter().for_each(|shared| shared.wakes().look_at_clock());
        });
        let timetable = Timetable::start(Arc::downgrade(&shared), &cpu);
        let timetable = timetable.map_err(BuildError::Threads)?;
        shared.timetable.set(timetable).expect("a world is made once");
        // Before anybody can give it a plan that needs them.
        if let Some(plugin) = shared.plugin() {
            plugin.prepare(&World::of(&shared)).await?;
        }
        hub.add(&shared);
        hub.connector.attach(Desk { world: epoch, shared: Arc::downgrade(&shared) });
        let slots = shared.slots();
        shared.homes_are(&slots);
        let world = World { shared };
        if kind == WorldKind::Executor {
            world.adopt(slots).await?;
            // It looks at all plans, which would go on by that.
            match world.shared.plugin() {
                Some(plugin) if self.opening == Opening::OnRequest => plugin.begin_empty(),
                Some(plugin) => plugin.recover(&world).await?,
                None => {}
            }
        }
        if let Some(retention) = self.retention.take() {
            world.begin_keeping(retention);
        }
        Ok(world)
    }
}
