//! References: the last handle tells the runner, and the cell is freed once, after everybody.
#![cfg(turnwheel_loom)]

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use turnwheel_runtime::model::Task;

/// The cell's memory, and a mailbox for the orphan signal.
struct World {
    task: Task,
    freed: AtomicUsize,
    orphan: Mutex<bool>,
}

impl World {
    fn new() -> Arc<Self> {
        let (task, freed) = (Task::new(true), AtomicUsize::new(0));
        Arc::new(Self { task, freed, orphan: Mutex::new(false) })
    }

    fn free(&self) {
        assert_eq!(self.freed.fetch_add(1, Ordering::AcqRel), 0, "freed twice");
    }

    fn drop_handle(&self) {
        let is_freed = self.task.drop_handle(|| {
            assert_eq!(self.freed.load(Ordering::Acquire), 0, "signalled after the end");
            *self.orphan.lock().unwrap() = true;
            assert_eq!(self.freed.load(Ordering::Acquire), 0, "freed during the signal");
        });
        if is_freed {
            self.free();
        }
    }
}

#[test]
fn the_last_handle_is_noticed_and_the_cell_freed_once() {
    loom::model(|| {
        let world = World::new();
        world.task.add_handle();
        let other = {
            let world = Arc::clone(&world);
            loom::thread::spawn(move || world.drop_handle())
        };
        world.drop_handle();
        // The runner ends the task when it is told and finds it unreferenced.
        let is_told = *world.orphan.lock().unwrap();
        let ended_early = is_told && world.task.is_unreferenced();
        if ended_early && world.task.release_own() {
            world.free();
        }
        other.join().unwrap();
        assert!(*world.orphan.lock().unwrap(), "nobody told the runner");
        if !ended_early {
            assert!(world.task.is_unreferenced(), "a task that nobody reaches looks reachable");
            if world.task.release_own() {
                world.free();
            }
        }
        assert_eq!(world.freed.load(Ordering::Acquire), 1, "leaked");
    });
}

#[test]
fn a_task_that_ends_by_itself_is_freed_by_its_last_handle() {
    loom::model(|| {
        let world = World::new();
        let handle = {
            let world = Arc::clone(&world);
            loom::thread::spawn(move || world.drop_handle())
        };
        if world.task.release_own() {
            world.free();
        }
        handle.join().unwrap();
        assert_eq!(world.freed.load(Ordering::Acquire), 1);
    });
}

#[test]
fn a_weak_handle_holds_the_cell_and_not_the_task() {
    loom::model(|| {
        let world = World::new();
        world.task.add_weak();
        let strong = {
            let world = Arc::clone(&world);
            loom::thread::spawn(move || world.drop_handle())
        };
        let is_upgraded = world.task.upgrade();
        assert!(is_upgraded, "the task is not over");
        if world.task.drop_weak() {
            world.free();
        }
        // The runner looks before the upgraded handle goes, whatever it was told.
        assert!(!world.task.is_unreferenced(), "an upgraded handle is a reason to stay");
        world.drop_handle();
        strong.join().unwrap();
        assert!(*world.orphan.lock().unwrap(), "nobody told the runner");
        assert!(world.task.is_unreferenced());
        assert_eq!(world.freed.load(Ordering::Acquire), 0, "the task is not over yet");
        if world.task.release_own() {
            world.free();
        }
        assert_eq!(world.freed.load(Ordering::Acquire), 1, "leaked");
    });
}

#[test]
fn the_end_and_the_last_weak_handle_free_the_cell_once_and_an_upgrade_after_it_fails() {
    loom::model(|| {
        let world = World::new();
        world.task.add_weak();
        world.drop_handle();
        let weak = {
            let world = Arc::clone(&world);
            loom::thread::spawn(move || {
                if world.task.upgrade() {
                    world.drop_handle();
                }
                if world.task.drop_weak() {
                    world.free();
                }
            })
        };
        if world.task.release_own() {
            world.free();
        }
        weak.join().unwrap();
        assert_eq!(world.freed.load(Ordering::Acquire), 1, "leaked");
    });
}

#[test]
#[should_panic]
fn twin_handing_the_count_over_lets_the_cell_go_during_the_signal() {
    loom::model(|| {
        let is_freed = Arc::new(AtomicBool::new(false));
        let orphan = Arc::new(AtomicBool::new(false));
        let runner = {
            let (is_freed, orphan) = (Arc::clone(&is_freed), Arc::clone(&orphan));
            loom::thread::spawn(move || {
                if orphan.load(Ordering::Acquire) {
                    is_freed.store(true, Ordering::Release);
                }
            })
        };
        // Broken: the signal is the hand-over, and its second half touches the cell after it.
        orphan.store(true, Ordering::Release);
        assert!(!is_freed.load(Ordering::Acquire), "the tail is tagged in freed memory");
        runner.join().unwrap();
    });
}
