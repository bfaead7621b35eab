//! Ordered start and end: order, failures, rollback, shutdown in every state.

use std::error::Error;
use std::sync::{mpsc, Arc, Mutex};
use std::time::Duration;

use turnwheel_extras::startup::{
    step, StartupError, StartupProcess, StartupState, StartupStep, StepFuture,
};
use turnwheel_runtime::{
    completion::completion, Completer, Completion, Context, Failure, Group, Lifecycle, Pinning,
    Task,
};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Context of the steps: the names of the steps that it has passed.
type Path = Vec<String>;

/// Calls, in order: `+a` for a start, `-a` for an end.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, sign: char, name: &str) {
        self.0.lock().expect("nobody panics under the lock").push(format!("{sign}{name}"));
    }

    fn text(&self) -> String {
        self.0.lock().expect("nobody panics under the lock").join(" ")
    }
}

/// Behaviour of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conduct {
    Works,
    FailsUp,
    FailsDown,
    PanicsUp,
    PanicsDown,
    PanicsInFuture,
}

struct Step {
    name: &'static str,
    conduct: Conduct,
    log: Log,
}

impl Step {
    fn act(&self, sign: char, mut path: Path, fails: bool) -> StepFuture<Path> {
        self.log.add(sign, self.name);
        path.push(format!("{sign}{}", self.name));
        let failure = fails.then(|| Failure::message(format!("{} is broken", self.name)));
        let panics = self.conduct == Conduct::PanicsInFuture && sign == '+';
        Box::pin(async move {
            assert!(!panics, "in the future");
            failure.map_or(Ok(path), Err)
        })
    }
}

impl StartupStep<Path> for Step {
    fn name(&self) -> &str {
        self.name
    }

    fn startup(&mut self, path: Path) -> StepFuture<Path> {
        assert_ne!(self.conduct, Conduct::PanicsUp);
        self.act('+', path, self.conduct == Conduct::FailsUp)
    }

    fn shutdown(&mut self, path: Path) -> StepFuture<Path> {
        let future = self.act('-', path, self.conduct == Conduct::FailsDown);
        assert_ne!(self.conduct, Conduct::PanicsDown);
        future
    }
}

