//! The task that stores the schedules of a world and launches their plans.
//!
//! A launch goes in three steps, so that a crash between any two of them neither loses nor doubles it:
//!
//! 1. The decision that it is due is written with the schedule (`Kept::going`).
//! 2. When that is durable its plan is started, with a key made of the schedule and the planned
//!    time. An existing plan with the key is the answer.
//! 3. Its outcome is written with the schedule.
//!
//! Decisions during a write are gathered for the next one. There is one timer, for the earliest
//! time of all; it also fires periodically to notice changes of the clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;
use std::time::Duration;

use turnwheel_runtime::{Context, Group, Mailbox, SpawnError, Task, Timer};

use super::decide::Decisions;
use super::entry::{Answer, Entry};
use super::error::ScheduleError;
use super::rule::Rule;
use super::serving::{Holds, Waiting};
use super::state::Kept;
use crate::error::StoreError;
use crate::id::PlanId;
use crate::journal::is_refusal;
use crate::limits::{SCHEDULES_MAX, SCHEDULE_CLOCK_CHECK};
use crate::store::{ScheduleRow, ScheduleWrite, Swap};
use crate::time::Time;
use crate::world::{Opening, Shared};

/// Requests and news that are on their way at once, at most.
const MAILBOX: u64 = 1 << 18;

/// Pause before a refusal of the store or a queue is retried.
pub(super) const AGAIN: Duration = Duration::from_secs(1);

/// The schedules of a world.
#[derive(Clone, Debug)]
pub(crate) struct Timetable {
    pub(super) task: Task<Roster>,
}

/// State of the task.
pub(crate) struct Roster {
    pub(super) world: Weak<Shared>,
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) days: BTreeSet<(Time, String)>,
    armed: Option<(Time, Timer)>,
    /// Schedules with changes that are not on their way to the store.
    pub(super) dirty: BTreeSet<String>,
    /// Plans that others are to replace, and their schedules.
    cancels: Vec<(String, PlanId)>,
    pub(super) is_writing: bool,
    /// When the clock was last read.
    seen: Time,
    /// Why nothing is launched any more: another world has the store.
    fenced: Option<StoreError>,
    /// The slots whose schedules were read, and under which epoch.
    pub(super) served: Holds,
    /// Slots of other worlds, and under which epoch, of which the table of owners here says less.
    pub(super) outdated: Holds,
    pub(super) requests: Vec<Waiting>,
    /// Whether a schedule was forgotten whose slot may have come back.
    pub(super) has_moved: bool,
}

impl std::fmt::Debug for Roster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Roster").field("entries", &self.entries).finish_non_exhaustive()
    }
}

/// A change on its way to the store.
pub(super) struct Change {
    pub(super) name: String,
    /// The version that is changed.
    pub(super) from: u64,
    pub(super) epoch: u64,
    pub(super) kept: Kept,
    pub(super) is_removal: bool,
    pub(super) answers: Vec<Answer>,
}

impl Change {
    /// Whether the change was made, if this is in the store. A version alone does not say it: the
    /// next owner of the slot may have made the same one.
    pub(super) fn is_made(&self, row: Option<&ScheduleRow>) -> bool {
        match row {
            Some(row) if !self.is_removal => {
                row.version == self.from + 1 && row.data == self.kept.encode()
            }
            row => self.is_removal && row.is_none(),
        }
    }
}

impl Timetable {
    pub(crate) fn start(world: Weak<Shared>, group: &Group) -> Result<Self, String> {
        let roster = Roster {
            world,
            entries: BTreeMap::new(),
            days: BTreeSet::new(),
            armed: None,
            dirty: BTreeSet::new(),
            cancels: Vec::new(),
            is_writing: false,
            seen: Time::default(),
            fenced: None,
            served: Holds::new(),
            outdated: Holds::new(),
            requests: Vec::new(),
            has_moved: false,
        };
        let task = group
            .task(roster)
            .name("schedules")
            .mailbox(Mailbox::bounded(MAILBOX - 1))
            .spawn()
            .map_err(|error: SpawnError<_>| error.to_string())?;
        Ok(Self { task })
    }
}

