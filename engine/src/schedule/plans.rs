//! The plans of schedules: their begin and end.

use std::sync::Arc;
use std::time::Duration;

use turnwheel_runtime::Context;

use super::error::ScheduleError;
use super::launch::{Due, Outcome};
use super::state::Kept;
use super::timetable::{Roster, AGAIN};
use crate::error::{PlanError, TriggerError};
use crate::id::PlanId;
use crate::plan::{Created, PlanState, Record};
use crate::world::{Shared, Triggering, World};

/// The longest pause between two looks at a plan that cannot be seen.
const AGAIN_MAX: Duration = Duration::from_secs(60);

impl Roster {
    /// Begins the plans of all launches that are durable and not begun.
    pub(super) fn launch_all(&mut self, name: &str, cx: &mut Context<'_, Self>) {
        let Some(world) = self.world.upgrade() else { return };
        let Some(entry) = self.entries.get_mut(name) else { return };
        let Some(stored) = &entry.stored else { return };
        for due in &stored.going {
            if !entry.kept.going.contains(due) || !entry.flying.insert(*due) {
                continue;
            }
            let begun = launch(&world, name, *due, stored);
            let (name, due) = (name.to_owned(), *due);
            cx.await_interleaved(begun, move |roster, cx, outcome| {
                roster.launched(&name, due, outcome.map(|plan| plan.id()), cx);
            });
        }
    }

    pub(super) fn launched(
        &mut self,
        name: &str,
        due: Due,
        outcome: Result<PlanId, TriggerError>,
        cx: &mut Context<'_, Self>,
    ) {
        let Some(world) = self.world.upgrade() else { return };
        let now = world.wall();
        let Some(entry) = self.entries.get_mut(name) else { return };
        entry.flying.remove(&due);
        match outcome {
            Ok(plan) => {
                entry.kept.ended(due, now, Outcome::Launched(plan));
                entry.waiting.remove(&due).map(|waiting| waiting.complete(Ok(plan)));
                self.dirty.insert(name.to_owned());
                self.watch(name, plan, cx);
                self.advance(name);
            }
            Err(TriggerError::Store(_) | TriggerError::Refused(_)) => {
                // Nobody knows whether the plan is there; the next try, with the same key, finds it.
                self.try_again(name);
            }
            Err(error) => {
                tracing::error!(schedule = name, %error, "a schedule cannot launch its action");
                entry.kept.ended(due, now, Outcome::Failed(error.to_string()));
                let name_of = name.to_owned();
                let failed = ScheduleError::Launch { name: name_of, error };
                entry.waiting.remove(&due).map(|waiting| waiting.complete(Err(failed)));
                self.dirty.insert(name.to_owned());
                self.advance(name);
            }
        }
        self.settle(cx);
    }

    /// Looks whether a plan that ran when the schedule was stored still does.
    pub(super) fn look_at(&mut self, name: &str, plan: PlanId, cx: &mut Context<'_, Self>) {
        let Some(world) = self.world.upgrade() else { return };
        let Some(entry) = self.entries.get_mut(name) else { return };
        entry.unknown.insert(plan);
        let (view, name) = (World::of(&world).plan(plan).view(), name.to_owned());
        cx.await_interleaved(view, move |roster, cx, outcome| {
            if let Some(entry) = roster.entries.get_mut(&name) {
                entry.unknown.remove(&plan);
            }
            match outcome {
                Ok(view) if !matches!(view.state, PlanState::Stopped | PlanState::Paused) => {
                    roster.watch(&name, plan, cx);
                    roster.advance(&name);
                    roster.settle(cx);
                }
                Ok(_) => roster.over(&name, plan, cx),
                Err(error) => roster.unseen(&name, plan, &error, cx),
            }
        });
    }

