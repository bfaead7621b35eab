//! Streams of messages into an actor, and of answers out of it.

mod answers;
mod attached;

pub use answers::{AnswerSink, AnswerUnsent, Answers};
pub use attached::Attached;
