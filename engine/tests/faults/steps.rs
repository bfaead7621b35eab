//! Workloads of what a step promises: limits and parts, clean-ups, calls that must not be repeated, the
//! time of timers, dead letters.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use turnwheel_engine::store::{Filter, Store};
use turnwheel_engine::{
    Action, ActionError, Cause, Codec, CodedStore, Delay, Next, OnInterrupt, Plan, PlanId,
    PlanResult, PlanState, PlanView, Rescue, RetryPolicy, RunAsync, RunsAsync, StepContext, StepId,
    WorldBuilder,
};
use turnwheel_runtime::Backoff;
use turnwheel_testkit::{Client, Workload};

use super::plans::ends;

/// Subject of a workload, and what is wrong if it finds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// A limit counts once, and what a step has asked for ends with its attempt.
    Limits,
    /// A clean-up that is interrupted is repeated, and not the work.
    CleanUps,
    /// A call that was interrupted is not repeated before somebody says so, and has left nothing.
    Pauses,
    /// What waits for a time goes on soon after it, wherever the clock was meanwhile.
    Times,
    /// An event that was acknowledged is taken or is a dead letter, in the store and once.
    Letters,
}

impl Promise {
    pub(crate) const ALL: [Self; 5] =
        [Self::Limits, Self::CleanUps, Self::Pauses, Self::Times, Self::Letters];
}

/// A time limit, or the time of a timer.
const TIME: Duration = Duration::from_secs(60);

/// How much later something may be done than its time: a store fails for two minutes at most, and a
/// process is down for some seconds. A clock that was off by an hour is no reason.
const LATE_MAX: Duration = Duration::from_secs(900);

/// Contents that the codec of the dead letters does not encode.
const UNENCODABLE: &str = "unencodable";

#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// Calls that go on at the next tick.
    waiting: Vec<Waker>,
    ticks: u64,
    /// Steps whose clean-up was called.
    cleaned: HashSet<(PlanId, StepId)>,
    wrong: Option<String>,
}

impl Calls {
    /// Another life begins: calls of the one before do not go on.
    fn begin_life(&self) {
        self.0.lock().waiting.clear();
    }

    fn tick(&self) {
        let mut seen = self.0.lock();
        seen.ticks += 1;
        let waiting = std::mem::take(&mut seen.waiting);
        drop(seen);
        waiting.into_iter().for_each(Waker::wake);
    }

    async fn next_tick(&self) {
        let begun = self.0.lock().ticks;
        poll_fn(|cx| {
            let mut seen = self.0.lock();
            if seen.ticks > begun {
                return Poll::Ready(());
            }
            seen.waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// A step is called: never for its work when it was called to clean up.
    fn enter<A: Action>(&self, step: &StepContext<A>) {
        let key = (step.plan_id(), step.step_id());
        let mut seen = self.0.lock();
        if matches!(step.cause(), Cause::Skip | Cause::Cancel { .. }) {
            seen.cleaned.insert(key);
        } else if seen.cleaned.contains(&key) {
            let problem = format!("step {} of plan {} works after its clean-up", key.1, key.0);
            seen.wrong.get_or_insert(problem);
        }
    }
}

/// What an attempt does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Does {
    /// Its code does not return, in the first attempt.
    Hangs,
    /// It waits for an event that does not come, in the first attempt.
    Listens,
    /// It waits for a part that does not end, in each attempt.
    Asks,
}

/// A step with a limit.
struct Limited(Calls);

impl Action for Limited {
    const NAME: &'static str = "limited";
    type Input = Does;
    type Output = ();
    type Phases = RunsAsync;

    fn limit(&self) -> Option<Duration> {
        Some(TIME)
    }

    fn retry(&self) -> RetryPolicy {
        // A store that fails for longer than the limit takes an attempt away.
        RetryPolicy::attempts(5).pauses(Backoff::constant(Duration::from_secs(5)))
    }

    fn rescue(&self, _: &ActionError) -> Rescue {
        Rescue::Skip
    }
}

impl RunAsync for Limited {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        match &step.input {
            Does::Asks => {
                step.ask::<Endless>(1, &())?;
                return Ok(Next::suspend("its part"));
            }
            _ if step.attempt() > 1 => return Ok(Next::Done),
            Does::Listens => return Ok(step.wait_for_event("an event")),
            Does::Hangs => {}
        }
        while !step.is_cancelled() {
            self.0.next_tick().await;
        }
        Ok(Next::Done)
    }
}

/// Waits for an event that does not come.
struct Endless;

impl Action for Endless {
    const NAME: &'static str = "endless";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Endless {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Ok(step.wait_for_event("an event"))
    }
}

/// Fails, or waits to be cancelled; cleans up for a while.
struct Tidy(Calls);

impl Action for Tidy {
    const NAME: &'static str = "tidy";
    type Input = bool;
    type Output = bool;
    type Phases = RunsAsync;

    fn rescue(&self, _: &ActionError) -> Rescue {
        Rescue::Skip
    }

    fn cleans_up_when_skipped(&self) -> bool {
        true
    }

