//! Interceptors around the handling and the sending of messages.

#[path = "../intercepted/mod.rs"]
mod intercepted;

mod handling;
mod outgoing;
