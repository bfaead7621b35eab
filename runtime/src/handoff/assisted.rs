//! Work of a thread for an answer that it is about to wait for.

use std::cell::Cell;

/// Works until the question is answered with true, or there is nothing to do.
type Assist = fn(&dyn Fn() -> bool);

thread_local!(
    static ASSIST: Cell<Option<Assist>> = const { Cell::new(None) };
);

/// From now on this thread calls `assist` when it polls an answer that is not there; it works until
/// the answer is there, or it has nothing to do.
pub(crate) fn assist_by(assist: Assist) {
    ASSIST.set(Some(assist));
}

/// Lets the thread work for an answer.
#[inline(always)]
pub(super) fn assist(is_done: impl Fn() -> bool) {
    if let Ok(Some(assist)) = ASSIST.try_with(Cell::get) {
        assist(&is_done);
    }
}
