//! When plans that are not in memory have to do something.
//!
//! The calendar has the earliest times of all, and all of the next minute; later ones are in the
//! rows of their plans, and are read before they come. It knows all times before
//! [`Calendar::known_until`]: a plan that leaves memory with a later one is left to its row. A
//! time that is in no row, such as that of another attempt, is less than a minute away.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use turnwheel_runtime::{
    Completer, Completion, Context, Failure, Group, Mailbox, SpawnError, SubmitErrorKind, Task,
    Timer,
};

use super::{PlanKey, Wake};
use crate::error::{not_taken, StoreError};
use crate::id::PlanId;
use crate::limits::{CLOCK_CHECK, CLOCK_LOOK};
use crate::store::Slots;
use crate::time::Time;
use crate::world::{Opening, Shared};

/// Wakes on their way at once, at most; others are tried again.
const MAILBOX: u64 = 1 << 20;

/// A plan that could not be told is told again after this time.
const AGAIN: Duration = Duration::from_millis(100);

/// Later times are read from the store so long before the first of them.
const AHEAD: Duration = CLOCK_CHECK;

/// After all times.
const NEVER: Time = Time(u64::MAX);

/// Pause between two reads of later times.
const READ_PAUSE: Duration = Duration::from_secs(1);

/// Wakes plans at their times.
#[derive(Clone, Debug)]
pub(crate) struct Wakes {
    task: Task<Calendar>,
    kept: usize,
}

#[derive(Debug)]
struct Calendar {
    world: Weak<Shared>,
    days: BTreeSet<(Time, PlanId)>,
    times: HashMap<PlanId, Time>,
    /// Times that are kept when there are too many.
    kept: usize,
    /// So many are too many.
    many: usize,
    /// All times before this one are in `days`.
    known_until: Time,
    /// The same of slots that have come while later times are being read.
    gained_until: Time,
    /// Whether later times are being read: until then all that come are kept.
    is_reading: bool,
    /// Later times are not read before this time.
    read_after: Time,
    armed: Option<(Time, Timer)>,
    /// Whether it looks at the clock again soon, because that is off.
    looks_again: bool,
}

impl Wakes {
    pub(crate) fn start(world: Weak<Shared>, group: &Group, kept: usize) -> Result<Self, String> {
        let calendar = Calendar {
            world,
            days: BTreeSet::new(),
            times: HashMap::new(),
            kept,
            many: 2 * kept,
            known_until: NEVER,
            gained_until: NEVER,
            is_reading: false,
            read_after: Time::default(),
            armed: None,
            looks_again: false,
        };
        let task = group
            .task(calendar)
            .name("plan-wakes")
            .mailbox(Mailbox::bounded(MAILBOX - 1))
            .spawn()
            .map_err(|error: SpawnError<_>| error.to_string())?;
        Ok(Self { task, kept })
    }

    /// Wakes a plan at a time, instead of the one said before.
    pub(crate) fn set(&self, plan: PlanId, at: Time) {
        let set = self.task.submit(move |calendar, cx| calendar.set(plan, at, cx));
        match set.map_err(|error| error.kind) {
            Ok(()) => {}
            // The world is ending: the time is in the plan's row.
            Err(SubmitErrorKind::Closed) => {
                tracing::debug!(%plan, "a plan wakes after the next start")
            }
            Err(kind) => {
                tracing::error!(%plan, %kind, "a plan will not wake before the next start");
            }
        }
    }

    /// Reads the earliest times of slots that the world has got.
    pub(crate) async fn learn(&self, world: &Shared, gained: Slots) -> Result<(), StoreError> {
        let (page, until) = read(world, gained, self.kept).await?;
        let learn = self.task.submit(move |calendar, cx| {
            calendar.gained_until = calendar.gained_until.min(until);
            calendar.known_until = calendar.known_until.min(until);
            calendar.take(page, cx);
        });
        learn.map_err(|error| StoreError::Failed(not_taken(error.kind)))
    }

    /// Number of times in memory.
    pub(crate) fn count(&self) -> Completion<usize> {
        self.task.call(|calendar, _| calendar.days.len())
    }

    /// Looks at the clock, and again as long as that is off; wakes plans whose times have moved.
    pub(crate) fn look_at_clock(&self) {
        if let Err(error) = self.task.submit(Calendar::look_at_clock) {
            // Plans look at the clock with each of their timers.
            tracing::warn!(kind = %error.kind, "a jump of the clock is watched less closely");
        }
    }

    /// Answers in the threads that run plans.
    pub(crate) fn pong(&self, reply: Completer<()>) {
        let heard = self.task.submit(move |_, _| {
            // The caller may have given up.
            let _late = reply.complete(());
        });
        if let Err(error) = heard {
            // The caller notices by the drop of its completer.
            tracing::debug!(kind = %error.kind, "a ping is not answered");
        }
    }
}

/// The earliest times of plans in these slots, at most so many, and until when these are all.
async fn read(
    world: &Shared,
    slots: Slots,
    limit: usize,
) -> Result<(Vec<(Time, PlanId)>, Time), StoreError> {
    let page = world.journal().read(move |reader| reader.wakes_in(&slots, NEVER, limit));
    let page = page.await.map_err(|failure: Failure| StoreError::unanswered(&failure))??;
    let last = page.last().filter(|_| page.len() >= limit);
    let until = last.map_or(NEVER, |(at, _)| *at);
    Ok((page, until))
}

/// The earliest times of all plans of a world, after all rows are written that are behind.
async fn read_later(
    world: &Shared,
    limit: usize,
) -> Result<(Vec<(Time, PlanId)>, Time), StoreError> {
    let flushed = world.journal().flush().await;
    flushed.map_err(|failure: Failure| StoreError::unanswered(&failure))??;
    read(world, world.slots(), limit).await
}

