//! Copying a store into another one: from a file into a database, say, and back.
//!
//! 1. The source is opened once without running anything, so that its rows are up to date, and is
//!    taken for this process: a store that is in use is refused.
//! 2. The target is marked with the name of the source. A target with anything in it and without
//!    that mark is refused; with it the copy goes on where it was.
//! 3. Entries of plans are appended in their order, and their rows follow: a plan with a row is
//!    whole. Then come schedules, states and reminders.
//! 4. Both are read from the begin, counted, and compared by a checksum.
//! 5. The mark goes.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use turnwheel_actors::entity::DueRange;

use super::{
    slot_of, slot_of_schedule, Append, Batch, Change, Filter, Order, PlanRow, RowWrite,
    ScheduleWrite, Seq, Slots, StateScan, Store, StoreReader, StoreWriter, Swap, Verdict,
    WorldKind, WorldRow, Worlds, WorldsWrite,
};
use crate::error::{BuildError, StoreError};
use crate::id::PlanId;
use crate::journal::decode;
use crate::plan::Record;
use crate::time::Time;
use crate::world::{Opening, World};

/// State of the target while it is copied into.
const MARK: &str = "turnwheel.copy";
const MARK_KEY: &str = "from";

/// Plans, schedules, states or reminders that are copied at once.
const PAGE: usize = 256;

/// The epoch of copied states and reminders.
const EPOCH: u64 = 1;

/// The content of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Content {
    /// Plans.
    pub plans: u64,
    /// Entries of their journals.
    pub entries: u64,
    /// Schedules.
    pub schedules: u64,
    /// States of entities, with those of jobs, journeys, flows and dead letters.
    pub states: u64,
    /// Reminders of entities.
    pub reminders: u64,
    /// A checksum of all of that, as hexadecimal digits.
    pub checksum: String,
}

/// A store could not be copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// One of the two stores failed, or another process has it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The source cannot be opened.
    #[error(transparent)]
    Open(#[from] BuildError),
    /// The target has something in it already.
    #[error("{0} is not empty: copy into a new file or schema")]
    NotEmpty(String),
    /// The target has a part of another store.
    #[error("{target} has a part of {origin}: go on with that copy, or take a new file or schema")]
    OtherOrigin {
        /// The name of the target.
        target: String,
        /// The store whose copy was begun.
        origin: String,
    },
    /// The target is not as the source is.
    #[error("the copy is not as its source: {from:?}, and then {to:?}; copy into a new target")]
    Differs {
        /// The source.
        from: Box<Content>,
        /// The target.
        to: Box<Content>,
    },
}

/// Copies a store into an empty one, or goes on with a copy that was interrupted. `told` is told of
/// the number of copied plans now and then. Returns what both have in the end.
///
/// Plans, their histories, keys and locks, schedules, states and reminders are copied. The tables
/// of users in a file and the work of their steps are not.
///
/// ```
/// use std::sync::Arc;
/// use turnwheel_engine::store::copy;
/// use turnwheel_engine::{MemoryStore, Time, World};
///
/// let (from, to) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
/// let copied = copy(from, to, &mut |_plans| {})?;
/// assert_eq!(copied.plans, 0);
/// # Ok::<(), turnwheel_engine::store::CopyError>(())
/// ```
///
/// # Errors
///
/// One of them is in use or failed, or the target is not empty. What was copied stays, and the
/// same call goes on with it.
pub fn copy(
    from: Arc<dyn Store>,
    to: Arc<dyn Store>,
    told: &mut dyn FnMut(u64),
) -> Result<Content, CopyError> {
    // Rows that are behind their journals are written by its end.
    World::builder().name("copy").opening(Opening::AtRest).build(Arc::clone(&from))?.shutdown()?;
    let _taken = from.writer()?;
    let mut source = from.reader()?;
    let mut target = Target::open(&*to, from.name())?;
    target.plans(&mut *source, told)?;
    target.schedules(&mut *source)?;
    target.states(&mut *source)?;
    target.reminders(&mut *source)?;
    let (has, got) = (content(&mut *source)?, content(&mut *target.reader)?);
    if has != got {
        return Err(CopyError::Differs { from: Box::new(has), to: Box::new(got) });
    }
    target.end()?;
    Ok(got)
}

/// The store that is copied into.
struct Target {
    writer: Box<dyn StoreWriter>,
    reader: Box<dyn StoreReader>,
    /// The owners of its slots: the world that copies.
    worlds: Worlds,
    mark: u64,
}

