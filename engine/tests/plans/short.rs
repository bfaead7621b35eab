//! Actions made by `#[action]`, and the outcome of a plan in one step.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    action, output, Action, ActionError, Cause, Input, MemoryStore, Next, OutcomeError,
    PlanFailure, PlanResult, PlanState, Planner, Poll, Polled, Rescue, RetryPolicy, StepContext,
    World, WorldBuilder,
};
use turnwheel_runtime::sim::{Sim, Stuck};
use turnwheel_runtime::Backoff;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A world in the simulation.
fn open(sim: &Sim, builder: WorldBuilder) -> Result<World, Box<dyn std::error::Error>> {
    let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
    Ok(sim.block_on(builder.open(MemoryStore::new()))??)
}

/// Waits for an outcome that needs some seconds.
fn within<F: std::future::Future + Unpin>(sim: &Sim, mut outcome: F) -> Result<F::Output, Stuck> {
    for _ in 0..20 {
        match sim.block_on(&mut outcome) {
            Ok(outcome) => return Ok(outcome),
            Err(_) => {
                sim.advance(Duration::from_secs(1));
            }
        }
    }
    sim.block_on(outcome)
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Basket {
    prices: Vec<u64>,
}

#[action]
fn sum_up(basket: &Basket) -> u64 {
    basket.prices.iter().sum()
}

#[action(name = "largest", queue = "numbers", priority = 7, version = 3)]
fn pick_largest(numbers: &[u64]) -> Result<u64, ActionError> {
    numbers.iter().copied().max().ok_or_else(|| ActionError::new("empty", "no number"))
}

/// Fails in its first attempts.
#[action(
    retry = RetryPolicy::attempts(3).pauses(Backoff::constant(Duration::from_secs(1))),
    limit = Duration::from_secs(60)
)]
async fn third_time(name: &str, step: &mut StepContext<ThirdTime>) -> Result<String, ActionError> {
    match step.attempt() {
        3 => Ok(format!("{name} at attempt 3")),
        attempt => Err(ActionError::new("early", format!("attempt {attempt}"))),
    }
}

#[action(output = u64, cancellable)]
async fn count_events(
    limit: u64,
    step: &mut StepContext<CountEvents>,
) -> Result<Next, ActionError> {
    step.output += u64::from(step.has_event());
    let is_cancelled = matches!(step.cause(), Cause::Cancel { .. });
    match step.output >= limit || is_cancelled {
        true => Ok(Next::Done),
        false => Ok(step.wait_for_event("one more")),
    }
}

#[action]
fn nothing() {}

#[test]
fn a_function_is_an_action_of_its_name() -> Outcome {
    assert_eq!((SumUp::NAME, PickLargest::NAME, PickLargest::VERSION), ("sum_up", "largest", 3));
    assert_eq!((PickLargest.queue(), PickLargest.priority()), (Some("numbers"), Some(7)));
    assert_eq!(ThirdTime.limit(), Some(Duration::from_secs(60)));
    assert!(CountEvents.is_cancellable() && !SumUp.is_cancellable());
    let sim = Sim::fifo();
    let builder = World::builder().action(SumUp).action(PickLargest).action(ThirdTime);
    let world = open(&sim, builder.action(Nothing).action(CountEvents))?;
    let basket = Basket { prices: vec![3, 4] };
    assert_eq!(sum_up(&basket), 7, "it is a function still");
    assert_eq!(sim.block_on(world.trigger::<SumUp>(basket).outcome::<SumUp>())??, 7);
    let largest = world.trigger::<PickLargest>(vec![2, 9, 4]).outcome::<PickLargest>();
    assert_eq!(sim.block_on(largest)??, 9);
    let third = world.trigger::<ThirdTime>("it".to_owned()).outcome::<ThirdTime>();
    let third = within(&sim, third);
    assert_eq!(third??, "it at attempt 3");
    sim.block_on(world.trigger::<Nothing>(()).outcome::<Nothing>())??;

    let plan = sim.block_on(world.trigger::<CountEvents>(2))??;
    let step = sim.block_on(plan.view())??.run_step::<CountEvents>().ok_or("it is there")?.id;
    for _ in 0..2 {
        sim.block_on(world.event(plan.id(), step, None, &"go"))???;
    }
    assert_eq!(sim.block_on(plan.outcome::<CountEvents>())??, 2);
    Ok(())
}

/// Charges cards, and counts what it has.
struct Charge(Arc<AtomicU64>);

#[action(name = "charge", rescue = Rescue::Revert)]
impl Charge {
    const VERSION: u32 = 2;

    fn run(&self, cents: u64, step: &mut StepContext<Self>) -> Result<String, ActionError> {
        self.0.fetch_add(cents, Ordering::Relaxed);
        Ok(self.receipt(step.attempt()))
    }

    fn revert(&self, cents: &u64, receipt: &String) {
        assert_eq!(*receipt, self.receipt(1));
        self.0.fetch_sub(*cents, Ordering::Relaxed);
    }

