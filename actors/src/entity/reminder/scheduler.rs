//! The actor that delivers reminders: it checks the agenda when a reminder is due, and the store
//! periodically.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, UNIX_EPOCH};

use turnwheel_runtime::{Failure, Late, Timer, TimerError};

use super::{
    next, step, time_of, Done, DueRange, Record, ReminderId, ReminderRow, ReminderTick, Seen,
    Service, Step, Work, LOADED_MAX, PAGE_ROWS, UNDER_WAY_MAX,
};
use crate::actor::{Actor, Context, Directive, Handler};
use crate::entity::{Entities, Shared, StoreError};
use crate::request::{scope, Ambient};

/// Delivers the reminders of a system.
pub(crate) struct ReminderScheduler {
    service: Arc<Service>,
    entities: Weak<Shared>,
    /// When the agenda is looked at next, and the timer for it.
    armed: Option<(u64, Timer)>,
    /// Looks at the store that have failed in a row.
    failures: u32,
}

/// Message of the scheduler to itself; registrations also request a look at the agenda.
pub(crate) enum Command {
    /// Look at the agenda.
    Look,
    /// Look at the store.
    Refresh,
    /// A look at the store is over.
    Refreshed(Result<(), StoreError>),
    /// Some work is done, or has panicked.
    Finished { id: ReminderId, version: u64, done: Result<Done, scope::Panic> },
}

impl Actor for ReminderScheduler {
    type Error = Infallible;

    fn starting(&mut self, cx: &mut Context<'_, Self>) -> Result<(), Infallible> {
        let refresh = self.service.settings.refresh;
        let armed = cx
            .tell_after(Duration::ZERO, Command::Refresh)
            .map_err(TimerError::from)
            .and_then(|_| cx.tell_every(refresh, Late::Delay, || Command::Refresh));
        if let Err(error) = armed {
            tracing::error!(%error, "reminders of other processes are not found");
        }
        Ok(())
    }

    fn on_failure(&mut self, _: &Failure, _: &mut Context<'_, Self>) -> Directive {
        Directive::Resume
    }
}

/// Starts to tell the reminders of these entities.
pub(crate) fn start(service: &Arc<Service>, entities: &Arc<Shared>) {
    let scheduler = ReminderScheduler {
        service: Arc::clone(service),
        entities: Arc::downgrade(entities),
        armed: None,
        failures: 0,
    };
    let actor = entities.system.actor(scheduler).class("reminders").name("reminders");
    match actor.system_class().spawn() {
        Ok(address) => service.begin(address),
        Err(error) => tracing::warn!(%error, "reminders are not told"),
    }
}

impl Handler<Command> for ReminderScheduler {
    type Reply = ();

    fn handle(&mut self, command: Command, cx: &mut Context<'_, Self>) {
        match command {
            Command::Refresh => return self.refresh(cx),
            Command::Look => self.service.is_told.store(false, Ordering::Release),
            Command::Refreshed(Ok(())) => self.failures = 0,
            Command::Refreshed(Err(error)) => {
                self.failures = self.failures.saturating_add(1);
                let pause_ms = self.service.pause_ms(self.failures, u64::from(self.failures));
                tracing::warn!(%error, pause_ms, "the store of reminders was not read");
                let pause = Duration::from_millis(pause_ms);
                if let Err(error) = cx.tell_after(pause, Command::Refresh) {
                    tracing::warn!(%error, "the store of reminders is read later");
                }
            }
            Command::Finished { id, version, done } => {
                let done = done.unwrap_or_else(|panic| {
                    let failure = Failure::from_panic(panic);
                    tracing::error!(reminder = %id, %failure, "telling a reminder panicked");
                    self.service.stats.lock().failed += 1;
                    let again_ms = self.service.now_ms() + self.service.pause_ms(1, version);
                    Done::Again { record: None, again_ms }
                });
                self.service.done(&id, version, done);
            }
        }
        self.look(cx);
    }
}

