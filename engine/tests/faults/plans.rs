//! Workloads of plans: trees, sub-plans, chains, delays, locks, queues, polling, rescue, cancel,
//! retention, plans that continue as new.

use std::time::Duration;

use turnwheel_engine::{
    Action, Delay, Plan, PlanId, PlanResult, PlanState, Retention, TriggerOptions, WorldBuilder,
};
use turnwheel_testkit::{Client, Workload};

use super::actions::{actions, Ask, Do, Leaf, Log, Made, Narrow, Only, Tree};

/// Subject of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Trees,
    SubPlans,
    Chains,
    Events,
    Locks,
    Queues,
    Polling,
    Rescues,
    Cancels,
    Retention,
    Continued,
}

impl Subject {
    pub(crate) const ALL: [Self; 11] = [
        Self::Trees,
        Self::SubPlans,
        Self::Chains,
        Self::Events,
        Self::Locks,
        Self::Queues,
        Self::Polling,
        Self::Rescues,
        Self::Cancels,
        Self::Retention,
        Self::Continued,
    ];
}

pub(crate) struct Plans {
    pub(crate) subject: Subject,
    log: Log,
}

impl Plans {
    pub(crate) fn new(subject: Subject) -> Self {
        Self { subject, log: Log::default() }
    }
}

impl Workload for Plans {
    fn name(&self) -> &str {
        match self.subject {
            Subject::Trees => "trees",
            Subject::SubPlans => "sub-plans",
            Subject::Chains => "chains",
            Subject::Events => "events",
            Subject::Locks => "locks",
            Subject::Queues => "queues",
            Subject::Polling => "polling",
            Subject::Rescues => "rescues",
            Subject::Cancels => "cancels",
            Subject::Retention => "retention",
            Subject::Continued => "plans that continue as new",
        }
    }

    fn world(&self, builder: WorldBuilder) -> WorldBuilder {
        let builder = actions(builder, &self.log);
        match self.subject {
            Subject::Retention => builder.keep(Retention::older_than(Duration::from_secs(30))),
            _ => builder,
        }
    }

    fn may_forget(&self) -> bool {
        self.subject == Subject::Retention
    }

    fn verdict(&self, plans: &[&Plan]) -> Result<(), String> {
        self.log.verdict(plans)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(7_200)
    }

    async fn client(&self, client: Client) -> Result<(), String> {
        match self.subject {
            Subject::Trees => trees(&client).await,
            Subject::SubPlans => sub_plans(&client).await,
            Subject::Chains => chains(&client).await,
            Subject::Events => events(&client).await,
            Subject::Locks => locks(&client).await,
            Subject::Queues => queues(&client).await,
            Subject::Polling => polling(&client).await,
            Subject::Rescues => rescues(&client).await,
            Subject::Cancels => cancels(&client, &self.log).await,
            Subject::Retention => retention(&client).await,
            Subject::Continued => continued(&client).await,
        }
    }
}

/// The plan ends so.
pub(super) async fn ends(client: &Client, plan: PlanId, result: PlanResult) -> Result<(), String> {
    let view = client.finished(plan).await?;
    if view.result() != result {
        let (is, is_to_be) = (view.result().name(), result.name());
        return Err(format!("plan {plan} ends as {is}, not as {is_to_be}: {}", view.waits_for()));
    }
    Ok(())
}

/// The plan has made this.
pub(super) async fn makes<A: Action>(
    client: &Client,
    plan: PlanId,
    is_right: impl Fn(&A::Output) -> bool,
) -> Result<(), String>
where
    A::Output: std::fmt::Debug,
{
    ends(client, plan, PlanResult::Success).await?;
    let view = client.finished(plan).await?;
    let output = view.output::<A>().map_err(|error| error.to_string())?;
    match is_right(&output) {
        true => Ok(()),
        false => Err(format!("plan {plan} has made {output:?}")),
    }
}