    fn is_cancellable(&self) -> bool {
        true
    }

    /// Its own: no method of an action.
    fn receipt(&self, attempt: u32) -> String {
        format!("receipt of attempt {attempt}")
    }
}

#[derive(Serialize, Deserialize)]
struct Parcel {
    receipt: Input<String>,
    is_lost: bool,
}

struct Ship;

#[action(rescue = Rescue::Revert, input = Parcel, output = String)]
impl Ship {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.input.receipt.get()?;
        match step.input.is_lost {
            false => Ok(Next::Done),
            true => Err(ActionError::new("lost", "the parcel is lost").and_final()),
        }
    }

    fn finalize(&self, step: &mut StepContext<Self>) -> Result<(), ActionError> {
        step.output.push_str("signed for");
        Ok(())
    }
}

struct Order;

#[action]
impl Order {
    fn plan(&self, planner: &mut Planner<'_, Self>, is_lost: bool) -> Result<(), ActionError> {
        let charge = planner.plan_action::<Charge>(700)?;
        let receipt = charge.reference(&[], |output| output)?.into();
        planner.plan_action::<Ship>(Parcel { receipt, is_lost })?;
        Ok(())
    }
}

/// Wants an output that no method tells.
#[action(input = Parcel, output = String)]
impl Unused {}
struct Unused;

#[test]
fn a_block_is_an_action_with_phases_and_compensation() -> Outcome {
    assert_eq!((Charge::NAME, Charge::VERSION, Order::NAME), ("charge", 2, "Order"));
    assert_eq!(Unused::NAME, "Unused");
    let sim = Sim::fifo();
    let charged = Arc::new(AtomicU64::new(0));
    let builder = World::builder().action(Charge(Arc::clone(&charged))).action(Ship);
    let world = open(&sim, builder.action(Order))?;
    let order = world.trigger::<Order>(false).outcome::<Ship>();
    assert_eq!(sim.block_on(order)??, "signed for");
    assert_eq!(charged.load(Ordering::Relaxed), 700);
    let lost = sim.block_on(world.trigger::<Order>(true).outcome::<Ship>())?;
    let Err(OutcomeError::Failed(PlanFailure { state, result, step, error, .. })) = lost else {
        return Err("a lost parcel is no good end".into());
    };
    assert_eq!((state, result), (PlanState::Stopped, PlanResult::Reverted));
    assert_eq!(step.map(|(_, action)| action).as_deref(), Some("Ship"));
    assert_eq!(error.map(|error| error.message).as_deref(), Some("the parcel is lost"));
    assert_eq!(charged.load(Ordering::Relaxed), 700, "taken back");
    Ok(())
}

/// Starts a job elsewhere and asks for it.
struct Backup;

#[action(limit = Duration::from_secs(3_600))]
impl Backup {
    fn start(&self, disk: &str, step: &mut StepContext<Self>) -> Result<String, ActionError> {
        Ok(format!("job {} of {disk}", step.attempt()))
    }

    fn poll(&self, job: &mut String) -> Result<Poll, ActionError> {
        job.push('.');
        match job.ends_with("...") {
            true => Ok(Poll::Done),
            false => Ok(Poll::Pending(Some(0.5))),
        }
    }

    fn pause(&self, _: u32) -> Duration {
        Duration::from_secs(1)
    }
}

#[test]
fn a_block_with_start_and_poll_polls() -> Outcome {
    let sim = Sim::fifo();
    let world = open(&sim, World::builder().action(Backup))?;
    let backup = world.trigger::<Backup>("disk".to_owned()).outcome::<Backup>();
    let polled: Polled<String> = within(&sim, backup)??;
    assert_eq!(polled.task.as_deref(), Some("job 1 of disk..."));
    assert_eq!((polled.polls, polled.failed), (3, 0));
    Ok(())
}

#[action]
fn refuse(how: String) -> Result<(), ActionError> {
    Err(ActionError::new("refused", how))
}

#[action(rescue = Rescue::Skip)]
fn refuse_and_go_on(_how: &str) -> Result<u64, ActionError> {
    Err(ActionError::new("refused", "as asked"))
}

struct Unplanned;

#[action]
impl Unplanned {
    fn plan(&self, _: &mut Planner<'_, Self>, problem: String) -> Result<(), ActionError> {
        Err(ActionError::new("plan", problem))
    }
}

#[test]
fn outputs_of_such_actions_are_inputs_of_others() -> Outcome {
    let sim = Sim::fifo();
    let builder = World::builder().action(Fill).action(Count).action(FillAndCount);
    let world = open(&sim, builder)?;
    let counted = world.trigger::<FillAndCount>(5).outcome::<Count>();
    assert_eq!(sim.block_on(counted)??, 2);
    Ok(())
}

