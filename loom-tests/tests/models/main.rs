//! The models of `turnwheel-runtime`: see `README.md` of the crate.
#![cfg(turnwheel_loom)]

mod cold;
mod completion;
mod hosted;
mod lending;
mod oneshot;
mod pool;
mod search;
mod section;
mod sleep;
mod slot;
mod timers;
mod turn;
mod waits;
mod wakers;
