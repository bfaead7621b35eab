//! Messages of a subscription that are processed one after the other: a part takes the next one,
//! and parts process it. So it is stored, and acknowledged, before it is processed.

use serde_json::Value;

use super::machine::{Machine, Turn};
use super::state::Listening;
use crate::fault::Fault;
use crate::limits::SUBSCRIPTION_MESSAGES_MAX;
use crate::model::{Consume, ForEach, Kind, Subscription};
use crate::scope::Stage;
use crate::Definition;

const STAGE: Stage = Stage::Definition { is_effect: false };

impl<'a> Machine<'a> {
    /// The tasks for each event, or for each message.
    pub(super) fn each(&self) -> Option<&'a ForEach> {
        match self.env.task.map(|task| &task.kind) {
            Some(Kind::Listen(it)) => it.each.as_ref(),
            Some(Kind::Consume(it)) => Some(&it.each),
            _ => None,
        }
    }

    fn subscription(&self, it: &Consume) -> Result<&'a Subscription, Fault> {
        let flow: &'a Definition = self.env.flow;
        let subscription = match &flow.task(it.source).kind {
            Kind::AsyncApi(call) => call.subscription.as_ref(),
            _ => None,
        };
        subscription.ok_or_else(|| Fault::runtime("it has no subscription"))
    }
}

impl Machine<'_> {
    /// Whether the next part takes a message, or does so now.
    pub(super) fn takes_message(&self) -> bool {
        let is_consuming = matches!(self.env.task.map(|task| &task.kind), Some(Kind::Consume(_)));
        is_consuming && !self.is_busy_with_event()
    }

    pub(super) fn start_consuming(&mut self) -> Result<Turn, Fault> {
        self.cursor.listening = Some(Listening::default());
        match self.env.task.map(|task| &task.kind) {
            Some(Kind::Consume(it)) => self.next_message(it),
            _ => Err(Fault::runtime("it takes no messages")),
        }
    }

    fn next_message(&mut self, it: &Consume) -> Result<Turn, Fault> {
        let subscription = self.subscription(it)?;
        let count = self.cursor.listening.as_ref().map_or(0, |listening| listening.count);
        let has_enough = subscription.amount.is_some_and(|amount| u64::from(count) >= amount);
        if has_enough || self.messages_hold(subscription.until.as_deref())?.unwrap_or(false) {
            return self.listened();
        }
        if u64::from(count) >= SUBSCRIPTION_MESSAGES_MAX {
            let problem = "messages are processed, which is the limit of one subscription";
            return Err(Fault::runtime(format!("{SUBSCRIPTION_MESSAGES_MAX} {problem}")));
        }
        self.env.begun()?;
        self.cursor.value = self.env.input.clone();
        self.go_to(0)
    }

    /// The part that takes a message is over: it has one, or its time is over, as it should be.
    pub(super) fn message_came(&mut self) -> Result<Turn, Fault> {
        let message = match std::mem::take(&mut self.cursor.value) {
            Value::Array(messages) => messages.into_iter().next(),
            _ => None,
        };
        let Some(message) = message else { return self.listened() };
        self.env.begun()?;
        let is_empty = self.each().is_none_or(|each| each.block.is_empty());
        // Without tasks the message is what the output is made of.
        self.cursor.value = if is_empty { message.clone() } else { self.env.input.clone() };
        if let Some(listening) = &mut self.cursor.listening {
            listening.queue.push(message);
            listening.is_busy = true;
        }
        self.go_to(0)
    }

    /// A message was processed.
    pub(super) fn message_processed(&mut self, it: &Consume) -> Result<Turn, Fault> {
        let whilst = self.subscription(it)?.whilst.as_deref();
        match self.messages_hold(whilst)? {
            Some(false) => self.listened(),
            _ => self.next_message(it),
        }
    }

    /// A condition, if there is one, which sees the outputs so far.
    fn messages_hold(&self, condition: Option<&str>) -> Result<Option<bool>, Fault> {
        let Some(condition) = condition else { return Ok(None) };
        let got = self.cursor.listening.as_ref().map(|listening| listening.got.all());
        let got = Value::Array(got.unwrap_or_default());
        self.env.holds(condition, &got, STAGE).map(Some)
    }
}
