//! The source of a waker is reused for the next future of its task, unless a clone is left.

use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{mpsc, Arc};
use std::task::{Poll, Waker};

use turnwheel_runtime::{completion, Completion, Context, Group, Task};

fn task(group: &Group) -> Task<u32> {
    group.spawn(0).expect("the group runs")
}

/// Runs a future that waits once; its waker goes into the channel.
fn wait_once(task: &Task<u32>, wakers: mpsc::Sender<Waker>, ended: mpsc::Sender<u32>) {
    let job = move |_: &mut u32, cx: &mut Context<'_, u32>| {
        let mut has_waited = false;
        let future = poll_fn(move |cx| {
            if std::mem::replace(&mut has_waited, true) {
                return Poll::Ready(());
            }
            let _ = wakers.send(cx.waker().clone());
            Poll::Pending
        });
        cx.run_exclusive(future, move |count, _, ()| {
            *count += 1;
            let _ = ended.send(*count);
        });
    };
    assert!(task.submit(job).is_ok(), "the task runs");
}

#[test]
fn a_waker_of_a_future_that_is_over_does_not_poll_the_next_one() {
    let group = Group::builder("test").workers(1).build().unwrap();
    let task = task(&group);
    let (wakers, woken) = mpsc::channel();
    let (ended, end) = mpsc::channel();
    wait_once(&task, wakers, ended);
    let old: Waker = woken.recv().unwrap();
    old.wake_by_ref();
    assert_eq!(end.recv(), Ok(1));

    let (completer, mut completion): (_, Completion<()>) = completion::completion();
    let polls = Arc::new(AtomicU32::new(0));
    let (begun, begin) = mpsc::channel();
    let (ended, end) = mpsc::channel();
    let counted = Arc::clone(&polls);
    let job = move |_: &mut u32, cx: &mut Context<'_, u32>| {
        let future = poll_fn(move |cx| {
            counted.fetch_add(1, Ordering::Relaxed);
            let polled = Pin::new(&mut completion).poll(cx);
            let _ = begun.send(());
            polled
        });
        cx.run_exclusive(future, move |_, _, _| {
            let _ = ended.send(());
        });
    };
    assert!(task.submit(job).is_ok());
    begin.recv().unwrap();
    old.wake_by_ref();
    old.wake();
    completer.complete(()).unwrap();
    end.recv().unwrap();
    assert_eq!(polls.load(Ordering::Relaxed), 2, "at first and when it was completed");
    group.shutdown().unwrap();
}

#[test]
fn futures_one_after_the_other_are_each_woken() {
    const ROUNDS: u32 = 1_000;
    let group = Group::builder("test").workers(2).build().unwrap();
    let task = task(&group);
    let (ended, end) = mpsc::channel();
    let mut kept = Vec::new();
    for round in 1..=ROUNDS {
        let (wakers, woken) = mpsc::channel();
        wait_once(&task, wakers, ended.clone());
        let waker = woken.recv().unwrap();
        if round % 3 == 0 {
            // Now and then the former one is still known, and cannot be reused.
            kept.push(waker.clone());
        }
        waker.wake();
        assert_eq!(end.recv(), Ok(round));
    }
    kept.into_iter().for_each(Waker::wake);
    let closed = task.close();
    drop(task);
    closed.wait().unwrap();
    group.shutdown().unwrap();
}
