//! Entities: their life, their state, their room, and their trouble.

mod collected;
mod conflict;
mod cycles;
mod last_use;
mod life;
mod memory;
mod overview;
mod passivation;
mod remote;
mod state;
mod stuck;
mod timers;
mod trouble;
mod types;
