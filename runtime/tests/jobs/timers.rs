//! Timers (3.10, 3.11 and 3.31 of the reference).

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use turnwheel_runtime::completion::{completion, Completion};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Cancelled, Context, Failure, Group, Late, Pinning, Timer};

use crate::{ms, note, noted, Log};

fn armed(sim: &Sim, log: &Log, arm: fn(&mut Context<'_, Log>) -> Timer) -> Timer {
    let task = sim.group("cpu").spawn(Arc::clone(log)).expect("the group is open");
    sim.wait(task.call(move |_, cx| arm(cx))).expect("the task lives")
}

fn in_ten(cx: &mut Context<'_, Log>) -> Timer {
    cx.after(ms(10), |log, _| note(log, "ran")).expect("few timers")
}

fn at_a_time(cx: &mut Context<'_, Log>) -> Timer {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(946_684_800) + ms(900);
    cx.at(time, |log, _| note(log, "ran")).expect("few timers")
}

fn each_ten(cx: &mut Context<'_, Log>) -> Timer {
    cx.every(ms(10), Late::Skip, |log, _| note(log, "ran")).expect("few timers")
}

fn each_ten_after(cx: &mut Context<'_, Log>) -> Timer {
    cx.every_after(ms(10), |log, _| note(log, "ran")).expect("few timers")
}

// Z-059, Z-060, Z-X07
#[test]
fn a_timer_runs_once_at_its_deadline_and_never_before() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let timer = armed(&sim, &log, in_ten);
    sim.advance(ms(10) - Duration::from_nanos(1));
    assert!(noted(&log).is_empty() && timer.is_pending());
    sim.advance(Duration::from_nanos(1));
    assert_eq!(noted(&log), ["ran"]);
    sim.advance(ms(100));
    assert_eq!(noted(&log), ["ran"]);
    assert_eq!(timer.cancel(), Cancelled::TooLate);
}

// Z-065, Z-066, Z-067
#[test]
fn a_timer_for_a_date_runs_then_and_not_when_cancelled() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let wall = sim.wall();
    assert_eq!(wall, SystemTime::UNIX_EPOCH + Duration::from_secs(946_684_800), "the virtual date");
    let _first = armed(&sim, &log, at_a_time);
    let second = armed(&sim, &log, at_a_time);
    sim.advance(ms(899));
    assert!(noted(&log).is_empty());
    assert_eq!(second.cancel(), Cancelled::BeforeFiring);
    sim.advance(ms(1));
    assert_eq!(noted(&log), ["ran"]);
}

// Z-064
#[test]
fn a_recurring_timer_cancelled_before_its_first_deadline_never_runs() {
    for arm in [each_ten, each_ten_after] {
        let (sim, log) = (Sim::fifo(), Log::default());
        let (timer, other) = (armed(&sim, &log, arm), armed(&sim, &log, arm));
        sim.advance(ms(10) - Duration::from_nanos(1));
        assert_eq!(timer.cancel(), Cancelled::BeforeFiring);
        assert!(!timer.is_pending() && other.is_pending());
        sim.advance(Duration::from_nanos(1));
        assert_eq!(noted(&log), ["ran"], "the other one");
        assert_eq!(other.cancel(), Cancelled::BeforeFiring);
        sim.advance(ms(100));
        assert_eq!(noted(&log), ["ran"]);
    }
}

// Z-061, Z-062
#[test]
fn a_recurring_timer_runs_each_period_until_it_is_cancelled() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let timer = armed(&sim, &log, each_ten);
    for round in 1..=3 {
        sim.advance(ms(10));
        assert_eq!(noted(&log).len(), round);
    }
    assert_eq!(timer.cancel(), Cancelled::BeforeFiring);
    let once = armed(&sim, &log, in_ten);
    assert_eq!(once.cancel(), Cancelled::BeforeFiring);
    sim.advance(ms(100));
    assert_eq!(noted(&log).len(), 3);
}

