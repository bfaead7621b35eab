//! A message on its way through the actor.

use std::sync::Arc;

use super::context::Baggage;
use crate::call::ReplyTo;

/// A message with its metadata, as delivered to the actor.
#[derive(Debug)]
pub struct Delivery<M, R> {
    pub(crate) message: M,
    pub(crate) baggage: Option<Arc<Baggage>>,
    pub(crate) reply: Option<ReplyTo<R>>,
}
