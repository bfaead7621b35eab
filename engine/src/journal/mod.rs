//! The journal: one writer for all plans, which commits what has come together.
//!
//! Plans hand their entries over and go on when told that they are durable. While one commit is under
//! way the next batch gathers in the writer's mailbox, so that one sync of the disk serves all who
//! wait for it (group commit). The rows of the store follow a bounded number of entries behind.

mod changes;
mod codec;
mod delivery;
mod directory;
mod followers;
mod inbox;
mod locks;
mod meter;
mod node;
mod settle;
mod slot_states;
mod states;
mod unsure;
mod waits;
mod worlds;
mod writer;

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use turnwheel_runtime::{Completion, Group, Mailbox, Task};

pub(crate) use changes::Urgency;
use changes::{Changes, Changing};
pub(crate) use codec::encode;
pub use codec::{decode, decode_plan, encode_plan};
pub(crate) use delivery::Delivery;
pub(crate) use directory::Directory;
pub(crate) use followers::Followers;
use inbox::Inbox;
pub use locks::LockView;
pub(crate) use locks::{Held, Locks};
use meter::Meter;
pub(crate) use meter::Tally;
pub use meter::{JournalStats, Spread};
pub(crate) use node::Lease;
pub(crate) use slot_states::SlotStates;
pub(crate) use states::Durable;
pub use states::{StateWrite, TimedStates};
pub(crate) use unsure::is_refusal;
use writer::{Committing, Entry, Heads, Writer};

use crate::error::{not_taken, BuildError, StoreError};
use crate::id::PlanId;
use crate::limits::APPENDS_MAX;
use crate::store::{
    slot_of, Append, Change, Members, PlanRow, Removal, ScheduleWrite, Seq, Slots, Store,
    StoreReader, Swap, Verdict,
};
use crate::watch::{Bell, Buffer, Listeners};

/// Called with the outcome of a change.
pub(crate) type Ticket = Box<dyn FnOnce(Result<Verdict, StoreError>) + Send>;

/// Called with the outcomes of changes that are made in one commit, in their order.
pub(crate) type Tickets = Box<dyn FnOnce(Result<Vec<Verdict>, StoreError>) + Send>;

/// Called with the outcome of an entry, and before that each time that the store does not tell it.
pub(crate) type EntryTicket = Box<dyn FnMut(EntryOutcome) + Send>;

/// Outcome of an entry. The usual case is small: a message of two words.
pub(crate) enum EntryOutcome {
    /// It is durable.
    Written(Seq),
    /// The store did not admit it.
    Refused(Box<Verdict>),
    /// It comes back.
    NotWritten(Box<NotWritten>),
    /// Its commit has failed, and the store does not say whether it was made. The entry stays with
    /// the journal until it does.
    Unknown(Box<StoreError>),
}

impl From<Verdict> for EntryOutcome {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Written(seq) => Self::Written(seq),
            refused => Self::Refused(Box::new(refused)),
        }
    }
}

/// An entry that is to be written, with the row that follows from it.
pub(crate) struct NewEntry {
    pub(crate) append: Append,
    pub(crate) row: PlanRow,
    pub(crate) tally: Tally,
}

/// An entry that was not written comes back to its plan, which hands it over again.
pub(crate) struct NotWritten {
    pub(crate) error: StoreError,
    /// Whether it is this entry that cannot be encoded: the store is well.
    pub(crate) is_unencodable: bool,
    pub(crate) entry: Box<NewEntry>,
}

/// The journal of a world.
#[derive(Clone)]
pub(crate) struct Journal {
    writer: Task<Writer>,
    inbox: Arc<Inbox>,
    reader: Task<Box<dyn StoreReader>>,
    heads: Arc<Heads>,
    locks: Arc<Locks>,
    followers: Arc<Followers>,
    directory: Arc<Directory>,
    /// For heartbeats, if the store is shared with other processes.
    members: Option<Task<Box<dyn Members>>>,
    /// For rows between nodes, which heartbeats do not wait for.
    mail: Option<Task<Box<dyn Members>>>,
    lease: Option<Arc<Lease>>,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// A task of the journal, with room for so many entries as may wait.
fn bounded<S: Send + 'static>(group: &Group, name: &str, state: S) -> Result<Task<S>, BuildError> {
    let task = group.task(state).name(name).mailbox(Mailbox::bounded(APPENDS_MAX)).spawn();
    task.map_err(|error| BuildError::Threads(error.to_string()))
}

