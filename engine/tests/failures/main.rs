//! What fails, what becomes of it, and what people do about it.

#[path = "../common/mod.rs"]
mod common;

mod asked_again;
mod calls_again;
mod cancels;
mod clean_ups;
mod compensation;
mod ends;
mod heartbeats;
mod known_keys;
mod left_behind;
mod left_to_others;
mod letters;
mod limits;
mod messages;
mod panics;
mod payloads;
mod pool;
mod rescues;
mod shutdown_fails;
mod steps;
mod store_fails;
mod trouble;
mod unknown_actions;
mod when_stored;
