//! What flows do outside.

mod http;
mod process;
