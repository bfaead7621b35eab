//! Typed actors and keyed entities on `turnwheel-runtime`. Nothing is implemented here yet.
//!
//! This crate holds the place of the actors in the workspace: addresses, supervision, entities,
//! publish and subscribe, and the test kit come here. Until then, depend on `turnwheel-runtime`,
//! whose tasks are what the actors will be made of.
#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]
