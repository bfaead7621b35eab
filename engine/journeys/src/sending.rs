//! Messages of a desk that are being sent, by batches (`batch.rs`).

use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use turnwheel_actors::entity::StoreError;
use turnwheel_engine::internal::{next_number, on_pool};
use turnwheel_engine::limits::TOGETHER_MAX;
use turnwheel_engine::StateWrite;
use turnwheel_runtime::{Context, Failure};

use crate::batch::{may_be_sending, Batch, Found, Own, BATCH};
use crate::channel::Channel;
use crate::desk::{Desk, Request};
use crate::error::JourneyError;
use crate::limits::SENDING_MS;
use crate::outbox::{Claimed, Message, Unsent};
use crate::places::{Places, Receiver};
use crate::row::{BatchId, Outgoing, Row, Sending};
use crate::view::time;
use crate::walk::Turn;

/// Pause between two looks at batches that take long.
const RENEW: Duration = Duration::from_millis(SENDING_MS / 3);

/// Batches of a desk.
pub(crate) struct Batches {
    pub(crate) own: Own,
    /// The last number that was given to a batch.
    last: u64,
    open: HashMap<BatchId, Open>,
    places: Places<Call>,
    is_renewing: bool,
}

/// A message that has a place.
pub(crate) struct ToSend {
    pub(crate) key: String,
    pub(crate) batch: BatchId,
    pub(crate) receiver: Receiver,
}

/// A message that waits for a thread.
type Call = (ToSend, Message, Arc<dyn Channel>);

impl Batches {
    pub(crate) fn new(own: Own, places: Places<Call>) -> Self {
        Self { own, last: 0, open: HashMap::new(), places, is_renewing: false }
    }
}

/// A durable batch. It is here until its row is gone: a row of a user that names it has a message
/// that is left, or was sent.
struct Open {
    batch: Batch,
    /// 0 if another node has taken it over and removed it.
    version: u64,
    /// Whether its row is being written or removed: one after the other.
    is_busy: bool,
}

impl Desk {
    /// Takes the next message of a row that may leave now, for the batch of the next write.
    pub(crate) fn claim(
        &mut self,
        turn: &mut Turn<'_>,
        is_background: bool,
    ) -> Option<(BatchId, Claimed)> {
        let gathered = self.state.writing.batch(is_background);
        let Batches { own, last, places, .. } = &mut self.state.batches;
        let new = || BatchId { world: own.world, sender: own.sender, number: *last + 1 };
        let id = gathered.unwrap_or_else(new);
        let (channels, now_ns) = (&self.channels, self.group.now_ns());
        let claimed = turn.claim(id, |channel, message| {
            let receiver = channels.receiver(channel, message);
            places.claim(&receiver, now_ns).map(|()| receiver)
        })?;
        *last += u64::from(gathered.is_none());
        Some((id, claimed))
    }

    /// Nobody knows whether a commit with a batch was made: rows that name batches of the number
    /// that this desk had are looked at as those of another sender.
    pub(crate) fn take_new_number(&mut self) {
        let Some(world) = self.world.upgrade() else { return };
        let Batches { own, open, .. } = &mut self.state.batches;
        own.earlier.extend(open.keys());
        own.sender = next_number(&world);
    }

    /// A batch is durable.
    pub(crate) fn opens(&mut self, id: BatchId, batch: Batch, cx: &mut Context<'_, Self>) {
        let batches = &mut self.state.batches;
        if !batches.own.knows(&id) {
            batches.own.earlier.insert(id);
        }
        let is_over = batch.messages.is_empty();
        batches.open.insert(id, Open { batch, version: 1, is_busy: false });
        if is_over {
            self.remove(vec![id], cx);
        }
        self.renew_later(cx);
    }

    /// The message of a user is sent, or back in the row of the user.
    pub(crate) fn leaves(&mut self, id: &BatchId, key: &str, cx: &mut Context<'_, Self>) {
        let Some(open) = self.state.batches.open.get_mut(id) else { return };
        open.batch.messages.remove(key);
        if open.batch.messages.is_empty() && !open.is_busy {
            self.remove(vec![*id], cx);
        }
    }

    /// Removes the rows of batches of which nothing is left.
    fn remove(&mut self, ids: Vec<BatchId>, cx: &mut Context<'_, Self>) {
        let batches = &mut self.state.batches;
        for id in &ids {
            batches.open.get_mut(id).into_iter().for_each(|open| open.is_busy = true);
        }
        let (states, keys) = (self.background.clone(), ids.iter().map(BatchId::key).collect());
        let removed = async move { states.remove_all(BATCH, keys).await };
        cx.await_interleaved(removed, move |desk: &mut Self, cx, removed| {
            let Batches { own, open, .. } = &mut desk.state.batches;
            for id in &ids {
                match &removed {
                    Ok(()) => {
                        open.remove(id);
                        own.earlier.remove(id);
                    }
                    Err(_) => open.get_mut(id).into_iter().for_each(|open| open.is_busy = false),
                }
            }
            if let Err(error) = removed {
                tracing::debug!(%error, "batches of messages that were sent are removed later");
                desk.renew_later(cx);
            }
        });
    }