impl Calendar {
    fn set(&mut self, plan: PlanId, at: Time, cx: &mut Context<'_, Self>) {
        if let Some(before) = self.times.remove(&plan) {
            self.days.remove(&(before, plan));
        }
        if self.is_reading || at < self.known_until || at < self.always_kept() {
            self.times.insert(plan, at);
            self.days.insert((at, plan));
            self.leave_later();
        }
        self.arm(cx);
    }

    /// Takes times that were read. A row may be older than what was set: the earlier time counts.
    fn take(&mut self, page: Vec<(Time, PlanId)>, cx: &mut Context<'_, Self>) {
        for (at, plan) in page {
            if self.times.get(&plan).is_some_and(|known| *known <= at) {
                continue;
            }
            if let Some(before) = self.times.insert(plan, at) {
                self.days.remove(&(before, plan));
            }
            self.days.insert((at, plan));
        }
        self.leave_later();
        self.arm(cx);
    }

    /// Leaves the later times to the rows if there are too many.
    fn leave_later(&mut self) {
        if self.is_reading || self.days.len() < self.many {
            return;
        }
        let world = self.world.upgrade();
        if !world.is_some_and(|world| world.opening() == Opening::GoOn) {
            // Plans of its store that nobody has asked for must stay as they are.
            return;
        }
        let Some((first, _)) = self.days.iter().nth(self.kept).copied() else { return };
        let first = first.max(self.always_kept());
        let later = self.days.split_off(&(first, PlanId::from_bytes([0; 16])));
        for (_, plan) in later {
            self.times.remove(&plan);
        }
        self.known_until = self.known_until.min(first);
        self.many = 2 * self.days.len().max(self.kept);
    }

    /// Times before this one are kept, however many there are.
    fn always_kept(&self) -> Time {
        self.world.upgrade().map_or(NEVER, |world| world.now().after(AHEAD))
    }

    /// When later times have to be read.
    fn reads_at(&self) -> Option<Time> {
        let is_due = self.known_until < NEVER && !self.is_reading;
        let ahead = u64::try_from(AHEAD.as_micros()).unwrap_or(u64::MAX);
        is_due.then(|| Time(self.known_until.0.saturating_sub(ahead)).max(self.read_after))
    }

    /// Reads later times.
    fn read_later(&mut self, world: Arc<Shared>, now: Time, cx: &mut Context<'_, Self>) {
        self.is_reading = true;
        self.read_after = now.after(READ_PAUSE);
        self.gained_until = NEVER;
        let kept = self.kept;
        let later = async move { read_later(&world, kept).await };
        cx.await_interleaved(later, |calendar, cx, later| calendar.has_read(later, cx));
    }

    fn has_read(
        &mut self,
        later: Result<(Vec<(Time, PlanId)>, Time), StoreError>,
        cx: &mut Context<'_, Self>,
    ) {
        self.is_reading = false;
        match later {
            Ok((page, until)) => {
                self.known_until = until.min(self.gained_until);
                self.take(page, cx);
            }
            Err(error) => {
                tracing::warn!(%error, "later times of plans cannot be read yet");
                self.arm(cx);
            }
        }
    }

    /// Arms the one timer for the earliest time.
    fn arm(&mut self, cx: &mut Context<'_, Self>) {
        let first = self.days.first().map(|(at, _)| *at);
        let Some(at) = first.into_iter().chain(self.reads_at()).min() else { return };
        if self.armed.as_ref().is_some_and(|(armed, _)| *armed <= at) {
            return;
        }
        let Some(world) = self.world.upgrade() else { return };
        if let Some((_, timer)) = self.armed.take() {
            timer.cancel();
        }
        // The clock may be set: it is checked again before a long time is over.
        let delay = at.since(world.now()).min(CLOCK_CHECK);
        match cx.after(delay, |calendar: &mut Self, cx| calendar.fire(cx)) {
            Ok(timer) => self.armed = Some((at, timer)),
            Err(error) => tracing::error!(%error, "plans that sleep cannot be woken"),
        }
    }

    fn look_at_clock(&mut self, cx: &mut Context<'_, Self>) {
        let Some(world) = self.world.upgrade() else { return };
        // The clock notices what has become of the jump.
        let _of_plans = world.now();
        for plan in world.clock().take_to_wake() {
            self.set(plan, Time::default(), cx);
        }
        if self.looks_again || !world.clock().is_off() {
            return;
        }
        let again = cx.after(CLOCK_LOOK, |calendar: &mut Self, cx| {
            calendar.looks_again = false;
            calendar.look_at_clock(cx);
        });
        match again {
            Ok(_) => self.looks_again = true,
            Err(error) => tracing::warn!(%error, "a jump of the clock is watched less closely"),
        }
    }

    fn fire(&mut self, cx: &mut Context<'_, Self>) {
        self.armed = None;
        let Some(world) = self.world.upgrade() else { return };
        let now = world.now();
        while let Some((at, plan)) = self.days.first().copied() {
            if at > now {
                break;
            }
            self.days.pop_first();
            self.times.remove(&plan);
            if !world.owns(plan) {
                continue;
            }
            let key = PlanKey::new(&world, plan);
            if world.plans().get::<super::PlanActor>(key).tell(Wake).is_err() {
                let again = now.after(AGAIN);
                self.times.insert(plan, again);
                self.days.insert((again, plan));
            }
        }
        if self.reads_at().is_some_and(|at| at <= now) {
            self.read_later(world, now, cx);
        }
        self.arm(cx);
    }
}
