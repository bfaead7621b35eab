//! The simulation, and bugs that its seeds find.

mod seeds;
mod virtual_time;
