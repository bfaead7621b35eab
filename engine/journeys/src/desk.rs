//! The task that changes the rows of users, one at a time for each user.
//!
//! 1. Requests for a user wait in a line. If it is free, the row is read, with those of the other
//!    users that wait for a read. The same read sees whether definitions have changed, so a caller
//!    that asks after a definition was stored anywhere finds it.
//! 2. All requests of the line are decided on that row; what follows is written from the version
//!    that was read, with other users in one commit (`writing.rs`). A second writer, on another
//!    node, gets a conflict, and decides anew. A node that owns the slot of the user writes under
//!    its epoch: one that stood still while the slot went to another node is refused.
//! 3. When that is durable the requests are answered, and messages are sent (`sending.rs`).
//!
//! Nothing of a user is in memory while nothing is under way for the user, and what is under way is
//! bounded.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use turnwheel_actors::entity::{Record, StoreError};
use turnwheel_engine::internal::{self, WeakWorld};
use turnwheel_engine::{Time, TimedStates};
use turnwheel_runtime::{Context, Group};

use crate::batch::{self, Found, BATCH};
use crate::channel::Channels;
use crate::definitions::{Definitions, INDEX};
use crate::error::JourneyError;
use crate::event::Event;
use crate::limits::{AGAIN, CONFLICTS_MAX, READS_MAX, READ_MAX, UNHEARD_MAX};
use crate::notes::Untold;
use crate::row::{BatchId, Row};
use crate::sending::Batches;
use crate::view::to_ms;
use crate::walk::Turn;
use crate::writing::{Write, Writing};

/// Name of the states of users: short, as it is in each row twice.
pub(crate) const USER: &str = "tw.user";

/// A change of a row, and its answer once it is durable.
pub(crate) trait Request: Send {
    /// Decides. It may be called again, on another row.
    fn decide(&mut self, turn: &mut Turn<'_>);
    /// Answers: the last decision is durable, or not made.
    fn answer(self: Box<Self>, outcome: Result<(), JourneyError>);
    /// The event that it brings.
    fn event(&self) -> Option<&Event> {
        None
    }
    /// Whether it comes from within, and needs no look at the definitions.
    fn is_own(&self) -> bool {
        false
    }
    /// Whether nobody waits for it: its write leaves events their place.
    fn is_background(&self) -> bool {
        self.is_own()
    }
    /// Whether it must not get lost while the store is in trouble.
    fn is_kept(&self) -> bool {
        false
    }
    /// Whether it comes because the stored time of its user has come.
    fn is_due(&self) -> bool {
        false
    }
    /// The batch that needs the message of this user no more once the decision is durable.
    fn settles(&self) -> Option<BatchId> {
        None
    }
}

/// Told when a due user was looked at, and of due times that are new.
pub(crate) type Alarm = Arc<dyn Fn(Option<Time>) + Send + Sync>;

pub(crate) struct Desk {
    pub(crate) world: WeakWorld,
    pub(crate) group: Group,
    pub(crate) states: TimedStates,
    /// The same, for writes that nobody waits for.
    pub(crate) background: TimedStates,
    pub(crate) definitions: Arc<Definitions>,
    pub(crate) channels: Channels,
    pub(crate) alarm: Alarm,
    /// Whether messages stay where they are.
    pub(crate) is_at_rest: bool,
    /// Requests that are under way at once, at most.
    pub(crate) requests_max: usize,
    pub(crate) state: State,
}

/// Work under way at a desk.
pub(crate) struct State {
    pub(crate) lines: HashMap<String, Line>,
    /// Users whose rows wait to be read.
    unread: VecDeque<String>,
    /// Events that nobody listens to, unless a definition has come: they wait for the index.
    unheard: VecDeque<(String, Box<dyn Request>)>,
    /// Questions to the store that are under way.
    reads: usize,
    /// Requests that are not answered.
    requests: usize,
    pub(crate) writing: Writing,
    pub(crate) batches: Batches,
    /// Conditions that have failed, and are in no history.
    untold: Untold,
}

impl State {
    pub(crate) fn new(batches: Batches) -> Self {
        Self {
            lines: HashMap::new(),
            unread: VecDeque::new(),
            unheard: VecDeque::new(),
            reads: 0,
            requests: 0,
            writing: Writing::default(),
            batches,
            untold: Untold::default(),
        }
    }
}

/// Versions of rows, the rows, and batches that they name.
type Read = (Vec<u64>, Vec<Result<Row, String>>, Found);

/// The requests of a user.
#[derive(Default)]
pub(crate) struct Line {
    requests: VecDeque<Box<dyn Request>>,
    is_busy: bool,
    /// The row as it is stored, while there is something under way.
    pub(crate) row: Option<(Row, u64)>,
    /// Messages that are being sent, each of another pass.
    pub(crate) sending: u32,
    conflicts: u32,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("users", &self.state.lines.len()).finish_non_exhaustive()
    }
}

