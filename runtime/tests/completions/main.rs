//! What is waited for: completions, channels, work that blocks, values that are lent.

mod blocking;
mod channel;
mod ends;
mod lending;
mod stamps;