impl Roster {
    /// The time; nothing when the world is gone.
    pub(super) fn now(&self) -> Option<Time> {
        self.world.upgrade().map(|world| world.wall())
    }

    /// Whether it launches by itself.
    pub(super) fn launches(&self) -> bool {
        self.world.upgrade().is_some_and(|world| world.opening() == Opening::GoOn)
    }

    pub(super) fn found(&self, name: &str) -> Result<&Entry, ScheduleError> {
        let entry = self.entries.get(name).filter(|entry| !entry.is_removed);
        entry.ok_or_else(|| ScheduleError::Unknown(name.to_owned()))
    }

    /// The same, unless its stored bytes cannot be read: putting it again and removing it is all
    /// that can be done then.
    pub(super) fn legible(&self, name: &str) -> Result<&Entry, ScheduleError> {
        let entry = self.found(name)?;
        match &entry.damage {
            Some(error) if entry.is_damaged() => Err(ScheduleError::Store(error.clone())),
            _ => Ok(entry),
        }
    }

    /// Adds one, or puts it in the place of one that is being removed.
    pub(super) fn add(&mut self, name: &str, kept: Kept, rule: Rule) {
        let epoch = self.held(name);
        match self.entries.get_mut(name) {
            Some(entry) => {
                (entry.kept, entry.rule, entry.is_removed) = (kept, rule, false);
                entry.problem = None;
            }
            None => {
                self.entries.insert(name.to_owned(), Entry::new(kept, rule, epoch));
            }
        }
    }

    /// Whether there is room for one more.
    pub(super) fn has_room(&self) -> bool {
        self.entries.len() < SCHEDULES_MAX
    }

