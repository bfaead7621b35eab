//! Collection by order: which keys are active, and the end of those that are idle or old.

use std::sync::Arc;
use std::time::Duration;

use turnwheel_runtime::Task;

use crate::actor::cell::ActorCell;
use crate::entity::directory::last_use::age_ns;
use crate::entity::life::hooks::HELD_NS;
use crate::entity::{Directory, Entities, Entity, EntityKey, LookError};

/// Which activations [`Entities::collect`] ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Collect {
    /// Entities without a message for at least so long, whatever their idle limit is; not those
    /// that are [kept](crate::Context::keep_for) or held, or have a request under way.
    IdleFor(Duration),
    /// Entities that began at least so long ago, also if they are in use; not those that are
    /// [held](crate::Context::hold). What was sent before is handled first.
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

    /// As [`Entities::active_keys`] by the name of a type, as [`Entities::types`] tells it, and as
    /// text.
    ///
    /// # Errors
    ///
    /// There is no such type.
    pub fn active_keys_of(&self, name: &str) -> Result<Vec<String>, LookError> {
        Ok(self.listed(name)?.keys())
    }

    /// Passivates entities of this type now, by their idle time or their age. Each decides in its
    /// own turn, so some may go on. Returns how many were asked.
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

    /// The keys that are active, as text.
    pub(crate) fn active_key_texts(&self) -> Vec<String> {
        self.active_keys().iter().map(|key| key.text().into_owned()).collect()
    }

    fn collect(self: &Arc<Self>, collect: Collect) -> usize {
        let now_ns = self.system.group().now_ns();
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
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

/// Ends an activation after what it has admitted, unless it is held.
pub(crate) fn end_unless_held<E: Entity>(task: &Task<ActorCell<E>>) {
    // Full: it is asked at the next look. Closed: it is on its way.
    let _ = task.submit(|cell, cx| {
        if cell.state.kept_until_ns() != HELD_NS {
            cx.close();
        }
    });
}
