//! The journal: one writer for all plans, which commits what has come together.
//!
//! Plans hand their entries over and go on when told that they are durable. While one commit is under
//! way the next batch gathers in the writer's mailbox, so that one sync of the disk serves all who
//! wait for it (group commit). The rows of the store follow a bounded number of entries behind.

mod codec;
mod directory;
mod locks;
mod meter;
mod states;
mod waits;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::{Completion, Context, Group, Mailbox, Task, TaskJob};

pub(crate) use codec::{decode, decode_plan, encode, encode_plan};
pub(crate) use directory::Directory;
pub use locks::LockView;
pub(crate) use locks::{Held, Locks};
use meter::Meter;
pub(crate) use meter::Tally;
pub use meter::{JournalStats, Spread};
pub(crate) use states::Durable;

use crate::error::{BuildError, StoreError};
use crate::id::PlanId;
use crate::limits::{APPENDS_MAX, COMMIT_APPENDS_MAX, COMMIT_ROWS_MAX, ROWS_AGAIN, ROWS_BEHIND};
use crate::store::{
    Append, Batch, Change, PlanRow, ScheduleWrite, Seq, Store, StoreKeeper, StoreReader,
    StoreWriter, Swap, Upkeep, Verdict, Worlds, WorldsWrite,
};
use crate::watch::{Buffer, Listeners};

/// How long rows may be behind when nothing is appended.
const ROWS_BEHIND_TIME: Duration = Duration::from_millis(50);

/// Called with the outcome of an append.
pub(crate) type Ticket = Box<dyn FnOnce(Result<Verdict, StoreError>) + Send>;

/// The journal of a world.
#[derive(Clone)]
pub(crate) struct Journal {
    writer: Task<Writer>,
    reader: Task<Box<dyn StoreReader>>,
    heads: Arc<Heads>,
    locks: Arc<Locks>,
    directory: Arc<Directory>,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// The newest entries of the plans whose rows are behind.
#[derive(Debug, Default)]
pub(crate) struct Heads(Mutex<HashMap<PlanId, Seq>>);

/// An entry on its way.
struct Entry {
    append: Append,
    row: PlanRow,
    tally: Tally,
    ticket: Ticket,
}

/// A change on its way.
struct Changing {
    change: Change,
    ticket: Ticket,
}

struct Writer {
    store: Box<dyn StoreWriter>,
    waiting: VecDeque<Entry>,
    /// Changes of what is kept beside plans, that wait for the next commit.
    changing: VecDeque<Changing>,
    is_due: bool,
    /// Rows that are behind, and the first entry of each that is.
    behind: HashMap<PlanId, PlanRow>,
    order: VecDeque<(Seq, PlanId)>,
    /// Rows that were written, with their heads, while those are still known here.
    written: Vec<(PlanId, Seq)>,
    heads: Arc<Heads>,
    /// The newest entry that was written.
    last: Seq,
    /// Plans whose rows were behind at the start and still are: until they are loaded and written, what
    /// is behind must be found by the next start as well.
    found: HashSet<PlanId>,
    is_trailing: bool,
    locks: Arc<Locks>,
    directory: Arc<Directory>,
    keeper: Task<Box<dyn StoreKeeper>>,
    is_keeping: bool,
    /// Those who want to know what has become durable.
    listeners: Listeners,
    meter: Meter,
}

impl Journal {
    /// Takes a store for writing and starts its writer and reader in a group whose threads may block.
    pub(crate) fn open(store: &dyn Store, group: &Group) -> Result<Self, BuildError> {
        let writer = store.writer()?;
        let heads = Arc::new(Heads::default());
        let mut reader = store.reader()?;
        let behind = reader.behind()?;
        heads.0.lock().extend(behind.iter().copied());
        let locks = Arc::new(Locks::new(reader.locks()?));
        let directory = Arc::new(Directory::new(reader.worlds()?));
        let threads = |error: &dyn fmt::Display| BuildError::Threads(error.to_string());
        let keeper = group.task(store.keeper()?).name("journal-keeper").spawn();
        let state = Writer {
            keeper: keeper.map_err(|error| threads(&error))?,
            is_keeping: false,
            listeners: Listeners::default(),
            meter: Meter::new(),
            last: writer.last(),
            found: behind.into_iter().map(|(plan, _)| plan).collect(),
            store: writer,
            waiting: VecDeque::new(),
            changing: VecDeque::new(),
            is_due: false,
            behind: HashMap::new(),
            order: VecDeque::new(),
            written: Vec::new(),
            heads: Arc::clone(&heads),
            is_trailing: false,
            locks: Arc::clone(&locks),
            directory: Arc::clone(&directory),
        };
        let writer = group
            .task(state)
            .name("journal-writer")
            .mailbox(Mailbox::bounded(APPENDS_MAX))
            .spawn()
            .map_err(|error| threads(&error))?;
        let reader = group
            .task(reader)
            .name("journal-reader")
            .mailbox(Mailbox::bounded(APPENDS_MAX))
            .spawn()
            .map_err(|error| threads(&error))?;
        Ok(Self { writer, reader, heads, locks, directory })
    }

