//! Times of completion, and follow-ups: stamps, followers, links of a chain, shared waits.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::Duration;

use turnwheel_extras::{Share, Stamp};
use turnwheel_runtime::completion::{block_on, completion, InlineExecutor};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Completion, Failure, Group, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);

// Z-201, Z-202
#[test]
fn timers_expire_by_the_monotonic_clock_whatever_the_wall_clock_does() -> Outcome {
    const HOUR: Duration = Duration::from_secs(3600);
    for back_to_the_past in [false, true] {
        let sim = Sim::fifo();
        let task = sim.group("cpu").spawn(Vec::new())?;
        sim.advance(Duration::from_nanos(17));
        let date = sim.wall() + 2 * HOUR;
        let armed = task.call(move |_, cx| {
            let delayed = cx.after(HOUR, |seen: &mut Vec<_>, cx| seen.push(cx.now_ns()));
            let stamped = cx.at(date, |seen, cx| seen.push(cx.now_ns()));
            delayed.is_ok() && stamped.is_ok()
        });
        assert!(sim.wait(armed)?);
        sim.set_wall(if back_to_the_past { date - 10 * HOUR } else { date + 10 * HOUR });
        sim.run_until_idle();
        for _ in 0..2 {
            assert!(sim.advance_to_next_timer());
        }
        let armed_at = Duration::from_nanos(17);
        let expected = [HOUR, 2 * HOUR].map(|delay| (armed_at + delay).as_nanos());
        let seen = sim.wait(task.call(|seen, _| std::mem::take(seen)))?;
        assert!(seen.into_iter().map(u128::from).eq(expected));
    }
    Ok(())
}