impl Desk {
    pub(crate) fn now(&self) -> u64 {
        to_ms(now(&self.world, &self.group))
    }

    pub(crate) fn take(
        &mut self,
        key: String,
        request: Box<dyn Request>,
        cx: &mut Context<'_, Self>,
    ) {
        if self.state.requests >= self.requests_max && !request.is_own() {
            return request.answer(Err(JourneyError::Busy));
        }
        self.admit(key, request, cx);
    }

    /// The same for requests of one user that came together: a place for the first is a place for all.
    pub(crate) fn take_all(
        &mut self,
        key: &str,
        requests: Vec<Box<dyn Request>>,
        cx: &mut Context<'_, Self>,
    ) {
        if self.state.requests >= self.requests_max {
            let refuse = |request: Box<dyn Request>| request.answer(Err(JourneyError::Busy));
            return requests.into_iter().for_each(refuse);
        }
        for request in requests {
            self.admit(key.to_owned(), request, cx);
        }
    }

    fn admit(&mut self, key: String, request: Box<dyn Request>, cx: &mut Context<'_, Self>) {
        self.state.requests += 1;
        if !self.hears(&*request) {
            self.state.unheard.push_back((key, request));
            return self.read(cx);
        }
        self.line_up(key, request, cx);
    }

    fn line_up(&mut self, key: String, request: Box<dyn Request>, cx: &mut Context<'_, Self>) {
        self.state.lines.entry(key.clone()).or_default().requests.push_back(request);
        self.go_on(key, cx);
    }

    /// Whether a request can depend on the row of its user.
    fn hears(&self, request: &dyn Request) -> bool {
        let Some(event) = request.event() else { return true };
        self.definitions.current().hears(&event.platform, &event.kind)
    }

    /// The same with the row as it was just read, by a reader that has looked at the definitions.
    pub(crate) fn take_read(
        &mut self,
        (key, record): (String, Record),
        request: Box<dyn Request>,
        cx: &mut Context<'_, Self>,
    ) {
        let line = self.state.lines.entry(key.clone()).or_default();
        if line.is_busy || line.row.is_some() {
            return self.take(key, request, cx);
        }
        self.state.requests += 1;
        line.requests.push_back(request);
        line.is_busy = true;
        self.decoded((key, record.version), decode(record.bytes), &Found::default(), cx);
    }

    /// Reads the row if it is not known, or decides.
    pub(crate) fn go_on(&mut self, key: String, cx: &mut Context<'_, Self>) {
        let now = self.now();
        let Some(line) = self.state.lines.get_mut(&key) else { return };
        if line.is_busy {
            return;
        }
        if line.requests.is_empty() {
            let is_ready =
                line.row.as_ref().is_some_and(|(row, _)| row.ready(now).next().is_some());
            if self.is_at_rest || !is_ready {
                if line.sending == 0 {
                    self.state.lines.remove(&key);
                }
                return;
            }
            // One decision gives one message to a batch: the next message is the next decision.
        }
        line.is_busy = true;
        match line.row.take() {
            Some((row, version)) if line.requests.iter().all(|request| request.is_own()) => {
                self.decoded((key, version), Ok(row), &Found::default(), cx);
            }
            _ => {
                self.state.unread.push_back(key);
                self.read(cx);
            }
        }
    }

