//! A store that fails when it is told to, and that can be watched.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use turnwheel_engine::internal::LETTERS;
use turnwheel_engine::store::{
    Append, Batch, Beat, Change, Hint, Mail, Members, Removal, ScheduleWrite, Seq, Store,
    StoreKeeper, StoreReader, StoreWriter, Swap, Upkeep, Verdict, WorldsWrite,
};
use turnwheel_engine::{PlanId, StoreError};

use crate::fault_reader::Reader;

/// A store over another one, whose commits fail when they are told to. Clones share everything.
///
/// Commits are counted from 1, over all writers. One that fails leaves nothing of itself behind, as the
/// contract of [`StoreWriter::commit`] says.
///
/// ```
/// use turnwheel_engine::store::{Batch, Store};
/// use turnwheel_testkit::FaultStore;
/// use turnwheel_engine::{MemoryStore, StoreError};
///
/// let store = FaultStore::new(MemoryStore::new());
/// store.fail_at(2, StoreError::Full("no room".to_owned()));
/// let mut writer = store.writer()?;
/// let nothing = Batch { changes: &[], appends: &[], rows: &[], projected: 0 };
/// assert!(writer.commit(&nothing).is_ok());
/// assert!(matches!(writer.commit(&nothing), Err(StoreError::Full(_))));
/// assert!(writer.commit(&nothing).is_ok());
/// assert_eq!(store.commits(), 3);
/// # Ok::<(), StoreError>(())
/// ```
#[derive(Clone)]
pub struct FaultStore {
    inner: Arc<dyn Store>,
    script: Arc<Mutex<Script>>,
}

#[derive(Default)]
pub(super) struct Script {
    commits: u64,
    at: BTreeMap<u64, StoreError>,
    loses_at: BTreeSet<u64>,
    /// Whether the answer of the write that is under way is to be lost.
    loses: bool,
    from: Option<(u64, StoreError)>,
    reads: u64,
    /// Plans that were read one by one.
    pub(super) loads: u64,
    reads_fail: Option<StoreError>,
    reads_at: BTreeMap<u64, StoreError>,
    pub(super) schedules_fail: Option<StoreError>,
    entries_fail: Option<StoreError>,
    /// Looks at the newest entry, and their error.
    pub(super) looks: u64,
    pub(super) looks_fail: Option<StoreError>,
    /// Entries that cannot be read.
    pub(super) damaged: BTreeMap<Seq, StoreError>,
    /// Whether writes wait, and who wakes them.
    is_stalled: bool,
    goes_on: Arc<Condvar>,
    observer: Option<Box<dyn Observer>>,
    injector: Option<Arc<dyn Injector>>,
    pub(super) twin: Option<Twin>,
    /// Whether a commit has failed.
    has_failed: bool,
}

/// A store, or a world over it, that is broken on purpose: runs over it must find something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Twin {
    /// Followers of plans are in memory only: a start reads none.
    ForgetsFollowers,
    /// Times at which plans wake are in memory only: a start reads none.
    ForgetsWakes,
    /// A start goes on with no plan that was under way.
    ForgetsBusy,
    /// A commit whose answer is lost is believed to have failed.
    DeniesLostAnswers,
    /// A commit that fails is believed to be made: its entries are not written again.
    SkipsFailedCommits,
    /// Dead letters are not written again after a commit has failed.
    DropsLetters,
    /// A wall clock that jumps is believed at once.
    BelievesClock,
}

/// Operations on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Read,
    Write,
}

/// Decides what becomes of each read and write, in the thread that makes it.
pub(super) trait Injector: Send + Sync {
    /// Before it is made: an error if nothing is to be done.
    fn before(&self, op: Op) -> Result<(), StoreError>;

    /// After a write was made: an error if its answer is to be lost.
    fn after(&self) -> Result<(), StoreError>;
}

/// Looks at each commit, in the thread that makes it.
pub(super) trait Observer: Send {
    /// A commit is about to be made: nothing of it is durable.
    fn begins(&mut self);

    /// A commit was made: all of it is durable, and nobody knows.
    fn ended(&mut self, batch: &Batch<'_>, verdicts: &[Verdict]);
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultStore")
            .field("inner", &self.inner)
            .field("commits", &self.commits())
            .finish_non_exhaustive()
    }
}

impl FaultStore {
    /// Over this store; nothing fails yet.
    pub fn new(inner: impl Store + 'static) -> Self {
        Self { inner: Arc::new(inner), script: Arc::default() }
    }