// Z-209, Z-210, Z-211, Z-212
#[test]
fn every_outcome_has_the_time_at_which_it_was_given() -> Outcome {
    let sim = Sim::fifo();
    let group = sim.group("cpu");
    let at = |seconds| sim.advance(Duration::from_secs(seconds) - sim.now());
    at(1);
    let made_done = Completion::done(1).stamped(&group);
    at(2);
    let made_failed = Completion::<u32>::failed(Failure::Closed).stamped(&group);
    let ((one, done), (two, failed), (three, given_up)) =
        (completion(), completion::<u32>(), completion::<u32>());
    let all = [done, failed, given_up].map(|pending| pending.stamped(&group));
    at(3);
    assert!(all.iter().all(|pending| !pending.is_done()));
    one.complete(7)?;
    at(4);
    two.fail(Failure::Cancelled)?;
    at(5);
    drop(three);
    // The first look is much later.
    at(100);
    let mut seen = Vec::new();
    for stamped in [made_done, made_failed].into_iter().chain(all) {
        let stamped = stamped.wait()?;
        seen.push((stamped.completed_ns / 1_000_000_000, stamped.outcome));
    }
    assert_eq!(seen.iter().map(|(second, _)| *second).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert!(matches!(seen[0].1, Ok(1)) && matches!(seen[1].1, Err(Failure::Closed)));
    assert!(matches!(seen[2].1, Ok(7)) && matches!(seen[3].1, Err(Failure::Cancelled)));
    assert!(matches!(seen[4].1, Err(Failure::Abandoned)));
    Ok(())
}

// Z-211
#[test]
fn a_stamp_lies_between_the_asking_and_the_answer_on_real_threads() -> Outcome {
    let group = Group::builder("stamps").workers(2).pinning(Pinning::None).build()?;
    let task = group.spawn(())?;
    for _ in 0..1_000 {
        let before_ns = group.now_ns();
        let stamped = task.call(|(), _| ()).stamped(&group).wait_timeout(PATIENCE)?;
        stamped.outcome?;
        assert!((before_ns..=group.now_ns()).contains(&stamped.completed_ns));
    }
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

// Z-214
#[test]
fn continuations_run_after_the_value_and_not_before() -> Outcome {
    let has_run = Arc::new(AtomicBool::new(false));
    let run = Arc::clone(&has_run);
    let (completer, done) = completion();
    let follower = done.on_success(InlineExecutor, move |()| run.store(true, Ordering::SeqCst));
    assert!(!has_run.load(Ordering::SeqCst) && !follower.is_done());
    completer.complete(())?;
    assert!(has_run.load(Ordering::SeqCst));
    follower.wait()?;
    Ok(())
}

// Z-215
#[test]
fn continuations_of_a_failure_are_not_run_and_fail_with_it() -> Outcome {
    let has_run = Arc::new(AtomicBool::new(false));
    let failure = Failure::message("the very one");
    for is_late in [false, true] {
        let run = Arc::clone(&has_run);
        let (completer, done) = completion::<()>();
        if !is_late {
            completer.fail(failure.clone())?;
        }
        let follower = done.on_success(InlineExecutor, move |()| run.store(true, Ordering::SeqCst));
        if is_late {
            completer.fail(failure.clone())?;
        }
        assert!(follower.wait().is_err_and(|met| met.same_as(&failure)));
    }
    assert!(!has_run.load(Ordering::SeqCst));
    Ok(())
}

// Z-227
#[test]
fn every_link_of_a_chain_has_a_value_of_its_own() -> Outcome {
    let (completer, first) = completion();
    let first = first.shared();
    let second = first.subscribe().map(|value: u32| value + 1).shared();
    let third = second.subscribe().map(|value| format!("{value}!")).shared();
    assert!(!first.is_done() && !second.is_done() && !third.is_done());
    completer.complete(41)?;
    assert_eq!((first.wait()?, second.wait()?, third.wait()?), (41, 42, "42!".to_owned()));
    Ok(())
}

#[test]
fn a_time_out_of_one_waiter_gives_nothing_up_for_the_others() -> Outcome {
    let (completer, answer) = completion::<u32>();
    let shared = answer.shared();
    let (begin, begun) = mpsc::channel();
    let other = shared.clone();
    let waiter = thread::spawn(move || {
        let is_told = begin.send(());
        (is_told.is_ok(), other.wait_timeout(PATIENCE))
    });
    begun.recv_timeout(PATIENCE)?;
    assert!(shared.wait_timeout(Duration::from_millis(1)).is_err_and(|met| met.is_timed_out()));
    assert!(shared.wait_timeout(Duration::ZERO).is_err_and(|met| met.is_timed_out()));
    assert!(!completer.is_cancelled());
    completer.complete(7)?;
    let (is_told, value) = waiter.join().map_err(|_| "the waiter panicked")?;
    assert!(is_told);
    assert_eq!(value?, 7);
    assert_eq!(shared.wait_timeout(Duration::ZERO)?, 7, "what is there needs no time");
    Ok(())
}

#[test]
fn a_shared_wait_is_refused_where_it_would_stop_a_worker() -> Outcome {
    let group = Group::builder("refused").workers(1).pinning(Pinning::None).build()?;
    let task = group.spawn(())?;
    let (completer, answer) = completion::<u32>();
    let shared = answer.shared();
    let met = task.call(move |(), _| {
        let refused = [shared.wait(), shared.wait_timeout(PATIENCE)];
        completer.complete(7).is_ok()
            && refused.into_iter().all(|met| matches!(met, Err(Failure::WouldBlock)))
            && shared.wait().is_ok()
    });
    assert!(met.wait_timeout(PATIENCE)?);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_subscription_that_is_dropped_is_no_consumer_any_more() -> Outcome {
    let (completer, answer) = completion::<u32>();
    let told = Arc::new(AtomicUsize::new(0));
    let shared = answer.shared();
    let (one, two) = (shared.subscribe(), shared.subscribe());
    drop(shared);
    drop(one);
    assert!(!completer.is_cancelled(), "the second one waits");
    drop(two);
    assert!(completer.is_cancelled(), "nobody waits");
    // The remaining follower gets its value.
    let (completer, answer) = completion();
    let shared = answer.shared();
    drop(shared.subscribe());
    let count = Arc::clone(&told);
    let kept = shared.subscribe().map(move |value: u32| {
        count.fetch_add(1, Ordering::SeqCst);
        value
    });
    completer.complete(7)?;
    assert_eq!(block_on(kept)??, 7);
    assert_eq!(told.load(Ordering::SeqCst), 1);
    Ok(())
}
