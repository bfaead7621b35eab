//! Messages: kinds of sends, order, and recipients.

mod handles;
mod large;
mod macros;
mod registry;
mod sending;
mod streams;
mod told;
mod topics;
mod turns;
