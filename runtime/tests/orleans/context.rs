//! Execution context: of jobs, of their continuations, and of code outside of jobs; in simulation
//! for the order and on 1, 2 and 4 workers for threads.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::{EventKind, Sim};
use turnwheel_runtime::{
    current_task, Completion, Condition, ConditionMode, Context, Failure, Group, Lifecycle,
    OnFailure, Pinning, Task,
};

/// Longer than any sound machine takes; a wait that ends by it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn on_workers(test: impl Fn(&Group)) {
    for workers in [1, 2, 4] {
        let group = Group::builder("context").workers(workers).pinning(Pinning::None).build();
        let group = group.expect("a group with few workers");
        test(&group);
        assert!(group.shutdown().expect("not on a worker").is_clean(), "{workers} workers");
    }
}

/// The name of the task whose turn runs here.
fn here() -> Option<String> {
    current_task().map(|task| task.name())
}

// --- inherited ---

/// Record of the tasks of a random tree.
#[derive(Default)]
struct Seen {
    steps: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

/// Some tasks, each with its number as state, that give each other steps.
struct Tree {
    tasks: Vec<Task<usize>>,
    seen: Arc<Seen>,
    /// Dropped with the last step, which notifies the receiver.
    _end: mpsc::Sender<()>,
}

fn random(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize
}

impl Tree {
    fn check(&self, is_right: bool, what: &str) {
        if !is_right {
            self.seen.wrong.lock().expect("nobody panics while writing").push(what.to_owned());
        }
    }

    /// One step on `target`, which creates others in every available way.
    fn step(
        tree: &Arc<Self>,
        target: usize,
        state: usize,
        cx: &mut Context<'_, usize>,
        mut seed: u64,
        depth: u32,
    ) {
        tree.seen.steps.fetch_add(1, Ordering::SeqCst);
        tree.check(state == target, "another task's state");
        tree.check(here().as_deref() == Some(cx.name()), "another current task");
        let current = tree.tasks.iter().position(Task::is_current);
        tree.check(current == Some(target), "another task is current");
        for _ in 0..if depth == 0 { 0 } else { 1 + random(&mut seed) % 3 } {
            tree.child(target, cx, &mut seed, depth - 1);
        }
    }

    fn child(self: &Arc<Self>, me: usize, cx: &mut Context<'_, usize>, seed: &mut u64, depth: u32) {
        let other = (me + 1 + random(seed) % (self.tasks.len() - 1)) % self.tasks.len();
        let (tree, own, way) = (Arc::clone(self), random(seed) as u64, random(seed) % 6);
        let go_on = move |target: usize| {
            move |state: &mut usize, cx: &mut Context<'_, usize>| {
                Self::step(&tree, target, *state, cx, own, depth);
            }
        };
        let made = match way {
            0 => self.tasks[other].submit(go_on(other)).is_ok(),
            1 => cx.run(go_on(me)).is_ok(),
            2 => cx.after(Duration::from_micros(1), go_on(me)).is_ok(),
            3 => {
                let (asked, tree) = (self.tasks[other].call(|number, _| *number), self.clone());
                cx.on_completion(asked, move |state, cx, answer| {
                    tree.check(answer.ok() == Some(other), "another task's answer");
                    go_on(me)(state, cx);
                });
                true
            }
            4 => {
                let tree = Arc::clone(self);
                let block = move || tree.check(here().is_none(), "a context off the tasks");
                cx.run_blocking(block, None, move |state, cx, _| go_on(me)(state, cx));
                true
            }
            _ => {
                let (tree, mut polls) = (Arc::clone(self), 0);
                let twice = poll_fn(move |poll| {
                    tree.check(tree.tasks[me].is_current(), "polled elsewhere");
                    polls += 1;
                    poll.waker().wake_by_ref();
                    if polls < 3 {
                        Poll::Pending
                    } else {
                        Poll::Ready(())
                    }
                });
                cx.await_interleaved(twice, move |state, cx, ()| go_on(me)(state, cx));
                true
            }
        };
        self.check(made, "a step was refused");
    }
}

