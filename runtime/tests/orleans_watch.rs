//! Reports of a running group: long turns while they last, waiting tasks and their times, tasks
//! that did not end; and suspended tasks cost no thread.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Mutex, OnceLock};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::time::ManualClock;
use turnwheel_runtime::{
    current_task, AnyTask, Context, Failure, Group, Mailbox, Overflow, Phase, Pinning, Task,
    TaskInfo,
};

/// Longer than any sound machine takes; a wait that ends by it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A job that says when it runs and then holds its worker.
struct Held {
    release: mpsc::Sender<()>,
}

impl Held {
    fn on(task: &Task<()>) -> Self {
        let (release, released) = mpsc::channel::<()>();
        let (enter, entered) = mpsc::channel();
        let hold = move |(): &mut (), _: &mut Context<'_, ()>| {
            assert!(enter.send(()).is_ok());
            // Ends with the other side, too.
            let _ = released.recv();
        };
        task.submit(hold).expect("room");
        entered.recv_timeout(PATIENCE).expect("the job begins");
        Self { release }
    }

    fn end(self) {
        drop(self.release);
    }
}

fn info(group: &Group, name: &str) -> TaskInfo {
    let tasks = group.tasks();
    tasks.into_iter().find(|task| task.name == name).expect("the task lives")
}

// --- long turns ---

// O-062
#[test]
fn a_long_turn_is_named_and_counted_while_it_lasts() {
    for workers in [1, 2, 4] {
        let (tell, told) = mpsc::channel();
        let tell = Mutex::new(tell);
        let builder = Group::builder("long").workers(workers).pinning(Pinning::None);
        let builder = builder.on_long_turn(ms(50), move |task: &AnyTask, held| {
            let tell = tell.lock().expect("nobody panics while telling");
            assert!(tell.send((task.name(), task.class(), task.labels(), held)).is_ok());
        });
        let group = builder.build().unwrap();
        let stuck = group.task(()).name("stuck").class("Ledger").label("bank", "7");
        let stuck = stuck.spawn().unwrap();
        for round in 1..=2 {
            let held = Held::on(&stuck);
            let (name, class, labels, lasted) = told.recv_timeout(PATIENCE).unwrap();
            assert_eq!((name.as_str(), class.as_str()), ("stuck", "Ledger"));
            assert_eq!(labels, [("bank".to_owned(), "7".to_owned())]);
            assert!(lasted >= ms(50), "{lasted:?}");
            assert_eq!(group.metrics().long_turns, round, "it is counted, and lasts still");
            // The watchdog looks every 100 ms: it has looked again after its report.
            while info(&group, "stuck").running_for.is_none_or(|time| time < ms(350)) {
                std::thread::yield_now();
            }
            assert!(info(&group, "stuck").running_on.is_some());
            held.end();
            stuck.call(|(), _| ()).wait_timeout(PATIENCE).unwrap();
        }
        assert!(told.try_recv().is_err(), "each turn is told once, and short ones are not");
        assert!(group.shutdown().unwrap().is_clean());
        assert_eq!(group.metrics().long_turns, 2);
    }
}

// O-062
#[test]
fn a_hook_for_long_turns_that_panics_ends_nothing() {
    let builder = Group::builder("long").workers(1).pinning(Pinning::None);
    let builder = builder.on_long_turn(ms(1), |_, _| panic!("planted"));
    let group = builder.build().unwrap();
    let task = group.spawn(()).unwrap();
    for round in 1..=2 {
        let held = Held::on(&task);
        while group.metrics().long_turns < round {
            std::thread::yield_now();
        }
        held.end();
    }
    assert!(group.shutdown().unwrap().is_clean());
}

/// The fields of a log line as text.
type Line = BTreeMap<&'static str, String>;

/// Keeps log lines in place of writing them.
struct Logs(Mutex<Vec<Line>>);

struct Fields<'a>(&'a mut Line);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Subscriber for &'static Logs {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line =
            Line::from([("current task", format!("{:?}", current_task().map(|t| t.name())))]);
        event.record(&mut Fields(&mut line));
        self.0.lock().expect("nobody panics while logging").push(line);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The lines about this task; logs of the whole process.
fn lines_about(task: &str) -> Vec<Line> {
    static LOGS: OnceLock<&'static Logs> = OnceLock::new();
    let logs = LOGS.get_or_init(|| {
        let logs: &'static Logs = Box::leak(Box::new(Logs(Mutex::default())));
        tracing::subscriber::set_global_default(logs).expect("nobody else in this program");
        logs
    });
    let lines = logs.0.lock().expect("nobody panics while logging");
    lines.iter().filter(|line| line.get("task").is_some_and(|own| own == task)).cloned().collect()
}

