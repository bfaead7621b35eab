//! Writes of jobs: one at a time for each job, with what has come together.

use turnwheel_actors::entity::StoreError;
use turnwheel_runtime::Context;

use super::{Answer, Roster};
use crate::decide::Effect;
use crate::error::JobError;
use crate::record::Record;
use crate::store::{part_of, JobStore};

/// A write on its way, and what follows from it.
struct Write {
    record: Option<Record>,
    version: u64,
    effects: Vec<Effect>,
    answers: Vec<Answer>,
    acks: Vec<(String, u64)>,
    /// Launches that leave the record for a page, and the page that goes.
    page: Option<(u64, Vec<crate::launch::Launch>, Option<u64>)>,
}

impl Roster {
    /// Writes a job if it has changed, and its name before it if that is new.
    pub(crate) fn write(&mut self, name: &str, cx: &mut Context<'_, Self>) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        if entry.is_writing || !entry.is_dirty {
            return;
        }
        entry.is_writing = true;
        if !entry.is_listed && !entry.is_removed {
            let part = self.part(name);
            part.names.names.insert(name.to_owned());
            part.waiting.push(name.to_owned());
            part.is_dirty = true;
            return self.write_names(part_of(name), cx);
        }
        entry.is_dirty = false;
        let (made, mut page) = (entry.record.created_at, None);
        if let Some(launches) = entry.record.overflow() {
            let number = entry.record.pages.1;
            page = Some((number, launches, entry.record.paged()));
        }
        let write = Write {
            record: (!entry.is_removed).then(|| entry.record.clone()),
            version: entry.version,
            effects: std::mem::take(&mut entry.effects),
            answers: std::mem::take(&mut entry.answers),
            acks: std::mem::take(&mut entry.acks),
            page,
        };
        let (store, name) = (self.store.clone(), name.to_owned());
        let (name_of, given) = (name.clone(), (write.record.clone(), write.page.clone()));
        let version = write.version;
        let written = async move { put(&store, &name_of, made, version, given).await };
        cx.await_interleaved(written, move |roster, cx, outcome| {
            roster.written(&name, write, outcome, cx);
        });
    }

    fn written(
        &mut self,
        name: &str,
        write: Write,
        outcome: Result<u64, StoreError>,
        cx: &mut Context<'_, Self>,
    ) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        entry.is_writing = false;
        let version = match outcome {
            Ok(version) => version,
            Err(error) => return self.not_written(name, write, &error, cx),
        };
        entry.version = version;
        let is_gone = write.record.is_none();
        entry.stored = write.record;
        let view = self.entries.get(name).map(|entry| self.view(name, entry));
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
        self.arm(cx);
    }

    /// The record of a removed job is gone: its name follows, unless it was made again meanwhile.
    fn gone(&mut self, name: &str, cx: &mut Context<'_, Self>) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        if !entry.is_removed {
            return self.write(name, cx);
        }
        if let Some(at) = entry.wakes_at {
            self.due.remove(&(at, name.to_owned()));
        }
        self.entries.remove(name);
        self.graph.set(name, []);
        let part = self.part(name);
        part.names.names.remove(name);
        part.is_dirty = true;
        self.write_names(part_of(name), cx);
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
        let group = self.group.clone();
        let read = async move {
            let _waited = group.sleep(crate::limits::AGAIN).await;
            store.load(&of).await
        };
        cx.await_interleaved(read, move |roster: &mut Self, cx, outcome| {
            roster.read_again(&name, outcome, cx);
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
                entry.record = record;
            }
            Ok((None, version)) => {
                entry.version = version;
                entry.is_removed = true;
                return self.gone(name, cx);
            }
            Err(_) => match entry.stored.clone() {
                Some(stored) => entry.record = stored,
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

    /// Writes a part of the names, and then the jobs that wait for it.
    fn write_names(&mut self, number: u64, cx: &mut Context<'_, Self>) {
        let place = usize::try_from(number).unwrap_or(0);
        let part = &mut self.parts[place];
        if part.is_writing || !part.is_dirty {
            return;
        }
        (part.is_writing, part.is_dirty) = (true, false);
        let (waiting, names) = (std::mem::take(&mut part.waiting), part.names.clone());
        let store = self.store.clone();
        let saved = async move {
            match store.save_names(number, names).await {
                Err(StoreError::Conflict { found, .. }) => Err(Some(found)),
                Err(_) => Err(None),
                Ok(version) => Ok(version),
            }
        };
        cx.await_interleaved(saved, move |roster: &mut Self, cx, outcome| {
            let part = &mut roster.parts[place];
            part.is_writing = false;
            if let Ok(version) | Err(Some(version)) = outcome {
                part.names.version = version;
            }
            for name in waiting {
                let Some(entry) = roster.entries.get_mut(&name) else { continue };
                entry.is_writing = false;
                match outcome {
                    Ok(_) => {
                        entry.is_listed = true;
                        roster.write(&name, cx);
                    }
                    Err(_) => roster.refuse_new(&name),
                }
            }
            roster.write_names(number, cx);
        });
    }

    /// A new job whose name was not stored.
    fn refuse_new(&mut self, name: &str) {
        let Some(entry) = self.entries.remove(name) else { return };
        if let Some(at) = entry.wakes_at {
            self.due.remove(&(at, name.to_owned()));
        }
        self.graph.set(name, []);
        self.part(name).names.names.remove(name);
        for answer in entry.answers {
            answer(Err(JobError::Failed("the store took no new job: try again".to_owned())));
        }
    }
}

type Given = (Option<Record>, Option<(u64, Vec<crate::launch::Launch>, Option<u64>)>);

/// Writes the page before the record that refers to it, and removes the oldest one after.
async fn put(
    store: &JobStore,
    name: &str,
    made: turnwheel_engine::Time,
    version: u64,
    (record, page): Given,
) -> Result<u64, StoreError> {
    // A job of this name may have been removed before: versions go on.
    let version = match version {
        0 => match store.load(name).await? {
            (None, version) => version,
            (Some(_), _) => 0,
        },
        version => version,
    };
    let Some(record) = record else { return store.clear(name, version).await };
    let Some((number, launches, old)) = page else {
        return store.save(name, record.encode(), version).await;
    };
    store.save_page(name, made, number, &launches).await?;
    let version = store.save(name, record.encode(), version).await?;
    if let Some(old) = old {
        if let Err(error) = store.clear_page(name, made, old).await {
            tracing::warn!(job = name, page = old, %error, "an old page of history is left over");
        }
    }
    Ok(version)
}
