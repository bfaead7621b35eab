//! Identity of a task: closures find the task to which they were queued, and all handles name the
//! same one. In simulation for chance and on 1, 2 and 4 workers for threads.

use std::mem::size_of;
use std::sync::mpsc;
use std::time::Duration;

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{
    current_task, AnyTask, Completion, Context, Failure, Group, Lifecycle, Pinning, Task,
};

/// Longer than any sound machine takes; a wait that ends by it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn on_workers(test: impl Fn(&Group)) {
    for workers in [1, 2, 4] {
        let group = Group::builder("identity").workers(workers).pinning(Pinning::None).build();
        let group = group.expect("a group with few workers");
        test(&group);
        assert!(group.shutdown().expect("not on a worker").is_clean(), "{workers} workers");
    }
}

// --- closures for any task ---

/// Every kind of task a closure may be meant for: plain, system class, with hooks, in another group.
fn targets(group: &Group, other: &Group) -> Vec<Task<i64>> {
    struct NoHooks;
    impl Lifecycle<i64> for NoHooks {}
    let builders = [
        group.task(0),
        group.task(0).system(),
        group.task(0).lifecycle(NoHooks),
        other.task(0),
        other.task(0).system(),
    ];
    builders.into_iter().map(|task| task.spawn().expect("the groups run")).collect()
}

/// Queues closures on `target`; returns their result, and whether they ran there.
fn add_and_multiply(target: &Task<i64>) -> Completion<(i64, bool)> {
    let own = target.clone();
    let queued = target.submit(|value, _| *value += 5).is_ok();
    let queued = queued && target.submit(|value, _| *value *= 3).is_ok();
    assert!(queued, "the task is open");
    target.call(move |value, _| (std::mem::take(value), own.is_current()))
}

/// As `add_and_multiply`, by a closure that waits in between.
fn add_and_multiply_later(target: &Task<i64>) -> Completion<(i64, bool)> {
    let (completer, answer) = completion();
    let own = target.clone();
    let start = move |value: &mut i64, cx: &mut Context<'_, i64>| {
        *value += 5;
        let sleep = cx.group().sleep(Duration::from_micros(10));
        cx.await_exclusive(sleep, move |value, _, slept| {
            assert!(slept.is_ok());
            *value *= 3;
            assert!(completer.complete((std::mem::take(value), own.is_current())).is_ok());
        });
    };
    assert!(target.submit(start).is_ok(), "the task is open");
    answer
}

type Add = fn(&Task<i64>) -> Completion<(i64, bool)>;
const WAYS: [Add; 2] = [add_and_multiply, add_and_multiply_later];

/// Calls from a turn of another task.
fn asked_inside(asker: &Task<()>, target: &Task<i64>, way: Add) -> Completion<(i64, bool)> {
    let (completer, answer) = completion();
    let target = target.clone();
    let ask = move |(): &mut (), cx: &mut Context<'_, ()>| {
        cx.on_completion(way(&target), move |(), _, answer| {
            assert!(completer.complete(answer.unwrap_or((0, false))).is_ok());
        });
    };
    assert!(asker.submit(ask).is_ok(), "the task is open");
    answer
}

// O-021
#[test]
fn a_closure_runs_in_whichever_task_it_was_queued_to_and_answers_who_queued_it() {
    for seed in 0..50 {
        let sim = Sim::builder().seed(seed).workers(2).build();
        let (group, other) = (sim.group("units"), sim.group("other"));
        let asker = group.spawn(()).unwrap();
        for (target, way) in targets(&group, &other).iter().flat_map(|t| WAYS.map(|way| (t, way))) {
            let limit = Duration::from_secs(1);
            assert_eq!(sim.wait_for(way(target), limit).unwrap(), (15, true));
            let inside = asked_inside(&asker, target, way);
            assert_eq!(sim.wait_for(inside, limit).unwrap(), (15, true));
        }
    }
    let other = Group::builder("other").workers(1).pinning(Pinning::None).build().unwrap();
    on_workers(|group| {
        let asker = group.spawn(()).unwrap();
        for (target, way) in targets(group, &other).iter().flat_map(|t| WAYS.map(|way| (t, way))) {
            assert_eq!(way(target).wait_timeout(PATIENCE).unwrap(), (15, true));
            let inside = asked_inside(&asker, target, way);
            assert_eq!(inside.wait_timeout(PATIENCE).unwrap(), (15, true));
        }
    });
    assert!(other.shutdown().unwrap().is_clean());
}

