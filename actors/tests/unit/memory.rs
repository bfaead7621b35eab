//! Units of the memory budget of entities.

use super::*;

#[test]
fn a_budget_holds_and_one_alone_always_fits() {
    let memory = Arc::new(Memory::new(1_000));
    let share = Share::new(&memory, 8);
    assert_eq!(share.reserve(), Some(15), "a part of the budget while nothing is known");
    share.change(15, 400);
    share.learn(400);
    assert_eq!(share.reserve(), Some(400));
    assert_eq!(share.reserve(), None);
    assert_eq!((memory.total(), share.total()), (800, 800));
    share.change(400, 5_000);
    assert!(memory.is_over());
    share.change(5_000, 0);
    share.change(400, 0);
    share.learn(u64::from(u32::MAX));
    assert!(share.reserve().is_some(), "alone");
    assert_eq!(share.reserve(), None);
}

#[test]
fn without_a_budget_everything_fits() {
    let memory = Arc::new(Memory::new(u64::MAX));
    let share = Share::new(&memory, 8);
    assert_eq!(share.reserve(), Some(8));
    assert_eq!(share.reserve(), Some(8));
    assert!(!memory.is_over());
    assert_eq!(memory.shed(u64::MAX), 0);
}