    /// The locks of plans, as of the last commit.
    pub(crate) fn locks(&self) -> &Arc<Locks> {
        &self.locks
    }

    /// The worlds that write here.
    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Changes who is there and who owns what, by what is known when it is this change's turn. Whether
    /// there was anything to change.
    pub(crate) fn change_worlds(
        &self,
        change: impl FnOnce(&Worlds) -> Option<WorldsWrite> + Send + 'static,
    ) -> Completion<Result<bool, StoreError>> {
        self.writer.call(move |writer, _| {
            let mut worlds = Worlds::clone(&writer.directory.now());
            let Some(write) = change(&worlds) else { return Ok(false) };
            let known = worlds.swap(&write);
            let written = writer.store.write_worlds(&write)?;
            if known != written {
                let problem = format!("the worlds are {known:?} here and {written:?} in the store");
                return Err(StoreError::Failed(problem));
            }
            writer.directory.set(worlds);
            Ok(true)
        })
    }

    /// Hands over an entry with the row that follows from it; the ticket is called when it is durable,
    /// or when it is not.
    pub(crate) fn append(&self, append: Append, row: PlanRow, tally: Tally, ticket: Ticket) {
        if let Err(error) = self.writer.submit_job(Entry { append, row, tally, ticket }) {
            let problem = format!("the journal takes no entry: {}", error.kind);
            (error.job.ticket)(Err(StoreError::Failed(problem)));
        }
    }

    /// Hands over a change of what is kept beside plans; the ticket is called when it is durable, or
    /// when it is not.
    pub(crate) fn change(&self, change: Change, ticket: Ticket) {
        if let Err(error) = self.writer.submit_job(Changing { change, ticket }) {
            let problem = format!("the journal takes no change: {}", error.kind);
            (error.job.ticket)(Err(StoreError::Failed(problem)));
        }
    }

    /// Brings a row up to date without a new entry, if this world owns the plan.
    pub(crate) fn update(&self, row: PlanRow, epoch: u64) {
        let update = self.writer.submit(move |writer, cx| {
            if !writer.directory.owns(epoch, row.id) {
                return;
            }
            writer.is_behind(writer.last + 1, row);
            if !writer.is_trailing {
                writer.trail(cx);
            }
        });
        if let Err(error) = update {
            tracing::debug!(kind = %error.kind, "a row stays as it was");
        }
    }

    /// Asks the store something.
    pub(crate) fn read<R: Send + 'static>(
        &self,
        question: impl FnOnce(&mut dyn StoreReader) -> R + Send + 'static,
    ) -> Completion<R> {
        self.reader.call(move |reader, _| question(&mut **reader))
    }

    /// Changes schedules, all in one commit.
    pub(crate) fn write_schedules(
        &self,
        writes: Vec<ScheduleWrite>,
    ) -> Completion<Result<Vec<Swap>, StoreError>> {
        self.writer.call(move |writer, _| writer.store.write_schedules(&writes))
    }

    /// What was written so far.
    pub(crate) fn stats(&self) -> Completion<JournalStats> {
        self.writer.call(|writer, cx| {
            let mut stats = writer.meter.stats(cx.now_ns());
            stats.rows_behind = writer.behind.len() as u64;
            stats.entries_waiting = writer.waiting.len() as u64;
            stats
        })
    }

    /// Gives all entries that become durable to a listener too, after the place that comes back.
    pub(crate) fn listen(&self, buffer: Arc<Buffer>) -> Completion<Seq> {
        self.writer.call(move |writer, _| {
            writer.listeners.add(buffer);
            writer.last
        })
    }

    /// Brings all rows up to date, and completes then: what is asked afterwards sees everything that
    /// was durable before.
    pub(crate) fn flush(&self) -> Completion<Result<(), StoreError>> {
        self.writer.call(|writer, _| writer.write_rows(usize::MAX))
    }

    /// The plans whose rows were behind at the start and still are.
    pub(crate) fn found(&self) -> Completion<Vec<PlanId>> {
        self.writer.call(|writer, _| {
            let mut found: Vec<PlanId> = writer.found.iter().copied().collect();
            found.sort_unstable();
            found
        })
    }