    /// Reads the rows of users that wait for it, unless enough reads are under way.
    fn read(&mut self, cx: &mut Context<'_, Self>) {
        let is_idle = self.state.unread.is_empty() && self.state.unheard.is_empty();
        if self.state.reads >= READS_MAX || is_idle {
            return;
        }
        self.state.reads += 1;
        let count = self.state.unread.len().min(READ_MAX);
        let keys: Vec<String> = self.state.unread.drain(..count).collect();
        let count = self.state.unheard.len().min(UNHEARD_MAX);
        let unheard: Vec<(String, Box<dyn Request>)> = self.state.unheard.drain(..count).collect();
        let of = keys.iter().map(|key| (USER.to_owned(), key.clone()));
        // The index last: it names all definitions that the rows refer to.
        let of = of.chain([(INDEX.0.to_owned(), INDEX.1.to_owned())]).collect();
        let (states, definitions) = (self.states.clone(), Arc::clone(&self.definitions));
        let own = self.state.batches.own.clone();
        let read = async move {
            let mut records = states.load_all(of).await.map_err(JourneyError::failed)?;
            let index = records.pop().map_or(0, |index| index.version);
            definitions.reach(index).await?;
            let versions: Vec<u64> = records.iter().map(|record| record.version).collect();
            let rows: Vec<_> = records.into_iter().map(|record| decode(record.bytes)).collect();
            let named = batch::named(&rows, &own);
            if named.is_empty() {
                return Ok((versions, rows, Found::default()));
            }
            let of = named.iter().map(|batch| (BATCH.to_owned(), batch.key())).collect();
            let records = states.load_all(of).await.map_err(JourneyError::failed)?;
            Ok((versions, rows, batch::found(named, records)))
        };
        cx.await_interleaved(read, move |desk: &mut Self, cx, read| {
            desk.state.reads -= 1;
            desk.seen(keys, unheard, read, cx);
            desk.write(cx);
            desk.read(cx);
        });
    }

    fn seen(
        &mut self,
        keys: Vec<String>,
        unheard: Vec<(String, Box<dyn Request>)>,
        read: Result<Read, JourneyError>,
        cx: &mut Context<'_, Self>,
    ) {
        match read {
            Ok((versions, rows, found)) => {
                for (of, row) in keys.into_iter().zip(versions).zip(rows) {
                    self.decoded(of, row, &found, cx);
                }
                for (key, request) in unheard {
                    match self.hears(&*request) {
                        true => self.line_up(key, request, cx),
                        false => self.pass_by(&key, request),
                    }
                }
            }
            Err(error) => {
                self.state.requests -= unheard.len();
                for (_, request) in unheard {
                    request.answer(Err(error.clone()));
                }
                keys.into_iter().for_each(|key| self.fail(key, &error.to_string(), cx));
            }
        }
    }

    /// Answers an event that nobody listens to. It is the same for all rows, so none is read.
    fn pass_by(&mut self, key: &str, mut request: Box<dyn Request>) {
        let (mut row, catalogue) = (Row::default(), self.definitions.current());
        request.decide(&mut Turn::new(&catalogue, key, &mut row, self.now()));
        self.state.requests -= 1;
        request.answer(Ok(()));
    }

    /// Decides on a row, unless it names batches that have to be read first.
    fn decoded(
        &mut self,
        (key, version): (String, u64),
        row: Result<Row, String>,
        found: &Found,
        cx: &mut Context<'_, Self>,
    ) {
        let mut row = match row {
            Ok(row) => row,
            Err(problem) => {
                tracing::error!(user = key, %problem, "a row cannot be read");
                return self.fail(key, &problem, cx);
            }
        };
        match self.settle(&key, &mut row, found) {
            Ok(Some(is_changed)) => self.decide(key, (row, is_changed), version, cx),
            Ok(None) => {
                self.state.unread.push_back(key);
                self.read(cx);
            }
            Err(problem) => {
                tracing::error!(user = key, %problem, "a message of a user cannot be read");
                self.fail(key, &problem, cx);
            }
        }
    }