async fn trees(client: &Client) -> Result<(), String> {
    let leaves = vec![Do::Add(1), Do::Fail(1, "again".to_owned()), Do::Add(2)];
    let line = client.trigger::<Tree>("line", (false, leaves.clone())).await?;
    let fan = client.trigger::<Tree>("fan", (true, leaves)).await?;
    ends(client, line, PlanResult::Success).await?;
    ends(client, fan, PlanResult::Success).await
}

async fn sub_plans(client: &Client) -> Result<(), String> {
    let all = client.trigger::<Leaf>("all", Do::Split(3, None)).await?;
    let limited = client.trigger::<Leaf>("limited", Do::Split(4, Some(2))).await?;
    makes::<Leaf>(client, all, |made: &Made| made.sum == 3).await?;
    makes::<Leaf>(client, limited, |made: &Made| made.sum == 4).await
}

async fn chains(client: &Client) -> Result<(), String> {
    let first = client.trigger::<Leaf>("first", Do::Rest(20)).await?;
    let later = Delay::by(Duration::from_secs(5));
    let later = client.delay::<Leaf>("later", later, Do::Add(1)).await?;
    let second = client.delay::<Leaf>("second", Delay::after([first]), Do::Rest(3)).await?;
    let both = Delay::after([later, second]);
    let third = client.delay::<Leaf>("third", both, Do::Add(3)).await?;
    for plan in [first, later, second, third] {
        ends(client, plan, PlanResult::Success).await?;
    }
    Ok(())
}

async fn events(client: &Client) -> Result<(), String> {
    let one = client.trigger::<Leaf>("one", Do::Hear(3)).await?;
    let other = client.trigger::<Leaf>("other", Do::Hear(3)).await?;
    for (id, number) in [("first", 1_u64), ("second", 2)] {
        for plan in [one, other] {
            client.event::<Leaf>(plan, id, &number).await?;
        }
        client.pause(Duration::from_secs(30)).await;
    }
    for plan in [one, other] {
        let is_right = |made: &Made| {
            let mut heard = made.heard.clone();
            heard.sort_unstable();
            heard == [1, 2, 7]
        };
        makes::<Leaf>(client, plan, is_right).await?;
    }
    Ok(())
}

async fn locks(client: &Client) -> Result<(), String> {
    let mut plans = Vec::new();
    for (key, number) in [("a", 1), ("a", 2), ("b", 3), ("a", 4)] {
        let input = (key.to_owned(), 10);
        plans.push(client.trigger::<Only>(&format!("only {number}"), input).await?);
    }
    for plan in plans {
        ends(client, plan, PlanResult::Success).await?;
    }
    Ok(())
}

async fn queues(client: &Client) -> Result<(), String> {
    let mut plans = Vec::new();
    for number in 0..5 {
        plans.push(client.trigger::<Narrow>(&format!("narrow {number}"), number).await?);
    }
    for (plan, number) in plans.into_iter().zip(1_u64..) {
        makes::<Narrow>(client, plan, |made: &u64| *made == number).await?;
    }
    Ok(())
}

async fn polling(client: &Client) -> Result<(), String> {
    let plan = client.trigger::<Ask>("ask", ()).await?;
    makes::<Ask>(client, plan, |asked| asked.answers >= 5).await
}

async fn rescues(client: &Client) -> Result<(), String> {
    let mut plans = Vec::new();
    for (rescue, result) in [
        ("skip", PlanResult::Warning),
        ("revert", PlanResult::Reverted),
        ("fail", PlanResult::Error),
    ] {
        let leaves = vec![Do::Add(1), Do::Fail(9, rescue.to_owned()), Do::Add(2)];
        plans.push((client.trigger::<Tree>(rescue, (false, leaves)).await?, result));
    }
    for (plan, result) in plans {
        ends(client, plan, result).await?;
    }
    Ok(())
}

