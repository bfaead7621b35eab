//! Tasks: one state, jobs on it one at a time. The protocol is in `README.md` of this folder.

#[cfg(not(turnwheel_loom))]
mod any;
#[cfg(not(turnwheel_loom))]
mod cell;
#[cfg(not(turnwheel_loom))]
mod context;
#[cfg(not(turnwheel_loom))]
mod continuation;
#[cfg(not(turnwheel_loom))]
pub(crate) mod current;
#[cfg(not(turnwheel_loom))]
mod extra;
#[cfg(not(turnwheel_loom))]
mod handle;
pub(crate) mod inbox;
#[cfg(not(turnwheel_loom))]
mod leave;
#[cfg(not(turnwheel_loom))]
mod lifecycle;
#[cfg(not(turnwheel_loom))]
mod mail;
#[cfg(not(turnwheel_loom))]
mod phases;
#[cfg(not(turnwheel_loom))]
mod pool;
#[cfg(not(turnwheel_loom))]
mod ready;
pub(crate) mod refs;
#[cfg(not(turnwheel_loom))]
mod run;
#[cfg(not(turnwheel_loom))]
pub(crate) mod slab;
#[cfg(not(turnwheel_loom))]
mod submit;
#[cfg(not(turnwheel_loom))]
mod urgent;
#[cfg(not(turnwheel_loom))]
mod weak;

#[cfg(not(turnwheel_loom))]
mod node;
#[cfg(turnwheel_loom)]
#[path = "node_model.rs"]
pub(crate) mod node;

#[cfg(not(turnwheel_loom))]
pub use self::{
    any::{current_task, losing_task, AnyTask},
    context::Context,
    continuation::Subscription,
    handle::Task,
    lifecycle::{Lifecycle, OnFailure, Phase},
    mail::{Mailbox, Overflow},
    node::Flow,
    submit::{Permit, Reserve, SubmitError, SubmitErrorKind, TaskJob},
    weak::WeakTask,
};
#[cfg(not(turnwheel_loom))]
pub(crate) use self::{
    cell::{make, unmake, Header, Parts, TaskPtr, TaskRef},
    extra::Extra,
    inbox::bits,
    lifecycle::Fixed,
    mail::Mail,
    phases::close_admission,
    run::{run_simulated_turn, run_turn, After, Report, Turn},
    weak::WeakRef,
};
