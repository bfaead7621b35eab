//! Units of the section of an owner.

use std::panic::{catch_unwind, AssertUnwindSafe};

use super::*;

#[test]
fn section_within_one_that_waited_for_a_visitor_panics() {
    let section = Section::new(0);
    // As if a visitor were active at the owner's first entry and gone at the second.
    section.is_claimed.store(true, Ordering::Relaxed);
    // SAFETY: this thread is the only owner.
    let enter = |run: &mut dyn FnMut(&mut i32)| unsafe { section.enter_owner(run) };
    let nested = || {
        enter(&mut |outer| {
            section.is_claimed.store(false, Ordering::Relaxed);
            enter(&mut |inner| *inner += 1);
            *outer += 1;
        });
    };
    assert!(catch_unwind(AssertUnwindSafe(nested)).is_err(), "both had the value");
    enter(&mut |value| assert_eq!(*value, 0));
    assert_eq!(section.visit(|value| *value), 0, "the panic has left the section");
}
