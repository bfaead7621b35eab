//! Programs without `unsafe` that try to reach memory that is not theirs.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use turnwheel_runtime::completion::exchange_shared;
use turnwheel_runtime::sim::Sim;

type Outcome = Result<(), Box<dyn Error>>;

/// Runs a closure when it is dropped.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    fn new(run: F) -> Self {
        Self(Some(run))
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run();
        }
    }
}

/// More submissions than nodes that the discarded jobs have given back.
const SUBMISSIONS: usize = 8;

#[test]
fn own_job_of_a_discarded_closure_does_not_land_in_another_tasks_lane() -> Outcome {
    let sim = Sim::fifo();
    let group = sim.group("memory");
    let words = group.spawn(String::new())?;
    let number = group.spawn(7_u64)?;
    let seen = Arc::new(AtomicU64::new(7));
    number.submit(|_, cx| {
        cx.run(|_, _| ()).expect("the fast lane has room");
        cx.stop();
    })?;
    let bait = OnDrop::new({
        let (words, number, seen) = (words.clone(), number.clone(), Arc::clone(&seen));
        move || {
            for _ in 0..SUBMISSIONS {
                // Into the node that the discarded job of the fast lane has left.
                words.submit(|text, _| text.push('w')).expect("the mailbox has room");
            }
            // Closed or run: both are fine, on this task alone.
            let _ = number.run(move |number, _| seen.store(*number, Ordering::Release));
        }
    });
    number.submit(move |_, _| drop(bait))?;
    let text = words.call(|text, _| text.clone());
    sim.run_until_idle();
    assert_eq!(seen.load(Ordering::Acquire), 7, "a job of one task ran on another's state");
    assert!(text.is_done());
    let whole = words.call(|text, _| text.clone());
    sim.run_until_idle();
    assert_eq!(whole.wait()?, "w".repeat(SUBMISSIONS));
    assert!(number.phase().is_over());
    Ok(())
}

#[test]
fn own_job_of_a_discarded_fast_job_stays_in_its_task() -> Outcome {
    let sim = Sim::fifo();
    let group = sim.group("memory");
    let words = group.spawn(String::new())?;
    let number = group.spawn(7_u64)?;
    let seen = Arc::new(AtomicU64::new(7));
    let is_gone = Arc::new(AtomicBool::new(false));
    let bait = OnDrop::new({
        let (words, number) = (words.clone(), number.clone());
        let (seen, gone) = (Arc::clone(&seen), Arc::clone(&is_gone));
        move || {
            for _ in 0..SUBMISSIONS {
                words.submit(|text, _| text.push('w')).expect("the mailbox has room");
            }
            let marked = OnDrop::new(move || gone.store(true, Ordering::Release));
            let _ = number.run(move |number, _| {
                let _marked = marked;
                seen.store(*number, Ordering::Release);
            });
        }
    });
    number.submit(move |_, cx| {
        cx.run(|_, _| ()).expect("the fast lane has room");
        cx.run(move |_, _| drop(bait)).expect("the fast lane has room");
        cx.run(|_, _| ()).expect("the fast lane has room");
        cx.stop();
    })?;
    sim.run_until_idle();
    assert_eq!(seen.load(Ordering::Acquire), 7, "a job of one task ran on another's state");
    assert!(is_gone.load(Ordering::Acquire), "the job was neither run nor dropped");
    let whole = words.call(|text, _| text.clone());
    sim.run_until_idle();
    assert_eq!(whole.wait()?, "w".repeat(SUBMISSIONS));
    Ok(())
}

/// Set in the process that is to be aborted: which handles it forgets.
const FORGETS: &str = "TURNWHEEL_TEST_FORGETS";

/// Forgets handles of an exchange for as long as that goes, whatever panics.
fn forget_handles(kind: &str) {
    let (_giver, _taker, shared) = exchange_shared::<u8, ()>(());
    let weak = shared.downgrade();
    for _ in 0..(1_u32 << 24) {
        // A panic that is caught must not be a way to go on counting.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match kind {
            "shared" => std::mem::forget(shared.clone()),
            "weak" => std::mem::forget(weak.clone()),
            _ => std::mem::forget(weak.upgrade()),
        }));
    }
}

#[test]
fn forgotten_handles_of_an_exchange_abort_before_the_count_is_round() -> Outcome {
    if let Ok(kind) = std::env::var(FORGETS) {
        std::panic::set_hook(Box::new(|_| ()));
        forget_handles(&kind);
        return Ok(());
    }
    let name = "memory::forgotten_handles_of_an_exchange_abort_before_the_count_is_round";
    let program = std::env::current_exe()?;
    for kind in ["shared", "weak", "upgraded"] {
        let mut child = std::process::Command::new(&program);
        let ended = child.args(["--exact", name, "--nocapture"]).env(FORGETS, kind).output()?;
        assert!(!ended.status.success(), "{kind}: {ended:?}");
        assert!(!String::from_utf8_lossy(&ended.stdout).contains("test result"), "{kind}");
    }
    Ok(())
}