// Z-X08
#[test]
fn a_cancel_from_elsewhere_inside_the_action_or_too_late_hits_no_other_timer() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let task = sim.group("cpu").spawn((Arc::clone(&log), None::<Timer>)).unwrap();
    task.submit(|(_, own), cx| {
        let timer = cx.every_after(ms(10), |(log, own): &mut (Log, Option<Timer>), _| {
            note(log, "ran");
            assert_eq!(own.as_ref().map(Timer::cancel), Some(Cancelled::WhileRunning));
        });
        *own = timer.ok();
        cx.after(ms(30), |(log, _), _| note(log, "other")).unwrap();
    })
    .unwrap();
    sim.run_until_idle();
    sim.advance(ms(100));
    assert_eq!(noted(&log), ["ran", "other"]);
    let (sim, log) = (Sim::fifo(), Log::default());
    let timer = armed(&sim, &log, in_ten);
    let elsewhere = std::thread::spawn(move || timer.cancel());
    assert_eq!(elsewhere.join().unwrap(), Cancelled::BeforeFiring);
    sim.advance(ms(100));
    assert!(noted(&log).is_empty());
}

// Z-X09
#[test]
fn the_next_run_of_a_fixed_delay_is_measured_from_the_end_of_the_last() {
    let sim = Sim::fifo();
    let clock = sim.clock();
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&times);
    let task = sim.group("cpu").spawn(()).unwrap();
    task.submit(move |(), cx| {
        cx.every_after(ms(10), move |(), cx| {
            seen.lock().unwrap().push(cx.now_ns());
            clock.advance(ms(7));
        })
        .unwrap();
    })
    .unwrap();
    sim.run_until_idle();
    for _ in 0..40 {
        sim.advance(ms(1));
    }
    let times = times.lock().unwrap();
    assert!(times.len() >= 2);
    assert!(times[1] - times[0] >= 17_000_000, "7 ms of job and 10 ms of delay: {times:?}");
}

#[test]
fn a_sleep_that_is_given_up_leaves_no_timer() {
    const LONG: Duration = Duration::from_secs(3_600);
    let sim = Sim::fifo();
    let group = sim.group("cpu");
    drop(group.sleep(LONG));
    assert_eq!(sim.quiescence().timers, 0, "dropped");
    let (_completer, never) = completion::<()>();
    drop(group.timeout(never, LONG));
    assert_eq!(sim.quiescence().timers, 0, "a time-out that was never polled");
    let answered = group.timeout(Completion::done(7), LONG);
    assert_eq!(sim.block_on(answered).unwrap().unwrap(), 7);
    assert_eq!(sim.quiescence().timers, 0, "a value in time");
    assert!(matches!(sim.wait_for(group.sleep(LONG), ms(1)), Err(Failure::TimedOut(_))));
    assert_eq!(sim.quiescence().timers, 0, "a wait that was given up");
    let sleep = group.sleep(ms(5));
    sim.advance(ms(5));
    assert!(sleep.is_done(), "one that is waited for goes on");
}

#[test]
fn a_blocking_closure_that_ends_in_time_leaves_no_timer() {
    const LIMIT: Option<Duration> = Some(Duration::from_secs(3_600));
    let sim = Sim::fifo();
    let group = sim.group("cpu");
    assert_eq!(sim.wait(group.run_blocking(|| 7, LIMIT)).unwrap(), 7);
    assert_eq!(sim.quiescence().timers, 0);
    sim.shutdown(ms(1));
    assert!(matches!(group.run_blocking(|| 7, LIMIT).try_take(), Some(Err(Failure::Closed))));
    drop(sim);

    let group = Group::builder("threads").workers(1).pinning(Pinning::None).build().unwrap();
    assert_eq!(group.run_blocking(|| 7, LIMIT).wait().unwrap(), 7);
    group.shutdown().unwrap();
}
