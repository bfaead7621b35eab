//! The task that finds users whose time has come.
//!
//! It looks at the index of due times for users of its node's slots, gives what it finds to the
//! desks, and sleeps until the earliest time that is left. In memory is that one time, whatever the
//! number of users. Events come in at any node, so a node that is not alone looks every second, and
//! when slots have moved.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_engine::internal::{is_ending, WeakWorld};
use turnwheel_engine::store::{Slots, StateRow, StateScan};
use turnwheel_engine::{Time, TimedStates};
use turnwheel_runtime::{Context, Group, Task, Timer};

use crate::batch::{of_row, BATCH};
use crate::definitions::Definitions;
use crate::desk::{now, Desk, Request, USER};
use crate::error::JourneyError;
use crate::journeys::desk_of;
use crate::limits::{AGAIN, BATCHES_PAGE, CLOCK_CHECK, DUE_PAGE};
use crate::mover::Mover;
use crate::resume::resume;
use crate::row::BatchId;
use crate::walk::Turn;

/// The end of time, as stores have it.
const NEVER: Time = Time(i64::MAX as u64);

/// When the next look is: writers of earlier times say so.
pub(crate) type Armed = Arc<Mutex<Time>>;

pub(crate) struct Watch {
    pub(crate) world: WeakWorld,
    pub(crate) group: Group,
    pub(crate) states: TimedStates,
    pub(crate) definitions: Arc<Definitions>,
    pub(crate) desks: Vec<Task<Desk>>,
    pub(crate) mover: Arc<Mover>,
    /// The index of definitions as of the last look: another node may have changed it.
    pub(crate) seen: u64,
    pub(crate) armed: Armed,
    pub(crate) timer: Option<Timer>,
    /// Users of the last look: those that are still due are busy, or their write has failed.
    pub(crate) looked: HashSet<(String, Time)>,
    /// Those of the last look that had been looked at before and are under way no more.
    pub(crate) stuck: usize,
    pub(crate) open: usize,
    /// Whether the last look has found a whole page.
    pub(crate) has_more: bool,
    pub(crate) is_looking: bool,
    /// Whether a time came while a look was under way, which may have read before it.
    pub(crate) is_missed: bool,
    /// Whether other nodes have slots too.
    pub(crate) has_others: bool,
    /// Whether messages of senders that are gone are being taken over.
    pub(crate) is_resuming: bool,
    /// Batches that are due and stay: those behind them are looked at all the same.
    pub(crate) kept: usize,
    /// Due time and key of the last batch that was taken over or stayed.
    pub(crate) last_batch: (Option<Time>, String),
    /// Keys of batches that are due and cannot be read: each is told once.
    pub(crate) unreadable: HashSet<String>,
}

