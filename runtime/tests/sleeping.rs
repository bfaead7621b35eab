//! More workers than work: no worker sleeps through a timer, and no task waits while a worker
//! sleeps.

use std::error::Error;
use std::sync::{mpsc, Arc, Barrier};
use std::time::Duration;

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{ConditionMode, Group, IdlePolicy, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(30);
const WORKERS: usize = 4;
const ROUNDS: u64 = if cfg!(miri) { 3 } else { 40 };
/// Races against the falling asleep, for each number of workers.
const RACES: u64 = if cfg!(miri) { 20 } else { 3_000 };

fn group(name: &str) -> Result<Group, Box<dyn Error>> {
    Ok(Group::builder(name).workers(WORKERS).pinning(Pinning::None).build()?)
}

#[test]
fn a_timer_armed_by_a_worker_fires_though_another_keeps_the_time() -> Outcome {
    let group = group("keeper")?;
    let task = group.spawn(())?;
    let others: Vec<_> = (0..WORKERS).map(|_| group.spawn(())).collect::<Result<_, _>>()?;
    let (fired, wait) = mpsc::channel();
    for round in 0..ROUNDS {
        let (fired, others) = (fired.clone(), others.clone());
        task.submit(move |(), cx| {
            // Local work, so that one worker searches and goes on watch while the timer is armed.
            for other in &others {
                other.submit(|(), _| {}).expect("the task lives");
            }
            let delay = Duration::from_micros(200 * (round % 8));
            cx.after(delay, move |(), _| fired.send(round).expect("the test listens"))
                .expect("few timers are pending");
        })?;
        assert_eq!(wait.recv_timeout(PATIENCE), Ok(round), "the timer was slept through");
    }
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_timer_fires_while_the_worker_that_kept_the_time_is_in_a_long_turn() -> Outcome {
    for workers in [2, WORKERS] {
        let group = Group::builder("keeper").workers(workers).pinning(Pinning::None).build()?;
        let task = group.spawn(())?;
        for _ in 0..ROUNDS {
            let ((entered, inside), (release, released)) = (mpsc::channel(), mpsc::channel());
            // Armed from outside: all workers sleep, and one of them keeps the time.
            let first = group.sleep(Duration::from_millis(1));
            let second = group.sleep(Duration::from_millis(3));
            task.submit(move |(), cx| {
                cx.on_completion(first, move |(), _, _| {
                    entered.send(()).expect("the test listens");
                    // The turn lasts until the later timer has fired.
                    released.recv_timeout(PATIENCE).expect("the test sends");
                });
            })?;
            inside.recv_timeout(PATIENCE)?;
            second.wait_timeout(PATIENCE)?;
            release.send(())?;
        }
        group.shutdown()?;
    }
    Ok(())
}

/// All jobs meet at a barrier: they must be on different workers at the same time.
fn meet(group: &Group, tasks: &[turnwheel_runtime::Task<()>], is_inside: bool) -> Outcome {
    let barrier = Arc::new(Barrier::new(tasks.len()));
    let (done, wait) = mpsc::channel();
    let count = tasks.len();
    let submit = {
        let tasks = tasks.to_vec();
        move || {
            for task in &tasks {
                let (barrier, done) = (Arc::clone(&barrier), done.clone());
                task.submit(move |(), _| {
                    barrier.wait();
                    done.send(()).expect("the test listens");
                })
                .expect("the task lives");
            }
        }
    };
    if is_inside {
        group.spawn(())?.submit(move |(), _| submit())?;
    } else {
        submit();
    }
    for _ in 0..count {
        wait.recv_timeout(PATIENCE)?;
    }
    Ok(())
}

#[test]
fn every_worker_joins_in_when_a_turn_makes_work_for_all() -> Outcome {
    let group = group("fork")?;
    let tasks: Vec<_> = (0..WORKERS).map(|_| group.spawn(())).collect::<Result<_, _>>()?;
    for _ in 0..ROUNDS {
        meet(&group, &tasks, true)?;
    }
    group.shutdown()?;
    Ok(())
}

#[test]
fn every_worker_joins_in_when_a_burst_comes_from_outside() -> Outcome {
    let group = group("burst")?;
    let tasks: Vec<_> = (0..WORKERS).map(|_| group.spawn(())).collect::<Result<_, _>>()?;
    for _ in 0..ROUNDS {
        meet(&group, &tasks, false)?;
    }
    group.shutdown()?;
    Ok(())
}

// Z-X03
#[test]
fn nothing_made_ready_as_a_worker_goes_to_sleep_is_lost() -> Outcome {
    for workers in [1, 2, 4] {
        // The workers park as soon as they find nothing.
        let builder = Group::builder("doze").workers(workers).pinning(Pinning::None);
        let group = builder.idle(IdlePolicy::PowerFirst).build()?;
        let (say, said) = mpsc::channel();
        let task = group.spawn(())?;
        let signalled = say.clone();
        let condition = task.call(move |(), cx| {
            cx.condition(ConditionMode::Counting, move |(), _| {
                signalled.send("signal").unwrap_or_default()
            })
        });
        let condition = condition.wait_timeout(PATIENCE)?;
        for race in 0..RACES {
            // From the moment that the turn is over, a little later each time.
            (0..race % 500).for_each(|_| std::hint::spin_loop());
            match race % 3 {
                0 => {
                    let say = say.clone();
                    task.submit(move |(), _| say.send("submit").unwrap_or_default())?;
                    assert_eq!(said.recv_timeout(PATIENCE)?, "submit");
                }
                1 => {
                    condition.signal();
                    assert_eq!(said.recv_timeout(PATIENCE)?, "signal");
                }
                _ => {
                    let ((completer, answer), say) = (completion(), say.clone());
                    task.submit(move |(), cx| {
                        cx.on_completion(answer, move |(), _, value| {
                            say.send(value.unwrap_or("failure")).unwrap_or_default();
                        });
                    })?;
                    completer.complete("complete")?;
                    assert_eq!(said.recv_timeout(PATIENCE)?, "complete");
                }
            }
        }
        assert!(group.shutdown()?.is_clean());
    }
    Ok(())
}