/// Starts a random tree on four tasks. The receiver is closed at its end.
fn plant(group: &Group, seed: u64) -> (Arc<Seen>, mpsc::Receiver<()>) {
    let (end, ended) = mpsc::channel();
    let spawn = |n| group.task(n).name(&format!("t{n}")).spawn().expect("the group runs");
    let tasks: Vec<_> = (0..4).map(spawn).collect();
    let seen = Arc::new(Seen::default());
    let tree = Arc::new(Tree { tasks, seen: Arc::clone(&seen), _end: end });
    for target in 0..4 {
        let (own, tree) = (Arc::clone(&tree), Arc::clone(&tree));
        let root = move |state: &mut usize, cx: &mut Context<'_, usize>| {
            Tree::step(&own, target, *state, cx, seed + target as u64, 5);
        };
        tree.tasks[target].submit(root).expect("room");
    }
    (seen, ended)
}

// O-047, O-051, O-053, O-055
#[test]
fn every_step_of_a_random_tree_runs_in_the_task_it_was_made_for() {
    let mut steps = 0;
    for seed in 0..50 {
        let sim = Sim::builder().seed(seed).workers(3).build();
        let (seen, ended) = plant(&sim.group("cpu"), seed * 4);
        sim.advance(Duration::from_secs(1));
        assert!(ended.try_recv().is_err() && seen.wrong.lock().unwrap().is_empty(), "seed {seed}");
        sim.assert_no_failures();
        steps += seen.steps.load(Ordering::SeqCst);
    }
    assert!(steps > 2_000, "{steps}");
    on_workers(|group| {
        for seed in 0..20 {
            let (seen, ended) = plant(group, seed * 4);
            let end = ended.recv_timeout(PATIENCE);
            assert_eq!(end, Err(mpsc::RecvTimeoutError::Disconnected), "all steps have run");
            assert_eq!(*seen.wrong.lock().unwrap(), [""; 0], "seed {seed}");
        }
    });
}

// O-052
#[test]
fn a_future_woken_by_any_thread_goes_on_in_its_task() {
    on_workers(|group| {
        let task = group.task(0_u32).name("sleeper").spawn().unwrap();
        for round in 1..=100 {
            let (send_waker, wakers) = mpsc::channel::<Waker>();
            let is_over = Arc::new(AtomicBool::new(false));
            let (is_woken, mut polled_in) = (Arc::clone(&is_over), Vec::new());
            let future = poll_fn(move |poll| {
                polled_in.push(here());
                if is_woken.load(Ordering::SeqCst) {
                    return Poll::Ready(std::mem::take(&mut polled_in));
                }
                assert!(send_waker.send(poll.waker().clone()).is_ok());
                Poll::Pending
            });
            let (completer, answer) = completion();
            let then = move |count: &mut u32, cx: &mut Context<'_, u32>, mut seen: Vec<_>| {
                *count += 1;
                seen.push(cx.task().is_current().then(|| cx.name().to_owned()));
                assert!(completer.complete(seen).is_ok());
            };
            if round % 2 == 0 {
                task.submit(|_, cx| drop(cx.await_exclusive(future, then))).unwrap();
            } else {
                task.submit(|_, cx| drop(cx.await_interleaved(future, then))).unwrap();
            }
            // This thread is no worker.
            let waker = wakers.recv_timeout(PATIENCE).unwrap();
            is_over.store(true, Ordering::SeqCst);
            waker.wake();
            let seen = answer.wait_timeout(PATIENCE).unwrap();
            assert_eq!(seen, vec![Some("sleeper".to_owned()); 3], "round {round}");
        }
        assert_eq!(task.call(|count, _| *count).wait_timeout(PATIENCE).unwrap(), 100);
    });
}

// O-055
#[test]
fn a_wake_queues_the_task_itself_and_submits_nothing() {
    let sim = Sim::fifo();
    let task = sim.group("cpu").task(()).name("woken").spawn().unwrap();
    let (completer, waiting) = completion();
    let never = task.call(|(), cx| drop(cx.on_completion(waiting, |(), _, _: Result<(), _>| ())));
    sim.wait(never).unwrap();
    sim.record();
    completer.complete(()).unwrap();
    assert_eq!((sim.pending(), sim.group("cpu").metrics().mailbox_bytes), (1, 0));
    sim.run_until_idle();
    let kinds: Vec<_> = sim.events().of("woken").iter().map(|event| event.kind.clone()).collect();
    assert_eq!(kinds[..2], [EventKind::Ready, EventKind::TurnStart], "{kinds:?}");
    assert!(matches!(kinds[2..], [EventKind::Job { .. }, EventKind::TurnEnd { .. }]), "{kinds:?}");
}

