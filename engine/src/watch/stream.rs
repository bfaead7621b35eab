//! A listener.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::future::{poll_fn, Future};
use std::pin::{pin, Pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use serde::Serialize;
use turnwheel_runtime::completion::block_on;
use turnwheel_runtime::{Completion, Failure};

use super::buffer::{Buffer, Taken};
use super::page::Page;
use super::replay::Replay;
use super::{Cursor, Happening, What};
use crate::error::StoreError;
use crate::id::PlanId;
use crate::journal::Journal;
use crate::limits::{WATCH_ENTRIES, WATCH_ENTRIES_MAX};
use crate::store::{Seq, Written};
use crate::world::{Hub, World};

/// Filter of happenings; by default everything from now on.
///
/// ```
/// use turnwheel_engine::watch::{Cursor, WatchFilter};
/// let filter = WatchFilter::new().label("order").plans_only().after(Cursor::from(17));
/// # let _ = filter;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct WatchFilter {
    plans: Option<HashSet<PlanId>>,
    label: Option<String>,
    after: Option<Cursor>,
    entries: Option<usize>,
    plans_only: bool,
    catches_up: bool,
    all_nodes: bool,
}

impl WatchFilter {
    /// Everything, from now on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only this plan, and others that are named so.
    pub fn plan(mut self, plan: PlanId) -> Self {
        self.plans.get_or_insert_default().insert(plan);
        self
    }

    /// Only plans with this label.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Only changes of plans, not of their steps.
    pub fn plans_only(mut self) -> Self {
        self.plans_only = true;
        self
    }

    /// Everything after a place, from the store; then live. [`Cursor::START`] for all that the store has.
    pub fn after(mut self, cursor: impl Into<Cursor>) -> Self {
        self.after = Some(cursor.into());
        self
    }

    /// Maximum number of waiting journal entries, instead of
    /// [`WATCH_ENTRIES`](crate::limits::WATCH_ENTRIES); at most
    /// [`WATCH_ENTRIES_MAX`](crate::limits::WATCH_ENTRIES_MAX).
    pub fn buffer(mut self, entries: usize) -> Self {
        self.entries = Some(entries);
        self
    }

    /// Reads missed entries from the store, instead of reporting [`Watched::Missed`].
    pub fn catching_up(mut self) -> Self {
        self.catches_up = true;
        self
    }

    /// What happens at all nodes that share the store, instead of this process alone. Without
    /// others it changes nothing.
    ///
    /// Happenings come in the order of their cursors, and cursors mean the same at every node: a
    /// listener may go on at another one after its last cursor. A slow commit of one node holds up
    /// what comes after it from all, until it has ended.
    ///
    /// Cost: the entries of all nodes are read from the store, once for all listeners of a process:
    /// 4 statements a second while nothing happens. Happenings of other nodes come up to
    /// [`FEED_PAUSE_MAX`](crate::limits::FEED_PAUSE_MAX) late.
    pub fn all_nodes(mut self) -> Self {
        self.all_nodes = true;
        self
    }

    fn wants(&self, happening: &Happening) -> bool {
        let is_of_plan = matches!(happening.what, What::Plan { .. } | What::Cancel { .. });
        self.plans.as_ref().is_none_or(|plans| plans.contains(&happening.plan))
            && self.label.as_ref().is_none_or(|label| *label == happening.label)
            && (is_of_plan || !self.plans_only)
            && self.after.is_none_or(|after| happening.cursor > after)
    }
}

/// Item of a listener's stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Watched {
    /// Something has happened.
    Happened(Box<Happening>),
    /// The listener was too slow: something was left out. [`Watch::catch_up`] goes back for it.
    Missed {
        /// Number of missed journal entries of the watched plans.
        entries: u64,
        /// The last place that was told.
        after: Cursor,
        /// The last place that was left out.
        until: Cursor,
    },
}

/// Happenings of plans, as they become durable. Made by [`World::watch`].
///
/// It is a [`Stream`]; [`Watch::next`] and, for code that may block, [`Watch::wait_next`] do the
/// same. It ends when its world does. Happenings come in the order of the journal, once each. A
/// listener that continues [after](WatchFilter::after) its last [`Cursor`] misses nothing.
///
/// Entries that wait to be taken are bounded; beyond the bound the oldest are dropped, and their
/// number is reported. A dropped listener costs nothing from the next commit on.
#[must_use = "streams do nothing unless polled"]
pub struct Watch {
    journal: Journal,
    buffer: Arc<Buffer>,
    filter: WatchFilter,
    joining: Option<Completion<Seq>>,
    reading: Option<Completion<Told>>,
    /// Nothing while it is with a reader.
    replay: Option<Box<Replay>>,
    /// An entry whose plan could not be read: the next call tries again.
    again: Option<Arc<Written>>,
    ready: VecDeque<Result<Watched, StoreError>>,
    /// The last entry that was looked at.
    at: Seq,
    /// Up to here the store is read.
    gap_until: Seq,
    /// Place at which the last miss began.
    missed_after: Option<Seq>,
    is_over: bool,
}

