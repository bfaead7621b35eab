//! Workloads that crash: orders with retries, approvals with events and timers, sums that fan out, and
//! plans whose steps fail and are left out or taken back; and plans that take turns.

#[path = "../faults/workloads.rs"]
pub(crate) mod faults;
#[path = "turns.rs"]
mod turns;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    output, Action, ActionError, Finalize, Finalizes, Input, Next, Planner, Rescue, RetryPolicy,
    Revert, Reverts, Run, RunAsync, Runs, RunsAsync, StepContext, WorldBuilder,
};
use turnwheel_runtime::Backoff;
use turnwheel_testkit::{Client, CrashPoints, CrashReport, Workload};

use faults::{each, Each};

/// What a piece of work is to do.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Job {
    name: String,
    numbers: Vec<Input<u64>>,
    /// Attempts that fail before one is good.
    failures: u32,
    /// How its failure is rescued.
    rescue: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Made {
    sum: u64,
    is_final: bool,
}

/// Adds numbers; fails as often as it is told.
struct Work;

impl Action for Work {
    const NAME: &'static str = "work";
    type Input = Job;
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

impl RunAsync for Work {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.attempt() <= step.input.failures {
            return Err(ActionError::new(step.input.rescue.clone(), "as it was told"));
        }
        step.output.sum = 0;
        for number in &step.input.numbers {
            step.output.sum += number.get()?;
        }
        Ok(Next::Done)
    }
}

impl Finalize for Work {
    fn finalize(&self, step: &mut StepContext<Self>) -> Result<(), ActionError> {
        step.output.is_final = true;
        Ok(())
    }
}

impl Revert for Work {
    fn revert(&self, step: &mut StepContext<Self>) -> Result<(), ActionError> {
        step.output.sum = 0;
        Ok(())
    }
}

fn job(name: &str, numbers: Vec<Input<u64>>) -> Job {
    Job { name: name.to_owned(), numbers, ..Job::default() }
}

/// Three steps, each with the output of the one before; the second fails once.
struct Order;

impl Action for Order {
    const NAME: &'static str = "order";
    type Input = u64;
    type Output = Made;
    type Phases = Runs;

    fn plan(&self, planner: &mut Planner<'_, Self>, number: u64) -> Result<(), ActionError> {
        let reserve = planner.plan_action::<Work>(job("reserve", vec![number.into()]))?;
        let numbers = vec![Input::from(output!(reserve => sum)?), 100.into()];
        let failures = u32::from(number % 2 == 0);
        let charge = Job { failures, ..job("charge", numbers) };
        let charge = planner.plan_action::<Work>(charge)?;
        planner.plan_action::<Work>(job("ship", vec![Input::from(output!(charge => sum)?)]))?;
        planner.plan_self(number)?;
        Ok(())
    }
}

impl Run for Order {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output.sum = step.input;
        Ok(Next::Done)
    }
}

/// Many sums at once, and their sum.
struct Fan;

impl Action for Fan {
    const NAME: &'static str = "fan";
    type Input = u64;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, width: u64) -> Result<(), ActionError> {
        let mut sums = Vec::new();
        for number in 0..width {
            let part = planner.plan_action::<Work>(job("part", vec![number.into()]))?;
            sums.push(Input::from(output!(part => sum)?));
        }
        planner.plan_action::<Work>(job("whole", sums))?;
        Ok(())
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Approved {
    /// The timer is set when this is stored: both are the end of one call.
    is_timed: bool,
    numbers: Vec<u64>,
}

/// Waits until it has three events, of which one comes from its timer.
struct Approval;

impl Action for Approval {
    const NAME: &'static str = "approval";
    type Input = String;
    type Output = Approved;
    type Phases = Runs;
}

impl Run for Approval {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if !step.output.is_timed {
            step.event_after(Duration::from_secs(600), &7_u64)?;
            step.output.is_timed = true;
        }
        step.output.numbers.extend(step.event::<u64>()?);
        if step.output.numbers.len() < 3 {
            return Ok(Next::suspend("the next event"));
        }
        Ok(Next::Done)
    }
}

/// Two steps, of which the second fails for good.
struct Trouble;

impl Action for Trouble {
    const NAME: &'static str = "trouble";
    type Input = String;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, rescue: String) -> Result<(), ActionError> {
        planner.sequence(|planner| {
            planner.plan_action::<Work>(job("good", vec![1.into()]))?;
            planner.plan_action::<Work>(Job { failures: 9, rescue, ..job("bad", Vec::new()) })?;
            planner.plan_action::<Work>(job("after", vec![2.into()]))?;
            Ok(())
        })
    }
}

fn actions(builder: WorldBuilder) -> WorldBuilder {
    builder.action(Work).action(Order).action(Fan).action(Approval).action(Trouble)
}

/// Orders that come while others run.
pub(crate) struct Orders(pub(crate) u64);

impl Workload for Orders {
    fn name(&self) -> &str {
        "orders"
    }