    /// Removes stopped plans, those whose newest entry is still this one. How many there were.
    pub(crate) fn remove(
        &self,
        mut plans: Vec<(PlanId, Seq)>,
    ) -> Completion<Result<usize, StoreError>> {
        self.writer.call(move |writer, cx| {
            plans.retain(|(plan, _)| !writer.behind.contains_key(plan));
            let removed = writer.store.remove(&plans);
            writer.keep(cx);
            removed
        })
    }

    /// The plans whose rows are behind.
    pub(crate) fn behind(&self) -> Vec<PlanId> {
        let mut plans: Vec<PlanId> = self.heads.0.lock().keys().copied().collect();
        plans.sort_unstable();
        plans
    }

    /// The newest entry of a plan whose row is behind.
    pub(crate) fn head(&self, plan: PlanId) -> Option<Seq> {
        self.heads.0.lock().get(&plan).copied()
    }
}

impl TaskJob<Writer> for Entry {
    fn run(self, writer: &mut Writer, cx: &mut Context<'_, Writer>) {
        writer.waiting.push_back(self);
        writer.is_waiting(cx);
    }
}

impl TaskJob<Writer> for Changing {
    fn run(self, writer: &mut Writer, cx: &mut Context<'_, Writer>) {
        writer.changing.push_back(self);
        writer.is_waiting(cx);
    }
}

impl Writer {
    fn is_waiting(&mut self, cx: &mut Context<'_, Self>) {
        if !self.is_due {
            // Behind all that is in the mailbox now: what is there shares the commit.
            self.is_due = true;
            self.commit_soon(cx);
        }
    }

    fn commit_soon(&mut self, cx: &mut Context<'_, Self>) {
        let due = cx.submit(|writer: &mut Self, cx| {
            writer.is_due = false;
            let (group, entries) = (cx.group(), writer.meter.entries());
            let begun_ns = group.now_ns();
            writer.commit(begun_ns);
            let written = writer.meter.entries() - entries;
            writer.meter.took(written, group.now_ns() - begun_ns);
            writer.keep(cx);
            if !writer.waiting.is_empty() || !writer.changing.is_empty() {
                writer.is_due = true;
                writer.commit_soon(cx);
            } else if !writer.behind.is_empty() && !writer.is_trailing {
                writer.trail(cx);
            }
        });
        if due.is_err() {
            // The mailbox is full of entries: their turn is now.
            self.is_due = false;
            self.commit(cx.now_ns());
        }
    }

    /// Has the store put in order, by its keeper if that is in time.
    fn keep(&mut self, cx: &mut Context<'_, Self>) {
        match self.store.upkeep() {
            Upkeep::Now => {
                if let Err(error) = self.store.keep() {
                    tracing::warn!(%error, "the store is not put in order");
                }
            }
            Upkeep::Soon if !self.is_keeping => {
                self.is_keeping = true;
                let kept = self.keeper.call(|keeper, _| keeper.keep());
                cx.on_completion(kept, |writer: &mut Self, _, kept| {
                    writer.is_keeping = false;
                    if let Ok(Err(error)) = kept {
                        tracing::warn!(%error, "the store is not put in order");
                    }
                });
            }
            _ => {}
        }
    }

    /// Refuses plans that are new if there is no room for them.
    fn refuse_new(&mut self) {
        let is_new = |entry: &Entry| entry.append.prev == 0;
        if !self.waiting.iter().any(is_new) {
            return;
        }
        let Err(error) = self.store.takes_plans() else { return };
        for entry in std::mem::take(&mut self.waiting) {
            if is_new(&entry) {
                (entry.ticket)(Err(error.clone()));
            } else {
                self.waiting.push_back(entry);
            }
        }
    }