/// What happened by some entries.
struct Told {
    replay: Box<Replay>,
    /// All entries up to here were told or cannot be understood.
    at: Seq,
    told: Vec<Result<Happening, StoreError>>,
    /// The store did not answer for this entry, which has not come from it.
    again: Option<Arc<Written>>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("filter", &self.filter).finish_non_exhaustive()
    }
}

impl World {
    /// Listens to what happens to plans, from now on or [after a place](WatchFilter::after).
    ///
    /// Of several nodes that share a store, these are the plans of this process, unless those of
    /// [all nodes](WatchFilter::all_nodes) are asked for.
    ///
    /// Cost: while somebody listens, a copy of each journal entry of the plans that are listened to; the
    /// listener replays the plans, and reads those from the store that it has not seen from their begin.
    /// While nobody does, nothing.
    pub fn watch(&self, filter: WatchFilter) -> Watch {
        Watch::new(self.shared().hub(), filter)
    }
}

impl World {
    /// The newest place that the journal of the store has given out. A cursor beyond it is of
    /// another store, or of entries that a fail-over or a restore has lost: a listener with it
    /// would miss what comes until then.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn newest_cursor(&self) -> Result<Cursor, StoreError> {
        let last = self.shared().journal().read(|reader| reader.last_place()).await;
        let last = last.unwrap_or_else(|failure| Err(StoreError::unanswered(&failure)));
        last.map(Cursor::from)
    }
}

impl Watch {
    pub(crate) fn new(hub: &Hub, filter: WatchFilter) -> Self {
        let entries = filter.entries.unwrap_or(WATCH_ENTRIES).clamp(1, WATCH_ENTRIES_MAX);
        let buffer = Buffer::new(filter.plans.clone(), entries);
        let joining = Some(match filter.all_nodes {
            true => hub.listen(Arc::clone(&buffer)),
            false => hub.journal.listen(Arc::clone(&buffer)),
        });
        Self {
            journal: hub.journal.clone(),
            buffer,
            filter,
            joining,
            reading: None,
            replay: Some(Box::default()),
            again: None,
            ready: VecDeque::new(),
            at: 0,
            gap_until: 0,
            missed_after: None,
            is_over: false,
        }
    }

    /// The next thing that happens; nothing when the world has ended.
    ///
    /// # Errors
    ///
    /// The store failed: the next call tries again. Or an entry cannot be understood
    /// ([`StoreError::is_unreadable`]): the next call goes on after it.
    pub async fn next(&mut self) -> Option<Result<Watched, StoreError>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// As [`Watch::next`], for code that may block.
    ///
    /// # Errors
    ///
    /// As [`Watch::next`]. Called on a worker of a group it is refused.
    pub fn wait_next(&mut self) -> Result<Option<Watched>, StoreError> {
        let next = block_on(pin!(self.next()));
        next.map_err(|refused| StoreError::unanswered(&refused))?.transpose()
    }

    /// After [`Watched::Missed`]: goes back to the begin of the miss. The dropped happenings come
    /// now, from the store, and the later ones once more.
    pub fn catch_up(&mut self) {
        if let Some(after) = self.missed_after.take() {
            self.gap_until = self.gap_until.max(self.at);
            self.at = after;
            self.ready.clear();
        }
    }

    /// Ready when it listens: from here on nothing is missed, and [`Watch::cursor`] is its place.
    pub fn poll_listening(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(joining) = &mut self.joining {
            let Poll::Ready(joined) = Pin::new(joining).poll(cx) else { return Poll::Pending };
            self.joining = None;
            self.joined(joined);
        }
        Poll::Ready(())
    }

