//! Waits: completions, channels, blocking work, lent values.

mod blocking;
mod channel;
mod ends;
mod lending;
mod stamps;