/// Cancels plans in each phase.
async fn cancels(client: &Client, log: &Log) -> Result<(), String> {
    let unborn = client.trigger::<Leaf>("unborn", Do::Add(1)).await?;
    client.cancel(unborn).await?;
    let reverting = vec![Do::FailRevert, Do::Fail(9, "revert".to_owned())];
    let mut plans = vec![
        unborn,
        client.trigger::<Leaf>("called", Do::Long).await?,
        client.trigger::<Leaf>("finalizing", Do::FailFinal).await?,
        client.trigger::<Tree>("reverting", (false, reverting)).await?,
        client.trigger::<Narrow>("queued", 1).await?,
        client.trigger::<Leaf>("suspended", Do::Rest(100)).await?,
        client.trigger::<Leaf>("retrying", Do::Fail(2, "again".to_owned())).await?,
        client.trigger::<Leaf>("parent", Do::Split(2, Some(1))).await?,
        client.trigger::<Tree>("running", (false, vec![Do::Add(1), Do::Rest(50)])).await?,
        client.trigger::<Only>("holder", ("c".to_owned(), 60)).await?,
        client.trigger::<Only>("waiting", ("c".to_owned(), 60)).await?,
    ];
    let hour = Delay::by(Duration::from_secs(3_600));
    plans.push(client.delay::<Leaf>("delayed", hour, Do::Add(1)).await?);
    client.pause(Duration::from_millis(1_500)).await;
    for plan in plans.iter().rev() {
        client.cancel(*plan).await?;
    }
    log.release();
    let failing = [plans[2], plans[3]];
    for plan in plans {
        let result = client.finished(plan).await?.result();
        let is_right = match result {
            PlanResult::Cancelled => true,
            // A call that has ended before cannot be cancelled any more.
            PlanResult::Success => true,
            PlanResult::Error | PlanResult::Reverted => failing.contains(&plan),
            _ => false,
        };
        if !is_right {
            return Err(format!("plan {plan} ends as {}", result.name()));
        }
    }
    Ok(())
}

async fn retention(client: &Client) -> Result<(), String> {
    for number in 0..4 {
        let key = format!("short {number}");
        let begun = client.trigger::<Leaf>(&key, Do::Rest(number * 20)).await?;
        client.pause(Duration::from_secs(40)).await;
        let _may_be_gone = client.world().plan(begun).view().await;
    }
    let options = TriggerOptions::new().key("long");
    let long = client
        .begin("long", || client.world().trigger_with::<Leaf>(options.clone(), Do::Rest(400)))
        .await?;
    ends(client, long, PlanResult::Success).await
}

/// Plans with several runs: events and ends of sub-plans come at the border of two.
async fn continued(client: &Client) -> Result<(), String> {
    let again = client.trigger::<Leaf>("again", Do::Again(3, 0)).await?;
    let hears = client.trigger::<Leaf>("hears", Do::HearAgain(3, Vec::new())).await?;
    for (id, number) in [("first", 1_u64), ("second", 2), ("third", 3)] {
        send(client, hears, id, number).await?;
    }
    makes::<Leaf>(client, again, |made: &Made| made.sum == 4).await?;
    let is_right = |made: &Made| {
        let (timed, sent): (Vec<u64>, Vec<u64>) = made.heard.iter().partition(|it| **it == 7);
        (timed.len(), &sent[..]) == (1, &[1, 2, 3])
    };
    makes::<Leaf>(client, hears, is_right).await
}

/// Sends an event to the step of a plan in whichever run it is, unless the plan is over.
async fn send(client: &Client, plan: PlanId, id: &str, number: u64) -> Result<(), String> {
    let send = || async {
        let view = client.world().plan(plan).view().await.map_err(|error| error.to_string())?;
        if view.state == PlanState::Stopped {
            return Ok(());
        }
        let step = view.run_step::<Leaf>().ok_or("it has no step")?.id;
        let sent = client.world().event(plan, step, Some(id), &number).await;
        sent.map_err(|failure| failure.to_string())?.map_err(|error| error.to_string())
    };
    client.insist(send).await
}