    /// The last place that was looked at: a listener that goes on after it misses nothing that it had not
    /// missed before.
    pub fn cursor(&self) -> Cursor {
        let waiting = self.ready.iter().find_map(|next| match next {
            Ok(Watched::Happened(next)) => Some(next.cursor),
            _ => None,
        });
        match waiting {
            Some(next) if next.nth > 0 => Cursor { seq: next.seq, nth: next.nth - 1 },
            Some(next) => Cursor::from(next.seq - 1),
            None => Cursor::from(self.at),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Watched, StoreError>>> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Poll::Ready(Some(next));
            }
            if self.poll_listening(cx).is_pending() {
                return Poll::Pending;
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            if let Some(reading) = &mut self.reading {
                let Poll::Ready(told) = Pin::new(reading).poll(cx) else { return Poll::Pending };
                self.reading = None;
                self.read(told);
                continue;
            }
            if self.at < self.gap_until {
                self.reading = Some(self.page());
                continue;
            }
            if let Some(entry) = self.again.take() {
                self.entry(entry);
                continue;
            }
            match self.buffer.take(cx.waker()) {
                Taken::Entry(entry) => self.entry(entry),
                Taken::Missed(entries, until) => self.missed(entries, until),
                Taken::Nothing => return Poll::Pending,
                Taken::Closed => self.is_over = true,
            }
        }
    }

    fn joined(&mut self, last: Result<Seq, Failure>) {
        match last {
            Ok(last) => {
                // The entry of the place may have been told in part.
                let from = self.filter.after.map(|after| match after.nth {
                    u32::MAX => after.seq,
                    _ => after.seq.saturating_sub(1),
                });
                self.at = from.unwrap_or(last).min(last);
                self.gap_until = last;
            }
            Err(_ended) => self.is_over = true,
        }
    }

    fn missed(&mut self, entries: u64, until: Seq) {
        if until <= self.at {
            return;
        }
        if self.filter.catches_up {
            self.gap_until = until;
            return;
        }
        self.missed_after = Some(self.at);
        let (after, until) = (Cursor::from(self.at), Cursor::from(until));
        self.at = until.seq;
        self.gap_until = until.seq;
        self.ready.push_back(Ok(Watched::Missed { entries, after, until }));
    }

    fn entry(&mut self, entry: Arc<Written>) {
        if entry.seq <= self.at {
            return;
        }
        let replay = self.replay.as_mut().expect("no reader has it");
        match replay.entry(&entry) {
            Ok(Some(told)) => {
                self.at = entry.seq;
                self.tell(told.into_iter().map(Ok));
            }
            Err(error) => {
                self.at = entry.seq;
                self.ready.push_back(Err(error));
            }
            Ok(None) => {
                let mut replay = self.replay.take().expect("no reader has it");
                let before = self.at;
                self.reading = Some(self.journal.read(move |reader| {
                    let (told, at, again) = match replay.entry_from(reader, &entry) {
                        Ok(told) => (told.into_iter().map(Ok).collect(), entry.seq, None),
                        Err(error) if error.is_unreadable() => (vec![Err(error)], entry.seq, None),
                        Err(error) => (vec![Err(error)], before, Some(entry)),
                    };
                    Told { replay, at, told, again }
                }));
            }
        }
    }

    /// Reads on from the store.
    fn page(&mut self) -> Completion<Told> {
        let mut replay = self.replay.take().expect("no reader has it");
        let (after, until, buffer) = (self.at, self.gap_until, Arc::clone(&self.buffer));
        self.journal.read(move |reader| {
            let page = match Page::read(reader, after, until) {
                Ok(page) => page,
                Err(error) => {
                    return Told { replay, at: after, told: vec![Err(error)], again: None };
                }
            };
            let mut told = Vec::new();
            for entry in page.entries.iter().filter(|entry| buffer.wants(entry.plan)) {
                match replay.entry_from(reader, entry) {
                    Ok(happenings) => told.extend(happenings.into_iter().map(Ok)),
                    Err(error) if error.is_unreadable() => told.push(Err(error)),
                    Err(error) => {
                        told.push(Err(error));
                        return Told { replay, at: entry.seq - 1, told, again: None };
                    }
                }
            }
            told.extend(page.damage.map(Err));
            Told { replay, at: page.until, told, again: None }
        })
    }

    fn read(&mut self, told: Result<Told, Failure>) {
        match told {
            Ok(Told { replay, at, told, again }) => {
                self.replay = Some(replay);
                (self.at, self.again) = (at, again);
                self.tell(told);
            }
            Err(_ended) => self.is_over = true,
        }
    }

    fn tell(&mut self, told: impl IntoIterator<Item = Result<Happening, StoreError>>) {
        for next in told {
            match next {
                Ok(happening) if !self.filter.wants(&happening) => {}
                next => self.ready.push_back(next.map(|it| Watched::Happened(Box::new(it)))),
            }
        }
    }
}

impl Stream for Watch {
    type Item = Result<Watched, StoreError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(cx)
    }
}
