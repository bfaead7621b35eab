//! Writes of jobs: one at a time for each job, with what has come together.

use std::ops::Range;
use std::sync::Arc;

use turnwheel_actors::entity::StoreError;
use turnwheel_engine::Time;
use turnwheel_runtime::Context;

use super::{Answer, Roster, Term};
use crate::decide::Effect;
use crate::error::JobError;
use crate::launch::Launch;
use crate::record::Record;
use crate::store::JobStore;

/// A write on its way, and what follows from it.
struct Write {
    /// The term of its begin: what comes back in a later one counts no more.
    term: Term,
    record: Option<Record>,
    version: u64,
    effects: Vec<Effect>,
    answers: Vec<Answer>,
    acks: Vec<(String, u64)>,
}

/// The pages of a job's history that a write changes.
struct Pages {
    made: Time,
    /// Launches that leave the record for a page.
    new: Option<(u64, Vec<Launch>)>,
    /// Pages that are not kept.
    old: Range<u64>,
}

impl Roster {
    /// Writes a job if it has changed.
    pub(crate) fn write(&mut self, name: &str, cx: &mut Context<'_, Self>) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        if entry.is_writing || !entry.is_dirty {
            return;
        }
        entry.is_writing = true;
        entry.is_dirty = false;
        let record = &mut entry.record;
        let new = record.overflow().map(|launches| (record.pages.1, launches));
        if new.is_some() {
            record.paged();
        }
        let kept_from = if entry.is_removed { record.pages.1 } else { record.pages.0 };
        let pages = Pages { made: record.created_at, new, old: record.swept..kept_from };
        let wakes = (record.is_at_rest() && !self.is_at_rest)
            .then(|| entry.wakes_at.unwrap_or(Time(u64::MAX)));
        let write = Write {
            term: self.term,
            record: (!entry.is_removed).then(|| Record { wakes, ..entry.record.clone() }),
            version: entry.version,
            effects: std::mem::take(&mut entry.effects),
            answers: std::mem::take(&mut entry.answers),
            acks: std::mem::take(&mut entry.acks),
        };
        let (store, name) = (self.store.clone(), name.to_owned());
        let (name_of, record, version) = (name.clone(), write.record.clone(), write.version);
        let written = async move { put(&store, &name_of, version, record, pages).await };
        cx.await_interleaved(written, move |roster, cx, outcome| {
            roster.written(&name, write, outcome, cx);
        });
    }

    fn written(
        &mut self,
        name: &str,
        write: Write,
        outcome: Result<(u64, u64), StoreError>,
        cx: &mut Context<'_, Self>,
    ) {
        if write.term != self.term {
            let why = "another node serves the jobs now: look whether it was done";
            return write.answers.into_iter().for_each(|answer| {
                answer(Err(JobError::Failed(why.to_owned())));
            });
        }
        let Some(entry) = self.entries.get_mut(name) else { return };
        entry.is_writing = false;
        let (version, swept) = match outcome {
            Ok(written) => written,
            Err(error) => return self.not_written(name, write, &error, cx),
        };
        entry.version = version;
        // A job that was made again meanwhile has pages of its own.
        if write.record.as_ref().is_some_and(|it| it.created_at == entry.record.created_at) {
            entry.record.swept = swept;
        }
        let is_gone = write.record.is_none();
        entry.stored = write.record.map(|record| Record { wakes: None, ..record });
        let is_asked = !write.answers.is_empty();
        let entry = self.entries.get(name).filter(|_| is_asked);
        let view = entry.map(|entry| self.view(name, entry));
        for answer in write.answers {
            answer(view.clone().ok_or_else(|| JobError::Unknown(name.to_owned())));
        }
        for (parent, launch) in write.acks {
            self.told(&parent, launch, name, cx);
        }
        if is_gone {
            return self.gone(name, cx);
        }
        if !self.is_at_rest {
            self.carry_out(name, write.effects, cx);
        }
        self.write(name, cx);
        self.lay_down(name);
        self.arm(cx);
    }

    /// The record of a removed job is gone, unless it was made again meanwhile.
    fn gone(&mut self, name: &str, cx: &mut Context<'_, Self>) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        if !entry.is_removed {
            return self.write(name, cx);
        }
        if let Some(at) = entry.wakes_at {
            self.due.remove(&(at, Arc::from(name)));
        }
        self.entries.remove(name);
        self.graph.set(name, []);
    }

    /// A change was not made, or nobody knows: the job is as the store has it.
    fn not_written(
        &mut self,
        name: &str,
        write: Write,
        error: &StoreError,
        cx: &mut Context<'_, Self>,
    ) {
        tracing::error!(job = name, %error, "a job was not stored");
        if matches!(error, StoreError::Fenced { .. }) {
            let why = "another node serves the jobs now: try again";
            for answer in write.answers {
                answer(Err(JobError::Failed(why.to_owned())));
            }
            return self.step_down(cx);
        }
        let Some(entry) = self.entries.get_mut(name) else { return };
        let waiting = std::mem::take(&mut entry.answers);
        for answer in write.answers.into_iter().chain(waiting) {
            answer(Err(JobError::Failed(error.to_string())));
        }
        (entry.effects, entry.is_dirty) = (Vec::new(), false);
        entry.acks.clear();
        entry.is_writing = true;
        let (store, name) = (self.store.clone(), name.to_owned());
        let of = name.clone();
        let (group, term) = (self.group.clone(), self.term);
        let read = async move {
            let _waited = group.sleep(crate::limits::AGAIN).await;
            store.load(&of).await
        };
        cx.await_interleaved(read, move |roster: &mut Self, cx, outcome| {
            if roster.term == term {
                roster.read_again(&name, outcome, cx);
            }
        });
    }

    fn read_again(
        &mut self,
        name: &str,
        outcome: Result<(Option<Record>, u64), StoreError>,
        cx: &mut Context<'_, Self>,
    ) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        entry.is_writing = false;
        entry.is_removed = false;
        match outcome {
            Ok((Some(record), version)) => {
                entry.version = version;
                entry.stored = Some(record.clone());
                let before = std::mem::replace(&mut entry.record, record);
                entry.record.keep_plans(&before);
            }
            Ok((None, version)) => {
                entry.version = version;
                entry.is_removed = true;
                return self.gone(name, cx);
            }
            Err(_) => match entry.stored.clone() {
                Some(stored) => {
                    let before = std::mem::replace(&mut entry.record, stored);
                    entry.record.keep_plans(&before);
                }
                None => {
                    entry.is_removed = true;
                    return self.gone(name, cx);
                }
            },
        }
        let after = entry.record.spec.after.clone();
        self.graph.set(name, after.into_iter().map(|after| after.job));
        self.read_schedule(name);
        self.try_again(name, cx);
    }
}

/// Writes the page before the record that refers to it, and removes those that are not kept after;
/// before the record goes if the job is removed. Answers the version, and up to which page it has
/// removed them.
async fn put(
    store: &JobStore,
    name: &str,
    version: u64,
    record: Option<Record>,
    Pages { made, new, old }: Pages,
) -> Result<(u64, u64), StoreError> {
    // A job of this name may have been removed before: versions go on.
    let version = match version {
        0 => match store.load(name).await? {
            (None, version) => version,
            (Some(_), _) => 0,
        },
        version => version,
    };
    let Some(record) = record else {
        for page in old.clone() {
            store.clear_page(name, made, page).await?;
        }
        return Ok((store.clear(name, version).await?, old.end));
    };
    if let Some((number, launches)) = new {
        store.save_page(name, made, number, &launches).await?;
    }
    let version = store.save(name, record.encode(), version).await?;
    for page in old.clone() {
        if let Err(error) = store.clear_page(name, made, page).await {
            tracing::warn!(job = name, page, %error, "a page of history is removed later");
            return Ok((version, page));
        }
    }
    Ok((version, old.end))
}
