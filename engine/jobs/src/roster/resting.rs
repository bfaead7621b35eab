//! Jobs at rest: nothing is under way, and their next time is far. They are kept as the store has
//! them, a few hundred bytes each, and read when somebody asks for them or their time comes.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use turnwheel_engine::Time;
use turnwheel_runtime::Context;

use super::{Entry, Roster};
use crate::limits::{CHECKED_AT_ONCE, CLOCK_CHECK, REST_MIN};
use crate::record::Record;
use crate::store::Stored;
use crate::view::JobView;

/// A job at rest.
#[derive(Debug)]
pub(crate) struct Resting {
    bytes: Box<[u8]>,
    version: u64,
    wakes_at: Option<Time>,
}

/// The jobs at rest, and how far they were looked at since they were read.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    jobs: BTreeMap<Arc<str>, Resting>,
    /// The job that was looked at last, and when; nothing once all were.
    check: Option<(Arc<str>, Time)>,
}

impl Rest {
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.jobs.contains_key(name)
    }

    fn after<'a>(&'a self, name: &str) -> impl Iterator<Item = (&'a Arc<str>, &'a Resting)> {
        self.jobs.range::<str, _>((Excluded(name), Unbounded))
    }
}

impl Roster {
    /// Takes the stored jobs. Of few jobs each is read, and of many those that are not at rest.
    pub(super) fn take_stored(&mut self, jobs: Vec<Stored>, cx: &mut Context<'_, Self>) {
        let is_trusted = jobs.len() > self.read_at_start && !self.is_at_rest;
        let mut awake = Vec::new();
        let (mut rest, mut due) = (Vec::with_capacity(jobs.len()), Vec::new());
        for job in jobs {
            let name: Arc<str> = job.name.into();
            if !job.after.is_empty() {
                self.graph.set(&name, job.after);
            }
            let wakes_at = job.wakes.filter(|at| *at != Time(u64::MAX));
            if job.wakes.is_none() || !is_trusted {
                awake.push(Arc::clone(&name));
            } else if let Some(at) = wakes_at {
                due.push((at, Arc::clone(&name)));
            }
            rest.push((name, Resting { bytes: job.bytes, version: job.version, wakes_at: None }));
            if let Some((_, resting)) = rest.last_mut().filter(|_| is_trusted) {
                resting.wakes_at = wakes_at;
            }
        }
        self.due = due.into_iter().collect();
        // They come in the order of their names.
        self.rest.jobs = rest.into_iter().collect();
        self.rest.check = is_trusted.then(|| (Arc::from(""), self.now()));
        self.seen = self.now();
        self.since = self.seen;
        for name in awake {
            if self.is_at_rest {
                continue;
            }
            self.rouse(&name);
            self.resume(&name, cx);
            self.advance(&name, cx);
            self.lay_down(&name);
        }
        self.arm(cx);
    }

    /// Has a job at rest as an entry, as it was read.
    pub(super) fn rouse(&mut self, name: &str) {
        let Some(resting) = self.rest.jobs.remove(name) else { return };
        match Record::decode(&resting.bytes) {
            Ok(record) => {
                let mut entry = Entry::new(record.clone());
                (entry.stored, entry.version) = (Some(record), resting.version);
                entry.wakes_at = resting.wakes_at;
                self.entries.insert(name.to_owned(), entry);
                self.read_schedule(name);
            }
            Err(error) => {
                tracing::error!(job = name, error, "a job cannot be read");
                if let Some(at) = resting.wakes_at {
                    self.due.remove(&(at, Arc::from(name)));
                }
            }
        }
    }

    /// Keeps a job in its small form if nothing happens to it for a while.
    pub(super) fn lay_down(&mut self, name: &str) {
        let soon = self.now().after(REST_MIN);
        let rests = |entry: &&Entry| entry.is_quiet() && entry.wakes_at.is_none_or(|at| at > soon);
        let Some(entry) = self.entries.get(name).filter(rests) else { return };
        let resting = Resting {
            bytes: entry.record.encode().into(),
            version: entry.version,
            wakes_at: entry.wakes_at,
        };
        self.entries.remove(name);
        self.rest.jobs.insert(Arc::from(name), resting);
    }

    /// Looks at some of the jobs whose stored times were trusted: rules of zones may have changed
    /// since they were written.
    pub(super) fn check_some(&mut self, now: Time, cx: &mut Context<'_, Self>) {
        let Some((from, at)) = self.rest.check.clone() else { return };
        if now < at.after(CLOCK_CHECK) {
            return;
        }
        let some = self.rest.after(&from).map(|(name, _)| Arc::clone(name));
        let some: Vec<Arc<str>> = some.take(CHECKED_AT_ONCE).collect();
        self.rest.check = some.last().map(|last| (Arc::clone(last), now));
        for name in some {
            self.advance(&name, cx);
            self.lay_down(&name);
        }
    }

    /// The names of all jobs.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        let awake = self.entries.keys().map(|name| Arc::from(name.as_str()));
        self.rest.jobs.keys().cloned().chain(awake).collect()
    }

    /// The jobs after a name, at most so many. Those at rest stay there.
    pub(super) fn views(&self, after: &str, limit: usize) -> Vec<JobView> {
        let awake = self.entries.range::<str, _>((Excluded(after), Unbounded));
        let awake = awake.filter(|(_, entry)| !entry.is_removed);
        let mut awake = awake.map(|(name, entry)| (name.as_str(), entry)).peekable();
        let mut resting = self.rest.after(after).peekable();
        let mut views = Vec::new();
        while views.len() < limit {
            let rests_first = match (awake.peek(), resting.peek()) {
                (None, None) => break,
                (Some((name, _)), Some((other, _))) => other.as_ref() < *name,
                (first, _) => first.is_none(),
            };
            if !rests_first {
                views.extend(awake.next().map(|(name, entry)| self.view(name, entry)));
                continue;
            }
            let Some((name, resting)) = resting.next() else { break };
            // An unreadable one was logged.
            let Ok(record) = Record::decode(&resting.bytes) else { continue };
            let mut entry = Entry::new(record);
            self.set_schedule(name, &mut entry);
            views.push(self.view(name, &entry));
        }
        views
    }
}