    pub(super) fn watched(inner: Arc<dyn Store>, observer: Box<dyn Observer>) -> Self {
        let script = Script { observer: Some(observer), ..Script::default() };
        Self { inner, script: Arc::new(Mutex::new(script)) }
    }

    /// With somebody who decides what fails.
    pub(super) fn injected(
        inner: Arc<dyn Store>,
        injector: Arc<dyn Injector>,
        twin: Option<Twin>,
    ) -> Self {
        let script = Script { injector: Some(injector), twin, ..Script::default() };
        Self { inner, script: Arc::new(Mutex::new(script)) }
    }

    /// How it is broken on purpose.
    pub(super) fn twin(&self) -> Option<Twin> {
        self.script.lock().twin
    }

    /// Fails one commit, by its number.
    pub fn fail_at(&self, commit: u64, error: StoreError) {
        self.script.lock().at.insert(commit, error);
    }

    /// Loses the answer of one commit, by its number: it is made, and its writer is told that it has
    /// failed.
    pub fn lose_answer_at(&self, commit: u64) {
        self.script.lock().loses_at.insert(commit);
    }

    /// Fails one read, by its number: they are counted from 1, over all readers.
    pub fn fail_read_at(&self, read: u64, error: StoreError) {
        self.script.lock().reads_at.insert(read, error);
    }

    /// Fails every commit from now on, until it is [healed](FaultStore::heal).
    pub fn fail(&self, error: StoreError) {
        let mut script = self.script.lock();
        script.from = Some((script.commits + 1, error));
    }

    /// Fails every read from now on, until it is [healed](FaultStore::heal).
    pub fn fail_reads(&self, error: StoreError) {
        self.script.lock().reads_fail = Some(error);
    }

    /// Fails every read of schedules from now on, until it is [healed](FaultStore::heal).
    pub fn fail_reads_of_schedules(&self, error: StoreError) {
        self.script.lock().schedules_fail = Some(error);
    }

    /// Fails every commit with entries from now on, until it is [healed](FaultStore::heal).
    pub fn fail_entries(&self, error: StoreError) {
        self.script.lock().entries_fail = Some(error);
    }

    /// Fails every look of live events at the newest entry, until it is healed.
    pub fn fail_looks(&self, error: StoreError) {
        self.script.lock().looks_fail = Some(error);
    }

    /// How many looks at the newest entry were tried.
    pub fn looks(&self) -> u64 {
        self.script.lock().looks
    }

    /// Fails every read that comes to the entry at this place, until it is healed.
    pub fn damage(&self, place: Seq, error: StoreError) {
        self.script.lock().damaged.insert(place, error);
    }

    /// Lets every write wait from now on, until it is [healed](FaultStore::heal): a disk that does
    /// not answer. For worlds with threads; in a simulation it would wait for itself.
    pub fn stall(&self) {
        self.script.lock().is_stalled = true;
    }

    /// Nothing fails or waits any more.
    pub fn heal(&self) {
        let mut script = self.script.lock();
        script.is_stalled = false;
        script.goes_on.notify_all();
        script.at.clear();
        script.loses_at.clear();
        script.from = None;
        script.reads_fail = None;
        script.reads_at.clear();
        script.schedules_fail = None;
        script.entries_fail = None;
        script.looks_fail = None;
        script.damaged.clear();
    }

    /// How many reads were tried.
    pub fn reads(&self) -> u64 {
        self.script.lock().reads
    }

    /// How many plans were read one by one.
    pub fn loads(&self) -> u64 {
        self.script.lock().loads
    }

    /// How many commits were tried.
    pub fn commits(&self) -> u64 {
        self.script.lock().commits
    }
}

impl Store for FaultStore {
    fn open(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        let (inner, script) = (self.inner.open()?, Arc::clone(&self.script));
        Ok(Box::new(Writer { inner, script }))
    }

    fn writer(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        let (inner, script) = (self.inner.writer()?, Arc::clone(&self.script));
        Ok(Box::new(Writer { inner, script }))
    }

    fn reader(&self) -> Result<Box<dyn StoreReader>, StoreError> {
        let (inner, script) = (self.inner.reader()?, Arc::clone(&self.script));
        Ok(Box::new(Reader { inner, script }))
    }

