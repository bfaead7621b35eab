//! Several groups as one runtime: how they begin, work and end.

mod at_random;
mod groups;
mod startup;
mod tokio_host;
