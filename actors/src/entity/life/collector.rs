//! Finds entities that are idle or exceed the limits, and ends their activations.
//!
//! A look costs nothing while no entity is active, and a few nanoseconds for each active one:
//! look-ups of keys keep the times. An entity without a recent look-up is asked itself, in its
//! turn: it also knows its uses by other ways.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Weak;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::{Completion, Context, Task};

use crate::actor::ActorCell;
use crate::call::nanos;
use crate::entity::{age_ns, Directory, Entities, Entity, Home, LookError, Suspects, HELD_NS};

use crate::system::upkeep::submit_own;

/// Looks within the time that makes an entity idle: so late may it be found, in parts of that time.
const LOOKS: u32 = 4;

/// Shortest time between two looks.
const LOOK_MIN: Duration = Duration::from_millis(5);

/// Longest time between two looks.
const LOOK_MAX: Duration = Duration::from_secs(60);

/// Time between two attempts to make room while keys wait for it.
const ROOM_LOOK: Duration = Duration::from_millis(5);

/// Number of looks for which a past failure is remembered, so that pauses grow.
const HELD_LOOKS: u32 = 16;

/// The collector of one directory, as the directory sees it.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    is_watching: AtomicBool,
    is_making_room: AtomicBool,
    pub(crate) suspects: Suspects,
    /// States that met a conflict, by their activations, until the request that met it is over.
    pub(crate) stale: Mutex<HashMap<u64, Weak<Home>>>,
}

/// The task that looks; lives while there are active entities.
struct Sweep<E: Entity> {
    directory: Weak<Directory<E>>,
}

type Turn<'a, E> = Context<'a, Sweep<E>>;

impl Collector {
    /// Starts the task, as there is an active entity.
    pub(crate) fn watch<E: Entity>(&self, directory: &Directory<E>) {
        if self.is_watching.load(Ordering::Relaxed) || self.is_watching.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let (idle, stuck) = (directory.idle(), directory.stuck_limit());
        let age = directory.settings(|settings| settings.age_max).unwrap_or(Duration::MAX);
        let shortest = idle.min(stuck).min(age);
        if shortest == Duration::MAX {
            return;
        }
        let period = (shortest / LOOKS).clamp(LOOK_MIN, LOOK_MAX);
        start(directory, &self.is_watching, move |_, cx| {
            let armed = cx.every_after(period, move |sweep: &mut Sweep<E>, cx| {
                let Some(directory) = sweep.directory.upgrade() else { return cx.close() };
                directory.sweep(idle, age, period);
                if stuck != Duration::MAX {
                    directory.look_for_stuck(stuck);
                }
                if directory.active() == 0 {
                    directory.collector.is_watching.store(false, Ordering::Release);
                    cx.close();
                    // An activation before the store may have found the flag set.
                    if directory.active() > 0 {
                        directory.collector.watch(&directory);
                    }
                }
            });
            if let Err(error) = armed {
                tracing::warn!(%error, "idle entities are not collected");
            }
        });
    }

    /// Sees to it that there will be room: a key waits for it.
    pub(crate) fn make_room<E: Entity>(&self, directory: &Directory<E>) {
        if self.is_making_room.swap(true, Ordering::AcqRel) {
            return;
        }
        start(directory, &self.is_making_room, |sweep, cx| {
            make_room(sweep, cx);
            let armed = cx.every_after(ROOM_LOOK, |sweep: &mut Sweep<E>, cx| make_room(sweep, cx));
            if let Err(error) = armed {
                tracing::warn!(%error, "no room is made for entities that wait");
            }
        });
    }
}

