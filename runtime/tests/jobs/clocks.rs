//! Clocks, and the time of a group that has one of the user's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::time::{Clock, ClockListener, ManualClock};
use turnwheel_runtime::Group;

use crate::{note, noted, Log};

const NS: Duration = Duration::from_nanos(1);

#[test]
fn wall_time_jumps_without_monotonic_time() {
    let clock = ManualClock::new();
    let start = clock.wall();
    clock.advance(Duration::from_secs(3));
    clock.jump_back(Duration::from_secs(10));
    assert_eq!(clock.wall() + Duration::from_secs(7), start);
    clock.set_wall(start);
    assert_eq!((clock.wall(), clock.now_ns()), (start, 3_000_000_000));
}

#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl ClockListener for Counter {
    fn clock_moved(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn listeners_hear_of_each_move_until_they_are_gone() {
    let clock = ManualClock::new();
    let counter = Arc::new(Counter::default());
    let weak = Arc::downgrade(&counter);
    clock.listen(weak);
    clock.advance(NS);
    clock.clone().advance(NS);
    assert_eq!(counter.0.load(Ordering::Relaxed), 2);
    drop(counter);
    clock.advance(NS);
}

#[test]
fn the_time_of_a_group_stands_still_while_its_clock_is_behind() {
    let clock = ManualClock::new();
    let builder = Group::builder("behind").workers(1).clock(Arc::new(clock.clone()));
    let group = builder.build().expect("a group with a clock");
    clock.advance(100 * NS);
    assert_eq!(group.now_ns(), 100);
    clock.inject_jump_back(70 * NS);
    assert_eq!((clock.now_ns(), group.now_ns()), (30, 100));
    clock.advance(50 * NS);
    assert_eq!(group.now_ns(), 100);
    clock.advance(50 * NS);
    assert_eq!(group.now_ns(), 130);
    group.shutdown().expect("not on a worker");
}

#[test]
fn a_date_in_the_past_is_now_and_a_delay_beyond_all_times_never_comes() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let task = sim.group("cpu").spawn(Arc::clone(&log)).expect("the group is open");
    let past = sim.wall() - Duration::from_secs(5);
    let arm = move |_: &mut Log, cx: &mut turnwheel_runtime::Context<'_, Log>| {
        cx.at(past, |log, _| note(log, "past")).expect("few timers");
        cx.after(Duration::MAX, |log, _| note(log, "never")).expect("few timers")
    };
    let never = sim.wait(task.call(arm)).expect("the task lives");
    sim.run_until_idle();
    sim.advance(Duration::from_secs(365 * 24 * 3_600));
    assert_eq!(noted(&log), ["past"]);
    assert!(never.is_pending());
}
