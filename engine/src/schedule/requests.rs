//! Requests about the schedules of a world.

use std::collections::btree_map::Entry::Vacant;
use std::fmt;

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion, Context};

use super::elsewhere::ScheduleRequest;
use super::entry::{Answer, Entry};
use super::error::ScheduleError;
use super::expected::Expected;
use super::launch::{number_of_key, Due, Occasion};
use super::rule::Rule;
use super::serving::Of;
use super::state::{Kept, Paused, Range, Spec};
use super::timetable::Roster;
use super::view::ScheduleView;
use super::Schedule;
use crate::error::{cut, not_taken, unanswered};
use crate::id::PlanId;
use crate::limits::{
    REASON_BYTES_MAX, SCHEDULE_BACKFILL_MAX, SCHEDULE_RANGES_MAX, SCHEDULE_RUNNING_MAX,
};
use crate::time::Time;
use crate::world::{Opening, World};

type Reply<T> = Completer<Result<T, ScheduleError>>;

/// Text given by a person, cut to the length that rows may hold.
fn said(text: &str) -> String {
    cut(text.to_owned(), REASON_BYTES_MAX)
}

/// Answer to a request: comes when its consequences are durable.
pub(super) type Asked<T> = Completion<Result<T, ScheduleError>>;

/// The schedules of a world; see [`World::schedules`].
///
/// Requests are handled in order. The answer comes when its consequences are durable: await it, or
/// wait for it off the workers. Cost: a message to one task, and for changes a commit that is
/// shared with those of other schedules.
///
/// ```
/// use turnwheel_engine::schedule::{CatchUp, Overlap, Schedule};
/// use turnwheel_engine::{
///     Action, ActionError, MemoryStore, Next, Run, Runs, StepContext, World,
/// };
///
/// struct Report;
/// impl Action for Report {
///     const NAME: &'static str = "report";
///     type Input = String;
///     type Output = ();
///     type Phases = Runs;
/// }
/// impl Run for Report {
///     fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
///         Ok(Next::Done)
///     }
/// }
///
/// let world = World::builder().action(Report).build(MemoryStore::new())?;
/// let nightly = Schedule::cron("nightly", "0 3 * * *")?
///     .zone("Europe/Berlin")
///     .overlap(Overlap::Queue)
///     .catch_up(CatchUp::Latest)
///     .action::<Report>(&"sales".to_owned())?;
/// let view = world.schedules().put(nightly).wait()??;
/// assert!(view.next.is_some());
/// assert_eq!(world.schedules().next("nightly", 7).wait()??.len(), 7);
///
/// let plan = world.schedules().trigger_now("nightly", "eva").wait()??;
/// assert!(world.plan(plan).finished().wait()?.created.by.starts_with("eva"));
/// world.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Schedules<'a> {
    world: &'a World,
    expected: Expected,
}

impl fmt::Debug for Schedules<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schedules").finish_non_exhaustive()
    }
}

impl<'a> Schedules<'a> {
    pub(crate) fn new(world: &'a World) -> Self {
        Self { world, expected: Expected::Any }
    }

    /// The same, with changes only of schedules that are in this state when their change is
    /// decided: for [`put`](Self::put), [`pause`](Self::pause), [`unpause`](Self::unpause) and
    /// [`remove`](Self::remove). Others fail with [`ScheduleError::Edited`].
    #[must_use]
    pub fn expecting(self, expected: Expected) -> Self {
        Self { expected, ..self }
    }

    pub(super) fn expected(&self) -> &Expected {
        &self.expected
    }

