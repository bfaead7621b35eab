//! Behaviour of journeys, in simulation.

mod common;
mod definitions;
mod policies;
mod races;
mod scenario;
mod trouble;
