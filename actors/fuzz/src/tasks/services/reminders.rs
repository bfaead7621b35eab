//! Reminders: a registered one is told, at its time or later, once for each time, until it is
//! removed.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use turnwheel_actors::entity::reminder::{
    MemoryReminders, Reminder, ReminderTick, Reminders, Schedule,
};
use turnwheel_actors::{Context, Handler};

use super::stored::Keeper;
use crate::kind::Kind;
use crate::program::Act;
use crate::run::Twin;
use crate::tasks::world::{group, violation, with, World};

const KEYS: u8 = 3;
/// Delays of reminders.
const DELAYS_MS: [u64; 4] = [1, 2, 5, 20];
/// Times are whole milliseconds, and a tick is told by way of the store.
const SLACK_NS: u64 = 5_000_000;

#[derive(Debug, Default)]
pub(super) struct Model {
    all: Vec<ReminderModel>,
}

#[derive(Debug)]
struct ReminderModel {
    key: u64,
    is_periodic: bool,
    /// The first time, by the clock of timers.
    due_ns: u64,
    handle: Option<Reminder>,
    is_removed: bool,
    ticks: u32,
    last: Option<SystemTime>,
}

/// The reminders of a program, in a store of its own.
pub(super) fn service() -> Option<Reminders> {
    let builder = Reminders::builder(Arc::new(MemoryReminders::new()));
    let builder = builder.entity::<Keeper, _>().period_min(Duration::from_millis(1));
    builder.build().ok()
}

pub(super) fn perform(act: &Act) {
    match act.kind {
        Kind::Remind => register(act),
        _ => remove(),
    }
}

fn register(act: &Act) {
    let Some(entities) = with(|world| world.actors.entities.clone()) else { return };
    let Some(group) = group().filter(|_| !with(|world| world.is_ending)) else { return };
    let key = u64::from(act.a % KEYS);
    let delay = Duration::from_millis(DELAYS_MS[usize::from(act.b) % DELAYS_MS.len()]);
    let is_periodic = act.b / 4 % 3 == 0;
    let due_ns = group.now_ns() + delay.as_nanos() as u64;
    let number = with(|world| {
        world.services.reminders.all.push(ReminderModel {
            key,
            is_periodic,
            due_ns,
            handle: None,
            is_removed: false,
            ticks: 0,
            last: None,
        });
        world.services.reminders.all.len() - 1
    });
    let schedule = match is_periodic {
        true => Schedule::every(Duration::from_millis(20)).first(delay),
        false => Schedule::once(delay),
    };
    let reminders = entities.get::<Keeper>(key).reminders();
    let is_lost = with(|world| world.twin) == Some(Twin::LosesReminders);
    perform_later(async move {
        let name = format!("reminder-{number}");
        let done = reminders.register(&name, schedule).await;
        if is_lost {
            // The store forgets it at once.
            if let Ok(reminder) = &done {
                let _ = reminders.unregister(reminder).await;
            }
        }
        with(|world| {
            if let Some(model) = world.services.reminders.all.get_mut(number) {
                model.handle = done.ok();
            }
        });
    });
}

fn remove() {
    let Some(entities) = with(|world| world.actors.entities.clone()) else { return };
    let chosen = with(|world| {
        let all = &mut world.services.reminders.all;
        let number = all.iter().rposition(|model| model.handle.is_some())?;
        Some((number, all[number].key, all[number].handle.take()?))
    });
    let Some((number, key, reminder)) = chosen else { return };
    let reminders = entities.get::<Keeper>(key).reminders();
    perform_later(async move {
        let removed = reminders.unregister(&reminder).await;
        with(|world| {
            if let Some(model) = world.services.reminders.all.get_mut(number) {
                model.is_removed = removed.is_ok();
            }
        });
    });
}

/// Runs a future in a task of its own.
fn perform_later(future: impl std::future::Future<Output = ()> + Send + 'static) {
    let Some(task) = group().and_then(|group| group.task(()).spawn().ok()) else { return };
    let begun = task.submit(move |(), cx| {
        cx.await_holding(future, |(), _, ()| {});
    });
    drop(begun);
}

impl Handler<ReminderTick> for Keeper {
    type Reply = ();

    fn handle(&mut self, tick: ReminderTick, _: &mut Context<'_, Self>) {
        let (wall, now_ns) =
            group().map_or((SystemTime::UNIX_EPOCH, 0), |group| (group.wall(), group.now_ns()));
        if wall < tick.planned {
            violation(format!("a reminder is early: {tick:?}, it is {wall:?}"));
        }
        with(|world| world.reminded(&tick, now_ns));
    }
}

pub(super) fn give_up() {
    let reminders = with(|world| std::mem::take(&mut world.services.reminders));
    drop(reminders);
}

impl World {
    fn reminded(&mut self, tick: &ReminderTick, now_ns: u64) {
        let number = tick.name.strip_prefix("reminder-").and_then(|text| text.parse().ok());
        let Some(number) = number.filter(|at: &usize| *at < self.services.reminders.all.len())
        else {
            // Of a program that is over: its registrations have been given up.
            return;
        };
        let model = &mut self.services.reminders.all[number];
        model.ticks += 1;
        let before = model.last.replace(tick.planned);
        let is_early = now_ns + 1_000_000 < model.due_ns;
        let is_again = before.is_some_and(|before| before >= tick.planned);
        let is_over = model.ticks > 1 && !model.is_periodic;
        // A tick whose outcome was not written before its key moved is told again.
        let is_told_again = (is_again || is_over) && !self.services.placed.has_moved(model.key);
        if is_early || is_told_again {
            let text = format!("reminder {number} ticks at {now_ns}: {model:?}, before {before:?}");
            self.violation(text);
        }
    }

    /// Reminders whose time has come were told.
    pub(super) fn check_reminders(&mut self, now_ns: u64) {
        let mut found = Vec::new();
        for (number, model) in self.services.reminders.all.iter().enumerate() {
            let is_here = !self.services.placed.has_moved(model.key);
            let is_registered =
                model.handle.is_some() && is_here && !self.is_tight && !self.is_ending;
            if is_registered && model.ticks == 0 && model.due_ns + SLACK_NS <= now_ns {
                found.push(format!("idle, and reminder {number} was not told: {model:?}"));
            }
        }
        found.into_iter().for_each(|text| self.violation(text));
    }
}