/// A plan on its way.
struct Plan {
    row: PlanRow,
    /// Entries that are left, the newest first.
    left: Vec<Vec<u8>>,
    /// The newest one in the target.
    head: Seq,
    key: Option<String>,
    take: Vec<String>,
    follow: Vec<PlanId>,
}

impl Target {
    fn open(store: &dyn Store, origin: String) -> Result<Self, CopyError> {
        let (mut writer, mut reader) = (store.writer()?, store.reader()?);
        let mark = reader.state(MARK, MARK_KEY)?;
        let version = match &mark.bytes {
            Some(bytes) if *bytes == origin.as_bytes() => mark.version,
            Some(bytes) => {
                let origin = String::from_utf8_lossy(bytes).into_owned();
                return Err(CopyError::OtherOrigin { target: store.name(), origin });
            }
            None if is_empty(&mut *reader)? => {
                let bytes = Some(origin.into_bytes());
                let mark = state(MARK, MARK_KEY, (bytes, None), mark.version);
                change(&mut *writer, vec![mark])?;
                1
            }
            None => return Err(CopyError::NotEmpty(store.name())),
        };
        let worlds = reader.worlds()?;
        let row = WorldRow {
            epoch: worlds.version + 1,
            name: "copy".to_owned(),
            kind: WorldKind::Executor,
            since: Time(0),
            slots: Slots::all(),
            meta: String::new(),
            claims: Vec::new(),
        };
        let gone = worlds.rows.iter().map(|row| row.epoch).collect();
        writer.write_worlds(&WorldsWrite { from: worlds.version, put: vec![row], gone })?;
        let worlds = reader.worlds()?;
        Ok(Self { writer, reader, worlds, mark: version })
    }

    fn epoch(&self, slot: usize) -> u64 {
        self.worlds.owners()[slot].epoch
    }

    fn plans(
        &mut self,
        source: &mut dyn StoreReader,
        told: &mut dyn FnMut(u64),
    ) -> Result<(), CopyError> {
        let (mut locks, mut follows) = (HashMap::new(), HashMap::new());
        for (name, plan) in source.locks()? {
            locks.entry(plan).or_insert_with(Vec::new).push(name);
        }
        for (first, waiting) in source.followers()? {
            follows.entry(waiting).or_insert_with(Vec::new).push(first);
        }
        let newest = Filter { limit: 1, ..Filter::default() };
        let mut after = self.reader.list(&newest)?.first().map(|row| row.id);
        let mut copied = 0;
        loop {
            let order = Order::OldestFirst;
            let rows = source.list(&Filter { order, after, limit: PAGE, ..Filter::default() })?;
            let Some(last) = rows.last().map(|row| row.id) else { return Ok(()) };
            after = Some(last);
            copied += rows.len() as u64;
            let mut page = Vec::new();
            for row in rows {
                let take = locks.remove(&row.id).unwrap_or_default();
                let follow = follows.remove(&row.id).unwrap_or_default();
                page.push(self.plan(source, row, take, follow)?);
            }
            self.append(&mut page)?;
            self.write_rows(page)?;
            told(copied);
        }
    }

    /// A plan, with the entries that the target does not have.
    fn plan(
        &mut self,
        source: &mut dyn StoreReader,
        row: PlanRow,
        take: Vec<String>,
        follow: Vec<PlanId>,
    ) -> Result<Plan, CopyError> {
        let entries = source.history(row.id, row.head)?.into_iter();
        let mut left: Vec<Vec<u8>> = entries.map(|(_, records)| records).collect();
        let records = left.first().map(|bytes| decode(row.id, bytes)).transpose()?;
        let key = records.and_then(|records| match records.into_iter().next() {
            Some(Record::Created(created)) => created.key,
            _ => None,
        });
        let key = match key {
            Some(key) if source.by_key(&key)? == Some(row.id) => Some(key),
            _ => None,
        };
        let (mut head, mut had) = (0, 0);
        if let Some(loaded) = self.reader.load(row.id, None)? {
            had = self.reader.history(row.id, loaded.head)?.len();
            head = loaded.head;
        }
        left.drain(..had.min(left.len()));
        left.reverse();
        Ok(Plan { row, left, head, key, take, follow })
    }