    fn is_cancellable(&self) -> bool {
        true
    }
}

impl RunAsync for Tidy {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        self.0.enter(step);
        if matches!(step.cause(), Cause::Skip | Cause::Cancel { .. }) {
            self.0.next_tick().await;
            step.output = true;
            return Ok(Next::Done);
        }
        match step.input {
            true => Err(ActionError::new("as told", "its work fails").and_final()),
            false => Ok(step.wait_for_event("its end")),
        }
    }
}

/// Hears two events and its timer; is not called again by itself if it is interrupted.
struct Careful(Calls);

impl Action for Careful {
    const NAME: &'static str = "careful";
    type Input = ();
    type Output = Vec<u64>;
    type Phases = RunsAsync;

    fn on_interrupt(&self) -> OnInterrupt {
        OnInterrupt::Pause
    }
}

impl RunAsync for Careful {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let Some(number) = step.event::<u64>()? else {
            step.event_after(TIME, &7_u64)?;
            return Ok(step.wait_for_event("a number"));
        };
        self.0.next_tick().await;
        step.output.push(number);
        let has_all = [1, 2, 7].iter().all(|number| step.output.contains(number));
        Ok(if has_all { Next::Done } else { step.wait_for_event("a number") })
    }
}

/// Ends with its first event; waits for a time if it is told to.
struct Single;

impl Action for Single {
    const NAME: &'static str = "single";
    type Input = bool;
    type Output = u64;
    type Phases = RunsAsync;
}

impl RunAsync for Single {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if let Some(number) = step.event::<u64>()? {
            step.output = number;
            return Ok(Next::Done);
        }
        if step.input {
            step.event_after(TIME, &7_u64)?;
        }
        Ok(step.wait_for_event("a number"))
    }
}

/// Encodes everything but one word.
struct Picky;

impl Codec for Picky {
    fn encode(&self, plain: &[u8]) -> Result<(String, Vec<u8>), String> {
        let word = UNENCODABLE.as_bytes();
        match plain.windows(word.len()).any(|part| part == word) {
            true => Err("this cannot be encoded".to_owned()),
            false => Ok(("k".to_owned(), plain.to_vec())),
        }
    }

    fn decode(&self, _: &str, coded: &[u8]) -> Result<Vec<u8>, String> {
        Ok(coded.to_vec())
    }
}

pub(crate) struct Steps {
    promise: Promise,
    calls: Calls,
}

impl Steps {
    pub(crate) fn new(promise: Promise) -> Self {
        Self { promise, calls: Calls::default() }
    }
}

impl Workload for Steps {
    fn name(&self) -> &str {
        match self.promise {
            Promise::Limits => "limits and parts",
            Promise::CleanUps => "clean-ups",
            Promise::Pauses => "calls that are not repeated",
            Promise::Times => "times",
            Promise::Letters => "dead letters",
        }
    }

    fn world(&self, builder: WorldBuilder) -> WorldBuilder {
        self.calls.begin_life();
        let calls = || self.calls.clone();
        let builder = builder.action(Limited(calls())).action(Endless).action(Tidy(calls()));
        let builder = builder.action(Careful(calls())).action(Single);
        builder.plan_idle(Duration::from_secs(1))
    }

    fn store(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        match self.promise {
            Promise::Letters => Arc::new(CodedStore::new(store, Arc::new(Picky))),
            _ => store,
        }
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(7_200)
    }

    fn verdict(&self, plans: &[&Plan]) -> Result<(), String> {
        let _all_have_ended = plans;
        self.calls.0.lock().wrong.clone().map_or(Ok(()), Err)
    }

    async fn client(&self, client: Client) -> Result<(), String> {
        match self.promise {
            Promise::Limits => self.limits(&client).await,
            Promise::CleanUps => self.clean_ups(&client).await,
            Promise::Pauses => self.pauses(&client).await,
            Promise::Times => times(&client).await,
            Promise::Letters => letters(&client).await,
        }
    }
}

impl Steps {
    async fn limits(&self, client: &Client) -> Result<(), String> {
        let begun = client.now();
        let mut plans = Vec::new();
        for (key, does, result) in [
            ("asks", Does::Asks, PlanResult::Warning),
            ("hangs", Does::Hangs, PlanResult::Success),
            ("listens", Does::Listens, PlanResult::Success),
        ] {
            plans.push((client.trigger::<Limited>(key, does).await?, result));
        }
        while let Some(view) = view_all(client, plans.iter().map(|(plan, _)| *plan)).await? {
            self.calls.tick();
            let late = in_time(client, begun, 6 * TIME);
            late.map_err(|late| format!("{late}: {} waits for {}", view.id, view.waits_for()))?;
        }
        for (plan, result) in plans {
            ends(client, plan, result).await?;
        }
        Ok(())
    }

    async fn clean_ups(&self, client: &Client) -> Result<(), String> {
        let failed = client.trigger::<Tidy>("failed", true).await?;
        let cancelled = client.trigger::<Tidy>("cancelled", false).await?;
        client.pause(Duration::from_secs(1)).await;
        client.cancel(cancelled).await?;
        while view_all(client, [failed, cancelled]).await?.is_some() {
            self.calls.tick();
        }
        ends(client, failed, PlanResult::Warning).await?;
        ends(client, cancelled, PlanResult::Cancelled).await
    }