    /// Finds out of all messages that a row says are being sent whether they are: those that were
    /// sent are left out, those whose sender is gone are back in the outbox. Returns whether that
    /// changes the row; none if batches have to be read first.
    ///
    /// # Errors
    ///
    /// A batch that the row names cannot be read.
    pub(crate) fn settle(
        &self,
        key: &str,
        row: &mut Row,
        found: &Found,
    ) -> Result<Option<bool>, String> {
        let Batches { own, open, .. } = &self.state.batches;
        let is_known = |id: &BatchId| own.knows(id) || found.contains_key(id);
        if !row.sending.iter().all(|it| is_known(&it.batch)) {
            return Ok(None);
        }
        let foreign = |it: &&Sending| !own.knows(&it.batch);
        for it in row.sending.iter().filter(foreign) {
            if let Some(Err(problem)) = found.get(&it.batch) {
                return Err(problem.clone());
            }
        }
        let (now, mut is_changed) = (self.now(), false);
        for mut it in std::mem::take(&mut row.sending) {
            let is_own = own.knows(&it.batch);
            let batch = match is_own {
                true => open.get(&it.batch).map(|open| &open.batch),
                false => found.get(&it.batch).and_then(|batch| batch.as_ref().ok()),
            };
            let message = batch.and_then(|batch| batch.messages.get(key));
            let (Some(batch), Some(message)) = (batch, message) else { continue };
            if is_own || may_be_sending(&it.batch, batch, own.world, now, &self.alive()) {
                (it.pass, it.message) = (message.pass, Some(message.clone()));
                row.sending.push(it);
            } else {
                row.take_back(message.clone());
                // At rest this is only looked at.
                is_changed = !self.is_at_rest;
            }
        }
        Ok(Some(is_changed))
    }

    fn alive(&self) -> Vec<u64> {
        let worlds = self.world.upgrade().map(|world| world.worlds()).unwrap_or_default();
        worlds.iter().map(|world| world.id).collect()
    }

    /// Leaves out of a row that was written what was sent meanwhile.
    pub(crate) fn drop_sent(&self, key: &str, row: &mut Row) {
        let Batches { own, open, .. } = &self.state.batches;
        let is_left =
            |id: &BatchId| open.get(id).is_some_and(|open| open.batch.messages.contains_key(key));
        row.sending.retain(|it| !own.knows(&it.batch) || is_left(&it.batch));
    }

    /// Sends a message whose batch is durable, when its receiver has a thread.
    pub(crate) fn send(&mut self, of: ToSend, message: Message, cx: &mut Context<'_, Self>) {
        let channel = match self.channels.get(&of.receiver.0) {
            Some(channel) => channel,
            None => {
                let problem = format!("there is no channel «{}»", of.receiver.0);
                return self.outcome(of, Err(Unsent::Again(problem)), cx);
            }
        };
        if channel.is_direct {
            let sent = catch_unwind(AssertUnwindSafe(|| channel.channel.send(&message)));
            let sent = sent.unwrap_or_else(|_| Err(Unsent::Again("the channel panicked".into())));
            return self.outcome(of, sent, cx);
        }
        let receiver = of.receiver.clone();
        self.state.batches.places.put(&receiver, (of, message, channel.channel));
        self.call(cx);
    }

    /// Has threads send what may be sent.
    fn call(&mut self, cx: &mut Context<'_, Self>) {
        while let Some((of, message, channel)) = self.state.batches.places.next() {
            let world = self.world.upgrade();
            let sent = async move {
                let Some(world) = world else { return Err(Unsent::Again("the world ends".into())) };
                let sent: Result<Result<(), Unsent>, Failure> =
                    on_pool(&world, move || channel.send(&message)).await;
                sent.unwrap_or_else(|failure| Err(Unsent::Again(failure.to_string())))
            };
            cx.await_interleaved(sent, move |desk: &mut Self, cx, outcome| {
                desk.state.batches.places.called(&of.receiver);
                desk.outcome(of, outcome, cx);
                desk.call(cx);
            });
        }
    }

