//! The task that changes the rows of users, one at a time for each user.
//!
//! 1. Requests for a user wait in a line. If it is free, the row is read, with those of the other
//!    users that wait for a read. The same read sees whether definitions have changed, so a caller
//!    that asks after a definition was stored anywhere finds it.
//! 2. All requests of the line are decided on that row; what follows is written as one, from the
//!    version that was read. A second writer, on another node, gets a conflict, and decides anew.
//!    A node that owns the slot of the user writes under its epoch: one that stood still while the
//!    slot went to another node is refused.
//! 3. When that is durable the requests are answered, and messages are sent. Their outcome is a
//!    request again.
//!
//! Nothing of a user is in memory while nothing is under way for the user, and what is under way is
//! bounded.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use turnwheel_actors::entity::{Record, StoreError};
use turnwheel_engine::internal::{self, on_pool, WeakWorld};
use turnwheel_engine::{Time, TimedStates};
use turnwheel_runtime::{Context, Failure, Group};

use crate::channel::Channels;
use crate::definitions::{Definitions, INDEX};
use crate::error::JourneyError;
use crate::event::Event;
use crate::limits::{AGAIN, CONFLICTS_MAX, POSTPONED_MS, READS_MAX, READ_MAX, UNHEARD_MAX};
use crate::outbox::{Message, Sender, Unsent};
use crate::row::Row;
use crate::view::{time, to_ms};
use crate::walk::Turn;

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
    /// Messages that are sent at once, at most.
    pub(crate) sending_max: usize,
    pub(crate) state: State,
}

/// Work under way at a desk.
#[derive(Default)]
pub(crate) struct State {
    lines: HashMap<String, Line>,
    /// Users whose rows wait to be read.
    unread: VecDeque<String>,
    /// Events that nobody listens to, unless a definition has come: they wait for the index.
    unheard: VecDeque<(String, Box<dyn Request>)>,
    /// Questions to the store that are under way.
    reads: usize,
    /// Requests that are not answered.
    requests: usize,
    /// Messages that are being sent.
    sending: usize,
    /// Messages that were postponed since there was a place for one.
    postponed: u64,
}

/// The requests of a user.
#[derive(Default)]
struct Line {
    requests: VecDeque<Box<dyn Request>>,
    is_busy: bool,
    /// The row as it is stored, while there is something under way.
    row: Option<(Row, u64)>,
    /// Whether a message is being sent: one at a time for each user.
    sending: bool,
    conflicts: u32,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("users", &self.state.lines.len()).finish_non_exhaustive()
    }
}

impl Desk {
    fn now(&self) -> u64 {
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
        self.decoded(key, record, cx);
    }

