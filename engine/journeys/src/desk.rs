//! The task that changes the rows of users, one at a time for each user.
//!
//! 1. Requests for a user wait in a line. If it is free, the row is read.
//! 2. All requests of the line are decided on that row; what follows is written as one, from the
//!    version that was read. A second writer, on another node, gets a conflict, and decides anew.
//! 3. When that is durable the requests are answered, and messages are sent. Their outcome is a
//!    request again.
//!
//! Nothing of a user is in memory while nothing is under way for the user.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use turnwheel_actors::entity::{Record, StoreError};
use turnwheel_engine::internal::{on_pool, WeakWorld};
use turnwheel_engine::{Time, TimedStates};
use turnwheel_runtime::{Context, Failure, Group};

use crate::catalogue::Catalogue;
use crate::channel::Channels;
use crate::error::JourneyError;
use crate::limits::{AGAIN, CONFLICTS_MAX};
use crate::outbox::{Message, Unsent};
use crate::row::Row;
use crate::store::read_all;
use crate::view::{time, to_ms};
use crate::walk::Turn;

/// Name of the states of users: short, as it is in each row twice.
pub(crate) const USER: &str = "tw.user";

/// The catalogue, replaced as a whole.
pub(crate) type Shared = Arc<RwLock<Arc<Catalogue>>>;

/// A change of a row, and its answer once it is durable.
pub(crate) trait Request: Send {
    /// Decides. It may be called again, on another row.
    fn decide(&mut self, turn: &mut Turn<'_>);
    /// Answers: the last decision is durable, or not made.
    fn answer(self: Box<Self>, outcome: Result<(), JourneyError>);
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
    pub(crate) catalogue: Shared,
    pub(crate) channels: Channels,
    pub(crate) alarm: Alarm,
    /// Whether messages stay where they are.
    pub(crate) is_at_rest: bool,
    pub(crate) lines: HashMap<String, Line>,
}

/// The requests of a user.
#[derive(Default)]
pub(crate) struct Line {
    requests: VecDeque<Box<dyn Request>>,
    is_busy: bool,
    /// The row as it is stored, while there is something under way.
    row: Option<(Row, u64)>,
    /// Whether a message is being sent: one at a time for each user.
    sending: bool,
    conflicts: u32,
    /// Whether the definitions were read again for this row.
    is_refreshed: bool,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("lines", &self.lines.len()).finish_non_exhaustive()
    }
}

impl Desk {
    fn now(&self) -> u64 {
        to_ms(self.group.wall().into())
    }

    pub(crate) fn take(
        &mut self,
        key: String,
        request: Box<dyn Request>,
        cx: &mut Context<'_, Self>,
    ) {
        self.lines.entry(key.clone()).or_default().requests.push_back(request);
        self.go_on(key, cx);
    }

    /// Reads the row if it is not known, or decides.
    fn go_on(&mut self, key: String, cx: &mut Context<'_, Self>) {
        let Some(line) = self.lines.get_mut(&key) else { return };
        if line.is_busy {
            return;
        }
        if line.requests.is_empty() {
            if !line.sending {
                self.lines.remove(&key);
            }
            return;
        }
        line.is_busy = true;
        match line.row.take() {
            Some((row, version)) => self.decide(key, row, version, cx),
            None => {
                let (states, of) = (self.states.clone(), key.clone());
                let read = async move { states.load(USER, &of).await };
                cx.await_interleaved(read, move |desk: &mut Self, cx, read| {
                    desk.read(key, read, cx);
                });
            }
        }
    }

    fn read(&mut self, key: String, read: Result<Record, StoreError>, cx: &mut Context<'_, Self>) {
        match read {
            Ok(record) => {
                let row = record.bytes.map_or(Ok(Row::default()), |bytes| Row::decode(&bytes));
                match row {
                    Ok(row) => self.decide(key, row, record.version, cx),
                    Err(problem) => {
                        tracing::error!(user = key, %problem, "a row cannot be read");
                        self.fail(key, &problem, cx);
                    }
                }
            }
            Err(error) => self.fail(key, &error.to_string(), cx),
        }
    }

