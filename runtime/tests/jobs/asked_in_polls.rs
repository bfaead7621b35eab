//! Calls that are made inside the poll of a task's future: their channels have its waker from the
//! beginning, whoever awaits the answer in the end.

use std::future::{poll_fn, Future};
use std::pin::{pin, Pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::task::{Context as PollContext, Poll, Wake, Waker};

use turnwheel_runtime::{
    completion, Completer, Completion, Context, Failure, Group, Lifecycle, OnFailure, Task,
};

use super::on_workers;

/// A task that adds one to what it is asked.
fn server(group: &Group) -> Task<u64> {
    group.spawn(1).expect("the group runs")
}

fn ask(server: &Task<u64>, number: u64) -> Completion<u64> {
    server.call(move |one, _| *one + number)
}

/// Lets the server take nothing until the answer is completed.
fn hold(server: &Task<u64>) -> Completer<()> {
    let (completer, completion) = completion::completion();
    let job = move |_: &mut u64, cx: &mut Context<'_, u64>| {
        cx.run_exclusive(completion, |_, _, _| ());
    };
    assert!(server.submit(job).is_ok(), "the server runs");
    completer
}

/// Runs a future on a new task, and waits for its output.
fn run_on<Fut>(group: &Group, future: Fut) -> Fut::Output
where
    Fut: Future<Output: Send> + Send + 'static,
{
    let task = group.spawn(()).expect("the group runs");
    let (done, output) = mpsc::channel();
    let job = move |(): &mut (), cx: &mut Context<'_, ()>| {
        cx.run_exclusive(future, move |(), _, output| {
            let _ = done.send(output);
        });
    };
    assert!(task.submit(job).is_ok(), "the task runs");
    output.recv().expect("the future ends")
}

#[test]
fn answer_asked_inside_a_poll_wakes_the_task_that_awaits_it() {
    on_workers(|group| {
        let server = server(group);
        let sum = run_on(group, async move {
            let mut sum = 0;
            for number in 0..2_000 {
                sum += ask(&server, number).await.expect("the server runs");
            }
            sum
        });
        assert_eq!(sum, (1..=2_000).sum::<u64>());
    });
}

#[test]
fn answer_asked_inside_a_poll_wakes_a_thread_that_waits_for_it() {
    on_workers(|group| {
        let server = server(group);
        let open = hold(&server);
        let asked = server.clone();
        let answer = run_on(group, poll_fn(move |_| Poll::Ready(ask(&asked, 41))));
        let waiting = std::thread::spawn(move || answer.wait());
        assert!(open.complete(()).is_ok());
        assert_eq!(waiting.join().expect("it waits").ok(), Some(42));
    });
}

/// Passes a wake-up on.
struct Through(Waker, Arc<AtomicBool>);

impl Wake for Through {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::Release);
        self.0.wake_by_ref();
    }
}

#[test]
fn answer_polled_with_another_waker_wakes_that_one() {
    on_workers(|group| {
        let server = server(group);
        let open = hold(&server);
        let is_told = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_told);
        let answer = run_on(group, async move {
            let mut answer = pin!(ask(&server, 6));
            poll_fn(move |cx| {
                let waker = Waker::from(Arc::new(Through(cx.waker().clone(), Arc::clone(&told))));
                let polled = answer.as_mut().poll(&mut PollContext::from_waker(&waker));
                let _ = open.complete(());
                polled
            })
            .await
        });
        assert_eq!(answer.ok(), Some(7));
        assert!(is_told.load(Ordering::Acquire), "the waker of the last poll was woken");
    });
}

#[test]
fn answers_that_nobody_awaits_keep_nothing_of_their_asker() {
    on_workers(|group| {
        let server = server(group);
        let held = Arc::new(());
        let (kept, asked) = (Arc::clone(&held), server.clone());
        let numbers = run_on(group, async move {
            for number in 0..100 {
                drop(ask(&asked, number));
            }
            let first = ask(&asked, 1);
            let second = ask(&asked, 2);
            let numbers = (second.await.ok(), first.await.ok());
            drop(kept);
            numbers
        });
        assert_eq!(numbers, (Some(3), Some(2)));
        assert!(server.close().wait().is_ok());
        assert_eq!(Arc::strong_count(&held), 1);
    });
}

/// Goes on after a failure.
struct Resumes;

impl Lifecycle<()> for Resumes {
    fn on_failure(&mut self, (): &mut (), _: &mut Context<'_, ()>, _: &Failure) -> OnFailure {
        OnFailure::Resume
    }
}

#[test]
fn panic_inside_a_poll_leaves_no_waker_for_later_calls() {
    on_workers(|group| {
        let server = server(group);
        let task = group.task(()).lifecycle(Resumes).spawn().expect("the group runs");
        let asked = server.clone();
        let job = move |(): &mut (), cx: &mut Context<'_, ()>| {
            let panics = poll_fn(move |_: &mut PollContext<'_>| -> Poll<()> {
                drop(ask(&asked, 1));
                panic!("on purpose");
            });
            cx.run_exclusive(panics, |(), _, ()| ());
        };
        assert!(task.submit(job).is_ok(), "the task runs");
        for number in 0..10 {
            let asked = server.clone();
            let answer = task.call(move |(), _| ask(&asked, number)).wait().expect("it resumed");
            assert_eq!(answer.wait().ok(), Some(number + 1));
        }
    });
}

#[test]
fn answer_outlives_the_future_that_asked_for_it() {
    on_workers(|group| {
        let server = server(group);
        let open = hold(&server);
        let asked = server.clone();
        let answers: Vec<_> =
            run_on(group, async move { (0..8).map(|n| ask(&asked, n)).collect() });
        assert!(open.complete(()).is_ok());
        let sum = run_on(group, async move {
            let mut sum = 0;
            for mut answer in answers {
                sum += poll_fn(|cx| Pin::new(&mut answer).poll(cx)).await.expect("the server runs");
            }
            sum
        });
        assert_eq!(sum, (1..=8).sum::<u64>());
    });
}
