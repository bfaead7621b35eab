//! Guarantees for a unit of work: exclusive access to its task, its own context after every wait,
//! no leftovers. In simulation for chance and on 1, 2 and 4 workers for threads.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::task::Poll;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::{EventKind, Sim};
use turnwheel_runtime::{
    current_task, Completion, Condition, ConditionMode, Context, Failure, Group, Lifecycle,
    Mailbox, Pinning,
};

/// Longer than any sound machine takes; a wait that ends by it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn on_workers(test: impl Fn(&Group)) {
    for workers in [1, 2, 4] {
        let group = Group::builder("units").workers(workers).pinning(Pinning::None).build();
        let group = group.expect("a group with few workers");
        test(&group);
        assert!(group.shutdown().expect("not on a worker").is_clean(), "{workers} workers");
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::yield_now();
    }
}

/// The name of the task whose turn runs here.
fn here() -> Option<String> {
    current_task().map(|task| task.name())
}

fn random(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize
}

// --- one at a time ---

/// Number of jobs inside one task, counted from outside.
#[derive(Default)]
struct Door {
    inside: AtomicUsize,
    most: AtomicUsize,
    passed: AtomicUsize,
    strangers: AtomicUsize,
}

/// A state without any protection of its own.
struct Plain {
    door: Arc<Door>,
    count: usize,
    conditions: Vec<Condition>,
}