impl ReminderScheduler {
    /// Delivers due reminders, and arms the timer for the next ones.
    fn look(&mut self, cx: &mut Context<'_, Self>) {
        if cx.is_closing() {
            return;
        }
        let now_ms = self.service.now_ms();
        let (due, next_ms, wants_look) = {
            let mut agenda = self.service.agenda.lock();
            let room = UNDER_WAY_MAX.saturating_sub(agenda.under_way.len());
            let due = agenda.take_due(now_ms, room);
            let is_full = agenda.under_way.len() >= UNDER_WAY_MAX;
            // Reminders that wait for room are looked at when a tick has ended.
            (due, agenda.next_ms().filter(|_| !is_full), agenda.wants_look(now_ms))
        };
        for work in due {
            let (id, version) = (work.row.id.clone(), work.row.version);
            let told = tell(Arc::clone(&self.service), Weak::clone(&self.entities), work);
            let told = scope::contained(told, Ambient::default());
            cx.pipe(told, move |done| Command::Finished { id, version, done });
        }
        self.arm(next_ms, cx);
        // A store that has failed is looked at after a pause.
        if wants_look && self.failures == 0 {
            self.refresh(cx);
        }
    }

    /// Arms the timer, unless it is armed for this time. The wall clock decides about due times, so
    /// a scheduler that wakes too early arms it again.
    fn arm(&mut self, next_ms: Option<u64>, cx: &mut Context<'_, Self>) {
        let due_since = |ms: u64| time_of(ms).duration_since(cx.group().wall());
        let is_armed = match (&self.armed, next_ms) {
            (Some((at_ms, timer)), Some(next_ms)) => *at_ms == next_ms && timer.is_pending(),
            (armed, next_ms) => armed.is_none() && next_ms.is_none(),
        };
        if is_armed {
            return;
        }
        if let Some((_, timer)) = self.armed.take() {
            timer.cancel();
        }
        let Some(next_ms) = next_ms else { return };
        let delay = due_since(next_ms).unwrap_or_default();
        match cx.tell_after(delay, Command::Look) {
            Ok(timer) => self.armed = Some((next_ms, timer)),
            Err(error) => {
                tracing::warn!(%error, "reminders are told at the next look at the store")
            }
        }
    }

    /// Looks at the store, unless it is being looked at.
    fn refresh(&mut self, cx: &mut Context<'_, Self>) {
        let until_ms = self.service.window_end_ms();
        if cx.is_closing() || !self.service.agenda.lock().begin_look(until_ms) {
            return;
        }
        let read = read(Arc::clone(&self.service), until_ms);
        let read = scope::contained(read, Ambient::default());
        let service = Arc::clone(&self.service);
        cx.pipe(read, move |read| {
            let read = read.unwrap_or_else(|panic| {
                Err(StoreError::Failed(Failure::from_panic(panic).to_string()))
            });
            let seen = read.as_ref().ok().copied();
            service.agenda.lock().end_look(seen);
            if read.is_err() {
                service.stats.lock().store_failures += 1;
            }
            Command::Refreshed(read.map(drop))
        });
    }
}

/// Loads the reminders due within the window, up to the limit; returns the extent of the look.
async fn read(service: Arc<Service>, until_ms: u64) -> Result<Seen, StoreError> {
    let mut range = DueRange::until(until_ms, PAGE_ROWS);
    let mut loaded = 0;
    while loaded < LOADED_MAX {
        let rows = service.store().list(&range).await?;
        let is_last = rows.len() < PAGE_ROWS;
        range.after = rows.last().map(|row| (row.due_ms, row.id.clone()));
        let mut agenda = service.agenda.lock();
        for row in rows {
            if service.place(&row.id.entity, &row.id.key).is_local {
                agenda.load(row);
                loaded += 1;
            }
        }
        if is_last {
            return Ok(Seen { until_ms, is_all: true });
        }
    }
    let until_ms = range.after.map_or(until_ms, |(due_ms, _)| due_ms);
    Ok(Seen { until_ms, is_all: false })
}

