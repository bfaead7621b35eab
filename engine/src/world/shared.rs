//! State shared by the parts of a world.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use turnwheel_actors::Entities;
use turnwheel_runtime::Group;

use super::begins::Begins;
use super::by_key::Services;
use super::clock::Clock;
use super::extending::LastCalls;
use super::own_groups::OwnGroups;
use super::{
    keeping, Busy, Callers, Crowd, Hub, Ids, Letters, Opening, Plugin, Unwritten, Watchers, World,
    WorldView,
};
use crate::action::{Batches, Registry};
use crate::connect::Word;
use crate::error::StoreError;
use crate::id::PlanId;
use crate::journal::{Delivery, Journal};
use crate::run::{self, Queues, Wakes};
use crate::schedule::Timetable;
use crate::store::{slot_of, Slots, WorldKind};
use crate::time::Time;

/// State shared by the parts of a world.
pub(crate) struct Shared {
    pub(super) registry: Arc<Registry>,
    pub(super) plugin: Option<Arc<dyn Plugin>>,
    pub(super) group: Group,
    pub(super) clock: Clock,
    /// The number of this world, and the epoch of all that it writes.
    pub(super) epoch: u64,
    /// Worlds that were found dead at the start.
    pub(super) predecessors: Vec<WorldView>,
    pub(super) hub: Arc<Hub>,
    pub(super) journal: Journal,
    pub(super) plans: Entities,
    pub(super) crowd: Arc<Crowd>,
    pub(super) delivery: Delivery,
    pub(super) wakes: OnceLock<Wakes>,
    pub(super) queues: Arc<Queues>,
    pub(super) timetable: OnceLock<Timetable>,
    /// Whether schedules are about to be read again.
    pub(super) reads_schedules: AtomicU8,
    pub(super) watchers: Watchers,
    pub(super) callers: Callers,
    /// Plans that will ask again, in a moment, for the plans that they wait for.
    pub(super) asking: Mutex<HashSet<PlanId>>,
    pub(super) begins: Begins,
    pub(super) letters: Arc<Letters>,
    pub(super) ids: Arc<Ids>,
    pub(super) store: String,
    pub(super) kind: WorldKind,
    pub(super) busy: Arc<Busy>,
    pub(super) unwritten: Unwritten,
    pub(super) is_rescuing: bool,
    /// 0 for no limit.
    pub(super) unclean_ends_max: u32,
    pub(super) last_calls: Mutex<LastCalls>,
    pub(super) batches: Batches,
    pub(super) opening: Opening,
    pub(super) keeping: keeping::Keeping,
    /// Numbers that were given to parts of programs over this world.
    pub(super) numbers: AtomicU64,
    pub(super) began: Time,
    /// Plans that were made here and have no entry yet: there is nothing to load.
    pub(super) fresh: Mutex<HashSet<PlanId>>,
    /// Plans of worlds that went while this one was there.
    pub(super) taken: Mutex<Vec<TakenOver>>,
    /// Groups that the world has made itself, and ends.
    pub(super) own: OwnGroups,
    /// Requests for keys of this world.
    pub(super) services: Services,
    /// Entities that are one with those of the other worlds.
    pub(super) entities: OnceLock<Entities>,
}

/// Slots whose plans went over to this world.
#[derive(Debug)]
pub(super) struct TakenOver {
    pub(super) slots: Slots,
    /// The world that had them.
    pub(super) from: String,
    pub(super) at: Time,
}

