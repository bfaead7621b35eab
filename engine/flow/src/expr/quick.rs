//! Limit for a turn of a flow on a worker. A longer turn is taken again on the blocking pool.

use std::cell::Cell;

/// Steps that all expressions of one turn may take on a worker: some milliseconds. Most take fewer
/// than a hundred.
const STEPS: u64 = 20_000;

thread_local! {
    /// Steps that the turn on this thread has left; nothing where it may take its time.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Ends the turn of this thread, also by a panic.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        LEFT.set(None);
    }
}

/// Runs code that evaluates expressions; `None` if they take longer than a moment. Changes made by
/// the code must then be dropped.
pub(crate) fn quickly<T>(code: impl FnOnce() -> T) -> Option<T> {
    LEFT.set(Some(STEPS));
    let _ends = Ends;
    let done = code();
    (LEFT.get() != Some(0)).then_some(done)
}

/// Uses steps of the turn; false if there are none left.
pub(super) fn spend(steps: u64) -> bool {
    let Some(left) = LEFT.get() else { return true };
    let left = left.saturating_sub(steps);
    LEFT.set(Some(left));
    left > 0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Program;
    use super::*;

    #[test]
    fn a_long_expression_is_not_evaluated_in_a_moment_and_a_short_one_is() {
        let evaluate = |text: &str| {
            let program = Program::compile(text, &[]).expect("it compiles");
            move || program.run(&json!(null), &[], 0.0)
        };
        let (short, long) = (evaluate("[range(10)] | length"), evaluate("[range(30000)] | length"));
        assert_eq!(quickly(&short), Some(Ok(json!(10))));
        assert_eq!(quickly(|| (short(), long())), None, "all expressions of a turn count together");
        assert_eq!(long(), Ok(json!(30_000)), "elsewhere it may take its time");
        // The turn is repeated, even if the flow catches the error of a long expression.
        assert_eq!(quickly(|| long().unwrap_or_default()), None);
    }
}
