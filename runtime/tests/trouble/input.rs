//! Bad input and trouble: each has a typed error or a defined outcome, and leaves nothing stuck.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;

use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{
    limits, BuildError, Context, Failure, Group, Lifecycle, Mailbox, OnFailure, Pinning,
    ShutdownError, SpawnErrorKind, SubmitErrorKind,
};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// A tenth of ten million where code is not optimised.
const TIMERS: u32 = if cfg!(debug_assertions) { 1_000_000 } else { 10_000_000 };

fn group(workers: usize) -> Result<Group, Box<dyn Error>> {
    Ok(Group::builder("trouble").workers(workers).pinning(Pinning::None).build()?)
}

#[test]
fn impossible_groups_and_tasks_are_refused_by_name() -> Outcome {
    let built = |group: turnwheel_runtime::GroupBuilder| group.build().map(drop);
    let new = || Group::builder("odd");
    assert!(matches!(built(new().workers(0)), Err(BuildError::NoWorkers { .. })));
    assert!(matches!(built(new().workers(usize::MAX)), Err(BuildError::TooManyWorkers { .. })));
    assert!(matches!(built(Group::builder("")), Err(BuildError::BadName { .. })));
    assert!(matches!(built(new().stack_bytes(1)), Err(BuildError::StackTooSmall { .. })));
    let none = new().mailbox(Mailbox::bounded(0));
    assert!(matches!(built(none), Err(BuildError::NoMailbox { .. })));
    let huge = new().mailbox(Mailbox::bounded(limits::MAILBOX_JOBS_MAX + 1));
    assert!(matches!(built(huge), Err(BuildError::MailboxTooLarge { jobs: 1_048_576, .. })));
    let no_cores = new().pinning(Pinning::Cores(Vec::new()));
    assert!(matches!(built(no_cores), Err(BuildError::NoCores { .. })));
    let group = group(1)?;
    let refused = group.task(7).mailbox(Mailbox::bounded(u64::MAX - 1)).spawn().map(drop);
    let refused = refused.expect_err("a mailbox that cannot be counted");
    assert!(matches!(refused.kind, SpawnErrorKind::MailboxTooLarge));
    let refused = group.task(7).mailbox(Mailbox::bounded(0)).spawn().map(drop);
    let refused = refused.expect_err("a mailbox for nothing");
    assert!(matches!(refused.kind, SpawnErrorKind::NoMailbox));
    assert_eq!(refused.state, 7, "the state comes back");
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_task_that_waits_is_stopped_in_order_before_the_deadline_of_the_shutdown() -> Outcome {
    struct Waits(Arc<AtomicUsize>);
    impl Lifecycle<()> for Waits {
        fn started(&mut self, (): &mut (), cx: &mut Context<'_, ()>) -> Result<(), Failure> {
            cx.await_exclusive(std::future::pending::<()>(), |(), _, ()| {});
            Ok(())
        }
        fn closed(&mut self, (): &mut (), _: &mut Context<'_, ()>) -> Result<(), Failure> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }
    let group = group(1)?;
    let closed = Arc::new(AtomicUsize::new(0));
    let task = group.task(()).lifecycle(Waits(Arc::clone(&closed))).spawn()?;
    task.started().wait_timeout(PATIENCE)?;
    assert!(group.shutdown_within(Duration::from_secs(4))?.is_clean());
    assert_eq!(closed.load(Ordering::Relaxed), 1, "its hooks ran");
    Ok(())
}

#[test]
fn after_the_shutdown_spawns_and_submissions_are_answered_closed() -> Outcome {
    let group = group(1)?;
    let task = group.spawn(0_u32)?;
    assert!(group.shutdown()?.is_clean());
    let refused = task.submit(|_, _| ()).expect_err("the group has ended");
    assert_eq!(refused.kind, SubmitErrorKind::Closed);
    let refused = group.spawn(7).map(drop).expect_err("the group has ended");
    assert!(matches!(refused.kind, SpawnErrorKind::GroupClosed));
    assert!(group.shutdown()?.is_clean(), "a second shutdown finds nothing to do");
    Ok(())
}

// Z-206
#[test]
fn a_closed_failed_or_full_task_gives_the_job_back() {
    let sim = Sim::fifo();
    let group = sim.group("cpu");
    let closed = group.spawn(0_u32).expect("the group runs");
    let failed = group.spawn(0_u32).expect("the group runs");
    let full = group.task(0_u32).mailbox(Mailbox::bounded(1)).spawn().expect("the group runs");
    assert!(sim.wait(closed.close()).is_ok());
    assert!(sim.wait(failed.fail(Failure::message("broken"))).is_err());
    full.submit(|count, _| *count += 1).expect("room for one");
    for (task, kind) in [
        (&closed, SubmitErrorKind::Closed),
        (&failed, SubmitErrorKind::Closed),
        (&full, SubmitErrorKind::Full),
    ] {
        assert_eq!(task.submit(|_, _| ()).expect_err("no room").kind, kind);
    }
    assert!(matches!(sim.wait(closed.call(|count, _| *count)), Err(Failure::Closed)));
    sim.run_until_idle();
    assert_eq!(sim.wait(full.call(|count, _| *count)).ok(), Some(1));
}

/// Panics in the hook of this name.
struct Panics(&'static str);

impl Panics {
    fn at(&self, hook: &'static str) -> Result<(), Failure> {
        assert_ne!(self.0, hook, "asked to panic");
        Ok(())
    }
}

impl Lifecycle<()> for Panics {
    fn starting(&mut self, (): &mut (), _: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.at("starting")
    }
    fn started(&mut self, (): &mut (), _: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.at("started")
    }
    fn close_requested(&mut self, (): &mut (), _: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.at("close_requested")
    }
    fn closing(&mut self, (): &mut (), _: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.at("closing")
    }
    fn closed(&mut self, (): &mut (), _: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.at("closed")
    }
    fn on_failure(&mut self, (): &mut (), _: &mut Context<'_, ()>, _: &Failure) -> OnFailure {
        assert_ne!(self.0, "on_failure", "asked to panic");
        OnFailure::Resume
    }
}

#[test]
fn a_panic_in_any_hook_leaves_the_task_over_and_its_end_answered() {
    for hook in ["starting", "started", "close_requested", "closing", "closed", "on_failure"] {
        let sim = Sim::fifo();
        let task = sim.group("cpu").task(()).lifecycle(Panics(hook)).spawn().expect("runs");
        if hook == "on_failure" {
            task.submit(|(), _| panic!("a job")).expect("room");
        }
        sim.run_until_idle();
        // The policy lets the task survive a panic only in `started`.
        assert_eq!(sim.wait(task.close()).is_ok(), hook == "started", "{hook}");
        assert!(task.phase().is_over(), "{hook}");
    }
}

#[test]
fn a_worker_that_would_wait_for_itself_is_refused() -> Outcome {
    let group = group(1)?;
    let task = group.spawn(())?;
    let answer = task.call(|(), cx| {
        let shutdown = cx.group().shutdown();
        let waited = cx.task().closed().wait();
        let refused = matches!(shutdown, Err(ShutdownError::OnWorker));
        (refused, matches!(waited, Err(Failure::WouldBlock)))
    });
    assert_eq!(answer.wait_timeout(PATIENCE)?, (true, true));
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_blocking_job_holds_up_nobody_else() -> Outcome {
    let group = group(1)?;
    let (release, held) = mpsc::channel::<()>();
    let blocked = group.run_blocking(move || held.recv().is_ok(), None);
    let task = group.spawn(7)?;
    assert_eq!(task.call(|seven, _| *seven).wait_timeout(PATIENCE)?, 7);
    release.send(())?;
    assert!(blocked.wait_timeout(PATIENCE)?);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

// Z-X12
#[test]
fn a_task_that_never_ends_its_work_does_not_starve_another() {
    let sim = Sim::fifo();
    let group = sim.group("cpu");
    let busy = group.spawn(0_u64).expect("the group runs");
    busy.submit_again(|count, _| {
        *count += 1;
        turnwheel_runtime::Flow::Again
    })
    .expect("room");
    let other = group.spawn(7).expect("the group runs");
    assert_eq!(sim.wait(other.call(|seven, _| *seven)).ok(), Some(7));
    // The end is a failure: its work was never done.
    assert!(sim.wait(busy.kill()).is_err());
}

#[test]
fn millions_of_timers_are_armed_and_dropped_with_their_task() -> Outcome {
    let group = group(1)?;
    let task = group.spawn(())?;
    let armed = task.call(|(), cx| {
        (0..TIMERS).filter(|_| cx.after(Duration::from_secs(3600), |(), _| ()).is_ok()).count()
    });
    assert_eq!(armed.wait()?, TIMERS as usize);
    task.close().wait()?;
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_flood_beyond_the_groups_memory_is_refused_and_loses_nothing() -> Outcome {
    let builder = Group::builder("flood").workers(1).pinning(Pinning::None);
    let group = builder.memory_budget(1 << 20).build()?;
    let count = Arc::new(AtomicUsize::new(0));
    let task = group.task(Arc::clone(&count)).mailbox(Mailbox::unbounded()).spawn()?;
    let (release, held) = mpsc::channel::<()>();
    task.submit(move |_, _| assert!(held.recv().is_ok()))?;
    let mut admitted = 0;
    let kind = loop {
        match task.submit(|count, _| {
            count.fetch_add(1, Ordering::AcqRel);
        }) {
            Ok(()) => admitted += 1,
            Err(refused) => break refused.kind,
        }
        assert!(admitted < 1 << 20, "a megabyte cannot hold as many jobs");
    };
    assert_eq!(kind, SubmitErrorKind::GroupMemory);
    release.send(())?;
    task.close().wait_timeout(PATIENCE)?;
    let report = group.shutdown()?;
    assert!(report.is_clean() && admitted > 0);
    assert_eq!(count.load(Ordering::Acquire), admitted, "each admitted job has run once");
    Ok(())
}
