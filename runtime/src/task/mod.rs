//! Tasks: one state, jobs on it one at a time. The protocol is in `README.md` of this folder.

mod cell;
mod handle;
pub(crate) mod lane;
pub(crate) mod turn;

pub(crate) use self::{
    cell::extra::Extra,
    cell::layout::{make, unmake, Header, Parts, TaskPtr},
    cell::reference::TaskRef,
    handle::weak::WeakRef,
    lane::inbox::bits,
    lane::mail::Mail,
    turn::lifecycle::{Fixed, Hooks},
    turn::phases::close_admission,
    turn::run::{run_simulated_turn, run_turn, After, Report, Turn},
};
pub use self::{
    cell::layout::{Attached, Attachment, Of},
    handle::any::{current_task, losing_task, AnyTask},
    handle::context::Context,
    handle::continuation::Subscription,
    handle::task::Task,
    handle::weak::WeakTask,
    lane::mail::{Mailbox, Overflow},
    lane::node::Flow,
    lane::room::Reserve,
    lane::submit::{Permit, SubmitError, SubmitErrorKind, TaskJob},
    turn::lifecycle::{Lifecycle, OnFailure, Phase},
};