    pub(super) fn world(&self) -> &'a World {
        self.world
    }

    /// Makes a schedule, or changes the one with its name. An unchanged schedule costs nothing, so
    /// a program may put its schedules at each start.
    ///
    /// A changed schedule keeps its history and its pause. If its times change, missed old ones are
    /// not made up for.
    ///
    /// Fails with a [`ScheduleError`] if the schedule is not complete, would never launch, or cannot be
    /// stored; or if this world does not know its action, unless it is [at rest](Opening::AtRest).
    pub fn put(&self, schedule: Schedule) -> Asked<ScheduleView> {
        let (name, spec, _) = match schedule.checked() {
            Ok(checked) => checked,
            Err(error) => return Completion::done(Err(error)),
        };
        let shared = self.world.shared();
        let calls_nothing = shared.opening() == Opening::AtRest;
        let is_known = shared.runs(&spec.action) || shared.hub().has_action(&spec.action);
        if !calls_nothing && !is_known {
            let action = spec.action;
            return Completion::done(Err(ScheduleError::UnknownAction { name, action }));
        }
        // An input that cannot be launched is refused now, and not at each launch.
        let Err(error) = self.launches(&name, &spec) else {
            return self.at_owner(ScheduleRequest::Put { name, spec });
        };
        let Some(plugin) = shared.plugin().cloned() else { return Completion::done(Err(error)) };
        // It may launch what was added at another node, and is not known here yet.
        let (world, expected) = (World::of(shared), self.expected.clone());
        let (told, taken) = completion();
        shared.hub().spawn(async move {
            if let Err(error) = plugin.prepare(&world).await {
                tracing::warn!(%error, "a schedule may launch what is not known here");
            }
            let schedules = Schedules { world: &world, expected };
            let taken = match schedules.launches(&name, &spec) {
                Ok(()) => schedules.at_owner(ScheduleRequest::Put { name, spec }),
                Err(error) => Completion::done(Err(error)),
            };
            let taken = taken.await;
            let taken =
                taken.unwrap_or_else(|failure| Err(ScheduleError::Refused(unanswered(&failure))));
            let _late = told.complete(taken);
        });
        taken
    }

    /// Refuses an input that the action cannot be launched with.
    fn launches(&self, name: &str, spec: &Spec) -> Result<(), ScheduleError> {
        let action = self.world.shared().registry().find(&spec.action);
        let Some(Err(error)) = action.map(|action| action.scheduled(&spec.input)) else {
            return Ok(());
        };
        let (name, action) = (name.to_owned(), &spec.action);
        let problem = format!("for «{action}» is refused: {}", error.message);
        Err(ScheduleError::Input { name, problem })
    }

    /// A schedule as it is now.
    pub fn get(&self, name: &str) -> Asked<ScheduleView> {
        self.at_owner(ScheduleRequest::Get { name: name.to_owned() })
    }

    /// All schedules, by name, at most `limit` after `after`; begin with an empty name.
    pub fn list(&self, after: &str, limit: usize) -> Asked<Vec<ScheduleView>> {
        self.of_all(after, limit)
    }

    /// Stops automatic launches until [`Schedules::unpause`]. Running plans continue; launches by
    /// hand and backfills are still possible.
    pub fn pause(&self, name: &str, by: &str, why: &str) -> Asked<ScheduleView> {
        let (name, by, why) = (name.to_owned(), said(by), said(why));
        self.at_owner(ScheduleRequest::Pause { name, by, why })
    }

    /// Launches again. Times that have passed during the pause are not made up for; queued launches
    /// continue.
    pub fn unpause(&self, name: &str) -> Asked<ScheduleView> {
        self.at_owner(ScheduleRequest::Unpause { name: name.to_owned() })
    }

    /// Removes a schedule. Its running plans continue; queued launches are dropped.
    pub fn remove(&self, name: &str) -> Asked<()> {
        self.at_owner(ScheduleRequest::Remove { name: name.to_owned() })
    }

    /// Launches now, whatever the overlap policy says and whether it is paused or not; answers the
    /// plan.
    pub fn trigger_now(&self, name: &str, by: &str) -> Asked<PlanId> {
        self.trigger(name, by, None)
    }

    /// The same with an idempotency key: asked again with this key, it answers the plan of the
    /// first time. A key is of one schedule.
    pub fn trigger_once(&self, name: &str, by: &str, key: &str) -> Asked<PlanId> {
        self.trigger(name, by, Some(number_of_key(key)))
    }

    /// `number` is that of the key, if there is one.
    fn trigger(&self, name: &str, by: &str, number: Option<u64>) -> Asked<PlanId> {
        let (name, by) = (name.to_owned(), said(by));
        // With a key, so that one that is asked again of the next owner has one plan.
        let world = self.world.shared();
        let fresh = || number_of_key(&world.ids().next(world.wall()).to_string());
        let number = number.or_else(|| (!self.is_alone()).then(fresh));
        self.at_owner(ScheduleRequest::Trigger { name, by, number })
    }

    /// Launches what the schedule would have launched in `from..until`, whether it was there then
    /// or not; times that were launched are not launched again. Answers how many times that are.
    ///
    /// Unless the schedule allows overlaps, one is launched after the other, whenever nothing else
    /// of it is under way.
    pub fn backfill(&self, name: &str, from: Time, until: Time) -> Asked<u64> {
        self.at_owner(ScheduleRequest::Backfill { name: name.to_owned(), from, until })
    }

    /// The first times after `after`, at most so many, and no more than
    /// [`SCHEDULE_TIMES_MAX`](crate::limits::SCHEDULE_TIMES_MAX), without jitter.
    pub fn times(&self, name: &str, after: Time, limit: usize) -> Asked<Vec<Time>> {
        let (name, limit) = (name.to_owned(), limit as u64);
        self.at_owner(ScheduleRequest::Times { name, after, limit })
    }

    /// The next times from now on, at most so many, without jitter.
    pub fn next(&self, name: &str, limit: usize) -> Asked<Vec<Time>> {
        self.times(name, self.world.shared().wall(), limit)
    }
}

