//! The simulation, and what is found by its seeds.

mod seeds;
mod virtual_time;