    /// Commits what waits, at most [`COMMIT_APPENDS_MAX`] entries.
    fn commit(&mut self, now_ns: u64) {
        self.refuse_new();
        let is_alone = |changing: &Changing| changing.change.is_alone();
        let shared = self.changing.iter().position(is_alone).unwrap_or(self.changing.len());
        let needs_own = shared == 0 && !self.changing.is_empty();
        let count = if needs_own { 0 } else { self.waiting.len().min(COMMIT_APPENDS_MAX) };
        let mut appends = Vec::with_capacity(count);
        let mut tickets = Vec::with_capacity(count);
        for Entry { append, row, tally, ticket } in self.waiting.drain(..count) {
            appends.push(append);
            tickets.push((row, tally, ticket));
        }
        let mut changes = Vec::new();
        let mut changers = Vec::new();
        let changing = if needs_own { 1 } else { shared.min(COMMIT_APPENDS_MAX) };
        for Changing { change, ticket } in self.changing.drain(..changing) {
            changes.push(change);
            changers.push(ticket);
        }
        if appends.is_empty() && changes.is_empty() {
            return;
        }
        let slice = self.behind.len().saturating_sub(ROWS_BEHIND).min(COMMIT_ROWS_MAX);
        match self.write(&appends, &changes, slice) {
            Ok(mut verdicts) => {
                let changed = verdicts.split_off(count);
                self.listeners.durable(&appends, &verdicts);
                let mut durable = Vec::with_capacity(count);
                let entries = appends.iter().zip(tickets).zip(verdicts);
                for ((append, (mut row, tally, ticket)), verdict) in entries {
                    if let Verdict::Written(seq) = verdict {
                        self.locks.changed(append);
                        row.head = seq;
                        self.last = seq;
                        self.is_behind(seq, row);
                        self.meter.entry(tally, append.records.len(), now_ns);
                    }
                    durable.push((ticket, verdict));
                }
                self.forget_written();
                durable.extend(changers.into_iter().zip(changed));
                durable.into_iter().for_each(|(ticket, verdict)| ticket(Ok(verdict)));
            }
            Err(error) => {
                tracing::error!(%error, entries = count, "a commit failed; nothing of it was kept");
                for ticket in tickets.into_iter().map(|(_, _, ticket)| ticket).chain(changers) {
                    ticket(Err(error.clone()));
                }
            }
        }
    }

    fn is_behind(&mut self, seq: Seq, mut row: PlanRow) {
        let plan = row.id;
        self.heads.0.lock().insert(plan, row.head);
        match self.behind.entry(plan) {
            std::collections::hash_map::Entry::Occupied(mut known) => {
                if row.snapshot.is_none() {
                    row.snapshot = known.get_mut().snapshot.take();
                }
                known.insert(row);
            }
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(row);
                self.order.push_back((seq, plan));
            }
        }
    }

    /// Writes entries, and the rows that are behind longest.
    fn write(
        &mut self,
        appends: &[Append],
        changes: &[Change],
        rows: usize,
    ) -> Result<Vec<Verdict>, StoreError> {
        let count = rows.min(self.order.len());
        let rows: Vec<PlanRow> =
            self.order.iter().take(count).map(|(_, plan)| self.behind[plan].clone()).collect();
        let is_found = |plan: &PlanId| rows.iter().any(|row| row.id == *plan);
        // An entry is projected when no row is behind because of it or of one before it.
        let projected = match self.order.get(count) {
            _ if !self.found.iter().all(is_found) => 0,
            Some((first, _)) => first - 1,
            None => self.last,
        };
        let verdicts = self.store.commit(&Batch { appends, changes, rows: &rows, projected });
        self.meter.committed(verdicts.is_ok());
        let verdicts = verdicts?;
        for row in &rows {
            self.behind.remove(&row.id);
            self.found.remove(&row.id);
            self.written.push((row.id, row.head));
        }
        self.order.drain(..count);
        Ok(verdicts)
    }

    /// Forgets the heads that rows say by now. Not before what was written with those rows is known: a
    /// plan that is read meanwhile must not be told an older head.
    fn forget_written(&mut self) {
        let mut heads = self.heads.0.lock();
        for (plan, head) in self.written.drain(..) {
            if heads.get(&plan) == Some(&head) {
                heads.remove(&plan);
            }
        }
    }

    /// Brings rows up to date, at most so many in all.
    fn write_rows(&mut self, mut count: usize) -> Result<(), StoreError> {
        while count > 0 && !self.order.is_empty() {
            let slice = count.min(COMMIT_ROWS_MAX);
            self.write(&[], &[], slice)?;
            self.forget_written();
            count -= slice;
        }
        Ok(())
    }

    /// Brings rows up to date a moment after the last entry, a slice at a time.
    fn trail(&mut self, cx: &mut Context<'_, Self>) {
        self.trail_after(ROWS_BEHIND_TIME, cx);
    }

    fn trail_after(&mut self, time: Duration, cx: &mut Context<'_, Self>) {
        let armed = cx.after(time, |writer: &mut Self, cx| {
            writer.is_trailing = false;
            let mut next = ROWS_BEHIND_TIME;
            if let Err(error) = writer.write_rows(COMMIT_ROWS_MAX) {
                tracing::warn!(%error, "rows stay behind their journal");
                next = ROWS_AGAIN;
            }
            writer.keep(cx);
            if !writer.behind.is_empty() {
                writer.trail_after(next, cx);
            }
        });
        self.is_trailing = armed.is_ok();
    }
}