#[test]
fn a_plan_that_did_not_end_well_has_no_outcome() -> Outcome {
    let sim = Sim::fifo();
    let builder = World::builder().action(Refuse).action(RefuseAndGoOn).action(Unplanned);
    let world = open(&sim, builder.action(CountEvents))?;

    // Paused by its failure: the text names plan, step, action and error.
    let plan = sim.block_on(world.trigger::<Refuse>("no".to_owned()))??;
    let failure = sim.block_on(plan.outcome::<Refuse>())?.expect_err("it fails");
    let text = failure.to_string();
    let id = plan.id().to_string();
    assert!(text.contains(&id) && text.contains("paused") && text.contains(": no "), "{text}");
    assert!(text.contains("«refuse»"), "{text}");

    // A step that is left out is a warning, and its output that of no call.
    let skipped = world.trigger::<RefuseAndGoOn>(String::new()).outcome::<RefuseAndGoOn>();
    assert_eq!(sim.block_on(skipped)??, 0);

    let unplanned = world.trigger::<Unplanned>("no plan".to_owned()).outcome::<Unplanned>();
    assert!(sim.block_on(unplanned)?.expect_err("it fails").to_string().contains("no plan"));

    // Under way, then cancelled.
    let plan = sim.block_on(world.trigger::<CountEvents>(9))??;
    let view = sim.block_on(plan.view())??;
    assert!(matches!(view.outcome::<CountEvents>(), Err(OutcomeError::Failed(_))));
    sim.block_on(plan.cancel("a test"))???;
    match sim.block_on(plan.outcome::<CountEvents>())? {
        Err(OutcomeError::Failed(failure)) => assert_eq!(failure.result, PlanResult::Cancelled),
        other => return Err(format!("cancelled, and its outcome is {other:?}").into()),
    }

    // Of an action that is not in the plan, and of a plan that was not taken.
    let other = sim.block_on(plan.outcome::<Refuse>())?;
    assert!(other.is_err());
    sim.block_on(world.trigger::<SumUp>(Basket::default()).outcome::<SumUp>())?
        .expect_err("it is not registered");
    Ok(())
}

/// The field of a struct by `output!`, of an action made by the macro.
#[action]
fn fill(price: u64) -> Result<Basket, ActionError> {
    Ok(Basket { prices: vec![price, price] })
}

#[derive(Serialize, Deserialize)]
struct Prices {
    prices: Input<Vec<u64>>,
}

struct Count;

#[action(input = Prices, output = u64)]
impl Count {
    async fn run(&self, input: &mut StepContext<Self>) -> Result<Next, ActionError> {
        input.output = input.input.prices.get()?.len() as u64;
        Ok(Next::Done)
    }
}

struct FillAndCount;

#[action]
impl FillAndCount {
    fn plan(&self, planner: &mut Planner<'_, Self>, price: u64) -> Result<(), ActionError> {
        let basket = planner.plan_action::<Fill>(price)?;
        planner.plan_action::<Count>(Prices { prices: output!(basket => prices)?.into() })?;
        Ok(())
    }
}

/// Polls a job, ends it and takes it back, in functions that wait for a timer of the host.
struct Slow(Arc<AtomicU64>);

#[action(output = Polled<u32>, rescue = Rescue::Revert)]
impl Slow {
    async fn start(&self, fails: bool) -> Result<u32, ActionError> {
        tick().await;
        Ok(u32::from(fails))
    }

    async fn poll(&self, task: &mut u32, fails: bool) -> Result<Poll, ActionError> {
        tick().await;
        *task += 10;
        match (*task, fails) {
            (10 | 11, _) => Ok(Poll::Pending(Some(0.5))),
            (_, true) => Err(ActionError::new("lost", "the job is lost").and_final()),
            _ => Ok(Poll::Done),
        }
    }

    fn failures_max(&self) -> u32 {
        1
    }

    async fn finalize(&self) -> Result<(), ActionError> {
        tick().await;
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn revert(&self, _fails: bool, polled: &Polled<u32>) -> Result<(), ActionError> {
        tick().await;
        assert_eq!(polled.task, Some(11));
        self.0.fetch_add(100, Ordering::Relaxed);
        Ok(())
    }
}

/// Gives its thread back once.
async fn tick() {
    let mut is_over = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut is_over, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

#[test]
fn phases_that_are_async_poll_finalize_and_revert() -> Outcome {
    let sim = Sim::new(5);
    let ends = Arc::new(AtomicU64::new(0));
    let world = open(&sim, World::builder().action(Slow(Arc::clone(&ends))))?;
    let done = within(&sim, world.trigger::<Slow>(false).outcome::<Slow>())??;
    assert_eq!((done.task, done.polls), (Some(20), 2));
    assert_eq!(ends.load(Ordering::Relaxed), 1, "its finalize phase has ended");
    let failed = within(&sim, world.trigger::<Slow>(true).outcome::<Slow>())?;
    let Err(OutcomeError::Failed(PlanFailure { result, error, .. })) = failed else {
        panic!("it has failed")
    };
    assert_eq!(result, PlanResult::Reverted);
    assert_eq!(error.map(|error| error.kind), Some("lost".to_owned()));
    assert_eq!(ends.load(Ordering::Relaxed), 101, "it was taken back");
    Ok(())
}