// --- identity ---

// O-022
#[test]
fn a_handle_is_one_word_that_is_compared_and_printed() {
    assert_eq!(size_of::<Task<[u64; 100]>>(), size_of::<usize>());
    assert_eq!(size_of::<AnyTask>(), size_of::<usize>());
    let sim = Sim::fifo();
    let group = sim.group("units");
    let named = |name| group.task(0_u8).name(name).spawn().expect("the group runs");
    let (one, other, same_name) = (named("one"), named("other"), named("one"));
    assert_eq!(one, one.clone());
    assert_ne!(one, other);
    assert_ne!(one, same_name, "the task is meant, not its name");
    let printed = format!("{one:?} {:?}", one.erased());
    assert!(printed.contains("one") && printed.contains("Started"), "{printed}");
}

/// Sends the task in which its hooks run.
struct Where(mpsc::Sender<Option<u64>>);

impl Lifecycle<()> for Where {
    fn starting(&mut self, (): &mut (), _: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.0.send(current_task().map(|task| task.id())).map_err(Failure::error)
    }
    fn closed(&mut self, (): &mut (), _: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.0.send(current_task().map(|task| task.id())).map_err(Failure::error)
    }
}

// O-023, O-030
#[test]
fn a_task_is_the_same_one_from_every_side_and_nobody_is_one_outside() {
    on_workers(|group| {
        assert!(current_task().is_none(), "this thread runs no task");
        for is_system in [false, true] {
            let (tell, told) = mpsc::channel();
            let task = group.task(()).lifecycle(Where(tell.clone()));
            let task = if is_system { task.system() } else { task }.spawn().unwrap();
            let id = task.id();
            let (own, ask) = (task.clone(), tell.clone());
            let job = move |(): &mut (), cx: &mut Context<'_, ()>| {
                assert!(cx.task() == own && own.is_current());
                let tell = |seen: Option<u64>| assert!(ask.send(seen).is_ok());
                tell(current_task().map(|task| task.id()));
                tell(Some(cx.any_task().id()));
                let timer = ask.clone();
                let told = cx.after(Duration::ZERO, move |(), cx| {
                    assert!(timer.send(Some(cx.task().id())).is_ok());
                });
                assert!(told.is_ok());
                let off = ask.clone();
                cx.run_blocking(
                    || current_task().map(|task| task.id()),
                    None,
                    move |(), _, id| {
                        assert!(off.send(id.unwrap_or(Some(u64::MAX))).is_ok());
                    },
                );
            };
            task.submit(job).unwrap();
            let mut seen: Vec<_> = (0..5).map(|_| told.recv_timeout(PATIENCE).unwrap()).collect();
            seen.sort_unstable();
            let own = Some(id);
            assert_eq!(seen, [None, own, own, own, own], "the blocking pool is no task");
            let listed = group.tasks().into_iter().filter(|info| info.id == id).count();
            assert_eq!(listed, 1, "one entry for the task and its queue");
            task.close().wait_timeout(PATIENCE).unwrap();
            assert_eq!(told.recv_timeout(PATIENCE).unwrap(), own, "the last hook");
        }
    });
}

// O-024
#[test]
fn a_context_is_refused_outside_of_jobs_with_a_hint() {
    on_workers(|group| {
        let task = group.spawn(()).unwrap();
        let own = task.clone();
        let refused = task.call(move |(), _| {
            let (completer, never) = completion::<()>();
            let would_block = never.wait();
            drop(completer);
            (would_block, own.call(|(), _| ()).wait())
        });
        let (would_block, itself) = refused.wait_timeout(PATIENCE).unwrap();
        let would_block = would_block.unwrap_err().to_string();
        assert!(would_block.contains("on_completion"), "{would_block}");
        let itself = itself.unwrap_err().to_string();
        assert!(itself.contains("use `run`"), "{itself}");
    });
}