    /// Appends the entries of plans, one of each in a commit.
    fn append(&mut self, plans: &mut [Plan]) -> Result<(), CopyError> {
        loop {
            let mut appends = Vec::new();
            for plan in plans.iter_mut() {
                let Some(records) = plan.left.pop() else { continue };
                let is_last = plan.left.is_empty();
                let last = |names: &mut Vec<String>| match is_last {
                    true => std::mem::take(names),
                    false => Vec::new(),
                };
                let follow = if is_last { std::mem::take(&mut plan.follow) } else { Vec::new() };
                appends.push(Append {
                    plan: plan.row.id,
                    prev: plan.head,
                    epoch: self.worlds.owners()[slot_of(plan.row.id)].epoch,
                    records,
                    key: plan.key.take().filter(|_| plan.head == 0),
                    take: last(&mut plan.take),
                    release: Vec::new(),
                    follow,
                    unfollow: Vec::new(),
                });
            }
            if appends.is_empty() {
                return Ok(());
            }
            let verdicts = commit(&mut *self.writer, &appends, &[], &[])?;
            let places: BTreeMap<PlanId, Seq> = appends
                .iter()
                .zip(verdicts)
                .map(|(append, verdict)| match verdict {
                    Verdict::Written(seq) => Ok((append.plan, seq)),
                    other => Err(refused(&format!("plan {}", append.plan), &other)),
                })
                .collect::<Result<_, _>>()?;
            for plan in plans.iter_mut() {
                plan.head = places.get(&plan.row.id).copied().unwrap_or(plan.head);
            }
        }
    }

    fn write_rows(&mut self, plans: Vec<Plan>) -> Result<(), CopyError> {
        let row = |plan: Plan| {
            let epoch = self.epoch(slot_of(plan.row.id));
            let row = PlanRow { head: plan.head, snapshot: None, ..plan.row };
            RowWrite { row, epoch, is_refresh: false }
        };
        let rows: Vec<RowWrite> = plans.into_iter().map(row).collect();
        commit(&mut *self.writer, &[], &[], &rows)?;
        Ok(())
    }

