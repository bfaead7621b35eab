//! Interceptors around what is handled and around what is sent.

#[path = "../intercepted/mod.rs"]
mod intercepted;

mod handling;
mod outgoing;
