//! Several worlds over one store.

#[path = "../common/mod.rs"]
mod common;

mod claims;
mod plans;
mod takeover;
mod together;