    /// A schedule was changed: decides what follows, and answers when that is durable.
    pub(super) fn changed(&mut self, name: &str, answer: Answer, cx: &mut Context<'_, Self>) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.answers.push(answer);
            self.dirty.insert(name.to_owned());
        }
        self.advance(name);
        self.settle(cx);
    }

    /// Decides what a schedule does next.
    pub(super) fn advance(&mut self, name: &str) {
        if !self.launches() {
            return;
        }
        let Some(world) = self.world.upgrade() else { return };
        let held = self.held(name);
        let Some(entry) = self.entries.get_mut(name) else { return };
        if entry.epoch != held {
            self.has_moved = true;
            return self.forget(name);
        }
        if let Some(at) = entry.wakes_at.take() {
            self.days.remove(&(at, name.to_owned()));
        }
        if entry.is_removed || entry.is_damaged() || !entry.unknown.is_empty() {
            return;
        }
        let before = (entry.kept.decided, entry.kept.going.len(), entry.kept.queue.len());
        let before = (before, entry.kept.counts, entry.kept.ranges.clone());
        let now = world.wall();
        let mut decisions = Decisions { name, rule: &entry.rule, kept: &mut entry.kept, now };
        let decided = decisions.advance();
        let after = (entry.kept.decided, entry.kept.going.len(), entry.kept.queue.len());
        if before != (after, entry.kept.counts, entry.kept.ranges.clone()) {
            self.dirty.insert(name.to_owned());
        }
        let cancels = decided.cancels.into_iter().filter(|plan| entry.cancelled.insert(*plan));
        self.cancels.extend(cancels.map(|plan| (name.to_owned(), plan)));
        let again = entry.again;
        self.wake_at(name, decided.wakes_at.into_iter().chain(again).min());
    }

    /// Wakes a schedule soon, because of what was refused.
    pub(super) fn try_again(&mut self, name: &str) {
        let Some(again) = self.now().map(|now| now.after(AGAIN)) else { return };
        let Some(entry) = self.entries.get_mut(name) else { return };
        entry.again = Some(again);
        let at = entry.wakes_at.map_or(again, |at| at.min(again));
        self.wake_at(name, Some(at));
    }

    fn wake_at(&mut self, name: &str, at: Option<Time>) {
        let (Some(entry), Some(at)) = (self.entries.get_mut(name), at) else { return };
        if let Some(before) = entry.wakes_at.replace(at) {
            self.days.remove(&(before, name.to_owned()));
        }
        self.days.insert((at, name.to_owned()));
    }

    /// Writes what has changed, and arms the timer.
    pub(super) fn settle(&mut self, cx: &mut Context<'_, Self>) {
        self.look_at_clock();
        for (name, plan) in std::mem::take(&mut self.cancels) {
            self.cancel(&name, plan, cx);
        }
        self.write(cx);
        self.arm(cx);
        if std::mem::take(&mut self.has_moved) {
            self.read_again();
        }
    }

    /// If the clock has gone back, every schedule decides anew.
    fn look_at_clock(&mut self) {
        let Some(now) = self.now() else { return };
        if now < self.seen {
            let names: Vec<String> = self.entries.keys().cloned().collect();
            names.iter().for_each(|name| self.advance(name));
        }
        self.seen = now;
    }

    fn write(&mut self, cx: &mut Context<'_, Self>) {
        let Some(world) = self.world.upgrade() else { return };
        if self.is_writing || self.dirty.is_empty() {
            return;
        }
        let (mut writes, mut changes) = (Vec::new(), Vec::new());
        for name in std::mem::take(&mut self.dirty) {
            let Some(entry) = self.entries.get_mut(&name) else { continue };
            let (kept, is_removal) = (entry.kept.clone(), entry.is_removed);
            debug_assert!(
                is_removal || !entry.is_damaged(),
                "its bytes are all that is left of it"
            );
            let data = (!is_removal).then(|| kept.encode());
            let (from, epoch) = (entry.version, entry.epoch);
            writes.push(ScheduleWrite { name: name.clone(), from, data, epoch });
            let answers = std::mem::take(&mut entry.answers);
            changes.push(Change { name, from, epoch, kept, is_removal, answers });
        }
        if let Some(error) = self.fenced.clone() {
            return changes.into_iter().for_each(|change| self.take_back(change, &error));
        }
        self.is_writing = true;
        let written = world.journal().write_schedules(writes);
        cx.on_completion(written, move |roster, cx, outcome| {
            let outcome = outcome.unwrap_or_else(|lost| Err(StoreError::Failed(lost.to_string())));
            roster.written(outcome, changes, cx);
        });
    }

    fn written(
        &mut self,
        outcome: Result<Vec<Swap>, StoreError>,
        changes: Vec<Change>,
        cx: &mut Context<'_, Self>,
    ) {
        self.is_writing = false;
        match outcome {
            Ok(swaps) => {
                for (change, swap) in changes.into_iter().zip(swaps) {
                    match swap {
                        Swap::Done => self.stored(change, cx),
                        Swap::Changed { .. } => self.reload(change, cx),
                        Swap::Moved { epoch } => self.has_lost(change, epoch),
                    }
                }
            }
            Err(error) => {
                tracing::error!(%error, "schedules were not stored");
                if matches!(error, StoreError::Fenced { .. }) {
                    self.fenced = Some(error.clone());
                }
                match is_refusal(&error) {
                    true => changes.into_iter().for_each(|change| self.take_back(change, &error)),
                    false => self.look_up(changes, error, cx),
                }
            }
        }
        self.settle(cx);
    }

    /// A change is durable: now its launches may begin.
    pub(super) fn stored(&mut self, change: Change, cx: &mut Context<'_, Self>) {
        let Change { name, epoch, kept, is_removal, answers, .. } = change;
        let entry = self.entries.get_mut(&name).filter(|entry| entry.epoch == epoch);
        let Some(entry) = entry else {
            // Its slot has moved since. Told that it was not made, the caller would make it twice.
            let rule = Rule::of(&kept.spec.timing).unwrap_or(Rule::Manual);
            let made = Entry::new(kept, rule, epoch);
            return answers.into_iter().for_each(|answer| answer(Ok(&made)));
        };
        entry.version = if is_removal { 0 } else { entry.version + 1 };
        entry.stored = (!is_removal).then_some(kept);
        entry.damage = None;
        for answer in answers {
            answer(Ok(entry));
        }
        if is_removal && entry.is_removed {
            for (_, waiting) in std::mem::take(&mut entry.waiting) {
                let _late = waiting.complete(Err(ScheduleError::Unknown(name.clone())));
            }
            let at = entry.wakes_at;
            self.entries.remove(&name);
            at.map(|at| self.days.remove(&(at, name)));
            return;
        }
        self.launch_all(&name, cx);
    }

    /// A change was not made: the schedule is as the store has it.
    pub(super) fn take_back(&mut self, change: Change, error: &StoreError) {
        let entry = self.entries.get_mut(&change.name);
        let Some(entry) = entry.filter(|entry| entry.epoch == change.epoch) else {
            let refused = || Err(ScheduleError::Store(error.clone()));
            return change.answers.into_iter().for_each(|answer| answer(refused()));
        };
        let answers = std::mem::take(&mut entry.answers);
        for answer in change.answers.into_iter().chain(answers) {
            answer(Err(ScheduleError::Store(error.clone())));
        }
        for (_, waiting) in std::mem::take(&mut entry.waiting) {
            let _late = waiting.complete(Err(ScheduleError::Store(error.clone())));
        }
        self.dirty.remove(&change.name);
        entry.is_removed = false;
        match &entry.stored {
            Some(stored) => {
                let again = Rule::of(&stored.spec.timing);
                entry.rule = again.unwrap_or(Rule::Manual);
                // The ends of plans are not written separately, and nobody tells them twice.
                let under_way = std::mem::replace(&mut entry.kept, stored.clone()).running;
                entry.kept.running.retain(|plan| under_way.contains(plan));
                self.try_again(&change.name);
            }
            None if entry.damage.is_some() => {
                let error = entry.damage.take().expect("it was looked at");
                *entry = Entry::damaged(entry.version, entry.epoch, error);
            }
            None => {
                let at = entry.wakes_at;
                self.entries.remove(&change.name);
                at.map(|at| self.days.remove(&(at, change.name)));
            }
        }
    }

    /// Arms the one timer for the earliest time, or for the next look at the clock.
    fn arm(&mut self, cx: &mut Context<'_, Self>) {
        let Some((at, _)) = self.days.first() else { return };
        if self.fenced.is_some() {
            return;
        }
        let at = (*at).min(self.seen.after(SCHEDULE_CLOCK_CHECK));
        if self.armed.as_ref().is_some_and(|(armed, _)| *armed <= at) {
            return;
        }
        if let Some((_, timer)) = self.armed.take() {
            timer.cancel();
        }
        match cx.after(at.since(self.seen), |roster: &mut Self, cx| roster.fire(cx)) {
            Ok(timer) => self.armed = Some((at, timer)),
            Err(error) => tracing::error!(%error, "schedules stop: there are no timers"),
        }
    }

    fn fire(&mut self, cx: &mut Context<'_, Self>) {
        self.armed = None;
        let Some(world) = self.world.upgrade() else { return };
        let now = world.wall();
        let due = self.days.iter().take_while(|(at, _)| *at <= now);
        let due: Vec<String> = due.map(|(_, name)| name.clone()).collect();
        for name in due {
            if let Some(entry) = self.entries.get_mut(&name) {
                entry.again.take_if(|again| *again <= now);
            }
            self.launch_all(&name, cx);
            self.advance(&name);
        }
        self.settle(cx);
    }
}
