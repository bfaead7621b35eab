//! A value that is lent out and given back.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use turnwheel_runtime::internal::Lender;

/// Counts its drops.
struct Counted(Arc<AtomicU32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn it_comes_back_as_it_was_left_again_and_again() {
    let mut lender = Lender::new();
    assert!(lender.is_empty());
    let mut value = String::new();
    for round in 0..3 {
        let mut lent = lender.lend(value);
        assert!(!lender.is_empty());
        let borrower = std::thread::spawn(move || lent.push('x'));
        borrower.join().unwrap();
        value = lender.fetch().unwrap();
        assert_eq!(value.len(), round + 1);
        assert!(lender.is_empty() && lender.fetch().is_none(), "fetched once");
    }
}

#[test]
fn the_side_that_goes_last_drops_the_value_once() {
    let drops = Arc::new(AtomicU32::new(0));
    let mut lender = Lender::new();
    let lent = lender.lend(Counted(Arc::clone(&drops)));
    drop(lender);
    assert_eq!(drops.load(Ordering::Relaxed), 0, "it is out");
    drop(lent);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    let mut lender = Lender::new();
    drop(lender.lend(Counted(Arc::clone(&drops))));
    drop(lender);
    assert_eq!(drops.load(Ordering::Relaxed), 2, "given back and not fetched");
}

#[test]
fn while_one_is_out_another_may_be_lent_and_only_that_comes_back() {
    let mut lender = Lender::new();
    let first = lender.lend(1);
    let second = lender.lend(2);
    drop(first);
    assert_eq!(lender.fetch(), None);
    drop(second);
    assert_eq!(lender.fetch(), Some(2));
    // A value that was given back and not fetched is dropped for the next one.
    drop(lender.lend(3));
    drop(lender.lend(4));
    assert_eq!(lender.fetch(), Some(4));
}
