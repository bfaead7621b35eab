//! A value that is lent out and given back, while its lender fetches it or goes.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use loom::sync::Arc;
use turnwheel_runtime::model::Lender;

/// Counts its drops.
struct Counted(u32, Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn what_is_given_back_is_fetched_as_it_was_left() {
    loom::model(|| {
        let mut lender = Lender::new();
        let mut lent = lender.lend(1);
        let borrower = loom::thread::spawn(move || {
            *lent += 1;
        });
        let mut fetched = lender.fetch();
        borrower.join().unwrap();
        fetched = fetched.or_else(|| lender.fetch());
        assert_eq!(fetched, Some(2));
        // The shelf serves again.
        drop(lender.lend(3));
        assert_eq!(lender.fetch(), Some(3));
    });
}

#[test]
fn who_goes_last_drops_the_value_once() {
    loom::model(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let mut lender = Lender::new();
        let mut lent = lender.lend(Counted(1, Arc::clone(&drops)));
        let borrower = loom::thread::spawn(move || {
            lent.0 += 1;
        });
        drop(lender);
        borrower.join().unwrap();
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_value_lent_while_another_is_out_is_the_one_that_comes_back() {
    loom::model(|| {
        let mut lender = Lender::new();
        let first = lender.lend(1);
        let borrower = loom::thread::spawn(move || drop(first));
        let second = lender.lend(2);
        borrower.join().unwrap();
        assert_eq!(lender.fetch(), None, "the first is not taken for the second");
        drop(second);
        assert_eq!(lender.fetch(), Some(2));
    });
}

/// The shelf in small.
struct Shelf {
    place: AtomicU8,
    value: UnsafeCell<u32>,
    drops: AtomicUsize,
}

// SAFETY: the model checks each access.
unsafe impl Sync for Shelf {}

const OUT: u8 = 1;
const BACK: u8 = 2;
const LEFT: u8 = 3;

impl Shelf {
    fn out() -> Arc<Self> {
        Arc::new(Self {
            place: AtomicU8::new(OUT),
            value: UnsafeCell::new(0),
            drops: AtomicUsize::new(0),
        })
    }
}

#[test]
#[should_panic]
fn twin_that_gives_back_by_look_and_store_has_nobody_drop_it() {
    loom::model(|| {
        let shelf = Shelf::out();
        let borrower = {
            let shelf = Arc::clone(&shelf);
            loom::thread::spawn(move || {
                // Broken: the lender may go between the two.
                if shelf.place.load(Ordering::Acquire) == LEFT {
                    shelf.drops.fetch_add(1, Ordering::Relaxed);
                } else {
                    shelf.place.store(BACK, Ordering::Release);
                }
            })
        };
        if shelf.place.swap(LEFT, Ordering::AcqRel) == BACK {
            shelf.drops.fetch_add(1, Ordering::Relaxed);
        }
        borrower.join().unwrap();
        assert_eq!(shelf.drops.load(Ordering::Relaxed), 1);
    });
}

#[test]
#[should_panic]
fn twin_that_gives_back_relaxed_lets_the_value_be_read_too_early() {
    loom::model(|| {
        let shelf = Shelf::out();
        let borrower = {
            let shelf = Arc::clone(&shelf);
            loom::thread::spawn(move || {
                // SAFETY: the model checks that nobody else is here.
                shelf.value.with_mut(|value| unsafe { *value += 1 });
                // Broken: publishes nothing.
                let order = (Ordering::Relaxed, Ordering::Relaxed);
                let _ = shelf.place.compare_exchange(OUT, BACK, order.0, order.1);
            })
        };
        if shelf.place.load(Ordering::Acquire) == BACK {
            // SAFETY: as above.
            shelf.value.with(|value| unsafe { *value });
        }
        borrower.join().unwrap();
    });
}