/// Requests that this world serves.
impl Schedules<'_> {
    pub(super) fn put_here(&self, name: String, spec: Spec) -> Asked<ScheduleView> {
        let rule = match Rule::of(&spec.timing) {
            Ok(rule) => rule,
            Err(error) => return Completion::done(Err(error)),
        };
        let expected = self.expected.clone();
        self.ask(Of::One(name.clone()), move |roster, cx, reply| {
            let Some(now) = roster.now() else { return };
            if let Err(error) = expected.check(&name, roster.found(&name).ok()) {
                return answer(reply, Err(error));
            }
            let never = || {
                let (name, timing) = (name.clone(), spec.timing.to_string());
                Err(ScheduleError::NeverFires { name, timing })
            };
            let fires = rule.next(now).is_some() || spec.timing == super::Timing::Manual;
            let has_room = roster.has_room();
            match roster.entries.get_mut(&name).filter(|entry| !entry.is_removed) {
                Some(entry) => {
                    if entry.kept.spec.timing != spec.timing || entry.problem.is_some() {
                        if !fires {
                            return answer(reply, never());
                        }
                        if entry.is_damaged() {
                            entry.kept = Kept::new(spec.clone(), now);
                        }
                        entry.kept.decided = now;
                        entry.kept.ranges.clear();
                        (entry.rule, entry.problem) = (rule, None);
                    } else if entry.kept.spec == spec && entry.is_stored() {
                        return answer(reply, Ok(ScheduleView::of(&name, entry)));
                    }
                    entry.kept.spec = spec;
                }
                None if !fires => return answer(reply, never()),
                None if !has_room => return answer(reply, Err(ScheduleError::TooMany)),
                None => roster.add(&name, Kept::new(spec, now), rule),
            }
            roster.changed(&name, view(&name, reply), cx);
        })
    }

    pub(super) fn get_here(&self, name: String) -> Asked<ScheduleView> {
        self.ask(Of::One(name.clone()), move |roster, _, reply| {
            let found = roster.found(&name).map(|entry| ScheduleView::of(&name, entry));
            answer(reply, found);
        })
    }

    pub(super) fn list_here(&self, after: String, limit: usize) -> Asked<Vec<ScheduleView>> {
        self.ask(Of::All, move |roster, _, reply| {
            use std::ops::Bound::{Excluded, Unbounded};
            let entries = roster.entries.range::<str, _>((Excluded(&*after), Unbounded));
            let entries = entries.filter(|(_, entry)| !entry.is_removed).take(limit);
            let views = entries.map(|(name, entry)| ScheduleView::of(name, entry)).collect();
            answer(reply, Ok(views));
        })
    }

    pub(super) fn pause_here(&self, name: String, by: String, why: String) -> Asked<ScheduleView> {
        self.change(name, move |entry, now| {
            entry.kept.paused.get_or_insert(Paused { at: now, by, why });
            Ok(())
        })
    }

    pub(super) fn unpause_here(&self, name: String) -> Asked<ScheduleView> {
        self.change(name, |entry, now| {
            if entry.kept.paused.take().is_some() {
                entry.kept.decided = entry.kept.decided.max(now);
            }
            Ok(())
        })
    }

    pub(super) fn remove_here(&self, name: String) -> Asked<()> {
        let expected = self.expected.clone();
        self.ask(Of::One(name.clone()), move |roster, cx, reply| {
            if let Err(error) = roster.expected(&name, &expected) {
                return answer(reply, Err(error));
            }
            if let Some(entry) = roster.entries.get_mut(&name) {
                entry.is_removed = true;
            }
            let done: Answer = Box::new(|outcome| answer(reply, outcome.map(|_| ())));
            roster.changed(&name, done, cx);
        })
    }

    pub(super) fn trigger_here(
        &self,
        name: String,
        by: String,
        number: Option<u64>,
    ) -> Asked<PlanId> {
        self.ask(Of::One(name.clone()), move |roster, cx, reply| {
            let (Some(now), found) = (roster.now(), roster.legible(&name).map(|_| ())) else {
                return;
            };
            if let Err(error) = found {
                return answer(reply, Err(error));
            }
            let Some(entry) = roster.entries.get_mut(&name) else { return };
            // Asked again after the slot has moved, say: the launch is under way.
            let is_it = |due: &&Due| number.is_some_and(|it| due.occasion == Occasion::ByHand(it));
            if let Some(due) = entry.kept.going.iter().find(is_it).copied() {
                if let Vacant(place) = entry.waiting.entry(due) {
                    place.insert(reply);
                    return;
                }
            }
            let count = entry.kept.running.len() + entry.kept.going.len();
            if count >= SCHEDULE_RUNNING_MAX {
                return answer(reply, Err(ScheduleError::Busy { name, count }));
            }
            let number = number.unwrap_or_else(|| {
                entry.kept.by_hand += 1;
                entry.kept.by_hand
            });
            let due = Due { planned: now, occasion: Occasion::ByHand(number) };
            if entry.kept.going.contains(&due) {
                // The same key at the same moment: the caller asks again for the plan that comes.
                return answer(reply, Err(ScheduleError::Busy { name, count }));
            }
            entry.kept.askers.push((number, by));
            entry.kept.going.push(due);
            entry.waiting.insert(due, reply);
            // The caller is answered when the plan exists.
            roster.changed(&name, Box::new(|_| ()), cx);
        })
    }

    pub(super) fn backfill_here(&self, name: String, from: Time, until: Time) -> Asked<u64> {
        self.ask(Of::One(name.clone()), move |roster, cx, reply| {
            let (Some(now), found) = (roster.now(), roster.legible(&name).map(|_| ())) else {
                return;
            };
            if let Err(error) = found {
                return answer(reply, Err(error));
            }
            let Some(entry) = roster.entries.get_mut(&name) else { return };
            let before = |time: Time| Time(time.0.saturating_sub(1));
            let (after, until) = (before(from), before(until));
            let count = entry.rule.count(after, until, SCHEDULE_BACKFILL_MAX + 1);
            let problem = if until > now {
                Some("ends after now: the times to come are launched by themselves".to_owned())
            } else if count == 0 {
                Some("has no times: look at the range with Schedules::times".to_owned())
            } else if count > SCHEDULE_BACKFILL_MAX {
                Some(format!("has more than {SCHEDULE_BACKFILL_MAX} times: take smaller ranges"))
            } else if entry.kept.ranges.len() >= SCHEDULE_RANGES_MAX {
                Some(format!("is one too many: {SCHEDULE_RANGES_MAX} others are not done"))
            } else {
                None
            };
            if let Some(problem) = problem {
                return answer(reply, Err(ScheduleError::Backfill { name, problem }));
            }
            entry.kept.ranges.push_back(Range { after, until, is_asked: true });
            let done: Answer = Box::new(move |outcome| answer(reply, outcome.map(|_| count)));
            roster.changed(&name, done, cx);
        })
    }

    pub(super) fn times_here(&self, name: String, after: Time, limit: usize) -> Asked<Vec<Time>> {
        self.ask(Of::One(name.clone()), move |roster, _, reply| {
            answer(reply, roster.legible(&name).map(|entry| entry.rule.preview(after, limit)));
        })
    }

    fn change(
        &self,
        name: String,
        change: impl FnOnce(&mut Entry, Time) -> Result<(), ScheduleError> + Send + 'static,
    ) -> Asked<ScheduleView> {
        let expected = self.expected.clone();
        self.ask(Of::One(name.clone()), move |roster, cx, reply| {
            let Some(now) = roster.now() else { return };
            let found = roster.expected(&name, &expected).and_then(|()| roster.legible(&name));
            if let Err(error) = found {
                return answer(reply, Err(error));
            }
            let Some(entry) = roster.entries.get_mut(&name) else { return };
            if let Err(error) = change(entry, now) {
                return answer(reply, Err(error));
            }
            roster.changed(&name, view(&name, reply), cx);
        })
    }

    fn ask<T: Send + 'static>(
        &self,
        of: Of,
        request: impl FnOnce(&mut Roster, &mut Context<'_, Roster>, Reply<T>) + Send + 'static,
    ) -> Asked<T> {
        let (reply, asked) = completion();
        let refusal = reply.clone();
        let work = move |roster: &mut Roster, cx: &mut Context<'_, Roster>, error| match error {
            None => request(roster, cx, reply),
            Some(error) => answer(reply, Err(error)),
        };
        let task = &self.world.shared().timetable().task;
        if let Err(error) = task.submit(move |roster, cx| roster.serve(of, cx, work)) {
            answer(refusal, Err(ScheduleError::Refused(not_taken(error.kind))));
        }
        asked
    }
}

fn view(name: &str, reply: Reply<ScheduleView>) -> Answer {
    let name = name.to_owned();
    Box::new(move |outcome| {
        answer(reply, outcome.map(|entry| ScheduleView::of(&name, entry)));
    })
}

fn answer<T>(reply: Reply<T>, outcome: Result<T, ScheduleError>) {
    // The caller may have given up.
    let _gone = reply.complete(outcome);
}
