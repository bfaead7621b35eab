//! Several worlds over one store.

#[path = "../common/mod.rs"]
mod common;

mod claims;
mod lost_answers;
mod plans;
mod takeover;
mod together;