    /// Decides all requests of a line on its row, and writes what follows.
    fn decide(&mut self, key: String, row: Row, version: u64, cx: &mut Context<'_, Self>) {
        let (now, catalogue) = (self.now(), Arc::clone(&self.catalogue.read()));
        let Some(line) = self.lines.get_mut(&key) else { return };
        let is_unknown =
            row.passes.iter().any(|pass| catalogue.chart(pass.journey, pass.version).is_none());
        if is_unknown && !std::mem::replace(&mut line.is_refreshed, true) {
            return self.refresh(key, row, version, cx);
        }
        line.is_refreshed = false;
        let mut changed = row.clone();
        let mut is_changed = false;
        for request in &mut line.requests {
            let mut turn = Turn::new(&catalogue, &key, &mut changed, now);
            request.decide(&mut turn);
            is_changed |= turn.is_changed;
        }
        let mut claimed = None;
        if !self.is_at_rest && !line.sending {
            let mut turn = Turn::new(&catalogue, &key, &mut changed, now);
            claimed = turn.claim();
            is_changed |= turn.is_changed;
        }
        let decided: VecDeque<Box<dyn Request>> = std::mem::take(&mut line.requests);
        if !is_changed {
            return self.done(key, (row, version), decided, cx);
        }
        let (bytes, due) = (changed.encode(), changed.due().map(time));
        let (states, of) = (self.states.clone(), key.clone());
        let write = async move { states.save(USER, &of, (Some(bytes), due), version).await };
        cx.await_interleaved(write, move |desk: &mut Self, cx, written| match written {
            Ok(version) => {
                (desk.alarm)(due);
                if let Some(claimed) = claimed {
                    desk.send(&key, claimed, cx);
                }
                desk.done(key, (changed, version), decided, cx);
            }
            Err(error) => desk.not_written(key, decided, &error, cx),
        });
    }

    /// Another node has stored a version that is not known here.
    fn refresh(&mut self, key: String, row: Row, version: u64, cx: &mut Context<'_, Self>) {
        let states = self.states.clone();
        let read = async move { read_all(&states).await };
        cx.await_interleaved(read, move |desk: &mut Self, cx, read| match read {
            Ok(catalogue) => {
                *desk.catalogue.write() = Arc::new(catalogue);
                desk.decide(key, row, version, cx);
            }
            Err(error) => desk.fail(key, &error.to_string(), cx),
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
        if let Some(line) = self.lines.get_mut(&key) {
            (line.row, line.is_busy, line.conflicts) = (Some(row), false, 0);
        }
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
        let Some(line) = self.lines.get_mut(&key) else { return };
        decided.append(&mut line.requests);
        line.requests = decided;
        line.conflicts += 1;
        if matches!(error, StoreError::Conflict { .. }) && line.conflicts <= CONFLICTS_MAX {
            (line.is_busy, line.row) = (false, None);
            return self.go_on(key, cx);
        }
        self.fail(key, &error.to_string(), cx);
    }

    /// Answers all requests of a line with an error; those that are kept are decided again later.
    fn fail(&mut self, key: String, problem: &str, cx: &mut Context<'_, Self>) {
        let Some(line) = self.lines.get_mut(&key) else { return };
        (line.row, line.conflicts) = (None, 0);
        let requests = std::mem::take(&mut line.requests);
        let (kept, failed): (VecDeque<_>, VecDeque<_>) =
            requests.into_iter().partition(|request| request.is_kept());
        let is_kept = !kept.is_empty();
        line.requests = kept;
        line.is_busy = is_kept;
        let group = self.group.clone();
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
            if let Some(line) = desk.lines.get_mut(&key) {
                line.is_busy = false;
            }
            desk.go_on(key, cx);
        });
    }

    /// Sends a message whose claim is durable.
    fn send(&mut self, key: &str, claimed: (String, Message), cx: &mut Context<'_, Self>) {
        let (channel, message) = claimed;
        let Some(line) = self.lines.get_mut(key) else { return };
        line.sending = true;
        let (world, name) = (self.world.upgrade(), message.key.clone());
        let channel = self.channels.get(&channel).ok_or(channel);
        let sent = async move {
            let Some(world) = world else { return Err(Unsent::Again("the world ends".into())) };
            let channel = match channel {
                Ok(channel) => channel,
                Err(name) => return Err(Unsent::Again(format!("there is no channel «{name}»"))),
            };
            let sent: Result<Result<(), Unsent>, Failure> =
                on_pool(&world, move || channel.send(&message)).await;
            sent.unwrap_or_else(|failure| Err(Unsent::Again(failure.to_string())))
        };
        let key = key.to_owned();
        cx.await_interleaved(sent, move |desk: &mut Self, cx, outcome| {
            if let Err(problem) = &outcome {
                tracing::warn!(message = name, ?problem, "a message was not sent");
            }
            if let Some(line) = desk.lines.get_mut(&key) {
                line.sending = false;
            }
            desk.take(key, Box::new(Sent { message: name, outcome }), cx);
        });
    }
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

    fn is_kept(&self) -> bool {
        true
    }
}
