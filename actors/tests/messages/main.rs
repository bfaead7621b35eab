//! Messages: the ways by which they come, their order, and who gets them.

mod handles;
mod large;
mod macros;
mod registry;
mod sending;
mod streams;
mod told;
mod topics;
mod turns;
