//! Calls: admission, answers, deadlines, and the context that goes with them.

mod abandoned;
mod admission;
mod backlog;
mod backlog_simulated;
mod cancelled;
mod deadlines;
mod double_panics;
mod reentrancy;
mod replies;
mod request_context;
mod streamed_answers;