// --- outside ---

// O-050, O-054
#[test]
fn work_off_the_tasks_has_no_context_and_its_result_comes_back_into_one() {
    on_workers(|group| {
        assert_eq!(here(), None, "this thread runs no task");
        let task = group.task(()).name("asker").spawn().unwrap();
        let (completer, answer) = completion();
        let ask = move |(): &mut (), cx: &mut Context<'_, ()>| {
            let group = cx.group();
            cx.run_blocking(
                move || (here(), group.is_current()),
                None,
                move |(), _, off| {
                    assert!(completer.complete((off, here())).is_ok());
                },
            );
        };
        task.submit(ask).unwrap();
        let (off, back) = answer.wait_timeout(PATIENCE).unwrap();
        assert_eq!(off.unwrap(), (None, false), "neither a task nor a worker");
        assert_eq!(back.as_deref(), Some("asker"));
    });
}

/// Panics when it drops.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("planted in a destructor");
        }
    }
}

/// The state keeps the condition alive.
type Kept = Option<Condition>;

/// Sends the name of the task in which its hooks run; one hook panics.
struct Panicking(mpsc::Sender<Option<String>>);

impl Lifecycle<Kept> for Panicking {
    fn on_failure(&mut self, _: &mut Kept, _: &mut Context<'_, Kept>, _: &Failure) -> OnFailure {
        assert!(self.0.send(here()).is_ok());
        OnFailure::Resume
    }
    fn closing(&mut self, _: &mut Kept, _: &mut Context<'_, Kept>) -> Result<(), Failure> {
        assert!(self.0.send(here()).is_ok());
        panic!("planted in a hook");
    }
}

