//! Writes of a desk: those of users that were decided together are in one commit, with the batch of
//! their messages.

use std::collections::{BTreeMap, VecDeque};

use turnwheel_actors::entity::StoreError;
use turnwheel_engine::{StateWrite, Time};
use turnwheel_runtime::Context;

use crate::batch::{Batch, BATCH};
use crate::desk::{Desk, Request, USER};
use crate::limits::{READ_MAX, SENDING_MS};
use crate::outbox::{Claimed, Message};
use crate::places::Receiver;
use crate::row::{BatchId, Outgoing, Row};
use crate::sending::ToSend;
use crate::view::time;

/// The decided row of a user.
pub(crate) struct Write {
    pub(crate) key: String,
    pub(crate) row: Row,
    pub(crate) version: u64,
    pub(crate) decided: VecDeque<Box<dyn Request>>,
    /// The message that leaves when this is durable.
    pub(crate) claimed: Option<(Receiver, Message)>,
}

/// Writes that are gathered.
#[derive(Default)]
pub(crate) struct Writing {
    urgent: Gathered,
    /// Nobody waits for these.
    background: Gathered,
    /// Whether they are written in a moment.
    is_due: bool,
}

/// Writes for one commit.
#[derive(Default)]
struct Gathered {
    writes: Vec<Write>,
    batch: Option<BatchId>,
    messages: BTreeMap<String, Outgoing>,
}

impl Writing {
    fn gathered(&mut self, is_background: bool) -> &mut Gathered {
        match is_background {
            true => &mut self.background,
            false => &mut self.urgent,
        }
    }

    /// The batch of the messages that are gathered, if there is one.
    pub(crate) fn batch(&self, is_background: bool) -> Option<BatchId> {
        match is_background {
            true => self.background.batch,
            false => self.urgent.batch,
        }
    }
}

impl Desk {
    /// Writes a row with others: when enough have come, or when what waits at the desk has had its
    /// turn.
    pub(crate) fn gather(
        &mut self,
        mut write: Write,
        claimed: Option<(BatchId, Claimed)>,
        is_background: bool,
        cx: &mut Context<'_, Self>,
    ) {
        let gathered = self.state.writing.gathered(is_background);
        if let Some((batch, Claimed { receiver, message, outgoing })) = claimed {
            gathered.batch = Some(batch);
            gathered.messages.insert(write.key.clone(), outgoing);
            write.claimed = Some((receiver, message));
        }
        gathered.writes.push(write);
        if gathered.writes.len() >= READ_MAX {
            return self.write_some(is_background, cx);
        }
        if self.state.writing.is_due {
            return;
        }
        let due = cx.submit(|desk: &mut Self, cx| {
            desk.state.writing.is_due = false;
            desk.write(cx);
        });
        self.state.writing.is_due = due.is_ok();
        if due.is_err() {
            // The mailbox is full: the turn of these is now.
            self.write(cx);
        }
    }

    /// Writes all that is gathered.
    pub(crate) fn write(&mut self, cx: &mut Context<'_, Self>) {
        self.write_some(false, cx);
        self.write_some(true, cx);
    }

    fn write_some(&mut self, is_background: bool, cx: &mut Context<'_, Self>) {
        let Gathered { writes, batch, messages } =
            std::mem::take(self.state.writing.gathered(is_background));
        if writes.is_empty() {
            return;
        }
        let now = self.now();
        let until = now.saturating_add(SENDING_MS);
        let kept = Batch { until, messages };
        let (mut states, mut first) = (Vec::with_capacity(writes.len() + 1), None::<Time>);
        if let Some(id) = batch {
            let (key, bytes, due) = (id.key(), Some(kept.encode()), Some(time(until)));
            first = due;
            let name = BATCH.to_owned();
            states.push(StateWrite { name, key, bytes, due, expected: 0, hold: None });
        }
        let world = self.world.upgrade();
        for write in &writes {
            let due = write.row.due(now).map(time);
            first = first.into_iter().chain(due).min();
            // The owner of the user's slot writes under its epoch, others by the version alone.
            let hold = world.as_ref().and_then(|world| world.hold_of_key(&write.key));
            states.push(StateWrite {
                name: USER.to_owned(),
                key: write.key.clone(),
                bytes: Some(write.row.encode()),
                due,
                expected: write.version,
                hold,
            });
        }
        let to = if is_background { &self.background } else { &self.states }.clone();
        let saved = async move { to.save_all(states).await };
        cx.await_interleaved(saved, move |desk: &mut Self, cx, saved| match saved {
            Ok(versions) => {
                (desk.alarm)(first);
                desk.written(writes, batch.map(|id| (id, kept)), versions, cx);
            }
            Err(error) => {
                if batch.is_some() {
                    desk.take_new_number();
                }
                writes.into_iter().for_each(|write| desk.refused(write, &error, cx));
            }
        });
    }

    /// What was decided is durable, but for users that others have written meanwhile.
    fn written(
        &mut self,
        writes: Vec<Write>,
        batch: Option<(BatchId, Batch)>,
        versions: Vec<Result<u64, StoreError>>,
        cx: &mut Context<'_, Self>,
    ) {
        let mut versions = versions.into_iter();
        let id = batch.as_ref().map(|(id, _)| *id);
        if let Some((id, mut kept)) = batch {
            if let Some(Err(error)) = versions.next() {
                tracing::error!(%error, batch = id.key(), "a batch of messages is not kept");
            }
            let refused = writes.iter().zip(versions.as_slice()).filter(|(_, it)| it.is_err());
            refused.for_each(|(write, _)| drop(kept.messages.remove(&write.key)));
            self.opens(id, kept, cx);
        }
        for (mut write, version) in writes.into_iter().zip(versions) {
            let version = match version {
                Ok(version) => version,
                Err(error) => {
                    self.refused(write, &error, cx);
                    continue;
                }
            };
            if let Some(((receiver, message), batch)) = write.claimed.take().zip(id) {
                self.send(ToSend { key: write.key.clone(), batch, receiver }, message, cx);
            }
            self.drop_sent(&write.key, &mut write.row);
            self.done(write.key, (write.row, version), write.decided, cx);
        }
    }

    fn refused(&mut self, write: Write, error: &StoreError, cx: &mut Context<'_, Self>) {
        if let Some((receiver, _)) = &write.claimed {
            self.give_place_back(&write.key, receiver);
        }
        self.not_written(write.key, write.decided, error, cx);
    }
}
