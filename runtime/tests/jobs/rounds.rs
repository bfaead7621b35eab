//! Rounds: neither jobs nor subscriptions of a task starve one another, for every way a turn ends.
//!
//! A flood of jobs signals a condition with each job. Its job must run after at most a budget of
//! jobs and the turn that was under way. Conversely, conditions that are always ready let submitted
//! jobs through.

use std::future::{poll_fn, Future};
use std::panic::resume_unwind;
use std::task::Poll;
use std::time::Duration;

use turnwheel_runtime::completion::{completion, Completer};
use turnwheel_runtime::sim::{EventKind, Sim};
use turnwheel_runtime::{
    Budget, Completion, Condition, ConditionMode, Context, Failure, Flow, Group, Lifecycle,
    Mailbox, Overflow, Task,
};

use crate::on_workers;

/// Jobs of one turn.
const BUDGET: u32 = 8;
/// Jobs of a flood: many turns.
const JOBS: u32 = 2_000;
/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The state of a flooded task.
struct Flooded {
    bell: Option<Condition>,
    jobs: u32,
    /// Jobs since the condition's job has run, and the most there were.
    since: u32,
    longest: u32,
    done: Option<Completer<u32>>,
}

impl Flooded {
    /// One job of the flood.
    fn job(&mut self) {
        self.jobs += 1;
        self.since += 1;
        self.longest = self.longest.max(self.since);
        if let Some(bell) = &self.bell {
            bell.signal();
        }
        if self.jobs >= JOBS {
            if let Some(done) = self.done.take() {
                done.complete(self.longest).expect("the test waits");
            }
        }
    }

    fn goes_on(&mut self) -> bool {
        self.job();
        self.jobs < JOBS
    }
}

type Cx<'a, 'b> = &'a mut Context<'b, Flooded>;
type Flood = fn(&mut Flooded, Cx<'_, '_>);

/// Queues all jobs at once: the submitted lane is never empty.
fn backlog(cx: Cx<'_, '_>, job: fn(&mut Flooded, Cx<'_, '_>)) {
    let task = cx.task();
    for _ in 0..JOBS {
        task.submit(job).expect("an unbounded mailbox");
    }
}

