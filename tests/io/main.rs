//! What flows do outside.

mod container;
mod http;
mod process;
mod talk;
