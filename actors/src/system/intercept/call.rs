//! The view that an interceptor has of a message.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::request::RequestContext;
use crate::system::System;

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Direction {
    /// To a handler of the actor.
    Incoming,
    /// From a sender to the actor.
    Outgoing,
}

/// A message, but for the message itself.
#[derive(Clone)]
pub struct MessageInfo {
    pub(crate) actor: Arc<str>,
    pub(crate) class: Arc<str>,
    pub(crate) message: &'static str,
    pub(crate) direction: Direction,
    pub(crate) is_ask: bool,
    pub(crate) attempt: u32,
    /// Time limit of an answer set by an interceptor.
    pub(crate) limit: Duration,
    pub(crate) request: RequestContext,
    pub(crate) system: System,
}

debug_fields!(impl MessageInfo, self =>
    actor: self.actor, message: self.message, direction: self.direction, is_ask: self.is_ask);

impl MessageInfo {
    /// The name of the target actor: given at its spawn, or its class. For an entity, its type and
    /// key.
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// The class under which the actor's metrics are kept.
    pub fn class(&self) -> &str {
        &self.class
    }

    /// The same as a shared text, without a copy.
    pub fn shared_class(&self) -> Arc<str> {
        Arc::clone(&self.class)
    }

    /// The type of the message.
    pub fn message_type(&self) -> &'static str {
        self.message
    }

    /// Whether it is about to be handled or about to be sent.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Whether a caller waits for an answer.
    pub fn is_ask(&self) -> bool {
        self.is_ask
    }

    /// Number of earlier attempts, by retries.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The values and the trace that go with it.
    pub fn request(&self) -> &RequestContext {
        &self.request
    }

    /// The system of the actor.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// The clock of the system's group, read now; nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.system.group().now_ns()
    }
}

/// A message before it is handled, or sent.
pub struct Call<'a> {
    pub(crate) info: &'a mut MessageInfo,
    pub(crate) message: &'a mut (dyn Any + Send),
}

debug_fields!(impl Call<'_>, self => info: self.info);

impl Deref for Call<'_> {
    type Target = MessageInfo;

    fn deref(&self) -> &MessageInfo {
        self.info
    }
}

impl Call<'_> {
    /// The message as a value of any type.
    pub fn any_message(&self) -> &(dyn Any + Send) {
        &*self.message
    }

    /// The message, if it is of this type.
    pub fn message<M: 'static>(&self) -> Option<&M> {
        let message: &dyn Any = &*self.message;
        message.downcast_ref()
    }

    /// The message to be changed, if it is of this type.
    pub fn message_mut<M: 'static>(&mut self) -> Option<&mut M> {
        let message: &mut dyn Any = &mut *self.message;
        message.downcast_mut()
    }

    /// Replaces values and trace for everything that follows: inner interceptors, the handler, and
    /// the messages that it sends.
    pub fn set_request(&mut self, request: RequestContext) {
        self.info.request = request;
    }

    /// Shortens the time limit of an outgoing call, or of each attempt. Without effect for other
    /// messages; never longer than the caller's own limit.
    pub fn shorten(&mut self, limit: Duration) {
        self.info.limit = self.info.limit.min(limit);
    }
}
