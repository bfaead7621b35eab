//! The actions of the workloads, and the log of the calls of their code.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll as Async, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    Action, ActionError, Finalize, Finalizes, Next, Plan, PlanId, Planner, Poll, Polled, Polling,
    Polls, Queue, Rescue, RetryPolicy, Revert, Reverts, RunAsync, RunsAsync, Singleton,
    StepContext, StepId, WorldBuilder,
};
use turnwheel_runtime::Backoff;

/// The calls of code in a run.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Calls>>);

#[derive(Default)]
struct Calls {
    running: HashSet<(PlanId, StepId)>,
    /// Of all runs of a plan together, as they are written.
    counts: HashMap<(PlanId, StepId), u32>,
    /// Plans that were told once that there is no answer.
    failed: HashSet<PlanId>,
    /// Numbers that somebody has come with.
    first: HashSet<u64>,
    /// Plans whose rest has begun and not ended, and the most of them at a time.
    resting: HashSet<PlanId>,
    most: usize,
    /// Whether long calls return; the wakers of those that do not yet.
    is_released: bool,
    long: Vec<Waker>,
    wrong: Option<String>,
}

/// A call that has not returned.
pub(crate) struct Call(Log, (PlanId, StepId));

impl Log {
    /// Another life of the world begins: what was called in the one before does not return.
    pub(crate) fn begin_life(&self) {
        let mut calls = self.0.lock();
        calls.running.clear();
        calls.long.clear();
        calls.is_released = false;
    }

    /// Long calls return from now on, in this life.
    pub(crate) fn release(&self) {
        let mut calls = self.0.lock();
        calls.is_released = true;
        let long = std::mem::take(&mut calls.long);
        drop(calls);
        long.into_iter().for_each(Waker::wake);
    }

    async fn released(&self) {
        poll_fn(|cx| {
            let mut calls = self.0.lock();
            if calls.is_released {
                return Async::Ready(());
            }
            calls.long.push(cx.waker().clone());
            Async::Pending
        })
        .await;
    }

    fn rests(&self, plan: PlanId, is_over: bool) {
        let mut calls = self.0.lock();
        if is_over {
            calls.resting.remove(&plan);
        } else {
            calls.resting.insert(plan);
        }
        calls.most = calls.most.max(calls.resting.len());
    }

    /// How many plans have rested at a time.
    pub(crate) fn most_at_once(&self) -> usize {
        self.0.lock().most
    }

    /// True once for each plan.
    fn has_failed(&self, plan: PlanId) -> bool {
        self.0.lock().failed.insert(plan)
    }

    /// True once for each number.
    pub(crate) fn is_first(&self, number: u64) -> bool {
        self.0.lock().first.insert(number)
    }

    pub(crate) fn enter<A: Action>(&self, step: &StepContext<A>) -> Call {
        let key = (step.plan_id(), step.step_id());
        let mut calls = self.0.lock();
        if !calls.running.insert(key) {
            let problem = format!("step {} of plan {} is called twice at once", key.1, key.0);
            calls.wrong.get_or_insert(problem);
        }
        *calls.counts.entry(key).or_default() += 1;
        Call(self.clone(), key)
    }

