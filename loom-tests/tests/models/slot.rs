//! The run-next slot and the hand-over to a thief; a locked queue stands for the deque.

use std::collections::VecDeque;

use loom::sync::atomic::{fence, AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use turnwheel_runtime::model::RunNext;

#[test]
fn owner_and_thief_take_a_task_once() {
    loom::model(|| {
        let slot = Arc::new(RunNext::default());
        assert_eq!(slot.replace_owner(1), None);
        let thief = {
            let slot = Arc::clone(&slot);
            loom::thread::spawn(move || slot.steal())
        };
        let mine = slot.take_owner();
        let theirs = thief.join().unwrap();
        let left = slot.take_owner();
        let taken: Vec<usize> = [mine, theirs, left].into_iter().flatten().collect();
        assert_eq!(taken, [1], "once, and not lost");
    });
}

#[test]
fn a_task_put_while_a_thief_is_at_work_is_not_lost() {
    loom::model(|| {
        let slot = Arc::new(RunNext::default());
        slot.replace_owner(1);
        let thief = {
            let slot = Arc::clone(&slot);
            loom::thread::spawn(move || slot.steal())
        };
        let displaced = slot.replace_owner(2);
        let theirs = thief.join().unwrap();
        let left = slot.take_owner();
        let mut taken: Vec<usize> = [displaced, theirs, left].into_iter().flatten().collect();
        taken.sort_unstable();
        assert_eq!(taken, [1, 2], "each once");
    });
}

#[test]
fn two_thieves_and_an_owner_share_a_queue_without_losing_or_doubling() {
    loom::model(|| {
        let slot = Arc::new(RunNext::default());
        let queue = Arc::new(Mutex::new(VecDeque::new()));
        slot.replace_owner(1);
        // What the owner displaces goes to its queue, where thieves look first.
        if let Some(before) = slot.replace_owner(2) {
            queue.lock().unwrap().push_back(before);
        }
        let thief = {
            let (slot, queue) = (Arc::clone(&slot), Arc::clone(&queue));
            loom::thread::spawn(move || {
                let stolen = queue.lock().unwrap().pop_front();
                stolen.or_else(|| slot.steal())
            })
        };
        let mine = slot.take_owner().or_else(|| queue.lock().unwrap().pop_front());
        let theirs = thief.join().unwrap();
        let rest = slot.take_owner();
        let queued = queue.lock().unwrap().pop_front();
        let mut taken: Vec<usize> = [mine, theirs, rest, queued].into_iter().flatten().collect();
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
    });
}

/// The slot without its barriers.
struct Unfenced {
    task: AtomicUsize,
    is_busy: AtomicBool,
    is_claimed: AtomicBool,
    has_fence: bool,
}

impl Unfenced {
    fn barrier(&self) {
        if self.has_fence {
            fence(Ordering::SeqCst);
        }
    }

    fn take_owner(&self) -> usize {
        self.is_busy.store(true, Ordering::Relaxed);
        self.barrier();
        if !self.is_claimed.load(Ordering::Relaxed) {
            let before = self.task.load(Ordering::Relaxed);
            self.task.store(0, Ordering::Release);
            self.is_busy.store(false, Ordering::Release);
            return before;
        }
        self.is_busy.store(false, Ordering::Release);
        self.task.swap(0, Ordering::AcqRel)
    }

    fn steal(&self) -> usize {
        self.is_claimed.store(true, Ordering::Relaxed);
        self.barrier();
        if self.is_busy.load(Ordering::Acquire) {
            return 0;
        }
        self.task.swap(0, Ordering::AcqRel)
    }
}

fn take_twice(has_fence: bool) {
    loom::model(move || {
        let slot = Arc::new(Unfenced {
            task: AtomicUsize::new(1),
            is_busy: AtomicBool::new(false),
            is_claimed: AtomicBool::new(false),
            has_fence,
        });
        let thief = {
            let slot = Arc::clone(&slot);
            loom::thread::spawn(move || slot.steal())
        };
        let mine = slot.take_owner();
        let theirs = thief.join().unwrap();
        assert!(mine + theirs <= 1, "the task would run twice");
    });
}

#[test]
fn the_twin_with_its_barriers_is_sound() {
    take_twice(true);
}

#[test]
#[should_panic]
fn twin_without_barriers_runs_a_task_twice() {
    take_twice(false);
}