    /// Decides all requests of a line on its row, and writes what follows.
    fn decide(
        &mut self,
        key: String,
        (mut row, mut is_changed): (Row, bool),
        version: u64,
        cx: &mut Context<'_, Self>,
    ) {
        let (now, catalogue) = (self.now(), self.definitions.current());
        let Some(line) = self.state.lines.get_mut(&key) else { return };
        for request in &mut line.requests {
            let mut turn = Turn::new(&catalogue, &key, &mut row, now);
            request.decide(&mut turn);
            is_changed |= turn.is_changed;
            if let Some(problem) = turn.notes.text() {
                if let Some(failed) = self.state.untold.add(now) {
                    tracing::warn!(
                        failed,
                        user = key,
                        problem,
                        "conditions of journeys have failed"
                    );
                }
            }
        }
        let decided: VecDeque<Box<dyn Request>> = std::mem::take(&mut line.requests);
        let is_background = decided.iter().all(|request| request.is_background());
        let mut turn = Turn::new(&catalogue, &key, &mut row, now);
        let claimed = match self.is_at_rest {
            true => None,
            false => self.claim(&mut turn, is_background),
        };
        is_changed |= turn.is_changed;
        // A stored time that says no more what the row says would be found again and again.
        let is_late = || row.due(now).is_none_or(|due| due > now);
        is_changed |= decided.iter().any(|request| request.is_due()) && is_late();
        if !is_changed {
            return self.done(key, (row, version), decided, cx);
        }
        if let Some(line) = self.state.lines.get_mut(&key).filter(|_| claimed.is_some()) {
            line.sending += 1;
        }
        let write = Write { key, row, version, decided, claimed: None };
        self.gather(write, claimed, is_background, cx);
    }

    /// The decision is durable.
    pub(crate) fn done(
        &mut self,
        key: String,
        row: (Row, u64),
        decided: VecDeque<Box<dyn Request>>,
        cx: &mut Context<'_, Self>,
    ) {
        if let Some(line) = self.state.lines.get_mut(&key) {
            (line.row, line.is_busy, line.conflicts) = (Some(row), false, 0);
        }
        for batch in decided.iter().filter_map(|request| request.settles()) {
            self.leaves(&batch, &key, cx);
        }
        self.state.requests -= decided.len();
        decided.into_iter().for_each(|request| request.answer(Ok(())));
        self.go_on(key, cx);
    }

    /// Another node has written the row, or nobody knows whether this one has.
    pub(crate) fn not_written(
        &mut self,
        key: String,
        mut decided: VecDeque<Box<dyn Request>>,
        error: &StoreError,
        cx: &mut Context<'_, Self>,
    ) {
        let Some(line) = self.state.lines.get_mut(&key) else { return };
        decided.append(&mut line.requests);
        line.requests = decided;
        line.conflicts += 1;
        let is_outrun = matches!(error, StoreError::Conflict { .. } | StoreError::Fenced { .. });
        if is_outrun && line.conflicts <= CONFLICTS_MAX {
            (line.is_busy, line.row) = (false, None);
            return self.go_on(key, cx);
        }
        self.fail(key, &error.to_string(), cx);
    }

    /// Answers all requests of a line with an error; those that are kept are decided again later.
    fn fail(&mut self, key: String, problem: &str, cx: &mut Context<'_, Self>) {
        let Some(line) = self.state.lines.get_mut(&key) else { return };
        (line.row, line.conflicts) = (None, 0);
        let requests = std::mem::take(&mut line.requests);
        let (kept, failed): (VecDeque<_>, VecDeque<_>) =
            requests.into_iter().partition(|request| request.is_kept());
        let is_kept = !kept.is_empty();
        line.requests = kept;
        line.is_busy = is_kept;
        let group = self.group.clone();
        self.state.requests -= failed.len();
        for request in failed {
            request.answer(Err(JourneyError::failed(problem)));
        }
        if !is_kept {
            return self.go_on(key, cx);
        }
        let pause = async move {
            let _waited = group.sleep(AGAIN).await;
        };
        cx.await_interleaved(pause, move |desk: &mut Self, cx, ()| {
            if let Some(line) = desk.state.lines.get_mut(&key) {
                line.is_busy = false;
            }
            desk.go_on(key, cx);
        });
    }
}

/// A row as it was read.
fn decode(bytes: Option<Vec<u8>>) -> Result<Row, String> {
    bytes.map_or(Ok(Row::default()), |bytes| Row::decode(&bytes))
}

/// The time of waits: that of the world's plans, which no jump of the clock for a moment changes.
pub(crate) fn now(world: &WeakWorld, group: &Group) -> Time {
    world.upgrade().map_or_else(|| group.wall().into(), |world| internal::now(&world))
}
