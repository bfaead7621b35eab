//! Several groups as one runtime: start, work and end.

mod at_random;
mod groups;
mod startup;
mod tokio_host;
