//! Edits of jobs: checks first, then one change that is written at once.

use jiff::tz::TimeZone;
use turnwheel_engine::{Time, MASK};
use turnwheel_runtime::Context;

use super::{schedule_of, Answer, Entry, Roster};
use crate::decide::{due_of, next_of};
use crate::error::JobError;
use crate::limits::JOBS_MAX;
use crate::record::Record;
use crate::schedule::Schedule;
use crate::shared::Shared;
use crate::spec::{After, JobSpec};
use crate::view::NextLaunch;

/// An edit of a job.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pub(crate) spec: JobSpec,
    /// The revision that is edited; any if nothing.
    pub(crate) revision: Option<u64>,
    pub(crate) by: String,
}

/// The effect of an edit on a job.
#[derive(Debug)]
enum Change {
    Nothing,
    /// It is switched off, and nothing else.
    SwitchOff,
    /// It is made, with this schedule.
    New(Option<Schedule>),
    /// Its settings are replaced.
    Settings {
        schedule: Option<Schedule>,
        anchor: Time,
        is_new_schedule: bool,
    },
}

impl Roster {
    /// Says what an edit does, or why its settings are refused. Its parents are not looked at.
    fn judge(&self, spec: &JobSpec, revision: Option<u64>) -> Result<Change, JobError> {
        self.refuse_paused()?;
        let (name, now) = (&spec.name, self.now());
        let known = self.found(name).ok();
        let found = known.map_or(0, |entry| entry.record.revision);
        if let Some(expected) = revision.filter(|expected| *expected != found) {
            return Err(JobError::Changed { job: name.clone(), expected, found });
        }
        let Some(entry) = known else {
            refuse_masked(spec, None)?;
            let schedule = self.checked(spec, now, true)?;
            let is_full = self.jobs() >= JOBS_MAX;
            return if is_full {
                Err(JobError::TooMany(JOBS_MAX))
            } else {
                Ok(Change::New(schedule))
            };
        };
        let (old, is_broken) = (&*entry.record.spec, entry.problem.is_some());
        if entry.record.is_leaving {
            return Err(JobError::Leaving(name.clone()));
        }
        if old == spec && !is_broken {
            return Ok(Change::Nothing);
        }
        refuse_masked(spec, Some(old))?;
        // Whatever has vanished since it was stored, it can be switched off.
        if (JobSpec { disabled: true, ..old.clone() } == *spec) {
            return Ok(Change::SwitchOff);
        }
        let is_new_schedule = is_broken || timing_of(old) != timing_of(spec);
        let anchor = if is_new_schedule { now } else { entry.record.anchor };
        let schedule = self.checked(spec, anchor, is_new_schedule)?;
        Ok(Change::Settings { schedule, anchor, is_new_schedule })
    }

    /// Says why edits would be refused, one for each that would be. Nothing is stored, and parents
    /// are not looked at.
    pub(super) fn check_edits(&mut self, edits: Vec<(JobSpec, Option<u64>)>) -> Vec<JobError> {
        let judged = edits.into_iter().filter_map(|(mut spec, revision)| {
            spec.after.iter_mut().for_each(|after| after.missing = false);
            self.rouse(&spec.name);
            let judged = self.judge(&spec, revision);
            self.lay_down(&spec.name);
            judged.err()
        });
        judged.collect()
    }

    /// Checks the settings of a job against executors and the clock. Returns its schedule.
    fn checked(
        &self,
        spec: &JobSpec,
        anchor: Time,
        is_new_schedule: bool,
    ) -> Result<Option<Schedule>, JobError> {
        spec.check()?;
        let name = &spec.name;
        let wrong = |setting, problem: String| JobError::setting(name, setting, problem);
        let executor = self.executors.find(&spec.executor).map_err(|p| wrong("executor", p))?;
        executor.check(&spec.config).map_err(|problem| wrong("config", problem))?;
        // A job can be disabled in any case.
        if let Some(world) = self.world.upgrade().filter(|_| !spec.disabled) {
            let checked = executor.check_in(&world, &spec.config);
            checked.map_err(|problem| wrong("config", problem))?;
        }
        let processors = self.executors.check_processors(&spec.processors);
        processors.map_err(|problem| wrong("processors", problem))?;
        let notify = self.executors.check_notify(&spec.notify);
        notify.map_err(|problem| wrong("notify", problem))?;
        let schedule = schedule_of(spec, anchor, &self.zone).map_err(|p| wrong("schedule", p))?;
        if let Some(Schedule::At(at)) = schedule.as_ref().filter(|_| is_new_schedule) {
            let late = self.now().since(*at);
            let allowed = spec.start_within.unwrap_or_default().0;
            if *at <= self.now() && late > allowed && !spec.disabled {
                let advice = "give a later one, start_within longer than its lateness, or disabled";
                return Err(wrong("schedule", format!("{at} has passed: {advice}")));
            }
        }
        Ok(schedule)
    }