fn pass(plain: &mut Plain, _: &mut Context<'_, Plain>) {
    let door = Arc::clone(&plain.door);
    door.most.fetch_max(door.inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    let thread = std::thread::current();
    if !thread.name().is_some_and(|name| name.starts_with("units-")) {
        door.strangers.fetch_add(1, Ordering::SeqCst);
    }
    plain.count += 1;
    (0..10).for_each(|_| std::hint::spin_loop());
    door.passed.fetch_add(1, Ordering::SeqCst);
    door.inside.fetch_sub(1, Ordering::SeqCst);
}

/// Passes, and makes one more pass in one of the ways there are.
fn pass_again(plain: &mut Plain, cx: &mut Context<'_, Plain>, way: usize) {
    pass(plain, cx);
    match way % 7 {
        0 => cx.run(pass).expect("room"),
        1 => drop(cx.after(Duration::from_micros(way as u64 % 50), pass).expect("room")),
        2 => {
            let condition = cx.condition(ConditionMode::Counting, pass);
            condition.signal();
            plain.conditions.push(condition);
        }
        3 => drop(cx.run_blocking(|| (), None, |plain, cx, _| pass(plain, cx))),
        4 => drop(cx.on_completion(Completion::done(()), |plain, cx, _| pass(plain, cx))),
        5 => {
            let mut polls = 0;
            let future = poll_fn(move |poll| {
                polls += 1;
                poll.waker().wake_by_ref();
                if polls < 3 {
                    Poll::Pending
                } else {
                    Poll::Ready(())
                }
            });
            drop(cx.await_interleaved(future, |plain, cx, ()| pass(plain, cx)));
        }
        _ => cx.task().run(pass).map_err(|refused| refused.kind).expect("room"),
    }
}

/// Passes in every hook.
struct Hooks;

impl Lifecycle<Plain> for Hooks {
    fn starting(&mut self, plain: &mut Plain, cx: &mut Context<'_, Plain>) -> Result<(), Failure> {
        pass(plain, cx);
        Ok(())
    }
    fn started(&mut self, plain: &mut Plain, cx: &mut Context<'_, Plain>) -> Result<(), Failure> {
        pass(plain, cx);
        Ok(())
    }
}

// O-001
#[test]
fn users_and_the_runtimes_own_work_run_on_the_workers_and_never_two_in_one_task() {
    const JOBS: usize = 700;
    const PRODUCERS: usize = 3;
    on_workers(|group| {
        let tasks: Vec<_> = (0..4)
            .map(|number| {
                let state = Plain { door: Arc::default(), count: 0, conditions: Vec::new() };
                let task = group.task(state).lifecycle(Hooks).mailbox(Mailbox::unbounded());
                if number % 2 == 0 { task.system() } else { task }.spawn().unwrap()
            })
            .collect();
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|_| {
                let tasks = tasks.clone();
                std::thread::spawn(move || {
                    for way in 0..JOBS {
                        for task in &tasks {
                            task.submit(move |plain, cx| pass_again(plain, cx, way)).unwrap();
                        }
                    }
                })
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        let expected = 2 + 2 * JOBS * PRODUCERS;
        for task in tasks {
            let door = task.call(|plain, _| Arc::clone(&plain.door)).wait_timeout(PATIENCE);
            let door = door.unwrap();
            wait_until("every pass", || door.passed.load(Ordering::SeqCst) == expected);
            let count = task.call(|plain, _| (plain.count, plain.conditions.clear()).0);
            assert_eq!(count.wait_timeout(PATIENCE).unwrap(), expected, "an update was lost");
            assert_eq!(door.most.load(Ordering::SeqCst), 1, "two at once");
            assert_eq!(door.strangers.load(Ordering::SeqCst), 0, "not on a worker");
        }
    });
}

/// Keeps one worker busy until it is dropped.
struct Holder(#[expect(dead_code, reason = "its drop is what counts")] mpsc::Sender<()>);

fn hold(group: &Group) -> Holder {
    let ((release, released), (tell, told)) = (mpsc::channel::<()>(), mpsc::channel());
    let task = group.spawn(()).expect("the group runs");
    let job = move |(): &mut (), _: &mut Context<'_, ()>| {
        assert!(tell.send(()).is_ok());
        assert!(released.recv().is_err(), "nothing is sent");
    };
    assert!(task.submit(job).is_ok());
    told.recv_timeout(PATIENCE).expect("a worker is free");
    Holder(release)
}

// O-013
#[test]
fn a_task_is_bound_to_no_thread_and_its_plain_state_goes_with_it() {
    for workers in [2, 4] {
        let builder = Group::builder("moves").workers(workers).pinning(Pinning::None);
        let group = builder.build().unwrap();
        let task = group.spawn((0_u64, Vec::<ThreadId>::new())).unwrap();
        let mut holders: VecDeque<_> = (1..workers).map(|_| hold(&group)).collect();
        for round in 1..=50 {
            let turn = task.call(move |(count, threads), _| {
                *count += 1;
                threads.push(std::thread::current().id());
                *count
            });
            assert_eq!(turn.wait_timeout(PATIENCE).unwrap(), round, "a turn's effect was lost");
            // The worker that is free takes the holder, and another one becomes free.
            holders.push_back(hold(&group));
            drop(holders.pop_front());
        }
        drop(holders);
        let threads = task.call(|(_, threads), _| threads.clone()).wait_timeout(PATIENCE).unwrap();
        assert!(threads.windows(2).all(|two| two[0] != two[1]), "it moved every time");
        assert!(group.shutdown().unwrap().is_clean());
    }
}

// --- back in its own context ---

/// Awaits in all available ways; returns where it continued each time.
async fn wander(
    sleep: Completion<()>,
    asked: Completion<u32>,
    mut channel: tokio::io::DuplexStream,
    foreign: tokio::task::JoinHandle<Option<String>>,
    plain: Completion<()>,
) -> Vec<Option<String>> {
    let mut seen = vec![here()];
    assert!(sleep.await.is_ok());
    seen.push(here());
    assert_eq!(asked.await.ok(), Some(7));
    seen.push(here());
    assert_eq!(channel.read_u8().await.ok(), Some(8));
    seen.push(here());
    assert_eq!(foreign.await.ok(), Some(None), "no context of ours in the other runtime");
    seen.push(here());
    assert!(plain.await.is_ok());
    seen.push(here());
    seen
}

// O-002
#[test]
fn a_future_goes_on_in_its_own_task_after_a_timer_a_task_a_channel_and_another_runtime() {
    let foreign = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    on_workers(|group| {
        let task = group.task(0).name("handler").spawn().unwrap();
        let other = group.task(7).name("other").spawn().unwrap();
        for is_exclusive in [false, true] {
            let (mut far, near) = tokio::io::duplex(1);
            let (completer, plain) = completion();
            let (spawned, thread) = (foreign.spawn(async { here() }), std::thread::current());
            let sender = foreign.spawn(async move { far.write_u8(8).await });
            let completing = std::thread::spawn(move || {
                assert_ne!(std::thread::current().id(), thread.id());
                completer.complete(()).is_ok()
            });
            let (answer, answered) = completion();
            let other = other.clone();
            task.submit(move |_, cx| {
                let sleep = cx.group().sleep(Duration::from_micros(100));
                let asked = other.call(|number, _| *number);
                let future = wander(sleep, asked, near, spawned, plain);
                let then = move |awaited: &mut u32, _: &mut Context<'_, u32>, mut seen: Vec<_>| {
                    *awaited += 1;
                    seen.push(here());
                    assert!(answer.complete(seen).is_ok());
                };
                if is_exclusive {
                    cx.await_exclusive(future, then);
                } else {
                    cx.await_interleaved(future, then);
                }
            })
            .unwrap();
            let seen = answered.wait_timeout(PATIENCE).unwrap();
            assert_eq!(seen, vec![Some("handler".to_owned()); 7]);
            assert!(completing.join().unwrap());
            assert!(foreign.block_on(sender).unwrap().is_ok());
        }
        assert_eq!(task.call(|awaited, _| *awaited).wait_timeout(PATIENCE).unwrap(), 2);
    });
}

// --- never in another task ---

/// Record of a random tree of spawns and waits.
#[derive(Default)]
struct Grown {
    next: AtomicUsize,
    steps: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

/// A task that knows its number.
struct Branch {
    number: usize,
    tree: Arc<Grown>,
    /// Dropped with the last branch, which notifies the receiver.
    end: mpsc::Sender<()>,
}

impl Branch {
    /// One step, made for the branch `number`: it spawns, awaits, and makes more of its own.
    fn step(&mut self, cx: &mut Context<'_, Self>, number: usize, mut seed: u64, depth: u32) {
        self.tree.steps.fetch_add(1, Ordering::SeqCst);
        let is_here = cx.task().is_current() && here().as_deref() == Some(cx.name());
        if self.number != number || !is_here || cx.name() != format!("b{number}") {
            let wrong = format!("a step of {number} in {}, {:?}", self.number, here());
            self.tree.wrong.lock().expect("nobody panics while writing").push(wrong);
        }
        for _ in 0..if depth == 0 { 0 } else { 1 + random(&mut seed) % 3 } {
            let (way, own) = (random(&mut seed) % 3, random(&mut seed) as u64);
            let again = move |branch: &mut Self, cx: &mut Context<'_, Self>| {
                branch.step(cx, number, own, depth - 1);
            };
            match way {
                0 => assert!(cx.run(again).is_ok(), "room"),
                1 => {
                    let group = cx.group();
                    let spawned = Self::plant(&group, &self.tree, &self.end, own, depth - 1);
                    cx.on_completion(spawned, move |branch, cx, _| again(branch, cx));
                }
                _ => {
                    let sleep = cx.group().sleep(Duration::from_micros(own % 3));
                    cx.await_interleaved(sleep, move |branch, cx, _| again(branch, cx));
                }
            }
        }
    }

    /// Spawns a branch; completes when its first step has run.
    fn plant(
        group: &Group,
        tree: &Arc<Grown>,
        end: &mpsc::Sender<()>,
        seed: u64,
        depth: u32,
    ) -> Completion<()> {
        let number = tree.next.fetch_add(1, Ordering::SeqCst);
        let branch = Self { number, tree: Arc::clone(tree), end: end.clone() };
        let task = group.task(branch).name(&format!("b{number}")).spawn();
        let task = task.expect("the group runs");
        task.call(move |branch, cx| branch.step(cx, number, seed, depth))
    }
}

// O-025, O-026
#[test]
fn no_step_of_a_tree_of_spawns_and_waits_changes_its_task_however_often_that_is_stolen() {
    let (mut turns, mut steals) = (0, 0);
    for seed in 0..40 {
        let sim = Sim::builder().seed(seed).workers(4).build();
        let (tree, (end, ended)) = (Arc::<Grown>::default(), mpsc::channel());
        sim.record();
        drop(Branch::plant(&sim.group("units"), &tree, &end, seed, 5));
        drop(end);
        sim.advance(Duration::from_secs(1));
        assert_eq!(ended.try_recv(), Err(mpsc::TryRecvError::Disconnected), "all steps have run");
        assert_eq!(*tree.wrong.lock().unwrap(), [""; 0], "seed {seed}");
        sim.assert_no_failures();
        turns += sim.events().count(|kind| *kind == EventKind::TurnStart);
        steals += sim.events().count(|kind| matches!(kind, EventKind::Steal { .. }));
    }
    assert!(steals > 1_000 && steals * 10 > turns, "{steals} of {turns} turns were stolen");
    on_workers(|group| {
        for seed in 0..20 {
            let (tree, (end, ended)) = (Arc::<Grown>::default(), mpsc::channel());
            drop(Branch::plant(group, &tree, &end, seed, 6));
            drop(end);
            let end = ended.recv_timeout(PATIENCE);
            assert_eq!(end, Err(mpsc::RecvTimeoutError::Disconnected), "all steps have run");
            assert_eq!(*tree.wrong.lock().unwrap(), [""; 0], "seed {seed}");
        }
    });
}

// --- nothing left behind ---

/// Counts the living.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct AliveHooks(#[expect(dead_code, reason = "its drop is what counts")] Alive);

impl Lifecycle<Alive> for AliveHooks {}

/// Spawns a task of one of several kinds, gives it work that lives, and lets it go.
fn come_and_go(group: &Group, count: &Arc<AtomicUsize>, kind: usize) {
    let builder = group.task(Alive::new(count));
    let builder = match kind % 4 {
        0 => builder,
        1 => builder.name("named").label("kind", "one"),
        2 => builder.lifecycle(AliveHooks(Alive::new(count))),
        _ => builder.mailbox(Mailbox::bounded(4).overflow(turnwheel_runtime::Overflow::DropOldest)),
    };
    let task = builder.spawn().expect("the group runs");
    let (alive, own) = (Alive::new(count), task.clone());
    let job = move |_: &mut Alive, cx: &mut Context<'_, Alive>| {
        let (inner, outer) = (Alive::new(&alive.0), Alive::new(&alive.0));
        let made = match kind % 3 {
            0 => cx.run(move |_, _| drop((inner, outer))).is_ok(),
            1 => cx.after(Duration::from_micros(1), move |_, _| drop((inner, outer))).is_ok(),
            _ => {
                let sleep = cx.group().sleep(Duration::from_micros(1));
                let future = async move { (sleep.await.is_ok(), inner) };
                cx.await_interleaved(future, move |_, _, done| drop((done, outer)));
                true
            }
        };
        assert!(made && own == cx.task());
    };
    assert!(task.submit(job).is_ok(), "room");
    match kind % 5 {
        0 => drop(task.close()),
        1 => drop(task.kill()),
        _ => {}
    }
}

/// Short-lived tasks in each leak test.
const COMERS: usize = 100_000;

// O-031, O-032
#[test]
fn a_hundred_thousand_tasks_that_came_and_went_leave_nothing_behind() {
    on_workers(|group| {
        let count = Arc::new(AtomicUsize::new(0));
        for kind in 0..COMERS {
            come_and_go(group, &count, kind);
        }
        wait_until("all objects dropped", || count.load(Ordering::SeqCst) == 0);
        wait_until("all tasks gone", || group.metrics().tasks == 0);
        let metrics = group.metrics();
        assert_eq!((metrics.timers, group.handles().len()), (0, 0));
        assert_eq!(Arc::strong_count(&count), 1);
    });
    let sim = Sim::builder().seed(31).turns_max(10 * COMERS as u64).build();
    let (group, count) = (sim.group("units"), Arc::new(AtomicUsize::new(0)));
    for kind in 0..COMERS / 10 {
        come_and_go(&group, &count, kind);
    }
    sim.advance(Duration::from_secs(1));
    sim.assert_no_failures();
    sim.assert_no_leaks();
    assert_eq!(count.load(Ordering::SeqCst), 0);
}