    /// Reads the row if it is not known, or decides.
    fn go_on(&mut self, key: String, cx: &mut Context<'_, Self>) {
        let Some(line) = self.state.lines.get_mut(&key) else { return };
        if line.is_busy {
            return;
        }
        if line.requests.is_empty() {
            if !line.sending {
                self.state.lines.remove(&key);
            }
            return;
        }
        line.is_busy = true;
        match line.row.take() {
            Some((row, version)) if line.requests.iter().all(|request| request.is_own()) => {
                self.decide(key, row, version, cx);
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
        let read = async move {
            let mut records = states.load_all(of).await.map_err(JourneyError::failed)?;
            let index = records.pop().map_or(0, |index| index.version);
            definitions.reach(index).await?;
            Ok(records)
        };
        cx.await_interleaved(read, move |desk: &mut Self, cx, read| {
            desk.state.reads -= 1;
            desk.seen(keys, unheard, read, cx);
            desk.read(cx);
        });
    }

    fn seen(
        &mut self,
        keys: Vec<String>,
        unheard: Vec<(String, Box<dyn Request>)>,
        read: Result<Vec<Record>, JourneyError>,
        cx: &mut Context<'_, Self>,
    ) {
        match read {
            Ok(records) => {
                for (key, record) in keys.into_iter().zip(records) {
                    self.decoded(key, record, cx);
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

    fn decoded(&mut self, key: String, record: Record, cx: &mut Context<'_, Self>) {
        let row = record.bytes.map_or(Ok(Row::default()), |bytes| Row::decode(&bytes));
        match row {
            Ok(row) => self.decide(key, row, record.version, cx),
            Err(problem) => {
                tracing::error!(user = key, %problem, "a row cannot be read");
                self.fail(key, &problem, cx);
            }
        }
    }

    /// Decides all requests of a line on its row, and writes what follows.
    fn decide(&mut self, key: String, mut row: Row, version: u64, cx: &mut Context<'_, Self>) {
        let (now, catalogue) = (self.now(), self.definitions.current());
        let has_place = self.state.sending < self.sending_max;
        let Some(line) = self.state.lines.get_mut(&key) else { return };
        let mut is_changed = false;
        for request in &mut line.requests {
            let mut turn = Turn::new(&catalogue, &key, &mut row, now);
            request.decide(&mut turn);
            is_changed |= turn.is_changed;
        }
        let mut claimed = None;
        let me = self.world.upgrade().map_or(0, |world| world.id());
        if !self.is_at_rest && line.sending {
            let mut turn = Turn::new(&catalogue, &key, &mut row, now);
            turn.keep_claim(me);
            is_changed |= turn.is_changed;
        } else if !self.is_at_rest {
            let worlds = || self.world.upgrade().map(|world| world.worlds()).unwrap_or_default();
            let is_alive = |sender| worlds().iter().any(|world| world.id == sender);
            let mut turn = Turn::new(&catalogue, &key, &mut row, now);
            if has_place {
                self.state.postponed = 0;
                claimed = turn.claim(&Sender { world: me, is_alive: &is_alive });
            } else {
                // Those that are postponed together come back one after the other.
                let turns = 1 + self.state.postponed / self.sending_max as u64;
                self.state.postponed += u64::from(turn.postpone(turns * POSTPONED_MS));
            }
            is_changed |= turn.is_changed;
        }
        let decided: VecDeque<Box<dyn Request>> = std::mem::take(&mut line.requests);
        if !is_changed {
            return self.done(key, (row, version), decided, cx);
        }
        if claimed.is_some() {
            line.sending = true;
            self.state.sending += 1;
        }
        let (bytes, due) = (row.encode(), row.due().map(time));
        let is_background = decided.iter().all(|request| request.is_background());
        let states = if is_background { &self.background } else { &self.states };
        let (states, of) = (states.clone(), key.clone());
        // The owner of the user's slot writes under its epoch, other nodes by the version alone.
        let hold = self.world.upgrade().and_then(|world| world.hold_of_key(&key));
        let write = async move {
            let content = (Some(bytes), due);
            match hold {
                Some(hold) => states.save_held(hold, USER, &of, content, version).await,
                None => states.save(USER, &of, content, version).await,
            }
        };
        cx.await_interleaved(write, move |desk: &mut Self, cx, written| match written {
            Ok(version) => {
                (desk.alarm)(due);
                if let Some(claimed) = claimed {
                    desk.send(&key, claimed, cx);
                }
                desk.done(key, (row, version), decided, cx);
            }
            Err(error) => {
                if claimed.is_some() {
                    desk.is_sent(&key);
                }
                desk.not_written(key, decided, &error, cx);
            }
        });
    }

    /// The decision is durable.
    fn done(
        &mut self,
        key: String,
        row: (Row, u64),
        decided: VecDeque<Box<dyn Request>>,
        cx: &mut Context<'_, Self>,
    ) {
        if let Some(line) = self.state.lines.get_mut(&key) {
            (line.row, line.is_busy, line.conflicts) = (Some(row), false, 0);
        }
        self.state.requests -= decided.len();
        decided.into_iter().for_each(|request| request.answer(Ok(())));
        self.go_on(key, cx);
    }

    /// Another node has written the row, or nobody knows whether this one has.
    fn not_written(
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

    /// Sends a message whose claim is durable.
    fn send(&mut self, key: &str, claimed: (String, Message), cx: &mut Context<'_, Self>) {
        let (channel, message) = claimed;
        let (world, name) = (self.world.upgrade(), message.key.clone());
        let channel = match self.channels.get(&channel) {
            Some(channel) => channel,
            None => {
                let problem = format!("there is no channel «{channel}»");
                return self.outcome(key.to_owned(), name, Err(Unsent::Again(problem)), cx);
            }
        };
        if channel.is_direct {
            let sent = catch_unwind(AssertUnwindSafe(|| channel.channel.send(&message)));
            let sent = sent.unwrap_or_else(|_| Err(Unsent::Again("the channel panicked".into())));
            return self.outcome(key.to_owned(), name, sent, cx);
        }
        let sent = async move {
            let Some(world) = world else { return Err(Unsent::Again("the world ends".into())) };
            let sent: Result<Result<(), Unsent>, Failure> =
                on_pool(&world, move || channel.channel.send(&message)).await;
            sent.unwrap_or_else(|failure| Err(Unsent::Again(failure.to_string())))
        };
        let key = key.to_owned();
        cx.await_interleaved(sent, move |desk: &mut Self, cx, outcome| {
            desk.outcome(key, name, outcome, cx);
        });
    }

    /// A channel has answered.
    fn outcome(
        &mut self,
        key: String,
        message: String,
        outcome: Result<(), Unsent>,
        cx: &mut Context<'_, Self>,
    ) {
        if let Err(problem) = &outcome {
            tracing::warn!(message, ?problem, "a message was not sent");
        }
        self.is_sent(&key);
        self.take(key, Box::new(Sent { message, outcome }), cx);
    }

    /// The claim of a message is over.
    fn is_sent(&mut self, key: &str) {
        self.state.sending -= 1;
        if let Some(line) = self.state.lines.get_mut(key) {
            line.sending = false;
        }
    }
}

/// The time of waits: that of the world's plans, which no jump of the clock for a moment changes.
pub(crate) fn now(world: &WeakWorld, group: &Group) -> Time {
    world.upgrade().map_or_else(|| group.wall().into(), |world| internal::now(&world))
}

/// The outcome of a message.
struct Sent {
    message: String,
    outcome: Result<(), Unsent>,
}

impl Request for Sent {
    fn decide(&mut self, turn: &mut Turn<'_>) {
        turn.sent(&self.message, &self.outcome);
    }

    fn answer(self: Box<Self>, _: Result<(), JourneyError>) {}

    fn is_own(&self) -> bool {
        true
    }

    fn is_kept(&self) -> bool {
        true
    }
}