// O-062
#[test]
fn without_a_hook_a_long_turn_is_logged_while_it_lasts() {
    assert_eq!(lines_about("silent"), []);
    let group = Group::builder("logged").workers(1).pinning(Pinning::None).build().unwrap();
    let task = group.task(()).name("silent").spawn().unwrap();
    let held = Held::on(&task);
    while lines_about("silent").is_empty() {
        std::thread::yield_now();
    }
    let line = lines_about("silent").remove(0);
    assert_eq!(line["message"], "a turn holds its worker");
    assert!(line["held_ms"].parse::<u64>().unwrap() >= 500, "{line:?}");
    held.end();
    assert!(group.shutdown().unwrap().is_clean());
}

// O-048, O-062
#[test]
fn a_failure_is_logged_with_its_task_as_the_current_one() {
    assert_eq!(lines_about("failing"), []);
    let sim = Sim::fifo();
    let task = sim.group("cpu").task(()).name("failing").class("Account").spawn().unwrap();
    assert!(sim.wait(task.call(|(), _| panic!("planted"))).map(|(): ()| ()).is_err());
    let [line] = &lines_about("failing")[..] else { panic!("one line for one failure") };
    assert_eq!(
        (line["class"].as_str(), line["failure"].as_str()),
        ("Account", "panicked: planted")
    );
    assert_eq!(line["current task"], format!("{:?}", Some("failing")));
}

// --- the list of tasks ---

// O-063
#[test]
fn the_list_shows_who_runs_and_how_much_waits() {
    let group = Group::builder("list").workers(1).pinning(Pinning::None).build().unwrap();
    let busy = group.task(()).name("busy").class("Engine").label("shard", "3").spawn().unwrap();
    let [full, idle] = ["full", "idle"].map(|name| group.task(0).name(name).spawn().unwrap());
    let recent = Mailbox::bounded(2).overflow(Overflow::DropOldest);
    let news = group.task(0).name("news").mailbox(recent).spawn().unwrap();
    let held = Held::on(&busy);
    for _ in 0..3 {
        full.submit(|count, _| *count += 1).unwrap();
        news.submit(|count, _| *count += 1).unwrap();
    }
    let mut tasks = group.tasks();
    tasks.sort_by_key(|task| std::cmp::Reverse(task.queued));
    let queued: Vec<_> = tasks.iter().map(|task| (task.name.as_str(), task.queued)).collect();
    assert_eq!(queued[..2], [("full", 3), ("news", 2)], "the ones with most to do first");
    let running: Vec<_> = tasks.iter().filter(|task| task.running_on == Some(0)).collect();
    let [running] = running[..] else { panic!("one worker runs one task: {running:?}") };
    assert_eq!((running.name.as_str(), running.class.as_str()), ("busy", "Engine"));
    assert_eq!(running.labels, [("shard".to_owned(), "3".to_owned())]);
    assert!(tasks.iter().all(|task| task.phase == Phase::Started || task.phase == Phase::New));
    let ids: std::collections::BTreeSet<_> = tasks.iter().map(|task| task.id).collect();
    assert!(ids.len() == 4 && ids.contains(&idle.id()));
    assert!(group.metrics().mailbox_bytes > 0);
    held.end();
    assert_eq!(full.call(|count, _| *count).wait_timeout(PATIENCE).unwrap(), 3);
    assert!(group.shutdown().unwrap().is_clean());
    let jobs: u64 = group.metrics().workers.iter().map(|worker| worker.jobs).sum();
    assert_eq!((jobs, group.tasks().len()), (1 + 3 + 2 + 1, 0), "exact, and nobody is left");
}

// O-063
#[test]
fn a_waiting_task_is_listed_with_its_age() {
    let sim = Sim::fifo();
    let group = sim.group("cpu");
    let task = group.task(()).name("patient").spawn().unwrap();
    sim.advance(ms(5));
    assert_eq!(info(&group, "patient").waiting, None);
    task.submit(|(), _| ()).unwrap();
    sim.clock().advance(ms(30));
    assert_eq!(info(&group, "patient").waiting, Some(ms(30)));
    sim.run_until_idle();
    assert_eq!(info(&group, "patient").waiting, None);
}