/// Rows that a look has found.
struct Looked {
    due: Vec<StateRow>,
    /// The first user who is due later, if none is due.
    next: Option<Time>,
    /// Batches of messages whose senders may be gone.
    batches: Vec<StateRow>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Watch {
    fn now(&self) -> Time {
        now(&self.world, &self.group)
    }

    /// Announces the definitions after a while, and again until that is durable: the store has taken
    /// no write.
    pub(crate) fn announce_later(&self, cx: &mut Context<'_, Self>) {
        let armed = cx.after(AGAIN, |watch: &mut Self, cx| {
            if watch.world.upgrade().is_none_or(|world| is_ending(&world)) {
                return;
            }
            let definitions = Arc::clone(&watch.definitions);
            let announced = async move { definitions.announce().await };
            cx.await_interleaved(announced, |watch: &mut Self, cx, announced| match announced {
                Ok(()) => tracing::info!("the journeys are announced to other nodes"),
                Err(error) => {
                    tracing::debug!(%error, "the journeys are announced later");
                    watch.announce_later(cx);
                }
            });
        });
        if let Err(error) = armed {
            tracing::error!(%error, "the journeys are not announced: there are no timers");
        }
    }

    /// Looks again whenever slots have moved.
    pub(crate) fn follow(&mut self, cx: &mut Context<'_, Self>) {
        let Some(changed) = self.world.upgrade().map(|world| world.slots_changed()) else { return };
        cx.await_interleaved(changed, |watch: &mut Self, cx, changed| {
            if changed.is_ok() {
                watch.follow(cx);
                watch.looked.clear();
                // The journeys whose users this node has to move may be others now.
                watch.mover.look();
                watch.look(cx);
            }
        });
    }

    /// Looks at what is due, unless a look is under way or enough users are. The next page is read
    /// while the second half of the last one is written.
    pub(crate) fn look(&mut self, cx: &mut Context<'_, Self>) {
        let is_enough = self.open > if self.has_more { DUE_PAGE / 2 } else { 0 };
        if self.is_looking || is_enough {
            self.is_missed |= self.is_looking;
            return;
        }
        // Every write says its due time from here on.
        *self.armed.lock() = NEVER;
        if let Some(timer) = self.timer.take() {
            timer.cancel();
        }
        let Some(slots) = self.world.upgrade().map(|world| world.own_slots()) else { return };
        self.has_others = slots != Slots::all();
        self.is_looking = true;
        let (states, definitions) = (self.states.clone(), Arc::clone(&self.definitions));
        let now = self.now();
        let limit = DUE_PAGE + self.stuck + self.open;
        let batches = BATCHES_PAGE + self.kept;
        let read = async move {
            let list = |name, slots: Slots, until, limit| {
                let states = states.clone();
                async move {
                    if slots.is_empty() {
                        return Ok(Vec::new());
                    }
                    let rows = states.list_in(&slots, name, StateScan::Due(until), limit).await;
                    rows.map_err(JourneyError::failed)
                }
            };
            // Batches of this world count in all slots: nobody else takes them as long as it lives.
            let all = Slots::all();
            let due = list(USER, slots, now, limit).await?;
            let batches = list(BATCH, all, now, batches).await?;
            let mut next = None;
            if due.is_empty() {
                let user = list(USER, slots, NEVER, 1).await?;
                // Batches that are due are looked at again in a moment.
                let batch = match batches.is_empty() {
                    true => list(BATCH, all, NEVER, 1).await?,
                    false => Vec::new(),
                };
                next = user.iter().chain(&batch).filter_map(|row| row.due).min();
            }
            // The rows may refer to definitions of other nodes.
            definitions.look().await?;
            Ok(Looked { due, next, batches })
        };
        cx.await_interleaved(read, move |watch: &mut Self, cx, read| watch.seen(read, limit, cx));
    }

    fn seen(
        &mut self,
        read: Result<Looked, JourneyError>,
        limit: usize,
        cx: &mut Context<'_, Self>,
    ) {
        self.is_looking = false;
        let is_missed = std::mem::take(&mut self.is_missed);
        let seen = self.definitions.current().seen;
        if std::mem::replace(&mut self.seen, seen) != seen {
            self.mover.look();
        }
        let Looked { due, next, batches } = match read {
            Ok(looked) => looked,
            Err(error) => {
                tracing::warn!(%error, "due users cannot be read");
                return self.arm(self.now().after(AGAIN), cx);
            }
        };
        let has_batches = !batches.is_empty();
        self.take_over(batches, cx);
        self.has_more = due.len() >= limit;
        // By due time: users who wait longest are first.
        let (mut found, mut new) = (HashSet::new(), Vec::new());
        for row in due {
            let Some(at) = row.due else { continue };
            let place = (row.key.clone(), at);
            if !self.looked.contains(&place) {
                new.push((row.key, row.record));
            }
            found.insert(place);
        }
        self.stuck = (found.len() - new.len()).saturating_sub(self.open);
        self.looked = found;
        if new.is_empty() && self.open > 0 {
            // The last of those that are under way looks again.
            self.has_more = false;
            return;
        }
        if new.is_empty() {
            // The rest is under way. It is looked at again, from the begin.
            let is_busy = !self.looked.is_empty();
            self.looked.clear();
            self.stuck = 0;
            // Other nodes write due times of these users without a word.
            let is_soon = is_busy || self.has_others || has_batches;
            let soon = is_soon.then(|| self.now().after(AGAIN));
            let soon = if is_missed { Some(self.now()) } else { soon };
            let next = soon.into_iter().chain(next).min();
            return next.into_iter().for_each(|at| self.arm(at, cx));
        }
        self.open += new.len();
        let me = cx.task();
        for read in new {
            let of = desk_of(&read.0, self.desks.len());
            let request = Box::new(Due { watch: me.clone() });
            let given = self.desks[of].submit(move |desk, cx| desk.take_read(read, request, cx));
            if given.is_err() {
                self.open -= 1;
            }
        }
        if self.open == 0 {
            self.arm(self.now().after(AGAIN), cx);
        }
    }

    /// Has messages of batches sent, unless a node that is alive is sending them. The batches get
    /// their turns by due time, [`BATCHES_PAGE`] at once: one that always stays keeps none from it.
    fn take_over(&mut self, mut batches: Vec<StateRow>, cx: &mut Context<'_, Self>) {
        let Some(world) = self.world.upgrade() else { return };
        if self.is_resuming {
            return;
        }
        let (all, own) = (batches.len(), world.id());
        let alive: HashSet<u64> = world.worlds().iter().map(|world| world.id).collect();
        batches.retain(|row| {
            let sender = BatchId::of_key(&row.key).map_or(0, |id| id.world);
            let is_gone = !alive.contains(&sender) && world.hold_of_key(&row.key).is_some();
            sender == own || is_gone
        });
        self.unreadable.retain(|key| batches.iter().any(|row| row.key == *key));
        let (due, key) = &self.last_batch;
        let had_turn = batches.partition_point(|row| (&row.due, &row.key) <= (due, key));
        batches.rotate_left(had_turn);
        batches.truncate(BATCHES_PAGE);
        self.kept = all - batches.len();
        let Some(last) = batches.last() else { return };
        self.last_batch = (last.due, last.key.clone());
        self.is_resuming = true;
        let mut readable = Vec::new();
        for row in batches {
            match of_row(&row) {
                Ok(batch) => readable.push(batch),
                Err(problem) => self.tell_unreadable(row.key, &problem),
            }
        }
        let resumed = resume(self.states.in_spare_room(), self.desks.clone(), readable);
        cx.await_interleaved(resumed, move |watch: &mut Self, cx, gone| {
            (watch.is_resuming, watch.kept) = (false, all - gone);
            // A node that had many leaves many behind: the next ones are looked at as soon as some
            // are gone.
            let pause = if gone > 0 { Duration::ZERO } else { AGAIN };
            watch.arm(watch.now().after(pause), cx);
        });
    }

    fn tell_unreadable(&mut self, key: String, problem: &str) {
        if self.unreadable.insert(key.clone()) {
            tracing::error!(batch = key, %problem, "a batch of messages cannot be read");
        }
    }

    fn done(&mut self, cx: &mut Context<'_, Self>) {
        self.open = self.open.saturating_sub(1);
        if self.open == 0 || self.has_more {
            self.look(cx);
        }
    }

    /// Looks again at a time, or before.
    pub(crate) fn arm(&mut self, at: Time, cx: &mut Context<'_, Self>) {
        let at = at.min(self.now().after(CLOCK_CHECK));
        let mut armed = self.armed.lock();
        if self.timer.is_some() && *armed <= at {
            return;
        }
        *armed = at;
        drop(armed);
        if let Some(timer) = self.timer.take() {
            timer.cancel();
        }
        match cx.after(at.since(self.now()), |watch: &mut Self, cx| watch.fire(cx)) {
            Ok(timer) => self.timer = Some(timer),
            Err(error) => tracing::error!(%error, "journeys stop: there are no timers"),
        }
    }

    fn fire(&mut self, cx: &mut Context<'_, Self>) {
        self.timer = None;
        self.look(cx);
    }
}

/// The default lines of a user whose time has come.
struct Due {
    watch: Task<Watch>,
}

impl Request for Due {
    fn decide(&mut self, turn: &mut Turn<'_>) {
        turn.due();
    }

    fn is_own(&self) -> bool {
        true
    }

    fn is_due(&self) -> bool {
        true
    }

    fn answer(self: Box<Self>, _: Result<(), JourneyError>) {
        if self.watch.submit(Watch::done).is_err() {
            tracing::debug!("the journeys have ended");
        }
    }
}
