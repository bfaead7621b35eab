//! The view that an interceptor has of a message.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::request::RequestContext;
use crate::system::System;

/// Which way a message goes.
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
    /// How long an answer may take, if an interceptor says so.
    pub(crate) limit: Duration,
    pub(crate) request: RequestContext,
    pub(crate) system: System,
}

debug_fields!(impl MessageInfo, self =>
    actor: self.actor, message: self.message, direction: self.direction, is_ask: self.is_ask);

impl MessageInfo {
    /// The name of the actor that it is for: the one given when it was spawned, or its class. Of an
    /// entity, its type and key.
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

    /// Whether somebody waits for an answer.
    pub fn is_ask(&self) -> bool {
        self.is_ask
    }

    /// How often it was sent before, by a retry.
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

    /// Gives other values and another trace to what follows: to the interceptors inside, to the
    /// handler, and to what it sends.
    pub fn set_request(&mut self, request: RequestContext) {
        self.info.request = request;
    }

    /// Gives an outgoing call, or each attempt of it, a shorter time for its answer. Of no matter
    /// for others, and never longer than what the caller has.
    pub fn shorten(&mut self, limit: Duration) {
        self.info.limit = self.info.limit.min(limit);
    }
}