    /// Refuses parents that are not there, but for known ones, and cycles.
    fn check_parents(&self, spec: &JobSpec, known: &[After]) -> Result<(), JobError> {
        let name = &spec.name;
        let parents: Vec<String> = spec.after.iter().map(|after| after.job.clone()).collect();
        for parent in &parents {
            // A parent that was removed after its one success may come again.
            let is_known = known.iter().any(|after| after.job == *parent);
            if !is_known && !self.has(parent) {
                let (job, parent) = (name.clone(), parent.clone());
                return Err(JobError::UnknownParent { job, parent });
            }
        }
        if let Some(cycle) = self.graph.cycle(name, &parents) {
            let cycle = cycle.join(" → ");
            return Err(JobError::Cycle { job: name.clone(), cycle });
        }
        Ok(())
    }

    /// Whether there is a job of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.found(name).is_ok() || self.rest.has(name)
    }

    pub(crate) fn refuse_paused(&self) -> Result<(), JobError> {
        match &self.paused_by {
            Some(by) => Err(JobError::Paused { by: by.clone() }),
            None => Ok(()),
        }
    }

    /// Makes a job, or changes the one with its name.
    pub(crate) fn put(&mut self, edit: Edit, answer: Answer, cx: &mut Context<'_, Self>) {
        let name = edit.spec.name.clone();
        match self.try_put(edit) {
            Err(error) => answer(Err(error)),
            Ok(false) => {
                let view = self.found(&name).map(|entry| self.view(&name, entry));
                answer(view);
            }
            Ok(true) => {
                self.changed(&name, answer, cx);
            }
        }
    }

    /// Has a change of a job written, and what follows from it decided.
    pub(crate) fn changed(&mut self, name: &str, answer: Answer, cx: &mut Context<'_, Self>) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.is_dirty = true;
            entry.answers.push(answer);
        }
        self.advance(name, cx);
        self.arm(cx);
    }

    /// Whether something has changed.
    fn try_put(&mut self, edit: Edit) -> Result<bool, JobError> {
        let Edit { mut spec, revision, by } = edit;
        let (now, name) = (self.now(), spec.name.clone());
        // An export says which parents were gone.
        let mut gone: Vec<After> =
            spec.after.iter().filter(|after| after.missing).cloned().collect();
        spec.after.iter_mut().for_each(|after| after.missing = false);
        let change = match self.judge(&spec, revision)? {
            Change::Nothing => return Ok(false),
            Change::New(schedule) => {
                self.check_parents(&spec, &gone)?;
                self.add(spec, schedule, now, &by);
                return Ok(true);
            }
            Change::SwitchOff => None,
            Change::Settings { schedule, anchor, is_new_schedule } => {
                gone.extend(self.found(&name)?.record.spec.after.iter().cloned());
                self.check_parents(&spec, &gone)?;
                self.graph.set(&name, spec.after.iter().map(|after| after.job.clone()));
                Some((schedule, anchor, is_new_schedule))
            }
        };
        let Some(entry) = self.entries.get_mut(&name) else { return Ok(false) };
        let record = &mut entry.record;
        if let Some((schedule, anchor, is_new_schedule)) = change {
            if is_new_schedule {
                record.decided = begin_of(schedule.as_ref(), now);
            } else if record.spec.disabled && !spec.disabled {
                record.decided = now;
            }
            record.anchor = anchor;
            (entry.schedule, entry.problem) = (schedule, None);
        }
        record.spec = Shared::new(spec);
        record.revision += 1;
        (record.changed_at, record.changed_by) = (now, by);
        Ok(true)
    }

    fn add(&mut self, spec: JobSpec, schedule: Option<Schedule>, now: Time, by: &str) {
        let name = spec.name.clone();
        // Its launches are counted anew: children of a job of this name know none of them.
        for child in self.graph.children(&name) {
            self.decide(&child, |turn| turn.record.seen.retain(|(job, _)| *job != name));
        }
        self.graph.set(&name, spec.after.iter().map(|after| after.job.clone()));
        let mut record = Record::new(spec, now, by);
        record.decided = begin_of(schedule.as_ref(), now);
        match self.entries.get_mut(&name) {
            // Its removal is on the way to the store.
            Some(entry) => {
                (entry.record, entry.schedule, entry.problem) = (record, schedule, None);
                entry.is_removed = false;
            }
            None => {
                let mut entry = Entry::new(record);
                entry.schedule = schedule;
                self.entries.insert(name, entry);
            }
        }
    }

    /// Removes a job that no other one runs after. If runs of it are under way they are cancelled,
    /// and the job goes when they have ended.
    pub(crate) fn remove(
        &mut self,
        name: &str,
        revision: Option<u64>,
        answer: Answer,
        cx: &mut Context<'_, Self>,
    ) {
        let refused = self.refuse_paused().and_then(|()| {
            let found = self.found(name)?.record.revision;
            if let Some(expected) = revision.filter(|expected| *expected != found) {
                return Err(JobError::Changed { job: name.to_owned(), expected, found });
            }
            match self.graph.children(name) {
                children if children.is_empty() => Ok(()),
                children => Err(JobError::HasDependants {
                    job: name.to_owned(),
                    children: children.join(", "),
                }),
            }
        });
        if let Err(error) = refused {
            return answer(Err(error));
        }
        let view = self.found(name).map(|entry| self.view(name, entry));
        // The answer shows the job as it was.
        let answer: Answer = Box::new(|done: Result<_, _>| answer(done.and(view)));
        self.decide(name, |turn| turn.leave("its removal", "the job is removed"));
        let has_runs = self.entries.get(name).is_some_and(|it| !it.record.active.is_empty());
        if has_runs {
            return self.changed(name, answer, cx);
        }
        if let Some(entry) = self.entries.get_mut(name) {
            entry.answers.push(answer);
        }
        self.remove_now(name, cx);
    }

    pub(crate) fn remove_now(&mut self, name: &str, cx: &mut Context<'_, Self>) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        (entry.is_removed, entry.is_dirty) = (true, true);
        entry.effects.clear();
        self.graph.set(name, []);
        self.write(name, cx);
    }
}

