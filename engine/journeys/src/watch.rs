//! The task that finds users whose time has come.
//!
//! It looks at the index of due times, gives what it finds to the desks, and sleeps until the
//! earliest time that is left. In memory is that one time, whatever the number of users.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use turnwheel_actors::entity::StoreError;
use turnwheel_engine::store::{StateRow, StateScan};
use turnwheel_engine::{Time, TimedStates};
use turnwheel_runtime::{Context, Group, Task, Timer};

use crate::desk::{Desk, Request, USER};
use crate::error::JourneyError;
use crate::journeys::desk_of;
use crate::limits::{AGAIN, CLOCK_CHECK, DUE_PAGE};
use crate::walk::Turn;

/// The end of time, as stores have it.
const NEVER: Time = Time(i64::MAX as u64);

/// When the next look is: writers of earlier times say so.
pub(crate) type Armed = Arc<Mutex<Time>>;

pub(crate) struct Watch {
    pub(crate) group: Group,
    pub(crate) states: TimedStates,
    pub(crate) desks: Vec<Task<Desk>>,
    pub(crate) armed: Armed,
    pub(crate) timer: Option<Timer>,
    /// Users of the last look: those that are still due are busy, or their write has failed.
    pub(crate) looked: HashSet<(String, Time)>,
    pub(crate) open: usize,
    pub(crate) is_looking: bool,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Watch {
    fn now(&self) -> Time {
        self.group.wall().into()
    }

    /// Looks at what is due, unless a look is under way.
    pub(crate) fn look(&mut self, cx: &mut Context<'_, Self>) {
        if self.is_looking || self.open > 0 {
            return;
        }
        self.is_looking = true;
        // Every write says its due time from here on.
        *self.armed.lock() = NEVER;
        if let Some(timer) = self.timer.take() {
            timer.cancel();
        }
        let (states, now) = (self.states.clone(), self.now());
        let limit = DUE_PAGE + self.looked.len();
        let read = async move {
            let due = states.list(USER, StateScan::Due(now), limit).await?;
            let next = match due.is_empty() {
                true => states.list(USER, StateScan::Due(NEVER), 1).await?,
                false => Vec::new(),
            };
            Ok((due, next))
        };
        cx.await_interleaved(read, |watch: &mut Self, cx, read| watch.seen(read, cx));
    }

    fn seen(
        &mut self,
        read: Result<(Vec<StateRow>, Vec<StateRow>), StoreError>,
        cx: &mut Context<'_, Self>,
    ) {
        self.is_looking = false;
        let (due, next) = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(%error, "due users cannot be read");
                return self.arm(self.now().after(AGAIN), cx);
            }
        };
        let place = |row: &StateRow| Some((row.key.clone(), row.due?));
        let found: HashSet<(String, Time)> = due.iter().filter_map(place).collect();
        let new = found.difference(&self.looked);
        let mut new: Vec<(String, Time)> = new.cloned().collect();
        new.sort_by(|one, other| (one.1, &one.0).cmp(&(other.1, &other.0)));
        self.looked = found;
        if new.is_empty() {
            // What is left is under way: it is looked at again, from the begin.
            let is_busy = !self.looked.is_empty();
            self.looked.clear();
            let next = next.first().and_then(|row| row.due);
            let next = if is_busy { Some(self.now().after(AGAIN)) } else { next };
            return next.into_iter().for_each(|at| self.arm(at, cx));
        }
        self.open = new.len();
        let me = cx.task();
        for (key, _) in new {
            let of = desk_of(&key, self.desks.len());
            let request = Box::new(Due { watch: me.clone() });
            let given = self.desks[of].submit(move |desk, cx| desk.take(key, request, cx));
            if given.is_err() {
                self.open -= 1;
            }
        }
        if self.open == 0 {
            self.arm(self.now().after(AGAIN), cx);
        }
    }

    fn done(&mut self, cx: &mut Context<'_, Self>) {
        self.open = self.open.saturating_sub(1);
        if self.open == 0 {
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

    fn answer(self: Box<Self>, _: Result<(), JourneyError>) {
        if self.watch.submit(Watch::done).is_err() {
            tracing::debug!("the journeys have ended");
        }
    }
}
