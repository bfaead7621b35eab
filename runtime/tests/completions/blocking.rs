//! Blocking actions of tasks: run once off the task, and answered by a job of it in the phases in
//! which continuations run.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;
use std::time::Duration;

use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Context, Failure, Group, Lifecycle, Phase, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);
const HOOKS: [Phase; 5] =
    [Phase::Starting, Phase::Started, Phase::CloseRequested, Phase::Closing, Phase::Closed];

fn group(workers: usize) -> Result<Group, Box<dyn Error>> {
    Ok(Group::builder("blocking").workers(workers).pinning(Pinning::None).build()?)
}

// Z-H16, Z-H17
#[test]
fn a_blocking_action_runs_once_off_its_task_and_is_answered_afterwards() -> Outcome {
    for workers in [1, 2, 4] {
        let group = group(workers)?;
        let task = group.spawn(Vec::new())?;
        let runs = Arc::new(AtomicUsize::new(0));
        let (release, gate) = mpsc::channel::<()>();
        let (say, answered) = mpsc::channel();
        let count = Arc::clone(&runs);
        task.submit(move |_, cx| {
            let own = cx.task();
            let action = move || {
                let is_outside = !own.is_current();
                let is_released = gate.recv_timeout(PATIENCE).is_ok();
                count.fetch_add(1, Ordering::SeqCst);
                (is_outside && is_released).then(|| thread::current().name().map(str::to_owned))
            };
            cx.run_blocking(action, None, move |seen: &mut Vec<&str>, cx, thread| {
                seen.push("answer");
                let _ = say.send((cx.task().is_current(), thread));
            });
        })?;
        // Meanwhile the task runs other jobs, even on a single worker.
        task.call(|seen, _| seen.push("job")).wait_timeout(PATIENCE)?;
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        release.send(())?;
        let (is_in_turn, thread) = answered.recv_timeout(PATIENCE)?;
        assert!(is_in_turn, "the answer is a job of the task");
        let thread = thread?.flatten().ok_or("a thread without name")?;
        assert!(thread.starts_with("blocking-blocking-"), "{thread} is not of the pool");
        assert_eq!(task.call(|seen, _| seen.len()).wait_timeout(PATIENCE)?, 2);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert!(group.shutdown()?.is_clean());
    }
    Ok(())
}

// Z-H18
#[test]
fn a_failing_blocking_action_is_answered_with_what_went_wrong() -> Outcome {
    let group = group(1)?;
    let task = group.spawn(())?;
    let (say, answered) = mpsc::channel();
    task.submit(move |(), cx| {
        let panicked = say.clone();
        cx.run_blocking(
            || -> u32 { panic!("no disk") },
            None,
            move |(), _, answer| drop(panicked.send(answer.map_err(|met| met.to_string()))),
        );
        let action = || "x".parse::<u32>();
        cx.run_blocking(action, None, move |(), _, answer| {
            let answer = answer.and_then(|parsed| parsed.map_err(Failure::error));
            let _ = say.send(answer.map_err(|met| met.to_string()));
        });
    })?;
    let mut seen = [answered.recv_timeout(PATIENCE)?, answered.recv_timeout(PATIENCE)?];
    seen.sort();
    let [parse, panic] = seen;
    assert_eq!(panic, Err("panicked: no disk".to_owned()));
    assert!(parse.is_err_and(|text| text.contains("invalid digit")));
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

/// Begins a blocking action in the hook of one phase.
struct Begins {
    phase: Phase,
    runs: Arc<AtomicUsize>,
    answers: Arc<Mutex<Vec<Phase>>>,
}

impl Begins {
    fn at(&self, phase: Phase, cx: &mut Context<'_, ()>) -> Result<(), Failure> {
        if phase == self.phase {
            let (runs, answers) = (Arc::clone(&self.runs), Arc::clone(&self.answers));
            let action = move || runs.fetch_add(1, Ordering::SeqCst);
            cx.run_blocking(action, None, move |(), cx, _| {
                answers.lock().expect("no test panics in here").push(cx.phase());
            });
        }
        Ok(())
    }
}

impl Lifecycle<()> for Begins {
    fn starting(&mut self, (): &mut (), cx: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.at(Phase::Starting, cx)
    }
    fn started(&mut self, (): &mut (), cx: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.at(Phase::Started, cx)
    }
    fn close_requested(&mut self, (): &mut (), cx: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.at(Phase::CloseRequested, cx)
    }
    fn closing(&mut self, (): &mut (), cx: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.at(Phase::Closing, cx)
    }
    fn closed(&mut self, (): &mut (), cx: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.at(Phase::Closed, cx)
    }
}

// Z-H19 to Z-H24
#[test]
fn a_blocking_action_is_answered_in_its_phase_or_not_at_all_and_always_runs() -> Outcome {
    for seed in 0..20 {
        for phase in HOOKS {
            let sim = Sim::new(seed);
            let runs = Arc::new(AtomicUsize::new(0));
            let answers = Arc::new(Mutex::new(Vec::new()));
            let hooks = Begins { phase, runs: Arc::clone(&runs), answers: Arc::clone(&answers) };
            let task = sim.group("cpu").task(()).lifecycle(hooks).spawn()?;
            sim.run_until_idle();
            assert_eq!(task.phase(), Phase::Started);
            sim.wait(task.close())?;
            sim.run_until_idle();
            let expected: &[Phase] = match phase {
                // Starting and Closing last until the futures begun in them are answered.
                Phase::Starting | Phase::Started | Phase::Closing => &[phase],
                _ => &[],
            };
            let answers = answers.lock().map_err(|_| "a hook panicked")?;
            assert_eq!(*answers, expected, "begun in {phase:?}, seed {seed}");
            assert_eq!(runs.load(Ordering::SeqCst), 1, "begun in {phase:?}, seed {seed}");
        }
    }
    Ok(())
}

// Z-H22, Z-H23, Z-H24
#[test]
fn an_action_that_outlives_its_task_runs_to_its_end_unanswered() -> Outcome {
    let group = group(1)?;
    let task = group.spawn(())?;
    let (release, gate) = mpsc::channel::<()>();
    let (say, ended) = mpsc::channel();
    let is_answered = Arc::new(AtomicUsize::new(0));
    let answered = Arc::clone(&is_answered);
    let begun = task.call(move |(), cx| {
        let action = move || {
            let is_released = gate.recv_timeout(PATIENCE).is_ok();
            let _ = say.send(is_released);
        };
        cx.run_blocking(action, None, move |(), _, _| {
            answered.fetch_add(1, Ordering::SeqCst);
        });
    });
    begun.wait_timeout(PATIENCE)?;
    task.close().wait_timeout(PATIENCE)?;
    release.send(())?;
    assert!(ended.recv_timeout(PATIENCE)?, "the action runs to its end");
    assert!(group.shutdown()?.is_clean());
    assert_eq!(is_answered.load(Ordering::SeqCst), 0);
    Ok(())
}
