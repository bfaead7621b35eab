//! How each contender asks and answers.

mod actix;
mod actors;
mod kameo;
mod ractor;
mod tokio;
mod turnwheel;