    /// No call was made beside another one of its step, nor one that is not written.
    pub(crate) fn verdict(&self, plans: &[&Plan]) -> Result<(), String> {
        let calls = self.0.lock();
        if let Some(wrong) = &calls.wrong {
            return Err(wrong.clone());
        }
        for plan in plans {
            for step in &plan.steps {
                let count = calls.counts.get(&(plan.id, step.id)).copied().unwrap_or(0);
                if count > step.calls {
                    let (id, written) = (step.id, step.calls);
                    return Err(format!(
                        "step {id} of plan {} was called {count} times, {written} are written",
                        plan.id
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0 .0.lock().running.remove(&self.1);
    }
}

/// Behaviour of a leaf.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Do {
    /// Adds one and a number.
    Add(u64),
    /// Fails so often, then is rescued as this says.
    Fail(u32, String),
    /// Waits for so many events, one of which is its timer's.
    Hear(usize),
    /// Waits so many seconds.
    Rest(u64),
    /// Is called for as long as the client wants.
    Long,
    /// Fails once in its finalize phase.
    FailFinal,
    /// Fails once when it is reverted.
    FailRevert,
    /// Has so many plans of one leaf each, some at once, and adds what they have made.
    Split(u64, Option<u32>),
    /// Has one plan of a leaf in each of so many more runs, and adds what they have made.
    Again(u32, u64),
    /// Hears one event or its timer in each of so many more runs.
    HearAgain(u32, Vec<u64>),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Made {
    pub(crate) sum: u64,
    is_timed: bool,
    pub(crate) heard: Vec<u64>,
    pub(crate) is_final: bool,
}

pub(crate) struct Leaf(pub(crate) Log);

impl Action for Leaf {
    const NAME: &'static str = "leaf";
    type Input = Do;
    type Output = Made;
    type Phases = (RunsAsync, Finalizes, Reverts);

    fn retry(&self) -> RetryPolicy {
        RetryPolicy::attempts(3).pauses(Backoff::constant(Duration::from_secs(7)))
    }

    fn rescue(&self, error: &ActionError) -> Rescue {
        match error.kind.as_str() {
            "skip" => Rescue::Skip,
            "revert" => Rescue::Revert,
            _ => Rescue::Fail,
        }
    }
}

impl RunAsync for Leaf {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let _call = self.0.enter(step);
        match step.input.clone() {
            Do::Add(number) => {
                step.output.sum = number + 1;
                Ok(Next::Done)
            }
            Do::Fail(times, kind) if step.attempt() <= times => {
                Err(ActionError::new(kind, "as it was told"))
            }
            Do::Fail(..) => Ok(Next::Done),
            Do::Long => {
                self.0.released().await;
                Ok(Next::Done)
            }
            Do::FailFinal | Do::FailRevert => Ok(Next::Done),
            Do::Hear(count) => hear(step, count, 600),
            Do::Rest(seconds) => {
                let next = hear(step, 1, seconds)?;
                self.0.rests(step.plan_id(), next == Next::Done);
                Ok(next)
            }
            Do::Split(count, at_once) => split(step, count, at_once),
            Do::Again(more, sum) => again(step, more, sum),
            Do::HearAgain(more, heard) => hear_again(step, more, heard),
        }
    }
}

fn again(step: &mut StepContext<Leaf>, more: u32, sum: u64) -> Result<Next, ActionError> {
    let found = step.sub_plans();
    if found.total == 0 {
        step.trigger::<Leaf>(&Do::Add(sum))?;
        return Ok(step.wait_for_sub_plans());
    }
    step.output.sum = sum + u64::from(found.success);
    if more > 0 {
        let next = Do::Again(more - 1, step.output.sum);
        step.continue_as_new::<Leaf>(&next)?;
    }
    Ok(Next::Done)
}

fn hear_again(
    step: &mut StepContext<Leaf>,
    more: u32,
    heard: Vec<u64>,
) -> Result<Next, ActionError> {
    if !step.output.is_timed {
        // Only the last run hears it: a timer ends with its run.
        step.event_after(Duration::from_secs(600), &7_u64)?;
        step.output.is_timed = true;
    }
    let Some(number) = step.event::<u64>()? else { return Ok(step.wait_for_event("a number")) };
    step.output.heard = heard;
    step.output.heard.push(number);
    if more > 0 {
        let next = Do::HearAgain(more - 1, step.output.heard.clone());
        step.continue_as_new::<Leaf>(&next)?;
    }
    Ok(Next::Done)
}

fn hear(step: &mut StepContext<Leaf>, count: usize, seconds: u64) -> Result<Next, ActionError> {
    if !step.output.is_timed {
        step.event_after(Duration::from_secs(seconds), &7_u64)?;
        step.output.is_timed = true;
    }
    step.output.heard.extend(step.event::<u64>()?);
    if step.output.heard.len() < count {
        return Ok(Next::suspend("the next event"));
    }
    Ok(Next::Done)
}

fn split(
    step: &mut StepContext<Leaf>,
    count: u64,
    at_once: Option<u32>,
) -> Result<Next, ActionError> {
    let found = step.sub_plans();
    if found.total == 0 {
        for number in 0..count {
            step.trigger::<Leaf>(&Do::Add(number))?;
        }
        if let Some(at_once) = at_once {
            step.limit_sub_plans(at_once);
        }
        return Ok(Next::suspend("its plans"));
    }
    if found.pending > 0 {
        return Ok(Next::suspend("its plans"));
    }
    step.output.sum = u64::from(found.success);
    Ok(Next::Done)
}

impl Finalize for Leaf {
    fn finalize(&self, step: &mut StepContext<Self>) -> Result<(), ActionError> {
        if matches!(step.input, Do::FailFinal) && step.attempt() == 1 {
            return Err(ActionError::new("again", "as it was told"));
        }
        step.output.is_final = true;
        Ok(())
    }
}

impl Revert for Leaf {
    fn revert(&self, step: &mut StepContext<Self>) -> Result<(), ActionError> {
        if matches!(step.input, Do::FailRevert) && step.attempt() == 1 {
            return Err(ActionError::new("again", "as it was told"));
        }
        step.output.sum = 0;
        Ok(())
    }
}

/// Leaves one after the other, or all at once.
pub(crate) struct Tree;

impl Action for Tree {
    const NAME: &'static str = "tree";
    type Input = (bool, Vec<Do>);
    type Output = ();
    type Phases = ();

    fn plan(
        &self,
        planner: &mut Planner<'_, Self>,
        (is_at_once, leaves): (bool, Vec<Do>),
    ) -> Result<(), ActionError> {
        let plan = |planner: &mut Planner<'_, Self>| {
            leaves.into_iter().try_for_each(|leaf| planner.plan_action::<Leaf>(leaf).map(|_| ()))
        };
        match is_at_once {
            true => planner.concurrence(plan),
            false => planner.sequence(plan),
        }
    }
}

/// One at a time for each key; rests for some seconds.
pub(crate) struct Only(pub(crate) Log);

impl Action for Only {
    const NAME: &'static str = "only";
    type Input = (String, u64);
    type Output = bool;
    type Phases = RunsAsync;

    fn singleton(&self) -> Option<Singleton<(String, u64)>> {
        Some(Singleton::keyed(|(key, _): &(String, u64)| key.clone()).wait())
    }
}

impl RunAsync for Only {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let _call = self.0.enter(step);
        if step.event::<u64>()?.is_some() {
            return Ok(Next::Done);
        }
        if !step.output {
            step.output = true;
            step.event_after(Duration::from_secs(step.input.1), &0_u64)?;
        }
        Ok(Next::suspend("its time"))
    }
}

/// Runs in a narrow queue with a rate.
pub(crate) struct Narrow(pub(crate) Log);

impl Action for Narrow {
    const NAME: &'static str = "narrow";
    type Input = u64;
    type Output = u64;
    type Phases = RunsAsync;

    fn queue(&self) -> Option<&str> {
        Some("narrow")
    }
}

impl RunAsync for Narrow {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let _call = self.0.enter(step);
        step.output = step.input + 1;
        Ok(Next::Done)
    }
}

/// Asks five times; the second answer fails.
pub(crate) struct Ask(pub(crate) Log);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Asked {
    polled: Polled<u32>,
    pub(crate) answers: u32,
}

impl Action for Ask {
    const NAME: &'static str = "ask";
    type Input = ();
    type Output = Asked;
    type Phases = Polls;
}

impl Polling for Ask {
    type Task = u32;

    fn polled(output: &mut Asked) -> &mut Polled<u32> {
        &mut output.polled
    }

    fn start(&self, step: &mut StepContext<Self>) -> Result<u32, ActionError> {
        let _call = self.0.enter(step);
        Ok(0)
    }

    fn poll(&self, task: &mut u32, step: &mut StepContext<Self>) -> Result<Poll, ActionError> {
        let _call = self.0.enter(step);
        if self.0.has_failed(step.plan_id()) {
            return Err(ActionError::new("no_answer", "as it was told"));
        }
        *task += 1;
        step.output.answers = *task;
        match *task {
            5.. => Ok(Poll::Done),
            _ => Ok(Poll::Pending(None)),
        }
    }
}

pub(crate) fn actions(builder: WorldBuilder, log: &Log) -> WorldBuilder {
    log.begin_life();
    let builder = builder.action(Leaf(log.clone())).action(Tree).action(Only(log.clone()));
    let builder = builder.action(Narrow(log.clone())).action(Ask(log.clone()));
    let narrow = Queue::new("narrow").size(2).rate(3, Duration::from_secs(10));
    // Plans leave memory soon, so that they are read again.
    builder.queue(narrow).plan_idle(Duration::from_secs(1))
}
