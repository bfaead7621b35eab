//! Reminders of a system: their settings, and data shared by registration and delivery.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::{Backoff, Completion, Group};

use super::{
    passed_ms, whole_ms, Agenda, Command, Done, ReminderId, ReminderRow, ReminderScheduler,
    ReminderStore, ReminderTick, RemindersError, Target, TickReply, PERIOD_MIN_DEFAULT,
    REFRESH_DEFAULT, RETRY_CAP, RETRY_FIRST, TICK_LIMIT_DEFAULT, WINDOW_DEFAULT,
};
use crate::actor::{Address, MessageFor};
use crate::entity::{Entity, Ownership, Placement};
use crate::request::RequestContext;

/// The reminders of the entities of a system, ready to be given to
/// [`EntitiesBuilder::reminders`](crate::EntitiesBuilder::reminders).
#[derive(Clone, Debug)]
pub struct Reminders {
    pub(super) settings: Arc<Settings>,
}

pub(super) struct Settings {
    pub(super) store: Arc<dyn ReminderStore>,
    pub(super) targets: HashMap<&'static str, Target>,
    pub(super) window: Duration,
    pub(super) refresh: Duration,
    pub(super) period_min: Duration,
    pub(super) tick_limit: Duration,
    pub(super) retry: Backoff,
}

debug_fields!(impl Settings, self =>
    window: self.window,
    refresh: self.refresh,
    period_min: self.period_min,
    store: self.store);

impl Reminders {
    /// Describes reminders that are kept in this store; every value has a default.
    pub fn builder(store: Arc<dyn ReminderStore>) -> RemindersBuilder {
        let settings = Settings {
            store,
            targets: HashMap::new(),
            window: WINDOW_DEFAULT,
            refresh: REFRESH_DEFAULT,
            period_min: PERIOD_MIN_DEFAULT,
            tick_limit: TICK_LIMIT_DEFAULT,
            retry: Backoff::exponential(RETRY_FIRST, RETRY_CAP).jitter_percent(25),
        };
        RemindersBuilder { settings, problem: None }
    }
}

/// Describes reminders.
#[must_use]
pub struct RemindersBuilder {
    settings: Settings,
    problem: Option<RemindersError>,
}

debug_fields!(impl RemindersBuilder, self => settings: self.settings);

impl RemindersBuilder {
    /// A type of entities that takes reminders, which are stored under its [`NAME`](Entity::NAME).
    /// Its second parameter is inferred: `entity::<Account, _>()`.
    pub fn entity<E: Entity, K: 'static>(mut self) -> Self
    where
        ReminderTick: MessageFor<E, K, Reply: TickReply>,
    {
        let target = Target::of::<E, K>();
        let (name, type_name) = (target.name, target.type_name);
        if name.is_empty() {
            self.problem.get_or_insert(RemindersError::Unnamed { type_name });
        }
        let former = self.settings.targets.insert(name, target);
        if former.is_some_and(|former| former.type_name != type_name) {
            self.problem.get_or_insert(RemindersError::SameName { name });
        }
        self
    }

    setters! {
        /// Time ahead for which reminders are loaded from the store; at least the time between two
        /// looks at it.
        window(self, window: Duration) => self.settings.window = window;

        /// Time between two looks at the store, which find registrations of other processes, and
        /// reminders made due by a jump of the wall clock.
        refresh(self, refresh: Duration) => self.settings.refresh = refresh;

        /// The shortest period; for more frequent ticks there are timers.
        period_min(self, period: Duration) => self.settings.period_min = period;

        /// Time limit of a tick, after which it counts as failed and is repeated.
        tick_limit(self, limit: Duration) => self.settings.tick_limit = limit;

        /// The pauses after failed attempts, of a tick or of the store.
        retry(self, backoff: Backoff) => self.settings.retry = backoff;
    }

    /// Checks the description.
    ///
    /// # Errors
    ///
    /// [`RemindersError`] names the invalid setting.
    pub fn build(self) -> Result<Reminders, RemindersError> {
        let Self { settings, problem } = self;
        let times = [
            (settings.window, "the window"),
            (settings.refresh, "the time between two looks at the store"),
            (settings.period_min, "the shortest period"),
        ];
        if let Some((_, what)) = times.into_iter().find(|(time, _)| time.is_zero()) {
            return Err(RemindersError::Zero { what });
        }
        let Settings { window, refresh, .. } = settings;
        if window < refresh {
            return Err(RemindersError::WindowTooShort { window, refresh });
        }
        problem.map_or_else(|| Ok(Reminders { settings: Arc::new(settings) }), Err)
    }
}