    async fn pauses(&self, client: &Client) -> Result<(), String> {
        let plan = client.trigger::<Careful>("careful", ()).await?;
        let mut taken = HashSet::new();
        while let Some(view) = view_all(client, [plan]).await? {
            if view.state == PlanState::Paused {
                let resumed = || async {
                    let resumed = client.world().plan(plan).resume("the client").await;
                    resumed.map_err(|failure| failure.to_string())
                };
                let _has_gone_on_meanwhile = client.insist(resumed).await?;
            }
            for (id, number) in [("first", 1_u64), ("second", 2)] {
                let step = view.run_step::<Careful>().ok_or("it has no step")?.id;
                if !taken.contains(id) {
                    let sent = client.world().event(plan, step, Some(id), &number).await;
                    if matches!(sent, Ok(Ok(()))) {
                        taken.insert(id);
                    }
                }
            }
            self.calls.tick();
        }
        let heard = client.finished(plan).await?.output::<Careful>();
        let heard = heard.map_err(|error| error.to_string())?;
        match heard.iter().filter(|number| **number == 7).count() {
            1 => Ok(()),
            _ => Err(format!("it has heard {heard:?}: it has one timer")),
        }
    }
}

/// In a later life: plans go on by themselves, although nobody looks at them.
async fn ended_unattended(client: &Client) -> Result<(), String> {
    let list = || async { client.world().list(Filter::default()).await };
    if client.insist(list).await?.is_empty() {
        return Ok(());
    }
    client.pause(2 * TIME + LATE_MAX).await;
    let rows = client.insist(list).await?;
    let open = rows.iter().find(|row| row.state != PlanState::Stopped);
    match open.filter(|_| !client.was_left_in_doubt()) {
        Some(row) => Err(format!("{} waits for somebody who looks: {}", row.id, row.waits_for)),
        None => Ok(()),
    }
}

async fn times(client: &Client) -> Result<(), String> {
    ended_unattended(client).await?;
    let begun = client.now();
    let timer = client.trigger::<Single>("timer", true).await?;
    let delayed = client.delay::<Single>("delayed", Delay::by(TIME), true).await?;
    let limited = client.trigger::<Limited>("limited", Does::Listens).await?;
    for (plan, time) in [(timer, TIME), (limited, TIME), (delayed, 2 * TIME)] {
        ends(client, plan, PlanResult::Success).await?;
        in_time(client, begun, time)?;
    }
    Ok(())
}

async fn letters(client: &Client) -> Result<(), String> {
    let (one, other) = (
        client.trigger::<Single>("one", false).await?,
        client.trigger::<Single>("other", false).await?,
    );
    let view = client.insist(|| async { client.world().plan(one).view().await }).await?;
    let step = view.run_step::<Single>().ok_or("it has no step")?.id;
    if view.state != PlanState::Stopped {
        // The step ends with one of them.
        let sent = [("first", 1_u64), ("second", 2)]
            .map(|(id, number)| client.world().event(one, step, Some(id), &number));
        for sent in sent {
            let _told_or_refused = sent.await;
        }
    }
    client.event::<Single>(one, "last", &3_u64).await?;
    ends(client, one, PlanResult::Success).await?;
    client.pause(Duration::from_secs(200)).await;
    // An order that cannot be stored changes nothing, nor do letters come again with it.
    let before = client.world().dead_letters().total;
    let label = |value: &'static str| client.world().plan(other).label("side", value, "the client");
    let view = client.insist(|| async { client.world().plan(other).view().await }).await?;
    if view.state != PlanState::Stopped {
        let _refused = label(UNENCODABLE).await;
        let _may_fail = label("left").await;
    }
    match client.world().dead_letters().total - before {
        0 => {}
        more => return Err(format!("{more} more dead letters of an order that is refused")),
    }
    client.event::<Single>(other, "only", &4_u64).await?;
    ends(client, other, PlanResult::Success).await
}

/// Lets a second pass. The first of the plans that is not over; nothing if all are.
async fn view_all(
    client: &Client,
    plans: impl IntoIterator<Item = PlanId>,
) -> Result<Option<PlanView>, String> {
    client.pause(Duration::from_secs(1)).await;
    for plan in plans {
        let view = client.insist(|| async { client.world().plan(plan).view().await }).await?;
        if view.state != PlanState::Stopped {
            return Ok(Some(view));
        }
    }
    Ok(None)
}

/// Whether it is not much later than the time since then. A process that ends with a wrong clock
/// leaves dates that are wrong by as much.
fn in_time(client: &Client, begun: Duration, time: Duration) -> Result<(), String> {
    let took = client.now().saturating_sub(begun);
    match took > time + LATE_MAX && !client.was_left_in_doubt() {
        true => Err(format!("{took:?} have passed instead of {time:?}")),
        false => Ok(()),
    }
}