    fn schedules(&mut self, source: &mut dyn StoreReader) -> Result<(), CopyError> {
        let mut after = String::new();
        loop {
            let page = source.schedules(&after, PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after.clone_from(&last.name);
            let write = |row: super::ScheduleRow| ScheduleWrite {
                epoch: self.epoch(slot_of_schedule(&row.name)),
                name: row.name,
                from: 0,
                data: Some(row.data),
            };
            let writes: Vec<ScheduleWrite> = page.into_iter().map(write).collect();
            // Those that were copied before have another version, and are compared in the end.
            let _done: Vec<Swap> = self.writer.write_schedules(&writes)?;
        }
    }

    fn states(&mut self, source: &mut dyn StoreReader) -> Result<(), CopyError> {
        for entity in entities(source)? {
            let mut after = String::new();
            loop {
                let page = source.states_of(&entity, &StateScan::After(after), PAGE)?;
                let Some(last) = page.last() else { break };
                after = last.key.clone();
                let write =
                    |row: super::StateRow| state(&entity, &row.key, (row.record.bytes, row.due), 0);
                change(&mut *self.writer, page.into_iter().map(write).collect())?;
            }
        }
        Ok(())
    }

    fn reminders(&mut self, source: &mut dyn StoreReader) -> Result<(), CopyError> {
        let mut range = DueRange::until(i64::MAX as u64, PAGE);
        loop {
            let page = source.reminders_due(&range)?;
            let Some(last) = page.last() else { return Ok(()) };
            range.after = Some((last.due_ms, last.id.clone()));
            let mut changes = Vec::new();
            for mut row in page {
                if self.reader.reminder(&row.id)?.is_none() {
                    row.version = 0;
                    changes.push(Change::Reminder { row: Box::new(row), epoch: EPOCH });
                }
            }
            change(&mut *self.writer, changes)?;
        }
    }

    /// The target is a store of its own from now on.
    fn end(mut self) -> Result<(), CopyError> {
        let mark = state(MARK, MARK_KEY, (None, None), self.mark);
        change(&mut *self.writer, vec![mark])?;
        let gone = self.worlds.rows.iter().map(|row| row.epoch).collect();
        let write = WorldsWrite { from: self.worlds.version, put: Vec::new(), gone };
        self.writer.write_worlds(&write)?;
        Ok(())
    }
}

fn refused(what: &str, verdict: &Verdict) -> CopyError {
    CopyError::Store(StoreError::Failed(format!("{what} is not copied: {verdict:?}")))
}

fn commit(
    writer: &mut dyn StoreWriter,
    appends: &[Append],
    changes: &[Change],
    rows: &[RowWrite],
) -> Result<Vec<Verdict>, StoreError> {
    // Rows follow all entries of their page.
    let projected = if rows.is_empty() { 0 } else { writer.last() };
    writer.commit(&Batch { appends, changes, rows, projected })
}

/// Writes states and reminders; those that were copied before are left as they are.
fn change(writer: &mut dyn StoreWriter, changes: Vec<Change>) -> Result<(), CopyError> {
    for verdict in commit(writer, &[], &changes, &[])? {
        if !matches!(verdict, Verdict::Changed(_) | Verdict::Conflict { .. }) {
            return Err(refused("a state", &verdict));
        }
    }
    Ok(())
}

fn state(
    entity: &str,
    key: &str,
    (bytes, due): (Option<Vec<u8>>, Option<Time>),
    expected: u64,
) -> Change {
    let (entity, key) = (entity.to_owned(), key.to_owned());
    Change::State { entity, key, bytes, due, expected, epoch: EPOCH }
}

/// Names of entities that have states, without the mark of a copy.
fn entities(reader: &mut dyn StoreReader) -> Result<Vec<String>, StoreError> {
    let mut names = reader.entities_with_states()?;
    names.retain(|name| name != MARK);
    Ok(names)
}

fn is_empty(reader: &mut dyn StoreReader) -> Result<bool, StoreError> {
    let one = Filter { limit: 1, ..Filter::default() };
    let has_plans = !reader.list(&one)?.is_empty() || !reader.behind()?.is_empty();
    let has_states = !entities(reader)?.is_empty();
    let has_reminders = !reader.reminders_due(&DueRange::until(i64::MAX as u64, 1))?.is_empty();
    Ok(!has_plans && !has_states && !has_reminders && reader.schedules("", 1)?.is_empty())
}

/// Counts a store and sums it up, whatever its places and versions are.
fn content(reader: &mut dyn StoreReader) -> Result<Content, StoreError> {
    let (mut content, mut sum) = (Content::default(), Sha256::new());
    let mut after = None;
    loop {
        let order = Order::OldestFirst;
        let rows = reader.list(&Filter { order, after, limit: PAGE, ..Filter::default() })?;
        let Some(last) = rows.last().map(|row| row.id) else { break };
        after = Some(last);
        for row in rows {
            content.plans += 1;
            for (_, records) in reader.history(row.id, row.head)? {
                content.entries += 1;
                sum.update(Sha256::digest(records));
            }
            let row = PlanRow { head: 0, snapshot: None, ..row };
            sum.update(Sha256::digest(format!("{row:?}")));
        }
    }
    let mut rest = (reader.locks()?, reader.followers()?);
    rest.0.sort_unstable();
    rest.1.sort_unstable();
    sum.update(Sha256::digest(format!("{rest:?}")));
    let mut after = String::new();
    while let Some(page) = Some(reader.schedules(&after, PAGE)?).filter(|page| !page.is_empty()) {
        for row in page {
            content.schedules += 1;
            sum.update(Sha256::digest(format!("{} {:?}", row.name, row.data)));
            after = row.name;
        }
    }
    states(reader, &mut content, &mut sum)?;
    let mut range = DueRange::until(i64::MAX as u64, PAGE);
    while let Some(page) = Some(reader.reminders_due(&range)?).filter(|page| !page.is_empty()) {
        for mut row in page {
            content.reminders += 1;
            range.after = Some((row.due_ms, row.id.clone()));
            (row.version, row.revision) = (0, 0);
            sum.update(Sha256::digest(format!("{row:?}")));
        }
    }
    for byte in sum.finalize() {
        // Writing to a text cannot fail.
        let _written = write!(content.checksum, "{byte:02x}");
    }
    Ok(content)
}

fn states(
    reader: &mut dyn StoreReader,
    content: &mut Content,
    sum: &mut Sha256,
) -> Result<(), StoreError> {
    let mut names = entities(reader)?;
    names.sort_unstable();
    for entity in names {
        let mut after = String::new();
        loop {
            let page = reader.states_of(&entity, &StateScan::After(after), PAGE)?;
            let Some(last) = page.last() else { break };
            after = last.key.clone();
            for row in page {
                content.states += 1;
                let place = format!("{entity} {} {:?}", row.key, row.due);
                sum.update(Sha256::digest(place));
                sum.update(Sha256::digest(row.record.bytes.unwrap_or_default()));
            }
        }
    }
    Ok(())
}
