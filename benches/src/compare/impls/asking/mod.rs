//! How each contender asks and answers.

pub(super) use service::Hosted;

mod actix;
mod actors;
mod kameo;
mod ractor;
mod service;
mod tokio;
mod turnwheel;
