//! Behaviour of journeys, in simulation.

mod attributes;
mod batches;
mod bounds;
mod common;
mod counts;
mod definitions;
mod failing;
mod files;
mod input;
mod lost;
mod nodes;
mod policies;
mod races;
mod receivers;
mod scenario;
mod stored;
mod trouble;
mod versions;