    /// A plan could not be read. It is over only if it does not exist any more; else it counts as
    /// running, and is read again later.
    fn unseen(&mut self, name: &str, plan: PlanId, error: &PlanError, cx: &mut Context<'_, Self>) {
        if matches!(error, PlanError::Unknown(_)) {
            tracing::warn!(schedule = name, %plan, "a plan of a schedule is not there any more");
            return self.over(name, plan, cx);
        }
        let Some(entry) = self.entries.get_mut(name) else { return };
        // Nothing is decided before it is known.
        entry.unknown.insert(plan);
        let looks = entry.looks.entry(plan).or_default();
        let pause = AGAIN.saturating_mul(1 << (*looks).min(6)).min(AGAIN_MAX);
        *looks += 1;
        tracing::warn!(schedule = name, %plan, %error, ?pause, "a plan of a schedule is not seen");
        let name = name.to_owned();
        let armed = cx.after(pause, move |roster: &mut Self, cx| {
            if roster.entries.get(&name).is_some_and(|entry| entry.unknown.contains(&plan)) {
                roster.look_at(&name, plan, cx);
            }
        });
        if let Err(error) = armed {
            tracing::error!(%error, "a schedule stops: there are no timers");
        }
    }

    /// Waits for the end of a plan.
    pub(super) fn watch(&mut self, name: &str, plan: PlanId, cx: &mut Context<'_, Self>) {
        let Some(world) = self.world.upgrade() else { return };
        let (finished, name) = (World::of(&world).plan(plan).finished(), name.to_owned());
        cx.await_interleaved(finished, move |roster, cx, outcome| match outcome {
            Ok(_) => roster.over(&name, plan, cx),
            Err(error) => roster.unseen(&name, plan, &error, cx),
        });
    }

    /// Cancels a plan in whose place another one is to begin.
    pub(super) fn cancel(&mut self, name: &str, plan: PlanId, cx: &mut Context<'_, Self>) {
        let Some(world) = self.world.upgrade() else { return };
        let asked = World::of(&world).plan(plan).cancel(&format!("schedule {name}"));
        let name = name.to_owned();
        cx.await_interleaved(asked, move |roster, cx, outcome| {
            let problem = match outcome {
                // Its end is told to the schedule.
                Ok(Ok(()) | Err(PlanError::State { .. } | PlanError::Unknown(_))) => return,
                Ok(Err(error)) => error.to_string(),
                Err(failure) => failure.to_string(),
            };
            tracing::warn!(schedule = name, %plan, problem, "a plan is cancelled again soon");
            if let Some(entry) = roster.entries.get_mut(&name) {
                entry.cancelled.remove(&plan);
            }
            roster.try_again(&name);
            roster.settle(cx);
        });
    }

    fn over(&mut self, name: &str, plan: PlanId, cx: &mut Context<'_, Self>) {
        let Some(now) = self.now() else { return };
        let Some(entry) = self.entries.get_mut(name) else { return };
        // Not written separately: a start reads the plan anyway.
        entry.kept.running.retain(|running| *running != plan);
        entry.cancelled.remove(&plan);
        entry.looks.remove(&plan);
        if entry.rule.follows_ends() {
            // The pause begins.
            entry.kept.decided = now.max(entry.kept.decided);
        }
        self.advance(name);
        self.settle(cx);
    }
}

/// Starts the plan of a launch, unless a plan has its key. It is planned by its own actor once it
/// is durable: an action with a long planning delays no other schedule.
fn launch(world: &Arc<Shared>, schedule: &str, due: Due, kept: &Kept) -> Triggering {
    let (at, spec) = (world.wall(), &kept.spec);
    let by = kept.launcher(schedule, due);
    let action = world.registry().find(&spec.action);
    let own = action.and_then(|action| action.scheduled(&spec.input).ok()).unwrap_or_default();
    let of_schedule = [
        ("schedule".to_owned(), schedule.to_owned()),
        ("planned".to_owned(), due.planned.to_string()),
    ];
    let created = Created {
        at,
        action: spec.action.clone(),
        input: spec.input.clone(),
        caller: None,
        lineage: Vec::new(),
        key: Some(due.key(schedule)),
        labels: own.into_iter().chain(of_schedule).collect(),
        by: by.clone(),
        priority: action.and_then(|action| action.priority()).unwrap_or(0),
        deadline: None,
        trace: None,
    };
    let delayed = Record::Delayed {
        at,
        start_at: None,
        start_before: None,
        after: Vec::new(),
        is_frozen: false,
        by,
    };
    World::of(world).begin_later(created, delayed)
}