/// Lets a task of this group panic in jobs of all kinds; gets to know where each policy hook ran.
fn panic_everywhere(group: &Group) -> (Task<Kept>, mpsc::Receiver<Option<String>>) {
    let (tell, told) = mpsc::channel();
    let task = group.task(None).name("clumsy").lifecycle(Panicking(tell)).spawn();
    let task = task.expect("the group runs");
    let jobs: [fn(&mut Kept, &mut Context<'_, Kept>); 5] = [
        |_, _| panic!("planted in a job"),
        |_, cx| cx.run(|_, _| panic!("planted in the fast lane")).expect("room"),
        |_, cx| drop(cx.after(Duration::ZERO, |_, _| panic!("planted in a timer"))),
        |kept, cx| {
            let job = |_: &mut Kept, _: &mut Context<'_, _>| panic!("planted in a condition");
            kept.insert(cx.condition(ConditionMode::Counting, job)).signal();
        },
        |_, cx| drop(cx.on_completion(Completion::done(()), |_, _, _| drop(Bomb))),
    ];
    for job in jobs {
        task.submit(job).expect("room");
    }
    (task, told)
}

// O-048
#[test]
fn the_current_task_is_known_in_every_job_and_gone_after_a_panic() {
    for workers in [1, 2, 4] {
        let (tell, told) = mpsc::channel();
        let stop = Mutex::new(tell);
        let builder = Group::builder("context").workers(workers).pinning(Pinning::None);
        let builder = builder.on_worker_stop(move |_| {
            let tell = stop.lock().expect("nobody panics while telling");
            assert!(tell.send(here()).is_ok());
        });
        let group = builder.build().unwrap();
        let (task, hooks) = panic_everywhere(&group);
        for _ in 0..5 {
            let hook = hooks.recv_timeout(PATIENCE).unwrap();
            assert_eq!(hook.as_deref(), Some("clumsy"), "the policy hook is a part of the task");
        }
        let other = group.task(()).name("other").spawn().unwrap();
        let seen = other.call(|(), _| here()).wait_timeout(PATIENCE).unwrap();
        assert_eq!(seen.as_deref(), Some("other"));
        assert!(task.close().wait_timeout(PATIENCE).is_err(), "its closing hook panicked");
        let last: Vec<_> = hooks.iter().map(|hook| hook.is_some()).collect();
        assert_eq!(last, [true; 2], "the closing hook and the policy hook after it");
        group.shutdown().unwrap();
        drop(group);
        assert_eq!(told.iter().take(workers).collect::<Vec<_>>(), vec![None; workers]);
    }
}

// O-048
#[test]
fn a_simulation_leaves_no_context_behind_and_gives_the_outer_one_back() {
    let run = || {
        let sim = Sim::fifo();
        let (task, hooks) = panic_everywhere(&sim.group("cpu"));
        sim.advance(Duration::from_secs(1));
        let between = here();
        assert!(sim.wait(task.close()).is_err());
        assert_eq!((hooks.iter().count(), here()), (7, between.clone()));
        between
    };
    assert_eq!(run(), None);
    let group = Group::builder("outer").workers(1).build().unwrap();
    let task = group.task(()).name("host").spawn().unwrap();
    let hosted = task.call(move |(), cx| (run(), cx.task().is_current()));
    assert_eq!(hosted.wait_timeout(PATIENCE).unwrap(), (Some("host".to_owned()), true));
    group.shutdown().unwrap();
}

// --- not inherited ---

thread_local! {
    /// A request id as a program might keep it.
    static REQUEST: Cell<Option<u32>> = const { Cell::new(None) };
}

// O-065
#[test]
fn a_job_knows_nothing_of_who_queued_it() {
    let queue = |task: &Task<()>, target: &Task<Vec<Option<u32>>>| {
        let target = target.clone();
        task.call(move |(), cx| {
            REQUEST.set(Some(7));
            let look = |seen: &mut Vec<Option<u32>>, _: &mut Context<'_, _>| {
                seen.push(REQUEST.get());
            };
            let own = target.clone();
            cx.run(move |(), _| own.submit(look).expect("room")).expect("room");
            target.submit(look).expect("room");
            target
                .submit(move |_, cx| {
                    let mut polls = 0;
                    let suspended = poll_fn(move |poll| {
                        polls += 1;
                        poll.waker().wake_by_ref();
                        if polls < 2 {
                            Poll::Pending
                        } else {
                            Poll::Ready(REQUEST.get())
                        }
                    });
                    cx.await_exclusive(suspended, |seen, _, value| seen.push(value));
                })
                .expect("room");
            let kept = (REQUEST.take(), here());
            (kept, target.is_current())
        })
    };
    let expected = ((Some(7), Some("queuer".to_owned())), false);
    {
        let sim = Sim::fifo();
        let group = sim.group("cpu");
        let (task, target) =
            (group.task(()).name("queuer").spawn().unwrap(), group.spawn(Vec::new()).unwrap());
        assert_eq!(sim.wait(queue(&task, &target)).unwrap(), expected);
        assert_eq!(sim.wait(target.call(|seen, _| seen.clone())).unwrap(), [None; 3]);
    }
    on_workers(|group| {
        let (task, target) =
            (group.task(()).name("queuer").spawn().unwrap(), group.spawn(Vec::new()).unwrap());
        assert_eq!(queue(&task, &target).wait_timeout(PATIENCE).unwrap(), expected);
        task.close().wait_timeout(PATIENCE).unwrap();
        let seen = target.call(|seen, _| seen.clone()).wait_timeout(PATIENCE).unwrap();
        assert_eq!(seen, [None; 3]);
    });
}

// O-061
#[test]
fn nothing_is_run_inside_of_a_running_job() {
    let sim = Sim::fifo();
    let group = sim.group("cpu");
    let (task, other) = (group.spawn(0_u32).unwrap(), group.spawn(()).unwrap());
    let depth_max = Arc::new(AtomicUsize::new(0));
    let (seen, own) = (Arc::clone(&depth_max), task.clone());
    task.submit(move |depth, cx| {
        *depth += 1;
        let enter = |seen: &Arc<AtomicUsize>| {
            let seen = Arc::clone(seen);
            move |depth: &mut u32, _: &mut Context<'_, u32>| {
                seen.fetch_max(*depth as usize + 1, Ordering::SeqCst);
            }
        };
        cx.run(enter(&seen)).expect("room");
        own.run(enter(&seen)).expect("room");
        own.submit(enter(&seen)).expect("room");
        let (done, enter_last) = (Completion::done(()), enter(&seen));
        cx.on_completion(done, move |depth, cx, _| enter_last(depth, cx));
        assert!(own.call(|depth, _| *depth).wait().is_err(), "a call to itself is refused");
        *depth -= 1;
    })
    .unwrap();
    sim.run_until_idle();
    sim.wait(other.call(|(), _| ())).unwrap();
    sim.assert_no_failures();
    assert_eq!(depth_max.load(Ordering::SeqCst), 1);
}
