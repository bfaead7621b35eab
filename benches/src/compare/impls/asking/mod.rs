//! How each contender asks and answers.

mod actix;
mod actors;
mod kameo;
mod ractor;
mod service;
mod tokio;
mod turnwheel;
