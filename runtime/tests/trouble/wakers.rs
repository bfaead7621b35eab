//! Wakers whose clone, drop and wake call back into their source: none runs under a lock.

use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::{mpsc, Arc};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::thread;
use std::time::Duration;

use turnwheel_channel::Channel;
use turnwheel_extras::Share;
use turnwheel_runtime::completion::{completion, Completer};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::Mailbox;

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Behaviour of a waker that wakes no task.
type Hook = Box<dyn Fn(Moment) + Send + Sync>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    Clone,
    Wake,
    Drop,
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// A waker that runs the hook at each of its moments.
fn hooked(hook: impl Fn(Moment) + Send + Sync + 'static) -> Waker {
    let hook: Arc<Hook> = Arc::new(Box::new(hook));
    // SAFETY: the pointer is a count of the hook, as the table's functions expect; the hook may be
    // called from any thread.
    unsafe { Waker::new(Arc::into_raw(hook).cast(), &VTABLE) }
}

/// Lends the hook of a waker that lives.
///
/// # Safety
///
/// The pointer comes from `hooked` or `clone`, and its count is released after the loan ends.
unsafe fn hook<'a>(data: *const ()) -> &'a Hook {
    // SAFETY: the caller keeps the count for as long as it uses the loan.
    unsafe { &*data.cast::<Hook>() }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the waker that is cloned lives.
    let hook = unsafe { hook(data) };
    hook(Moment::Clone);
    // SAFETY: the pointer came from an `Arc` with a count that the waker holds.
    unsafe { Arc::increment_strong_count(data.cast::<Hook>()) };
    RawWaker::new(data, &VTABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: the waker gives its count here.
    let hook = unsafe { Arc::from_raw(data.cast::<Hook>()) };
    hook(Moment::Wake);
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the waker lives.
    let hook = unsafe { hook(data) };
    hook(Moment::Wake);
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: the waker gives its count here.
    let hook = unsafe { Arc::from_raw(data.cast::<Hook>()) };
    hook(Moment::Drop);
}

/// Runs it on a thread of its own: a lock taken twice fails the test and does not hang it.
fn within_patience(run: impl FnOnce() -> Result<(), String> + Send + 'static) -> Outcome {
    let (told, done) = mpsc::channel();
    let thread = thread::spawn(move || {
        let _ = told.send(run());
    });
    let ended = done.recv_timeout(PATIENCE);
    if !matches!(ended, Err(mpsc::RecvTimeoutError::Timeout)) {
        thread.join().map_err(|_| "the thread panicked")?;
    }
    Ok(ended??)
}

const MOMENTS: [Moment; 3] = [Moment::Clone, Moment::Wake, Moment::Drop];

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(waker))
}

/// Completes at that moment.
fn completing(completer: &Completer<u32>, at: Moment) -> Waker {
    let completer = completer.clone();
    hooked(move |moment| {
        if moment == at {
            let _ = completer.complete(1);
        }
    })
}

#[test]
fn a_waker_may_complete_what_it_waits_for() -> Outcome {
    for at in MOMENTS {
        within_patience(move || {
            let (completer, mut answer) = completion();
            let waker = completing(&completer, at);
            let first = poll(&mut answer, &waker);
            // The waker kept before is dropped here.
            let second = first.is_pending().then(|| poll(&mut answer, Waker::noop()));
            assert!(completer.complete(2).is_err() || at == Moment::Wake);
            drop(waker);
            match second.unwrap_or(first) {
                Poll::Ready(Ok(1)) => Ok(()),
                Poll::Pending if answer.wait().is_ok() => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })?;
    }
    Ok(())
}

#[test]
fn a_waker_may_complete_what_its_shared_completion_waits_for() -> Outcome {
    for at in MOMENTS {
        within_patience(move || {
            let (completer, answer) = completion();
            let mut shared = answer.shared();
            let waker = completing(&completer, at);
            let looking = shared.clone();
            let looks = hooked(move |_| {
                let _ = looking.is_done();
            });
            for waker in [&waker, &looks, Waker::noop()] {
                if let Poll::Ready(outcome) = poll(&mut shared.clone(), waker) {
                    assert_eq!(outcome.ok(), Some(1));
                }
                if let Poll::Ready(outcome) = poll(&mut shared, waker) {
                    assert_eq!(outcome.ok(), Some(1));
                }
            }
            let _ = completer.complete(1);
            assert!(shared.is_done());
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn a_waker_may_use_the_channel_that_it_waits_for() -> Outcome {
    within_patience(|| {
        let channel = Channel::<u32>::bounded(64);
        let own = channel.clone();
        let waker = hooked(move |moment| {
            if moment != Moment::Wake {
                let _ = own.send(own.len() as u32);
            }
        });
        let mut taken = 0;
        for _ in 0..4 {
            let polled = channel.poll_take(&mut Context::from_waker(&waker));
            taken += usize::from(polled.is_ready());
        }
        assert!(taken > 0, "the items of its clone and drop are there to be taken");
        Ok(())
    })
}

#[test]
fn a_waker_that_panics_keeps_no_other_from_being_woken() -> Outcome {
    within_patience(|| {
        let channel = Channel::<u32>::bounded(1);
        let (told, woken) = mpsc::channel();
        let panics = hooked(|moment| assert!(moment != Moment::Wake, "planted"));
        let tells = hooked(move |moment| {
            if moment == Moment::Wake {
                let _ = told.send(());
            }
        });
        for waker in [&panics, &tells] {
            assert!(channel.poll_take(&mut Context::from_waker(waker)).is_pending());
        }
        channel.send(1).map_err(|refused| refused.to_string())?;
        woken.try_recv().map_err(|_| "the second was not woken".to_owned())
    })
}

#[test]
fn a_waker_may_ask_for_the_place_that_it_waits_for() -> Outcome {
    within_patience(|| {
        let sim = Sim::fifo();
        let spawned = sim.group("cpu").task(()).mailbox(Mailbox::bounded(1)).spawn();
        let task = spawned.map_err(|refused| refused.to_string())?;
        task.submit(|(), _| ()).map_err(|refused| refused.to_string())?;
        let own = task.clone();
        let waker = hooked(move |_| {
            // It waits, and gives up.
            let _ = poll(&mut Box::pin(own.reserve()), Waker::noop());
        });
        let mut place = Box::pin(task.reserve());
        for waker in [&waker, Waker::noop(), &waker] {
            assert!(poll(&mut place, waker).is_pending());
        }
        sim.run_until_idle();
        assert!(poll(&mut place, &waker).is_ready(), "there is room");
        Ok(())
    })
}