    fn members(&self) -> Result<Option<Box<dyn Members>>, StoreError> {
        let script = Arc::clone(&self.script);
        let inner = self.inner.members()?;
        Ok(inner.map(|inner| Box::new(Heartbeats { inner, script }) as Box<dyn Members>))
    }

    fn keeper(&self) -> Result<Box<dyn StoreKeeper>, StoreError> {
        self.inner.keeper()
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

struct Writer {
    inner: Box<dyn StoreWriter>,
    script: Arc<Mutex<Script>>,
}

impl StoreWriter for Writer {
    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    fn last(&self) -> Seq {
        self.inner.last()
    }

    fn remove(&mut self, plans: &[Removal]) -> Result<usize, StoreError> {
        Script::inject(&self.script, Op::Write)?;
        self.watched(None, |inner| inner.remove(plans), |_| &[])
    }

    fn free(&mut self, locks: &[(String, PlanId)]) -> Result<(), StoreError> {
        Script::inject(&self.script, Op::Write)?;
        self.watched(None, |inner| inner.free(locks), |()| &[])
    }

    fn settled(&mut self) -> Result<(), StoreError> {
        Script::inject(&self.script, Op::Write)?;
        self.inner.settled()
    }

    fn takes_plans(&mut self) -> Result<(), StoreError> {
        self.inner.takes_plans()
    }

    fn upkeep(&self) -> Upkeep {
        self.inner.upkeep()
    }

    fn keep(&mut self) -> Result<(), StoreError> {
        self.inner.keep()
    }

    fn commit(&mut self, batch: &Batch<'_>) -> Result<Vec<Verdict>, StoreError> {
        let twin = self.script.lock().twin;
        if let Err(error) = Script::begin(&self.script, Op::Write) {
            self.script.lock().has_failed = true;
            return match twin {
                Some(Twin::SkipsFailedCommits) => Ok(as_if_made(self.inner.last(), batch)),
                _ => Err(error),
            };
        }
        let refused = self.script.lock().entries_fail.clone();
        if let Some(error) = refused.filter(|_| !batch.appends.is_empty()) {
            return Err(error);
        }
        if twin == Some(Twin::DropsLetters) && self.script.lock().has_failed {
            return self.without_letters(batch);
        }
        self.watched(Some(batch), |inner| inner.commit(batch), |verdicts| verdicts.as_slice())
    }

    fn written_after(&mut self, place: Seq) -> Result<Vec<(Seq, PlanId, Seq)>, StoreError> {
        Script::begin(&self.script, Op::Read)?;
        match self.script.lock().twin {
            Some(Twin::DeniesLostAnswers) => Ok(Vec::new()),
            _ => self.inner.written_after(place),
        }
    }

    fn written(&mut self, entries: &[&Append], place: Seq) -> Result<Vec<Option<Seq>>, StoreError> {
        Script::begin(&self.script, Op::Read)?;
        match self.script.lock().twin {
            Some(Twin::DeniesLostAnswers) => Ok(vec![None; entries.len()]),
            _ => self.inner.written(entries, place),
        }
    }

    fn declare_dead(&mut self, write: &WorldsWrite) -> Result<Swap, StoreError> {
        Script::begin(&self.script, Op::Write)?;
        self.watched(None, |inner| inner.declare_dead(write), |_| &[])
    }

    fn write_schedules(&mut self, writes: &[ScheduleWrite]) -> Result<Vec<Swap>, StoreError> {
        Script::begin(&self.script, Op::Write)?;
        self.watched(None, |inner| inner.write_schedules(writes), |_| &[])
    }

    fn write_worlds(&mut self, write: &WorldsWrite) -> Result<Swap, StoreError> {
        Script::begin(&self.script, Op::Write)?;
        self.watched(None, |inner| inner.write_worlds(write), |_| &[])
    }
}

/// Heartbeats fail with the reads: both are cut off with their node.
struct Heartbeats {
    inner: Box<dyn Members>,
    script: Arc<Mutex<Script>>,
}

impl Members for Heartbeats {
    fn beat(&mut self, worlds: &[u64], lease: Duration) -> Result<Beat, StoreError> {
        Script::begin(&self.script, Op::Read)?;
        self.inner.beat(worlds, lease)
    }

    fn post(&mut self, mail: &[Mail]) -> Result<bool, StoreError> {
        Script::begin(&self.script, Op::Read)?;
        self.inner.post(mail)
    }

    fn mail(&mut self, worlds: &[u64], rows: usize, bytes: usize) -> Result<Vec<Mail>, StoreError> {
        Script::begin(&self.script, Op::Read)?;
        self.inner.mail(worlds, rows, bytes)
    }

    fn listen(&mut self, hint: Hint) {
        self.inner.listen(hint);
    }
}

/// The outcome of a commit that was not made.
fn as_if_made(last: Seq, batch: &Batch<'_>) -> Vec<Verdict> {
    let appends = (last + 1..).zip(batch.appends).map(|(seq, _)| Verdict::Written(seq));
    appends.chain(batch.changes.iter().map(change_as_if_made)).collect()
}

fn change_as_if_made(change: &Change) -> Verdict {
    match change.parts().1 {
        Change::State { expected, .. } => Verdict::Changed(expected + 1),
        _ => Verdict::Changed(1),
    }
}

impl Writer {
    /// Commits a batch as if it had no dead letters.
    fn without_letters(&mut self, batch: &Batch<'_>) -> Result<Vec<Verdict>, StoreError> {
        let is_letter =
            |change: &Change| matches!(change, Change::State { entity, .. } if *entity == LETTERS);
        let changes: Vec<Change> =
            batch.changes.iter().filter(|it| !is_letter(it)).cloned().collect();
        let rest = Batch {
            appends: batch.appends,
            changes: &changes,
            rows: batch.rows,
            projected: batch.projected,
        };
        let made =
            self.watched(Some(&rest), |inner| inner.commit(&rest), |verdicts| verdicts.as_slice())?;
        let (appends, made) = made.split_at(batch.appends.len());
        let mut made = made.iter().cloned();
        let changes = batch.changes.iter().map(|change| match is_letter(change) {
            true => change_as_if_made(change),
            false => made.next().expect("each change has an outcome"),
        });
        Ok(appends.iter().cloned().chain(changes).collect())
    }

    /// Writes, and lets the observer look at it.
    fn watched<T>(
        &mut self,
        batch: Option<&Batch<'_>>,
        write: impl FnOnce(&mut dyn StoreWriter) -> Result<T, StoreError>,
        verdicts: impl FnOnce(&T) -> &[Verdict],
    ) -> Result<T, StoreError> {
        let mut script = self.script.lock();
        if let Some(observer) = &mut script.observer {
            observer.begins();
        }
        let written = write(&mut *self.inner)?;
        if let Some(observer) = &mut script.observer {
            let nothing = Batch { changes: &[], appends: &[], rows: &[], projected: 0 };
            observer.ended(batch.unwrap_or(&nothing), verdicts(&written));
        }
        drop(script);
        Script::answer(&self.script).map(|()| written)
    }
}

impl Script {
    /// One more read or write; the error that it is to have.
    pub(super) fn begin(script: &Mutex<Self>, op: Op) -> Result<(), StoreError> {
        if op == Op::Write {
            Self::wait_while_stalled(script);
        }
        script.lock().count(op)?;
        Self::inject(script, op)
    }

    fn wait_while_stalled(script: &Mutex<Self>) {
        let mut script = script.lock();
        let goes_on = Arc::clone(&script.goes_on);
        while script.is_stalled {
            goes_on.wait(&mut script);
        }
    }

    /// What the injector says. The script is not locked meanwhile.
    fn inject(script: &Mutex<Self>, op: Op) -> Result<(), StoreError> {
        let injector = script.lock().injector.clone();
        injector.map_or(Ok(()), |injector| injector.before(op))
    }

    /// A write was made: whether its writer is told.
    fn answer(script: &Mutex<Self>) -> Result<(), StoreError> {
        if std::mem::take(&mut script.lock().loses) {
            return Err(StoreError::Failed("chosen to lose its answer".to_owned()));
        }
        let injector = script.lock().injector.clone();
        injector.map_or(Ok(()), |injector| injector.after())
    }

    fn count(&mut self, op: Op) -> Result<(), StoreError> {
        if op == Op::Read {
            self.reads += 1;
            let error = self.reads_at.get(&self.reads).or(self.reads_fail.as_ref());
            return error.cloned().map_or(Ok(()), Err);
        }
        self.commits += 1;
        let number = self.commits;
        self.loses = self.loses_at.contains(&number);
        let error = match &self.from {
            Some((from, error)) if *from <= number => Some(error.clone()),
            _ => self.at.get(&number).cloned(),
        };
        error.map_or(Ok(()), Err)
    }
}