/// Name of a world in the histories of plans.
pub(super) fn called(epoch: u64, name: &str) -> String {
    format!("world {epoch} («{name}»)")
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A number that no other caller over this world gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// The slots of this world.
    pub(crate) fn slots(&self) -> Slots {
        self.hub.worlds().find(self.epoch).map(|row| row.slots).unwrap_or_default()
    }

    /// A world is gone, and this one has what it had in these slots.
    pub(super) fn took_over(&self, slots: Slots, from: String) {
        if !slots.is_empty() {
            let at = self.now();
            self.taken.lock().push(TakenOver { slots, from, at });
        }
    }

    /// When this world took over the plans of a slot, and from which world, the last time.
    pub(crate) fn taken_over(&self, plan: PlanId) -> Option<(Time, String)> {
        let taken = self.taken.lock();
        let last = taken.iter().rfind(|taken| taken.slots.has(slot_of(plan)))?;
        Some((last.at, last.from.clone()))
    }

    /// The world that had died when this one began, if one had plans.
    pub(crate) fn died_before(&self) -> Option<String> {
        let died = self.predecessors.iter().rfind(|world| world.slots > 0)?;
        Some(called(died.id, &died.name))
    }

    /// Maximum number of unclean ends of a process during one step, if the previous world ended so
    /// and that is limited.
    pub(crate) fn unclean_ends_max(&self, plan: PlanId) -> Option<u32> {
        let is_unclean = !self.predecessors.is_empty() || self.taken_over(plan).is_some();
        (is_unclean && self.unclean_ends_max > 0).then_some(self.unclean_ends_max)
    }

    /// Whether the world begins nothing new, because it ends.
    pub(crate) fn is_ending(&self) -> bool {
        self.busy.is_ending()
    }

    /// Whether no code of actions is called.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.opening == Opening::AtRest || self.is_ending()
    }

    /// Whether no code of a plan is called, because the world ends or gives its slot away.
    pub(crate) fn is_plan_at_rest(&self, plan: PlanId) -> bool {
        self.is_at_rest() || self.busy.is_closed(slot_of(plan))
    }

    /// The plans whose entries the store refuses.
    pub(crate) fn unwritten(&self) -> &Unwritten {
        &self.unwritten
    }

    /// The plans with activity.
    pub(crate) fn busy(&self) -> &Arc<Busy> {
        &self.busy
    }

    /// A plan of this world asks again, in a moment, for the plans that it waits for.
    pub(crate) fn ask_again_later(self: &Arc<Self>, plan: PlanId) {
        // It asks for all of them at once. If each of them let it ask once more, they would
        // multiply.
        if !self.asking.lock().insert(plan) {
            return;
        }
        let (world, later) = (Arc::downgrade(self), self.group.sleep(run::AGAIN));
        self.hub.spawn(async move {
            let _slept = later.await;
            let Some(world) = world.upgrade() else { return };
            world.asking.lock().remove(&plan);
            if world.owns(plan) {
                if let Err(problem) = world.say(plan, Word::AskAgain) {
                    // Its mailbox is full, say.
                    tracing::debug!(%plan, problem, "a plan is told again later");
                    world.ask_again_later(plan);
                }
            }
        });
    }

    /// Other worlds may have plans of this one: what is kept in memory for them goes.
    pub(crate) fn forget_lost_plans(&self) {
        if let Some(plugin) = &self.plugin {
            plugin.keep_only(&|plan| self.owns(plan));
        }
        // It is not there while the world is made.
        self.timetable.get().iter().for_each(|timetable| timetable.look_at_slots());
    }

    /// Goes on with the plans of slots that are this world's since a change.
    ///
    /// If a world has gone, plans of this one that wait for plans ask for them again: what it was
    /// about to tell them is lost.
    pub(crate) fn owns_now(self: &Arc<Self>, gained: Slots, has_gone: bool) {
        // From now on events wait until it is known who listens in those plans.
        let looks = !gained.is_empty() && self.opening() == Opening::GoOn;
        let plugin = self.plugin.clone().filter(|_| looks);
        if let Some(plugin) = &plugin {
            plugin.look_again();
        }
        let (shared, hub) = (Arc::downgrade(self), Arc::clone(&self.hub));
        self.hub.spawn(async move {
            while let Some(shared) = shared.upgrade().filter(|shared| !shared.is_ending()) {
                let world = World::of(&shared);
                if let Some(plugin) = &plugin {
                    // Actions to launch or to go on may be known only where they were added.
                    if let Err(error) = plugin.prepare(&world).await {
                        tracing::error!(%error, "what other worlds have added is not known here");
                    }
                }
                let adopted = match world.adopt(gained).await {
                    Ok(()) if has_gone => world.ask_for_plans_again(gained).await,
                    other => other,
                };
                let gone_on = match (adopted, &plugin) {
                    (Ok(()), Some(plugin)) => plugin.recover(&world).await,
                    (other, _) => other,
                };
                match gone_on {
                    Ok(()) | Err(StoreError::Fenced { .. }) => return,
                    Err(error) => {
                        tracing::error!(%error, "plans of another world do not go on yet");
                    }
                }
                drop((world, shared));
                hub.pause(run::AGAIN).await;
            }
        });
    }

    /// Reads the schedules of slots that this world has got again under another epoch, one time
    /// after the other.
    pub(crate) fn read_schedules(self: &Arc<Self>) {
        let state = &self.reads_schedules;
        let once_more = |now: u8| Some((now + 1).min(2));
        let before = state.fetch_update(Ordering::AcqRel, Ordering::Acquire, once_more);
        if before != Ok(0) {
            return;
        }
        let (shared, hub) = (Arc::downgrade(self), Arc::clone(&self.hub));
        self.hub.spawn(async move {
            while let Some(shared) = shared.upgrade().filter(|shared| !shared.is_ending()) {
                // Before it looks, so that a slot that is lost from here on is not overlooked.
                shared.reads_schedules.store(1, Ordering::Release);
                match World::of(&shared).restore_schedules().await {
                    Ok(()) | Err(StoreError::Fenced { .. }) => {
                        let state = &shared.reads_schedules;
                        let ended =
                            state.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Acquire);
                        if ended.is_ok() {
                            return;
                        }
                        // Asked again meanwhile.
                        continue;
                    }
                    Err(error) => tracing::error!(%error, "schedules are read again soon"),
                }
                drop(shared);
                hub.pause(run::AGAIN).await;
            }
        });
    }

    pub(crate) fn plans(&self) -> &Entities {
        &self.plans
    }

    /// Tells plans what became of their entries.
    pub(crate) fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// The number of plans in memory.
    pub(crate) fn crowd(&self) -> &Arc<Crowd> {
        &self.crowd
    }

    pub(crate) fn wakes(&self) -> &Wakes {
        self.wakes.get().expect("it is set before the world is given away")
    }

    pub(crate) fn queues(&self) -> &Arc<Queues> {
        &self.queues
    }

    pub(crate) fn timetable(&self) -> &Timetable {
        self.timetable.get().expect("it is set before the world is given away")
    }

    pub(crate) fn letters(&self) -> &Arc<Letters> {
        &self.letters
    }

    pub(crate) fn callers(&self) -> &Callers {
        &self.callers
    }

    pub(crate) fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    /// The time of plans: that of the wall clock, without the jumps of a moment.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// The clock of plans.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The time of the wall clock as it is, for work that notices jumps itself.
    pub(crate) fn wall(&self) -> Time {
        self.clock.wall()
    }

    pub(crate) fn ids(&self) -> &Arc<Ids> {
        &self.ids
    }

    /// When this world began.
    pub(crate) fn began(&self) -> Time {
        self.began
    }

    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    pub(crate) fn batches(&self) -> &Batches {
        &self.batches
    }

    pub(crate) fn kind(&self) -> WorldKind {
        self.kind
    }

    /// The part of the world that has a crate of its own.
    pub(crate) fn plugin(&self) -> Option<&Arc<dyn Plugin>> {
        self.plugin.as_ref()
    }

    pub(crate) fn is_rescuing(&self) -> bool {
        self.is_rescuing
    }

    /// Treatment of the stored plans and schedules.
    pub(crate) fn opening(&self) -> Opening {
        self.opening
    }

    pub(crate) fn is_fresh(&self, plan: PlanId) -> bool {
        self.fresh.lock().remove(&plan)
    }
}