/// Counts of the reminders of a system since it was built, and their number in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReminderStats {
    /// Delivered ticks.
    pub ticks: u64,
    /// Failed attempts of ticks, which are repeated.
    pub failed: u64,
    /// Failed ones whose type of entity is unknown here.
    pub unknown: u64,
    /// Occurrences that were left out.
    pub skipped: u64,
    /// Reads and writes that the store has failed.
    pub store_failures: u64,
    /// Reminders that are in memory, since they are due soon.
    pub loaded: usize,
    /// Ticks under way.
    pub under_way: usize,
}

/// State that registration and delivery share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(super) settings: Arc<Settings>,
    pub(super) group: Group,
    pub(super) placement: Arc<dyn Placement>,
    /// Time from which on this process delivers reminders.
    pub(super) since_ms: u64,
    pub(super) agenda: Mutex<Agenda>,
    /// Without the counts of the agenda.
    pub(super) stats: Mutex<ReminderStats>,
    scheduler: OnceLock<Address<ReminderScheduler>>,
    /// A look at the agenda is on its way to the scheduler.
    pub(super) is_told: AtomicBool,
}

impl Service {
    pub(crate) fn new(reminders: &Reminders, group: &Group, placing: &Arc<dyn Placement>) -> Self {
        Self {
            settings: Arc::clone(&reminders.settings),
            group: group.clone(),
            placement: Arc::clone(placing),
            since_ms: passed_ms(group.wall()),
            agenda: Mutex::default(),
            stats: Mutex::default(),
            scheduler: OnceLock::new(),
            is_told: AtomicBool::new(false),
        }
    }

    pub(super) fn begin(&self, scheduler: Address<ReminderScheduler>) {
        // Set once, by the thread that spawned it.
        let _ = self.scheduler.set(scheduler);
    }

    /// Ends it: current ticks are delivered to their end.
    pub(crate) fn end(&self) -> Completion<()> {
        self.scheduler.get().map_or_else(|| Completion::done(()), Address::close)
    }

    pub(super) fn store(&self) -> &dyn ReminderStore {
        &*self.settings.store
    }

    pub(super) fn place(&self, entity: &str, key: &str) -> Ownership {
        self.placement.place(entity, key)
    }

    /// Milliseconds of wall time that have passed.
    pub(super) fn now_ms(&self) -> u64 {
        passed_ms(self.group.wall())
    }

    /// The end of the window that begins now.
    pub(super) fn window_end_ms(&self) -> u64 {
        let window_ms = whole_ms(self.settings.window).unwrap_or(u64::MAX);
        self.now_ms().saturating_add(window_ms)
    }

    /// The pause after so many failures in a row.
    pub(super) fn pause_ms(&self, failures: u32, seed: u64) -> u64 {
        // Long before so many the pause has reached its cap.
        let count = failures.clamp(1, 64) as usize;
        let pause = self.settings.retry.delays(seed).nth(count - 1).unwrap_or_default();
        whole_ms(pause).unwrap_or(u64::MAX).max(1)
    }

    /// Stores a row that was just registered.
    pub(super) fn put(&self, row: ReminderRow) {
        let until_ms = self.window_end_ms();
        {
            let mut agenda = self.agenda.lock();
            agenda.reach(until_ms);
            agenda.put(row);
        }
        self.tell();
    }

    /// Stores the outcome of work on a row that had this version.
    pub(super) fn done(&self, id: &ReminderId, version: u64, done: Done) {
        let until_ms = self.window_end_ms();
        let mut agenda = self.agenda.lock();
        agenda.reach(until_ms);
        agenda.done(id, version, done);
    }

    /// Sees to it that the scheduler looks at the agenda.
    fn tell(&self) {
        let Some(scheduler) = self.scheduler.get() else { return };
        if self.is_told.swap(true, Ordering::AcqRel) {
            return;
        }
        // Without the caller's request context, which does not concern other reminders.
        if RequestContext::new().scope(|| scheduler.tell(Command::Look).is_err()) {
            // The group shuts down or has no memory for messages; the next look at the store is by
            // timer.
            self.is_told.store(false, Ordering::Release);
        }
    }

    pub(crate) fn stats(&self) -> ReminderStats {
        let (loaded, under_way) = {
            let agenda = self.agenda.lock();
            (agenda.len(), agenda.under_way.len())
        };
        ReminderStats { loaded, under_way, ..*self.stats.lock() }
    }
}