/// A future that is polled twice.
fn twice() -> impl Future<Output = ()> + Send {
    let mut is_first = true;
    poll_fn(move |cx| {
        if !std::mem::take(&mut is_first) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

fn chain(state: &mut Flooded, cx: Cx<'_, '_>) {
    if state.goes_on() {
        cx.run(chain).expect("room");
    }
}

fn urgent_chain(state: &mut Flooded, cx: Cx<'_, '_>) {
    if state.goes_on() {
        cx.task().submit_urgent(urgent_chain).expect("room");
    }
}

fn again(state: &mut Flooded, _: Cx<'_, '_>) -> Flow {
    if state.goes_on() {
        Flow::Again
    } else {
        Flow::Done
    }
}

const FLOODS: &[(&str, Flood)] = &[
    ("a backlog", |_, cx| backlog(cx, |state, _| state.job())),
    ("jobs that yield", |_, cx| {
        backlog(cx, |state, cx| {
            state.job();
            cx.yield_now();
        });
    }),
    ("jobs that submit", |_, cx| {
        backlog(cx, |state, cx| {
            state.job();
            cx.submit(|_, _| ()).expect("room");
        });
    }),
    ("jobs that panic", |_, cx| {
        backlog(cx, |state, _| {
            state.job();
            resume_unwind(Box::new("without a message"));
        });
    }),
    ("exclusive futures that are ready", |_, cx| {
        backlog(cx, |state, cx| {
            state.job();
            cx.run_exclusive(std::future::ready(()), |_, _, ()| ());
        });
    }),
    ("exclusive futures that wait", |_, cx| {
        backlog(cx, |state, cx| {
            state.job();
            cx.run_exclusive(twice(), |_, _, ()| ());
        });
    }),
    ("interleaved futures", |_, cx| {
        backlog(cx, |state, cx| {
            state.job();
            let _ = cx.await_interleaved(twice(), |_, _, ()| ());
        });
    }),
    ("a fast lane without end", chain),
    ("an urgent lane without end", |_, cx| {
        cx.task().submit_urgent(urgent_chain).expect("room");
    }),
    ("a job that answers Again", |_, cx| cx.run_again(again).expect("room")),
    ("a submitted job that answers Again", |_, cx| {
        cx.task().submit_again(again).expect("room");
    }),
];

/// Starts a flood, and completes with the most jobs that ran while the condition was signalled.
fn flood(group: &Group, mailbox: Mailbox, budget: u32, flood: Flood) -> Completion<u32> {
    let (done, longest) = completion();
    let state = Flooded { bell: None, jobs: 0, since: 0, longest: 0, done: Some(done) };
    let budget = Budget::new(budget, Duration::from_secs(60));
    let task = group.task(state).mailbox(mailbox).budget(budget).spawn().expect("the group runs");
    task.submit(move |state, cx| {
        let bell =
            cx.condition(ConditionMode::Coalescing, |state: &mut Flooded, _| state.since = 0);
        state.bell = Some(bell);
        flood(state, cx);
    })
    .expect("room");
    longest
}

/// The jobs of the turn in which the signal came, and those of the next.
const MOST: u32 = 2 * BUDGET;

#[test]
fn no_flood_of_jobs_keeps_a_ready_subscription_waiting_for_more_than_a_turn() {
    for (what, start) in FLOODS {
        for seed in 0..6 {
            let sim = if seed == 0 { Sim::fifo() } else { Sim::new(seed) };
            let group = sim.group("cpu");
            for budget in [1, 2, BUDGET] {
                let longest = flood(&group, Mailbox::unbounded(), budget, *start);
                let longest = sim.wait(longest).expect("the flood ends");
                assert!(longest <= MOST, "{what}: {longest} jobs, budget {budget}, seed {seed}");
            }
        }
        on_workers(|group| {
            let longest = flood(group, Mailbox::unbounded(), BUDGET, *start);
            let longest = longest.wait_timeout(PATIENCE).expect("the flood ends");
            assert!(longest <= MOST, "{what}: {longest} jobs, {} workers", group.workers());
        });
    }
}

#[test]
fn a_mailbox_with_a_policy_keeps_no_ready_subscription_waiting() {
    let start: Flood = |_, cx| backlog(cx, |state, _| state.job());
    for seed in 0..6 {
        let sim = Sim::new(seed);
        let mailbox = Mailbox::bounded(u64::from(JOBS)).overflow(Overflow::DropOldest);
        let longest = flood(&sim.group("cpu"), mailbox, BUDGET, start);
        let longest = sim.wait(longest).expect("the flood ends");
        assert!(longest <= MOST, "{longest} jobs, seed {seed}");
    }
}

/// Conditions that are always ready, and how often their jobs have run.
#[derive(Default)]
struct Ringing {
    bells: Vec<Condition>,
    rung: u32,
}

const BELLS: usize = 3;
const SUBMITTED: u32 = 200;

/// Each condition also makes a job in the fast lane, if asked to.
fn ringing(group: &Group, budget: u32, is_busy: bool) -> (Task<Ringing>, Completion<u32>) {
    let budget = Budget::new(budget, Duration::from_secs(60));
    let task = group.task(Ringing::default()).budget(budget).spawn().expect("the group runs");
    let (done, rung) = completion();
    task.submit(move |state: &mut Ringing, cx| {
        for number in 0..BELLS {
            let bell = cx.condition(ConditionMode::Coalescing, move |state: &mut Ringing, cx| {
                state.rung += 1;
                state.bells[number].signal();
                if is_busy {
                    cx.run(|_, _| ()).expect("room");
                }
            });
            state.bells.push(bell);
        }
        state.bells.iter().for_each(Condition::signal);
        let task = cx.task();
        for _ in 1..SUBMITTED {
            task.submit(|_, _| ()).expect("room");
        }
        let last = move |state: &mut Ringing, _: &mut Context<'_, Ringing>| {
            state.bells.clear();
            done.complete(state.rung).expect("the test waits");
        };
        task.submit(last).expect("room");
    })
    .expect("room");
    (task, rung)
}

#[test]
fn subscriptions_that_are_always_ready_starve_no_submitted_job() {
    // One round for each submitted job, in the worst case, and each visits every condition once.
    let most = (SUBMITTED + 2) * BELLS as u32;
    for budget in [1, 2, 3, BUDGET] {
        for seed in 0..6 {
            let sim = if seed == 0 { Sim::fifo() } else { Sim::new(seed) };
            let (_task, rung) = ringing(&sim.group("cpu"), budget, seed == 0 && budget == BUDGET);
            let rung = sim.wait(rung).expect("all submitted jobs run");
            assert!(rung <= most, "{rung} runs, budget {budget}, seed {seed}");
        }
        on_workers(|group| {
            let (_task, rung) = ringing(group, budget, budget == BUDGET);
            let rung = rung.wait_timeout(PATIENCE).expect("all submitted jobs run");
            assert!(rung <= most, "{rung} runs, budget {budget}, {} workers", group.workers());
        });
    }
}

/// A task whose fast lane stays busy after the close request while a future holds it.
struct Busy;

impl Lifecycle<u32> for Busy {
    fn close_requested(&mut self, _: &mut u32, cx: &mut Context<'_, u32>) -> Result<(), Failure> {
        let held = cx.await_holding(twice(), |jobs, _, ()| *jobs = JOBS);
        drop(held);
        cx.run_again(|jobs, _| {
            *jobs += 1;
            if *jobs < JOBS {
                Flow::Again
            } else {
                Flow::Done
            }
        })
        .map_err(Failure::error)
    }

    fn closed(&mut self, jobs: &mut u32, _: &mut Context<'_, u32>) -> Result<(), Failure> {
        // The job has met the mark that the future set.
        if *jobs == JOBS + 1 {
            Ok(())
        } else {
            Err(Failure::Refused("the future waited for the job"))
        }
    }
}

#[test]
fn a_job_that_answers_again_does_not_keep_a_held_future_waiting() {
    for seed in 0..6 {
        let sim = if seed == 0 { Sim::fifo() } else { Sim::new(seed) };
        let task = sim.group("cpu").task(0).lifecycle(Busy).spawn().expect("the group runs");
        sim.wait(task.close()).expect("the future comes first");
    }
    on_workers(|group| {
        let task = group.task(0).lifecycle(Busy).spawn().expect("the group runs");
        task.close().wait_timeout(PATIENCE).expect("the future comes first");
    });
}

#[test]
fn a_seed_shortens_the_turns_of_a_task_with_a_budget_of_its_own() {
    let is_shortened = |seed| {
        let sim = Sim::new(seed);
        let budget = Budget::new(64, Duration::from_secs(60));
        let task = sim.group("cpu").task(()).budget(budget).spawn().expect("the group runs");
        for _ in 0..32 {
            task.submit(|(), _| ()).expect("room");
        }
        sim.record();
        sim.run_until_idle();
        sim.events().count(|kind| matches!(kind, EventKind::TurnEnd { .. })) > 1
    };
    assert!((0..20).filter(|seed| is_shortened(*seed)).count() > 5);
}