/// Spawns a task that looks.
fn start<E: Entity>(
    directory: &Directory<E>,
    flag: &AtomicBool,
    begin: impl FnOnce(&mut Sweep<E>, &mut Turn<'_, E>) + Send + 'static,
) {
    let sweep = Sweep { directory: directory.weak() };
    let task = directory.system.group().task(sweep).class("entities").system().spawn();
    let begun = task.map_err(drop).and_then(|task| submit_own(&task, begin).map_err(drop));
    if begun.is_err() {
        // The group shuts down.
        flag.store(false, Ordering::Release);
    }
}

fn make_room<E: Entity>(sweep: &mut Sweep<E>, cx: &mut Turn<'_, E>) {
    let Some(directory) = sweep.directory.upgrade() else { return cx.close() };
    if directory.is_short_of_room() {
        directory.make_room();
        return;
    }
    directory.collector.is_making_room.store(false, Ordering::Release);
    cx.close();
    if directory.is_short_of_room() {
        directory.collector.make_room(&directory);
    }
}

impl<E: Entity> Directory<E> {
    pub(crate) fn idle(&self) -> Duration {
        let is_own = E::IDLE != crate::entity::IDLE_DEFAULT;
        let set = self.settings(|settings| {
            let of_type = settings.idle_of.get(&std::any::TypeId::of::<E>()).copied();
            of_type.or(settings.idle.filter(|_| !is_own))
        });
        set.flatten().unwrap_or(E::IDLE)
    }

    /// Asks the entities without a recent look-up.
    fn sweep(&self, idle: Duration, age: Duration, period: Duration) {
        let now_ns = self.system.group().now_ns();
        let idle_ns = nanos(idle);
        let old_ns = nanos(age);
        let period_ns = nanos(period);
        for shard in 0..Self::shards() {
            let (mut asked, mut old) = (Vec::new(), Vec::new());
            self.each_active(shard, |key, active| {
                // An activation that has just become idle for the directory is asked too: if it is
                // used in other ways, it keeps its place in the order of last use.
                let idle_for_ns = now_ns.saturating_sub(active.last_use.ns());
                let ends = idle_for_ns >= idle_ns;
                if age_ns(active.begun, now_ns) >= old_ns {
                    old.push(active.task.clone());
                    return true;
                }
                if active.task.queue_len() > 0 {
                    // It has something to do; and a job behind that takes the place of a message.
                    return true;
                }
                if ends || (period_ns..period_ns.saturating_mul(2)).contains(&idle_for_ns) {
                    asked.push((key.clone(), active.task.clone()));
                }
                true
            });
            old.iter().for_each(end_unless_held);
            for (key, task) in asked {
                self.ask(key, &task, now_ns, idle_ns);
            }
            let held_ns = period_ns.saturating_mul(u64::from(HELD_LOOKS));
            self.forget_held(shard, now_ns.saturating_sub(held_ns));
        }
    }

    /// Asks an activation for its last use; ends it if that was too long ago.
    pub(crate) fn ask(&self, key: E::Key, task: &Task<ActorCell<E>>, now_ns: u64, idle_ns: u64) {
        let directory = self.weak();
        let asked = task.submit(move |cell, cx| {
            let Some(directory) = directory.upgrade() else { return };
            if cell.state.is_busy(cx) {
                // A request that lasts is a use all the time.
                cell.state.note_use(now_ns);
            }
            let used_ns = directory.was_used(&key, cell.state.id, cell.state.used_ns());
            let is_idle = used_ns.is_some_and(|used_ns| now_ns.saturating_sub(used_ns) >= idle_ns);
            if !is_idle || cell.state.kept_until_ns() > now_ns {
                directory.measure(&key, cell);
            } else if cx.holding() == 0 {
                // A tick under way is no activity, but is not waited for with the door closed
                // either.
                cx.close();
            }
        });
        // Full: the entity is not idle. Closed: it is ending already.
        let _ = asked;
    }

    /// Ends the activation of a key.
    pub(crate) fn passivate(&self, key: &E::Key) -> Completion<()> {
        self.task_of(key).map_or_else(|| Completion::done(()), |task| task.close())
    }
}

/// Selection of activations that [`Entities::collect`] ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Collect {
    /// Entities without a message for at least this time, whatever their idle limit; except those
    /// that are [kept](crate::Context::keep_for) or held, or have a request under way.
    IdleFor(Duration),
    /// Entities that began at least this long ago, even if in use; except those that are
    /// [held](crate::Context::hold). Earlier messages are handled first.
    OlderThan(Duration),
}

impl Entities {
    /// The keys of the entities of this type that are active, in no order. Cost: a look at each,
    /// under one of 64 locks at a time.
    ///
    /// ```
    /// # use turnwheel_actors::{Actor, Context, Entities, Entity, Handler, System};
    /// # use turnwheel_runtime::Group;
    /// # struct Lamp;
    /// # impl Actor for Lamp { type Error = std::convert::Infallible; }
    /// # impl Entity for Lamp {
    /// #     type Key = String;
    /// #     fn create(_: &String) -> Self { Lamp }
    /// # }
    /// # struct On;
    /// # impl Handler<On> for Lamp {
    /// #     type Reply = ();
    /// #     fn handle(&mut self, _: On, _: &mut Context<'_, Self>) {}
    /// # }
    /// # let group = Group::builder("doc").workers(1).build()?;
    /// let entities = Entities::new(&System::new(&group));
    /// entities.get::<Lamp>("hall").ask(On).wait().map_err(|error| error.to_string())?;
    /// assert_eq!(entities.active_keys::<Lamp>(), ["hall"]);
    /// # group.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn active_keys<E: Entity>(&self) -> Vec<E::Key> {
        self.directory::<E>().active_keys()
    }

    /// As [`Entities::active_keys`] by the name of a type as in [`Entities::types`], and as text.
    ///
    /// # Errors
    ///
    /// There is no such type.
    pub fn active_keys_of(&self, name: &str) -> Result<Vec<String>, LookError> {
        Ok(self.listed(name)?.keys())
    }

    /// Passivates entities of this type now, by their idle time or their age. Each decides in its
    /// own turn, so some may stay. Returns the number of entities asked.
    pub fn collect<E: Entity>(&self, collect: Collect) -> usize {
        self.directory::<E>().collect(collect)
    }
}

impl<E: Entity> Directory<E> {
    pub(crate) fn active_keys(&self) -> Vec<E::Key> {
        let mut keys = Vec::new();
        for shard in 0..Self::shards() {
            self.each_active(shard, |key, _| {
                keys.push(key.clone());
                true
            });
        }
        keys
    }

    fn collect(&self, collect: Collect) -> usize {
        let now_ns = self.system.group().now_ns();
        let mut asked = 0;
        for shard in 0..Self::shards() {
            let mut found = Vec::new();
            self.each_active(shard, |key, active| {
                let is_meant = match collect {
                    Collect::IdleFor(idle) => {
                        active.task.queue_len() == 0
                            && now_ns.saturating_sub(active.last_use.ns()) >= nanos(idle)
                    }
                    Collect::OlderThan(age) => age_ns(active.begun, now_ns) >= nanos(age),
                };
                if is_meant {
                    found.push((key.clone(), active.task.clone()));
                }
                true
            });
            asked += found.len();
            for (key, task) in found {
                match collect {
                    Collect::IdleFor(idle) => self.ask(key, &task, now_ns, nanos(idle)),
                    Collect::OlderThan(_) => end_unless_held(&task),
                }
            }
        }
        asked
    }
}

/// Ends an activation after the messages that it has admitted, unless it is held.
fn end_unless_held<E: Entity>(task: &Task<ActorCell<E>>) {
    // Full: the next look asks again. Closed: it is ending already.
    let _ = task.submit(|cell, cx| {
        if cell.state.kept_until_ns() != HELD_NS {
            cx.close();
        }
    });
}
