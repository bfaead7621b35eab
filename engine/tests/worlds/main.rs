//! Several worlds over one store.

#[path = "../common/mod.rs"]
mod common;

mod claims;
mod lost_answers;
mod nodes;
mod plans;
mod takeover;
mod together;
mod watched;
