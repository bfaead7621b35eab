//! The order of jobs of one task (3.23 of the reference).

use std::sync::Arc;

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Completion, Context, Failure, Lifecycle};

use crate::{note, noted, Log};

// Z-157
#[test]
fn three_siblings_of_one_job_all_run_in_order_and_once() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let task = sim.group("cpu").spawn(Arc::clone(&log)).unwrap();
    task.submit(|log, cx| {
        for name in ["ONE", "TWO", "THREE"] {
            cx.run(move |log, _| note(log, name)).unwrap();
        }
        note(log, "parent");
    })
    .unwrap();
    sim.run_until_idle();
    assert_eq!(noted(&log), ["parent", "ONE", "TWO", "THREE"]);
}

// Z-159
#[test]
fn siblings_run_in_order_and_before_everything_submitted() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let task = sim.group("cpu").spawn(Arc::clone(&log)).unwrap();
    task.submit(|_, cx| {
        cx.run(|log, cx| {
            note(log, "ONE");
            cx.submit(|log, _| note(log, "TWO")).unwrap();
        })
        .unwrap();
        cx.run(|log, _| note(log, "THREE")).unwrap();
        cx.submit(|log, _| note(log, "FOUR")).unwrap();
    })
    .unwrap();
    sim.run_until_idle();
    assert_eq!(noted(&log), ["ONE", "THREE", "FOUR", "TWO"]);
}

// Z-160, Z-161
#[test]
fn continuations_of_what_is_done_come_after_the_pending_jobs() {
    for is_holding in [false, true] {
        let (sim, log) = (Sim::fifo(), Log::default());
        let task = sim.group("cpu").spawn(Arc::clone(&log)).unwrap();
        let continue_with = move |cx: &mut Context<'_, Log>, what: &'static str| {
            let job = move |log: &mut Log, _: &mut Context<'_, Log>, _| note(log, what);
            if is_holding {
                cx.on_completion_holding(Completion::done(()), job);
            } else {
                cx.on_completion(Completion::done(()), job);
            }
        };
        task.submit(move |_, cx| {
            continue_with(cx, "THREE");
            cx.run(move |log, cx| {
                note(log, "ONE");
                continue_with(cx, "FOUR");
            })
            .unwrap();
            cx.run(|log, _| note(log, "TWO")).unwrap();
        })
        .unwrap();
        sim.run_until_idle();
        assert_eq!(noted(&log), ["ONE", "TWO", "THREE", "FOUR"]);
    }
}

/// Waits in its hook, in one of two ways, and makes two jobs.
struct Starter {
    log: Log,
    waiting: Option<Completion<()>>,
    is_holding: bool,
}

impl Lifecycle<Log> for Starter {
    fn started(&mut self, _: &mut Log, cx: &mut Context<'_, Log>) -> Result<(), Failure> {
        let continuation = |log: &mut Log, cx: &mut Context<'_, Log>, _| {
            note(log, "THREE");
            cx.run(|log, _| note(log, "FOUR")).expect("room");
        };
        let waiting = self.waiting.take().expect("the hook is called once");
        if self.is_holding {
            cx.on_completion_holding(waiting, continuation);
        } else {
            cx.on_completion(waiting, continuation);
        }
        cx.run(|log, _| note(log, "ONE"))?;
        cx.run(|log, _| note(log, "TWO"))?;
        note(&self.log, "started");
        Ok(())
    }
}

// Z-164, Z-165
#[test]
fn jobs_of_the_hook_come_first_and_children_follow_their_parent() {
    for is_holding in [false, true] {
        let (sim, log) = (Sim::fifo(), Log::default());
        let (completer, waiting) = completion();
        let hooks = Starter { log: Arc::clone(&log), waiting: Some(waiting), is_holding };
        let task = sim.group("cpu").task(Arc::clone(&log)).lifecycle(hooks).spawn().unwrap();
        let call = task.call(|log, _| note(log, "FIVE"));
        completer.complete(()).unwrap();
        sim.run_until_idle();
        assert!(call.is_done());
        let log = noted(&log);
        assert_eq!(log[..3], ["started", "ONE", "TWO"]);
        let three = log.iter().position(|what| *what == "THREE").unwrap();
        assert_eq!(log[three + 1], "FOUR");
        assert!(log[3..].contains(&"FIVE"));
        assert_eq!(log.len(), 6, "each once");
    }
}

// Z-X10
#[test]
fn a_continuation_that_is_ready_before_the_close_runs() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let (completer, waiting) = completion();
    let task = sim.group("cpu").spawn(Arc::clone(&log)).unwrap();
    task.submit(move |_, cx| {
        cx.on_completion(waiting, |log, _, _: Result<(), Failure>| note(log, "ran"));
    })
    .unwrap();
    sim.run_until_idle();
    completer.complete(()).unwrap();
    drop(task.close());
    sim.run_until_idle();
    assert_eq!(noted(&log), ["ran"]);
}