fn process(log: &Log, steps: &[(&'static str, Conduct)]) -> StartupProcess<Path> {
    let add = |process: StartupProcess<Path>, (name, conduct): &(&'static str, Conduct)| {
        process.then(Step { name, conduct: *conduct, log: log.clone() })
    };
    steps.iter().fold(StartupProcess::new(), add)
}

fn group() -> Result<Group, Box<dyn Error>> {
    Ok(Group::builder("t").workers(1).pinning(Pinning::None).build()?)
}

fn up(task: &Task<()>, process: &StartupProcess<Path>) -> Result<Completion<Path>, Failure> {
    let process = process.clone();
    task.call(move |(), cx| process.startup(cx, vec!["up".to_owned()])).wait()
}

fn down(task: &Task<()>, process: &StartupProcess<Path>) -> Result<Completion<Path>, Failure> {
    let process = process.clone();
    task.call(move |(), cx| process.shutdown(cx, vec!["down".to_owned()])).wait()
}

fn error_of(failed: Result<Path, Failure>) -> StartupError {
    let failure = failed.expect_err("it must fail");
    let error = failure.downcast_ref::<StartupError>();
    error.unwrap_or_else(|| panic!("no startup error: {failure}")).clone()
}

#[test]
fn steps_start_in_order_and_each_gets_what_the_one_before_answered() -> Outcome {
    let (group, log) = (group()?, Log::default());
    let task = group.spawn(())?;
    let process = process(&log, &[("a", Conduct::Works), ("b", Conduct::Works)]);
    assert_eq!(process.state(), StartupState::New);
    assert_eq!(up(&task, &process)?.wait()?, ["up", "+a", "+b"]);
    assert_eq!(process.state(), StartupState::Started);
    assert_eq!(log.text(), "+a +b");
    group.shutdown()?;
    Ok(())
}

#[test]
fn steps_end_in_reverse_order_and_each_gets_what_the_one_before_answered() -> Outcome {
    let (group, log) = (group()?, Log::default());
    let task = group.spawn(())?;
    let process = process(&log, &[("a", Conduct::Works), ("b", Conduct::Works)]);
    up(&task, &process)?.wait()?;
    assert_eq!(down(&task, &process)?.wait()?, ["down", "-b", "-a"]);
    assert_eq!(process.state(), StartupState::Down);
    assert_eq!(log.text(), "+a +b -b -a");
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_step_that_fails_ends_the_startup_and_is_shut_down_too() -> Outcome {
    for conduct in [Conduct::FailsUp, Conduct::PanicsUp, Conduct::PanicsInFuture] {
        let (group, log) = (group()?, Log::default());
        let task = group.spawn(())?;
        let steps = [("a", Conduct::Works), ("b", conduct), ("c", Conduct::Works)];
        let process = process(&log, &steps);
        let error = error_of(up(&task, &process)?.wait());
        let StartupError::Startup { failed, rollback } = &error else {
            return Err(error.into());
        };
        assert_eq!((&*failed.step, rollback.len()), ("b", 0));
        assert!(error.to_string().starts_with("the startup failed: step «b»: "), "{error}");
        assert_eq!(process.state(), StartupState::Failed);
        assert_eq!(down(&task, &process)?.wait()?, ["down", "-b", "-a"]);
        assert!(log.text().ends_with("-b -a") && !log.text().contains('c'), "{log:?}");
        group.shutdown()?;
    }
    Ok(())
}

#[test]
fn a_shutdown_goes_on_after_failures_and_lists_them() -> Outcome {
    for conduct in [Conduct::FailsDown, Conduct::PanicsDown] {
        let (group, log) = (group()?, Log::default());
        let task = group.spawn(())?;
        let process = process(&log, &[("a", conduct), ("b", Conduct::Works), ("c", conduct)]);
        up(&task, &process)?.wait()?;
        let error = error_of(down(&task, &process)?.wait());
        let StartupError::Shutdown { failed } = &error else {
            return Err(error.into());
        };
        let names: Vec<_> = failed.iter().map(|failed| &*failed.step).collect();
        assert_eq!(names, ["c", "a"]);
        assert_eq!(log.text(), "+a +b +c -c -b -a");
        assert_eq!(process.state(), StartupState::Down);
        let again = error_of(down(&task, &process)?.wait());
        assert_eq!(again.to_string(), error.to_string());
        group.shutdown()?;
    }
    Ok(())
}

/// A step whose start waits for the completer.
fn told() -> (impl StartupStep<Path>, Completer<Path>) {
    let (completer, started) = completion();
    let mut started = Some(started);
    let up = move |_| started.take().expect("it is started once");
    (step("told", up, |path| async { Ok(path) }), completer)
}

#[test]
fn a_shutdown_during_the_startup_waits_for_the_step_and_skips_the_rest() -> Outcome {
    let (group, log) = (group()?, Log::default());
    let task = group.spawn(())?;
    let (first, start) = told();
    let rest = Step { name: "b", conduct: Conduct::Works, log: log.clone() };
    let process = StartupProcess::new().then(first).then(rest);
    let started = up(&task, &process)?;
    let ended = down(&task, &process)?;
    let ended_too = down(&task, &process)?;
    task.call(|(), _| ()).wait()?;
    assert!(!started.is_done() && !ended.is_done(), "the step is under way");
    assert_eq!(process.state(), StartupState::Starting);
    start.complete(Vec::new())?;
    let error = error_of(started.wait());
    assert!(matches!(error, StartupError::ShutDown { begun: 1 }), "{error}");
    assert_eq!(ended.wait()?, ["down"]);
    assert_eq!(ended_too.wait()?, ["down"]);
    assert_eq!(log.text(), "");
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_shutdown_during_a_startup_that_fails_follows_the_failure() -> Outcome {
    let group = group()?;
    let task = group.spawn(())?;
    let (first, start) = told();
    let process = StartupProcess::new().then(first).rolling_back();
    let started = up(&task, &process)?;
    let ended = down(&task, &process)?;
    start.fail(Failure::message("no disk"))?;
    assert!(matches!(error_of(started.wait()), StartupError::Startup { .. }));
    assert_eq!(ended.wait()?, ["down"]);
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_second_startup_is_refused() -> Outcome {
    let (group, log) = (group()?, Log::default());
    let task = group.spawn(())?;
    let process = process(&log, &[("a", Conduct::Works)]);
    let first = up(&task, &process)?;
    let second = error_of(up(&task, &process)?.wait());
    assert_eq!(second.to_string(), "startup was already called");
    first.wait()?;
    down(&task, &process)?.wait()?;
    assert!(matches!(error_of(up(&task, &process)?.wait()), StartupError::AlreadyCalled));
    assert_eq!(log.text(), "+a -a");
    group.shutdown()?;
    Ok(())
}

#[test]
fn steps_are_shut_down_once_however_often_it_is_asked() -> Outcome {
    let (group, log) = (group()?, Log::default());
    let task = group.spawn(())?;
    let process = process(&log, &[("a", Conduct::Works)]);
    up(&task, &process)?.wait()?;
    let first = down(&task, &process)?;
    let second = down(&task, &process)?;
    assert_eq!(first.wait()?, ["down", "-a"]);
    second.wait()?;
    down(&task, &process)?.wait()?;
    assert_eq!(log.text(), "+a -a");
    group.shutdown()?;
    Ok(())
}

#[test]
fn without_steps_the_context_comes_straight_back() -> Outcome {
    let (group, log) = (group()?, Log::default());
    let task = group.spawn(())?;
    let empty = process(&log, &[]);
    assert_eq!(up(&task, &empty)?.wait()?, ["up"]);
    assert_eq!(down(&task, &empty)?.wait()?, ["down"]);
    // A process that was never started has nothing to end.
    let unused = process(&log, &[("a", Conduct::Works)]);
    assert_eq!(down(&task, &unused)?.wait()?, ["down"]);
    assert_eq!(log.text(), "");
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_rollback_ends_what_was_begun_before_the_failure_is_told() -> Outcome {
    let (group, log) = (group()?, Log::default());
    let task = group.spawn(())?;
    let steps = [("a", Conduct::FailsDown), ("b", Conduct::FailsUp), ("c", Conduct::Works)];
    let process = process(&log, &steps).rolling_back();
    let error = error_of(up(&task, &process)?.wait());
    assert_eq!(log.text(), "+a +b -b -a");
    assert_eq!(
        error.to_string(),
        "the startup failed: step «b»: b is broken; rolling back: step «a»: a is broken"
    );
    assert_eq!(process.state(), StartupState::Down);
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_thousand_steps_need_no_deep_stack() -> Outcome {
    let (group, log) = (group()?, Log::default());
    let task = group.spawn(())?;
    let process = process(&log, &[("x", Conduct::Works); 1_000]);
    assert_eq!(up(&task, &process)?.wait()?.len(), 1_001);
    assert_eq!(down(&task, &process)?.wait()?.len(), 1_001);
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_step_may_use_timers_and_blocking_work() -> Outcome {
    let group = group()?;
    let task = group.spawn(())?;
    let (sleeper, blocker) = (group.clone(), group.clone());
    let timer = move |path: Path| {
        let nap = sleeper.sleep(Duration::from_millis(1));
        async move { nap.await.map(|()| path) }
    };
    let block = move |mut path: Path| {
        let work = blocker.run_blocking(|| String::from("blocked"), None);
        async move {
            path.push(work.await?);
            Ok(path)
        }
    };
    let process = StartupProcess::new()
        .then(step("timer", timer, |path| async { Ok(path) }))
        .then(step("block", block, |path| async { Ok(path) }));
    assert_eq!(up(&task, &process)?.wait()?, ["up", "blocked"]);
    group.shutdown()?;
    Ok(())
}

/// Starts and ends a process with its task.
struct Service {
    process: StartupProcess<Path>,
    told: mpsc::Sender<Result<Path, Failure>>,
}

impl Lifecycle<()> for Service {
    fn starting(&mut self, (): &mut (), cx: &mut Context<'_, ()>) -> Result<(), Failure> {
        let started = self.process.startup(cx, Path::new());
        let told = self.told.clone();
        cx.on_completion(started, move |(), _, result| {
            told.send(result).expect("the test listens");
        });
        Ok(())
    }

    fn closing(&mut self, (): &mut (), cx: &mut Context<'_, ()>) -> Result<(), Failure> {
        let ended = self.process.shutdown(cx, Path::new());
        let told = self.told.clone();
        cx.on_completion(ended, move |(), _, result| {
            told.send(result).expect("the test listens");
        });
        Ok(())
    }
}

#[test]
fn a_process_holds_starting_and_closing_of_its_task() -> Outcome {
    let (group, log) = (group()?, Log::default());
    let process = process(&log, &[("a", Conduct::Works), ("b", Conduct::Works)]);
    let (told, results) = mpsc::channel();
    let task = group.task(()).lifecycle(Service { process, told }).spawn()?;
    task.started().wait()?;
    assert_eq!(results.try_recv()??, ["+a", "+b"]);
    task.close().wait()?;
    assert_eq!(results.try_recv()??, ["-b", "-a"]);
    group.shutdown()?;
    Ok(())
}

/// Ends a process when its task closes.
struct Ends(StartupProcess<Path>);

impl Lifecycle<()> for Ends {
    fn closing(&mut self, (): &mut (), cx: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.0.shutdown(cx, Path::new()).detach();
        Ok(())
    }
}

#[test]
fn a_task_that_closes_drops_the_step_under_way_and_can_still_end_it() -> Outcome {
    let (group, log) = (group()?, Log::default());
    let (stuck, start) = told();
    let first = Step { name: "a", conduct: Conduct::Works, log: log.clone() };
    let process = StartupProcess::new().then(first).then(stuck);
    let task = group.task(()).lifecycle(Ends(process.clone())).spawn()?;
    let started = up(&task, &process)?;
    task.call(|(), _| ()).wait()?;
    task.close().wait()?;
    assert!(started.wait().expect_err("it was dropped").is_closed());
    assert!(start.is_cancelled(), "the step was told");
    assert_eq!(process.state(), StartupState::Down);
    assert_eq!(log.text(), "+a -a");
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_killed_task_answers_everybody() -> Outcome {
    let group = group()?;
    let (stuck, _start) = told();
    let process = StartupProcess::new().then(stuck);
    let task = group.spawn(())?;
    let started = up(&task, &process)?;
    let ended = down(&task, &process)?;
    // A killed task fails, as requested.
    let _ = task.kill().wait_timeout(PATIENCE);
    assert!(started.wait().expect_err("nobody goes on").is_closed());
    assert!(ended.wait().expect_err("nobody goes on").is_closed());
    assert_eq!(process.state(), StartupState::Failed);
    // Another task can clean up.
    let other = group.spawn(())?;
    assert_eq!(down(&other, &process)?.wait()?, ["down"]);
    group.shutdown()?;
    Ok(())
}