    /// A channel has answered.
    fn outcome(&mut self, of: ToSend, outcome: Result<(), Unsent>, cx: &mut Context<'_, Self>) {
        let ToSend { key, batch, receiver } = of;
        self.give_place_back(&key, &receiver);
        if outcome.is_ok() {
            self.leaves(&batch, &key, cx);
            if let Some((row, _)) = self.state.lines.get_mut(&key).and_then(|it| it.row.as_mut()) {
                row.sending.retain(|it| it.batch != batch);
            }
            return self.go_on(key, cx);
        }
        let open = self.state.batches.open.get(&batch);
        let Some(message) = open.and_then(|open| open.batch.messages.get(&key)).cloned() else {
            return self.go_on(key, cx);
        };
        tracing::warn!(message = message.key(&key), problem = ?outcome, "a message was not sent");
        self.take(key, Box::new(Sent { batch, message, outcome }), cx);
    }

    /// A message is not being sent any more.
    pub(crate) fn give_place_back(&mut self, key: &str, receiver: &Receiver) {
        self.state.batches.places.release(receiver);
        if let Some(line) = self.state.lines.get_mut(key) {
            line.sending -= 1;
        }
    }

    /// Says of batches that take long what is left of them, and that it is still being sent.
    fn renew_later(&mut self, cx: &mut Context<'_, Self>) {
        let batches = &mut self.state.batches;
        if batches.is_renewing || batches.open.is_empty() {
            return;
        }
        let armed = cx.after(RENEW, |desk: &mut Self, cx| {
            desk.state.batches.is_renewing = false;
            desk.renew(cx);
        });
        batches.is_renewing = armed.is_ok();
    }

    fn renew(&mut self, cx: &mut Context<'_, Self>) {
        let now = self.now();
        let (mut ids, mut states, mut over) = (Vec::new(), Vec::new(), Vec::new());
        for (id, open) in &mut self.state.batches.open {
            if open.batch.messages.is_empty() {
                over.extend((!open.is_busy && over.len() < TOGETHER_MAX).then_some(*id));
                continue;
            }
            let is_soon = open.batch.until <= now.saturating_add(SENDING_MS / 2);
            if !is_soon || open.version == 0 || states.len() == TOGETHER_MAX {
                continue;
            }
            open.is_busy = true;
            open.batch.until = now.saturating_add(SENDING_MS);
            let (name, key, due) = (BATCH.to_owned(), id.key(), Some(time(open.batch.until)));
            let (bytes, expected) = (Some(open.batch.encode()), open.version);
            ids.push(*id);
            states.push(StateWrite { name, key, bytes, due, expected, hold: None });
        }
        if !over.is_empty() {
            self.remove(over, cx);
        }
        if states.is_empty() {
            return self.renew_later(cx);
        }
        let is_all = states.len() < TOGETHER_MAX;
        let to = self.background.clone();
        self.state.batches.is_renewing = true;
        let saved = async move { to.save_all(states).await };
        cx.await_interleaved(saved, move |desk: &mut Self, cx, saved| {
            desk.state.batches.is_renewing = false;
            match saved {
                Ok(versions) => {
                    ids.iter()
                        .zip(versions)
                        .for_each(|(id, version)| desk.renewed(id, version, cx));
                }
                Err(error) => {
                    ids.iter().for_each(|id| desk.renewed(id, Err(error.clone()), cx));
                    return desk.renew_later(cx);
                }
            }
            match is_all {
                true => desk.renew_later(cx),
                false => desk.renew(cx),
            }
        });
    }

    fn renewed(
        &mut self,
        id: &BatchId,
        version: Result<u64, StoreError>,
        cx: &mut Context<'_, Self>,
    ) {
        let Some(open) = self.state.batches.open.get_mut(id) else { return };
        open.is_busy = false;
        match version {
            Ok(version) => open.version = version,
            // Nobody else writes it: it was written by an attempt without an answer. Others remove
            // it when they have taken it over, and then its messages may leave twice, with their
            // keys.
            Err(StoreError::Conflict { found, .. }) => {
                (open.version, open.batch.until) = (found, 0);
            }
            Err(error) => {
                tracing::debug!(%error, batch = id.key(), "a batch of messages is renewed later");
                open.batch.until = 0;
            }
        }
        if open.batch.messages.is_empty() {
            self.remove(vec![*id], cx);
        }
    }
}

/// The failure of a message.
struct Sent {
    batch: BatchId,
    message: Outgoing,
    outcome: Result<(), Unsent>,
}

impl Request for Sent {
    fn decide(&mut self, turn: &mut Turn<'_>) {
        turn.sent(&self.batch, &self.message, &self.outcome);
    }

    fn answer(self: Box<Self>, _: Result<(), JourneyError>) {}

    fn settles(&self) -> Option<BatchId> {
        Some(self.batch)
    }

    fn is_own(&self) -> bool {
        true
    }

    fn is_kept(&self) -> bool {
        true
    }
}