// O-063
#[test]
fn the_time_in_the_queue_is_measured_for_each_class() {
    let clock = ManualClock::new();
    let builder = Group::builder("age").workers(1).pinning(Pinning::None);
    let group = builder.clock(Arc::new(clock.clone())).build().unwrap();
    let busy = group.task(()).class("Busy").spawn().unwrap();
    let held = Held::on(&busy);
    // One turn in 256 is sampled.
    let tasks: Vec<_> =
        (0..1_024).map(|_| group.task(()).class("Waiting").spawn().unwrap()).collect();
    let answers: Vec<_> = tasks.iter().map(|task| task.call(|(), _| ())).collect();
    clock.advance(Duration::from_secs(2));
    held.end();
    answers.into_iter().for_each(|answer| answer.wait_timeout(PATIENCE).unwrap());
    // One worker: the turns before this one are measured.
    busy.call(|(), _| ()).wait_timeout(PATIENCE).unwrap();
    let classes = group.metrics().classes;
    let waiting = classes.iter().find(|class| class.class == "Waiting").expect("it was sampled");
    assert!(waiting.turns >= 4 && waiting.jobs >= waiting.turns, "{waiting:?}");
    let waited = waiting.waited;
    assert!(waited.p50 >= ms(1_980) && waited.max <= ms(2_020), "to two digits: {waited:?}");
    assert!(waiting.ran.max < ms(1), "the clock stood still: {waiting:?}");
    assert!(group.shutdown().unwrap().is_clean());
}

// O-063
#[test]
fn the_end_names_who_did_not_even_end_when_killed() {
    let group = Group::builder("end").workers(2).pinning(Pinning::None).build().unwrap();
    let stuck = group.task(()).name("stuck").spawn().unwrap();
    let waiting = group.task(()).name("waiting").spawn().unwrap();
    let (completer, never) = completion::<()>();
    let hold = move |(): &mut (), cx: &mut Context<'_, ()>| {
        cx.await_exclusive(never, |(), _, _| ());
    };
    waiting.submit(hold).unwrap();
    let orderly = group.task(()).name("orderly").spawn().unwrap();
    orderly.call(|(), _| ()).wait_timeout(PATIENCE).unwrap();
    let held = Held::on(&stuck);
    let report = group.shutdown_within(ms(20)).unwrap();
    assert_eq!(report.left, ["stuck"]);
    // Stopped or killed, depending on the order at the deadline.
    assert!(report.killed.is_empty() || report.killed == ["waiting"], "{report:?}");
    assert_eq!(report.closed + report.killed.len(), 2);
    assert!(waiting.phase().is_over());
    assert!(matches!(stuck.closed().wait_timeout(PATIENCE), Err(Failure::Killed)));
    held.end();
    drop(completer);
}

// --- suspended ---

/// Threads of this process with this prefix of the name.
#[cfg(target_os = "linux")]
fn threads(prefix: &str) -> Option<usize> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux has it").flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    Some(names.filter(|name| name.starts_with(prefix)).count())
}

/// Not available.
#[cfg(not(target_os = "linux"))]
fn threads(_: &str) -> Option<usize> {
    None
}

// O-066
#[test]
fn a_hundred_thousand_suspended_futures_take_no_thread() {
    const TASKS: usize = 1_000;
    const FUTURES: usize = 100;
    let group = Group::builder("suspended").workers(2).pinning(Pinning::None).build().unwrap();
    // Two workers and the watchdog; each names itself when it begins.
    while threads("suspended").is_some_and(|count| count < 3) {
        std::thread::yield_now();
    }
    let before = threads("suspended");
    let ended = Arc::new(AtomicUsize::new(0));
    let mut completers = Vec::with_capacity(TASKS * FUTURES);
    let tasks: Vec<_> = (0..TASKS).map(|_| group.spawn(0_usize).unwrap()).collect();
    for task in &tasks {
        for _ in 0..FUTURES {
            let (completer, waiting) = completion::<usize>();
            completers.push(completer);
            let ended = Arc::clone(&ended);
            let suspend = move |_: &mut usize, cx: &mut Context<'_, usize>| {
                let future = async move { waiting.await.map(|value| value + 1) };
                cx.await_interleaved(future, move |sum: &mut usize, _, value| {
                    *sum += value.unwrap_or(0);
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            };
            task.submit(suspend).unwrap();
        }
    }
    for task in &tasks {
        // Others have their turn while a hundred futures of the task are suspended.
        assert_eq!(task.call(|sum, _| *sum).wait_timeout(PATIENCE).unwrap(), 0);
    }
    assert_eq!((threads("suspended"), ended.load(Ordering::SeqCst)), (before, 0));
    assert!(before.is_none_or(|count| count == 3), "{before:?}");
    assert_eq!(group.metrics().blocking_threads, 0);
    for completer in completers.into_iter().rev() {
        completer.complete(1).unwrap();
    }
    for task in &tasks {
        while task.call(|sum, _| *sum).wait_timeout(PATIENCE).unwrap() < 2 * FUTURES {
            std::thread::yield_now();
        }
    }
    assert_eq!(ended.load(Ordering::SeqCst), TASKS * FUTURES);
    assert_eq!(threads("suspended"), before);
    assert!(group.shutdown().unwrap().is_clean());
}
