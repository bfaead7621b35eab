//! A value that its owner uses with plain stores and others visit with a barrier.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::Arc;
use turnwheel_runtime::model::Visited;

#[test]
fn owner_and_visitor_have_it_one_after_the_other() {
    loom::model(|| {
        let number = Arc::new(Visited::new(0));
        let visitor = {
            let number = Arc::clone(&number);
            loom::thread::spawn(move || number.add(10))
        };
        number.add_owner(1);
        number.add_owner(1);
        visitor.join().unwrap();
        assert_eq!(number.add_owner(0), 12, "nothing is lost");
    });
}

#[test]
fn two_visitors_and_an_owner_have_it_one_after_the_other() {
    loom::model(|| {
        let number = Arc::new(Visited::new(0));
        let visitors = [10, 100].map(|by| {
            let number = Arc::clone(&number);
            loom::thread::spawn(move || number.add(by))
        });
        number.add_owner(1);
        for visitor in visitors {
            visitor.join().unwrap();
        }
        assert_eq!(number.add_owner(0), 111, "nothing is lost");
    });
}

/// The section in small, without its barriers.
struct Unfenced {
    value: UnsafeCell<u32>,
    is_busy: AtomicBool,
    is_claimed: AtomicBool,
}

// SAFETY: the model checks each access.
unsafe impl Sync for Unfenced {}

impl Unfenced {
    fn enter(&self, mine: &AtomicBool, other: &AtomicBool) {
        mine.store(true, Ordering::Relaxed);
        // Broken: nothing orders this look after the store.
        if !other.load(Ordering::Acquire) {
            // SAFETY: the model checks that nobody else is here.
            self.value.with_mut(|value| unsafe { *value += 1 });
        }
        mine.store(false, Ordering::Release);
    }
}

#[test]
#[should_panic]
fn twin_without_barriers_has_both_inside() {
    loom::model(|| {
        let section = Arc::new(Unfenced {
            value: UnsafeCell::new(0),
            is_busy: AtomicBool::new(false),
            is_claimed: AtomicBool::new(false),
        });
        let visitor = {
            let section = Arc::clone(&section);
            loom::thread::spawn(move || section.enter(&section.is_claimed, &section.is_busy))
        };
        section.enter(&section.is_busy, &section.is_claimed);
        visitor.join().unwrap();
    });
}