impl Journal {
    /// Takes a store for writing, for itself unless there is a lease, and starts its writer and
    /// reader in a group whose threads may block.
    pub(crate) fn open(
        store: &dyn Store,
        group: &Group,
        lease: Option<Duration>,
    ) -> Result<Self, BuildError> {
        let shared = || store.members()?.ok_or(BuildError::OneProcess(store.name()));
        let members = lease.map(|_| shared()).transpose()?;
        let mail = lease.map(|_| shared()).transpose()?;
        let lease = lease.map(|length| Arc::new(Lease::new(length)));
        let mut writer = if lease.is_some() { store.open()? } else { store.writer()? };
        let heads = Arc::new(Heads::default());
        let mut reader = store.reader()?;
        let (mut behind, mut held, mut following) = Default::default();
        if lease.is_none() {
            behind = reader.behind()?;
            held = locks::held(&mut *writer, &mut *reader, &behind)?;
            following = reader.followers()?;
        }
        heads.0.lock().extend(behind.iter().copied());
        let locks = Arc::new(Locks::new(held));
        let followers = Arc::new(Followers::new(following));
        let directory = Arc::new(Directory::new(reader.worlds()?, lease.is_some()));
        let threads = |error: &dyn fmt::Display| BuildError::Threads(error.to_string());
        let spawned = |members: Box<dyn Members>, name: &str| {
            group.task(members).name(name).spawn().map_err(|error| threads(&error))
        };
        let members = members.map(|members| spawned(members, "journal-members")).transpose()?;
        let mail = mail.map(|mail| spawned(mail, "journal-mail")).transpose()?;
        let keeper = group.task(store.keeper()?).name("journal-keeper").spawn();
        let reader = bounded(group, "journal-reader", reader)?;
        let inbox = Arc::new(Inbox::default());
        let state = Writer {
            keeper: keeper.map_err(|error| threads(&error))?,
            is_keeping: false,
            listeners: Listeners::default(),
            meter: Meter::new(),
            last: writer.last(),
            found: behind.into_iter().map(|(plan, _)| plan).collect(),
            refreshed: HashSet::new(),
            left: settle::Left::default(),
            store: writer,
            inbox: Arc::clone(&inbox),
            waiting: Vec::new(),
            committing: Committing::default(),
            changing: Changes::default(),
            is_due: false,
            unsure: None,
            is_outdated: false,
            lease: lease.clone(),
            joining: None,
            worlds_known: worlds::Known::default(),
            behind: writer::ByPlan::default(),
            order: VecDeque::new(),
            written: Vec::new(),
            heads: Arc::clone(&heads),
            is_trailing: false,
            locks: Arc::clone(&locks),
            followers: Arc::clone(&followers),
            directory: Arc::clone(&directory),
            reader: reader.clone(),
        };
        let writer = bounded(group, "journal-writer", state)?;
        if lease.is_some() {
            let settles = writer.submit(|writer: &mut Writer, cx| writer.settle_later(cx));
            settles.map_err(|error| threads(&error.kind))?;
        }
        Ok(Self { writer, inbox, reader, heads, locks, followers, directory, members, mail, lease })
    }

    /// The locks of plans, as of the last commit.
    pub(crate) fn locks(&self) -> &Arc<Locks> {
        &self.locks
    }

    /// The plans that wait for the end of others, as of the last commit.
    pub(crate) fn followers(&self) -> &Followers {
        &self.followers
    }

    /// The worlds that write here.
    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Carries rows between nodes.
    pub(crate) fn mail(&self) -> Option<&Task<Box<dyn Members>>> {
        self.mail.as_ref()
    }

    /// Hands over an entry with the row that follows from it; the ticket is called when it is durable,
    /// or when it is not. Outcomes that the store has decided are delivered by commits.
    pub(crate) fn append(&self, entry: NewEntry, ticket: EntryTicket, delivery: &Delivery) {
        let entry = Entry { entry, ticket, delivery: delivery.clone() };
        self.inbox.put(entry, &self.writer);
    }