/// Checks the settings of a job as far as they can be without the server that it is for.
///
/// # Errors
///
/// A setting has a value that it cannot have.
pub fn check(spec: &JobSpec, now: Time) -> Result<(), JobError> {
    spec.check()?;
    let schedule = schedule_of(spec, now, &TimeZone::UTC);
    let wrong = |problem| JobError::setting(&spec.name, "schedule", problem);
    schedule.map(drop).map_err(wrong)
}

/// Disables a job of a backup whose one time has passed. Returns a note about that.
pub fn disable_spent(spec: &mut JobSpec, now: Time) -> Option<String> {
    let schedule = schedule_of(spec, now, &TimeZone::UTC).ok().flatten()?;
    let Schedule::At(at) = schedule else { return None };
    let late = now.since(at);
    if at > now || late <= spec.start_within.unwrap_or_default().0 || spec.disabled {
        return None;
    }
    spec.disabled = true;
    Some(format!("it is disabled and never fires: {at} has passed"))
}

/// The settings that say when a job fires.
fn timing_of(spec: &JobSpec) -> impl PartialEq + '_ {
    let texts = (&spec.schedule, &spec.timezone);
    (texts, spec.dialect, spec.hash, spec.daylight_saving, spec.starts_at)
}

/// The time up to which nothing is due: a time that has just passed is still to come.
fn begin_of(schedule: Option<&Schedule>, now: Time) -> Time {
    match schedule {
        Some(Schedule::At(at)) if *at <= now => Time(at.0 - 1),
        _ => now,
    }
}

/// The next launches of settings that are not stored.
pub(crate) fn preview(
    spec: &JobSpec,
    zone: &TimeZone,
    now: Time,
    limit: usize,
) -> Result<Vec<NextLaunch>, JobError> {
    let wrong = |problem| JobError::setting(&spec.name, "schedule", problem);
    let schedule = schedule_of(spec, now, zone).map_err(wrong)?;
    Ok(schedule.map_or(Vec::new(), |it| next_launches(spec, &it, (now, now), limit)))
}

/// The first launches that are planned after a time and begin after now, at most so many.
fn next_launches(
    spec: &JobSpec,
    schedule: &Schedule,
    (after, now): (Time, Time),
    limit: usize,
) -> Vec<NextLaunch> {
    let next = |after: &Time| next_of(spec, schedule, *after);
    let mut begins = Time(0);
    let all = std::iter::successors(next(&after), next).map(|planned| {
        // Launches are decided in the order of their planned times.
        begins = begins.max(due_of(spec, planned));
        NextLaunch { planned, begins }
    });
    all.filter(|next| next.begins > now).take(limit).collect()
}

impl Entry {
    /// The next launches of a job: of one that does not fire, those that it would have.
    pub(super) fn next_launches(&self, now: Time, limit: usize) -> Vec<NextLaunch> {
        let (record, Some(schedule)) = (&self.record, &self.schedule) else { return Vec::new() };
        let spec = &record.spec;
        let after = match record.fires() {
            // A launch whose time has come may still wait for its jitter.
            true => {
                let jitter_us = u64::try_from(spec.jitter.0.as_micros()).unwrap_or(u64::MAX);
                record.decided.max(Time(now.0.saturating_sub(jitter_us)))
            }
            false => now,
        };
        next_launches(spec, schedule, (after, now), limit)
    }
}

/// Refuses settings as they are shown to those who may not see them: they would replace the real
/// ones.
fn refuse_masked(spec: &JobSpec, old: Option<&JobSpec>) -> Result<(), JobError> {
    let has_mask =
        |spec: &JobSpec| serde_json::to_string(spec).is_ok_and(|text| text.contains(MASK));
    if !has_mask(spec) || old.is_some_and(has_mask) {
        return Ok(());
    }
    let problem = format!("«{MASK}» stands for a credential that is not shown: write the real one");
    Err(JobError::Setting { job: spec.name.clone(), setting: "config".into(), problem })
}