    fn world(&self, builder: WorldBuilder) -> WorldBuilder {
        actions(builder)
    }

    async fn client(&self, client: Client) -> Result<(), String> {
        let mut plans = Vec::new();
        for number in 1..=self.0 {
            plans.push(client.trigger::<Order>(&format!("order {number}"), number).await?);
        }
        for (plan, number) in plans.into_iter().zip(1..) {
            let view = client.finished(plan).await?;
            let ship =
                view.actions.iter().rfind(|action| action.name == "work").ok_or("no ship")?;
            let made = ship.output.read::<Made>().map_err(|error| error.to_string())?;
            if made != (Made { sum: number + 100, is_final: true }) {
                return Err(format!("order {number} has made {made:?}"));
            }
        }
        Ok(())
    }
}

/// Approvals: their events come from the client, and one from a timer.
pub(crate) struct Approvals(pub(crate) u64);

impl Workload for Approvals {
    fn name(&self) -> &str {
        "approvals"
    }

    fn world(&self, builder: WorldBuilder) -> WorldBuilder {
        actions(builder).plan_idle(Duration::from_secs(1))
    }

    async fn client(&self, client: Client) -> Result<(), String> {
        let mut plans = Vec::new();
        for number in 1..=self.0 {
            let key = format!("approval {number}");
            plans.push(client.trigger::<Approval>(&key, key.clone()).await?);
        }
        for plan in &plans {
            client.event::<Approval>(*plan, "first", &1_u64).await?;
        }
        client.pause(Duration::from_secs(30)).await;
        for plan in &plans {
            client.event::<Approval>(*plan, "second", &2_u64).await?;
        }
        for plan in plans {
            let view = client.finished(plan).await?;
            let output = view.output::<Approval>().map_err(|error| error.to_string())?;
            let mut numbers = output.numbers;
            numbers.sort_unstable();
            if numbers != [1, 2, 7] {
                return Err(format!("plan {plan} has got {numbers:?}"));
            }
        }
        Ok(())
    }
}

/// Sums that fan out.
pub(crate) struct Sums(pub(crate) u64);

impl Workload for Sums {
    fn name(&self) -> &str {
        "sums"
    }

    fn world(&self, builder: WorldBuilder) -> WorldBuilder {
        actions(builder)
    }

    async fn client(&self, client: Client) -> Result<(), String> {
        let wide = client.trigger::<Fan>("wide", self.0).await?;
        let narrow = client.trigger::<Fan>("narrow", 2).await?;
        for (plan, width) in [(wide, self.0), (narrow, 2)] {
            let view = client.finished(plan).await?;
            let whole = view.actions.last().ok_or("no action")?;
            let made = whole.output.read::<Made>().map_err(|error| error.to_string())?;
            if made.sum != width * (width - 1) / 2 {
                return Err(format!("{width} sums have made {made:?}"));
            }
        }
        Ok(())
    }
}

/// Plans whose steps fail for good.
pub(crate) struct Troubles;

impl Workload for Troubles {
    fn name(&self) -> &str {
        "troubles"
    }

    fn world(&self, builder: WorldBuilder) -> WorldBuilder {
        actions(builder)
    }

    async fn client(&self, client: Client) -> Result<(), String> {
        let mut plans = Vec::new();
        for rescue in ["skip", "revert", "fail"] {
            plans.push((rescue, client.trigger::<Trouble>(rescue, rescue.to_owned()).await?));
        }
        for (rescue, plan) in plans {
            let result = client.finished(plan).await?.result().name();
            let expected = match rescue {
                "skip" => "warning",
                "revert" => "reverted",
                _ => "error",
            };
            if result != expected {
                return Err(format!("{rescue} gives {result}"));
            }
        }
        Ok(())
    }
}

/// Crash points.
#[derive(Debug)]
struct CrashRuns<T> {
    options: CrashPoints,
    schedules: CrashPoints,
    /// Is told what came of a workload.
    told: T,
    report: CrashReport,
}

impl<T: FnMut(&str, &CrashReport)> Each for CrashRuns<T> {
    fn one<W: Workload>(&mut self, is_long: bool, make: impl Fn() -> W) {
        let name = make().name().to_owned();
        let tried = if is_long { &self.schedules } else { &self.options }.run(make);
        (self.told)(&name, &tried);
        self.report.add(tried);
    }
}

/// All workloads, those of the fault runs among them. Schedules may have fewer points: they take
/// long.
pub(crate) fn all(
    options: &CrashPoints,
    schedules: &CrashPoints,
    told: impl FnMut(&str, &CrashReport),
) -> CrashReport {
    let (options, schedules) = (options.clone(), schedules.clone());
    let mut runs = CrashRuns { options, schedules, told, report: CrashReport::default() };
    runs.one(false, || Orders(3));
    runs.one(false, || Approvals(2));
    runs.one(false, || Sums(6));
    runs.one(false, || Troubles);
    runs.one(false, || turns::Turns(3));
    each(&mut runs);
    runs.report
}
