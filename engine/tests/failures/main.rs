//! What fails, what becomes of it, and what people do about it.

#[path = "../common/mod.rs"]
mod common;

mod cancels;
mod compensation;
mod heartbeats;
mod panics;
mod rescues;
mod steps;
mod trouble;