    /// Hands over a change of what is kept beside plans; the ticket is called when it is durable, or
    /// when it is not.
    pub(crate) fn change(&self, change: Change, urgency: Urgency, ticket: Ticket) {
        let tickets = move |verdicts: Result<Vec<Verdict>, StoreError>| {
            let lost = || StoreError::Failed("a change has no outcome".to_owned());
            ticket(verdicts.and_then(|mut verdicts| verdicts.pop().ok_or_else(lost)));
        };
        self.change_all(vec![change], urgency, Box::new(tickets));
    }

    /// The same for changes that are made in one commit, each by its own conditions. At most
    /// [`TOGETHER_MAX`](crate::limits::TOGETHER_MAX), and none that needs a commit of its own.
    pub(crate) fn change_all(&self, changes: Vec<Change>, urgency: Urgency, tickets: Tickets) {
        if let Err(error) = self.writer.submit_job(Changing { changes, tickets, urgency }) {
            let problem = format!("it takes nothing more: {}", not_taken(error.kind));
            (error.job.tickets)(Err(StoreError::Failed(problem)));
        }
    }

    /// Brings a row up to date without a new entry, if its slot still has this epoch. A plan that
    /// was removed meanwhile stays removed.
    pub(crate) fn update(&self, row: PlanRow, epoch: u64) {
        let update = self.writer.submit(move |writer, cx| {
            if writer.directory.epoch_here(row.id) != epoch {
                return;
            }
            writer.refresh(row);
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

    /// The counts so far.
    pub(crate) fn stats(&self) -> Completion<JournalStats> {
        self.writer.call(|writer, cx| {
            let mut stats = writer.meter.stats(cx.now_ns());
            stats.rows_behind = writer.behind.len() as u64;
            stats.entries_waiting = (writer.waiting.len() + writer.inbox.len()) as u64;
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

    /// Rings when entries of this process become durable, as long as the bell is kept.
    pub(crate) fn ring(&self, bell: &Arc<Bell>) {
        let bell = Arc::clone(bell);
        let added = self.writer.submit(move |writer, _| writer.listeners.add_bell(&bell));
        if let Err(error) = added {
            // It is only a hint.
            tracing::debug!(kind = %error.kind, "own entries are looked for later");
        }
    }

    /// Brings all rows up to date: a query after the completion sees everything that was durable
    /// before.
    pub(crate) fn flush(&self) -> Completion<Result<(), StoreError>> {
        self.writer.call(|writer, _| writer.write_rows(usize::MAX))
    }

    /// The plans of a world whose newest entries are not written.
    pub(crate) fn unwritten(&self, world: u64) -> Completion<Vec<PlanId>> {
        self.writer.call(move |writer, cx| writer.unwritten(world, cx.now_ns()))
    }

    /// The plans whose rows were behind at the start and still are.
    pub(crate) fn found(&self) -> Completion<Vec<PlanId>> {
        self.writer.call(|writer, _| {
            let mut found: Vec<PlanId> = writer.found.iter().copied().collect();
            found.sort_unstable();
            found
        })
    }

    /// Removes those of the plans that are stopped and whose newest entry is still this one.
    /// Returns their number.
    pub(crate) fn remove(
        &self,
        mut plans: Vec<(PlanId, Seq)>,
    ) -> Completion<Result<usize, StoreError>> {
        self.writer.call(move |writer, cx| {
            plans.retain(|(plan, _)| !writer.behind.contains_key(plan));
            let directory = &writer.directory;
            let removal = |(plan, head)| Removal { plan, head, epoch: directory.epoch_here(plan) };
            let plans: Vec<Removal> = plans.into_iter().map(removal).collect();
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

    /// The plans of these slots whose rows are behind, with their newest entries, by id.
    pub(crate) fn behind_in(&self, slots: &Slots) -> Vec<(PlanId, Option<Seq>)> {
        let heads = self.heads.0.lock();
        let in_them = heads.iter().filter(|(plan, _)| slots.has(slot_of(**plan)));
        let mut plans: Vec<_> = in_them.map(|(plan, head)| (*plan, Some(*head))).collect();
        plans.sort_unstable();
        plans
    }

    /// The newest entry of a plan whose row is behind.
    pub(crate) fn head(&self, plan: PlanId) -> Option<Seq> {
        self.heads.0.lock().get(&plan).copied()
    }
}