/// Delivers or writes a due reminder.
async fn tell(service: Arc<Service>, entities: Weak<Shared>, work: Work) -> Done {
    let Work { row, record } = work;
    if let Some(record) = record {
        return write(&service, row, record).await;
    }
    let Some(shared) = entities.upgrade() else { return Done::Gone };
    if !service.place(&row.id.entity, &row.id.key).is_local {
        return Done::Gone;
    }
    let now_ms = service.now_ms();
    let (planned_ms, skipped, is_due) = match step(&row, now_ms, service.since_ms) {
        Step::Tick { planned_ms, skipped } => (planned_ms, skipped, true),
        Step::Skip { next_ms, skipped } => (next_ms, skipped, false),
    };
    service.stats.lock().skipped += skipped;
    let skipped = row.skipped.saturating_add(skipped);
    let row = ReminderRow { planned_ms, skipped, ..row };
    if !is_due {
        let later = Record::Row(at(row.clone(), planned_ms));
        return write(&service, row, later).await;
    }
    let tick = ReminderTick {
        name: Arc::clone(&row.id.name),
        first_due: time_of(row.first_due_ms),
        period: row.period_ms.map(Duration::from_millis),
        planned: time_of(planned_ms),
        current: service.group.wall().max(UNIX_EPOCH),
        skipped,
        failures: row.failures,
    };
    let told = match service.settings.targets.get(&*row.id.entity) {
        Some(target) => {
            let limit = service.settings.tick_limit;
            (target.tell)(&Entities { shared }, &row.id.key, tick, limit).await
        }
        None => {
            service.stats.lock().unknown += 1;
            Err(Failure::Refused("no entity type of this name takes reminders here"))
        }
    };
    let record = match told {
        Ok(()) => {
            service.stats.lock().ticks += 1;
            following(&service, &row)
        }
        Err(failure) => {
            service.stats.lock().failed += 1;
            tracing::warn!(reminder = %row.id, failures = row.failures, %failure, "a tick failed");
            let failures = row.failures.saturating_add(1);
            let pause_ms = service.pause_ms(failures, row.version);
            let due_ms = service.now_ms().saturating_add(pause_ms);
            Record::Row(ReminderRow { due_ms, failures, ..row.clone() })
        }
    };
    write(&service, row, record).await
}

/// The write after a delivered tick.
fn following(service: &Service, row: &ReminderRow) -> Record {
    match next(row, row.planned_ms, service.now_ms()) {
        None => Record::End,
        Some((next_ms, skipped)) => {
            service.stats.lock().skipped += skipped;
            Record::Row(at(ReminderRow { skipped, ..row.clone() }, next_ms))
        }
    }
}

/// The row with another next occurrence.
fn at(row: ReminderRow, planned_ms: u64) -> ReminderRow {
    ReminderRow { planned_ms, due_ms: planned_ms, failures: 0, ..row }
}

/// Writes the outcome of a row.
async fn write(service: &Service, row: ReminderRow, record: Record) -> Done {
    let error = match try_write(service, &row, &record).await {
        Ok(done) => return done,
        Err(error) => error,
    };
    service.stats.lock().store_failures += 1;
    let pause_ms = service.pause_ms(1, row.version);
    tracing::warn!(reminder = %row.id, %error, pause_ms, "a reminder was not written");
    let again_ms = service.now_ms().saturating_add(pause_ms);
    Done::Again { record: Some(record), again_ms }
}

async fn try_write(
    service: &Service,
    row: &ReminderRow,
    record: &Record,
) -> Result<Done, StoreError> {
    let place = service.place(&row.id.entity, &row.id.key);
    if !place.is_local {
        return Ok(Done::Gone);
    }
    let store = service.store();
    let written = match record {
        Record::Row(now) => {
            let written = store.upsert(now, place.epoch).await;
            written.map(|version| Done::Row(ReminderRow { version, ..now.clone() }))
        }
        Record::End => store.remove(&row.id, row.version, place.epoch).await.map(|()| Done::Gone),
    };
    match written {
        Err(StoreError::Conflict { .. }) => {
            Ok(store.get(&row.id).await?.map_or(Done::Gone, Done::Row))
        }
        Err(StoreError::Fenced { .. }) => Ok(Done::Gone),
        written => written,
    }
}
