//! A runtime of several groups: names, threads, clocks, timers across groups, an orderly end.

use std::error::Error;
use std::sync::{mpsc, Arc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use turnwheel_extras::{Runtime, RuntimeBuilder};
use turnwheel_runtime::time::{Clock, ManualClock};
use turnwheel_runtime::{
    BuildError, Cancelled, Context, Failure, Group, Late, Lifecycle, Pinning, ShutdownError,
    SpawnErrorKind, Task, Timer,
};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(30);

fn small() -> RuntimeBuilder {
    Runtime::builder()
        .cpu(|group| group.workers(1).pinning(Pinning::None))
        .io(|group| group.workers(1))
}

fn thread_name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

fn tell<T>(to: &mpsc::Sender<T>, value: T) {
    to.send(value).expect("the test listens until its groups have ended");
}

fn thread_of(group: &Group) -> Result<String, Box<dyn Error>> {
    Ok(group.spawn(())?.call(|(), _| thread_name()).wait()?)
}

#[test]
fn threads_are_named_after_prefix_group_and_number() -> Outcome {
    let runtime = small().group("disk", |group| group.workers(1)).build()?;
    assert_eq!(runtime.names(), ["cpu", "io", "disk"]);
    assert_eq!(thread_of(runtime.cpu())?, "cpu-0");
    assert_eq!(thread_of(runtime.io())?, "io-0");
    assert_eq!(thread_of(&runtime.group("disk").ok_or("no group")?)?, "disk-0");
    assert!(runtime.group("tape").is_none());
    assert!(runtime.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn the_groups_of_a_runtime_are_as_they_were_described() -> Outcome {
    let few = |count: usize| move |group: turnwheel_runtime::GroupBuilder| group.workers(count);
    let runtime = Runtime::builder().cpu(few(1)).io(few(3)).group("disk", few(2)).build()?;
    let workers = |name| runtime.group(name).map(|group| group.workers());
    assert_eq!(["cpu", "io", "disk", "net"].map(workers), [Some(1), Some(3), Some(2), None]);
    assert!(runtime.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_derived_runtime_has_the_same_clock_and_groups_under_another_prefix() -> Outcome {
    let clock = ManualClock::pinned_at(UNIX_EPOCH + Duration::from_secs(9));
    let origin =
        small().group("disk", |group| group.workers(1)).clock(Arc::new(clock.clone())).build()?;
    let derived = origin.derive("p-").build()?;
    assert_eq!(derived.names(), ["cpu", "io", "disk"]);
    assert_eq!(thread_of(derived.cpu())?, "p-cpu-0");
    assert_eq!(derived.cpu().workers(), 1);
    assert_eq!(derived.wall(), UNIX_EPOCH + Duration::from_secs(9));
    clock.advance(Duration::from_secs(1));
    assert_eq!(derived.wall(), UNIX_EPOCH + Duration::from_secs(10));
    assert!(origin.shutdown()?.is_clean());
    // Shutting down one runtime does not end the other.
    assert_eq!(thread_of(derived.io())?, "p-io-0");
    assert!(derived.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_name_is_taken_only_once() -> Outcome {
    let twice = small().group("x", |group| group).group("x", |group| group).build();
    assert!(matches!(twice, Err(BuildError::DuplicateName { group }) if group == "x"));
    let reserved = small().group("io", |group| group).build();
    assert!(matches!(reserved, Err(BuildError::DuplicateName { group }) if group == "io"));
    let runtime = small().build()?;
    runtime.add_group("x", |group| group.workers(1))?;
    let again = runtime.add_group("x", |group| group.workers(1));
    assert!(matches!(again, Err(BuildError::DuplicateName { group }) if group == "x"));
    runtime.shutdown()?;
    let late = runtime.add_group("y", |group| group.workers(1));
    assert!(matches!(late, Err(BuildError::Closed { group }) if group == "y"));
    Ok(())
}

#[test]
fn what_is_wrong_with_one_group_names_it() -> Outcome {
    let zero = small().group("disk", |group| group.workers(0)).build();
    assert!(matches!(zero, Err(BuildError::NoWorkers { group }) if group == "disk"));
    let huge = small().prefix("p-").io(|group| group.workers(1_000_000)).build();
    assert!(matches!(huge, Err(BuildError::TooManyWorkers { group, .. }) if group == "p-io"));
    Ok(())
}

#[test]
fn nothing_is_spawned_after_the_shutdown() -> Outcome {
    let runtime = small().build()?;
    runtime.shutdown()?;
    let refused = runtime.spawn(17).expect_err("the runtime is over");
    assert_eq!((refused.kind, refused.state), (SpawnErrorKind::GroupClosed, 17));
    let refused = runtime.io().spawn(18).expect_err("the runtime is over");
    assert_eq!(refused.state, 18);
    Ok(())
}

#[test]
fn the_shutdown_reports_every_group_in_the_order_of_their_end() -> Outcome {
    let runtime = small().group("a", |group| group.workers(1)).build()?;
    runtime.add_group("b", |group| group.workers(1))?;
    let kept: Vec<Task<()>> = vec![
        runtime.spawn(())?,
        runtime.io().spawn(())?,
        runtime.group("b").ok_or("no group")?.spawn(())?,
    ];
    let report = runtime.shutdown()?;
    let names: Vec<_> = report.groups.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["b", "a", "cpu", "io"]);
    let closed: Vec<_> = report.groups.iter().map(|(_, ended)| ended.closed).collect();
    assert_eq!(closed, [1, 0, 1, 1]);
    assert!(report.is_clean());
    drop(kept);
    assert!(runtime.shutdown()?.is_clean(), "a second shutdown is harmless");
    Ok(())
}

#[test]
fn a_worker_cannot_wait_for_its_own_end_but_can_ask_for_it() -> Outcome {
    let runtime = small().build()?;
    let from_io = runtime.io().spawn(runtime.clone())?;
    let refused = from_io.call(|runtime, _| runtime.shutdown());
    assert_eq!(refused.wait()?, Err(ShutdownError::OnWorker));
    // The refusal has closed nothing.
    assert_eq!(runtime.spawn(1)?.call(|one, _| *one).wait()?, 1);
    let later = from_io.call(|runtime, _| runtime.shutdown_later(PATIENCE)).wait()?;
    assert!(later.wait()?.is_clean());
    Ok(())
}

#[test]
fn blocking_work_runs_off_the_workers() -> Outcome {
    let runtime = small().build()?;
    let thread = runtime.run_blocking(thread_name, None).wait()?;
    assert!(thread != "io-0" && thread != "cpu-0", "{thread}");
    runtime.shutdown()?;
    assert!(runtime.run_blocking(|| (), None).wait().is_err());
    Ok(())
}

#[test]
fn a_moved_clock_fires_the_timers_of_real_groups() -> Outcome {
    let clock = ManualClock::new();
    let runtime = small().clock(Arc::new(clock.clone())).build()?;
    for group in [runtime.cpu(), runtime.io()] {
        let (fired, at) = mpsc::channel();
        let task = group.spawn(())?;
        let armed = task.call(move |(), cx| {
            cx.after(Duration::from_secs(3_600), move |(), cx| tell(&fired, cx.now_ns()))
        });
        drop(armed.wait()??);
        let due = clock.now_ns() + 3_600_000_000_000;
        clock.advance(Duration::from_secs(3_599));
        assert!(at.try_recv().is_err(), "never early");
        clock.advance(Duration::from_secs(1));
        assert_eq!(at.recv_timeout(PATIENCE)?, due);
    }
    assert!(runtime.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn without_a_controlled_clock_the_systems_time_is_shown() -> Outcome {
    let runtime = small().build()?;
    assert!(runtime.controlled_clock().is_none());
    let before = SystemTime::now();
    let shown = runtime.wall();
    assert!(before <= shown && shown <= SystemTime::now());
    runtime.shutdown()?;
    Ok(())
}

#[test]
fn a_controlled_clock_is_read_pinned_moved_and_reset_at_run_time() -> Outcome {
    let runtime = small().controlled_clock().build()?;
    let clock = runtime.controlled_clock().ok_or("no clock")?;
    let noon = UNIX_EPOCH + Duration::from_secs(43_200);
    clock.pin_at(noon);
    assert_eq!(runtime.wall(), noon);
    assert_eq!(runtime.wall(), noon, "a pinned clock stays put");
    clock.advance(Duration::from_secs(60));
    assert_eq!(runtime.wall(), noon + Duration::from_secs(60));
    clock.resume();
    let running = runtime.wall();
    assert!(running >= noon + Duration::from_secs(60), "it goes on from where it was");
    clock.reset();
    assert!(runtime.wall() > noon + Duration::from_secs(1_000_000));
    // A job sees the same clock, and its timers follow a jump.
    let (fired, seen) = mpsc::channel();
    let task = runtime.spawn(())?;
    let armed = task
        .call(move |(), cx| cx.after(Duration::from_secs(86_400), move |(), _| tell(&fired, ())));
    drop(armed.wait()??);
    clock.advance(Duration::from_secs(86_400));
    seen.recv_timeout(PATIENCE)?;
    runtime.shutdown()?;
    Ok(())
}

/// Arms a one-shot, a dated and a recurring timer (three firings, then it cancels itself) and
/// returns the threads on which they fired.
fn fire_all(group: &Group, clock: &ManualClock) -> Result<Vec<(u8, String)>, Box<dyn Error>> {
    let (fired, seen) = mpsc::channel();
    let second = Duration::from_secs(1);
    let wall = clock.wall() + second;
    let task = group.spawn(None::<Timer>)?;
    let armed = task.call(move |recurring, cx| {
        let once = fired.clone();
        cx.after(second, move |_, _| tell(&once, (1, thread_name())))?;
        let dated = fired.clone();
        cx.at(wall, move |_, _| tell(&dated, (2, thread_name())))?;
        let mut left = 3;
        let timer = cx.every(second, Late::Burst, move |recurring: &mut Option<Timer>, _| {
            left -= 1;
            tell(&fired, (3, thread_name()));
            if left == 0 {
                let timer = recurring.take().expect("it was put there when it was armed");
                assert_eq!(timer.cancel(), Cancelled::WhileRunning);
            }
        })?;
        *recurring = Some(timer);
        Ok::<_, turnwheel_runtime::TimerError>(())
    });
    armed.wait()??;
    let mut all = Vec::new();
    for expected in [3, 1, 1] {
        assert!(seen.try_recv().is_err(), "never early");
        clock.advance(second);
        for _ in 0..expected {
            all.push(seen.recv_timeout(PATIENCE)?);
        }
    }
    clock.advance(second);
    task.close().wait()?;
    assert!(seen.try_recv().is_err(), "a cancelled timer does not fire");
    all.sort();
    Ok(all)
}

#[test]
fn timers_fire_on_threads_of_the_group_that_owns_them() -> Outcome {
    let clock = ManualClock::new();
    let first = small().prefix("a-").clock(Arc::new(clock.clone())).build()?;
    let second = first.derive("b-").build()?;
    for (group, thread) in [
        (first.cpu(), "a-cpu-0"),
        (second.cpu(), "b-cpu-0"),
        (first.io(), "a-io-0"),
        (second.io(), "b-io-0"),
    ] {
        let expected = [1, 2, 3, 3, 3].map(|kind| (kind, thread.to_owned()));
        assert_eq!(fire_all(group, &clock)?, expected);
    }
    // Without the first, the timers of the second go on.
    first.shutdown()?;
    assert_eq!(fire_all(second.cpu(), &clock)?.len(), 5);
    second.shutdown()?;
    Ok(())
}

#[test]
fn a_task_elsewhere_gets_one_of_two_equal_timers_cancelled() -> Outcome {
    let clock = ManualClock::new();
    let here = small().clock(Arc::new(clock.clone())).build()?;
    let there = here.derive("there-").build()?;
    let (fired, seen) = mpsc::channel();
    let owner = here.spawn(Vec::<Timer>::new())?;
    let armed = owner.call(move |timers, cx| {
        for name in ["kept", "cancelled"] {
            let fired = fired.clone();
            timers.push(cx.after(Duration::from_secs(1), move |_, _| tell(&fired, name))?);
        }
        Ok::<_, turnwheel_runtime::TimersFull>(())
    });
    armed.wait()??;
    let other = there.spawn(owner.clone())?;
    let asked = other.call(|owner, _| owner.call(|timers, _| timers.remove(1).cancel()));
    assert_eq!(asked.wait()?.wait()?, Cancelled::BeforeFiring);
    clock.advance(Duration::from_secs(1));
    assert_eq!(seen.recv_timeout(PATIENCE)?, "kept");
    drop(owner);
    here.shutdown()?;
    there.shutdown()?;
    assert!(seen.recv().is_err(), "nothing else fired");
    Ok(())
}

/// Calls that a task makes into another group while it starts.
const CALLS: u32 = 1_000;

/// Asks another task which thread it runs on, many times, and waits for the answers in its start.
struct Asking {
    callee: Task<u32>,
    is_holding: bool,
}

impl Lifecycle<u32> for Asking {
    fn starting(&mut self, _: &mut u32, cx: &mut Context<'_, u32>) -> Result<(), Failure> {
        for _ in 0..CALLS {
            let answer = self.callee.call(|calls, _| {
                *calls += 1;
                thread_name()
            });
            let back =
                |back: &mut u32, _: &mut Context<'_, u32>, there: Result<String, Failure>| {
                    assert_eq!(there.expect("the callee lives"), "cpu-0");
                    assert_eq!(thread_name(), "io-0");
                    *back += 1;
                };
            if self.is_holding {
                cx.on_completion_holding(answer, back);
            } else {
                cx.on_completion(answer, back);
            }
        }
        Ok(())
    }
}

// Z-079, Z-080
#[test]
fn a_call_into_another_group_comes_back_to_the_callers_group() -> Outcome {
    let runtime = small().build()?;
    for is_holding in [false, true] {
        let callee = runtime.spawn(0_u32)?;
        let hooks = Asking { callee: callee.clone(), is_holding };
        let asker = runtime.io().task(0_u32).lifecycle(hooks).spawn()?;
        asker.started().wait_timeout(PATIENCE)?;
        assert_eq!(asker.call(|back, _| *back).wait()?, CALLS, "the start waits for all");
        assert_eq!(callee.call(|calls, _| *calls).wait()?, CALLS);
    }
    assert!(runtime.shutdown()?.is_clean());
    Ok(())
}
