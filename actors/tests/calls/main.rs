//! Calls: who is admitted, who answers, who waits for how long, and what goes with them.

mod abandoned;
mod admission;
mod backlog;
mod cancelled;
mod deadlines;
mod double_panics;
mod reentrancy;
mod replies;
mod request_context;
mod streamed_answers;
