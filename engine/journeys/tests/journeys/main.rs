//! Behaviour of journeys, in simulation.

mod attributes;
mod bounds;
mod common;
mod counts;
mod definitions;
mod files;
mod input;
mod nodes;
mod policies;
mod races;
mod scenario;
mod trouble;
mod versions;
